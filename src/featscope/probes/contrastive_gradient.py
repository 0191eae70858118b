"""The gradient of a contrastive loss of symmetrised ReLU neurons: by formula, by its parts, against autograd.

Wen & Li 2021 (arXiv 2105.15134), Appendix E and footnote 4. All is in the precision of the network and the batch.
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from featscope.data import SparseSample
from featscope.losses import InfoNCE
from featscope.models import SymmetricReLUNetwork, soft_threshold
from featscope.streams import Draws
from featscope.views import View


class GradientSplit(NamedTuple):
    """The parts of -<∇_{w_i} L, M_j> (Definition E.4).

    Attributes:
        feature: Ψ, through the feature j in the keys.
        others: Φ, through whatever else is in the keys.
        signal_crosstalk: E1, through other features that the mask lets spill over in the anchor.
        noise_crosstalk: E2, through the anchor's noise along M_j.
    """

    feature: Float[Tensor, "replica neuron feature"]
    others: Float[Tensor, "replica neuron feature"]
    signal_crosstalk: Float[Tensor, "replica neuron feature"]
    noise_crosstalk: Float[Tensor, "replica neuron feature"]

    @property
    def whole(self) -> Float[Tensor, "replica neuron feature"]:
        """Their sum."""
        return self.feature + self.others + self.signal_crosstalk + self.noise_crosstalk


@dataclass(frozen=True)
class ContrastiveBatch:
    """A network and a batch that it contrasts.

    Attributes:
        network: what is looked at.
        loss: compares representations.
        anchor: x⁺.
        positive: x⁺⁺.
        negatives: shared by all anchors.
    """

    network: SymmetricReLUNetwork
    loss: InfoNCE
    anchor: Float[Tensor, "replica anchor input"]
    positive: Float[Tensor, "replica anchor input"]
    negatives: Float[Tensor, "replica negative input"]

    def logits(self) -> Float[Tensor, "replica anchor key"]:
        """ℓ, the softmax of similarities over τ, the positive's first; written apart from the loss."""
        return self._logits(*(self.network(view) for view in (self.anchor, self.positive, self.negatives)))

    def _logits(self, anchor: Tensor, positive: Tensor, negatives: Tensor) -> Tensor:
        own = torch.einsum("rkn,rkn->rk", anchor, positive)
        others = torch.einsum("rkn,rsn->rks", anchor, negatives)
        return (torch.cat([own[..., None], others], -1) / self.loss.temperature).double().softmax(-1)

    def _gradient(self, anchored: Tensor, of: Tensor) -> Tensor:
        keys = self.network(self.positive), self.network(self.negatives)
        return torch.autograd.grad(self.loss(anchored, *keys).sum(), of)[0]

    @torch.enable_grad()
    def gradient(self) -> Float[Tensor, "replica neuron input"]:
        """∇_{w_i} L, by autograd."""
        return self._gradient(self.network(self.anchor), self.network.weight)

    @torch.enable_grad()
    def pseudo_gradient(self) -> Float[Tensor, "replica neuron input"]:
        """The gradient at θ = w of the pseudo-objective, which is linear in θ as it has the gates of w (E.10)."""
        weight, b = self.network.weight, self.network.bias[:, None]
        u = (self.anchor @ weight.mT).detach()
        return self._gradient((self.anchor @ weight.mT - b * u.sign()) * (u.abs() >= b), weight)

    @torch.enable_grad()
    def threshold_gradient(self) -> Float[Tensor, "replica neuron"]:
        """∂L/∂b_i, if thresholds were trained (footnote 4)."""
        b = self.network.bias.clone().requires_grad_()
        return self._gradient(soft_threshold(self.anchor @ self.network.weight.detach().mT, b), b)

    def split(
        self,
        x: Float[Tensor, "replica anchor input"],
        codes: Float[Tensor, "replica sample feature"],
        dictionary: Float[Tensor, "replica input feature"],
    ) -> GradientSplit:
        """The parts of the gradient by the paper's formulas: nothing is differentiated or shared with the loss.

        Signs are such that h = ψ + φ for an odd h. The paper's print has a minus sign too many in each of the two, and
        the wrong sign before the negatives.

        Args:
            x: what the two views were made of by `RandomMask`.
            codes: hidden signals z of the anchors' samples, then of the negatives.
            dictionary: M, orthonormal to the precision that is asked for.
        """
        count, alpha, b = x.shape[1], self.network.weight @ dictionary, self.network.bias[:, None]
        z, z_negative = codes[:, :count], codes[:, count:]
        u = [view @ self.network.weight.mT for view in (self.anchor, self.positive, self.negatives)]
        h = [torch.sign(v) * (v.abs() - b).clamp_min(0) for v in u]
        gate = (u[0].abs() >= b).to(alpha.dtype)
        share = self._logits(*h)
        pull, push = 1 - share[..., :1], share[..., 1:]

        def psi(v: Tensor, signal: Tensor) -> Tensor:
            fires, side = (v.abs() > b).to(alpha.dtype), v.sign()
            return (alpha[:, None] * signal[:, :, None] - (b * side)[..., None]) * fires[..., None]

        def phi(v: Tensor, signal: Tensor) -> Tensor:
            return (v[..., None] - alpha[:, None] * signal[:, :, None]) * (v.abs() > b).to(alpha.dtype)[..., None]

        def expected(of_positive: Tensor, of_negatives: Tensor, factor: Tensor) -> Tensor:
            contrast = pull[..., None] * of_positive - torch.einsum("rks,rsif->rkif", push, of_negatives)
            return torch.einsum("rkif,rki,rkf->rif", contrast, gate, factor) / count

        signal = z @ dictionary.mT
        kept = self.anchor / x  # the diagonal of 2D
        crosstalk = ((kept - 1) * signal) @ dictionary
        through_noise = (kept * (x - signal)) @ dictionary
        positive, negatives = (each[..., None].expand(-1, -1, -1, alpha.shape[-1]) for each in h[1:])
        return GradientSplit(
            expected(psi(u[1], z), psi(u[2], z_negative), z),
            expected(phi(u[1], z), phi(u[2], z_negative), z),
            expected(positive, negatives, crosstalk),
            expected(positive, negatives, through_noise),
        )


def errors_of_formulas(
    network: SymmetricReLUNetwork, loss: InfoNCE, view: View, sample: SparseSample, draws: Draws
) -> tuple[Float[Tensor, "replica"], Float[Tensor, "replica"]]:
    """How far `ContrastiveBatch.split` and ``pseudo_gradient`` are from autograd: largest differences, relative.

    Args:
        network: what is looked at; all is computed in float64.
        loss: compares representations.
        view: makes the positive pairs, by `RandomMask`.
        sample: in float64; its first half is contrasted with the other.
        draws: for the views.
    """
    # The split uses that features are orthonormal; the float32 dictionary is so only to seven digits.
    left, _, right = torch.linalg.svd(sample.dictionary, full_matrices=False)
    dictionary = left @ right
    x, negatives = (sample.codes @ dictionary.mT + sample.noise).chunk(2, 1)
    batch = ContrastiveBatch(deepcopy(network).double(), loss, *view(x, draws), negatives)
    gradient, split = batch.gradient(), batch.split(x, sample.codes, dictionary).whole

    def error(found: Tensor, true: Tensor) -> Float[Tensor, "replica"]:
        return (found - true).abs().amax((-2, -1)) / true.abs().amax((-2, -1))

    return error(split, -gradient @ dictionary), error(batch.pseudo_gradient(), gradient)
