"""Whether filters that are learned from real images gather in clusters, and whether gradients put them there."""

from featscope.studies.learned_filters.study import LearnedFilters

__all__ = ["LearnedFilters"]
