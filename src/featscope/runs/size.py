"""What a run would take, asked before anything is built or written."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from featscope.options import MOST_COUNTED, ConfigError, require
from featscope.studies.base import Arm
from featscope.system import free_memory, limited_space

_MOST_STEPS = 10**9  # weeks, at a thousand a second
_MOST_LOOKS = 10**6  # as many rows of every measurement
_SLACK = 2**30  # bytes of address space beside tensors: stacks of threads, and what libraries set aside

T = TypeVar("T")


def require_countable(config: Any) -> None:
    """Raise `ConfigError` where a whole number among the options of ``config`` is beyond what can be counted to."""
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            require_countable(value)
        else:
            largest = max((abs(one) for one in _whole(value)), default=0)
            require(config, field.name, largest <= MOST_COUNTED, f"at most {MOST_COUNTED:.0e} where things are counted")


def _whole(value: Any) -> Iterator[int]:
    if isinstance(value, int):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from _whole(one)


def require_steps(arms: Sequence[Arm]) -> None:
    """Raise `ConfigError` where an arm would go on for more steps, or be looked at more often, than anybody waits."""
    for arm in arms:
        try:
            steps, every = arm.recipe.steps, arm.recipe.probe_every
        except OverflowError:
            raise ConfigError(
                f"the arm {arm.name!r} asks more questions than can be counted: take fewer prompts, items or lengths"
            ) from None
        if steps > _MOST_STEPS:
            raise ConfigError(
                f"the arm {arm.name!r} has {steps:.3g} steps: allowed is at most {_MOST_STEPS:.0e}. Take fewer "
                "(--steps, or what the study counts them by)"
            )
        if steps / every > _MOST_LOOKS:
            raise ConfigError(
                f"the arm {arm.name!r} would be measured {steps / every:.3g} times: allowed is at most "
                f"{_MOST_LOOKS:.0e}. Raise --probe-every, or take fewer --steps"
            )


def within(limit: float, compute: Callable[[], T]) -> T:
    """The result of ``compute``, which may take ``limit`` bytes of address space more than there are now.

    Raises:
        ConfigError: it takes more, and the field is that of the limit; or it has numbers that are too large.
    """
    with limited_space(limit + _SLACK):
        try:
            return compute()
        except (MemoryError, OverflowError, RuntimeError) as error:
            said = str(error)
            if isinstance(error, RuntimeError) and not re.search("allocate|out of memory|overflow", said):
                raise
            if isinstance(error, OverflowError) or ("overflow" in said and "Storage size" not in said):
                raise ConfigError(
                    f"a number among the options is too large to compute with ({said}): correct it, or take less"
                ) from None
            asked = re.search(r"allocate (\d+) bytes", said)
            more = f"{int(asked[1]) / 2**30:.1f} GiB at once" if asked else "more"
            wrong = ConfigError(
                f"Settings.memory_limit = {limit / 2**30:.3g} GiB is out of range: a replica needs {more}, "
                f"and {free_memory() / 2**30:.1f} GiB are free. Shrink the study, by its widths, "
                "numbers of samples or lengths, or raise --memory-limit."
            )
            wrong.owner, wrong.field = "Settings", "memory_limit"
            raise wrong from None
