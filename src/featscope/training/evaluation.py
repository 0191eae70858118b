"""Experiments that train nothing: questions, asked one after another."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.training.experiment import Experiment
from featscope.training.record import Measurement

MOST_QUESTIONS = 1_000_000
"""Questions that an evaluation may ask."""
MOST_BYTES = 2048
"""What is stored of a text, in UTF-8."""
TEXT = "text"
"""What names of stored texts begin with; the text's own name and those of the axes follow, with colons between."""
Ask = Callable[..., Mapping[str, Any]]
"""Answers the question at one point of a grid, given by name: numbers, and texts where there are any."""


class Answer(NamedTuple):
    """What is known of an answer to every question.

    Attributes:
        about: what it is, in a few words.
        units: units; "1" for pure numbers.
        axes: name -> length of what one answer ranges over; none for a single number.
    """

    about: str
    units: str = "1"
    axes: Mapping[str, int] = MappingProxyType({})

    @property
    def size(self) -> int:
        """How many numbers an answer has."""
        return prod(self.axes.values())


class Evaluation(Experiment):
    """Questions put to one replica. A step asks one, so that long evaluations show progress and can be resumed.

    What answering needs (a model, texts) is the asker's; only answers are stored.

    Args:
        ask: called as ``ask(length=128, depth=0.5)`` with the next point of ``grid``.
        grid: axis -> its values; questions are all combinations, the last axis fastest.
        answers: what each question is answered with; the first is shown beside the progress.
        streams: the streams of one replica.
        summary: what is measured of the answers at the end; all of them over the grid if not given.
        texts: names of texts that questions are answered with, too; their first `MOST_BYTES` are stored.
    """

    done: Int[Tensor, " replica"]

    def __init__(
        self,
        ask: Ask,
        grid: Mapping[str, Sequence[Any]],
        answers: Mapping[str, Answer],
        streams: Streams,
        summary: "Callable[[Evaluation], Mapping[str, Measurement]] | None" = None,
        texts: Sequence[str] = (),
    ) -> None:
        super().__init__(streams)
        self.ask, self.grid, self.answers, self._summary = ask, grid, answers, summary
        if (count := prod(len(axis) for axis in grid.values())) > MOST_QUESTIONS:
            raise ConfigError(
                f"an arm asks {count:.3g} questions: allowed is at most {MOST_QUESTIONS:,}, as they are kept side "
                "by side. Take fewer prompts, items or lengths."
            )
        self.points = [dict(zip(grid, at, strict=True)) for at in product(*grid.values())]
        numbers = sum(answer.size for answer in answers.values())
        found = torch.full((1, len(self.points), numbers), torch.nan, dtype=torch.float64, device=streams.device)
        self.register_buffer("found", found)
        self.register_buffer("done", torch.zeros(1, dtype=torch.long, device=streams.device))
        self._texts = tuple(texts)
        for text in texts:
            self.register_buffer(f"{TEXT}_{text}", torch.zeros(len(self.points), MOST_BYTES, dtype=torch.uint8))

    def __getitem__(self, name: str) -> Float[Tensor, "replica *grid_and_axes"]:
        """An answer over the grid and its own axes, float64; NaN where it is not given yet."""
        (values,) = (part for known, part in zip(self.answers, self._parts(), strict=True) if known == name)
        sizes = [len(axis) for axis in self.grid.values()] + list(self.answers[name].axes.values())
        return values.reshape(1, *sizes)

    def _parts(self) -> Sequence[Tensor]:
        return self.get_buffer("found").split([answer.size for answer in self.answers.values()], -1)

    def measure(self, name: str) -> Measurement:
        """An answer as a measurement."""
        answer = self.answers[name]
        return Measurement(self[name], answer.about, (*self.grid, *answer.axes), answer.units)

    @torch.no_grad()
    def advance(self, step: int) -> None:
        """Ask the next question.

        Raises:
            DivergedError: an answer is not finite.
            ValueError: an answer has another size than it is declared with.
        """
        given = self.ask(**self.points[step])
        row = torch.cat([self._flat(name, given[name]) for name in self.answers])
        self.require_finite(f"what question {step} found", row, step)
        self.get_buffer("found")[0, step] = row
        for text in self._texts:
            self.get_buffer(f"{TEXT}_{text}")[step] = in_bytes(given[text])
        self.done.fill_(step + 1)

    def _flat(self, name: str, given: Any) -> Float[Tensor, " number"]:
        values, size = torch.as_tensor(given, dtype=torch.float64).reshape(-1), self.answers[name].size
        if len(values) != size:
            axes = dict(self.answers[name].axes) or "none"
            raise ValueError(f"the answer {name!r} has {len(values)} numbers: expected {size}, as its axes are {axes}")
        return values

    def status(self) -> str:
        """The mean of the first answer so far."""
        name, first = next(iter(self.answers)), self._parts()[0]
        return f"{name} {float(first[:, : int(self.done)].mean()):.3f}"

    def outcomes(self) -> Mapping[str, Measurement]:
        """The summary; else every answer over the grid."""
        return self._summary(self) if self._summary else self.all_answers()

    def all_answers(self) -> Mapping[str, Measurement]:
        """Every answer over the grid."""
        return {name: self.measure(name) for name in self.answers}

    def kept(self) -> dict[str, Tensor]:
        """Texts over the grid; numbers are measurements."""
        sizes = [len(axis) for axis in self.grid.values()]
        return {
            ":".join((TEXT, text, *self.grid)): self.get_buffer(f"{TEXT}_{text}").view(*sizes, MOST_BYTES)
            for text in self._texts
        }


