"""Arms that train nothing: a step draws samples, solves the convex problems on them and judges what they give."""

from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from featscope.data import SpuriousFeatures, SpuriousSource
from featscope.numbers import running_sum
from featscope.options import require
from featscope.streams import Draws
from featscope.studies.nuclear_norm.convex import Penalty, decay, minimiser, nonnegative_minimiser, risk
from featscope.studies.nuclear_norm.quantities import described
from featscope.studies.untrained import Once, Quantity
from featscope.theory import nuclear_norm as theory

STRENGTHS = (1e-6, 0.05, 2.0, 100.0)
"""λ of weight decay with many features; 2 is as much as Proposition 6.3 asks for at any r, with constant 1."""
SIGNS = 400_000
"""Draws of a feature of each kind, whose weighted sum is seldom negative: once in 500 at γ = 0.496."""
RATIOS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 4.0)
"""d - r over r/(4γ²)."""
DECAYS = (0.05, 1.0)
"""λ of weight decay along `RATIOS`."""
NORMS = (0.001, 0.01)
"""λ of the nuclear norm along them."""
SIZES = (500, 2000, 8000)
RANKS = (1, 2, 3)
"""B_rank."""
RIDGES = (1e-3, 1e-6)
L2 = (1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 100.0)
"""λ of weight decay in the plane."""
NU = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4)
"""λ of the nuclear norm there, as it multiplies ‖Xw‖/√n."""
PRINTED = (0.76, 0.94)
"""Accuracies out of domain that Figures 6.2 and 6.3 print, of ERM and of ERM-NU."""
LEVELS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
"""Training losses at which both are compared."""


class Solved(Once):
    """What a step finds of a sample of ``options.data``."""

    def __init__(self, options: Any, draws: Draws) -> None:
        super().__init__(options, draws)
        self.source = options.data.build(draws)

    def penalised(self, square: Tensor, strength: float, linear: Tensor | None = None) -> Penalty:
        """strength (linear·w + √(wᵀ Q w))."""
        zero = torch.zeros(square.shape[-1]).to(square)
        return Penalty(zero, zero if linear is None else strength * linear.to(square), strength, square)


def right(margins: Tensor) -> Tensor:
    """Share of margins that are not negative."""
    return (margins >= 0).double().mean(-1)


@dataclass(frozen=True)
class Sums:
    """Options of `SumsSolved`: ERM with weight decay where equal weights of a kind are taken for granted.

    Attributes:
        data: r, d, γ.
        samples: to train on.
        tests: to judge by, in each domain.
    """

    data: SpuriousFeatures = field(default_factory=SpuriousFeatures)
    samples: int = 4000
    tests: int = 8000

    def __post_init__(self) -> None:
        require(self, "samples", self.samples >= 2, ">= 2")
        require(self, "tests", self.tests >= 1, ">= 1")

    def build(self, draws: Draws) -> "SumsSolved":
        """Before the sample is drawn."""
        return SumsSolved(self, draws)


class SumsSolved(Solved):
    """α and β for every λ of `STRENGTHS`, and accuracies on fresh samples; the term of (E.34), too."""

    quantities = described(
        dict.fromkeys(("alpha", "beta", "id_accuracy", "ood_accuracy", "same_sign"), (len(STRENGTHS),)), "strength"
    )

    def forward(self, draws: Draws) -> None:
        """Draw, solve, judge."""
        o, data = self.options, self.options.data
        z = self.source.sums(draws, o.samples)
        counts = torch.tensor([float(data.invariant), float(data.environmental)])
        # Weights fall with λ: each problem begins at the solution of the next stronger one.
        weights: list[Tensor] = []
        for strength in reversed(STRENGTHS):
            weights.append(minimiser(z, decay(strength, z, counts), weights[-1] if weights else None))
        w = torch.stack(weights[::-1], 1)
        inside, outside = self.source.sums(draws, o.tests), self.source.sums(draws, o.tests, shifted=True)
        one = SpuriousSource(SpuriousFeatures(1, 1, data.gamma)).sample(draws, SIGNS)
        self.keep(
            alpha=w[..., 0],
            beta=w[..., 1],
            id_accuracy=right(w @ inside.mT),
            ood_accuracy=right(w @ outside.mT),
            same_sign=right(w @ one.mT),
        )


@dataclass(frozen=True)
class Whole:
    """Options of `WholeSolved`: ERM with weight decay in all d weights.

    Attributes:
        data: r, d, γ.
        strength: λ.
    """

    data: SpuriousFeatures = field(default_factory=SpuriousFeatures)
    strength: float = 0.05

    def __post_init__(self) -> None:
        require(self, "strength", self.strength > 0, "> 0")

    def build(self, draws: Draws) -> "WholeSolved":
        """Before the sample is drawn."""
        return WholeSolved(self, draws)


