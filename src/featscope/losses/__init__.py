"""Objectives and regularisers: functions of tensors, one value a replica."""

from featscope.losses.contrastive import ContrastiveRegularizer
from featscope.losses.info_nce import InfoNCE
from featscope.losses.loss import ContrastiveLoss, InBatchLoss, PredictionLoss
from featscope.losses.non_contrastive import NonContrastive
from featscope.losses.nt_xent import NTXent
from featscope.losses.nuclear_norm import NuclearNorm
from featscope.losses.similarity import Masked, paired, products

__all__ = [
    "ContrastiveLoss",
    "ContrastiveRegularizer",
    "InBatchLoss",
    "InfoNCE",
    "Masked",
    "NTXent",
    "NonContrastive",
    "NuclearNorm",
    "PredictionLoss",
    "paired",
    "products",
]
