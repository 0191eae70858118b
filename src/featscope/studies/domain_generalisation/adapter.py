"""Many small networks on frozen features, trained side by side."""

from dataclasses import dataclass
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from featscope.streams import Draws, Streams
from featscope.studies.domain_generalisation.networks import Weights


class Layers(NamedTuple):
    """A layer of ReLUs and a linear head; one network a penalty."""

    inner: Float[Tensor, "penalty unit feature"]
    threshold: Float[Tensor, "penalty unit"]
    head: Float[Tensor, "penalty class unit"]
    bias: Float[Tensor, "penalty class"]


@dataclass(frozen=True)
class Adapters:
    """A layer of ReLUs on frozen features, and a linear head.

    Attributes:
        features: of the encoder.
        units: ReLUs.
    """

    features: int
    units: int

    together = 1_000
    at_once = 100_000

    def start(self, penalties: int, classes: int, streams: Streams, target: int) -> Layers:
        """He-normal units, a head that says little."""
        draws = streams.at("adapter", target)
        inner = draws.normal(self.units, self.features)[0] * (2 / self.features) ** 0.5
        head = draws.normal(classes, self.units)[0] * (1 / self.units) ** 0.5
        parts = inner, inner.new_zeros(self.units), head, head.new_zeros(classes)
        return Layers(*(part.expand(penalties, *part.shape).clone().requires_grad_() for part in parts))

    def view(self, x: Tensor, draws: Draws) -> Tensor:
        """Features as they are."""
        return x

    def outputs(
        self, weights: Weights, x: Float[Tensor, "sample feature"]
    ) -> tuple[Float[Tensor, "penalty sample unit"], Float[Tensor, "penalty sample class"]]:
        """Features Φ and logits of each network. One product serves all: they see the same samples."""
        inner, threshold, head, bias = weights
        penalties, units, _ = inner.shape
        before = x @ inner.flatten(0, 1).T
        phi = (before.view(len(x), penalties, units).transpose(0, 1) + threshold[:, None]).relu()
        return phi, phi @ head.mT + bias[:, None]
