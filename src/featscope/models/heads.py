"""Heads that sit on an encoder during training and are thrown away after."""

from collections import OrderedDict
from dataclasses import dataclass

from torch import nn

from featscope.models.encoders import initialise
from featscope.options import require
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
        hidden, output = nn.Linear(features, self.hidden), nn.Linear(self.hidden, self.outputs)
        return initialise(nn.Sequential(OrderedDict(hidden=hidden, relu=nn.ReLU(), output=output)), draws)