class WholeSolved(Solved):
    """Weights on the first `SIZES` of a sample: means of both kinds, and how far weights of a kind are apart."""

    quantities = described(dict.fromkeys(("mean_invariant", "mean_environmental", "apart"), (len(SIZES),)), "size")

    def forward(self, draws: Draws) -> None:
        """Draw and solve."""
        z = self.source.sample(draws, SIZES[-1])
        w = torch.stack([minimiser(z[:, :n], decay(self.options.strength, z)) for n in SIZES], 1)
        kinds = w.split([self.options.data.invariant, self.options.data.environmental], -1)
        spread = sum(one.var(-1, correction=0) * one.shape[-1] for one in kinds) / w.shape[-1]
        self.keep(
            mean_invariant=kinds[0].mean(-1), mean_environmental=kinds[1].mean(-1), apart=torch.as_tensor(spread).sqrt()
        )


@dataclass(frozen=True)
class Dimensions:
    """Options of `DimensionsSolved`: more and more environmental features beside r invariant ones.

    Attributes:
        data: r and γ; environmental features are as many as the largest of `RATIOS` takes.
        samples: to train on and, fresh ones, to judge by.
    """

    data: SpuriousFeatures = field(default_factory=SpuriousFeatures)
    samples: int = 4000

    def __post_init__(self) -> None:
        require(self, "samples", self.samples >= 2, ">= 2")

    @property
    def counts(self) -> list[int]:
        """d - r for each of `RATIOS`."""
        return [round(ratio * theory.crossing(self.data.invariant, self.data.gamma)) for ratio in RATIOS]

    def build(self, draws: Draws) -> "DimensionsSolved":
        """Before the sample is drawn."""
        return DimensionsSolved(self, draws)


class DimensionsSolved(Solved):
    """α, β and accuracy out of domain of ERM with weight decay and with the nuclear norm over d - r."""

    quantities = described(
        dict.fromkeys(("alpha", "beta", "ood_accuracy"), (len(RATIOS), len(DECAYS) + len(NORMS)))
        | dict.fromkeys(("low_b", "low_a"), (len(RATIOS),)),
        "ratio",
        "penalty",
    )

    def forward(self, draws: Draws) -> None:
        """Draw, solve, judge."""
        data = self.options.data
        train, test = (self._sums(draws, shifted) for shifted in (False, True))
        found, judged = [], []
        for q, z, outside in zip(self.options.counts, train.unbind(2), test.unbind(2), strict=True):
            counts = torch.tensor([float(data.invariant), float(q)])
            linear, square = (
                torch.tensor(part).to(z) for part in theory.nuclear_norm_of_weights(data.invariant, q, data.gamma)
            )
            norms = [self.penalised(square.expand(len(z), -1, -1), strength, linear) for strength in NORMS]
            weights = [minimiser(z, decay(strength, z, counts)) for strength in DECAYS]
            w = torch.stack([*weights, *(nonnegative_minimiser(z, norm) for norm in norms)], 1)
            found.append(w)
            judged.append(right(w @ outside.mT))
        solved = torch.stack(found, 1)
        self.keep(
            alpha=solved[..., 0],
            beta=solved[..., 1],
            ood_accuracy=torch.stack(judged, 1),
            low_b=(train[..., 1] <= 0).double().mean(1),
            low_a=(train[..., 0] <= data.invariant / 4).double().mean(1),
        )

    def _sums(self, draws: Draws, shifted: bool) -> Float[Tensor, "replica sample ratio 2"]:
        """A and B for every d - r, of the same features."""
        o, found = self.options, []
        r, counts = o.data.invariant, o.counts
        for done in range(0, o.samples, 500):
            z = self.source.sample(draws, min(500, o.samples - done), shifted)
            b = running_sum(z[..., r:], -1)[..., [q - 1 for q in counts]]
            found.append(torch.stack([z[..., :r].sum(-1, keepdim=True).expand_as(b), b], -1))
        return torch.cat(found, 1)


@dataclass(frozen=True)
class Ranks:
    """Options of `RanksSolved`: ERM with a bounded number of weights, every support tried.

    Attributes:
        data: r, d, γ; d small.
        samples: to train on and, fresh ones, to judge by.
    """

    data: SpuriousFeatures = field(default_factory=SpuriousFeatures)
    samples: int = 2000

    def __post_init__(self) -> None:
        require(self, "samples", self.samples >= 2, ">= 2")

    def build(self, draws: Draws) -> "RanksSolved":
        """Before the sample is drawn."""
        return RanksSolved(self, draws)


