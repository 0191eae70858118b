"""GemFilter: what is exact, what it costs, and what it finds."""

from featscope.studies.gemfilter.study import GemFilterStudy

__all__ = ["GemFilterStudy"]
