"""How a measurement moves as a problem grows, and what a verdict at a size that was not run would be."""

from featscope.trends.fit import fit_trend
from featscope.trends.trend import Crossing, Direction, Foretold, Trend

__all__ = ["Crossing", "Direction", "Foretold", "Trend", "fit_trend"]
