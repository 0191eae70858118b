"""Linear attention whose one layer is gone through again and again (dissertation, Definitions 8.6 and 8.7).

    Attn(Z; Q, P) = (M ∘ (Z Q Zᵀ)) Z P,   Z <- Z - η Attn(Z; Q, P),   answer: minus the query's first channels

The dissertation declares Q and P of size d x d; with the examples' y they are (d + 1) x (d + 1).
"""

from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.options import ConfigError

Mask = Literal["query", "query-and-itself", "causal"]
"""Who attends to whom: the query to all examples (the dissertation's), the query to itself, too, or every token to
itself and all before it."""


def attention_mask(kind: Mask, tokens: int) -> Float[Tensor, "row token"]:
    """The last rows of M, float64; tokens of the others attend to nothing.

    Raises:
        ConfigError: there is no mask of that name.
    """
    if kind not in get_args(Mask):
        raise ConfigError(f"kind = {kind!r} is out of range: allowed is 'query', 'query-and-itself' or 'causal'.")
    if kind == "causal":
        return torch.ones(tokens, tokens, dtype=torch.float64).tril()
    mask = torch.ones(1, tokens, dtype=torch.float64)
    mask[0, -1] = kind == "query-and-itself"
    return mask


def gradient_descent_weights(dimension: int) -> tuple[Float[Tensor, "c c"], Float[Tensor, "c c"]]:
    """Q and P with which a loop is a step of gradient descent on the prompt's least squares (Lemma 8.13), float64."""
    value = torch.eye(dimension + 1, dtype=torch.float64)
    value[-1, -1] = 0
    return torch.eye(dimension + 1, dtype=torch.float64), value


class LoopedLinearAttention(nn.Module):
    """One layer for any number of loops.

    Args:
        query_key: Q.
        value: P.
    """

    def __init__(
        self, query_key: Float[Tensor, "replica channel channel"], value: Float[Tensor, "replica channel channel"]
    ) -> None:
        super().__init__()
        self.query_key, self.value = nn.Parameter(query_key), nn.Parameter(value)

    def attended(
        self, prompts: Float[Tensor, "replica prompt token channel"], mask: Float[Tensor, "row token"]
    ) -> Float[Tensor, "replica prompt row channel"]:
        """Attn(Z; Q, P) of the last tokens, those that attend to any; the others' is 0."""
        asking = prompts[..., -len(mask) :, :]
        scores = (asking @ self.query_key[:, None]) @ prompts.mT * mask
        return (scores @ prompts) @ self.value[:, None]

    def forward(
        self,
        prompts: Float[Tensor, "replica prompt token channel"],
        mask: Float[Tensor, "row token"],
        step: Float[Tensor, "replica prompt"] | float,
    ) -> Float[Tensor, "replica prompt token channel"]:
        """One loop with step size ``step`` (η)."""
        eta = step[..., None, None] if isinstance(step, Tensor) else step
        staying, asking = prompts.split([prompts.shape[-2] - len(mask), len(mask)], -2)
        return torch.cat([staying, asking - eta * self.attended(prompts, mask)], -2)

    @torch.no_grad()
    def loop_(
        self,
        prompts: Float[Tensor, "replica prompt token channel"],
        mask: Float[Tensor, "row token"],
        step: Float[Tensor, "replica prompt"] | float,
    ) -> None:
        """The same in place, without gradients; tokens that stay are not copied."""
        eta = step[..., None, None] if isinstance(step, Tensor) else step
        prompts[..., -len(mask) :, :] -= eta * self.attended(prompts, mask)


def answer(prompts: Float[Tensor, "replica prompt token channel"]) -> Float[Tensor, "replica prompt dimension"]:
    """What a looped transformer says: minus the first channels of the query."""
    return -prompts[..., -1, :-1]
