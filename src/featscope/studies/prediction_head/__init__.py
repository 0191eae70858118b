"""The prediction head: why non-contrastive learning does not collapse."""

from featscope.studies.prediction_head.study import PredictionHeadStudy

__all__ = ["PredictionHeadStudy"]
