"""Forward magnitude pruning as a remedy for rare features."""

from featscope.studies.pruning.study import Pruning

__all__ = ["Pruning"]
