"""What is known of a run before it is done: how far it is, and what its checkpoints hold of measurements.

Nothing is written, and nothing waits: a run may be going on in the folder. Each checkpoint is whole, as it was
at some moment, and those of different shards are of different moments.
"""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch
import xarray as xr

from featscope.runs.execute import join, planned
from featscope.runs.identity import other
from featscope.runs.program import FOREIGN, LAST_STEP, named_from
from featscope.runs.shard import Shard, ShardResult
from featscope.studies import Arm, Study
from featscope.tensors import DamagedError, unpacked
from featscope.training.record import Measurement, Record

_LAST = "last step at which a replica was measured"
_EVENT = "first step of the event so far; -1 if it has not happened"


@dataclass(frozen=True)
class Standing:
    """How far an arm is.

    Attributes:
        name: the arm.
        label: in two or three words.
        step: steps done, the mean over its replicas.
        steps: steps to do.
        begun: whether a checkpoint is there.
        done: whether all of it is measured.
    """

    name: str
    label: str
    step: int
    steps: int
    begun: bool
    done: bool


@dataclass(frozen=True)
class SoFar:
    """A run on its way.

    Attributes:
        arms: in the order of the story.
        runs: what is measured of the arms that have begun, in that order.
    """

    arms: Sequence[Standing]
    runs: Mapping[str, xr.Dataset]

    def __str__(self) -> str:
        done = sum(arm.done for arm in self.arms)
        said = [f"{done} of {len(self.arms)} {'arm is' if done == 1 else 'arms are'} done"]
        said += [
            f"{arm.label} is at step {arm.step:,} of {arm.steps:,}" for arm in self.arms if arm.begun and not arm.done
        ]
        return ", ".join(said)


def is_unfinished(directory: Path) -> bool:
    """Whether neither measurements nor verdicts are in a run folder, whose run was killed or goes on."""
    return not any(os.path.exists(directory / name) for name in ("trajectory.nc", "claims.json"))


def so_far(directory: Path, study: Study, plan: Mapping[str, Any]) -> SoFar:
    """What the checkpoints in ``directory`` hold. One that is damaged, or of something else, is left out.

    Args:
        directory: the run folder.
        study: what is run, with its options.
        plan: what ``config.json`` holds.
    """
    arms = list(study.arms())
    by_arm: dict[str, list[Shard]] = {}
    for shard in planned(study, arms, plan):
        by_arm.setdefault(shard.arm.name, []).append(shard)
    standings, runs = [], {}
    for arm in arms:
        read = [_read(directory, shard) for shard in by_arm[arm.name]]
        share = sum(one.share for one in read) / len(read)
        done, begun = all(one.done for one in read), any(one.points for one in read)
        steps = arm.recipe.steps
        standings.append(Standing(arm.name, arm.label or arm.name, round(share * steps), steps, begun, done))
        found = _joined([one.points for one in read if one.points], arm)
        if found is not None:
            runs[arm.name] = found
    return SoFar(standings, runs)


@dataclass(frozen=True)
class _Read:
    """What is there of a shard: measurements by point, and how much of it is done."""

    points: Mapping[tuple[tuple[str, float], ...], xr.Dataset]
    share: float
    done: bool


def _read(directory: Path, shard: Shard) -> _Read:
    points: dict[tuple[tuple[str, float], ...], xr.Dataset] = {}
    programs, program, share, done = 1, 0, 0.0, True
    while program < programs:
        try:
            tensors, about = unpacked(directory / shard.checkpoint(program))
            if differs := other(about, shard.identity()):
                raise ValueError(differs)
            programs = int(about["programs"])
            points |= _points(tensors, about, shard)
            steps = about.get("steps", shard.arm.recipe.steps)  # those of the program's own point
            share += 1.0 if about["done"] else min(1.0, about["step"] / max(1, steps))
            done = done and about["done"] is True
        except (OSError, DamagedError, *FOREIGN):
            done = False
        program += 1
    return _Read(points, share / max(1, programs), done)


def _points(
    tensors: Mapping[str, torch.Tensor], about: Mapping[str, Any], shard: Shard
) -> dict[tuple[tuple[str, float], ...], xr.Dataset]:
    """The measurements of each point of a program; none of one that was not looked at yet."""
    record = Record.restore(named_from(tensors, "record."), about["record"])
    if not record.steps:
        return {}
    labels, count = about.get("points", [{}]), len(shard.replicas)
    everyone = list(shard.replicas) * len(labels)
    known = set(about["record"]["labels"])
    if LAST_STEP not in known:
        record.put({LAST_STEP: Measurement(torch.full((len(everyone),), record.steps[-1]), _LAST, (), "step")})
    record.put(
        {
            name: Measurement(at, _EVENT, (), "step")
            for name, at in named_from(tensors, "now.").items()
            if name not in known
        }
    )
    together = record.to_dataset(everyone)
    parts = [together.isel(replica=slice(i * count, (i + 1) * count)) for i in range(len(labels))]
    return {tuple(sorted(at.items())): one.assign_coords(at) for at, one in zip(labels, parts, strict=True)}


def _joined(shards: Sequence[Mapping[Any, xr.Dataset]], arm: Arm) -> xr.Dataset | None:
    """The shards side by side, at the points that the most replicas have; None where there are none."""
    known = Counter(chain.from_iterable(shards))
    shared = {point for point, count in known.items() if count == max(known.values())}
    if not shared:
        return None
    try:
        return join([ShardResult([one for at, one in shard.items() if at in shared], {}) for shard in shards], arm)
    except FOREIGN:
        return None
