"""Section 7.2.1 on finite hidden spaces: a representation is a table, and every expectation a sum over all triples."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import pi, sqrt
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize, softplus

from featscope.options import require
from featscope.streams import Draws
from featscope.studies.untrained import Once, Quantity
from featscope.theory import universality as theory

NORMS = (0.5, 1.0, 2.0, 3.0)
"""B_r of tables that are searched."""
RARE = (0.5, 0.05)
"""Probability of the second feature's second value."""
_STATES, _SPURIOUS, _OUTPUTS = 5, 3, 4
_LR = 0.05

XOR = ((-1.0, 0.0), (1.0, 0.0), (0.0, -1.0), (0.0, 1.0))
"""The text's representation of (-1, -1), (-1, 1), (1, -1), (1, 1); the label is the first coordinate."""
APART = ((-1.0, 0.0), (0.0, -1.0), (1.0, 0.0), (0.0, 1.0))
"""Another one on the same corners."""


def pair_loss(
    phi: Float[Tensor, "... r u k"],
    of_r: Float[Tensor, "... r"],
    of_u: Float[Tensor, "... u"],
    loss: Callable[[Tensor], Tensor],
    pairs: str = "augmented",
) -> Float[Tensor, "..."]:
    """E ℓ(φ(x)ᵀ(φ(x⁺) - φ(x⁻))), by enumeration.

    Args:
        phi: a row for each invariant and spurious state.
        of_r: probabilities of invariant states.
        of_u: probabilities of spurious states.
        loss: ℓ.
        pairs: "augmented" as in the text; "plain", where x⁺ = x; "unrelated", where x⁺ is independent of x.
    """
    inner = torch.einsum("...iuk,...jvk->...iujv", phi, phi)
    chance = of_r[..., :, None] * of_u[..., None, :]
    x, negative = chance[..., None, None, None, None], chance[..., None, None, None, None, :, :]
    if pairs == "unrelated":
        positive, weight = inner, chance[..., None, None, :, :]
    elif pairs == "plain":
        positive = torch.einsum("...iuiu->...iu", inner)[..., None, None]
        weight = torch.ones_like(positive)
    else:
        positive = torch.einsum("...iuiv->...iuv", inner)[..., None, :]
        weight = of_u[..., None, None, None, :]
    # [..., i, u, j⁺, v⁺, j⁻, v⁻]
    values = loss(positive[..., None, None] - inner[..., None, None, :, :])
    return (x * weight[..., None, None] * negative * values).flatten(-6).sum(-1)


@dataclass(frozen=True)
class RandomTables:
    """Options of `RandomTablesJudged`.

    Attributes:
        related: whether the two of a pair have the same invariant features.
    """

    related: bool = True

    def build(self, draws: Draws) -> "RandomTablesJudged":
        """Before anything is drawn."""
        return RandomTablesJudged(self, draws)


