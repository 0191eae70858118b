"""One shard: some replicas of one arm, trained from its checkpoint to the end."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from featscope.runs.folder import RunFolder
from featscope.streams import Streams
from featscope.studies.base import Arm
from featscope.training import DivergedError, Experiment, Measurement, Record, probe_steps, train
from featscope.training.rules import BiasScheduleRule

_SECONDS_BETWEEN_CHECKPOINTS = 10.0


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

    @property
    def checkpoint(self) -> str:
        """Name of the checkpoint file in the run folder."""
        return f"checkpoint/{self.arm.name}.{self.replicas.start}.safetensors"

    def build(self) -> Experiment:
        """The experiment before its first step."""
        return self.arm.config.build(Streams(self.seed, self.replicas, self.device))

    def run(
        self, folder: RunFolder, stopped: Callable[[], bool], progress: Callable[[int, str], None]
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
        experiment, config = self.build(), self.arm.config
        start, record, done = _restore(folder, self.checkpoint, experiment)
        progress(config.steps if done else start, "resumed" if start else "starting")
        if done:
            return ShardResult.of(self, experiment, record)
        if start == 0:
            with torch.no_grad():
                for assay in self.arm.at_start:
                    record.put(assay(experiment))

        saved_at = time.monotonic()
        reached = start

        def after_step(step: int, loss: Tensor) -> None:
            nonlocal saved_at, reached
            reached = step
            progress(1, f"loss {float(loss.mean()):.3f}{_stage(experiment)}")
            if stopped():
                raise StoppedError
            if time.monotonic() - saved_at > _SECONDS_BETWEEN_CHECKPOINTS:
                _save(folder, self.checkpoint, experiment, step, record, done=False)
                saved_at = time.monotonic()

        try:
            last = train(
                experiment,
                config.steps,
                config.watch,
                probe_steps(config.steps, config.probe_every),
                record,
                start=start,
                stop_at=self.arm.stop_at,
                after_step=after_step,
            )
        except (StoppedError, DivergedError):
            if all(bool(p.isfinite().all()) for p in experiment.parameters()):
                _save(folder, self.checkpoint, experiment, reached, record, done=False)
            raise
        progress(config.steps - last, "measuring")
        with torch.no_grad():
            for assay in self.arm.at_end:
                record.put(assay(experiment))
        about = "first step of the event; -1 if it did not happen"
        record.put({name: Measurement(step, (), "step", about) for name, step in experiment.events().items()})
        _save(folder, self.checkpoint, experiment, last, record, done=True)
        return ShardResult.of(self, experiment, record)


@dataclass(frozen=True)
class ShardResult:
    """What a finished shard leaves.

    Attributes:
        data: the measurements.
        weights: learner and source arrays.
    """

    data: xr.Dataset
    weights: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, shard: Shard, experiment: Experiment, record: Record) -> "ShardResult":
        """The result of ``shard``, off the device."""
        state = experiment.state_dict()
        kept = {k: v.cpu().numpy() for k, v in state.items() if k.startswith(("learner.", "source."))}
        return cls(record.to_dataset(shard.replicas), kept)


def _stage(experiment: Experiment) -> str:
    stages = [rule.stage for rule in experiment.rules if isinstance(rule, BiasScheduleRule)]
    return f"  stage {'I' * int(stages[0].min())}" if stages else ""


def _save(folder: RunFolder, name: str, experiment: Experiment, step: int, record: Record, *, done: bool) -> None:
    tensors = {f"experiment.{key}": value for key, value in experiment.state_dict().items()}
    tensors |= {f"record.{key}": value for key, value in record.tensors().items()}
    numbers: dict[str, Any] = {}
    for index, state in experiment.optimizer.state_dict()["state"].items():
        for key, value in state.items():
            if isinstance(value, Tensor):
                tensors[f"optimizer.{index}.{key}"] = value
            elif value is not None:
                numbers[f"{index}.{key}"] = value
    about = {"step": step, "done": done, "record": record.labels(), "optimizer": numbers}
    folder.write_tensors(name, tensors, about)


def _restore(folder: RunFolder, name: str, experiment: Experiment) -> tuple[int, Record, bool]:
    saved = folder.read_tensors(name)
    if saved is None:
        return 0, Record(), False
    tensors, about = saved

    def part(prefix: str) -> dict[str, Tensor]:
        return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}

    experiment.load_state_dict(part("experiment."))
    state: dict[int, dict[str, Any]] = {}
    for key, value in (part("optimizer.") | about["optimizer"]).items():
        index, field = key.split(".", 1)
        state.setdefault(int(index), {})[field] = value
    groups = experiment.optimizer.state_dict()["param_groups"]
    experiment.optimizer.load_state_dict({"state": state, "param_groups": groups})
    return about["step"], Record.restore(part("record."), about["record"]), about["done"]
