"""Running a study: plan shards, train them in parallel, judge, store."""

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
import xarray as xr

from featscope.claims import Claim, how_many_hold
from featscope.options import ConfigError, MissingExtraError, require
from featscope.runs.diverged import how_many_diverged, without_diverged
from featscope.runs.environment import computed_by, environment, mixed, module_of, with_history
from featscope.runs.export import claims_frame
from featscope.runs.folder import RunFolder
from featscope.runs.inputs import contents
from featscope.runs.older import as_far_as_measured
from featscope.runs.plain import as_read, differences, to_plain
from featscope.runs.repeatable import repeatable
from featscope.runs.shard import Shard, ShardResult
from featscope.runs.size import require_countable, require_steps, within
from featscope.runs.stored import read_environment, read_plan
from featscope.runs.twins import in_common
from featscope.runs.workers import Trainer, in_worker, one_at_a_time, train_all, worker_count
from featscope.streams import METHOD
from featscope.studies.base import Arm, Assay, Study, require_different_names
from featscope.system import free_memory
from featscope.training.experiment import DivergedError
from featscope.training.memory import peak_bytes

_RUNS_IN_A_SHARD = 64  # on an arm with axes: enough for full speed, few enough to fit in memory and to lose little
_ASSAYS_MAY_TAKE = 32  # times the memory of a step; far more samples than a batch

MOST_REPLICAS = 1_000_000
"""Replicas that a run may have: each has files, measurements and weights of its own."""


class UnjudgedError(RuntimeError):
    """All is measured and stored, but a claim's own code raised; its cause is what it raised (exit code 2)."""


@dataclass(frozen=True)
class Settings:
    """How to run a study, whatever the study.

    Attributes:
        seed: seed of all random streams.
        replicas: independent repetitions; None for the study's own default.
        device: "cpu", "cuda" or "cuda:N".
        memory_limit: GiB that training may use; None for half of what is free.
    """

    seed: int = 0
    replicas: int | None = None
    device: str = "cpu"
    memory_limit: float | None = None

    def __post_init__(self) -> None:
        own = "a whole number of Python's own"  # NumPy's have no place in a file
        require(self, "seed", type(self.seed) is int, own, "Give int(seed).")
        require(self, "replicas", type(self.replicas) in (int, type(None)), own, "Give int(replicas), or None.")
        require(self, "seed", abs(self.seed) < 2**63, "a whole number between -2^63 and 2^63")
        require(
            self, "replicas", self.replicas is None or 1 <= self.replicas <= MOST_REPLICAS, f"1 to {MOST_REPLICAS:,}"
        )
        limit = self.memory_limit
        numbered = type(limit) in (int, float, type(None))
        require(self, "memory_limit", limit is None or not numbered or limit > 0, "> 0 GiB")
        require(self, "memory_limit", numbered, "a number of Python's own", "Give float(memory_limit), or None.")
        require(self, "device", isinstance(self.device, str), "cpu, cuda or cuda:N")
        try:
            device = torch.device(self.device)
        except RuntimeError:  # torch knows no such word
            device = None
        require(self, "device", device is not None and device.type in ("cpu", "cuda"), "cpu, cuda or cuda:N")
        usable = device is None or device.type == "cpu" or (device.index or 0) < torch.cuda.device_count()
        require(self, "device", usable, "a device that torch sees", "Use --device cpu, or a CUDA build of torch.")


@dataclass(frozen=True, repr=False)
class Outcome:
    """A finished run: its folder, what was measured, the verdicts, in a sentence whether it is of several environments,
    and claims that are newer than what an older version measured: id -> what they lack."""

    folder: Path
    runs: dict[str, xr.Dataset]
    claims: list[Claim]
    mixed: str = ""
    newer: Mapping[str, str] = field(default_factory=dict)

    def to_frame(self) -> pd.DataFrame:
        """The claims as a pandas frame, see `featscope.runs.export.claims_frame`."""
        return claims_frame(self.claims)

    def __repr__(self) -> str:
        """What it is of, in a few lines."""
        verdicts = Counter(claim.verdict for claim in self.claims)
        counted = f"{verdicts['holds']} hold, {verdicts['fails']} fail, {verdicts['undecided']} undecided"
        return f"<Outcome of {str(self.folder)!r}\n arms: {', '.join(self.runs)}\n verdicts: {counted}>"

    def _repr_html_(self) -> str:
        """The verdicts as a table, for notebooks."""
        columns = ["title", "arm", "relation", "predicted", "measured", "low", "high", "verdict", "expected"]
        return f"<p>{how_many_hold(self.claims)}</p>{self.to_frame()[columns].to_html(index=False)}"


