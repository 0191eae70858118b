"""Wen & Li 2022, Section 8: what the prediction head does in SimSiam and BYOL on images."""

from featscope.studies.prediction_head_images.study import PredictionHeadImages

__all__ = ["PredictionHeadImages"]
