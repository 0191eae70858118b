"""Claims that are newer than the run that they are judged on, and ask for what it has not measured."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from featscope.own_code import series_asked_for


class _Judged(NamedTuple):
    """The claims that a run was judged by, and those that are newer: id -> what it has not measured."""

    before: Collection[str]
    newer: dict[str, str]


_JUDGED: ContextVar[_Judged | None] = ContextVar("judged", default=None)


@contextmanager
def newer_left_out(before: Collection[str]) -> Iterator[dict[str, str]]:
    """Within it, `Test.judge` gives None where a claim asks for what no arm has measured, or for an arm that was not
    run, and is not among those that the run was judged by ``before`` (ids). It gives id -> what was asked for.

    A claim that was judged before has lost what it needs, and one of a run that never was judged is at fault: both
    raise as ever.
    """
    newer: dict[str, str] = {}
    token = _JUDGED.set(_Judged(before, newer))
    try:
        yield newer
    finally:
        _JUDGED.reset(token)


def noted_as_newer(claim: str, error: Exception, runs: Mapping[str, Any]) -> bool:
    """Whether ``error`` of a claim's code says that the claim is newer than ``runs``, which `newer_left_out` notes."""
    judged = _JUDGED.get()
    if judged is None or claim in judged.before:
        return False
    key = error.args[0] if isinstance(error, KeyError) and error.args else ""
    if series := series_asked_for(error):
        missing = not any(series in run.data_vars for run in runs.values())
    else:
        missing = isinstance(key, str) and key not in ("", *runs)
    if missing:
        judged.newer[claim] = series or key
    return missing
