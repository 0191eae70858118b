"""All 2^D inputs at once: moments, the first two steps without sampling noise, and features that know no labels."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.optimize import linprog
from torch import Tensor, nn

from featscope.data import DictionaryBatch, DictionaryData
from featscope.models import Layers, first_steps, unbiased_start
from featscope.models.truncated_relu import truncated_relu
from featscope.numbers import running_sum
from featscope.options import require
from featscope.probes.ridge import ridge_fits
from featscope.streams import Draws
from featscope.theory import dictionary_learning as theory
from featscope.training import Measurement, Recursion

FEATURES = 24
"""N of the random feature maps."""
NORM = 2.0
"""B, of the weights on them."""
_MOST = 16
_ONLINE, _BATCH, _RATE = 100, 50, 0.5
_PENALTIES = (1e-6, 1e-3, 1e-1, 1.0)  # of least squares, the rivals of descent


@dataclass(frozen=True)
class Enumerated:
    """Options of `EnumeratedInputs`.

    Attributes:
        data: of which every input is taken; its samples and test set are not.
        neurons: m.
    """

    data: DictionaryData = field(default_factory=DictionaryData)
    neurons: int = 100

    def __post_init__(self) -> None:
        few = self.data.patterns <= _MOST and self.data.labels == "parity"
        require(self, "data", few, f"parities of at most {_MOST} patterns")

    def build(self, draws: Draws) -> "EnumeratedInputs":
        """All inputs, and networks on them."""
        return EnumeratedInputs(self, draws)


class EnumeratedInputs(nn.Module):
    """The population of parities, exact, and what is done on it.

    Attributes:
        present: φ̃ of every input.
        chances: their probabilities.
        labels: y.
        scale: σ̃.
        stages: networks at the start and after each of two steps.
        pulls: what pulled at them.
    """

    present: Float[Tensor, "input D"]
    chances: Float[Tensor, " input"]
    labels: Float[Tensor, " input"]

    def __init__(self, config: Enumerated, draws: Draws) -> None:
        super().__init__()
        self.options, self.neurons = config.data, config.neurons
        d, k, p = config.data.patterns, config.data.relevant, config.data.background
        present = torch.cartesian_prod(*[torch.arange(2.0, dtype=torch.float64)] * d).to(draws.device)
        count = present[:, :k].sum(1)
        chances = torch.full_like(count, 2.0**-d)
        if config.data.structured:
            low, rest = p / (2 - 2 * p), present[:, k:].sum(1)
            agreeing = ((count == 0) | (count == k)) / 2 * low**rest * (1 - low) ** (d - k - rest)
            chances = p * chances + (1 - p) * agreeing
        self.present, self.chances, self.labels = present, chances, 2 * (count % 2) - 1
        mean = chances @ present
        variance = chances @ (present - mean).square()
        one = torch.ones(draws.replicas, 1, 1, dtype=torch.float64, device=draws.device)
        self.scale = one * variance.sum().sqrt()
        inputs = (present - mean) / variance.sum().sqrt()
        self.train_set = DictionaryBatch(inputs.expand(draws.replicas, -1, -1), self.labels.expand(draws.replicas, -1))
        weights = chances.expand(draws.replicas, -1)
        self.stages, self.pulls = first_steps(unbiased_start(config.neurons, self, draws), self, 2, weights)
        drive = (2 * present - 1) @ draws.normal(d, FEATURES, dtype=torch.float64) + draws.normal(1, FEATURES).double()
        self.features = 2 * truncated_relu(drive) - 1
        self.in_more_dimensions = self._embedded(draws, weights)
        self.regret, self.added_up = self._online(draws)

    def _embedded(self, draws: Draws, chances: Tensor) -> Float[Tensor, "replica"]:
        """Largest difference of the first two steps in d = 2D dimensions, seen from the dictionary, over |W|."""
        d = self.options.patterns
        dictionary, _ = torch.linalg.qr(draws.normal(2 * d, d, dtype=torch.float64))
        inputs, labels = self.train_set
        wide = _Elsewhere(self.options, self.scale, DictionaryBatch(inputs @ dictionary.mT, labels))
        there, _ = first_steps(unbiased_start(self.neurons, wide, draws), wide, 2, chances)
        start = there[0]._replace(weights=there[0].weights @ dictionary)
        here, _ = first_steps(start, self, 2, chances)
        found = [
            (one.weights @ dictionary - two.weights).abs().amax((1, 2)) / two.weights.abs().amax((1, 2))
            for one, two in zip(there[1:], here[1:], strict=True)
        ]
        outside = there[2].weights - there[2].weights @ dictionary @ dictionary.mT
        return torch.stack([*found, outside.abs().amax((1, 2)) / there[2].weights.abs().amax((1, 2))]).amax(0)

    def _online(self, draws: Draws) -> tuple[Float[Tensor, "replica"], Float[Tensor, "replica"]]:
        """Left less right side of the online bound of Theorem A.21, for the second layer alone, which is convex.

        The right side is that of the best of some rivals: the last iterate, and least squares on all batches. Also what
        steps from 0 add up to, (2η Σ <∇_t, θ_t> + ‖θ_T‖²)/(η² T) over the mean of ‖∇_t‖² that is in the bound: 1.
        """
        inputs, labels = self.train_set
        hidden = self.stages[2]
        read = Layers(hidden.weights / hidden.weights.norm(dim=-1, keepdim=True), hidden.biases, hidden.outer)
        features = truncated_relu(read.drive(inputs))
        theta = torch.zeros_like(hidden.outer)
        batches, losses, squares, along = [], [], [], []
        places = torch.searchsorted(running_sum(self.chances, 0), draws.uniform(_ONLINE, _BATCH, dtype=torch.float64))
        for at in places.clamp(max=len(self.chances) - 1).unbind(1):
            x, y = features.gather(1, at[..., None].expand(-1, -1, features.shape[-1])), labels.gather(1, at)
            margin = y * (x @ theta[..., None])[..., 0]
            gradient = _hinge_gradient(x, y, margin)
            losses.append((1 - margin).relu().mean(1))
            squares.append(gradient.square().sum(1))
            along.append((gradient * theta).sum(1))
            batches.append((x, y))
            theta = theta - _RATE * gradient
        x, y = (torch.cat(parts, 1) for parts in zip(*batches, strict=True))
        rivals = torch.cat([theta[None], ridge_fits(x, y, _PENALTIES)])
        allowed = [
            (1 - y * (x @ rival[..., None])[..., 0]).relu().mean(1) + rival.square().sum(1) / (2 * _RATE * _ONLINE)
            for rival in rivals
        ]
        square = _mean(squares)
        added_up = (2 * _RATE * torch.stack(along).sum(0) + theta.square().sum(1)) / (_RATE**2 * _ONLINE * square)
        return _mean(losses) - torch.stack(allowed).amin(0) - _RATE * square, added_up

    @property
    def passed(self) -> Bool[Tensor, "replica 1"]:
        """Nothing moves."""
        return torch.ones(len(self.scale), 1, dtype=torch.bool, device=self.scale.device)

    def forward(self, draws: Draws) -> None:
        """Nothing moves."""


def _mean(steps: list[Float[Tensor, "replica"]]) -> Float[Tensor, "replica"]:
    return torch.stack(steps).mean(0)


def _hinge_gradient(
    x: Float[Tensor, "replica sample feature"],
    y: Float[Tensor, "replica sample"],
    margin: Float[Tensor, "replica sample"],
) -> Float[Tensor, "replica feature"]:
    return -((margin < 1) * y)[..., None].mul(x).mean(1)


class _Elsewhere:
    """What the start and the first steps read of a source."""

    def __init__(self, options: DictionaryData, scale: Tensor, train_set: DictionaryBatch) -> None:
        self.options, self.scale, self.train_set = options, scale, train_set


def measured(experiment: Recursion) -> Mapping[str, Measurement]:
    """Moments, what pulls at neurons in both steps, and what features that know no labels can do."""
    here: EnumeratedInputs = experiment.learner
    k = here.options.relevant
    inputs, labels = (one[0] for one in here.train_set)
    chances, gamma, scale = here.chances, here.options.gamma, float(here.scale[0, 0, 0])
    variance = here.options.background * (1 - here.options.background) / scale**2
    together = (chances * labels) @ inputs
    off = {
        "label": (chances @ labels).abs(),
        "absolute": ((chances @ inputs[:, k:].abs()) - 2 * variance * scale).abs().max(),
        "correlation": (together[:k] - gamma / scale).abs().max(),
        "bound": ((chances * labels.abs()) @ inputs.abs()).max() - 1 / scale,
    }
    predicted = torch.zeros_like(together)
    predicted[:k] = gamma / scale
    pulled = torch.stack([one.weights for one in here.pulls], 1)
    on, rest = pulled[..., :k].abs().mean(-1), pulled[..., k:].abs().amax(-1)
    replicas = len(here.scale)
    found = _hardest(here)
    return {
        "moment_off": Measurement(torch.stack(list(off.values())).repeat(replicas, 1), "by how much", ("moment",)),
        "correlation_off": Measurement(
            ((together - predicted).abs().max() * scale / gamma).repeat(replicas), "E[y x] off, over gamma/sigma"
        ),
        "off_on": Measurement(
            rest / on, "largest |T| off the relevant patterns over the mean on them", ("pull", "neuron")
        ),
        "inside": Measurement(here.pulls[1].inside, "share of inputs with y g < 1 after the first step"),
        "embedded": Measurement(here.in_more_dimensions, "difference of two steps in d dimensions, over |W|"),
        "regret": Measurement(here.regret, "left less right side of the online bound"),
        "added_up": Measurement(here.added_up, "what steps on the second layer add up to, over the bound's squares"),
        "least_correlation": Measurement(found["least_correlation"], "least |v_A|^2 over all A"),
        "hinge": Measurement(found["hinge"], "hinge loss of the best weights on the parity of that A"),
        "hinge_floor": Measurement(found["hinge_floor"], "hinge loss that no weights are below"),
        "best_norm": Measurement(found["best_norm"], "norm of the best weights"),
    }


def _hardest(here: EnumeratedInputs) -> Mapping[str, Float[Tensor, "replica"]]:
    """The parity that features correlate least with, ‖v_A‖², and the weights of least hinge loss on it.

    Inputs are uniform. The least loss is a linear program, whose dual has a multiplier α from 0 to 1 for each input:
    the largest mean of those for which E[α y x] = 0 is below the loss of any weights. All on the CPU.
    """
    k, d = here.options.relevant, here.options.patterns
    flip = 2.0 ** torch.arange(d - 1, -1, -1)  # rows count up with the first pattern highest; bits with 1 - 2 phi
    order = ((here.present.cpu() @ flip.double()).argsort()).numpy()
    parities, each = theory.parities(d, k), 2.0**-d
    rows = []
    for features in here.features.cpu().numpy():
        sizes = (theory.subset_correlations(features[order], k) ** 2).sum(1)
        hardest = int(sizes.argmin())
        signed = parities[hardest][:, None] * features[order]
        dual = linprog(np.full(len(signed), -each), A_eq=each * signed.T, b_eq=0 * signed[0], bounds=(0, 1))
        best = -dual.eqlin.marginals
        rows.append((sizes[hardest], np.maximum(1 - signed @ best, 0).mean(), -dual.fun, np.linalg.norm(best)))
    names = ("least_correlation", "hinge", "hinge_floor", "best_norm")
    return dict(zip(names, torch.tensor(np.array(rows)).unbind(1), strict=True))
