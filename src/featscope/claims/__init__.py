"""Claims as data: a prediction, a measurement, an interval, and the verdict that follows from them."""

from featscope.claims.claim import Claim, at_least, at_most, equals
from featscope.claims.intervals import LEVEL, interval_of_mean
from featscope.claims.scaling import fitted_exponent

__all__ = ["LEVEL", "Claim", "at_least", "at_most", "equals", "fitted_exponent", "interval_of_mean"]
