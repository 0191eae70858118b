"""Objectives and regularisers: functions of tensors, one value a replica."""

from featscope.losses.info_nce import InfoNCE
from featscope.losses.nt_xent import NTXent

__all__ = ["InfoNCE", "NTXent"]
