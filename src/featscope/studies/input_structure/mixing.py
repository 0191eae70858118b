"""What follows Algorithm 3: a teacher of a chosen size, its labels, and students of them."""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import one_hot

from featscope.numbers import per_replica
from featscope.options import require
from featscope.streams import Draws
from featscope.studies.input_structure.inputs import Injection, Inputs
from featscope.studies.input_structure.networks import (
    Adam,
    Fit,
    QuadraticNetworks,
    ResidualNetworks,
    answers,
    balance,
    fitted,
    judged,
)
from featscope.studies.input_structure.stages import Stage, Stages

LOOKS = 12
"""Times at which a student is looked at."""
_BELOW_ONE = 1 - 2**-24


@dataclass(frozen=True)
class Family:
    """Options of all experiments here.

    Attributes:
        data: what is learned and what is injected.
        kind: of the networks.
        fit: how each network is trained.
        weight: of the regulariser R.
        sharpness: λ, of R_2 within R.
    """

    floats_per_replica: ClassVar[bool] = True

    data: Injection = field(default_factory=Injection)
    kind: Literal["quadratic", "residual"] = "quadratic"
    fit: Fit = field(default_factory=Fit)
    weight: float = 1.0
    sharpness: float = 1.0

    def __post_init__(self) -> None:
        require(self, "weight", self.weight >= 0, ">= 0")
        require(self, "sharpness", self.sharpness >= 0, ">= 0")

    def network(self, size: int, inputs: Inputs, draws: Draws) -> nn.Module:
        """A network of ``size`` for each replica."""
        if self.kind == "residual":
            return ResidualNetworks(size, inputs.classes, draws)
        return QuadraticNetworks(size, inputs.x[0, 0].numel(), inputs.classes, draws)

    def pull(self, network: nn.Module, inputs: Inputs, uniform: Float[Tensor, "replica batch"]) -> Float[Tensor, ""]:
        """R on injected inputs that ``uniform`` picks, summed over networks; those of a replica are side by side."""
        picked = pick(inputs.injected, uniform)
        first, second = balance(network(picked).softmax(-1))
        return (per_replica(self.weight, first) * (first + per_replica(self.sharpness, first) * second)).sum()


def pick(values: Tensor, uniform: Float[Tensor, "replica batch"]) -> Tensor:
    """Of ``values`` ``[replica, n, ...]`` those that ``uniform`` in [0, 1) picks, ``[replica, batch, ...]``."""
    replicas = torch.arange(len(values), device=values.device)[:, None]
    return values[replicas, (uniform * values.shape[1]).long()]


@dataclass(frozen=True)
class Mixing:
    """Options of `MixedInputs`.

    Attributes:
        family: data and networks.
        teacher: its size.
        student: the student's.
    """

    family: Family = field(default_factory=Family)
    teacher: int = 6
    student: int = 9

    def __post_init__(self) -> None:
        for name in ("teacher", "student"):
            require(self, name, getattr(self, name) >= 1, ">= 1")

    @property
    def looks(self) -> list[int]:
        """Steps after which the student is looked at: often at first."""
        return [max(i, round(self.family.fit.steps * (i / (LOOKS - 1)) ** 2)) for i in range(LOOKS)]

    def build(self, draws: Draws) -> "MixedInputs":
        """Before the first step."""
        return MixedInputs(self, draws)


