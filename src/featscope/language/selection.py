"""The rule by which GemFilter chooses tokens (dissertation, Section 9.3.1 and Algorithm 2).

Scores are inner products of one query row with all keys, after rotary embedding and before any scaling or softmax,
summed over heads; they are averaged over neighbours, and the tokens with the largest ones are kept in their order.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import avg_pool1d, max_pool1d

Pool = Literal["avg", "max", "none"]
Row = Literal["last", "middle", "largest"]


def summed_queries(
    query: Float[Tensor, "batch head row channel"], kv_heads: int
) -> Float[Tensor, "batch kv_head row channel"]:
    """Queries summed over the heads that share a key head.

    Scores are linear in queries, so that Σ_j q_j·k = Σ_g (Σ_{j in g} q_j)·k_g: no key has to be repeated.
    """
    return query.unflatten(1, (kv_heads, -1)).sum(2)


def scores(
    query: Float[Tensor, "batch kv_head channel"], key: Float[Tensor, "batch kv_head token channel"]
) -> Float[Tensor, "batch token"]:
    """Products of a row's `summed_queries` with all keys, summed over heads, in float32 at least."""
    dtype = torch.promote_types(key.dtype, torch.float32)
    total = torch.zeros(key.shape[0], key.shape[2], dtype=dtype, device=key.device)
    for head in range(key.shape[1]):  # one head's keys at a time: a copy in float32 of all would double the peak
        total += (key[:, head].to(dtype) @ query[:, head, :, None].to(dtype))[..., 0]
    return total


def largest_row(
    queries: Float[Tensor, "batch kv_head row channel"],
    key: Float[Tensor, "batch kv_head token channel"],
    real: Bool[Tensor, "batch token"],
) -> Int[Tensor, " batch"]:
    """The row of the largest l2 norm of its scores over all real tokens (the ablation of Section 9.4.4).

    The norm of row q is sqrt(q' (Σ_i k_i k_i') q), with keys and queries of all heads side by side, so no square
    matrix of scores is formed.
    """
    rows = queries.transpose(1, 2).flatten(2).float()
    keys = key.transpose(1, 2).flatten(2).float() * real[..., None]
    norms = torch.einsum("brc,bcd,brd->br", rows, keys.mT @ keys, rows)
    return norms.masked_fill(~real, -torch.inf).argmax(-1)


def pooled(
    scores: Float[Tensor, "batch token"], real: Bool[Tensor, "batch token"], pool: Pool, kernel: int
) -> Float[Tensor, "batch token"]:
    """Scores pooled over neighbours; tokens that are not real count as lying outside the prompt.

    Average pooling divides by ``kernel`` at the edges too, with zeros outside: a constant score falls to 0.6 and 0.8
    of itself at the first and last two of 5. Max pooling is what Section G.4.2 calls it; its printed code averages.
    """
    if pool == "avg":
        inside = scores.masked_fill(~real, 0.0)[:, None]
        return avg_pool1d(inside, kernel, stride=1, padding=kernel // 2)[:, 0]
    if pool == "max":
        inside = scores.masked_fill(~real, -torch.inf)[:, None]
        return max_pool1d(inside, kernel, stride=1, padding=kernel // 2)[:, 0]
    return scores


def select(
    scores: Float[Tensor, "batch token"],
    real: Bool[Tensor, "batch token"],
    keep: int,
    pool: Pool = "avg",
    kernel: int = 5,
    force: Sequence[int] = (),
) -> Int[Tensor, "batch kept"]:
    """Indices of the ``keep`` real tokens with the largest pooled scores, ascending.

    Args:
        scores: of each token, see `scores`.
        real: which tokens are no padding.
        keep: k; in a shorter prompt all tokens are kept.
        pool: how scores of neighbours are pooled.
        kernel: of the pooling, odd.
        force: places that are kept in any case, counted from the first real token, or from the last if negative.

    Returns:
        as many columns as the row with the most kept tokens needs; -1 on the left of shorter ones.
    """
    ranked = pooled(scores, real, pool, kernel).masked_fill(~real, -torch.inf)
    lengths = real.sum(-1)
    first = real.shape[-1] - lengths
    for place in force:
        column = first + place if place >= 0 else torch.full_like(first, real.shape[-1] + place)
        inside = (column >= first) & (column < real.shape[-1])
        rows = torch.nonzero(inside)[:, 0]
        ranked[rows, column[rows]] = torch.inf
    count = min(keep, int(lengths.max()))
    top = ranked.topk(count).indices
    chosen = top.masked_fill(torch.arange(count, device=top.device) >= lengths[:, None], -1)
    return chosen.sort(-1).values
