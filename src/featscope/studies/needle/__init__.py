"""Needles in a haystack, by method."""

from featscope.studies.needle.study import NeedleInAHaystack

__all__ = ["NeedleInAHaystack"]
