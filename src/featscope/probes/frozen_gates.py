"""Gradient and pseudo-loss of a token network by formula.

P: Theoretical Analysis of Contrastive Learning under Imbalanced Data.
"""

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from featscope.data import TokenPairs
from featscope.losses import InfoNCE
from featscope.models import TokenMLPNetwork
from featscope.probes.alignment import alignment
from featscope.streams import Draws
from featscope.theory.imbalance import optimal_learner


class FrozenGates:
    """A network on one batch of pairs, in float64, with the gates that it has at its weights w.

    Args:
        network: what is looked at; a copy is kept.
        pairs: the batch, in float64. Other pairs' second members are an anchor's negatives.
        loss: compares representations.

    Attributes:
        w: the weights.
        keys: representations of the second members.
    """

    w: Float[Tensor, "replica neuron input"]
    keys: Float[Tensor, "replica pair neuron"]

    def __init__(self, network: TokenMLPNetwork, pairs: TokenPairs, loss: InfoNCE) -> None:
        self.network, self.pairs, self.loss = deepcopy(network).double(), pairs, loss
        self.w = self.network.weight.detach()
        self.keys = self.network(pairs.y).detach()
        self._attended, self._times = _attended(self.network, pairs.x)
        self._bias = self.network.bias[:, None, None]
        u = self._project(self.w)
        self._side, self._gate = u.sign(), (u.abs() >= self._bias).double()

    def _project(self, theta: Tensor) -> Float[Tensor, "replica pair token neuron"]:
        return torch.einsum("rptd,rid->rpti", self._attended, theta)

    def representation(self, theta: Float[Tensor, "replica neuron input"]) -> Float[Tensor, "replica pair neuron"]:
        """The map of P (116) on first members: linear in θ, with the gates of w; at θ = w it is the network."""
        return self._times * ((self._project(theta) - self._bias * self._side) * self._gate).sum(-2)

    def pseudo_loss(self, theta: Float[Tensor, "replica neuron input"]) -> Float[Tensor, "replica"]:
        """L̃(θ): `representation` against the keys of w (P (118))."""
        return self.loss.in_batch(self.representation(theta), self.keys)

    def gradient(self, kept: Bool[Tensor, "replica neuron"] | None = None) -> Float[Tensor, "replica neuron input"]:
        """P (21) as printed, and times 1/τ for the loss without a leading τ. Nothing is differentiated.

        Args:
            kept: neurons that the logits see, and nothing else does (P (5)); all if not given.
        """
        tau, count = self.loss.temperature, self.keys.shape[1]
        seen = self.keys if kept is None else self.keys * kept[:, None]
        share = (self.representation(self.w) @ seen.mT / tau).softmax(-1)
        pulled = (share - torch.eye(count, dtype=share.dtype, device=share.device)) @ self.keys
        summed = self._times * torch.einsum("rpi,rpti,rptd->rid", pulled, self._gate, self._attended) / count
        return summed if self.loss.scale == "tau" else summed / tau

    def errors(self) -> tuple[Float[Tensor, "replica"], Float[Tensor, "replica"], Float[Tensor, "replica"]]:
        """Of the network's gradient by autograd, and of the pseudo-loss's at w, against `gradient`; of its value.

        Errors of gradients are relative to the largest entry; that of the value is in nats.
        """
        by_hand = self.gradient()
        scale = by_hand.abs().amax((-2, -1)).clamp_min(torch.finfo(by_hand.dtype).tiny)
        with torch.enable_grad():
            loss = self.loss.in_batch(self.network(self.pairs.x), self.network(self.pairs.y))
            (of_loss,) = torch.autograd.grad(loss.sum(), self.network.weight)
            theta = self.w.clone().requires_grad_()
            pseudo = self.pseudo_loss(theta)
            (of_pseudo,) = torch.autograd.grad(pseudo.sum(), theta)
        of_loss, of_pseudo = ((found - by_hand).abs().amax((-2, -1)) / scale for found in (of_loss, of_pseudo))
        return of_loss, of_pseudo, (pseudo - loss).abs().detach()

    def above_tangent(self, thetas: Sequence[Float[Tensor, "replica neuron input"]]) -> Float[Tensor, "replica"]:
        """The smallest height of the pseudo-loss over ``thetas`` above its tangent at w (P (162))."""
        value, slope = self.pseudo_loss(self.w), self.gradient()
        heights = [self.pseudo_loss(theta) - value - (slope * (theta - self.w)).sum((-2, -1)) for theta in thetas]
        return torch.stack(heights).amin(0)

    def around(
        self, draws: Draws, scales: Sequence[float], directions: int
    ) -> list[Float[Tensor, "replica neuron input"]]:
        """Other weights: w and steps in random directions, ``scales`` times the root mean square of w in size."""
        size = self.w.square().mean((-2, -1), keepdim=True).sqrt()
        steps = [scale * size for scale in scales for _ in range(directions)]
        return [self.w + step * draws.normal(*self.w.shape[1:], dtype=torch.float64) for step in steps]

    def optimal(self, dictionary: Float[Tensor, "replica input feature"]) -> Float[Tensor, "replica neuron input"]:
        """θ* of P (115) at κ = 1, with the neurons that hold one feature in place of the lucky ones."""
        frame = dictionary.double()
        lucky, amplitude = alignment(self.w, frame).square() > 0.5, self.w @ frame
        each = zip(*(tensor.cpu().numpy() for tensor in (frame, lucky, amplitude)), strict=True)
        best = [optimal_learner(m, i, a, self.loss.temperature, kappa=1.0) for m, i, a in each]
        return torch.from_numpy(np.stack(best)).to(self.w)

    def floor(self) -> Float[Tensor, "replica"]:
        """Mean log number of keys that show an anchor's own signals, in the units of the loss.

        They cannot be told from its positive, whatever the weights.
        """
        codes = self.pairs.codes_y.sign()
        alike = (codes[:, :, None] == codes[:, None]).all(-1).sum(-1)
        return (self.loss.temperature if self.loss.scale == "tau" else 1.0) * alike.log().mean(-1)


def _attended(network: TokenMLPNetwork, x: Tensor) -> tuple[Float[Tensor, "replica pair token input"], int]:
    """z^(r), and how many times each counts: under uniform attention all are the mean token."""
    if network.attention == "uniform":
        return (x if x.ndim == 3 else x.mean(-2))[:, :, None], network.tokens
    scores = torch.einsum("rpad,rpbd->rpab", x, x)
    weights = scores / network.tokens if network.attention == "linear" else scores.softmax(-1)
    return torch.einsum("rpab,rpbd->rpad", weights, x), 1
