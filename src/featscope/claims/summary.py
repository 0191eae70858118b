"""Means of which no more is known than their error and how many replicas they are over: published ones."""

from dataclasses import dataclass
from math import hypot, isfinite, sqrt
from typing import Literal

from featscope.options import ConfigError, require

ErrorKind = Literal["sample", "population", "mean", "population-mean"]
"""What a printed error is: the standard deviation of the replicas, with n - 1 below the sum ("sample") or with n
("population"); or the standard error of their mean, made from the first ("mean") or from the second
("population-mean", as ``np.std(x) / sqrt(n)`` has it)."""


@dataclass(frozen=True)
class Summary:
    """A mean, as it is printed.

    Attributes:
        mean: mean over the replicas.
        error: what is printed behind ±, in the unit of the mean.
        n: how many replicas; None if that is not known.
        error_is: what ``error`` is.
    """

    mean: float
    error: float
    n: int | None
    error_is: ErrorKind = "sample"

    def __post_init__(self) -> None:
        require(self, "mean", isfinite(self.mean), "a number")
        require(self, "error", bool(isfinite(self.error) and self.error >= 0), ">= 0")
        require(
            self,
            "n",
            self.n is None or bool(self.n >= 2),
            ">= 2, or None if it is not known",
            "One replica has no error.",
        )

    @property
    def standard_error(self) -> float:
        """Standard error of the mean, from the spread with n - 1 below the sum.

        Raises:
            ConfigError: the error is no standard error of that kind, and how many replicas there are is not known.
        """
        if self.error_is == "mean":
            return self.error
        if self.n is None:
            raise ConfigError(f"Summary.n = None: allowed is >= 2 where the error is {self.error_is!r}")
        return (
            self.error
            * {
                "sample": 1 / sqrt(self.n),
                "population": 1 / sqrt(self.n - 1),
                "population-mean": sqrt(self.n / (self.n - 1)),
            }[self.error_is]
        )


def welch(one: Summary, other: Summary) -> tuple[float, float]:
    """Standard error of the difference of two means, and its degrees of freedom (Welch 1947, Satterthwaite 1946).

    Both must say how many replicas they are over, which are not the same ones. Of few replicas beside many the error of
    the few is taken for small where these lie together by chance, and Welch's degrees of freedom are then those of the
    many: there are no more of them here than two groups as small as the smaller one can have.
    """
    assert one.n is not None
    assert other.n is not None
    error = hypot(one.standard_error, other.standard_error)
    most = 2.0 * (min(one.n, other.n) - 1)
    if error == 0:
        return 0.0, most
    shares = (one.standard_error / error) ** 4 / (one.n - 1) + (other.standard_error / error) ** 4 / (other.n - 1)
    return error, min(1 / shares, most)