def run(
    study: Study,
    settings: Settings,
    out: Path | str,
    *,
    resume: bool = False,
    overwrite: bool = False,
    train: Trainer = train_all,
) -> Outcome:
    """Run ``study`` and fill the folder ``out`` (all but the report).

    Args:
        study: its config.
        settings: seed, replicas, device and limits.
        out: the run folder.
        resume: go on with the run in ``out``, which must have the same config.
        overwrite: replace the run in ``out``, which stays until every arm could take a step.
        train: trains the shards; `train_all` on this machine.

    Raises:
        ConfigError: wrong settings or options, or ``out`` cannot be used; nothing is left of the run.
        MissingExtraError: the study needs what is not installed; nothing is left of the run.
        DivergedError: training diverged; nothing is left of a run that did at its first step.
        EqualReplicasError: replicas are equal where chance should make them differ.
        UnjudgedError: a claim cannot be judged; `featscope.runs.judging` goes on from there.
        InterruptedRunError: Ctrl-C or a termination signal.
    """
    require_countable(study)
    arms = tuple(study.arms())  # says what is wrong with the options, before anything is written
    if not arms:
        raise ConfigError(f"{study.name or type(study).__name__} has no arms: allowed is a study that has one or more")
    require_different_names(arms)
    require_steps(arms)
    with RunFolder.held(Path(out), resume=resume, overwrite=overwrite) as folder:
        try:
            return _run(study, arms, settings, folder, resume, train)
        except (ConfigError, MissingExtraError, DivergedError):  # the last may come of the step that measures memory
            if not resume:
                folder.remove_unless_begun()
            raise
        except BaseException:
            if not (folder.path / "config.json").exists():  # while memory was measured, or data were read
                folder.remove_unless_begun()
            raise


def _run(
    study: Study, arms: Sequence[Arm], settings: Settings, folder: RunFolder, resume: bool, train: Trainer
) -> Outcome:
    began = time.monotonic()
    out, replicas = folder.path, settings.replicas or study.default_replicas
    name = study.name or type(study).__name__
    plan: dict[str, Any] = {"study": name, "seed": settings.seed, "replicas": replicas}
    plan |= {"device": settings.device, "config": to_plain(study), "memory_limit": settings.memory_limit}
    before, draws = None, METHOD
    if resume and (out / "config.json").exists():  # a run killed before it wrote its plan begins anew
        stored = read_plan(out)
        draws = stored.pop("draws", None)
        if stored["study"] != name or stored["config"].get("type") != plan["config"].get("type"):
            raise ConfigError(
                f"--resume: {str(out)!r} holds another run, of {stored['study']}: choose another --out, or --overwrite "
                "replaces it"
            )
        fitting = Fitting(stored.pop("shard_size"), stored.pop("workers", None))  # free memory must not change numbers
        if changed := differences(stored | {"config": as_read(stored["config"])}, plan):
            differ = "; ".join(changed)
            raise ConfigError(
                f"--resume needs the options that the run began with; changed: {differ}. --overwrite begins anew"
            )
        if (out / "environment.json").exists():
            before = read_environment(out)
    else:
        fitting = _fitting(study, arms, replicas, settings)
        folder.clear()
        folder.write_json("config.json", plan | fitting.stored | {"draws": METHOD})
    shards = planned(study, arms, plan | fitting.stored)
    to_train = not all(shard.finished(folder) for shard in shards)
    if draws != METHOD and to_train:
        raise ConfigError(
            "--resume: another version of FeatScope, which drew other random numbers, began this run, and its data "
            "would change half-way. --overwrite begins anew; environment.json names the version that can go on"
        )
    if to_train or before is None:
        now = environment(settings.device, module_of(study)) | {"inputs": contents(plan["config"], out)}
    else:  # files alone are written anew: what computed the run did not change
        now = before
    about_machine = with_history(now, before)
    folder.write_json("environment.json", about_machine)
    earlier = about_machine.get("seconds") or 0.0

    def write_time() -> None:
        folder.write_json("environment.json", about_machine | {"seconds": earlier + time.monotonic() - began})

    try:
        with one_at_a_time(fitting.workers == 1):
            results = list(zip(shards, train(folder, shards, settings.device), strict=True))
        about_machine = computed_by(about_machine, [r.computed_by for _, r in results])
        if settings.device == "cpu":
            known = [result.threads for _, result in results]
            about_machine.pop("threads", None)
            if None not in known:  # an older version did not say
                about_machine["threads"] = sorted({n for threads in known for n in threads or ()}) or [1]
        by_arm = {arm.name: [(s, r) for s, r in results if s.arm is arm] for arm in arms}
        common = {name: in_common(its) for name, its in by_arm.items()}  # before anything is there to be judged
        runs = {arm.name: join([r for _, r in by_arm[arm.name]], arm) for arm in arms}
        folder.write_trajectory(runs)
        for arm in arms:
            _write_weights(folder, arm, by_arm[arm.name], common[arm.name])
        with as_far_as_measured(study, (), about_machine) as newer:
            claims = _judged(study, runs, folder)
        folder.write_claims(name, settings.seed, replicas, plan["config"], claims, how_many_diverged(runs))
    except BaseException as error:
        about_machine = computed_by(about_machine, getattr(error, "computed_by", ()))
        with suppress(OSError):  # a full disk may be what ended it
            write_time()
        raise
    write_time()
    return Outcome(out, runs, claims, mixed(about_machine), newer)


