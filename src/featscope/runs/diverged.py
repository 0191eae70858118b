"""Replicas that did not come to their end: diverged ones, whose measurements are no data, and flows that had not
arrived when their steps ran out; and weights that were to be trained and were not."""

from collections.abc import Mapping, Sequence

import xarray as xr

from featscope.studies.base import ABOUT_THE_RUN

_NAMED = 4  # arms


def without_diverged(run: xr.Dataset) -> xr.Dataset:
    """``run`` ``[replica, ...]`` with all missing that a diverged replica measured, of every type, at every step.

    What it measured before may be sound, but nobody who takes a last value or a mean can tell. It stays in the
    checkpoints. Whole numbers become floating-point ones, as NaN is none; so do truths.
    """
    if "diverged" not in run or not (lost := run["diverged"] >= 0).any():
        return run
    kept = {
        name: measured.astype(float).where(~lost) if measured.dtype.kind in "biu" else measured.where(~lost)
        for name, measured in run.data_vars.items()
        if "replica" in measured.dims and name not in ABOUT_THE_RUN
    }
    return run.assign({name: values.assign_attrs(run[name].attrs) for name, values in kept.items()})


def how_many_diverged(runs: Mapping[str, xr.Dataset]) -> dict[str, tuple[int, int]]:
    """Of each arm in which some diverged: how many, and of how many. A point of its axes counts by itself."""
    found = {}
    for name, run in runs.items():
        if "diverged" in run and (lost := int((run["diverged"] >= 0).sum())):
            found[name] = (lost, run["diverged"].size)
    return found


def divergence_in_words(diverged: Mapping[str, tuple[int, int]]) -> str:
    """How many diverged, in a sentence; empty if none did."""
    if not diverged:
        return ""
    return f"Runs diverged: {_by_arm(diverged)}. What they measured is left out of every claim and figure."


def _by_arm(counts: Mapping[str, tuple[int, int]]) -> str:
    """Of how many so many were lost; arms of which as many were are told together, and counted where they are many."""
    arms: dict[tuple[int, int], list[str]] = {}
    for arm, count in counts.items():
        arms.setdefault(count, []).append(arm)
    return ", ".join(f"{lost} of {of} in {_arms(names)}" for (lost, of), names in arms.items())


def _arms(names: Sequence[str]) -> str:
    if len(names) > _NAMED:
        return f"each of {len(names)} arms, {names[0]} for one"
    return f"the arm {names[0]}" if len(names) == 1 else f"each of the arms {', '.join(names)}"


def shortcomings(runs: Mapping[str, xr.Dataset]) -> str:
    """How many replicas diverged, how many flows had not arrived, and what was not trained though it was to be, in
    sentences; empty if none."""
    short = {
        arm: (int((run["arrived"] < 0).sum()), run["arrived"].size)
        for arm, run in runs.items()
        if "arrived" in run and bool((run["arrived"] < 0).any())
    }
    flows = f"Flows had not arrived when their steps ran out: {_by_arm(short)}. What is measured at their ends is of "
    flows += "earlier times."
    resting: dict[str, list[str]] = {}
    for arm, run in runs.items():
        if "at_rest" in run.attrs:
            resting.setdefault(run.attrs["at_rest"], []).append(arm)
    still = "; ".join(f"{names} in {_arms(arms)}" for names, arms in resting.items())
    rest = f"Not trained, and at the end as at the start to the bit in every replica: {still}. Is it in the optimizer, "
    rest += "does the loss depend on it, is the step size 0?"
    told = divergence_in_words(how_many_diverged(runs)), flows if short else "", rest if resting else ""
    return " ".join(filter(None, told))