class RanksSolved(Solved):
    """For each of `RANKS`, the best support, how far the best with an environmental feature is from the worst without,
    and accuracy out of domain; for each of `RIDGES`, the norm of the best weights of the largest rank."""

    quantities = described(
        dict.fromkeys(("best_is_invariant", "gap", "least_weight", "ood_accuracy", "other_accuracy"), (len(RANKS),)),
        "rank",
    ) | described(dict.fromkeys(("norm", "loss"), (len(RIDGES),)), "ridge")

    def forward(self, draws: Draws) -> None:
        """Draw, solve for every support, judge."""
        data, samples = self.options.data, self.options.samples
        z, outside = self.source.sample(draws, samples), self.source.sample(draws, samples, shifted=True)
        columns: dict[str, list[Tensor]] = {name: [] for name in self.quantities}
        for rank in RANKS:
            supports = list(combinations(range(data.features), rank))
            inside = torch.tensor([support[-1] < data.invariant for support in supports]).to(z.device)
            fitted = [self._fit(z[..., list(support)], RIDGES[0]) for support in supports]
            value = torch.stack([objective for _, objective in fitted], 1)
            weights = torch.stack([w for w, _ in fitted], 1)
            best = value.argmin(1)
            other = value.masked_fill(inside, torch.inf)
            picked = torch.tensor(supports).to(z.device)
            chosen, second = (
                (weights[torch.arange(len(z)), at], outside.gather(-1, picked[at][:, None].expand(-1, samples, -1)))
                for at in (best, other.argmin(1))
            )
            columns["best_is_invariant"].append(inside[best].double())
            columns["gap"].append(other.amin(1) - value.masked_fill(~inside, -torch.inf).amax(1))
            columns["least_weight"].append(chosen[0].amin(1))
            for name, (w, features) in zip(("ood_accuracy", "other_accuracy"), (chosen, second), strict=True):
                columns[name].append(right((features @ w[..., None])[..., 0]))
        for ridge in RIDGES:
            w, _ = self._fit(z[..., : RANKS[-1]], ridge)
            columns["norm"].append(w.norm(dim=-1))
            columns["loss"].append(risk(z[..., : RANKS[-1]], w))
        self.keep(**{name: torch.stack(one, 1) for name, one in columns.items()})

    def _fit(self, z: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
        w = minimiser(z, decay(ridge, z))
        return w, risk(z, w) + ridge * w.square().sum(-1) / 2


@dataclass(frozen=True)
class Plane:
    """Options of `PlaneSolved`.

    Attributes:
        data: one feature of each kind.
        samples: to train on.
        tests: to judge by, in each domain.
    """

    data: SpuriousFeatures = field(default_factory=SpuriousFeatures)
    samples: int = 20_000
    tests: int = 20_000

    def __post_init__(self) -> None:
        require(self, "samples", self.samples >= 2, ">= 2")
        require(self, "tests", self.tests >= 1, ">= 1")

    def build(self, draws: Draws) -> "PlaneSolved":
        """Before the sample is drawn."""
        return PlaneSolved(self, draws)


def _path(path: str, length: int) -> dict[str, Quantity]:
    names = ("tilt", "loss", "id_error", "ood_error")
    return described({f"{path}_{name}": (length,) for name in names}, path)


class PlaneSolved(Solved):
    """The tilt c = w_2/w_1 under weight decay and under the nuclear norm with a fixed head, over λ and over loss."""

    quantities = (
        _path("l2", len(L2))
        | _path("nu", len(NU))
        | described(dict.fromkeys(("printed_id", "printed_ood"), (len(PRINTED),)), "printed")
        | described(dict.fromkeys(("l2_matched", "nu_matched"), (len(LEVELS),)), "level")
        | described(dict.fromkeys(("mean_tilt", "lda_tilt"), ()))
    )

    def forward(self, draws: Draws) -> None:
        """Draw, solve along both paths, judge."""
        o = self.options
        z = self.source.sample(draws, o.samples)
        inside, outside = self.source.sample(draws, o.tests), self.source.sample(draws, o.tests, shifted=True)
        square, mean = z.mT @ z / o.samples, z.mean(1)
        for path, strengths in (("l2", L2), ("nu", NU)):
            found: list[Tensor] = []
            for strength in reversed(strengths):
                penalty = decay(strength, z) if path == "l2" else self.penalised(square, strength)
                found.append(minimiser(z, penalty, found[-1] if found else None))
            w = torch.stack(found[::-1], 1)
            tilt, loss = w[..., 1] / w[..., 0], torch.stack([risk(z, one) for one in w.unbind(1)], 1)
            self.keep(
                **{
                    f"{path}_tilt": tilt,
                    f"{path}_loss": loss,
                    f"{path}_id_error": 1 - right(w @ inside.mT),
                    f"{path}_ood_error": 1 - right(w @ outside.mT),
                    f"{path}_matched": _at_levels(loss, tilt),
                }
            )
        tilts = torch.tensor([[1.0, theory.tilt_of_ood(accuracy, o.data.gamma)] for accuracy in PRINTED]).to(z)
        self.keep(printed_id=right(tilts @ inside.mT), printed_ood=right(tilts @ outside.mT))
        solved = torch.linalg.solve(square, mean)
        self.keep(mean_tilt=mean[:, 1] / mean[:, 0], lda_tilt=solved[:, 1] / solved[:, 0])


def _at_levels(loss: Float[Tensor, "replica path"], tilt: Float[Tensor, "replica path"]) -> Tensor:
    """The tilt where the loss, which rises along the path, is at each of `LEVELS`, on lines between points."""
    levels = torch.tensor(LEVELS).to(loss).expand(len(loss), -1).contiguous()
    right_of = torch.searchsorted(loss.contiguous(), levels).clamp(1, loss.shape[1] - 1)
    loss_low, tilt_low, loss_high, tilt_high = (
        values.gather(1, at) for at in (right_of - 1, right_of) for values in (loss, tilt)
    )
    return tilt_low + (levels - loss_low) / (loss_high - loss_low) * (tilt_high - tilt_low)
