"""`python -m benchmarks.points`: is the work of scheduling a sweep proportional to its points?

Points that sleep, so that time is what the engine takes and not what they compute, on Ray workers of this machine.
"""

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from featscope.axes import Axis
from featscope.runs import Settings, run
from featscope.runs.cluster import on_cluster
from featscope.studies import Arm, Study
from featscope.studies.sweep import Sweep
from featscope.threads import cores
from featscope.training import Answer, Questionnaire

SECONDS = 0.02  # that a point sleeps
SIZES = (100, 1000, 10_000)


@dataclass(frozen=True)
class Asleep(Questionnaire):
    """Answers after a while."""

    place: float = 0.0

    @property
    def grid(self) -> Mapping[str, Sequence[int]]:
        """One question."""
        return {"question": (0,)}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """Which point it is."""
        return {"found": Answer("the point")}

    def asker(self, streams: object) -> partial[dict[str, float]]:
        """Sleep, then say which it is."""
        return partial(_answer, self.place)


def _answer(place: float, question: int) -> dict[str, float]:
    time.sleep(SECONDS)
    return {"found": place}


@dataclass(frozen=True)
class Night(Study):
    """A study that sleeps."""

    place: float = 0.0

    name = "night"

    def arms(self) -> Sequence[Arm]:
        """One arm."""
        return [Arm("asleep", Asleep(self.place), "sleeps")]


def seconds(points: int) -> float:
    """Wall seconds of a sweep of so many points, without its report."""
    study = Sweep(Night(), (Axis("place", tuple(map(float, range(points)))),))
    with tempfile.TemporaryDirectory() as scratch:
        began = time.perf_counter()
        outcome = run(study, Settings(replicas=1), Path(scratch) / "sweep", train=on_cluster(None, "quiet"))
        took = time.perf_counter() - began
    (data,) = outcome.runs.values()
    assert data.sizes["place"] == points
    return took


def main() -> None:
    """Print what each size takes, and what it takes beyond sleep."""
    print(f"{cores()} workers, points that sleep {1000 * SECONDS:g} ms, one replica")
    for points in SIZES:
        took, asleep = seconds(points), points * SECONDS / cores()
        print(f"{points} points: {took:.1f} s, of these asleep {asleep:.1f}: {1000 * (took - asleep) / points:.2f} ms")


if __name__ == "__main__":
    main()
