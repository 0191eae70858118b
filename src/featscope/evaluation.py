"""How well classes are told apart by frozen features, with intervals: linear probes, neighbours.

Features are standardised with the training set's mean and deviation first: no accuracy should depend on the scale of a
feature. One that is constant there, up to float32 rounding, says nothing. Probes run on the CPU with scikit-learn,
which takes features from any model.
"""

import warnings
from collections.abc import Sequence
from math import inf
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler, normalize
from torch import Tensor

from featscope.claims.intervals import LEVEL, interval_of_binomial
from featscope.numbers import require_tensor
from featscope.options import ConfigError
from featscope.streams import Draws

Features = Float[Tensor, "sample feature"]
Labels = Int[Tensor, " sample"]
TestFeatures = Float[Tensor, "other feature"]
TestLabels = Int[Tensor, " other"]

_ROUNDING = 10 * float(np.finfo(np.float32).eps)  # as `probes.constant_dimensions` has it


class Accuracy(NamedTuple):
    """The share of samples that are named rightly, and its interval.

    The interval is Clopper and Pearson's at 99 %, over samples: what other samples of the same kind would give with the
    same training. It does not know how much another training would differ.

    Attributes:
        value: the share; NaN of no samples.
        low: lower end of the interval; 0 of no samples.
        high: upper end; 1 of no samples.
        samples: how many there are.
    """

    value: float
    low: float
    high: float
    samples: int

    @classmethod
    def of(cls, right: Bool[Tensor, " sample"]) -> "Accuracy":
        """The accuracy of samples of which it is known whether they were named rightly."""
        count, hits = len(right), int(right.sum())
        low, high = interval_of_binomial(hits, count, LEVEL) if count else (0.0, 1.0)
        return cls(hits / count if count else float("nan"), low, high, count)


def linear_probe(
    train: Features, train_labels: Labels, test: TestFeatures, test_labels: TestLabels, penalty: float = 1.0
) -> Accuracy:
    """Test accuracy of multinomial logistic regression on frozen features.

    Args:
        train: what the probe is fitted to.
        train_labels: its labels.
        test: what its accuracy is measured on.
        test_labels: its labels.
        penalty: weight of ||v||²/2 against the sum of losses (1 / scikit-learn's C). Fitting stops early, at a gradient
            of a thousandth of the largest, so that probes of wide features are those of a larger penalty.

    Raises:
        ConfigError: all training samples are of one class, labels are not one for each sample, or the penalty is not
            above 0.
    """
    _require_labels("test_labels", test_labels, len(test))
    return Accuracy.of(linear_probe_labels(train, train_labels, test, penalty) == test_labels.cpu())


def _require_labels(name: str, labels: Labels, samples: int) -> None:
    """Raise `ConfigError` unless there is a label for each sample: of a column each would be compared with all."""
    require_tensor(labels)
    if labels.shape != (samples,):
        raise ConfigError(
            f"{name} have shape {list(labels.shape)} for {samples} samples: allowed is [{samples}]. Give "
            "labels.flatten() of a column."
        )


def _require_classes(labels: Labels, classes: int) -> None:
    """Raise `ConfigError` unless all labels are numbers of classes."""
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        raise ConfigError(
            f"labels are {int(labels.min())} to {int(labels.max())}: allowed are 0 to {classes - 1}, a number for each "
            f"of {classes} classes. Number them anew, as torch.unique(labels, return_inverse=True) does."
        )


def _require(name: str, value: float, right: bool, allowed: str) -> None:
    """Raise `ConfigError` unless an option's value is right."""
    if not right:
        raise ConfigError(f"{name} = {value} is out of range: allowed is {allowed}.")


def linear_probe_labels(train: Features, train_labels: Labels, test: TestFeatures, penalty: float = 1.0) -> TestLabels:
    """The class that `linear_probe` names for each test sample.

    Raises:
        ConfigError: all training samples are of one class, labels are not one for each sample, or the penalty is not
            above 0.
    """
    _require("penalty", penalty, 0 < penalty < inf, "> 0, and finite")
    _require_labels("train_labels", train_labels, len(train))
    if len(classes := train_labels.unique()) < 2:
        raise ConfigError(f"train_labels = {classes.tolist()} alone: allowed are two classes or more. Add another.")
    fitted, measured = standardised_by(train, test)
    model = LogisticRegression(C=1 / penalty, max_iter=200, tol=1e-3)
    with warnings.catch_warnings():
        # Early stopping of a probe is no failure.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(fitted, train_labels.cpu().numpy())
    return torch.from_numpy(model.predict(measured))


