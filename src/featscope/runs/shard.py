"""One shard: some replicas of one arm, from its checkpoints to the end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import UInt8

from featscope.axes import points
from featscope.runs.folder import RunFolder
from featscope.runs.identity import digest, other
from featscope.runs.program import ForeignError, Program, ends_early, saved_in, until
from featscope.runs.repeatable import repeatable
from featscope.streams import Streams
from featscope.studies.base import Arm, Study
from featscope.threads import one_thread_where_small
from featscope.training import DivergedError, Experiment
from featscope.training.experiment import Recipe
from featscope.training.stack import together

_DIGEST = "_digest of its recipe"


@dataclass(frozen=True)
class Shard:
    """A piece of work for one worker.

    Attributes:
        study: what is measured on the way.
        arm: what to run.
        replicas: the replicas' numbers.
        seed: the run's seed.
        device: where.
        at_most: steps after which it ends, for a look at a study that is not run in earnest.
        points: places of its points among those of the arm's axes; None for all.
        computed_by: what `environment` finds where it is computed, if that is another machine's process.
    """

    study: Study
    arm: Arm
    replicas: range
    seed: int
    device: str
    at_most: int | None = None
    points: range | None = None
    computed_by: Mapping[str, Any] | None = None

    def build(self) -> list[Program]:
        """What the shard runs, one program after the other, before the first step."""
        identity = self.identity()
        chosen = points(self.arm.recipe, self.arm.over, self.points)
        built = [(at, recipe, self._experiment(recipe)) for at, recipe in chosen]
        schedules = [(recipe.steps, recipe.probe_every) for _, recipe, _ in built]
        groups = [[place] for place in range(len(built))]
        if self.arm.recipe.replica_axis:
            groups = together([experiment for *_, experiment in built], schedules)
        about: dict[str, Any] = {"programs": len(groups)}
        if self.computed_by is not None:
            about["computed_by"] = dict(self.computed_by)
        return [
            Program([built[place] for place in group], self.checkpoint(n), identity, about, self.at_most)
            for n, group in enumerate(groups)
        ]

    def finished(self, folder: RunFolder) -> bool:
        """Whether ``folder`` holds the end of it, and of nothing else."""
        identity = self.identity()
        chosen = points(self.arm.recipe, self.arm.over, self.points)
        steps = {tuple(at.items()): until(recipe, self.at_most) for at, recipe in chosen}
        found: set[tuple[tuple[str, float], ...]] = set()
        program, programs = 0, 1
        while program < programs:
            saved = saved_in(folder, self.checkpoint(program))
            if saved is None or not saved[1]["done"] or other(saved[1], identity):
                return False
            about = saved[1]
            these = {tuple(at.items()) for at in about["points"]} if "points" in about else set(steps)
            early = self.arm.stop_at is not None
            if any(
                other(about, {"steps": steps.get(at)}) or ends_early(about, steps.get(at, 0), early) for at in these
            ):
                return False
            found |= these
            program, programs = program + 1, about["programs"]
        return found == set(steps)

    def identity(self) -> dict[str, Any]:
        """What its checkpoints are of, beside their points and steps; before anything is built, which may change it."""
        known = vars(self.arm)  # beside its fields, which are frozen: all shards of an arm have one recipe
        if _DIGEST not in known:
            options = tuple(axis.option for axis in self.arm.over)
            known[_DIGEST] = digest(self.arm.recipe, options, self.arm.stop_at)
        whose = {"seed": self.seed, "first replica": self.replicas.start, "replicas": len(self.replicas)}
        return whose | {"recipe": known[_DIGEST]}

    def _experiment(self, recipe: Recipe) -> Experiment:
        experiment = recipe.build(Streams(self.seed, self.replicas, self.device))
        experiment.gives_up = bool(self.arm.over)
        return experiment

    def checkpoint(self, program: int) -> str:
        """The name of a program's checkpoint, below the run folder."""
        first = 0 if self.points is None else self.points.start  # a shard has no more programs than points
        return f"checkpoint/{self.arm.name}.{self.replicas.start}.{first + program}.safetensors"

    def run(
        self, folder: RunFolder, stopped: Callable[[], bool], progress: Callable[[float, str], None]
    ) -> "ShardResult":
        """Go on to the end, from the last checkpoint if there is one.

        Args:
            folder: where checkpoints are.
            stopped: asked after every step whether to stop.
            progress: told (steps just done, status).

        Raises:
            StoppedError: ``stopped`` said so.
            DivergedError: see `train`. In both cases the state has been saved, unless its weights are broken: then
                the last sound checkpoint is kept.
        """
        try:
            with repeatable(self.device):
                return self._to_the_end(folder, stopped, progress)
        except DivergedError as error:
            error.arm = self.arm.name
            raise

    def _to_the_end(
        self, folder: RunFolder, stopped: Callable[[], bool], progress: Callable[[float, str], None]
    ) -> "ShardResult":
        data: list[xr.Dataset] = []
        ends: list[Mapping[str, UInt8[np.ndarray, "replica byte"]]] = []
        weights: Mapping[str, np.ndarray] = {}
        programs = self.build()
        share: float = self.arm.recipe.steps / max(1, sum(program.steps for program in programs))

        def of_the_whole(steps: float, status: str) -> None:
            progress(share * steps, status)

        watch = self.arm.watch or self.study.watch
        for place, program in enumerate(programs):
            with one_thread_where_small(program.weights):
                try:
                    record = program.run(self.arm, watch, folder, stopped, of_the_whole)
                except ForeignError as error:
                    folder.set_aside(program.checkpoint, str(error))
                    program = programs[place] = self.build()[place]  # the other one may be half of each
                    record = program.run(self.arm, watch, folder, stopped, of_the_whole)
            data += program.split(record, self.replicas)
            ends += program.split_ends()
            if not self.arm.over:
                weights = {key: value.cpu().numpy() for key, value in program.whole.kept().items()}
        streams = [one.streams for program in programs for one in (program.whole, *program.parts)]
        drawn = {purpose for of_one in streams for purpose in of_one.purposes}
        trained = frozenset(name for one in programs for name in one.trained)
        at_rest = frozenset.intersection(*(one.at_rest for one in programs))
        known = [one.threads for one in programs if one.threads is not None]
        threads = tuple(sorted(set(chain.from_iterable(known)))) if len(known) == len(programs) else None
        who = next((one.computed_by for one in programs if one.computed_by), None)
        return ShardResult(data, weights, frozenset(drawn), who, ends, trained, threads, at_rest)


@dataclass(frozen=True)
class ShardResult:
    """What a finished shard leaves.

    Attributes:
        data: the measurements, one dataset a point of the arm's axes, with the point's labels.
        weights: what is kept of the experiment; nothing on an arm with axes.
        purposes: what was drawn for.
        computed_by: what `environment` found where it was computed, if that was another machine's process.
        ends: what replicas end with, a mapping a point of the arm's axes; empty where an older version kept none.
        trained: names of what is trained, which no two replicas share.
        threads: how many trained what is large enough for several, none if nothing is; None if an older version did,
            which did not say.
        at_rest: names of what is trained and ends in every replica, and at every point, as it began.
    """

    data: list[xr.Dataset]
    weights: Mapping[str, np.ndarray]
    purposes: frozenset[str] = frozenset()
    computed_by: Mapping[str, Any] | None = None
    ends: Sequence[Mapping[str, UInt8[np.ndarray, "replica byte"]]] = ()
    trained: frozenset[str] = frozenset()
    threads: tuple[int, ...] | None = ()
    at_rest: frozenset[str] = frozenset()
