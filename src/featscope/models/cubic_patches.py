"""A convolution of cubic neurons, summed over patches (Wen & Li 2022, Section 3.1)."""

from dataclasses import dataclass
from math import sqrt
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.kernels import suits
from featscope.models.prediction_head import IdentityInit
from featscope.models.token_mlp import Projectable
from featscope.options import require
from featscope.streams import Draws


@dataclass(frozen=True)
class CubicPatches:
    """f_j(X) = Σ_p <w_j, X_p>³, no bias.

    Attributes:
        width: number of neurons, m.
        overlaps: initial <w_j, v_l> with the features, (B_11, B_12, B_21, B_22) for two neurons; None leaves them
            random as all else.
    """

    width: int = 2
    overlaps: tuple[float, float, float, float] | None = None

    def __post_init__(self) -> None:
        require(self, "width", self.width >= 1, ">= 1")
        require(self, "overlaps", self.overlaps is None or self.width == 2, "None unless width = 2")

    def build(self, source: Any, draws: Draws) -> "CubicPatchesNetwork":
        """A network a replica with w_j ~ N(0, I/d) but for the overlaps with ``source.dictionary`` that are set."""
        dictionary = source.dictionary
        d = dictionary.shape[1]
        weight = draws.normal(self.width, d) / sqrt(d)
        if self.overlaps is not None:
            wanted = torch.tensor(self.overlaps, device=weight.device).view(2, 2)
            weight = weight + (wanted - weight @ dictionary) @ dictionary.mT
        return CubicPatchesNetwork(weight)


class CubicPatchesNetwork(nn.Module):
    """`CubicPatches` for a stack of replicas.

    Args:
        weight: initial weights.
    """

    def __init__(self, weight: Float[Tensor, "*replica neuron input"]) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)

    def of_patches(
        self, x: Float[Tensor, "*replica batch patch input"] | Projectable
    ) -> Float[Tensor, "*replica batch patch neuron"]:
        """<w_j, X_p>³ of every patch; a view of a sample is a sum over some of them."""
        z = self._products(x)
        return z * z * z

    def views(
        self,
        x: Float[Tensor, "replica batch patch input"] | Projectable,
        in_first: Float[Tensor, "replica batch patch"],
    ) -> tuple[Float[Tensor, "replica batch neuron"], Float[Tensor, "replica batch neuron"]]:
        """f of the patches where ``in_first`` is 1, and of those where it is 0."""
        return views_of_cubes(self._products(x), in_first)

    def _products(self, x: Tensor | Projectable) -> Float[Tensor, "*replica batch patch neuron"]:
        return x.project(self.weight) if isinstance(x, Projectable) else x @ self.weight.mT.unsqueeze(-3)

    def forward(self, x: Float[Tensor, "*replica batch patch input"]) -> Float[Tensor, "*replica batch neuron"]:
        """f(X)."""
        return self.of_patches(x).sum(-2)


def views_of_cubes(
    z: Float[Tensor, "replica batch patch neuron"], in_first: Float[Tensor, "replica batch patch"]
) -> tuple[Float[Tensor, "replica batch neuron"], Float[Tensor, "replica batch neuron"]]:
    """Σ_p z³ over the patches where ``in_first`` is 1, and over those where it is 0."""
    by_neuron = z.permute(0, 3, 1, 2)
    lie = by_neuron.is_contiguous() and in_first.is_contiguous() and in_first.shape == z.shape[:3]
    if lie and suits(z.detach(), in_first):
        from featscope.kernels.cubes import views

        return views(by_neuron, in_first)
    each, chosen = z * z * z, in_first.to(z.dtype).unsqueeze(-1)
    first = (each * chosen).sum(-2)
    return first, each.sum(-2) - first


@dataclass(frozen=True)
class Online:
    """Options of `OnlineNetwork`.

    Attributes:
        encoder: maps a view to a representation.
        head: maps it to the prediction of the other view's; None predicts the same.
    """

    encoder: CubicPatches
    head: IdentityInit | None

    def build(self, source: Any, draws: Draws) -> "OnlineNetwork":
        """A network a replica."""
        encoder = self.encoder.build(source, draws)
        return OnlineNetwork(
            encoder, self.head.build(self.encoder.width, draws.replicas) if self.head else nn.Identity()
        )


class OnlineNetwork(nn.Module):
    """An encoder and the prediction head on it. The target network is the encoder alone.

    Args:
        encoder: maps a view to a representation.
        head: maps a representation to the prediction of the other view's.
    """

    def __init__(self, encoder: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, x: Tensor) -> Tensor:
        """The prediction."""
        return self.head(self.encoder(x))
