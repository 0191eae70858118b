"""Contrastive learning decouples features from noise (Wen & Li 2021, arXiv 2105.15134)."""

from featscope.studies.decoupling.study import Decoupling

__all__ = ["Decoupling"]
