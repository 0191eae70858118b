"""Arms run without a folder around them, once as they are and again with a planted fault."""

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, runtime_checkable

import xarray as xr

from featscope.claims import Claim
from featscope.claims.statement import Test
from featscope.options import ConfigError
from featscope.registry import find
from featscope.runs.execute import join
from featscope.runs.folder import RunFolder
from featscope.runs.shard import Shard
from featscope.studies import Arm, Study

Claims = Mapping[tuple[str, str], Claim]
"""(id, arm) -> claim."""


def measure(
    study: Study,
    arm: Arm,
    replicas: int | range = 8,
    seed: int = 0,
    at_most: int | None = None,
    *,
    groups: int = 1,
) -> xr.Dataset:
    """What ``arm`` of ``study`` measures, run in this process.

    Args:
        study: what is measured on the way.
        arm: one of its arms, or a variation of one.
        replicas: how many independent repetitions, or which.
        seed: seed of all streams.
        at_most: steps after which it ends.
        groups: in which replicas train, each beside those of its group alone.
    """
    numbers = range(replicas) if isinstance(replicas, int) else replicas
    size = max(1, ceil(len(numbers) / groups)) if arm.recipe.replica_axis else 1
    ranges = [numbers[first : first + size] for first in range(0, len(numbers), size)]
    with TemporaryDirectory() as place:
        folder = RunFolder.create(Path(place) / "run")
        shards = [Shard(study, arm, those, seed, "cpu", at_most) for those in ranges]
        return join([shard.run(folder, lambda: False, lambda steps, status: None) for shard in shards], arm)


def by_name(claims: Sequence[Claim]) -> Claims:
    """Claims by id and arm."""
    return {(claim.id, claim.arm): claim for claim in claims}


@dataclass(frozen=True)
class Fault:
    """A fault of one line, and the claim that notices it.

    Attributes:
        where: the class or module in which it is planted.
        name: the attribute that is replaced.
        line: what it is replaced by.
        claim: id of the claim that must no longer hold.
        arm: the arm of that claim.
        arms: arms that are run again with the fault; the claim's own if none is named.
        steps: steps after which they end; as many as without the fault if None.
        verdict: the verdict that the fault leads to; any but "holds" if None.
    """

    where: Any
    name: str
    line: Any
    claim: str
    arm: str
    arms: tuple[str, ...] = ()
    steps: int | None = None
    verdict: str | None = None


@runtime_checkable
class Plants(Protocol):
    """What plants a fault for a while: pytest's ``monkeypatch``."""

    def setattr(self, target: Any, name: str, value: Any, /) -> None:
        """Replace an attribute."""


class _Arms(Mapping[str, xr.Dataset]):
    """What arms measure, found by ``measured`` as each is asked for.

    Args:
        names: of the arms.
        measured: name -> what that arm measures.
    """

    def __init__(self, names: Mapping[str, Arm], measured: Callable[[str], xr.Dataset]) -> None:
        self._names, self._measured = names, measured

    def __getitem__(self, arm: str) -> xr.Dataset:
        if arm not in self._names:
            raise KeyError(arm)
        try:
            return self._measured(arm)
        except KeyError as error:  # which would say here that there is no such arm
            raise LookupError(f"in the arm {arm!r}: there is no {error}") from error

    def __contains__(self, arm: object) -> bool:
        return arm in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class _Judged(Mapping[tuple[str, str], Claim]):
    """The claims of a trial: a single one runs the arms that it asks for, all together run all."""

    def __init__(self, trial: "Trial") -> None:
        self._trial, self._tests = trial, _tests_by_id(trial.study)
        self._found: dict[tuple[str, str], Claim | None] = {}

    @cached_property
    def _all(self) -> Claims:
        return by_name(self._trial.study.claims(self._trial.runs))

    def __getitem__(self, key: tuple[str, str]) -> Claim:
        if not isinstance(key, tuple) or len(key) != 2:
            raise KeyError(key)
        claim, arm = key
        if "_all" in vars(self) or claim not in self._tests:
            return self._all[key]
        if key not in self._found:
            self._found[key] = self._judged(claim, arm)
        if (found := self._found[key]) is None:
            raise KeyError(key)
        return found

    def _judged(self, claim: str, arm: str) -> Claim | None:
        trial, test = self._trial, self._tests[claim]
        if arm not in test.arms(trial.study) or (test.of_runs and arm not in trial.arms):
            return None
        try:
            return test.judge(trial.study, arm, _Arms(trial.arms, trial.run))
        except KeyError as error:  # which would say here that there is no such claim
            raise LookupError(f"in the claim {claim!r} on {arm!r}: there is no {error}") from error
        except Exception as error:
            error.add_note(f"in the claim {claim!r} on {arm!r}")
            raise

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


