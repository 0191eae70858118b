"""The study `contrastive-fine-tuning`: a contrastive term beside the loss of fine-tuning, on real data."""

from featscope.studies.contrastive_fine_tuning.study import ContrastiveFineTuning

__all__ = ["ContrastiveFineTuning"]