def _write_weights(
    folder: RunFolder, arm: Arm, results: Sequence[tuple[Shard, ShardResult]], common: Collection[str]
) -> None:
    """Write what an arm ended with; what all replicas have in ``common``, or has no row for each, once."""
    parts, sizes = [r.weights for _, r in results], [len(s.replicas) for s, _ in results]

    def whole(name: str) -> np.ndarray:
        of_shards = [part[name] for part in parts]
        if not arm.recipe.replica_axis:
            return np.stack(of_shards)
        return np.concatenate(of_shards) if name not in common and _of_replicas(of_shards, sizes) else of_shards[0]

    if weights := {name: torch.from_numpy(whole(name)) for name in parts[0]}:
        folder.write_tensors(f"weights/{arm.name}.safetensors", weights, {"arm": arm.name})


def _of_replicas(parts: Sequence[np.ndarray], sizes: Sequence[int]) -> bool:
    """Whether an array of each shard has a row for each of its replicas; one that does not is the same for all."""
    return all(part.shape[:1] == (size,) for part, size in zip(parts, sizes, strict=True))


def _judged(study: Study, runs: dict[str, xr.Dataset], folder: RunFolder) -> list[Claim]:
    try:
        return list(study.claims(runs))
    except Exception as error:
        raise UnjudgedError(str(folder.path)) from error


def planned(study: Study, arms: Sequence[Arm], plan: Mapping[str, Any]) -> list[Shard]:
    """The shards of ``arms`` in the order of the story; ``plan`` is what ``config.json`` holds."""
    replicas = plan["replicas"]
    return [
        Shard(study, arm, range(first, min(first + size, replicas)), plan["seed"], plan["device"], points=places)
        for arm in arms
        for size in [_replicas_together(arm, plan["shard_size"])]
        for places in _points_together(arm)
        for first in range(0, replicas, size)
    ]


def join(parts: Sequence[ShardResult], arm: Arm) -> xr.Dataset:
    """What the shards of ``arm`` measured: replicas side by side, points of its axes in a grid.

    Nothing is left of replicas that diverged, see `without_diverged`, nor of measurements whose shape depends on the
    point; their names stand in the attribute ``left_out``.
    """
    by_point: dict[tuple[float, ...], list[xr.Dataset]] = {}
    for point in chain.from_iterable(part.data for part in parts):
        by_point.setdefault(tuple(point[axis.name].item() for axis in arm.over), []).append(point)
    # Shards of an arm that may stop early can end at different steps; what is missing is NaN.
    joined = [xr.concat(shards, dim="replica", join="outer", combine_attrs="override") for shards in by_point.values()]
    dropped: list[str] = []
    if arm.over:
        shapes: dict[Any, set[Any]] = {}
        for point in joined:
            for name, variable in point.items():
                shapes.setdefault(name, set()).add(tuple((d, n) for d, n in variable.sizes.items() if d != "step"))
        dropped = [str(name) for name, its in shapes.items() if len(its) > 1]
        kept = [point.drop_vars(dropped, errors="ignore") for point in joined]
        grid = xr.concat(kept, dim="point", join="outer", combine_attrs="override")
        names = [axis.name for axis in arm.over]
        # Said once more, as a single point has its labels outside the dimension.
        grid = grid.assign_coords({name: ("point", [point[name].item() for point in joined]) for name in names})
        data = grid.set_index(point=names).unstack("point") if len(names) > 1 else grid.swap_dims(point=names[0])
        data = data.sortby(names)
    else:
        (data,) = joined
    about = {"about": arm.about, "label": arm.label or arm.name, "role": arm.role}
    about |= {"left_out": ", ".join(dropped)} if dropped else {}
    still = sorted(frozenset.intersection(*(part.at_rest for part in parts)))
    return without_diverged(data).assign_attrs(about | ({"at_rest": ", ".join(still)} if still else {}))


