"""Claims as data: a prediction, a measurement, an interval, and the verdict that follows from them."""

from featscope.claims.claim import Claim, Statement
from featscope.claims.intervals import LEVEL, interval_of_mean
from featscope.claims.scaling import fitted_exponent

__all__ = ["LEVEL", "Claim", "Statement", "fitted_exponent", "interval_of_mean"]
