"""P, Section 4: contrastive pre-training on long-tailed images, with and without forward magnitude pruning."""

from featscope.studies.longtail_images.study import LongTailImages

__all__ = ["LongTailImages"]
