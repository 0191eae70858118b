"""Statements as methods: what a theory says, how it is measured and when it holds stand in one place.

@bound("Theorem 3.4", on="augmented", not_on="canonical", at_least=0.9, because=STATED, law="share")
def singletons_emerge(self, run):
    r'''Every feature gets a neuron of its own.

    With RandomMask each true feature $M_j$ ends in a neuron that holds it alone. Measured: share of features with
    a neuron whose squared cosine to them exceeds 1/2.
    '''
    return last(run, run.cosine).max("neuron") ** 2 > 0.5
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import cleandoc, signature
from math import inf
from types import NoneType
from typing import Any, NamedTuple, get_args, get_type_hints

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from featscope.claims.claim import Claim, Kind, Relation
from featscope.claims.intervals import COUNTED, Law
from featscope.claims.newer import noted_as_newer
from featscope.claims.samples import Asked, require_one_a_replica, without_diverged
from featscope.claims.soundness import NO_TOLERANCE, require_declared

SHARE, POSITIVE, COSINE = (0.0, 1.0), (0.0, inf), (-1.0, 1.0)
"""Ranges of what is often measured: a share or probability; a norm, count or ratio; a cosine, correlation, or
difference of two shares."""

STATED = "a stated choice."
"""The reason of a bound or tolerance that nothing but judgement gives."""
PAIRED = "Paired by replica."
ROUNDING = "Tolerance: rounding of float64 sums."

_GIVEN = ("run", "runs", "arm")
_BOUNDS = ("equals", "at_least", "at_most", "more_than", "less_than")

Arms = str | Sequence[str] | Mapping[str, str] | Callable[[Any], Sequence[str] | Mapping[str, str]]
"""Names of arms; names with what is to be said of each; or what gives them for a study whose options decide."""


class Found(NamedTuple):
    """A measurement of which more is to be said than its numbers.

    Attributes:
        measured: one value a replica ``[replica]``, or a single number where no chance enters.
        why: what this run adds to the reason of the bound.
        predicted: the predicted value or bound, where it follows from the options.
        tolerance: half-width accepted around ``predicted``, where it follows from the options.
        expected: whether it is expected to hold here, where only the run can tell (the size of a model, say).
        trials: things that each replica counted ``[replica]``, or all alike, where only the run can tell.
        law: what the measurement is, where it differs from arm to arm.
        range: ends of what a value can be, where they follow from the run (weights, say).
    """

    measured: ArrayLike | float
    why: str = ""
    predicted: float | None = None
    tolerance: float | None = None
    expected: bool | None = None
    trials: ArrayLike | None = None
    law: Law | None = None
    range: tuple[float, float] | None = None


Measured = ArrayLike | float | Found | None


@dataclass(frozen=True)
class Statement:
    """What a theory says, before anything is measured.

    Attributes:
        id: short name, the method's with hyphens.
        title: what it says in plain words, in a line.
        text: the statement, with mathematics between dollars as TeX.
        measured: what is measured, in plain words; empty if the text says it.
        source: where it is made (theorem, lemma, figure).
        kind: "identity" (an equation), "bound", "ordering" (of two measurements) or "scaling" (an exponent).
        law: what the measurement is, which decides its interval.
        range: ends of what the measurement can be.
        expected: whether there is an arm on which it is expected to hold.
        note: where paper and derivation differ, what else to know.
        corrects: ids of statements that are wrong, in whose place this one stands.
    """

    id: str
    title: str
    text: str
    measured: str
    source: str
    kind: Kind
    law: Law
    range: tuple[float, float]
    expected: bool
    note: str
    corrects: tuple[str, ...] = ()


class Test:
    """A method that measures, and what its measurement must be: a `Statement` with its bound and its arms.

    The method gets what it names: ``run``, the measurements on the arm in question; ``runs``, those on all arms; and
    ``arm``, its name. It returns what it measured; None, where its type allows for it (``-> Found | None``), says
    nothing on this arm, and is otherwise taken for a forgotten return. A method that asks for no run says something of
    what is not run, a table of the paper say, and its ``on`` names that in place of arms.
    """

    __test__ = False  # not one of pytest's

    def __init__(
        self,
        method: Callable[..., Measured],
        kind: Kind,
        source: str,
        relation: Relation,
        bound: float | None,
        within: float | None,
        on: Arms,
        not_on: Arms,
        because: str,
        note: str,
        law: Law,
        things: Callable[[Any], int] | None,
        range: tuple[float, float],
        given: Callable[[Any], bool] | None,
        corrects: str | Sequence[str] = (),
        of_divergence: bool = False,
    ) -> None:
        self.method, self.relation, self.bound, self.within = method, relation, bound, within
        self.of_divergence = of_divergence
        self.on, self.not_on, self.because, self.given, self.things = on, not_on, because, given, things
        self.wants = [name for name in signature(method).parameters if name != "self"]
        if unknown := [name for name in self.wants if name not in _GIVEN]:
            raise TypeError(f"{method.__qualname__} asks for {unknown[0]!r}: a claim is given {', '.join(_GIVEN)}")
        if not on and not not_on:
            raise TypeError(f"{method.__qualname__} names no arm, so that it is never judged: say on=... or not_on=...")
        try:
            require_declared(source, relation, within, law, range)
        except ValueError as problem:
            raise TypeError(f"{method.__qualname__}: {problem}") from None
        title, text, measured = _parts(method)
        name = method.__name__.replace("_", "-")
        expected = bool(on)
        mends = (corrects,) if isinstance(corrects, str) else tuple(corrects)
        self.statement = Statement(name, title, text, measured, source, kind, law, range, expected, note, mends)

    @property
    def of_runs(self) -> bool:
        """Whether it is about arms; else about what is not run."""
        return not {"run", "runs"}.isdisjoint(self.wants)

    def arms(self, study: Any) -> dict[str, tuple[bool, str]]:
        """Arm -> whether it is expected to hold there, and what is to be said of that arm.

        Raises:
            ValueError: an arm is in both ``on`` and ``not_on``.
            TypeError: ``given`` gives a text, or nothing.
        """
        granted = self.given is None or _whether(self.given(study), f"{self.statement.id}: given")
        on, not_on = (_named(which, study) for which in (self.on, self.not_on))
        if both := on.keys() & not_on.keys():
            raise ValueError(
                f"{self.statement.id} names the arm {min(both)!r} in on and in not_on: expected in one of them"
            )
        return {arm: (granted, why) for arm, why in on.items()} | {arm: (False, why) for arm, why in not_on.items()}

    def judge(self, study: Any, arm: str, runs: Mapping[str, Any]) -> Claim | None:
        """The claim on ``arm``; None where it says nothing there, or is newer than the run (`newer_left_out`)."""
        statement, asked = self.statement, Asked(runs)
        given = {"run": runs.get(arm), "runs": asked, "arm": arm}
        try:
            found = self.method(study, **{name: given[name] for name in self.wants})
        except (AttributeError, KeyError) as error:
            if noted_as_newer(statement.id, arm, error, [one.name for one in study.arms()]):
                return None
            raise
        if found is None:
            if not _may_be_none(self.method):
                raise TypeError(
                    f"{self.method.__qualname__} returned None: expected a measurement. Does it lack a return? Where "
                    "it says nothing on some arms, its type says so: -> Found | None"
                )
            return None
        found = found if isinstance(found, Found) else Found(found)
        law = found.law or statement.law
        samples, trials = self._samples(study, found, law)
        of_replicas = "run" in self.wants or isinstance(found.measured, xr.DataArray)  # else of questions, say, in arms
        read = asked.arms | ({arm} if "run" in self.wants else set()) if of_replicas else set()
        require_one_a_replica(statement.id, samples, [runs.get(name) for name in read])
        if not self.of_divergence:
            for name in {arm, *asked.arms}:
                samples = without_diverged(samples, runs.get(name))
        predicted = self.bound if found.predicted is None else found.predicted
        tolerance = self.within if found.tolerance is None else found.tolerance
        if predicted is None or (self.relation == "=" and tolerance is None):
            raise TypeError(f"{statement.id}: neither its decorator nor its measurement says what is predicted")
        if found.tolerance is not None and self.relation != "=":
            raise TypeError(f"{statement.id} measured a tolerance = {found.tolerance!r}: {NO_TOLERANCE}")
        expected, of_arm = self.arms(study)[arm]
        why = " ".join(filter(None, (statement.note, self.because, of_arm, found.why)))
        try:
            return Claim.from_samples(
                samples,
                self.relation,
                predicted,
                tolerance or 0.0,
                law=law,
                trials=trials,
                range=statement.range if found.range is None else found.range,
                id=statement.id,
                source=statement.source,
                statement=statement.text,
                kind=statement.kind,
                arm=arm,
                expected=expected if found.expected is None else _whether(found.expected, f"{statement.id}: expected"),
                note=why,
                title=statement.title,
                measures=statement.measured,
            )
        except ValueError as problem:
            raise ValueError(f"{statement.id}: {problem}") from None

    def _samples(self, study: Any, found: Found, law: Law) -> tuple[ArrayLike | float, ArrayLike | Sequence[float]]:
        """One value a replica, and how many things it counted."""
        measured, trials = found.measured, found.trials
        things = [str(dim) for dim in getattr(measured, "dims", ()) if dim != "replica"]
        counts = law in COUNTED and "step" not in things  # whether each is so; NaN: not counted
        if things and counts and isinstance(measured, xr.DataArray):
            if trials is not None or self.things is not None:
                raise ValueError(
                    f"{self.statement.id} says how many things it counts, and measures each: expected one of both"
                )
            return measured.astype(float).mean(things), measured.notnull().sum(things)
        if things:
            looks = "; looks that are counted have another name, as of `.rename(step=...)`" if law in COUNTED else ""
            raise ValueError(
                f"{self.statement.id} measured something for each {' and '.join(things)}: expected one value a "
                f"replica; take the last look (`last(run, ...)`), or a mean over the others{looks}"
            )
        if trials is None and self.things is not None:
            trials = self.things(study)
        return measured, () if trials is None else np.broadcast_to(np.asarray(trials, float), np.shape(measured))

    def claims(self, study: Any, runs: Mapping[str, Any]) -> Iterable[Claim]:
        """A claim for each of its arms that was run, and for all that it names where it is not about arms."""
        found = []
        for arm in self.arms(study):
            if arm in runs or not self.of_runs:
                try:
                    found.append(self.judge(study, arm, runs))
                except Exception as error:
                    error.add_note(f"in the claim {self.statement.id!r} on {arm!r}")
                    raise
        return [claim for claim in found if claim is not None]


def _named(arms: Arms, study: Any) -> Mapping[str, str]:
    if callable(arms):
        arms = arms(study)
    if isinstance(arms, Mapping):
        return arms
    return dict.fromkeys([arms] if isinstance(arms, str) else arms, "") if arms else {}


def _parts(method: Callable[..., Any]) -> tuple[str, str, str]:
    """Title, statement, and what is measured, from the docstring: a line, then what more there is to say of it."""
    title, _, rest = cleandoc(method.__doc__ or "").partition("\n\n")
    title, _, measured = " ".join(title.split()).partition("Measured: ")
    text, _, measured_there = " ".join(rest.split()).partition("Measured: ")
    if not title:
        raise TypeError(f"{method.__qualname__} has no docstring: a claim's first line is its title in plain words")
    title = title.strip().rstrip(".")
    return title, text.strip() or title, measured or measured_there.strip()


def _whether(said: Any, where: str) -> bool:
    """A truth value of a study's own code, which may be numpy's."""
    if said is None or isinstance(said, str):
        raise TypeError(f"{where} is {said!r}: expected True or False")
    return bool(said)


def _may_be_none(method: Callable[..., Any]) -> bool:
    """Whether its type says that it may return None."""
    try:
        returned = get_type_hints(method).get("return")
    except NameError:  # of a name that only a type checker imports
        return "None" in str(method.__annotations__.get("return"))
    return returned in (Any, object) or NoneType in get_args(returned)


def _decorator(kind: Kind) -> Callable[..., Callable[[Callable[..., Measured]], Test]]:
    def declare(
        source: str,
        *,
        on: Arms = (),
        not_on: Arms = (),
        equals: float | None = None,
        at_least: float | None = None,
        at_most: float | None = None,
        more_than: float | None = None,
        less_than: float | None = None,
        within: float | None = None,
        because: str = "",
        note: str = "",
        law: Law = "mean",
        things: Callable[[Any], int] | None = None,
        range: tuple[float, float] = (-inf, inf),
        given: Callable[[Any], bool] | None = None,
        relation: Relation | None = None,
        corrects: str | Sequence[str] = (),
        of_divergence: bool = False,
    ) -> Callable[[Callable[..., Measured]], Test]:
        """Make a claim of a method.

        Args:
            source: where the statement is made (theorem, lemma, figure).
            on: arms on which it must hold; a mapping adds what is to be said of each.
            not_on: arms on which it is judged and not expected to hold.
            equals: the predicted value.
            at_least: the bound from below.
            at_most: the bound from above.
            more_than: the bound from below, itself excluded; an ordering takes this or ``less_than``, so that what
                learned nothing does not pass.
            less_than: the bound from above, itself excluded.
            within: with ``equals``, the half-width accepted around it.
            because: the reason of the bound or tolerance.
            note: where paper and derivation differ, what else to know.
            law: what the measurement is, which decides its interval: "mean" of a quantity, "share" of things counted,
                "draws" for the share of draws that are independent, also of one replica (prompts of one model, say),
                "yes/no" of a replica, "extreme" (every replica must satisfy it, and chance enters), or "exact" (no
                chance enters). The measurement of a share or of draws may say of each whether it is so
                ``[replica, thing, ...]``, NaN where it does not count; looks, ``step``, are no things.
            things: how many things a replica counts, given the study: those of a share that is measured as one number,
                independent draws, those that a mean is over.
            range: ends of what the measurement can be.
            given: what options it is expected under; default all.
            relation: where the measurement says what is predicted (`Found`), how it should stand to it.
            corrects: ids of statements of the paper that are wrong and in whose place this one stands; the ledger
                shows it beside them.
            of_divergence: whether the measurement says itself what a replica that diverged is worth. Otherwise one that
                did, at any point of the arm's axes, has measured nothing, and the claim is undecided.
        """
        bounds: dict[Relation, float | None] = {
            "=": equals,
            ">=": at_least,
            "<=": at_most,
            ">": more_than,
            "<": less_than,
        }
        stated: list[tuple[Relation, float | None]] = [(r, bound) for r, bound in bounds.items() if bound is not None]
        stated += [(relation, None)] if relation is not None else []
        if len(stated) != 1:
            raise TypeError(f"{source}: a claim takes one of {', '.join(_BOUNDS)} and relation")
        if kind == "ordering" and stated[0][0] not in (">", "<"):
            raise TypeError(f"{source}: an ordering is strict: say more_than or less_than")
        by, value = stated[0]
        return lambda method: Test(
            method,
            kind,
            source,
            by,
            value,
            within,
            on,
            not_on,
            because,
            note,
            law,
            things,
            range,
            given,
            corrects,
            of_divergence,
        )

    return declare


identity, bound, ordering, scaling = (_decorator(k) for k in ("identity", "bound", "ordering", "scaling"))


def tests_of(kind: type) -> list[Test]:
    """The claims of a class in the order in which they stand, those of its bases first; a later one replaces."""
    found: dict[str, Test] = {}
    for base in reversed(kind.__mro__):
        found |= {name: value for name, value in vars(base).items() if isinstance(value, Test)}
        found = {name: test for name, test in found.items() if getattr(kind, name, None) is test}
    return list(found.values())
