"""Adapters between frozen features and a linear head, one a method, trained side by side on the same batches."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from featscope.streams import Draws


class Weights(NamedTuple):
    """Two layers with ReLUs between them, and a linear head; one of each a method."""

    inner: Float[Tensor, "method unit feature"]
    threshold: Float[Tensor, "method unit"]
    outer: Float[Tensor, "method neuron unit"]
    shift: Float[Tensor, "method neuron"]
    head: Float[Tensor, "method class neuron"]
    bias: Float[Tensor, "method class"]


def start(methods: int, features: int, units: int, neurons: int, classes: int, draws: Draws) -> Weights:
    """The same weights for each method: He-normal units, outputs of size one, and a head that says little."""
    inner = draws.normal(units, features)[0] * (2 / features) ** 0.5
    outer = draws.normal(neurons, units)[0] * (1 / units) ** 0.5
    head = draws.normal(classes, neurons)[0] * 0.1 * (1 / neurons) ** 0.5
    parts = inner, torch.zeros(units), outer, torch.zeros(neurons), head, torch.zeros(classes)
    return Weights(*(part.expand(methods, *part.shape).clone().requires_grad_() for part in parts))


def adapted(weights: Weights, x: Float[Tensor, "sample feature"]) -> Float[Tensor, "method sample neuron"]:
    """What each adapter makes of the same samples. One product serves all in the first layer."""
    methods, units, _ = weights.inner.shape
    before = (x @ weights.inner.flatten(0, 1).T).view(len(x), methods, units).transpose(0, 1)
    return (before + weights.threshold[:, None]).relu() @ weights.outer.mT + weights.shift[:, None]


def logits(weights: Weights, phi: Float[Tensor, "method sample neuron"]) -> Float[Tensor, "method sample class"]:
    """What each head says."""
    return phi @ weights.head.mT + weights.bias[:, None]


def some(weights: Weights, first: int, last: int) -> Weights:
    """Those of the methods ``first`` up to and without ``last``; they share memory and gradients."""
    return Weights(*(part[first:last] for part in weights))