class RandomTablesJudged(Once):
    """Tables that nobody trained: identities and inequalities that hold for all of them."""

    quantities: ClassVar[Mapping[str, Quantity]] = {
        "off_pca": Quantity("loss for ℓ(t) = -t less minus the variance of averages over spurious features"),
        "off_linear_pca": Quantity("the same of a linear representation and the PCA objective on averaged inputs"),
        "jensen": Quantity("logistic loss less that of averages"),
        "average_norm": Quantity("largest norm of an average over B"),
        "rotated_spread": Quantity("share of variance due to spurious features, least of rotations of one table"),
        "rotated_loss": Quantity("largest difference of their losses"),
        "off_construction": Quantity("how far the proof's table is from norm B and margin 1/2"),
        "label_error": Quantity("errors of a linear classifier, mean over all labels of invariant states"),
    }

    def forward(self, draws: Draws) -> None:
        """Draw and compare."""
        pairs = "augmented" if self.options.related else "unrelated"
        of_r = (1 + draws.uniform(_STATES, dtype=torch.float64)).pow(2)
        of_u = (1 + draws.uniform(_SPURIOUS, dtype=torch.float64)).pow(2)
        of_r, of_u = of_r / of_r.sum(-1, keepdim=True), of_u / of_u.sum(-1, keepdim=True)

        def variance(table: Tensor) -> Tensor:
            means = (table * of_u[:, None, :, None]).sum(2)
            centre = (means * of_r[..., None]).sum(1, keepdim=True)
            return (of_r * (means - centre).square().sum(-1)).sum(-1)

        phi = draws.normal(_STATES, _SPURIOUS, _OUTPUTS, dtype=torch.float64)
        x = draws.normal(_STATES, _SPURIOUS, 6, dtype=torch.float64)
        w = draws.normal(_OUTPUTS, 6, dtype=torch.float64)
        averaged = (x * of_u[:, None, :, None]).sum(2)
        away = averaged - (averaged * of_r[..., None]).sum(1, keepdim=True)
        pca = ((away @ w.mT).square().sum(-1) * of_r).sum(-1)
        linear = torch.einsum("nrud,nkd->nruk", x, w)
        sphere = 2 * normalize(phi, dim=-1)
        means = (sphere * of_u[:, None, :, None]).sum(2)
        turns, _ = torch.linalg.qr(draws.normal(20, _OUTPUTS, _OUTPUTS, dtype=torch.float64))  # any rotations would do
        rotated = torch.einsum("nruk,ntkl->tnrul", sphere, turns)
        losses = torch.stack([pair_loss(one, of_r, of_u, softplus_of_minus, pairs) for one in rotated])
        spreads = torch.stack([spread(one, of_r, of_u) for one in rotated])
        # The proof's table: six states, of which the second coordinate, with two values, is left out by f.
        f = normalize(draws.normal(3, _OUTPUTS, dtype=torch.float64), dim=-1)
        norm = 1 + 2 * draws.uniform(1, dtype=torch.float64)[..., None]
        a = sqrt(0.5) / norm
        kept = ((1 - a**2).sqrt() * norm * f).repeat_interleave(2, 1)
        h = torch.cat([kept, (a * norm) * torch.eye(6).to(f).expand(len(f), -1, -1)], -1)
        own = (h * h).sum(-1)
        margin = own[:, ::2] - (h[:, ::2] * h[:, 1::2]).sum(-1)
        labels = sign_patterns(_STATES).to(phi)
        guess = (means @ draws.normal(_OUTPUTS, 1, dtype=torch.float64))[..., 0].sign()
        wrong = (guess[:, None] != labels).to(phi)
        self.keep(
            off_pca=(pair_loss(phi, of_r, of_u, torch.neg, pairs) + variance(phi)).abs(),
            off_linear_pca=(pair_loss(linear, of_r, of_u, torch.neg, pairs) + pca).abs(),
            jensen=pair_loss(sphere, of_r, of_u, softplus_of_minus, pairs)
            - pair_loss(means[:, :, None], of_r, torch.ones_like(of_u[:, :1]), softplus_of_minus),
            average_norm=means.norm(dim=-1).amax(-1) / 2,
            rotated_spread=spreads.amin(0),
            rotated_loss=(losses - losses[:1]).abs().amax(0),
            off_construction=torch.cat([(own.sqrt() - norm[..., 0]).abs(), (margin - 0.5).abs()], 1).amax(1),
            label_error=(wrong * of_r[:, None]).sum(-1).mean(-1),
        )


def sign_patterns(count: int) -> Float[Tensor, "pattern count"]:
    """All ways to choose ``count`` signs."""
    return torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * count)


def softplus_of_minus(t: Tensor) -> Tensor:
    """The logistic loss."""
    return softplus(-t)


def spread(phi: Float[Tensor, "*n r u k"], of_r: Tensor, of_u: Tensor) -> Float[Tensor, "*n"]:
    """Share of the variance of φ that is due to spurious features."""
    means = (phi * of_u[..., None, :, None]).sum(-2, keepdim=True)
    centre = (means * of_r[..., None, None]).sum(-3, keepdim=True)
    chance = of_r[..., :, None] * of_u[..., None, :]
    inside, whole = ((chance * (phi - at).square().sum(-1)).sum((-2, -1)) for at in (means, centre))
    return inside / whole


@dataclass(frozen=True)
class SearchedTables:
    """Options of `SearchedTablesFound`: three by two invariant and two spurious states, a free point for each.

    Attributes:
        outputs: dimensions of points.
        steps: of Adam.
        augmented: whether spurious features of a pair differ.
    """

    outputs: int = 6
    steps: int = 600
    augmented: bool = True

    def __post_init__(self) -> None:
        require(self, "outputs", self.outputs >= 2, ">= 2")
        require(self, "steps", self.steps >= 1, ">= 1")

    def build(self, draws: Draws) -> "SearchedTablesFound":
        """Before anything is drawn."""
        return SearchedTablesFound(self, draws)


class SearchedTablesFound(Once):
    """Tables of least logistic loss, over norms and over the second feature's probability."""

    quantities: ClassVar[Mapping[str, Quantity]] = {
        "spurious_share": Quantity("share of variance due to spurious features", ("rarity", "norm"), (2, 4)),
        "distance": Quantity("mean distance over B of the second feature's two values", ("rarity", "norm"), (2, 4)),
        "threshold": Quantity("B_i of Theorem 7.2's proof", ("rarity",), (2,)),
    }

    def forward(self, draws: Draws) -> None:
        """Search."""
        o = self.options
        start = draws.normal(len(RARE) * len(NORMS), 6, 2, o.outputs, dtype=torch.float64)
        rare, norm = (torch.tensor(values, dtype=torch.float64) for values in (RARE, NORMS))
        rare, norm = rare.repeat_interleave(len(NORMS)), norm.repeat(len(RARE)).to(start)
        of_r = (torch.stack([1 - rare, rare], -1)[:, None] / 3).expand(-1, 3, -1).flatten(1).to(start)
        of_u = torch.full((len(rare), 2), 0.5).to(start)
        pairs = "augmented" if o.augmented else "plain"

        def table(free: Tensor) -> Tensor:
            return norm[:, None, None, None] * normalize(free, dim=-1)

        def loss(free: Tensor) -> Tensor:
            # Losses of small norms differ little: by norm, all fall alike.
            return (pair_loss(table(free), of_r, of_u, softplus_of_minus, pairs) / norm).sum()

        phi = table(descended(start, loss, o.steps))
        share = spread(phi, of_r, of_u).unflatten(-1, (2, 4))
        points = phi.mean(-2).unflatten(-2, (3, 2))
        distance = ((points[..., 0, :] - points[..., 1, :]).norm(dim=-1).mean(-1) / norm).unflatten(-1, (2, 4))
        thresholds = [theory.encoding_threshold(2 * e * (1 - e) / 3, 2 / 3) for e in RARE]
        self.keep(spurious_share=share, distance=distance, threshold=torch.tensor(thresholds).to(share))


