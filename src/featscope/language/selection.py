"""The rule by which GemFilter chooses tokens (dissertation, Section 9.3.1 and Algorithm 2).

Scores are inner products of one query row with all keys, after rotary embedding and before any scaling or softmax,
summed over heads; they are averaged over neighbours, and the tokens with the largest ones are kept in their order.
"""

from collections.abc import Sequence
from operator import index
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import avg_pool1d, max_pool1d

from featscope.numbers import as_written
from featscope.options import ConfigError, require

Pool = Literal["avg", "max", "none"]
Row = Literal["last", "window", "middle", "largest"]


class Forcing:
    """Base of selectors with a window of last tokens and other places that are kept in any case."""

    window: int
    force_keep: Sequence[int]

    @property
    def always_kept(self) -> tuple[int, ...]:
        """Places kept in any case, from the prompt's first token, or its last if negative."""
        return (*range(-self.window, 0), *self.force_keep)

    @property
    def keeps_last(self) -> bool:
        """Whether the prompt's last token is kept in any case."""
        return -1 in self.always_kept

    def forced(self) -> int:
        """How many tokens it keeps in any case."""
        return len({*self.always_kept})


def require_window(options: Any) -> None:
    """Raise `ConfigError` unless ``options`` keep a window of last tokens, and more."""
    most = options.keep if isinstance(options.keep, int) else None
    allowed = ">= 0" if most is None else f"0 to {most - 1}, less than keep = {most}"
    cure = "Keep more, or a smaller window; 0 is the paper's rule."
    require(options, "window", options.window >= 0 and (most is None or options.window < most), allowed, cure)


def places_of(who: str, force: Any) -> tuple[int, ...]:
    """The places of ``force_keep``, however they are given.

    Raises:
        ConfigError: they are no places.
    """
    try:
        places = [*force]
        if any(isinstance(one, bool) or getattr(one, "dtype", None) == torch.bool for one in places):
            raise TypeError("a mask is no list of places")
        return tuple(map(index, places))
    except TypeError:
        raise ConfigError(
            f"{who}.force_keep = {force!r} is no list of whole numbers: allowed are places, such as range(-8, 0)"
        ) from None


def require_rule(who: str, keep: Any, pool: Pool, kernel: int, force: Sequence[int] = (), window: int = 0) -> None:
    """Raise `ConfigError` unless the options of ``who`` are such as `select` takes."""
    most = keep if isinstance(keep, int) else None
    wrong = [
        ("keep", keep, most is None or most >= 1, ">= 1"),
        ("pool", pool, pool in get_args(Pool), "avg, max or none"),
        ("kernel", kernel, kernel >= 1 and kernel % 2 == 1, "an odd number >= 1"),
        (
            "force_keep",
            force,
            most is None or len({*force, *range(-window, 0)}) <= most,
            f"at most keep = {keep} places, with the window. Keep more, or force fewer",
        ),
    ]
    for name, value, fine, allowed in wrong:
        if not fine:
            raise ConfigError(f"{who}.{name} = {value!r} is out of range: allowed is {allowed}.")


def summed_queries(
    query: Float[Tensor, "batch head row channel"], kv_heads: int
) -> Float[Tensor, "batch kv_head row channel"]:
    """Queries summed over the heads that share a key head.

    Scores are linear in queries, so that Σ_j q_j·k = Σ_g (Σ_{j in g} q_j)·k_g: no key has to be repeated.
    """
    dtype = torch.promote_types(query.dtype, torch.float32)
    return query.unflatten(1, (kv_heads, -1)).sum(2, dtype=dtype)


def scores(
    query: Float[Tensor, "batch kv_head channel"], key: Float[Tensor, "batch kv_head token channel"]
) -> Float[Tensor, "batch token"]:
    """Products of a row's `summed_queries` with all keys, summed over heads, in float32 at least."""
    dtype = torch.promote_types(key.dtype, torch.float32)
    total = torch.zeros(key.shape[0], key.shape[2], dtype=dtype, device=key.device)
    with as_written(key.device):
        for head in range(key.shape[1]):  # one head's keys at a time: a copy in float32 of all would double the peak
            total += (key[:, head].to(dtype) @ query[:, head, :, None].to(dtype))[..., 0]
    return total


def last_row_scores(
    query: Float[Tensor, "batch head row channel"], key: Float[Tensor, "batch kv_head token channel"]
) -> Float[Tensor, "batch token"]:
    """`scores` of the last query row: the rule of GemFilter."""
    return scores(summed_queries(query[:, :, -1:], key.shape[1])[:, :, 0], key)


