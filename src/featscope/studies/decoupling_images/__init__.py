"""Wen & Li 2021, Figures 1 to 4: what augmentation does to the features of contrastive learning on images."""

from featscope.studies.decoupling_images.study import DecouplingImages

__all__ = ["DecouplingImages"]