def _tests_by_id(study: Study) -> dict[str, Test]:
    """What judges each claim of ``study`` by itself; nothing where it makes claims in a way of its own, as a sweep."""
    return {test.statement.id: test for test in study.tests if type(study).claims is Study.claims}


class Trial:
    """A study whose arms are run once as they are, and again with faults: same seed, same draws.

    An arm is run when it, or a claim that looks at it, is first asked for: a fault costs the arms of its claim. Ask
    before you plant one by hand, as what is first run with it in place is kept.

    Args:
        study: the study, at a size that takes seconds.
        replicas: of every arm.
        more: replicas of some arms, where claims are narrow.
        arms: what some arms are run as instead, by name: shorter, cheaper, at fewer points.
        seed: seed of all streams.
    """

    def __init__(
        self,
        study: Study,
        replicas: int = 8,
        more: Mapping[str, int] | None = None,
        arms: Mapping[str, Arm] | None = None,
        seed: int = 0,
    ) -> None:
        self.study, self._replicas, self._more, self._seed = study, replicas, more or {}, seed
        self.arms = {arm.name: arm for arm in study.arms()} | dict(arms or {})
        self._measured: dict[str, xr.Dataset] = {}

    def measure(self, arm: Arm, at_most: int | None = None) -> xr.Dataset:
        """What ``arm``, one of the study's or a variation of one, measures now.

        Where it may stop early replicas train in two groups, as they do where a run has two cores: each group stops at
        a step of its own, and is not looked at where only the other one was.
        """
        replicas, groups = self._more.get(arm.name, self._replicas), 2 if arm.stop_at else 1
        return measure(self.study, arm, replicas, self._seed, at_most, groups=groups)

    def run(self, name: str) -> xr.Dataset:
        """What the arm called ``name`` measures as it is; run once."""
        if name not in self._measured:
            self._measured[name] = self.measure(self.arms[name])
        return self._measured[name]

    def know(self, runs: Mapping[str, xr.Dataset]) -> None:
        """Take what arms measure as they are from ``runs``, by name; these are not run."""
        self._measured |= runs

    @property
    def runs(self) -> dict[str, xr.Dataset]:
        """What all arms measure as they are."""
        return {name: self.run(name) for name in self.arms}

    @cached_property
    def healthy(self) -> Claims:
        """The claims of the study as it is."""
        return _Judged(self)

    def _known(self, name: str) -> xr.Dataset:
        """What the arm called ``name`` measured before anything was planted."""
        if name not in self._measured:
            raise RuntimeError(
                f"the arm {name!r} was not run before others were run again, when a fault may be in place: ask for "
                f"`run({name!r})`, or for the claim in `healthy`, before that"
            )
        return self._measured[name]

    def again(self, *arms: str | Arm, steps: int | None = None) -> Claims:
        """The claims after some arms were run again, for at most ``steps``; see `run_again`.

        Raises:
            RuntimeError: an arm was not run before.
        """
        return by_name(self.study.claims(self.run_again(*arms, steps=steps)))

    def judge_again(self, claim: str, arm: str, *arms: str | Arm, steps: int | None = None) -> Claim:
        """One claim after some arms were run again; others are not judged.

        Raises:
            LookupError: nothing is measured for it now.
            RuntimeError: an arm that it looks at was not run before.
        """
        return self._judge(claim, arm, self.run_again(*arms, steps=steps))

    def _judge(self, claim: str, arm: str, runs: Mapping[str, xr.Dataset]) -> Claim:
        test = _tests_by_id(self.study).get(claim)
        found = test.judge(self.study, arm, runs) if test else by_name(self.study.claims(runs)).get((claim, arm))
        if found is None:
            raise LookupError(f"{claim} on {arm} measures nothing now")
        return found

    def run_again(self, *arms: str | Arm, steps: int | None = None) -> Mapping[str, xr.Dataset]:
        """What arms measure after some were run again, for at most ``steps``; the others as they were run before.

        What is measured before the first step stays as it was where more than one step is taken, and so does what a
        variation of an arm does not measure.

        Raises:
            RuntimeError: an arm was not run before; of the others, once it is asked for.
        """
        again: dict[str, xr.Dataset] = {}
        for chosen in arms:
            arm = self.arms[chosen] if isinstance(chosen, str) else chosen
            old = self._known(arm.name)
            new = self.measure(replace(arm, at_start=arm.at_start if steps == 1 else ()) if steps else arm, steps)
            once = {name: one for name, one in old.data_vars.items() if name not in new and "step" not in one.dims}
            again[arm.name] = new.assign(once)
        return ChainMap(again, _Arms(self.arms, self._known))  # type: ignore[arg-type]  # the second is only read

    def require_noticed(self, fault: Fault, plants: Plants) -> None:
        """Plant ``fault``, and see its claim, which holds and is expected to, no longer hold.

        Where replicas are too few to decide the claim, what was measured must stand to its bound as it should before,
        and not with the fault.

        Raises:
            AssertionError: the claim did not hold before, or still does.
        """
        before = self.healthy[fault.claim, fault.arm]
        assert before.expected, f"{fault.claim} is not expected to hold on {fault.arm}"
        sound = before.verdict == "holds" or (before.verdict == "undecided" and before.stands)
        assert sound, f"{fault.claim} on {fault.arm} {before.verdict} without the fault"
        again = self._as_they_are(fault)
        plants.setattr(fault.where, fault.name, fault.line)
        after = self.judge_again(fault.claim, fault.arm, *again, steps=fault.steps)
        noticed = after.verdict != "holds" if before.verdict == "holds" else not after.stands
        noticed = noticed and fault.verdict in (None, after.verdict)
        assert noticed, f"{fault.claim} on {fault.arm} is {after.verdict!r} with the fault"

    def require_not_for_being_short(self, faults: Sequence[Fault]) -> None:
        """See that what ``faults`` take from claims is not taken by the fewer steps that they are looked for in.

        Raises:
            AssertionError: a claim does not hold in fewer steps without any fault.
        """
        cut: dict[tuple[tuple[str, ...], int], list[Fault]] = {}
        for fault in faults:
            if fault.steps:
                cut.setdefault((self._as_they_are(fault), fault.steps), []).append(fault)
        for (arms, steps), theirs in cut.items():
            runs = self.run_again(*arms, steps=steps)
            for fault in theirs:
                found = self._judge(fault.claim, fault.arm, runs)
                sound = found.verdict == "holds" or (found.verdict == "undecided" and found.stands)
                assert sound, f"{fault.claim} on {fault.arm} {found.verdict} after {steps} steps"

    def _as_they_are(self, fault: Fault) -> tuple[str, ...]:
        """The arms that are run again for ``fault``, once all that its claim looks at was run as it is."""
        self.healthy[fault.claim, fault.arm]
        again = fault.arms or (fault.arm,)
        for arm in again:
            self.run(arm)
        return again


def find_trial(target: str, replicas: int | None = None) -> Trial:
    """The trial that ``target`` names.

    Args:
        target: the name of a study, for `Study.smallest`; or "module:NAME" of a `Trial` that stands in a module.
        replicas: of every arm of a study; 8 if None. A trial that stands in a module has its own.

    Raises:
        ConfigError: there is no such study, the module has no such trial, or there are no replicas.
    """
    module, colon, name = target.partition(":")
    if not colon:
        replicas = 8 if replicas is None else replicas
        if replicas < 1:
            raise ConfigError(f"--replicas = {replicas} is out of range: allowed is >= 1")
        return Trial(find(target)[1]().smallest(), replicas)
    if replicas is not None:
        raise ConfigError(f"--replicas = {replicas} is for a study: the trial {target} has its own. Leave it out.")
    found = getattr(import_module(module), name, None)
    if not isinstance(found, Trial):
        raise ConfigError(f"{target!r} is a {type(found).__name__}: allowed is the name of a Trial in a module")
    return found
