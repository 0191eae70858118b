"""When to look, so that looks take no more than a given share of the time."""

from itertools import count
from time import perf_counter


class Pace:
    """Steps at which to look.

    The interval is the smallest of 1, 2, 5, 10, 20, 50, ... steps at which a look takes at most ``share`` of the time
    of the steps since the last one, by the mean step so far and the slower of the last two looks; and no look is begun
    that would bring the sum of all above ``share`` of the time since the start. Round numbers, so that two trainings
    are looked at at the same steps.

    Args:
        share: of the time, > 0 and <= 1.
        every: steps from look to look instead; None for the rule.
    """

    def __init__(self, share: float, every: int | None) -> None:
        self._share, self._every = share, every
        self._last: tuple[float, ...] = ()
        self.spent = 0.0
        """Seconds that all looks took."""
        self._began = perf_counter()

    def looked(self, seconds: float) -> None:
        """A look took so long."""
        self._last = (*self._last[-1:], seconds)
        self.spent += seconds

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return perf_counter() - self._began

    def due(self, step: int) -> bool:
        """Whether to look after ``step``, counted from 1."""
        if self._every is not None:
            return step % self._every == 0
        elapsed, look = self.elapsed, max(self._last, default=0.0)
        if self.spent + look > self._share * elapsed:
            return False
        seconds = (elapsed - self.spent) / step
        return step % round_up(look / (self._share * seconds)) == 0


def round_up(number: float) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50, ... that is not below ``number``."""
    return next(digit * 10**power for power in count() for digit in (1, 2, 5) if digit * 10**power >= number)
