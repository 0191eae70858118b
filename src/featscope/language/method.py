"""What all ways of generating have in common."""

from collections.abc import Mapping
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


def require_decoder(model: Any) -> None:
    """Raise `ConfigError` unless ``model`` is a transformers model, a decoder, with rotary embedding."""
    name = type(model).__name__
    if isinstance(model, PreTrainedModel) and not model.can_generate():
        raise ConfigError(
            f"model = {name} cannot generate: allowed is a model with a language head, such as {name}ForCausalLM"
        )
    if not isinstance(model, PreTrainedModel):
        raise ConfigError(
            f"model = {name} is no transformers model: allowed is a PreTrainedModel. Unwrap it first "
            "(model._orig_mod of a compiled one, model.get_base_model() of an adapter)"
        )
    config = model.config
    if config.is_encoder_decoder:
        raise ConfigError(f"model = {name} is an encoder-decoder: allowed is a decoder, such as Llama")
    if config.get_text_config() is not config:
        raise ConfigError(
            f"model = {name} reads more than text: allowed is a text model. Load its language model alone."
        )
    if not getattr(config, "rope_parameters", None):
        raise ConfigError(
            f"model = {name} declares no rotary position embedding (config.rope_parameters): allowed is a rotary "
            "decoder, such as Llama, Mistral, Qwen, Phi-3 or Gemma. Other positions cannot be given anew."
        )


def require_fitting(model: PreTrainedModel, prompt: Prompt, layers: range, new: int = 0) -> None:
    """Raise `ConfigError` unless ``model`` can read ``prompt`` and ``new`` tokens, and ``layers`` see all of it."""
    config, length = model.config, int(prompt.real.sum(-1).max()) + new
    context = context_of(model)
    if context is not None and length > context:
        raise ConfigError(
            f"the prompt has {length - new} tokens{f' and {new} are to come' if new else ''}: allowed is at most "
            f"{context}, the context of the model. Shorten the prompt, or load a model of a longer context."
        )
    windows = {"sliding_attention": "sliding_window", "chunked_attention": "attention_chunk_size"}
    kinds = getattr(config, "layer_types", None) or ["sliding_attention"] * config.num_hidden_layers
    for layer in layers:
        window = getattr(config, windows.get(kinds[layer], ""), None)
        if window is not None and length > window:
            raise ConfigError(
                f"the prompt has {length} tokens, and layer {layer} sees the last {window} only: allowed is at most "
                f"{window} tokens, as early ones are hidden from it. Shorten the prompt, or load another model."
            )


def context_of(model: PreTrainedModel) -> int | None:
    """The longest text that the model declares to read; scaling of its rotary angles by a factor included."""
    config = model.config
    declared = getattr(config, "max_position_embeddings", None)
    rope = config.rope_parameters
    if declared is None or rope.get("rope_type") not in ("yarn", "dynamic", "linear"):
        return declared
    original = rope.get("original_max_position_embeddings") or declared
    return max(declared, int(original * rope.get("factor", 1.0)))


def require_own_prompt(options: Mapping[str, Any]) -> None:
    """Raise `ConfigError` for options of ``generate`` that speak of a prompt which is not the one that is read."""
    config = options.get("generation_config")
    for name in ("max_length", "min_length"):
        value = options.get(name) or (getattr(config, name, None) if config is not None else None)
        if value:
            raise ConfigError(
                f"{name} = {value} counts the prompt, of which only a part is read: use "
                f"{name.replace('_length', '_new_tokens')}"
            )
    require_own_input(options)


def require_own_input(options: Mapping[str, Any]) -> None:
    """Raise `ConfigError` for options of ``generate`` that take the place of the prompt."""
    for name in ("past_key_values", "inputs_embeds", "position_ids"):
        if options.get(name) is not None:
            raise ConfigError(f"{name} cannot be given: the method reads the prompt itself. Give input_ids alone.")


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
