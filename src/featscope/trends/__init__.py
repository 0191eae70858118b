"""How a measurement moves as a problem grows, and what a verdict at a size that was not run would be."""

from featscope.trends.fit import fit_trend
from featscope.trends.of_claims import FORETOLD, Bears, ClaimTrend, shared_range, trend_of
from featscope.trends.trend import Crossing, Direction, Foretold, Trend

__all__ = [
    "FORETOLD",
    "Bears",
    "ClaimTrend",
    "Crossing",
    "Direction",
    "Foretold",
    "Trend",
    "fit_trend",
    "shared_range",
    "trend_of",
]
