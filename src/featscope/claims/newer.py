"""Claims that are newer than the run that they are judged on, and ask for what it has not measured."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from featscope.claims.samples import ArmNotRunError
from featscope.own_code import series_asked_for


class _Judged(NamedTuple):
    before: Collection[tuple[str, str]]
    of_other_code: Callable[[], bool]
    newer: dict[str, str]


_JUDGED: ContextVar[_Judged | None] = ContextVar("judged", default=None)


@contextmanager
def newer_left_out(before: Collection[tuple[str, str]], of_other_code: Callable[[], bool]) -> Iterator[dict[str, str]]:
    """Within it, `Test.judge` gives None where a claim is newer than a run, and asks for what that has not measured.

    Newer are claims on an arm that the run, which has verdicts, was not judged by; and any, where other code than
    today's computed it. The others have lost what they need, or have a slip: they raise as ever.

    Args:
        before: ids and arms of the verdicts that the run has.
        of_other_code: whether other code computed it; only asked where a claim lacks something.

    Yields:
        id -> series or arm that the run does not have, of the claims that were left out by then.
    """
    newer: dict[str, str] = {}
    token = _JUDGED.set(_Judged(before, of_other_code, newer))
    try:
        yield newer
    finally:
        _JUDGED.reset(token)


def noted_as_newer(claim: str, arm: str, error: Exception, arms: Collection[str]) -> bool:
    """Whether ``error`` of a claim's code says that the claim is newer than a run, which `newer_left_out` notes.

    Args:
        claim: its id.
        arm: which one it is judged on.
        error: what its code raised.
        arms: all that the study has today.
    """
    if (judged := _JUDGED.get()) is None:
        return False
    asked = series_asked_for(error) or _key(error)
    if isinstance(error, ArmNotRunError) and asked not in arms:  # nor could it be
        return False
    if not asked or not ((judged.before and (claim, arm) not in judged.before) or judged.of_other_code()):
        return False
    judged.newer[claim] = asked
    return True


def _key(error: Exception) -> str:
    """The arm, the dimension, or the series by another way than a dataset's, that was looked up; empty if none was."""
    key = error.args[0] if isinstance(error, KeyError) and error.args else ""
    looked_up = isinstance(key, str) and (key.isidentifier() or isinstance(error, ArmNotRunError))
    return key if looked_up else ""
