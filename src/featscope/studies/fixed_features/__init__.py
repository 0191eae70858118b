"""What two gradient steps find and fixed features cannot: parities of hidden patterns."""

from featscope.studies.fixed_features.study import FixedFeatures

__all__ = ["FixedFeatures"]
