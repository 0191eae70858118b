"""Classifiers on features that no label has shaped: random ones, and the gradient of a network at its start."""

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.linear_model import RidgeClassifierCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from featscope.baselines.rfm import require
from featscope.modules import evaluating

PENALTIES = tuple(10.0**e for e in range(-3, 6))
"""Penalties that `ridge` chooses from."""


class RandomFeatures(TransformerMixin, BaseEstimator):
    """min(1, max(0, <w, x> + b)) for normal w and b, the features of a truncated-ReLU network at its start.

    Args:
        features: how many.
        scale: standard deviation of each entry of w.
        bias_scale: standard deviation of b.
        random_state: of the draws.

    Attributes:
        weights_: w ``[feature, input]``.
        biases_: b ``[feature]``.
    """

    def __init__(self, features: int = 100, scale: float = 0.2, bias_scale: float = 0.04, random_state: Any = None):
        self.features, self.scale, self.bias_scale, self.random_state = features, scale, bias_scale, random_state

    def fit(self, X: Any, y: Any = None) -> "RandomFeatures":
        """Draw w and b; of ``X`` the width counts only.

        Raises:
            ValueError: an option is out of its range.
        """
        require("features", self.features, self.features >= 1, ">= 1")
        require("scale", self.scale, 0 < self.scale < inf, "> 0, and finite")
        require("bias_scale", self.bias_scale, 0 <= self.bias_scale < inf, ">= 0, and finite")
        X = validate_data(self, X)
        draw = check_random_state(self.random_state)
        self.weights_ = self.scale * draw.standard_normal((self.features, X.shape[1]))
        self.biases_ = self.bias_scale * draw.standard_normal(self.features)
        return self

    def transform(self, X: Any) -> Float[np.ndarray, "sample feature"]:
        """The features of ``X``."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        return np.clip(X @ self.weights_.T + self.biases_, 0, 1)


class TangentFeatures(TransformerMixin, BaseEstimator):
    """The gradient of a network's answer by its parameters, as they are (the empirical neural tangent features).

    Args:
        network: any module that maps inputs ``[sample, input]`` to one answer each, ``[sample]`` or ``[sample, 1]``;
            it is run in evaluation mode.

    Raises:
        ValueError: the network is no module, or has more than one answer a sample.
    """

    def __init__(self, network: nn.Module | None = None):
        self.network = network

    def fit(self, X: Any, y: Any = None) -> "TangentFeatures":
        """Nothing is learned."""
        if not isinstance(self.network, nn.Module):
            raise ValueError(f"network = {self.network!r}: allowed is a torch module with one answer a sample")
        validate_data(self, X)
        return self

    def transform(self, X: Any) -> Float[np.ndarray, "sample feature"]:
        """The features of ``X``, parameter after parameter in the order of the module."""
        check_is_fitted(self, "n_features_in_")
        network: Any = self.network
        parameters = {name: one.detach() for name, one in network.named_parameters()}
        first = next(iter(parameters.values()))
        inputs = torch.as_tensor(validate_data(self, X, reset=False), dtype=first.dtype, device=first.device)

        def answer(parameters: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
            given = torch.func.functional_call(network, parameters, (x[None],))
            if given.numel() != 1:
                raise ValueError(f"network gives answers of shape {list(given.shape[1:])} a sample: allowed is one")
            return given.squeeze()

        with evaluating(network):
            gradients = torch.func.vmap(torch.func.grad(answer), (None, 0))(parameters, inputs)
        return torch.cat([one.flatten(1) for one in gradients.values()], 1).cpu().numpy().astype(np.float64)


def ridge(penalties: Sequence[float] = PENALTIES) -> RidgeClassifierCV:
    """Ridge classification; of ``penalties`` the one with the least error when each sample is left out.

    Raises:
        ValueError: there are none, or one is not above 0, or not finite.
    """
    right = len(penalties) > 0 and all(0 < penalty < inf for penalty in penalties)
    require("penalties", penalties, right, "one or more, each > 0, and finite")
    return RidgeClassifierCV(alphas=tuple(penalties))


def random_features(features: int = 100, **options: Any) -> Pipeline:
    """`ridge` on standardised `RandomFeatures`; ``options`` are theirs."""
    return make_pipeline(RandomFeatures(features, **options), StandardScaler(), ridge())


def tangent_features(network: nn.Module) -> Pipeline:
    """`ridge` on the `TangentFeatures` of ``network``, centred and each as large as the gradient has it."""
    return make_pipeline(TangentFeatures(network), StandardScaler(with_std=False), ridge())