def k_nearest_neighbours(
    train: Features, train_labels: Labels, test: TestFeatures, test_labels: TestLabels, neighbours: int = 20
) -> Accuracy:
    """Test accuracy of the majority among the nearest training samples by cosine of standardised features.

    Of classes with equally many votes the one that comes nearest is named.

    Raises:
        ConfigError: labels are not one for each sample, or ``neighbours`` is below 1.
    """
    _require("neighbours", neighbours, neighbours >= 1, ">= 1")
    _require_labels("train_labels", train_labels, len(train))
    _require_labels("test_labels", test_labels, len(test))
    fitted, measured = (normalize(features) for features in standardised_by(train, test))
    near = NearestNeighbors(n_neighbors=min(neighbours, len(fitted)), algorithm="brute").fit(fitted)
    return Accuracy.of(_majority(near.kneighbors(measured, return_distance=False), train_labels) == test_labels.cpu())


def leave_one_out_labels(features: Features, labels: Labels, neighbours: int = 20) -> Labels:
    """The class that a sample's nearest neighbours among all others name, as `k_nearest_neighbours` finds them.

    It needs no training set: what is held out is enough.

    Raises:
        ConfigError: there is one sample only, labels are not one for each, or ``neighbours`` is below 1.
    """
    _require("neighbours", neighbours, neighbours >= 1, ">= 1")
    _require_labels("labels", labels, len(features))
    if len(features) < 2:
        raise ConfigError(f"features = {len(features)} sample: allowed are 2 or more. The others name each.")
    found = normalize(standardised_by(features)[0])
    near = NearestNeighbors(n_neighbors=min(neighbours, len(found) - 1), algorithm="brute").fit(found)
    return _majority(near.kneighbors(return_distance=False), labels)


def _majority(nearest: Int[np.ndarray, "other neighbour"], labels: Labels) -> TestLabels:
    """The class of most of each sample's neighbours, which come nearest first; of equally many the nearest one's."""
    votes = labels.cpu().numpy()[nearest]
    alike = np.stack([(votes == votes[:, [place]]).sum(1) for place in range(votes.shape[1])], 1)
    return torch.from_numpy(np.take_along_axis(votes, alike.argmax(1)[:, None], 1)[:, 0])


def accuracy_by_class(named: Labels, labels: Labels, classes: int) -> Sequence[Accuracy]:
    """The accuracy on the samples of each class.

    Raises:
        ConfigError: a label is none of 0 to ``classes`` - 1, so that its class would be left out; or there is not one
            for each sample.
    """
    named, labels = named.cpu(), labels.cpu()
    _require_labels("labels", labels, len(named))
    _require_labels("named", named, len(labels))
    _require_classes(labels, classes)
    return [Accuracy.of((named == labels)[labels == one]) for one in range(classes)]


def mean_by_class(values: Float[Tensor, " sample"], labels: Labels, classes: int) -> Float[Tensor, " class"]:
    """Mean of ``values`` over each class's samples; NaN for a class without samples.

    Raises:
        ConfigError: labels are not one for each sample, or one is none of 0 to ``classes`` - 1.
    """
    _require_labels("labels", labels, len(values))
    _require_classes(labels, classes)
    sums = values.new_zeros(classes, dtype=torch.float64).index_add_(0, labels, values.double())
    return sums / torch.bincount(labels, minlength=classes)


def held_out(groups: Int[Tensor, " sample"], share: float, draws: Draws) -> Bool[Tensor, " sample"]:
    """Which samples are set aside: ``share`` of each group (domain, class), rounded, chosen at random.

    Raises:
        ConfigError: the share is below 0 or above 1.
    """
    _require("share", share, 0 <= share <= 1, "0 to 1")
    groups = groups.cpu()
    order = draws.uniform(len(groups))[0].cpu()
    chosen = torch.zeros(len(groups), dtype=torch.bool)
    for group in groups.unique():
        (members,) = torch.nonzero(groups == group, as_tuple=True)
        chosen[members[order[members].argsort()[: round(share * len(members))]]] = True
    return chosen


def standardised_by(train: Tensor, *others: Tensor) -> list[np.ndarray]:
    """All with the mean and deviation of ``train`` taken out, feature by feature; 0 where it is constant there."""
    fitted, *measured = (_array(features) for features in (train, *others))
    scaler = StandardScaler().fit(fitted)
    deviation = np.sqrt(scaler.var_)
    varies = deviation > _ROUNDING * np.hypot(scaler.mean_, deviation)  # else its deviation is one of rounding
    return [scaler.transform(features) * varies for features in (fitted, *measured)]


def _array(features: Tensor) -> np.ndarray:
    """Of float32 at least, which NumPy has."""
    require_tensor(features)
    return features.detach().cpu().to(torch.promote_types(features.dtype, torch.float32)).numpy()
