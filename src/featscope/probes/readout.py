"""What else than classes (see `featscope.evaluation`) can be read out of frozen features.

Features are standardised with the training set's mean and deviation first: none of these measures should
depend on the scale of a feature. All run on the CPU with scikit-learn, which takes features from any model.
"""

import torch
from jaxtyping import Float, UInt8
from sklearn.linear_model import Ridge
from sklearn.manifold import TSNE
from sklearn.metrics import silhouette_score
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from featscope.data.images import as_float
from featscope.evaluation import Features, Labels, TestFeatures, standardised_by

one_thread = threadpool_limits.wrap(limits=1)
"""Decorates what reads out in a worker, which has one core: BLAS threads that spin at barriers beside other workers
cost a factor of 10."""


def features_of(
    encoder: nn.Module, pixels: UInt8[Tensor, "image channel height width"], at_once: int = 500
) -> Float[Tensor, "image feature"]:
    """What ``encoder`` makes of images, ``at_once`` of them in one pass; feature maps are large."""
    return torch.cat([encoder(as_float(part)) for part in pixels.split(at_once)])


def mean_colour(images: Float[Tensor, "image 3 height width"]) -> Float[Tensor, "image 2"]:
    """The two colour-opponent means of each image, a target to read out: red - green, and blue - yellow."""
    red, green, blue = images.mean((-2, -1)).unbind(-1)
    return torch.stack([red - green, blue - (red + green) / 2], dim=-1)


def silhouette(features: Features, labels: Labels) -> float:
    """Mean silhouette of the classes as clusters, by cosine distance of standardised features.

    1: classes are tight and far apart; 0: they overlap; below 0: samples lie nearer to other classes. NaN where all
    samples are of one class, or all of different ones.
    """
    if not 2 <= len(labels.unique()) < len(labels):
        return float("nan")
    return float(silhouette_score(normalize(standardised_by(features)[0]), labels.cpu().numpy(), metric="cosine"))


def regression_score(
    train: Features,
    train_targets: Float[Tensor, "sample target"],
    test: TestFeatures,
    test_targets: Float[Tensor, "other target"],
) -> float:
    """R² on the test set of ridge regression from frozen features to ``targets``, averaged over targets.

    1: the targets can be read off linearly; 0: as good as guessing their mean; below 0: worse.
    """
    fitted, measured = standardised_by(train, test)
    model = Ridge().fit(fitted, train_targets.cpu().numpy())
    return float(model.score(measured, test_targets.cpu().numpy()))


def tsne(features: Features) -> Float[Tensor, "sample 2"]:
    """A map of the samples in the plane: t-SNE of standardised features, perplexity at most 30.

    One point where all samples are alike; NaN where there are fewer than two, or a feature is not finite.
    """
    if len(features) < 2 or not features.isfinite().all():
        return torch.full((len(features), 2), torch.nan)
    (scaled,) = standardised_by(features)
    if not scaled.any():  # scikit-learn divides by how far they are apart, and ends the process
        return torch.zeros(len(features), 2)
    model = TSNE(perplexity=min(30.0, (len(scaled) - 1) / 3), init="pca", random_state=0, n_jobs=1)
    return torch.from_numpy(model.fit_transform(scaled))
