"""Objectives and regularisers: functions of tensors, one value a replica."""

from featscope.losses.info_nce import InfoNCE

__all__ = ["InfoNCE"]
