"""InfoNCE with stop-gradient on the keys (Wen & Li 2021, equations 2.1 and 2.2)."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import logsigmoid

from featscope.losses.similarity import Masked, Representations, paired, products, require_pairs, require_rows
from featscope.numbers import as_written, per_replica, wide
from featscope.options import require, require_word


@dataclass(frozen=True)
class InfoNCE:
    """-τ log( e^{<f⁺, f⁺⁺>/τ} / (e^{<f⁺, f⁺⁺>/τ} + Σ_s e^{<f⁺, f_s>/τ}) ), averaged over anchors.

    Similarities are inner products of unnormalised representations; a batch is ``[*replica, batch, neuron]``, or a
    `Masked` pair of a pruned network. Gradients flow through the anchors only. It works in float32 at least, under
    autocast too. Negatives are those that are given: of other processes it knows nothing, where `NTXent` has theirs.

    Attributes:
        temperature: τ.
        scale: "tau": the loss with its leading τ, whose gradient has no 1/τ, as theories write it; "1": without it, as
            papers define the loss.
    """

    floats_per_replica: ClassVar[bool] = True

    temperature: float = 1.0
    scale: Literal["tau", "1"] = "tau"

    def __post_init__(self) -> None:
        require(self, "temperature", self.temperature > 0, "> 0")
        require_word(self, "scale")

    def __call__(
        self,
        anchor: Representations,
        positive: Representations,
        negatives: Float[Tensor, "*replica negative neuron"] | Masked,
    ) -> Float[Tensor, "*replica"]:
        """The loss of each replica, in nats (times τ), with a set of negatives for all anchors.

        Raises:
            ValueError: anchors and positives differ in shape, or there are no anchors or no negatives.
        """
        require_pairs(anchor, positive)
        require_rows("anchor", anchor)
        require_rows("negatives", negatives)
        with _in_full(anchor):
            anchor, positive, negatives = (_wide(part) for part in (anchor, positive, negatives))
            anchor = self._over_temperature(anchor)
            others = _LogSumExpOver.apply(products(anchor, negatives), paired(anchor, positive))
            return self._scaled(-logsigmoid(-others).mean(-1))

    def in_batch(self, anchor: Representations, positive: Representations) -> Float[Tensor, "*replica"]:
        """The loss of each replica, in nats (times τ), where other pairs' positives are an anchor's negatives.

        Raises:
            ValueError: anchors and positives differ in shape, or there are none.
        """
        require_pairs(anchor, positive)
        require_rows("anchor", anchor)
        with _in_full(anchor):
            anchor, positive = _wide(anchor), _wide(positive)
            anchor = self._over_temperature(anchor)
            above = _LogSumExpOver.apply(products(anchor, positive), paired(anchor, positive))
            return self._scaled(above.clamp_min(0).mean(-1))  # both round otherwise, where logits are large

    def _over_temperature(self, anchor: Representations) -> Representations:
        if isinstance(anchor, Masked):
            return Masked(*(part / per_replica(self.temperature, part) for part in anchor))
        return anchor / per_replica(self.temperature, anchor)

    def _scaled(self, loss: Float[Tensor, "*replica"]) -> Float[Tensor, "*replica"]:
        return per_replica(self.temperature, loss) * loss if self.scale == "tau" else loss


def _in_full(anchor: Representations) -> AbstractContextManager[Any]:
    """Within it nothing is cast to half precision, which holds no difference of large similarities."""
    its = anchor.dense if isinstance(anchor, Masked) else anchor
    return as_written(its.device)


def _wide(part: Representations) -> Representations:
    return Masked(*map(wide, part)) if isinstance(part, Masked) else wide(part)


class _LogSumExpOver(torch.autograd.Function):
    """`torch.logsumexp` over the last axis, less a number, in half the passes over memory.

    Similarities are the largest tensor of a step of small networks: the fused softmax gives the value, and is
    the gradient. The number is taken off the largest first: of two large ones the difference keeps its digits.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, own: Tensor) -> Tensor:
        share = x.softmax(-1)
        ctx.save_for_backward(share)
        return (x.amax(-1) - own) - share.amax(-1).log()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        (share,) = ctx.saved_tensors
        return share * gradient[..., None], -gradient
