"""Algorithm 3 and what follows it: teachers by size, one of them chosen, and students of its answers."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from featscope.options import require, require_ascending
from featscope.streams import Draws
from featscope.studies.input_structure.inputs import Injection, Inputs
from featscope.studies.input_structure.networks import (
    Fit,
    QuadraticNetworks,
    ResidualNetworks,
    answers,
    balance,
    judged,
)

LOOKS = 12
"""Times at which a student is looked at."""
FITTED = 0.99
"""Share of training images with which the classical regime ends."""
FEWER = 4
"""By how much the smaller training set is smaller."""


@dataclass(frozen=True)
class Family:
    """Options of all experiments here.

    Attributes:
        data: what is learned and what is injected.
        kind: of the networks.
        sizes: of teachers that are tried, smallest first.
        fit: how each network is trained.
        weight: of the regulariser R.
        sharpness: λ, of R_2 within R.
    """

    data: Injection = field(default_factory=Injection)
    kind: Literal["quadratic", "residual"] = "quadratic"
    sizes: tuple[int, ...] = (2, 3, 4, 6, 9, 13, 20, 40, 100)
    fit: Fit = field(default_factory=Fit)
    weight: float = 1.0
    sharpness: float = 1.0

    def __post_init__(self) -> None:
        if len(self.sizes) != 1:
            require_ascending(self, "sizes")
        require(self, "weight", self.weight >= 0, ">= 0")
        require(self, "sharpness", self.sharpness >= 0, ">= 0")

    def network(self, sizes: Sequence[int], inputs: Inputs, draws: Draws, padded: bool = True) -> nn.Module:
        """One network a replica, of its own size; ``padded`` as sizes may differ."""
        if self.kind == "residual":
            return ResidualNetworks(sizes, inputs.classes, draws)
        widest = max(*self.sizes, *sizes) if padded else sizes[0]  # whatever the sizes of other replicas are
        return QuadraticNetworks(sizes, widest, inputs.x[0, 0].numel(), inputs.classes, draws)

    def by_size(
        self, x: Tensor, y: Tensor, tests: Tensor, labels: Tensor, inputs: Inputs, draws: Draws
    ) -> tuple[Float[Tensor, "replica size"], Float[Tensor, "replica size"], Float[Tensor, "replica size"]]:
        """Test loss, share of training images that are fitted, and test accuracy of a network of each size."""
        losses, fitted, right = [], [], []
        for size in self.sizes:
            network = self.network([size] * len(x), inputs, draws, padded=False)
            self.fit.run(network, x, y, draws)
            loss, share = judged(answers(network, tests), labels)
            losses.append(loss)
            right.append(share)
            fitted.append(judged(answers(network, x), y)[1])
        return torch.stack(losses, 1), torch.stack(fitted, 1), torch.stack(right, 1)

    def teacher(self, sizes: Sequence[int], inputs: Inputs, draws: Draws, weight: float) -> nn.Module:
        """Networks trained on the labelled images, with R on what is injected."""
        network = self.network(sizes, inputs, draws)
        replicas = torch.arange(len(inputs.x), device=inputs.x.device)[:, None]

        def penalty(uniform: Tensor) -> Tensor:
            chosen = inputs.injected[replicas, (uniform * inputs.injected.shape[1]).long()]
            first, second = balance(network(chosen).softmax(-1))
            return weight * (first + self.sharpness * second).sum()

        self.fit.run(network, inputs.x, inputs.y, draws, penalty if weight else None)
        return network


def classical_minimum(
    loss: Float[np.ndarray, "replica size"], fitted: Float[np.ndarray, "replica size"]
) -> Int[np.ndarray, " replica"]:
    """Place of the least test loss among sizes up to the first that fits 99 % of what it is trained on."""
    past = fitted >= FITTED
    end = np.where(past.any(1), past.argmax(1), loss.shape[1] - 1)
    return np.where(np.arange(loss.shape[1]) <= end[:, None], loss, np.inf).argmin(1)


class Found(nn.Module):
    """What a step finds is kept as buffers, NaN before.

    Args:
        options: see `Family`.
        shapes: name -> shape, without the replica, of all that is found.
        draws: for their number and device.
    """

    def __init__(self, options: Any, shapes: Mapping[str, tuple[int, ...]], draws: Draws) -> None:
        super().__init__()
        self.options, self.shapes = options, shapes
        for name, shape in shapes.items():
            empty = torch.full((draws.replicas, *shape), torch.nan, dtype=torch.float64, device=draws.device)
            self.register_buffer(name, empty)

    @property
    def passed(self) -> Bool[Tensor, "replica 1"]:
        """One step is all."""
        return self.get_buffer("chosen")[:, None].isfinite()

    def keep(self, **found: Tensor) -> None:
        """Write what was found."""
        for name, values in found.items():
            self.get_buffer(name).copy_(values)

    def choose(self, loss: Tensor, fitted: Tensor) -> list[int]:
        """Sizes at the classical minimum, one a replica."""
        places = classical_minimum(loss.cpu().numpy(), fitted.cpu().numpy())
        return [self.options.family.sizes[place] for place in places]


@dataclass(frozen=True)
class Mixing:
    """Options of `MixedInputs`.

    Attributes:
        family: data and networks.
        student: size of the student.
    """

    family: Family = field(default_factory=Family)
    student: int = 9

    def __post_init__(self) -> None:
        require(self, "student", self.student >= 1, ">= 1")

    @property
    def looks(self) -> list[int]:
        """Steps after which the student is looked at: often at first."""
        return [max(i, round(self.family.fit.steps * (i / (LOOKS - 1)) ** 2)) for i in range(LOOKS)]

    def build(self, draws: Draws) -> "MixedInputs":
        """Before the first network is trained."""
        return MixedInputs(self, draws)


class MixedInputs(Found):
    """A student on real and injected inputs, and one on the real ones alone, both from one start."""

    def __init__(self, options: Mixing, draws: Draws) -> None:
        sizes, looks = (len(options.family.sizes),), (LOOKS,)
        once = ("chosen", "teacher_right", "agreed", "majority", "count", "first", "second", "first_free")
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys((*once, "second_free", "margin_gap"), ())
        shapes |= dict.fromkeys(("loss", "fitted"), sizes) | dict.fromkeys(("original", "injected", "alone"), looks)
        super().__init__(options, shapes, draws)

    def forward(self, draws: Draws) -> None:
        """Teachers by size, the teacher, its labels, students."""
        o, family = self.options, self.options.family
        inputs = family.data.build(draws)
        if len(family.sizes) > 1:
            loss, fitted, _ = family.by_size(*inputs[:4], inputs, draws)
        else:
            loss = fitted = torch.zeros(draws.replicas, 1)
        sizes = self.choose(loss, fitted)
        device, steps = draws.device, draws.uniform(1).flatten().mul(2**24).long().tolist()
        teachers = {}
        for weight in (0.0, family.weight):
            teachers[weight] = family.teacher(sizes, inputs, _again(steps, device), weight)
        teacher = teachers[family.weight]
        y, test_labels, more, more_tests = (
            answers(teacher, part).argmax(-1)
            for part in (inputs.x, inputs.tests, inputs.injected, inputs.injected_tests)
        )
        pull = {w: balance(answers(one, inputs.injected_tests).double().softmax(-1)) for w, one in teachers.items()}
        curves: dict[str, list[Tensor]] = {"original": [], "injected": [], "alone": []}
        student = family.network([o.student] * draws.replicas, inputs, draws, padded=False)
        alone = deepcopy(student)

        def look() -> None:
            curves["original"].append(judged(answers(student, inputs.tests), test_labels)[1])
            curves["injected"].append(judged(answers(student, inputs.injected_tests), more_tests)[1])

        def look_alone() -> None:
            curves["alone"].append(judged(answers(alone, inputs.tests), test_labels)[1])

        mixed, labels = torch.cat([inputs.x, inputs.injected], 1), torch.cat([y, more], 1)
        seeds = draws.uniform(1).flatten().mul(2**24).long().tolist()
        family.fit.run(student, mixed, labels, _again(seeds, device), None, look, o.looks)
        family.fit.run(alone, inputs.x, y, _again(seeds, device), None, look_alone, o.looks)
        shares = torch.nn.functional.one_hot(more_tests, inputs.classes).double().mean(1)
        self.keep(
            loss=loss,
            fitted=fitted,
            chosen=torch.tensor(sizes, device=device),
            teacher_right=judged(answers(teacher, inputs.tests), inputs.test_labels)[1],
            agreed=(answers(teachers[0.0], inputs.tests).argmax(-1) == inputs.test_labels).double().mean(1),
            majority=shares.amax(1),
            count=torch.full((draws.replicas,), inputs.x.shape[1]),
            first=pull[family.weight][0],
            second=pull[family.weight][1],
            first_free=pull[0.0][0],
            second_free=pull[0.0][1],
            margin_gap=_margin(answers(teacher, inputs.tests)) - _margin(answers(teacher, inputs.injected_tests)),
            **{name: torch.stack(values, 1) for name, values in curves.items()},
        )


def _margin(logits: Float[Tensor, "replica image class"]) -> Float[Tensor, "replica"]:
    """Mean difference of the two largest probabilities."""
    most = logits.double().softmax(-1).topk(2, -1).values
    return (most[..., 0] - most[..., 1]).mean(1)


def _again(seeds: Sequence[int], device: torch.device) -> Draws:
    """Draws from seeds, one a replica; those of one seed are the same at every call."""
    return Draws(seeds, device)


@dataclass(frozen=True)
class Sizes:
    """Options of `StudentsBySize`.

    Attributes:
        family: data and networks.
        larger: sizes of teachers beside the chosen one, smallest first.
    """

    family: Family = field(default_factory=Family)
    larger: tuple[int, ...] = (50, 500)

    def __post_init__(self) -> None:
        require_ascending(self, "larger")

    def build(self, draws: Draws) -> "StudentsBySize":
        """Before the first network is trained."""
        return StudentsBySize(self, draws)


class StudentsBySize(Found):
    """Figure A.22: teachers by size on images, and students by size on Gaussians that teachers have labelled."""

    def __init__(self, options: Sizes, draws: Draws) -> None:
        size, teachers = len(options.family.sizes), 1 + len(options.larger)
        shapes: dict[str, tuple[int, ...]] = {"chosen": (), "chosen_of_fewer": (), "count": ()}
        shapes |= dict.fromkeys(("loss", "fitted", "right", "loss_of_fewer", "fitted_of_fewer"), (size,))
        shapes |= dict.fromkeys(("student_loss", "student_fitted", "student_right"), (teachers, size))
        super().__init__(options, shapes | {"least": (teachers,)}, draws)

    def forward(self, draws: Draws) -> None:
        """Teachers on all images, on a quarter of them, and students."""
        family = self.options.family
        inputs = family.data.build(draws)
        loss, fitted, right = family.by_size(*inputs[:4], inputs, draws)
        sizes = self.choose(loss, fitted)
        few = inputs.x.shape[1] // FEWER
        fewer = family.by_size(inputs.x[:, :few], inputs.y[:, :few], inputs.tests, inputs.test_labels, inputs, draws)
        found = []
        for teacher_sizes in (sizes, *([size] * draws.replicas for size in self.options.larger)):
            teacher = family.teacher(teacher_sizes, inputs, draws, family.weight)
            y, labels = (answers(teacher, part).argmax(-1) for part in (inputs.injected, inputs.injected_tests))
            found.append(family.by_size(inputs.injected, y, inputs.injected_tests, labels, inputs, draws))
        least = [self.choose(one[0], one[1]) for one in found]
        self.keep(
            loss=loss,
            fitted=fitted,
            right=right,
            chosen=torch.tensor(sizes, device=draws.device),
            chosen_of_fewer=torch.tensor(self.choose(*fewer[:2]), device=draws.device),
            loss_of_fewer=fewer[0],
            fitted_of_fewer=fewer[1],
            count=torch.full((draws.replicas,), inputs.x.shape[1]),
            student_loss=torch.stack([one[0] for one in found], 1),
            student_fitted=torch.stack([one[1] for one in found], 1),
            student_right=torch.stack([one[2] for one in found], 1),
            least=torch.tensor(least, device=draws.device).T,
        )
