"""How well classes (and other targets) can be read out of frozen features.

Features are standardised with the training set's mean and deviation first: none of these measures should
depend on the scale of a feature. All run on the CPU with scikit-learn, which takes features from any model.
"""

import warnings

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.manifold import TSNE
from sklearn.metrics import silhouette_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from featscope.data.images import as_float

Features = Float[Tensor, "sample feature"]
Labels = Int[Tensor, " sample"]
TestFeatures = Float[Tensor, "other feature"]
TestLabels = Int[Tensor, " other"]

one_thread = threadpool_limits.wrap(limits=1)
"""Decorates what reads out in a worker, which has one core: BLAS threads that spin at barriers beside other workers
cost a factor of 10."""


def features_of(
    encoder: nn.Module, pixels: UInt8[Tensor, "image channel height width"], at_once: int = 500
) -> Float[Tensor, "image feature"]:
    """What ``encoder`` makes of images, ``at_once`` of them in one pass; feature maps are large."""
    return torch.cat([encoder(as_float(part)) for part in pixels.split(at_once)])


def linear_probe(
    train: Features, train_labels: Labels, test: TestFeatures, test_labels: TestLabels, penalty: float = 1.0
) -> float:
    """Test accuracy of multinomial logistic regression on frozen features.

    Args:
        train, train_labels: what the probe is fitted to.
        test, test_labels: what its accuracy is measured on.
        penalty: weight of ||v||²/2 against the sum of losses (1 / scikit-learn's C).
    """
    named = linear_probe_labels(train, train_labels, test, penalty)
    return float((named == test_labels.cpu()).double().mean())


def linear_probe_labels(train: Features, train_labels: Labels, test: TestFeatures, penalty: float = 1.0) -> TestLabels:
    """The class that `linear_probe` names for each test sample."""
    fitted, measured = _standardised(train, test)
    model = LogisticRegression(C=1 / penalty, max_iter=200, tol=1e-3)
    with warnings.catch_warnings():
        # The iteration limit is early stopping of a probe, not a failure.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(fitted, train_labels.cpu().numpy())
    return torch.from_numpy(model.predict(measured))


def accuracy_by_class(named: Labels, labels: Labels, classes: int) -> Float[Tensor, " class"]:
    """Share of each class's samples that are named rightly; NaN for a class without samples."""
    return mean_by_class((named == labels).double(), labels, classes)


def mean_by_class(values: Float[Tensor, " sample"], labels: Labels, classes: int) -> Float[Tensor, " class"]:
    """Mean of ``values`` over each class's samples; NaN for a class without samples."""
    sums = torch.bincount(labels, weights=values.double(), minlength=classes)
    return sums / torch.bincount(labels, minlength=classes)


def mean_colour(images: Float[Tensor, "image 3 height width"]) -> Float[Tensor, "image 2"]:
    """The two colour-opponent means of each image, a target to read out: red - green, and blue - yellow."""
    red, green, blue = images.mean((-2, -1)).unbind(-1)
    return torch.stack([red - green, blue - (red + green) / 2], dim=-1)


def knn_accuracy(
    train: Features, train_labels: Labels, test: TestFeatures, test_labels: TestLabels, neighbours: int = 20
) -> float:
    """Test accuracy of the majority among the nearest training samples by cosine of standardised features."""
    fitted, measured = (_on_sphere(features) for features in _standardised(train, test))
    model = KNeighborsClassifier(min(neighbours, len(fitted)), algorithm="brute")
    return float(model.fit(fitted, train_labels.cpu().numpy()).score(measured, test_labels.cpu().numpy()))


def silhouette(features: Features, labels: Labels) -> float:
    """Mean silhouette of the classes as clusters, by cosine distance of standardised features.

    1: classes are tight and far apart; 0: they overlap; below 0: samples lie nearer to other classes.
    """
    return float(silhouette_score(_on_sphere(_standardised(features)[0]), labels.cpu().numpy(), metric="cosine"))


def regression_score(
    train: Features,
    train_targets: Float[Tensor, "sample target"],
    test: TestFeatures,
    test_targets: Float[Tensor, "other target"],
    penalty: float = 1.0,
) -> float:
    """R² on the test set of ridge regression from frozen features to ``targets``, averaged over targets.

    1: the targets can be read off linearly; 0: as good as guessing their mean; below 0: worse.
    """
    fitted, measured = _standardised(train, test)
    model = Ridge(penalty).fit(fitted, train_targets.cpu().numpy())
    return float(model.score(measured, test_targets.cpu().numpy()))


def tsne(features: Features, seed: int = 0) -> Float[Tensor, "sample 2"]:
    """A map of the samples in the plane: t-SNE of standardised features, perplexity at most 30."""
    (scaled,) = _standardised(features)
    model = TSNE(perplexity=min(30.0, (len(scaled) - 1) / 3), init="pca", random_state=seed, n_jobs=1)
    return torch.from_numpy(model.fit_transform(scaled))


def _standardised(train: Tensor, *others: Tensor) -> list[np.ndarray]:
    scaler = StandardScaler().fit(train.cpu().numpy())
    return [scaler.transform(features.cpu().numpy()) for features in (train, *others)]


def _on_sphere(features: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(features, axis=1, keepdims=True)
    return features / np.where(norms > 0, norms, 1)
