"""Universality against label efficiency of contrastive representations: the theory."""

from featscope.studies.universality.study import Universality

__all__ = ["Universality"]
