"""Heads that sit on an encoder during training and are thrown away after."""

from collections import OrderedDict
from dataclasses import dataclass
from math import sqrt
from typing import Literal

import torch
from torch import nn
from torch.nn.utils import skip_init

from featscope.models.encoders import initialise, require_one
from featscope.models.prediction_head import IdentityInit
from featscope.options import require, require_word
from featscope.streams import Draws


@dataclass(frozen=True)
class ProjectionHead:
    """One hidden ReLU layer (Chen et al. 2020, Section 4.2), room to forget what views do not share.

    Attributes:
        hidden: neurons in the hidden layer.
        outputs: dimension of what the loss compares.
    """

    hidden: int = 128
    outputs: int = 64

    def __post_init__(self) -> None:
        require(self, "hidden", self.hidden >= 1, ">= 1")
        require(self, "outputs", self.outputs >= 1, ">= 1")

    def build(self, features: int, draws: Draws) -> nn.Module:
        """A head for representations of dimension ``features``."""
        hidden, output = skip_init(nn.Linear, features, self.hidden), skip_init(nn.Linear, self.hidden, self.outputs)
        return initialise(nn.Sequential(OrderedDict(hidden=hidden, relu=nn.ReLU(), output=output)), draws)


@dataclass(frozen=True)
class PredictionHead:
    """The prediction heads that Wen & Li 2022 compare on images (Figure 2, Section 8).

    Attributes:
        kind: "none"; "identity": E with a diagonal of ones, off-diagonal entries trained from 0; "linear": a trained
            matrix with a bias; "mlp": one hidden ReLU layer. The last two begin as PyTorch's `nn.Linear` does.
        hidden: neurons in the hidden layer of "mlp". The paper does not say how many.
    """

    kind: Literal["none", "identity", "linear", "mlp"] = "identity"
    hidden: int = 512

    def __post_init__(self) -> None:
        require_word(self, "kind")
        require(self, "hidden", self.hidden >= 1, ">= 1")

    def build(self, outputs: int, draws: Draws) -> nn.Module:
        """A head for representations of dimension ``outputs``."""
        if self.kind == "none":
            return nn.Identity()
        if self.kind == "identity":
            return IdentityInit().build(outputs)
        if self.kind == "linear":
            return _as_torch_begins(skip_init(nn.Linear, outputs, outputs), draws)
        hidden, output = skip_init(nn.Linear, outputs, self.hidden), skip_init(nn.Linear, self.hidden, outputs)
        return nn.Sequential(
            OrderedDict(hidden=_as_torch_begins(hidden, draws), relu=nn.ReLU(), output=_as_torch_begins(output, draws))
        )


@torch.no_grad()
def _as_torch_begins(layer: nn.Linear, draws: Draws) -> nn.Linear:
    """PyTorch's initial law of a linear layer, uniform within ±1/√inputs, from ``draws``."""
    require_one(draws)
    for parameter in (layer.weight, layer.bias):
        parameter.copy_((2 * draws.uniform(*parameter.shape)[0] - 1) / sqrt(layer.in_features))
    return layer
