"""Imbalanced features: what rare features cost a contrastive learner."""

from featscope.studies.imbalance.study import Imbalance

__all__ = ["Imbalance"]
