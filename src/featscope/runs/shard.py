"""One shard: some replicas of one arm, trained from its checkpoint to the end."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from featscope.runs.folder import RunFolder
from featscope.streams import Streams
from featscope.studies.axes import points
from featscope.studies.base import Arm, Assay, Study
from featscope.training import DivergedError, Experiment, Measurement, Record, probe_steps, train
from featscope.training.rules import BiasScheduleRule
from featscope.training.stack import stack, together

_SECONDS_BETWEEN_CHECKPOINTS = 10.0
_Measure = Callable[[Study, Experiment], Mapping[str, Measurement]]


class StoppedError(Exception):
    """Training was asked to stop; the state is saved."""


@dataclass(frozen=True)
class Shard:
    """A piece of work for one worker.

    Attributes:
        arm: what to train.
        replicas: the replicas' numbers.
        seed: the run's seed.
        device: where.
    """

    arm: Arm
    replicas: range
    seed: int
    device: str

    def build(self) -> list["Program"]:
        """What the shard trains, one program after the other, before the first step."""
        built = [(at, config, self._experiment(config)) for at, config in points(self.arm.config, self.arm.over)]
        schedules = [(config.steps, config.probe_every) for _, config, _ in built]
        groups = [[place] for place in range(len(built))]
        if self.arm.config.replica_axis:
            groups = together([experiment for *_, experiment in built], schedules)
        return [
            Program([built[place] for place in group], self._checkpoint(n), len(groups))
            for n, group in enumerate(groups)
        ]

    def finished(self, folder: RunFolder) -> bool:
        """Whether ``folder`` holds the end of it."""
        first = folder.read_tensors(self._checkpoint(0))
        programs = first[1]["programs"] if first else 1
        states = (folder.read_tensors(self._checkpoint(program)) for program in range(programs))
        return all(state is not None and state[1]["done"] for state in states)

    def _experiment(self, config: Study) -> Experiment:
        experiment = config.build(Streams(self.seed, self.replicas, self.device))
        experiment.gives_up = bool(self.arm.over)
        return experiment

    def _checkpoint(self, program: int) -> str:
        return f"checkpoint/{self.arm.name}.{self.replicas.start}.{program}.safetensors"

    def run(
        self, folder: RunFolder, stopped: Callable[[], bool], progress: Callable[[float, str], None]
    ) -> "ShardResult":
        """Train to the end, from the last checkpoint if there is one.

        Args:
            folder: where checkpoints are.
            stopped: asked after every step whether to stop.
            progress: told (steps just done, status).

        Raises:
            StoppedError: ``stopped`` said so.
            DivergedError: see `train`. In both cases the state has been saved, unless its weights are broken: then
                the last sound checkpoint is kept.
        """
        data: list[xr.Dataset] = []
        weights: Mapping[str, np.ndarray] = {}
        programs = self.build()
        share: float = self.arm.config.steps / max(1, sum(program.configs[0].steps for program in programs))

        def of_the_whole(steps: float, status: str) -> None:
            progress(share * steps, status)

        for program in programs:
            record = program.run(self.arm, folder, stopped, of_the_whole)
            data += program.split(record, self.replicas)
            if not self.arm.over:
                state = program.whole.state_dict()
                kept = (key for key in state if key.startswith(("learner.", "source.")))
                weights = {key: state[key].cpu().numpy() for key in kept}
        return ShardResult(data, weights)


@dataclass(frozen=True)
class ShardResult:
    """What a finished shard leaves.

    Attributes:
        data: the measurements, one dataset a point of the arm's axes, with the point's labels.
        weights: learner and source arrays; none on an arm with axes.
    """

    data: list[xr.Dataset]
    weights: Mapping[str, np.ndarray]


class Program:
    """Points of an arm that train as one experiment, a part for each point."""

    def __init__(
        self, built: Sequence[tuple[Mapping[str, float], Study, Experiment]], checkpoint: str, programs: int
    ) -> None:
        self.labels = [labels for labels, _, _ in built]
        self.configs = [config for _, config, _ in built]
        self.parts = [experiment for *_, experiment in built]
        self.whole = stack(self.parts)
        self.checkpoint, self._of = checkpoint, programs

    def _save(self, folder: RunFolder, step: int, record: Record, *, done: bool, keep_state: bool = True) -> None:
        tensors = {f"record.{key}": value for key, value in record.tensors().items()}
        about = {"step": step, "done": done, "record": record.labels(), "programs": self._of, "optimizer": {}}
        if keep_state:
            state, about["optimizer"] = _state(self.whole)
            tensors |= state
        folder.write_tensors(self.checkpoint, tensors, about)

    def measure(self, assays: Sequence[_Measure]) -> dict[str, Measurement]:
        """Each part measured with its own config, joined along the replica axis."""
        found: dict[str, Measurement] = {}
        for assay in assays:
            each = [assay(config, part) for config, part in zip(self.configs, self.parts, strict=True)]
            for name, one in each[0].items():
                values = one.values if len(each) == 1 else torch.cat([measured[name].values for measured in each])
                found[name] = one._replace(values=self.whole.measured(values))
        return found

    def run(
        self, arm: Arm, folder: RunFolder, stopped: Callable[[], bool], progress: Callable[[float, str], None]
    ) -> Record:
        """Train to the end and measure. See `Shard.run`."""
        whole, config = self.whole, self.configs[0]
        start, record, done = _restore(folder, self.checkpoint, whole)
        progress(config.steps if done else start, "resumed" if start else "starting")
        if done:
            return record
        if start == 0:
            with torch.no_grad():
                record.put(self.measure([_plainly(assay) for assay in arm.at_start]))

        saved_at = time.monotonic()
        reached = start

        def after_step(step: int, loss: Tensor) -> None:
            nonlocal saved_at, reached
            reached = step
            progress(1, f"loss {float(loss.mean()):.3f}{_stage(whole)}")
            if stopped():
                raise StoppedError
            if time.monotonic() - saved_at > _SECONDS_BETWEEN_CHECKPOINTS:
                self._save(folder, step, record, done=False)
                saved_at = time.monotonic()

        try:
            last = train(
                whole,
                config.steps,
                lambda _: self.measure([lambda config, part: config.watch(part)]),
                probe_steps(config.steps, config.probe_every),
                record,
                start=start,
                stop_at=arm.stop_at,
                after_step=after_step,
            )
        except (StoppedError, DivergedError):
            if all(bool(p.isfinite().all()) for p in whole.parameters()):
                self._save(folder, reached, record, done=False)
            raise
        progress(config.steps - last, "measuring")
        with torch.no_grad():
            record.put(self.measure([_plainly(assay) for assay in arm.at_end]))
        about = "first step of the event; -1 if it did not happen"
        events = whole.events() | ({"diverged": whole.diverged} if whole.gives_up else {})
        record.put({name: Measurement(step, (), "step", about) for name, step in events.items()})
        self._save(folder, last, record, done=True, keep_state=not arm.over)
        return record

    def split(self, record: Record, replicas: range) -> list[xr.Dataset]:
        """What was recorded, point by point."""
        together = record.to_dataset(self.whole.streams.replicas)
        count = len(replicas)
        parts = [together.isel(replica=slice(i * count, (i + 1) * count)) for i in range(len(self.parts))]
        return [part.assign_coords(labels) for part, labels in zip(parts, self.labels, strict=True)]


def _plainly(assay: Assay) -> _Measure:
    return lambda _, part: assay(part)


def _stage(experiment: Experiment) -> str:
    stages = [rule.stage for rule in experiment.rules if isinstance(rule, BiasScheduleRule)]
    return f"  stage {'I' * int(stages[0].min())}" if stages else ""


def _state(experiment: Experiment) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Everything that changes in training: tensors, and numbers of the optimizer."""
    tensors = {f"experiment.{key}": value for key, value in experiment.state_dict().items()}
    numbers: dict[str, Any] = {}
    for index, state in experiment.optimizer.state_dict()["state"].items():
        for key, value in state.items():
            if isinstance(value, Tensor):
                tensors[f"optimizer.{index}.{key}"] = value
            elif value is not None:
                numbers[f"{index}.{key}"] = value
    return tensors, numbers


def _restore(folder: RunFolder, name: str, experiment: Experiment) -> tuple[int, Record, bool]:
    saved = folder.read_tensors(name)
    if saved is None:
        return 0, Record(), False
    tensors, about = saved

    def part(prefix: str) -> dict[str, Tensor]:
        return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}

    restored = Record.restore(part("record."), about["record"])
    if about["done"] and not part("experiment."):  # an arm with axes keeps no weights
        return about["step"], restored, True
    experiment.load_state_dict(part("experiment."))
    state: dict[int, dict[str, Any]] = {}
    for key, value in (part("optimizer.") | about["optimizer"]).items():
        index, field = key.split(".", 1)
        state.setdefault(int(index), {})[field] = value
    groups = experiment.optimizer.state_dict()["param_groups"]
    experiment.optimizer.load_state_dict({"state": state, "param_groups": groups})
    return about["step"], restored, about["done"]
