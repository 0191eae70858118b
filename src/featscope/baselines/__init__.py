"""What feature learning is compared with: estimators with scikit-learn's `fit`, `predict` and `score`."""

from featscope.baselines.fixed import RandomFeatures, TangentFeatures, random_features, ridge, tangent_features
from featscope.baselines.rfm import RecursiveFeatureMachine, gradient_outer_product, laplace_kernel

__all__ = [
    "RandomFeatures",
    "RecursiveFeatureMachine",
    "TangentFeatures",
    "gradient_outer_product",
    "laplace_kernel",
    "random_features",
    "ridge",
    "tangent_features",
]
