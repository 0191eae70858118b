"""A program: points of an arm that run as one experiment, from its checkpoint to the end."""

import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch
import xarray as xr
from jaxtyping import UInt8

from featscope.allocator import hand_back_freed_memory
from featscope.options import ConfigError
from featscope.runs.ends import Ends, digests
from featscope.runs.folder import RunFolder
from featscope.runs.identity import other
from featscope.studies.at_point import PLACE
from featscope.studies.base import Arm, Assay
from featscope.threads import FEWEST_SHARED
from featscope.training import DivergedError, Experiment, Measurement, Record, probe_steps, train
from featscope.training.experiment import Recipe
from featscope.training.record import require_other_names
from featscope.training.stack import bind, stack

_SECONDS_BETWEEN_CHECKPOINTS = 10.0
_SAVING_MAY_TAKE = 0.01  # of the time, where that lets checkpoints follow each other faster: they are what is watched
_SECONDS_AT_LEAST = 1.0
LAST_STEP = "last_step"
FOREIGN = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What reading the state of something else may raise."""
_DESCRIBED = {"step": int, "done": bool, "record": dict, "programs": int, "numbers": dict}  # by every checkpoint


class StoppedError(Exception):
    """The run was asked to stop; the state is saved."""


class ForeignError(Exception):
    """A checkpoint holds the state of something else."""


def saved_in(folder: RunFolder, name: str) -> tuple[dict[str, torch.Tensor], dict[str, Any]] | None:
    """What a checkpoint holds; None if there is none of use. One that lacks what is needed is set aside."""
    saved = folder.read_tensors(name)
    if saved is not None:
        about = saved[1]
        wrong = [key for key, kind in _DESCRIBED.items() if type(about.get(key)) is not kind]
        if wrong:
            folder.set_aside(name, f"has a description without a sound {wrong[0]!r}")
            return None
    return saved


class Program:
    """Points of an arm that run as one experiment, a part for each point."""

    def __init__(
        self,
        built: Sequence[tuple[Mapping[str, float], Recipe, Experiment]],
        checkpoint: str,
        identity: Mapping[str, Any],
        about: Mapping[str, Any],
        at_most: int | None = None,
    ) -> None:
        self.labels = [labels for labels, _, _ in built]
        recipe = built[0][1]  # the others' steps and spacing of looks are the same
        self.steps = until(recipe, at_most)
        self.probe_every = recipe.probe_every
        self.parts = [experiment for *_, experiment in built]
        self.whole = stack(self.parts)
        self.checkpoint, self._about = checkpoint, about
        self._identity = {"points": self.labels, "steps": self.steps, **identity}
        self._replica_axis = recipe.replica_axis
        self.weights = sum(weights.numel() for weights in self.whole.parameters())
        self.trained = {name for name, one in self.whole.named_parameters() if one.requires_grad}
        self.threads: list[int] | None = []
        self._begins = self._digests(self.trained) if self.steps else {}
        self.ends: Ends = {}
        self.computed_by: Mapping[str, Any] | None = about.get("computed_by")

    def _save(self, folder: RunFolder, step: int, record: Record, *, done: bool, keep_state: bool = True) -> None:
        tensors = {f"record.{key}": value for key, value in record.tensors().items()}
        about = {"step": step, "done": done, "record": record.labels(), "numbers": {}}
        about |= {**self._about, **self._identity} | ({} if self.threads is None else {"threads": self.threads})
        if not done:  # for those who look before it is
            tensors |= {f"now.{name}": at.clone() for name, at in self._events().items()}
        if keep_state:
            state, about["numbers"] = self.whole.state()
            tensors |= {f"experiment.{key}": value for key, value in state.items()}
        else:
            tensors |= {f"end.{key}": value for key, value in self.ends.items()}
        folder.write_tensors(self.checkpoint, tensors, about)

    def measure(self, assays: Iterable[Assay]) -> dict[str, Measurement]:
        """Each part measured by itself, joined along the replica axis; NaN where a replica is given up, or a part lacks
        what another has.

        Raises:
            ConfigError: a series has the name of an axis.
            ValueError: two assays, or an assay and the run itself, measure under one name.
        """
        bind(self.whole, self.parts)
        found: dict[str, Measurement] = {}
        for assay in assays:
            each = [assay(part) for part in self.parts]
            names = dict.fromkeys(chain.from_iterable(each))
            require_other_names(names, found)
            for name in names:
                found[name] = self._joined([_measurement(name, one[name]) if name in one else None for one in each])
        self._require_no_axis(found)
        if taken := {LAST_STEP, PLACE, *self._events()}.intersection(found):
            raise ValueError(
                f"{taken.pop()!r} is kept of every run, is the axis of judged sweeps, or is an event of this one: "
                "measure another name"
            )
        return self.whole.masked(found)

    def _joined(self, each: Sequence[Measurement | None]) -> Measurement:
        known = [one for one in each if one is not None]
        first = known[0]
        if len(each) == 1:
            return first
        missing = first.values
        if len(known) < len(each):  # whole numbers become others, as NaN is none
            missing = torch.full_like(missing if missing.is_floating_point() else missing.double(), torch.nan)
        values = [missing if one is None else one.values for one in each]
        return first._replace(values=torch.cat(values))

    def run(
        self,
        arm: Arm,
        watch: Assay,
        folder: RunFolder,
        stopped: Callable[[], bool],
        progress: Callable[[float, str], None],
    ) -> Record:
        """Go on to the end and measure. See `Shard.run`."""
        whole, steps = self.whole, self.steps
        start, record, done = self._restore(folder, may_end_early=arm.stop_at is not None)
        progress(steps if done else start, "resumed" if start else "starting")
        if done:
            return record
        now = torch.get_num_threads()
        if self._by_threads and self.threads is not None and now not in self.threads:
            self.threads.append(now)
        if start == 0:
            record = Record()  # the state may be that of a run which diverged at its first step, and has measured
            with torch.no_grad():
                record.put(self.measure(arm.at_start))
            hand_back_freed_memory()

        save_at = time.monotonic() + min(_SECONDS_AT_LEAST, _SECONDS_BETWEEN_CHECKPOINTS)
        reached = start

        def after_step(step: int) -> None:
            nonlocal save_at, reached
            reached = step
            progress(1, whole.status())
            if stopped():
                raise StoppedError
            if (began := time.monotonic()) > save_at:
                self._save(folder, step, record, done=False)
                took = (ended := time.monotonic()) - began
                save_at = ended + min(max(took / _SAVING_MAY_TAKE, _SECONDS_AT_LEAST), _SECONDS_BETWEEN_CHECKPOINTS)

        try:
            last = train(
                whole,
                steps,
                lambda _: self.measure([watch]),
                probe_steps(steps, self.probe_every),
                record,
                start=start,
                stop_at=arm.stop_at,
                after_step=after_step,
            )
        except (StoppedError, DivergedError):
            if whole.sound():
                self._save(folder, reached, record, done=False)
            raise
        progress(steps - last, "measuring")
        with torch.no_grad():
            record.put(self.measure([*arm.at_end, lambda part: part.outcomes()]))
        hand_back_freed_memory()
        about = "first step of the event; -1 if it did not happen"
        record.put({name: Measurement(step, about, (), "step") for name, step in self._events().items()})
        record.put({LAST_STEP: Measurement(whole.last_look, "last step at which a replica was measured", (), "step")})
        self.ends = self._digests()
        self._save(folder, last, record, done=True, keep_state=not arm.over)
        return record

    @property
    def _by_threads(self) -> bool:
        """Whether several threads may train it."""
        return torch.device(self.whole.streams.device).type == "cpu" and self.weights >= FEWEST_SHARED

    @property
    def at_rest(self) -> frozenset[str]:
        """Names of what is trained and ends in every replica as it began, to the bit."""
        there = (self.whole.diverged < 0).cpu()
        both = {name: (self._begins[name], self.ends[name]) for name in self._begins.keys() & self.ends.keys()}
        of = {name: [x[there] if len(x) == len(there) else x for x in pair] for name, pair in both.items()}
        return frozenset(name for name, (start, end) in of.items() if len(start) and torch.equal(start, end))

    def _digests(self, only: Container[str] | None = None) -> Ends:
        kept, replicas = self.whole.kept(), len(self.whole.streams.replicas)
        kept = kept if only is None else {name: values for name, values in kept.items() if name in only}
        return digests(kept, replicas, replica_axis=self._replica_axis)

    def split_ends(self) -> list[Mapping[str, UInt8[np.ndarray, "replica byte"]]]:
        """What replicas end with, point by point; of tensors each would cost the parent an open file."""
        each = {name: np.split(of.numpy(), len(self.parts)) for name, of in self.ends.items()}
        return [{name: of[place] for name, of in each.items()} for place in range(len(self.parts))]

    def _events(self) -> dict[str, torch.Tensor]:
        """The first step of each event so far."""
        return self.whole.events() | ({"diverged": self.whole.diverged} if self.whole.gives_up else {})

    def split(self, record: Record, replicas: range) -> list[xr.Dataset]:
        """What was recorded, point by point."""
        together = record.to_dataset(self.whole.streams.replicas)
        self._require_no_axis(map(str, together.data_vars))
        count = len(replicas)
        parts = [together.isel(replica=slice(i * count, (i + 1) * count)) for i in range(len(self.parts))]
        return [part.assign_coords(labels) for part, labels in zip(parts, self.labels, strict=True)]

    def _require_no_axis(self, series: Iterable[str]) -> None:
        """Refuse an axis that is called like one of the series: it would take its place in the data."""
        if taken := set(self.labels[0]).intersection(series):
            name = taken.pop()
            raise ConfigError(
                f"axis {name!r} is refused: a series that is measured is called {name!r}, too, and would be lost. "
                "Allowed are options without a namesake: leave it out, or rename the series."
            )

    def _restore(self, folder: RunFolder, *, may_end_early: bool) -> tuple[int, Record, bool]:
        """Steps done, what was recorded on the way, and whether that is all.

        Raises:
            ForeignError: what was saved does not fit, and may have been taken over in part.
        """
        saved = saved_in(folder, self.checkpoint)
        if saved is None:
            return 0, Record(), False
        part, about = partial(named_from, saved[0]), saved[1]
        try:
            if differs := other(about, self._identity):
                raise ValueError(differs)
            if ends_early(about, self.steps, may_end_early) or not 0 <= about["step"] <= self.steps:
                raise ValueError(f"step {about['step']} of {self.steps}")
            if state := part("experiment."):  # a finished arm with axes keeps none
                self.whole.restore(state, about["numbers"])
            elif not about["done"]:
                raise ValueError("no state")
            said = about.get("threads", None if self._by_threads else ())
            self.threads = None if said is None else [int(number) for number in said]
            if about["done"]:
                self.computed_by = about.get("computed_by")
                self.ends = self._digests() if state else part("end.")
            record = Record.restore(part("record."), about["record"])
            self.split(record, range(len(self.whole.streams.replicas) // len(self.parts)))
        except FOREIGN as error:
            what = f"{type(error).__name__}: {error}".partition("\n")[0]
            raise ForeignError(f"holds the state of something else ({what})") from None
        return about["step"], record, about["done"]


def named_from(tensors: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """Those whose names begin with ``prefix``, under the rest of their names."""
    return {name.removeprefix(prefix): one for name, one in tensors.items() if name.startswith(prefix)}


def _measurement(name: str, found: Any) -> Measurement:
    if not isinstance(found, Measurement):
        raise TypeError(f"{name!r} is a {type(found).__name__}: expected a Measurement(values, about, dims)")
    return found


def ends_early(about: Mapping[str, Any], steps: int, allowed: bool) -> bool:
    """Whether what is done has too few steps."""
    return bool(about["done"]) and about["step"] < steps and not allowed


def until(recipe: Recipe, at_most: int | None) -> int:
    return recipe.steps if at_most is None else min(recipe.steps, at_most)
