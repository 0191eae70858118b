"""Algorithm 3 and its check: teachers by size, one of them chosen, and students by size of what it says."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from featscope.options import require, require_ascending
from featscope.streams import Draws
from featscope.studies.input_structure.mixing import Family, pick
from featscope.studies.input_structure.networks import Adam, QuadraticNetworks, answers, fitted, judged
from featscope.studies.input_structure.stages import Stage, Stages

FITTED = 0.99
"""Share of training images with which the classical regime ends."""
FEWER = 4
"""By how much the smaller training set is smaller."""
_HALVES = 2
"""Networks of a size: of all images and of fewer, of the chosen teacher and of the larger."""


def classical_minimum(
    loss: Float[np.ndarray, "replica size"], known: Float[np.ndarray, "replica size"]
) -> Int[np.ndarray, " replica"]:
    """Place of the least test loss among sizes up to the first that fits 99 % of what it is trained on."""
    past = known >= FITTED
    end = np.where(past.any(1), past.argmax(1), loss.shape[1] - 1)
    return np.where(np.arange(loss.shape[1]) <= end[:, None], loss, np.inf).argmin(1)


@dataclass(frozen=True)
class Sizes:
    """Options of `StudentsBySize`.

    Attributes:
        family: data and how networks of one hidden layer are fitted.
        sizes: hidden units that are tried, smallest first.
        larger: hidden units of a teacher beside the chosen one.
    """

    family: Family = field(default_factory=Family)
    sizes: tuple[int, ...] = (2, 3, 4, 6, 9, 13, 20, 40, 100)
    larger: int = 50

    def __post_init__(self) -> None:
        require_ascending(self, "sizes")
        require(self, "larger", self.larger >= 1, ">= 1")

    def build(self, draws: Draws) -> "StudentsBySize":
        """Before the first step."""
        return StudentsBySize(self, draws)


class StudentsBySize(Stages):
    """Figure A.22: teachers by size on images, and students by size on Gaussians that teachers have labelled.

    Side by side are trained: teachers of all sizes on all images and on fewer; the chosen and the larger teacher; all
    students of both.
    """

    def __init__(self, options: Sizes, draws: Draws) -> None:
        size, fit = len(options.sizes), options.family.fit
        shapes: dict[str, tuple[int, ...]] = {"chosen": (), "chosen_of_fewer": (), "count": (), "least": (_HALVES,)}
        shapes |= dict.fromkeys(("loss", "fitted", "right", "loss_of_fewer", "fitted_of_fewer"), (size,))
        shapes |= dict.fromkeys(("student_loss", "student_fitted", "student_right"), (_HALVES, size))
        stages = [
            Stage("teachers by size", StudentsBySize._try, StudentsBySize._choose),
            Stage("teachers", StudentsBySize._teach, StudentsBySize.nothing),
            Stage("students by size", StudentsBySize._learn, StudentsBySize._judge),
        ]
        super().__init__(stages, fit, shapes, draws)
        self.options, self.inputs = options, options.family.data.build(draws)
        pixels, classes = self.inputs.x[0, 0].numel(), self.inputs.classes

        def by_size() -> Adam[QuadraticNetworks]:
            made = QuadraticNetworks(options.sizes[-1], pixels, classes, draws, _HALVES * size)
            return Adam(made.of(options.sizes * _HALVES * draws.replicas), fit)

        self.tried, self.students = by_size(), by_size()
        widest = max(options.sizes[-1], options.larger)
        self.teachers = Adam(QuadraticNetworks(widest, pixels, classes, draws, _HALVES), fit)
        self._labels: list[Tensor] = []

    def _try(self, step: int, draws: Draws) -> None:
        inputs, uniform = self.inputs, draws.uniform(self.fit.batch)
        x, y = (
            torch.stack([pick(values, uniform), pick(values, uniform / FEWER)], 1).flatten(0, 1)
            for values in (inputs.x, inputs.y)
        )
        self.tried.update(fitted(self.tried.networks(x), y), step)

    def _choose(self) -> None:
        i = self.inputs
        few = i.x.shape[1] // FEWER
        loss, right = self._by_size(self.tried, i.tests, i.test_labels)
        known = self._by_size(self.tried, i.x, i.y)[1][:, 0]
        known_of_fewer = self._by_size(self.tried, i.x[:, :few], i.y[:, :few])[1][:, 1]
        self.keep(
            loss=loss[:, 0],
            fitted=known,
            right=right[:, 0],
            chosen=self._least(loss[:, 0], known),
            chosen_of_fewer=self._least(loss[:, 1], known_of_fewer),
            loss_of_fewer=loss[:, 1],
            fitted_of_fewer=known_of_fewer,
            count=torch.full((len(loss),), i.x.shape[1]),
        )

    def _by_size(
        self, networks: Adam[QuadraticNetworks], x: Tensor, y: Int[Tensor, "row image"]
    ) -> Sequence[Float[Tensor, "replica half size"]]:
        """Loss and share of right answers."""
        found = judged(answers(networks.networks, x), y)
        return [one.unflatten(0, (-1, _HALVES, len(self.options.sizes))) for one in found]

    def _least(self, loss: Tensor, known: Tensor) -> Float[Tensor, "replica"]:
        places = classical_minimum(loss.cpu().numpy(), known.cpu().numpy())
        return torch.tensor([float(self.options.sizes[place]) for place in places], device=loss.device)

    def _teach(self, step: int, draws: Draws) -> None:
        if step == 0:
            chosen = self.get_buffer("chosen").long().tolist()
            self.teachers.networks.of([size for one in chosen for size in (one, self.options.larger)])
        family, inputs, network = self.options.family, self.inputs, self.teachers.networks
        uniform = draws.uniform(self.fit.batch)
        loss = fitted(network(pick(inputs.x, uniform)), pick(inputs.y, uniform))
        self.teachers.update(loss + family.pull(network, inputs, uniform), step)

    def _named(self) -> list[Int[Tensor, "row image"]]:
        """What both teachers say of Gaussians, to train on and to judge by; a resumed run finds it again."""
        if not self._labels:
            parts = self.inputs.injected, self.inputs.injected_tests
            self._labels = [answers(self.teachers.networks, part).argmax(-1) for part in parts]
        return self._labels

    def _learn(self, step: int, draws: Draws) -> None:
        uniform, y = draws.uniform(self.fit.batch), self._named()[0]
        logits = self.students.networks(pick(self.inputs.injected, uniform))
        self.students.update(fitted(logits, pick(y, uniform.repeat_interleave(_HALVES, 0))), step)

    def _judge(self) -> None:
        y, labels = self._named()
        loss, right = self._by_size(self.students, self.inputs.injected_tests, labels)
        known = self._by_size(self.students, self.inputs.injected, y)[1]
        least = [self._least(loss[:, half], known[:, half]) for half in range(_HALVES)]
        self.keep(student_loss=loss, student_fitted=known, student_right=right, least=torch.stack(least, 1))
