"""Along what a study grows, and what of its claims can be compared on the way."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from featscope.axes import find_option, with_options
from featscope.options import require
from featscope.trends import Bears
from featscope.trends.trend import FEWEST_SIZES

C = TypeVar("C")


@dataclass(frozen=True)
class Ladder:
    """Sizes of a study, each a study of its own.

    Ladder("data.input_dim", (32, 64, 128, 256, 512, 1024), {"head-rescues": "value"},
           pace={"duration": lambda d: 1e3 * d**2}, arms=("head", "no-head"))

    Attributes:
        axis: path of the option that grows; empty if the size is none and shows in ``pace`` alone.
        sizes: its values, six by factors of two at least.
        claims: "id" or "id@arm" -> what of it can be compared across sizes. Others are not judged.
        at: options that are held at other values than their defaults.
        pace: options that grow with the size, as functions of it. The clock is one: steps, durations and rates must
            scale as theory's time does, or the larger sizes stop earlier.
        arms: arms that are run; all if none is named.
        symbol: the size in a word, such as "d"; if empty, the option's own name.
        about: why these options and this pace, in a sentence.
    """

    axis: str
    sizes: tuple[float, ...]
    claims: Mapping[str, Bears]
    at: Mapping[str, Any] = field(default_factory=dict)
    pace: Mapping[str, Callable[[float], float]] = field(default_factory=dict)
    arms: tuple[str, ...] = ()
    symbol: str = ""
    about: str = ""

    def __post_init__(self) -> None:
        steps = [after / before for before, after in zip(self.sizes, self.sizes[1:], strict=False) if before > 0]
        enough = len(steps) >= FEWEST_SIZES - 1 and min(steps) >= 2 and self.sizes[0] > 0
        require(self, "sizes", enough, f"{FEWEST_SIZES} positive sizes or more, each at least twice the one before")
        require(self, "claims", bool(self.claims), "one claim or more")
        require(self, "symbol", bool(self.name), "a word where no option grows")

    @property
    def name(self) -> str:
        """The size in a word."""
        return self.symbol or self.axis.rpartition(".")[2]

    def climb(self, study: C, size: float) -> C:
        """``study`` at ``size``.

        Raises:
            ConfigError: an option is unknown, or out of its range.
        """
        values = {**self.at, **({self.axis: size} if self.axis else {})}
        values |= {option: value_at(size) for option, value_at in self.pace.items()}
        return with_options(study, {find_option(study, option): value for option, value in values.items()})

    def bears(self, claim: str, arm: str) -> Bears | None:
        """What of the claim on the arm can be compared; None if it is not judged."""
        return self.claims.get(f"{claim}@{arm}", self.claims.get(claim))
