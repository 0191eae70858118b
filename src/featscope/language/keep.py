"""How much of a prompt is kept: a number of tokens, a share of them, or what a cost allows."""

import math
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from numbers import Real
from operator import index
from typing import Any, TypeGuard

from torch import nn
from transformers import PreTrainedModel

from featscope.language.decoder import blocks, sight_of, text_config
from featscope.language.prompt import Prompt
from featscope.options import ConfigError, require

_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")  # what configs call their number
_USED = ("num_experts_per_tok", "top_k_experts", "moe_topk")  # and how many of them a token is sent to


@dataclass(frozen=True)
class Cost:
    """As many tokens as can be kept while the prompt costs no more than this.

    Attributes:
        share: of the operations of full attention's reading of the same prompt, choosing included.
    """

    share: float

    def __post_init__(self) -> None:
        require(self, "share", 0 < self.share <= 1, "(0, 1]")


Keep = int | float | Cost
"""A number of tokens; a share of the prompt's, (0, 1]; or a `Cost`."""


def kept_in_words(keep: Keep) -> str:
    """How many, before what is kept: "64", "10 % of the", "as many (at 0.5 of the cost)"."""
    if isinstance(keep, Cost):
        return f"as many (at {keep.share:g} of the cost)"
    return str(keep) if isinstance(keep, int) else f"{100 * keep:g} % of the"


def keep_of(number: float) -> int | float:
    """What commands mean by a number: tokens where it is whole, 1.0 too; else a share of the prompt."""
    return int(number) if number % 1 == 0 else number


def tokens_of(keep: int | float, length: int) -> int:
    """How many of a prompt's ``length`` tokens ``keep`` means, a number of them or a share."""
    return keep if isinstance(keep, int) else math.ceil(round(keep * length, 9))


AMOUNTS = ">= 1 (tokens), or a share in (0, 1]"
"""What `is_amount` allows, in words."""


def plain(keep: Any) -> Any:
    """A number of any kind, such as NumPy's, as an int or a float; all else, and True and False, as it is."""
    if not isinstance(keep, bool):
        with suppress(TypeError):
            return index(keep)
    return float(keep) if isinstance(keep, Real) and not isinstance(keep, bool) else keep


def is_amount(keep: Any) -> TypeGuard[int | float]:
    """Whether ``keep`` is a number of tokens, or a share."""
    if isinstance(keep, int):
        return not isinstance(keep, bool) and keep >= 1
    return isinstance(keep, float) and 0 < keep <= 1


def require_keep(options: Any, *, cost: bool) -> None:
    """Make ``options.keep`` `plain`, and raise `ConfigError` unless it says how much is kept.

    Args:
        options: a dataclass with ``keep``.
        cost: whether it may be a `Cost`.
    """
    object.__setattr__(options, "keep", plain(options.keep))
    fine = cost if isinstance(options.keep, Cost) else is_amount(options.keep)
    require(options, "keep", fine, f"{AMOUNTS}{', or a Cost' if cost else ''}")


def counted(options: Any, prompt: Prompt, least: int, allowed_by: Callable[[int, float], int] | None = None) -> int:
    """The number of tokens that ``options.keep`` means for ``prompt``.

    Args:
        options: with ``keep``.
        prompt: what is read.
        least: tokens that are kept in any case.
        allowed_by: how many tokens of so many a share of the cost allows.

    Raises:
        ConfigError: it depends on the length, and the batch has prompts of several lengths; or it is too little.
    """
    keep = options.keep
    if isinstance(keep, int):
        return keep
    named = f"cost = {keep.share:g}" if isinstance(keep, Cost) else f"keep = {keep}"
    lengths = sorted({int(length) for length in prompt.real.sum(-1)})
    if len(lengths) > 1:
        raise ConfigError(
            f"{named} depends on the prompt's length, and this batch has prompts of {lengths[0]} to "
            f"{lengths[-1]} tokens: allowed is a number of tokens there, or prompts of one length"
        )
    length = lengths[0]
    if isinstance(keep, Cost):
        count = allowed_by(length, keep.share) if allowed_by else length
    else:
        count = tokens_of(keep, length)
    if count <= least < length:
        raise ConfigError(
            f"{named} of {length} tokens is {count}: allowed is more than the {least} that are kept in any "
            "case. Keep more, or a smaller window."
        )
    return min(max(count, least), length)