class MixedInputs(Stages):
    """Teachers with R and without it, from one start; then a student on real and injected inputs, and one on the real
    ones alone, from one start and in as many steps.
    """

    def __init__(self, options: Mixing, draws: Draws) -> None:
        once = ("teacher_right", "free_right", "majority", "count", "first", "second", "first_free")
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys((*once, "second_free", "margin_gap"), ())
        shapes |= dict.fromkeys(("original", "injected", "alone"), (LOOKS,))
        family = options.family
        kind = MixedInputs
        stages = [Stage("teachers", kind._teach, kind._judge_teachers), Stage("students", kind._learn, kind.nothing)]
        super().__init__(stages, family.fit, shapes, draws)
        self.options, self.inputs = options, family.data.build(draws)
        teacher = family.network(options.teacher, self.inputs, draws)
        student = family.network(options.student, self.inputs, draws)
        self.teachers = Adam(nn.ModuleList([teacher, deepcopy(teacher)]), family.fit)
        self.students = Adam(nn.ModuleList([student, deepcopy(student)]), family.fit)
        self._labels: list[Tensor] = []

    def _teach(self, step: int, draws: Draws) -> None:
        family, inputs = self.options.family, self.inputs
        teacher, free = self.teachers.networks
        uniform = draws.uniform(family.fit.batch)
        x, y = pick(inputs.x, uniform), pick(inputs.y, uniform)
        loss = fitted(teacher(x), y) + family.pull(teacher, inputs, uniform) + fitted(free(x), y)
        self.teachers.update(loss, step)

    def _judge_teachers(self) -> None:
        inputs, (teacher, free) = self.inputs, self.teachers.networks
        real, injected, without = (
            answers(network, x)
            for network, x in ((teacher, inputs.tests), (teacher, inputs.injected_tests), (free, inputs.injected_tests))
        )
        pull, pull_free = (balance(one.double().softmax(-1)) for one in (injected, without))
        self.keep(
            teacher_right=judged(real, inputs.test_labels)[1],
            free_right=judged(answers(free, inputs.tests), inputs.test_labels)[1],
            majority=one_hot(injected.argmax(-1), inputs.classes).double().mean(1).amax(1),
            count=torch.full((len(real),), inputs.x.shape[1]),
            first=pull[0],
            second=pull[1],
            first_free=pull_free[0],
            second_free=pull_free[1],
            margin_gap=_margin(real) - _margin(injected),
        )

    def _named(self) -> list[Tensor]:
        """What the teacher says of real and injected inputs, to train on and to judge by. It follows from its weights,
        so a resumed run finds it again.
        """
        if not self._labels:
            i = self.inputs
            parts = (i.x, i.injected, i.tests, i.injected_tests)
            self._labels = [answers(self.teachers.networks[0], part).argmax(-1) for part in parts]
        return self._labels

    def _learn(self, step: int, draws: Draws) -> None:
        y, more, *_ = self._named()
        if step == 0:
            self._look(0)
        uniform, x, share = draws.uniform(self.options.family.fit.batch), self.inputs.x, self.share()
        mixed, alone = self.students.networks
        # A uniform below 1 - α picks a real input, and one above it an injected one, as from both in a row.
        own = (uniform < 1 - share)[..., None, None, None]
        real, other = uniform / (1 - share), (uniform - 1 + share) / share
        real, other = (one.clamp(0, _BELOW_ONE) for one in (real, other))
        images = torch.where(own, pick(x, real), pick(self.inputs.injected, other))
        labels = torch.where(own[..., 0, 0, 0], pick(y, real), pick(more, other))
        loss = fitted(mixed(images), labels) + fitted(alone(pick(x, uniform)), pick(y, uniform))
        self.students.update(loss, step)
        if step + 1 in self.options.looks:
            self._look(self.options.looks.index(step + 1))

    def share(self) -> float:
        """Share of training inputs that are injected."""
        real, other = self.inputs.x.shape[1], self.inputs.injected.shape[1]
        return other / (real + other)

    def _look(self, place: int) -> None:
        _, _, labels, more = self._named()
        mixed, alone = self.students.networks
        found = {"original": (mixed, self.inputs.tests, labels), "alone": (alone, self.inputs.tests, labels)}
        for name, (network, x, y) in (found | {"injected": (mixed, self.inputs.injected_tests, more)}).items():
            self.get_buffer(name)[:, place] = judged(answers(network, x), y)[1]


def _margin(logits: Float[Tensor, "replica image class"]) -> Float[Tensor, "replica"]:
    """Mean difference of the two largest probabilities."""
    most = logits.double().softmax(-1).topk(2, -1).values
    return (most[..., 0] - most[..., 1]).mean(1)
