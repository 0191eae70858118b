"""One layer of linear self-attention whose answer is one number (Shi 2024, dissertation, Equations 5.1 to 5.3).

    f(E) = E + W_PV E (Eᵀ W_KQ E)/ρ,   answer: the entry of the query's column and the labels' row

Columns of E are tokens there, and rows of ``prompts`` here; ρ is the number of examples.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn


def attended(
    prompts: Float[Tensor, "replica prompt token channel"],
    value: Float[Tensor, "replica channel channel"],
    key_query: Float[Tensor, "replica channel channel"],
) -> Float[Tensor, "replica prompt token channel"]:
    """f(E) as printed, with W_PV = ``value`` and W_KQ = ``key_query``."""
    scores = prompts @ key_query[:, None] @ prompts.mT  # token i attends to by token j
    return prompts + scores.mT @ prompts @ value[:, None].mT / (prompts.shape[-2] - 1)


def prompt_moment(prompts: Float[Tensor, "replica prompt token channel"]) -> Float[Tensor, "replica prompt dimension"]:
    """h = Σ y_i x_i/N, all that a model sees of a prompt whose other blocks are zero."""
    return (prompts[..., :-1].mT @ prompts[..., -1:])[..., 0] / (prompts.shape[-2] - 1)


class LowRankRegressors(nn.Module):
    """The models of every rank, 0 to d, side by side: answer hᵀ U x_q with U = W_Kᵀ W_Q and u = 1 (Equation 5.3).

    All have matrices of d rows; those beyond a model's rank are zero, where they stay in gradient descent.

    Args:
        key: W_K.
        query: W_Q.
    """

    def __init__(self, key: Float[Tensor, "replica rank row d"], query: Float[Tensor, "replica rank row d"]) -> None:
        super().__init__()
        self.key, self.query = nn.Parameter(key), nn.Parameter(query)

    @property
    def product(self) -> Float[Tensor, "replica rank d d"]:
        """U."""
        return self.key.mT @ self.query

    def forward(self, prompts: Float[Tensor, "replica prompt token d1"]) -> Float[Tensor, "replica rank prompt"]:
        """The answers."""
        h, asked = prompt_moment(prompts)[:, None], prompts[:, None, :, -1, :-1]
        return (h @ self.product * asked).sum(-1)


class LinearSelfAttention(nn.Module):
    """The layer with all blocks that its answer depends on (Equation 5.2).

    Args:
        value: last row of W_PV: w_21 of W_PV, and u.
        key: W_K, with a column for the labels.
        query: W_Q; W_Kᵀ W_Q are the first d columns of W_KQ, U and below it w_21 of W_KQ.
        label: a row that is added to w_21 of W_KQ, so that the rank of U alone is limited.
    """

    def __init__(
        self,
        value: Float[Tensor, "replica channel"],
        key: Float[Tensor, "replica rank channel"],
        query: Float[Tensor, "replica rank dimension"],
        label: Float[Tensor, "replica dimension"] | None = None,
    ) -> None:
        super().__init__()
        self.value, self.key, self.query = nn.Parameter(value), nn.Parameter(key), nn.Parameter(query)
        self.label = None if label is None else nn.Parameter(label)

    @property
    def key_query(self) -> Float[Tensor, "replica channel dimension"]:
        """The first d columns of W_KQ."""
        whole = self.key.mT @ self.query
        return whole if self.label is None else torch.cat([whole[:, :-1], whole[:, -1:] + self.label[:, None]], 1)

    @property
    def product(self) -> Float[Tensor, "replica dimension dimension"]:
        """u U, by which the answer depends on examples where the other blocks are zero."""
        return self.value[:, -1, None, None] * self.key_query[:, :-1]

    def forward(self, prompts: Float[Tensor, "replica prompt token channel"]) -> Float[Tensor, "replica prompt"]:
        """The answers."""
        seen = (prompts * (prompts @ self.value[:, None, :, None])).sum(-2) / (prompts.shape[-2] - 1)
        return (seen @ self.key_query * prompts[..., -1, :-1]).sum(-1)
