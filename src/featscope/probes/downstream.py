"""How much a linear head on frozen features knows about the hidden signals (Wen & Li 2021, Definition 3.1)."""

import warnings
from collections.abc import Iterable

import numpy as np
import torch
from jaxtyping import Float
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from torch import Tensor


def regression_error(
    train: Float[Tensor, "sample feature"],
    train_y: Float[Tensor, " sample"],
    test: Float[Tensor, "other feature"],
    test_y: Float[Tensor, " other"],
) -> float:
    """Squared error of ridge regression on held-out samples over the variance of their labels."""
    x, scale = _scaled(train)
    head = Ridge(alpha=1e-3 * len(x)).fit(x, train_y.cpu().numpy())
    y = test_y.cpu().numpy()
    return float(np.mean((head.predict(test.cpu().numpy() / scale) - y) ** 2) / np.var(y))


def classification_accuracy(
    train: Float[Tensor, "sample feature"],
    train_y: Float[Tensor, " sample"],
    test: Float[Tensor, "other feature"],
    test_y: Float[Tensor, " other"],
) -> float:
    """Accuracy of logistic regression on held-out samples; labels are signs, samples with label 0 are left out."""
    x, scale = _scaled(train)
    keep, keep_test = (train_y != 0).cpu().numpy(), (test_y != 0).cpu().numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        head = LogisticRegression(C=1.0, solver="newton-cholesky", max_iter=25)
        head.fit(x[keep], train_y.cpu().numpy()[keep])
    return float(head.score(test.cpu().numpy()[keep_test] / scale, test_y.cpu().numpy()[keep_test]))


def read_out(
    features: Iterable[Float[Tensor, "sample feature"]], y: Float[Tensor, "replica sample"], labels: int
) -> tuple[Float[Tensor, "replica"], Float[Tensor, "replica"]]:
    """What heads that are trained on the first ``labels`` samples know of the others.

    Args:
        features: of each replica, one replica after the other: those of all may be made one at a time.
        y: what heads are to say.
        labels: samples that they are trained on.

    Returns:
        of each replica the squared error of y over its variance, and the accuracy on the sign of y.
    """
    errors, accuracies = [], []
    for f, t in zip(features, y, strict=True):
        errors.append(regression_error(f[:labels], t[:labels], f[labels:], t[labels:]))
        accuracies.append(classification_accuracy(f[:labels], t[:labels].sign(), f[labels:], t[labels:].sign()))
    error, accuracy = (torch.tensor(each, dtype=torch.float64, device=y.device) for each in (errors, accuracies))
    return error, accuracy


def regression_errors(
    train: Float[Tensor, "replica sample feature"],
    train_y: Float[Tensor, "replica sample"],
    test: Float[Tensor, "replica other feature"],
    test_y: Float[Tensor, "replica other"],
) -> Float[Tensor, "replica"]:
    """`regression_error` of each replica; NaN where held-out labels never vary."""
    each = zip(train, train_y, test, test_y, strict=True)
    errors = [regression_error(*one) if one[-1].var() > 0 else np.nan for one in each]
    return torch.tensor(errors, device=test_y.device)


def _scaled(features: Tensor) -> tuple[np.ndarray, float]:
    """Features over their root mean square, so that the strength of regularisation means the same everywhere."""
    x = features.cpu().numpy().astype(np.float64)
    scale = float(np.sqrt(np.square(x).mean())) or 1.0
    return x / scale, scale
