"""Needles in a haystack: what methods find, and what the retriever finds that it never saw."""

from featscope.studies.needle.study import NeedleInAHaystack

__all__ = ["NeedleInAHaystack"]
