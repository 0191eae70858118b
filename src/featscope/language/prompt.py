"""A batch of prompts, and what can be wrong with it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from transformers import PreTrainedModel

from featscope.language.method import setting
from featscope.options import ConfigError


class Prompt(NamedTuple):
    """Prompts of one batch, padded on the left.

    Attributes:
        ids: tokens.
        real: which of them are no padding.
    """

    ids: Int[Tensor, "batch token"]
    real: Bool[Tensor, "batch token"]

    @property
    def positions(self) -> Int[Tensor, "batch token"]:
        """Of each token in its own prompt; 0 at padding."""
        return (self.real.long().cumsum(-1) - 1).clamp(min=0)

    @property
    def mask(self) -> Int[Tensor, "batch token"]:
        """What models call the attention mask."""
        return self.real.long()

    @property
    def longest(self) -> int:
        """Tokens of the longest, without padding."""
        return int(self.real.sum(-1).max())

    def at(self, model: PreTrainedModel) -> "Prompt":
        """The same where ``model`` is; as it is where that is nowhere ("meta"), as weights are brought when it runs."""
        return self if model.device.type == "meta" else Prompt(*(part.to(model.device) for part in self))

    def take(self, kept: Int[Tensor, "batch kept"], padding: int) -> "Prompt":
        """The tokens at ``kept``; ``padding`` where it is -1."""
        ids = self.ids.gather(1, kept.clamp(min=0)).masked_fill(kept < 0, padding)
        return Prompt(ids, kept >= 0)


def asked_prompt(
    model: PreTrainedModel, input_ids: Any, attention_mask: Any, options: Mapping[str, Any]
) -> tuple[Prompt, dict[str, Any]]:
    """The prompt that a ``generate`` is given, as ``input_ids`` or as ``inputs``, and its other options.

    Raises:
        ConfigError: there is none, or two, or it cannot be read.
    """
    rest = dict(options)
    inputs = rest.pop("inputs", None)
    if (input_ids is None) == (inputs is None):
        given = "none" if inputs is None else "both"
        raise ConfigError(f"of input_ids and inputs {given} is given: allowed is one, a batch of token numbers")
    return read_prompt(model, inputs if input_ids is None else input_ids, attention_mask, rest), rest


def read_prompt(
    model: PreTrainedModel, input_ids: Any, attention_mask: Any, options: Mapping[str, Any] = MappingProxyType({})
) -> Prompt:
    """Check a batch of prompts, and bring it to where the model is.

    Where no mask is given, tokens that equal the padding token (of ``options``, or the model's own) are padding, as in
    the model's ``generate``; none are where it ends texts, too, or where there is no such token.

    Raises:
        ConfigError: the batch is not made of prompts that the model can read.
    """
    for name, value in (("input_ids", input_ids), ("attention_mask", attention_mask)):
        if not isinstance(value, Tensor) and not (value is None and name == "attention_mask"):
            raise ConfigError(
                f"{name} is a {type(value).__name__}: allowed is a tensor [batch, token]. A tokenizer makes it with "
                "return_tensors='pt', and what it returns is handed over as **inputs"
            )
    if input_ids.ndim != 2 or input_ids.is_floating_point() or input_ids.numel() == 0:
        raise ConfigError(
            f"input_ids has shape {tuple(input_ids.shape)} and type {input_ids.dtype}: allowed is a batch of token "
            "numbers [batch, token] with at least one token"
        )
    guessed = attention_mask is None
    if guessed:
        attention_mask = _guessed_mask(model, input_ids, options)
    if attention_mask.shape != input_ids.shape:
        raise ConfigError(
            f"attention_mask has shape {tuple(attention_mask.shape)}: allowed is that of input_ids, "
            f"{tuple(input_ids.shape)}"
        )
    real = attention_mask.to(input_ids.device, torch.bool)
    if not bool(real[:, -1].all()) or bool((real[:, :-1] & ~real[:, 1:]).any()):
        if guessed:
            raise ConfigError(
                f"attention_mask = None, and the padding token {padding_token(model, options)} stands behind or "
                "between others: allowed is padding on the left. Hand over what the tokenizer returns as **inputs, its "
                "padding_side set to 'left'; or, where that token belongs to the text, a mask of ones"
            )
        raise ConfigError(
            "attention_mask hides tokens behind or between others: allowed is padding on the left. "
            "Set tokenizer.padding_side = 'left'."
        )
    _require_text(model, input_ids)
    _require_known(model, input_ids)
    return Prompt(input_ids, real).at(model)


def _require_text(model: PreTrainedModel, input_ids: Tensor) -> None:
    """Raise `ConfigError` where a prompt has a place for an image, which only the model as a whole can read."""
    for name in ("image_token_id", "video_token_id", "audio_token_id"):
        token = getattr(model.config, name, None)
        if token is not None and bool((input_ids == token).any()):
            raise ConfigError(
                f"input_ids hold {name} = {token}, the place of an image, a video or a sound: allowed is text. "
                "Ask the model itself about images."
            )


def _require_known(model: PreTrainedModel, input_ids: Tensor) -> None:
    """Raise `ConfigError` where a token has no row in the embedding of ``model``, such as one added to a tokenizer."""
    its: Any = model.get_input_embeddings()
    rows = its.weight.shape[0]
    unknown = input_ids[(input_ids < 0) | (input_ids >= rows)]
    if unknown.numel():
        raise ConfigError(
            f"input_ids hold the token {int(unknown[0])}: allowed is 0 to {rows - 1}, the tokens that "
            f"{type(model).__name__} knows. Take the tokenizer that it was trained with, without tokens added to it."
        )


def _guessed_mask(model: PreTrainedModel, input_ids: Tensor, options: Mapping[str, Any]) -> Tensor:
    """What is no padding, where the padding token stands for nothing else; else everything.

    Raises:
        ConfigError: it stands for the end of a text, too, and rows begin with different numbers of such tokens.
    """
    padding, ends = padding_token(model, options), end_tokens(model, options)
    if padding is not None and padding not in ends:
        return (input_ids != padding).long()
    at_start = torch.isin(input_ids, input_ids.new_tensor(ends)).long().cumprod(-1).sum(-1)
    if len(at_start.unique()) > 1:
        raise ConfigError(
            "attention_mask = None, and some prompts of the batch begin with more tokens that end texts than others, "
            "which may be padding: allowed is the mask that the tokenizer makes. Hand over what it returns as **inputs"
        )
    return torch.ones_like(input_ids)


def padding_token(model: PreTrainedModel, options: Mapping[str, Any] = MappingProxyType({})) -> int | None:
    """The token that is padding by ``options`` of ``generate``, or by the model; None where its embedding has none."""
    own = setting(model, options, "pad_token_id")
    config = model.config.get_text_config(decoder=True)
    token = getattr(config, "pad_token_id", None) if own is None else own
    its: Any = model.get_input_embeddings()
    return token if token is not None and 0 <= token < its.weight.shape[0] else None


def end_tokens(model: PreTrainedModel, options: Mapping[str, Any] = MappingProxyType({})) -> list[int]:
    """The tokens that end a text by ``options`` of ``generate``, or by the model."""
    ends = setting(model, options, "eos_token_id")
    return [] if ends is None else torch.as_tensor(ends).flatten().tolist()
