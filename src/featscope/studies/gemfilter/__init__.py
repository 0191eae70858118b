"""GemFilter: what is exact, what it costs, and what it finds."""

from featscope.options import require_extra

with require_extra("The study gemfilter", "language"):
    from featscope.studies.gemfilter.study import GemFilterStudy

__all__ = ["GemFilterStudy"]