def descended(start: Tensor, loss: Callable[[Tensor], Tensor], steps: int) -> Tensor:
    """Where Adam comes from ``start``, its steps falling to 0."""
    with torch.enable_grad():
        free = start.clone().requires_grad_()
        optimizer = torch.optim.Adam([free], lr=_LR)
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = _LR * (1 - step / steps)
            optimizer.zero_grad()
            value: Any = loss(free)
            value.backward()
            optimizer.step()
    return free.detach()


@dataclass(frozen=True)
class FourStates:
    """Options of `FourStatesFound`: two signs, all four equally likely, on the unit sphere (Section F.1.1).

    Attributes:
        outputs: dimensions of the sphere's space, 2 as in the text, or 3.
        restarts: random starts.
        steps: of Adam.
    """

    outputs: int = 2
    restarts: int = 30
    steps: int = 300

    def __post_init__(self) -> None:
        require(self, "outputs", self.outputs in (2, 3), "2 or 3")
        require(self, "restarts", self.restarts >= 1, ">= 1")
        require(self, "steps", self.steps >= 1, ">= 1")

    def build(self, draws: Draws) -> "FourStatesFound":
        """Before anything is drawn."""
        return FourStatesFound(self, draws)


class FourStatesFound(Once):
    """The text's representation, the best that is found, and what linear classifiers do on it."""

    quantities: ClassVar[Mapping[str, Quantity]] = {
        "printed_loss": Quantity("logistic loss of the text's representation"),
        "apart_loss": Quantity("logistic loss of the other one on the same corners"),
        "start_loss": Quantity("mean loss of random starts"),
        "best_loss": Quantity("least loss of all starts"),
        "off_chance": Quantity("largest distance of an accuracy without intercept from 1/2"),
        "with_intercept": Quantity("best accuracy of a linear classifier with an intercept"),
        "apart_accuracy": Quantity("best accuracy without intercept on the other one"),
        "line_left_out": Quantity("share of optima on a line that leave the second feature out"),
    }

    def forward(self, draws: Draws) -> None:
        """Search and classify."""
        o = self.options
        start = draws.normal(o.restarts, 4, o.outputs, dtype=torch.float64)

        def losses(points: Tensor) -> Tensor:
            inner = points @ points.mT
            return softplus_of_minus(inner.diagonal(dim1=-2, dim2=-1)[..., None] - inner).mean((-2, -1))

        best = normalize(descended(start, lambda free: losses(normalize(free, dim=-1)).sum(), o.steps), dim=-1)
        printed, apart = (torch.tensor(one).to(start) for one in (XOR, APART))
        label = torch.tensor([-1.0, -1.0, 1.0, 1.0]).to(start)
        angle = 2 * pi * draws.uniform(500, dtype=torch.float64)
        ways = torch.stack([angle.cos(), angle.sin()], -1)
        cut = 2 * draws.uniform(500, dtype=torch.float64) - 1

        def right(points: Tensor, shift: Tensor | float = 0.0) -> Tensor:
            guess = ways @ points.mT - (shift[..., None] if isinstance(shift, Tensor) else shift)
            return (guess * label > 0).to(points).mean(-1)

        # On a line of two points at distance B from 0, tables are signs of the four states.
        signs = 3 * sign_patterns(4).to(start)
        on_line = losses(signs[..., None])
        optimal = on_line < on_line.min() + 1e-12
        left_out = (signs[:, 0] == signs[:, 1]) & (signs[:, 2] == signs[:, 3])
        ones = torch.ones(len(start)).to(start)
        self.keep(
            printed_loss=losses(printed) * ones,
            apart_loss=losses(apart) * ones,
            start_loss=losses(normalize(start, dim=-1)).mean(-1),
            best_loss=losses(best).amin(-1),
            off_chance=(right(printed) - 0.5).abs().amax(-1),
            with_intercept=right(printed, cut).amax(-1),
            apart_accuracy=right(apart).amax(-1),
            line_left_out=(optimal & left_out).double().sum() / optimal.sum() * ones,
        )
