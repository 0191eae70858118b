"""What all ways of generating have in common."""

from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import PreTrainedModel

from featscope.language.prompt import Prompt, read_prompt
from featscope.options import ConfigError

Output = TypeVar("Output")


@runtime_checkable
class Method(Protocol):
    """A way of generating: a model and what of the prompt it keeps."""

    model: Any

    def generate(self, input_ids: Tensor, attention_mask: Tensor | None = None, **options: Any) -> Any:
        """What ``model.generate`` returns, with the attribute ``kept``."""


def require_decoder(model: PreTrainedModel) -> None:
    """Raise `ConfigError` unless ``model`` is a decoder with rotary embedding."""
    config = model.config
    if config.is_encoder_decoder:
        raise ConfigError(f"model = {type(model).__name__} is an encoder-decoder: allowed is a decoder, such as Llama")
    if not getattr(config, "rope_parameters", None):
        raise ConfigError(
            f"model = {type(model).__name__} has no rotary position embedding: allowed is a rotary decoder, such as "
            "Llama, Mistral, Qwen, Phi-3 or Gemma. Other positions cannot be given anew to the kept tokens."
        )


def require_fitting(model: PreTrainedModel, prompt: Prompt, layers: range) -> None:
    """Raise `ConfigError` unless ``model`` can read ``prompt`` and ``layers`` see all of it."""
    config, length = model.config, prompt.ids.shape[-1]
    context = getattr(config, "max_position_embeddings", None)
    if context is not None and length > context:
        raise ConfigError(
            f"the prompt has {length} tokens: allowed is at most {context}, the context of the model. "
            "Shorten the prompt, or load a model of a longer context."
        )
    window = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None) or ["sliding_attention"] * config.num_hidden_layers
    sliding = [layer for layer in layers if kinds[layer] == "sliding_attention"]
    if window is not None and sliding and length > window:
        raise ConfigError(
            f"the prompt has {length} tokens, and layer {sliding[0]} sees the last {window} only: allowed is a prompt "
            f"of at most {window} tokens, as early ones are hidden from it. Shorten the prompt, or load a model "
            "without sliding windows."
        )


def require_no_lengths(options: dict[str, Any]) -> None:
    """Raise `ConfigError` for lengths that count a prompt which is not the one that the model reads."""
    for name in ("max_length", "min_length"):
        if options.get(name) is not None:
            raise ConfigError(
                f"{name} = {options[name]} counts the prompt, of which only a part is read: "
                f"use {name.replace('_length', '_new_tokens')}"
            )


def with_kept(output: Output, kept: Any) -> Output:
    """``output`` of a ``generate`` with the attribute ``kept``."""
    output.kept = kept  # type: ignore[attr-defined]
    return output


def with_prompt(output: Any, read: int, prompt: Int[Tensor, "batch token"]) -> Any:
    """``output`` with the whole ``prompt`` in place of the ``read`` tokens that the model read."""
    sequences = output if isinstance(output, Tensor) else output.sequences
    repeated = prompt.repeat_interleave(sequences.shape[0] // prompt.shape[0], 0)
    whole = torch.cat([repeated, sequences[:, read:]], -1)
    if isinstance(output, Tensor):
        return whole
    output.sequences = whole
    return output


class FullCache:
    """The model's own generation, with every key and value kept.

    Args:
        model: any causal language model.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self.model: Any = model

    def generate(self, input_ids: Tensor, attention_mask: Tensor | None = None, **options: Any) -> Any:
        """What ``model.generate`` returns; its ``kept`` are all places ``[batch, token]``, -1 at padding."""
        prompt = read_prompt(self.model, input_ids, attention_mask)
        output = self.model.generate(prompt.ids, attention_mask=prompt.mask, **options)
        places = torch.arange(prompt.ids.shape[-1], device=prompt.ids.device).expand_as(prompt.ids)
        return with_kept(output, places.masked_fill(~prompt.real, -1))
