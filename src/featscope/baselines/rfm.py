"""The recursive feature machine: a kernel machine that learns features (Radhakrishnan et al. 2024, Science 383).

It alternates kernel ridge regression with the Laplace kernel exp(-‖x - x'‖_M / L), ‖x‖²_M = xᵀ M x, and
M = mean of ∇f ∇fᵀ over the training samples. Here M is scaled to the trace of the identity after each turn, so that one
bandwidth and one penalty do for all turns.
"""

from collections.abc import Iterator
from math import inf
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

Matrix = Float[np.ndarray, "input input"]
Samples = Float[np.ndarray, "sample input"]

_SAME = 1e-7  # of two samples' norms: so far apart rounding may put two that are one


def require(name: str, value: Any, right: bool, allowed: str) -> None:
    """Raise `ValueError`, as scikit-learn wants it, unless an option's value is right."""
    if not right:
        raise ValueError(f"{name} = {value!r} is out of range: allowed is {allowed}")


def _require_bandwidth(bandwidth: float) -> None:
    require("bandwidth", bandwidth, 0 < bandwidth < inf, "> 0, and finite")


def distances(
    x: Samples, centres: Float[np.ndarray, "centre input"], matrix: Matrix
) -> Float[np.ndarray, "sample centre"]:
    """‖x - x'‖_M."""
    same, middle = x is centres, np.median(centres, 0)  # far from 0 squares would lose what is between
    x, centres = x - middle, centres - middle
    left, right = x @ matrix, centres @ matrix
    squares = (left * x).sum(1)[:, None] + (right * centres).sum(1) - 2 * left @ centres.T
    found = np.sqrt(np.maximum(squares, 0))
    if same:
        np.fill_diagonal(found, 0.0)  # rounding
    return found


def laplace_kernel(
    x: Samples, centres: Float[np.ndarray, "centre input"], matrix: Matrix, bandwidth: float
) -> Float[np.ndarray, "sample centre"]:
    """exp(-‖x - x'‖_M / L).

    Raises:
        ValueError: L is not above 0, or not finite.
    """
    _require_bandwidth(bandwidth)
    return np.exp(-distances(x, centres, matrix) / bandwidth)


def gradient_outer_product(
    x: Samples, weights: Float[np.ndarray, "sample output"], matrix: Matrix, bandwidth: float
) -> Matrix:
    """Mean over ``x`` and sum over outputs of ∇f ∇fᵀ for f(z) = Σ_i α_i k(z, x_i); a kernel has no slope at its centre.

    Args:
        x: x_i.
        weights: α.
        matrix: M of the kernel.
        bandwidth: L.

    Raises:
        ValueError: L is not above 0, or not finite.
    """
    _require_bandwidth(bandwidth)
    x = x - np.median(x, 0)
    apart = distances(x, x, matrix)
    norms = np.sqrt(np.maximum(((x @ matrix) * x).sum(1), 0))
    other = apart > _SAME * (norms[:, None] + norms)
    slopes = np.divide(np.exp(-apart / bandwidth), apart, out=np.zeros_like(apart), where=other) / bandwidth
    total = np.zeros_like(matrix)
    for alpha in weights.T:
        each = slopes * alpha
        gradients = (each @ x - each.sum(1)[:, None] * x) @ matrix
        total += gradients.T @ gradients / len(x)
    return total


class RecursiveFeatureMachine(ClassifierMixin, BaseEstimator):
    """The recursive feature machine as a classifier; with no turns, kernel ridge regression with the Laplace kernel.

    Args:
        turns: how often M is learned.
        bandwidth: L.
        penalty: of the ridge.

    Attributes:
        classes_: the labels.
        stages_: (M, α) before the first turn and after each.
        matrix_: M after the last turn, trace of the identity.
    """

    def __init__(self, turns: int = 5, bandwidth: float = 10.0, penalty: float = 1e-3):
        self.turns, self.bandwidth, self.penalty = turns, bandwidth, penalty

    def fit(self, X: Any, y: Any) -> "RecursiveFeatureMachine":
        """Alternate.

        Raises:
            ValueError: an option is out of its range, there is one class alone, or samples are so far from each other
                that the bandwidth tells none of them apart.
        """
        require("turns", self.turns, self.turns >= 0, ">= 0")
        _require_bandwidth(self.bandwidth)
        require("penalty", self.penalty, 0 <= self.penalty < inf, ">= 0, and finite")
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, which = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class, {self.classes_}: allowed are two or more classes")
        codes = 2.0 * np.eye(len(self.classes_))[which] - 1
        codes = codes[:, 1:] if len(self.classes_) == 2 else codes
        self.centres_, matrix = X, np.eye(X.shape[1])
        self.stages_ = []
        for turn in range(self.turns + 1):
            kernel = laplace_kernel(X, X, matrix, self.bandwidth)
            kernel.flat[:: len(X) + 1] += self.penalty
            weights = np.linalg.solve(kernel, codes)
            self.stages_.append((matrix, weights))
            if turn < self.turns:
                learned = gradient_outer_product(X, weights, matrix, self.bandwidth)
                trace = np.trace(learned)
                if not (trace > 0 and np.isfinite(learned / trace).all()):
                    far = float(np.median(distances(X, X, matrix)))
                    raise ValueError(
                        f"bandwidth = {self.bandwidth!r} is too small for samples {far:.3g} apart, so that no kernel "
                        "reaches from one to another: give one of that order, or samples of unit variance"
                    )
                matrix = learned * (len(learned) / trace)
        self.matrix_ = matrix
        return self

    def _decided(self, X: Samples, stage: int) -> np.ndarray:
        matrix, weights = self.stages_[stage]
        found = laplace_kernel(X, self.centres_, matrix, self.bandwidth) @ weights
        return found[:, 0] if found.shape[1] == 1 else found

    def _named(self, decided: np.ndarray) -> np.ndarray:
        return self.classes_[decided.argmax(1) if decided.ndim == 2 else (decided > 0).astype(int)]

    def decision_function(self, X: Any) -> np.ndarray:
        """f of each sample; of each class besides where there are more than two."""
        check_is_fitted(self)
        return self._decided(validate_data(self, X, reset=False, dtype=np.float64), -1)

    def predict(self, X: Any) -> np.ndarray:
        """The class of each sample."""
        return self._named(self.decision_function(X))

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """The classes before the first turn and after each."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        for stage in range(len(self.stages_)):
            yield self._named(self._decided(X, stage))