def largest_row(
    queries: Float[Tensor, "batch kv_head row channel"],
    key: Float[Tensor, "batch kv_head token channel"],
    real: Bool[Tensor, "batch token"],
) -> Int[Tensor, " batch"]:
    """The row of the largest l2 norm of its scores over all real tokens (the ablation of Section 9.4.4).

    The norm of row q is sqrt(q' (Σ_i k_i k_i') q), with keys and queries of all heads side by side, so no square
    matrix of scores is formed.
    """
    rows = queries.transpose(1, 2).flatten(2)
    keys = key.transpose(1, 2).flatten(2).to(rows.dtype) * real[..., None]
    with as_written(key.device):
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


def ranks_of_blocks(
    scores: Float[Tensor, "batch token"], real: Bool[Tensor, "batch token"], block: int
) -> Float[Tensor, "batch token"]:
    """Larger for tokens of blocks with a larger mean, in a block for earlier ones; no two tokens have the same."""
    number = ((real.long().cumsum(-1) - 1).clamp(min=0)) // block
    sums = torch.zeros_like(scores).scatter_add(1, number, scores.masked_fill(~real, 0.0))
    sizes = torch.zeros_like(scores).scatter_add(1, number, real.to(scores.dtype))
    means = (sums / sizes).gather(1, number).masked_fill(~real, -torch.inf)
    order = means.argsort(dim=-1, descending=True, stable=True)
    return -order.argsort(-1).to(scores.dtype)


def select(
    scores: Float[Tensor, "batch token"],
    real: Bool[Tensor, "batch token"],
    keep: int,
    pool: Pool = "avg",
    kernel: int = 5,
    force: Sequence[int] = (),
    block: int = 1,
) -> Int[Tensor, "batch kept"]:
    """Indices of the ``keep`` real tokens with the largest pooled scores, ascending; of equal ones the earlier.

    Args:
        scores: of each token, see `scores`.
        real: which tokens are no padding.
        keep: k; in a shorter prompt all tokens are kept.
        pool: how scores of neighbours are pooled.
        kernel: of the pooling, odd.
        force: places that are kept in any case, counted from the first real token, or from the last if negative.
        block: neighbours that are ranked by their mean, together; the last block kept may be cut.

    Returns:
        as many columns as the row with the most kept tokens needs; -1 on the left of shorter ones.

    Raises:
        ConfigError: a row of more than ``keep`` tokens has no such place as one of ``force``.
    """
    cut = [length for length in real.sum(-1).tolist() if length > keep]
    if missing := [place for place in force if cut and not -min(cut) <= place < min(cut)]:
        raise ConfigError(
            f"force_keep has the place {missing[0]}, and a prompt has {min(cut)} tokens: allowed is {-min(cut)} to "
            f"{min(cut) - 1}. Ask prompts of other lengths apart"
        )
    smooth = pooled(scores, real, pool, kernel)
    ranked = (smooth if block == 1 else ranks_of_blocks(smooth, real, block)).masked_fill(~real, -torch.inf)
    lengths = real.sum(-1)
    first = real.shape[-1] - lengths
    for place in force:
        column = first + place if place >= 0 else torch.full_like(first, real.shape[-1] + place)
        inside = (column >= first) & (column < real.shape[-1])
        rows = torch.nonzero(inside)[:, 0]
        ranked[rows, column[rows]] = torch.inf
    count = min(keep, int(lengths.max()))
    top = best(ranked, count)
    chosen = top.masked_fill(torch.arange(count, device=top.device) >= lengths[:, None], -1)
    return chosen.sort(-1).values


def best(scores: Float[Tensor, "*batch place"], count: int) -> Int[Tensor, "*batch best"]:
    """Places of the ``count`` largest scores, the largest first; of equal ones the earlier place, on every device."""
    return scores.argsort(dim=-1, descending=True, stable=True)[..., :count]


def kept_share(kept: Tensor, length: int) -> Float[np.ndarray, " token"]:
    """Share of the sets in ``kept`` that hold each token of a single prompt: one set, or one a layer and key head.

    Sets of nothing but -1 do not count: a layer that keeps its window as it always does has one.
    """
    sets = kept.reshape(-1, kept.shape[-1])
    sets = sets[(sets >= 0).any(-1)]
    counts = torch.zeros(length + 1, device=kept.device)
    counts.index_add_(0, (sets.flatten() + 1), torch.ones(sets.numel(), device=kept.device))  # place -1 is padding
    return (counts[1:] / max(1, sets.shape[0])).cpu().numpy()
