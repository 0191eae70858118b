"""InfoNCE with stop-gradient on the keys (Wen & Li 2021, equations 2.1 and 2.2)."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from featscope.options import require


@dataclass(frozen=True)
class InfoNCE:
    """-τ log( e^{<f⁺, f⁺⁺>/τ} / (e^{<f⁺, f⁺⁺>/τ} + Σ_s e^{<f⁺, f_s>/τ}) ), averaged over anchors.

    Similarities are inner products of unnormalised representations. Gradients flow through the anchors only.

    Attributes:
        temperature: τ.
        scale: "tau": the loss as above, whose gradient has no 1/τ, as theories write it; "1": without the leading
            τ, as papers define the loss.
    """

    temperature: float = 1.0
    scale: Literal["tau", "1"] = "tau"

    def __post_init__(self) -> None:
        require(self, "temperature", self.temperature > 0, "> 0")

    def __call__(
        self,
        anchor: Float[Tensor, "*replica anchor neuron"],
        positive: Float[Tensor, "*replica anchor neuron"],
        negatives: Float[Tensor, "*replica negative neuron"],
    ) -> Float[Tensor, "*replica"]:
        """The loss of each replica, in nats (times τ), with a set of negatives for all anchors."""
        anchor = anchor / self.temperature
        own = (anchor * stop_gradient(positive)).sum(-1)
        others = _LogSumExp.apply(anchor @ stop_gradient(negatives).mT)
        return self._factor * (torch.logaddexp(own, others) - own).mean(-1)

    def in_batch(
        self,
        anchor: Float[Tensor, "*replica pair neuron"],
        positive: Float[Tensor, "*replica pair neuron"],
    ) -> Float[Tensor, "*replica"]:
        """The loss of each replica, in nats (times τ), where other pairs' positives are an anchor's negatives."""
        anchor, positive = anchor / self.temperature, stop_gradient(positive)
        own = (anchor * positive).sum(-1)
        return self._factor * (_LogSumExp.apply(anchor @ positive.mT) - own).mean(-1)

    @property
    def _factor(self) -> float:
        return self.temperature if self.scale == "tau" else 1.0


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
