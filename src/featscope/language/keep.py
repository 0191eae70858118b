"""How much of a prompt is kept: a number of tokens, a share of them, or what a cost allows."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedModel

from featscope.language.decoder import blocks, text_config
from featscope.language.prompt import Prompt
from featscope.options import ConfigError, require


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


def require_keep(options: Any, *, cost: bool) -> None:
    """Raise `ConfigError` unless ``options.keep`` says how much is kept; a `Cost` where ``cost`` depends on it."""
    keep = options.keep
    if isinstance(keep, Cost):
        fine = cost
    else:
        fine = keep >= 1 if isinstance(keep, int) else isinstance(keep, float) and 0 < keep <= 1
    require(options, "keep", fine, f">= 1 (tokens), or a share in (0, 1]{', or a Cost' if cost else ''}")


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
    keep, who = options.keep, type(options).__name__
    if isinstance(keep, int):
        return keep
    lengths = sorted({int(length) for length in prompt.real.sum(-1)})
    if len(lengths) > 1:
        raise ConfigError(
            f"{who}.keep = {keep} depends on the prompt's length, and this batch has prompts of {lengths[0]} to "
            f"{lengths[-1]} tokens: allowed is a number of tokens there, or prompts of one length"
        )
    length = lengths[0]
    if isinstance(keep, Cost):
        count = allowed_by(length, keep.share) if allowed_by else length
    else:
        count = math.ceil(keep * length)
    if count <= least < length:
        raise ConfigError(
            f"{who}.keep = {keep} of {length} tokens is {count}: allowed is more than the {least} that are kept in any "
            "case. Keep more, or a smaller window."
        )
    return min(max(count, least), length)


def operations_of(model: PreTrainedModel, length: float, layers: int | None = None) -> float:
    """Operations of ``layers`` of ``model`` (None for all) on so many tokens, embedding and head left out.

    Two for each weight and token, and 2·h·d for each pair of tokens of which the later one sees the earlier.
    """
    linear, square = _rates(model)
    return (len(blocks(model)) if layers is None else layers) * (linear * length + square * length**2)


def affordable(model: PreTrainedModel, length: int, share: float, spent: float, layers: int) -> int:
    """The most tokens k that ``layers`` can read so that all costs ``share`` of reading ``length`` in every layer.

    With a and b the operations of a layer for each token and for each squared token, k is the root of
    layers·(a k + b k²) = share·m (a n + b n²) - spent.

    Args:
        model: what reads.
        length: n.
        share: of a full reading's operations.
        spent: operations before.
        layers: how many layers read k tokens.

    Raises:
        ConfigError: nothing is left.
    """
    linear, square = _rates(model)
    full = operations_of(model, length)
    left = share * full - spent
    if left <= 0:
        raise ConfigError(
            f"keep = Cost({share:g}) is spent before a token is kept: choosing alone costs {spent / full:.2f} of a "
            "full reading: allowed is more than that. Choose an earlier layer, or allow more"
        )
    count = (math.sqrt(linear**2 + 4 * square * left / layers) - linear) / (2 * square) if layers else float(length)
    return min(math.floor(count + 1e-9), length)


def _rates(model: PreTrainedModel) -> tuple[float, float]:
    config: Any = text_config(model)
    weights = sum(parameter.numel() for parameter in blocks(model).parameters()) / len(blocks(model))
    channels = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 2.0 * weights, 2.0 * config.num_attention_heads * channels