def operations_of(model: PreTrainedModel, length: int, layers: range | None = None) -> float:
    """Operations of ``layers`` of ``model`` (None for all) on so many tokens, embedding and head left out.

    Two for each weight and token, and 4·h·d for each pair of tokens of which the later one sees the earlier, which in
    layers of windows is near; d is the mean of a query's channels and a value's. Of experts those count that a token is
    sent to.

    Raises:
        ConfigError: a layer has experts, and the configuration does not say how many, or how many a token is sent to.
    """
    numbers = range(len(blocks(model))) if layers is None else layers
    return sum(_of_layer(model, number, length) for number in numbers)


def affordable(model: PreTrainedModel, length: int, share: float, spent: float, layers: range) -> int:
    """The most tokens that ``layers`` can read so that all costs ``share`` of reading ``length`` in every layer.

    Args:
        model: what reads.
        length: n.
        share: of a full reading's operations.
        spent: operations before.
        layers: which read what is kept.

    Raises:
        ConfigError: nothing is left.
    """
    full = operations_of(model, length)
    left = share * full - spent
    if left <= 0:
        raise ConfigError(
            f"cost = {share:g} is spent before a token is kept: choosing alone costs {spent / full:.2f} of a "
            "full reading: allowed is more than that. Choose by an earlier layer or a smaller draft, or allow more"
        )
    within = left * (1 + 1e-9)
    return bisect_right(range(1, length + 1), within, key=lambda count: operations_of(model, count, layers))


def _of_layer(model: PreTrainedModel, number: int, length: int) -> float:
    config, block = text_config(model), blocks(model)[number]
    parameters = {f".{name}": parameter for name, parameter in block.named_parameters()}
    experts = {name for name, one in parameters.items() if ".experts." in name or _is_by_expert(one, config)}
    used = _used(model) if experts else 1.0
    weights = sum(one.numel() * (used if name in experts else 1.0) for name, one in parameters.items())
    seen = min(sight_of(model, number), length)  # at most, by each token
    pairs = seen * (2 * length - seen)
    return 2.0 * weights * length + 2.0 * config.num_attention_heads * _channels(block, config) * pairs


def _is_by_expert(parameter: Any, config: Any) -> bool:
    """Whether it has a matrix for each expert, as some layers have that call no part "experts"."""
    counts = [getattr(config, name, None) for name in _EXPERTS]
    return parameter.ndim == 3 and any(isinstance(n, int) and n > 1 and n == parameter.shape[0] for n in counts)


def _used(model: PreTrainedModel) -> float:
    """Share of a layer's experts that a token is sent to."""
    config = text_config(model)
    there, taken = (
        next((n for name in of if isinstance(n := getattr(config, name, None), int) and n), None)
        for of in (_EXPERTS, _USED)
    )
    if there is None or taken is None:
        raise ConfigError(
            f"what {type(model).__name__} costs cannot be counted: its configuration has none of "
            f"{', '.join(_USED if there else _EXPERTS)}: allowed is a number of tokens, or a share, in place of a cost"
        )
    return taken / there


def _channels(block: nn.Module, config: Any) -> float:
    """Of a query and of a value, on average; layers may have their own."""
    its = next((module for module in block.modules() if module is not block and hasattr(module, "layer_idx")), None)

    def of(name: str) -> Any:
        return getattr(its, name, None) or getattr(config, name, None)

    query = of("qk_head_dim") or of("head_dim") or config.hidden_size // config.num_attention_heads
    return (query + (of("v_head_dim") or query)) / 2