def left_out(runs: Mapping[str, xr.Dataset]) -> str:
    """What `join` left out, in a sentence for each arm; empty if nothing was."""
    return " ".join(
        f"Not kept of the arm {arm}, as its shape depends on the point: {run.attrs['left_out']}. Measure what has one "
        "shape, such as a mean, or run these points apart."
        for arm, run in runs.items()
        if "left_out" in run.attrs
    )


def _replicas_together(arm: Arm, shard_size: int) -> int:
    """Replicas in a shard of ``arm``, all of whose points train at once if they are few."""
    if not arm.recipe.replica_axis:
        return 1
    combinations = math.prod(len(axis.values) for axis in arm.over)
    return max(1, min(shard_size, _RUNS_IN_A_SHARD // combinations)) if arm.over else shard_size


def _points_together(arm: Arm) -> list[range | None]:
    """Places of the points in each shard of ``arm``; None where one has them all."""
    count, most = math.prod(len(axis.values) for axis in arm.over), _RUNS_IN_A_SHARD
    return [None] if count <= most else [range(first, min(first + most, count)) for first in range(0, count, most)]


class Fitting(NamedTuple):
    """What memory holds at a time.

    Attributes:
        shard_size: replicas in a shard.
        workers: 1 where shards are trained one after the other, by all cores, as memory does not hold a replica for
            each core; else None.
    """

    shard_size: int
    workers: int | None = None

    @property
    def stored(self) -> dict[str, int]:
        """What ``config.json`` keeps of it."""
        return {name: value for name, value in self._asdict().items() if value is not None}


def _fitting(study: Study, arms: Sequence[Arm], replicas: int, settings: Settings) -> Fitting:
    """An even share of the replicas for each worker; fewer, or one shard at a time, as memory or the study asks for."""
    workers = worker_count(settings.device)
    if settings.memory_limit is not None:
        limit = settings.memory_limit * 2**30
    elif settings.device == "cpu":
        limit = free_memory() / 2
    else:
        limit = torch.cuda.mem_get_info(settings.device)[0] / 2
    size = math.ceil(replicas / workers) if any(arm.recipe.replica_axis for arm in arms) else 1

    @repeatable(settings.device)
    def first_step(arm: Arm, then: Sequence[Assay]) -> None:
        first = Shard(study, arm, range(1), settings.seed, settings.device, points=_points_together(arm)[0])
        for program in first.build():
            program.whole.advance(0)
            with torch.no_grad():
                for assay in (arm.watch or study.watch, *then):
                    assay(program.parts[0])

    def most(*, with_assays: bool) -> int:
        """Bytes that one replica needs at most, in any arm."""
        assays = {arm.name: (*arm.at_start, *arm.at_end) if with_assays else () for arm in arms}
        return max(peak_bytes(lambda arm=arm: first_step(arm, assays[arm.name])) for arm in arms)  # type: ignore[misc]

    def find(compute: Callable[[], int]) -> int:
        return in_worker(lambda: within(limit, compute)) if settings.device == "cpu" else compute()

    need = find(lambda: most(with_assays=False))
    if size > 1 and workers * size * need * _ASSAYS_MAY_TAKE > limit:  # slow to find out, so only where it may matter
        need = find(lambda: most(with_assays=True))
    if workers * need <= limit:
        return Fitting(min(size, int(limit / workers / need)))
    if need > limit:
        error = ConfigError(
            f"Settings.memory_limit = {limit / 2**30:.3g} GiB is out of range: one replica needs {need / 2**30:.3g} "
            "GiB. Raise --memory-limit, or shrink the study."
        )
        error.owner, error.field = "Settings", "memory_limit"
        raise error
    return Fitting(min(size, int(limit / need)), 1)