def in_bytes(text: str) -> UInt8[Tensor, " byte"]:
    """The first `MOST_BYTES` of a text in UTF-8, no character cut in two, and zeros after it."""
    raw = text.replace("\0", "").encode("utf-8", "replace")[:MOST_BYTES].decode("utf-8", "ignore").encode()
    return torch.tensor(list(raw.ljust(MOST_BYTES, b"\0")), dtype=torch.uint8)


def as_text(stored: UInt8[Tensor, " byte"]) -> str:
    """The text that `in_bytes` stored."""
    return bytes(stored.tolist()).rstrip(b"\0").decode("utf-8", "replace")


class Questionnaire:
    """The recipe of an arm that asks: frozen dataclasses derive from it.

    `grid` names the axes, `answers` describes what a question is answered with, `asker` gets ready and gives the
    function that answers one.
    """

    replica_axis: ClassVar[bool] = False
    on_cpu: ClassVar[bool] = False
    """Whether it is answered on the CPU whatever the device, as by NumPy; answers are kept on the device."""

    @property
    def texts(self) -> Sequence[str]:
        """Names of texts that a question is answered with, to be read and not to be judged; none unless it says so."""
        return ()

    @property
    def grid(self) -> Mapping[str, Sequence[Any]]:
        """Axis -> its values."""
        raise NotImplementedError

    @property
    def answers(self) -> Mapping[str, Answer]:
        """Name -> what it is."""
        raise NotImplementedError

    def asker(self, streams: Streams) -> Ask:
        """What answers a question; what all questions share is made here.

        Raises:
            ConfigError: what it needs cannot be had.
        """
        raise NotImplementedError

    def summary(self, evaluation: Evaluation) -> Mapping[str, Measurement]:
        """What is measured of the answers at the end: all of them, unless a recipe says otherwise."""
        return evaluation.all_answers()

    @property
    def steps(self) -> int:
        """Questions."""
        return prod(len(values) for values in self.grid.values())

    @property
    def probe_every(self) -> int:
        """Nothing is measured on the way."""
        return max(1, self.steps)

    def build(self, streams: Streams) -> Evaluation:
        """The questions of one replica, not asked yet."""
        asked = streams
        if self.on_cpu:
            asked = Streams(streams.seed, streams.replicas)  # with the same draws
            asked.purposes = streams.purposes
        return Evaluation(self.asker(asked), self.grid, self.answers, streams, self.summary, self.texts)


@dataclass(frozen=True)
class Later:
    """The recipe of an arm whose questionnaire needs an extra: it is imported when it is built.

    So a study can be looked at, and its report rebuilt, where the extra is not installed.

    Attributes:
        kind: imports the questionnaire's class.
        steps: how many questions it has.
        options: its fields.
    """

    kind: Callable[[], Callable[..., Questionnaire]]
    steps: int
    options: Mapping[str, Any]

    replica_axis: ClassVar[bool] = False

    @property
    def probe_every(self) -> int:
        """Nothing is measured on the way."""
        return max(1, self.steps)

    def build(self, streams: Streams) -> Evaluation:
        """The questions of one replica, not asked yet.

        Raises:
            MissingExtraError: the extra is not installed.
        """
        return self.kind()(**self.options).build(streams)
