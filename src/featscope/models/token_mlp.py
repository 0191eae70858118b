"""Fixed attention over tokens, then bilateral-ReLU neurons (P, Section 2; V, Section 2)."""

from dataclasses import dataclass
from math import sqrt
from typing import Any, Literal, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from featscope.models.symmetric_relu import SymmetricReLUNetwork, soft_threshold
from featscope.options import require, require_word
from featscope.streams import Draws


@runtime_checkable
class Projectable(Protocol):
    """Inputs of which only products with weights are asked for."""

    def project(self, weight: Float[Tensor, "*replica neuron input"]) -> Float[Tensor, "*replica batch neuron"]:
        """The inputs times ``weight`` transposed."""


Attention = Literal["uniform", "linear", "softmax"]


@dataclass(frozen=True)
class TokenMLP:
    """h_i(X) = Σ_r BReLU_b(<w_i, z^(r)>) over the attended tokens z^(r). Queries, keys and values are the tokens.

    Attributes:
        width: number of neurons, m.
        init_norm: expected norm of a neuron's initial weights, σ0 √d1. Stage I needs near-uniform logits, so a
            small sum of squared norms.
        attention: "uniform": z^(r) is the mean token, for which the papers' formulas are exact; "linear":
            z^(r) = (1/L) X Xᵀ x^(r); "softmax": z^(r) = X softmax(Xᵀ x^(r)). The papers do not say which.
    """

    width: int = 100
    init_norm: float = 0.2
    attention: Attention = "uniform"

    def __post_init__(self) -> None:
        require(self, "width", self.width >= 1, ">= 1")
        require(self, "init_norm", self.init_norm > 0, "> 0")
        require_word(self, "attention")

    def build(self, source: Any, draws: Draws) -> "TokenMLPNetwork":
        """A network a replica with w_i ~ N(0, σ0² I) and b_i = 0.

        Args:
            source: has the features, ``dictionary``, and the tokens of a sequence, ``tokens``. Under uniform attention
                it is told that mean tokens are all that will be looked at: ``means``.
            draws: random numbers.
        """
        source.means = self.attention == "uniform"
        input_dim = source.dictionary.shape[-2]
        weight = draws.normal(self.width, input_dim) * (self.init_norm / sqrt(input_dim))
        return TokenMLPNetwork(weight, source.tokens, self.attention)


class TokenMLPNetwork(SymmetricReLUNetwork):
    """`TokenMLP` for a stack of replicas. Only the weights are trained; a rule may set the biases."""

    def __init__(
        self, weight: Float[Tensor, "*replica neuron input"], tokens: int, attention: Attention = "uniform"
    ) -> None:
        super().__init__(weight)
        self.tokens, self.attention = tokens, attention

    def forward(self, x: Tensor | Projectable) -> Float[Tensor, "*replica batch neuron"]:
        """The representation f(X).

        Args:
            x: sequences ``[*replica, batch, token, input]``; under uniform attention also their mean tokens
                ``[*replica, batch, input]``, or what projects them.

        Raises:
            ValueError: mean tokens under another attention, as of a source that was told since that they will do.
        """
        if self.attention != "uniform" and (isinstance(x, Projectable) or x.ndim <= self.weight.ndim):
            raise ValueError(
                f"attention = {self.attention!r} looks at tokens, and mean tokens were given: another network "
                "was built on this source, which wants no more than these. Give each a source of its own."
            )
        if isinstance(x, Projectable):
            return self.tokens * soft_threshold(x.project(self.weight), self.bias)
        if self.attention == "uniform":
            means = x.mean(-2) if x.ndim > self.weight.ndim else x
            return self.tokens * soft_threshold(means @ self.weight.mT, self.bias)
        scores = x @ x.mT
        scores = scores / self.tokens if self.attention == "linear" else scores.softmax(-1)
        each = x.shape[-3:-1]
        projected = scores @ (x.flatten(-3, -2) @ self.weight.mT).unflatten(-2, each)
        return soft_threshold(projected.flatten(-3, -2), self.bias).unflatten(-2, each).sum(-2)
