"""InfoNCE with stop-gradient on the keys (Wen & Li 2021, equations 2.1 and 2.2)."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from featscope.options import require


@dataclass(frozen=True)
class InfoNCE:
    """-τ log( e^{<f⁺, f⁺⁺>/τ} / (e^{<f⁺, f⁺⁺>/τ} + Σ_s e^{<f⁺, f_s>/τ}) ), averaged over anchors.

    Similarities are inner products of unnormalised representations. Gradients flow through the anchors only;
    the leading τ makes them free of 1/τ.

    Attributes:
        temperature: τ.
    """

    temperature: float = 1.0

    def __post_init__(self) -> None:
        require(self, "temperature", self.temperature > 0, "> 0")

    def __call__(
        self,
        anchor: Float[Tensor, "*replica anchor neuron"],
        positive: Float[Tensor, "*replica anchor neuron"],
        negatives: Float[Tensor, "*replica negative neuron"],
    ) -> Float[Tensor, "*replica"]:
        """The loss of each replica, in nats times τ."""
        anchor = anchor / self.temperature
        own = (anchor * stop_gradient(positive)).sum(-1)
        others = _LogSumExp.apply(anchor @ stop_gradient(negatives).mT)
        return self.temperature * (torch.logaddexp(own, others) - own).mean(-1)


def stop_gradient(keys: Tensor) -> Tensor:
    """StopGrad: the keys as constants."""
    return keys.detach()


class _LogSumExp(torch.autograd.Function):
    """`torch.logsumexp` over the last axis in half the passes over memory.

    Similarities are the largest tensor of a step of small networks: the fused softmax gives the value, and is
    the gradient.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        share = x.softmax(-1)
        ctx.save_for_backward(share)
        return x.amax(-1) - share.amax(-1).log()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (share,) = ctx.saved_tensors
        return share * gradient[..., None]
