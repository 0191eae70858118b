"""Networks that hold every feature from the start (the pruning paper, Theorem 3.2)."""

from dataclasses import dataclass
from typing import Any

import torch

from featscope.models.token_mlp import TokenMLPNetwork
from featscope.options import require
from featscope.streams import Draws


@dataclass(frozen=True)
class PlantedStart:
    """A network that holds every feature already: w = amplitude M_j + N(0, jitter² I), some neurons for each feature.

    Attributes:
        neurons: neurons of a feature.
        amplitude: of majority features.
        minority_amplitude: of minority features.
        jitter: standard deviation of what is added to each weight.
    """

    neurons: int = 2
    amplitude: float = 0.3
    minority_amplitude: float = 0.3
    jitter: float = 0.01

    def __post_init__(self) -> None:
        require(self, "neurons", self.neurons >= 1, ">= 1")
        require(self, "amplitude", self.amplitude > 0, "> 0")
        require(self, "minority_amplitude", self.minority_amplitude > 0, "> 0")
        require(self, "jitter", self.jitter >= 0, ">= 0")

    def build(self, source: Any, draws: Draws) -> TokenMLPNetwork:
        """The network on the features of ``source``, under uniform attention: mean tokens are all it looks at."""
        source.means = True
        amplitude = torch.full_like(source.activity, self.amplitude)
        amplitude[:, amplitude.shape[1] - source.minority :] = self.minority_amplitude
        planted = (source.dictionary * amplitude[:, None]).mT.repeat_interleave(self.neurons, dim=1)
        return TokenMLPNetwork(planted + self.jitter * draws.normal(*planted.shape[1:]), source.tokens)
