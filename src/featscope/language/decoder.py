"""The text model inside a model, and which of its layers see a whole prompt."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from torch import nn
from transformers import PreTrainedModel
from transformers import __version__ as _VERSION  # noqa: N812

from featscope.language.prompt import Prompt
from featscope.options import ConfigError

_WINDOWS = {"full_attention": None, "sliding_attention": "sliding_window", "chunked_attention": "attention_chunk_size"}
ANGLES_BY_LENGTH = ("longrope", "dynamic")
"""Kinds of rotary angles that differ with the length of the text."""
_WINDOWED_THROUGHOUT = ("minimax",)  # types of models whose layers of full attention have the window, too
_UNMASKED = ("deepseek_v4", "recurrent_gemma")  # types of models in whose state padding enters
_NO_ATTENTION = ("linear_attention", "conv", "mamba", "moe", "mlp")


def text_config(model: PreTrainedModel) -> Any:
    """What describes the layers that read text; of a model of text and images, the text's own."""
    return model.config.get_text_config(decoder=True)


def text_model(model: PreTrainedModel) -> Any:
    """The decoder that reads text, without its head and without what reads images."""
    return _with_blocks(model)[0]


def blocks(model: PreTrainedModel) -> nn.ModuleList:
    """Its layers."""
    return _with_blocks(model)[1]


def _with_blocks(model: PreTrainedModel) -> tuple[Any, nn.ModuleList]:
    """The first module within the model's decoder that holds a list with as many modules as there are layers."""
    count = text_config(model).num_hidden_layers
    for module in model.get_decoder().modules():
        for child in module.children():
            if isinstance(module, PreTrainedModel) and isinstance(child, nn.ModuleList) and len(child) == count:
                return module, child
    raise ConfigError(
        f"model = {type(model).__name__} has no list of {count} layers in its decoder: allowed is a decoder that "
        "transformers ships, such as Llama"
    )


def cache_argument(function: Callable[..., Any]) -> str:
    """What a ``function`` of transformers calls the cache that it is given: "cache" since 5.24."""
    return "cache" if "cache" in inspect.signature(function).parameters else "past_key_values"


def cache_of(output: Any) -> Any:
    """The cache of what a model or its ``generate`` gave, under either name; None if there is none."""
    return output.cache if hasattr(output, "cache") else getattr(output, "past_key_values", None)


def kinds_of(model: PreTrainedModel) -> list[str]:
    """What kind of attention each layer has, by transformers' names."""
    config = text_config(model)
    windowed = getattr(config, "sliding_window", None) is not None
    kinds = getattr(config, "layer_types", None)
    return list(kinds or ["sliding_attention" if windowed else "full_attention"] * config.num_hidden_layers)


def sight_of(model: PreTrainedModel, layer: int) -> float:
    """How many tokens ``layer`` sees: no end, those of its window, or none where it has no attention to tokens.

    Raises:
        ConfigError: what layers of its kind see is not known.
    """
    kind = kinds_of(model)[layer]
    if kind in _NO_ATTENTION:
        return 0
    if kind not in _WINDOWS:
        raise ConfigError(
            f"layer {layer} of {type(model).__name__} is of kind {kind}, and what it sees is not known: allowed are "
            f"{', '.join((*_WINDOWS, *_NO_ATTENTION))}. Use full attention (FullCache), which takes all"
        )
    config = text_config(model)
    named = "sliding_window" if config.model_type in _WINDOWED_THROUGHOUT else _WINDOWS[kind]
    window = getattr(config, named or "", None)
    return float("inf") if window is None else window


def seeing(model: PreTrainedModel, length: float) -> list[int]:
    """The layers that see all of so many tokens."""
    return [layer for layer in range(len(kinds_of(model))) if sight_of(model, layer) >= length]


def seeing_always(model: PreTrainedModel, length: int) -> list[int]:
    """The layers that see all of a text however long it is; where a model has none, those that see so many tokens.

    What is done in them alone does not depend on what else stands in a batch.
    """
    return seeing(model, float("inf")) or seeing(model, length)


def seeing_from(model: PreTrainedModel, length: int) -> list[int]:
    """The layers from which on all see all of so many tokens."""
    able = {*seeing(model, length)}
    count = len(kinds_of(model))
    return [layer for layer in sorted(able) if able.issuperset(range(layer, count))]


def require_decoder(model: Any) -> None:
    """Raise `ConfigError` unless ``model`` is a transformers model whose text a decoder with rotary angles reads."""
    name = type(model).__name__
    if isinstance(model, PreTrainedModel) and not model.can_generate():
        raise ConfigError(
            f"model = {name} cannot generate: allowed is a model with a language head, such as {name}ForCausalLM"
        )
    if not isinstance(model, PreTrainedModel):
        raise ConfigError(
            f"model = {name} is no transformers model: allowed is a PreTrainedModel. Unwrap it first "
            "(model._orig_mod of a compiled one, model.get_base_model() of one with LoRA; prompts and prefixes that "
            "were learned would be lost, and cannot be read in part)"
        )
    if model.config.is_encoder_decoder:
        raise ConfigError(f"model = {name} is an encoder-decoder: allowed is a decoder, such as Llama")
    if not getattr(text_config(model), "rope_parameters", None):
        raise ConfigError(
            f"model = {name} declares no rotary position embedding (config.rope_parameters): allowed is a rotary "
            "decoder, such as Llama, Mistral, Qwen, Phi-3 or Gemma. Other positions cannot be given anew."
        )
    blocks(model)


def require_one_device(model: PreTrainedModel) -> None:
    """Raise `ConfigError` where ``model`` is spread over GPUs: what one chooses by, another could not read."""
    places = {str(place).removeprefix("cuda:") for place in (getattr(model, "hf_device_map", None) or {}).values()}
    places -= {"cpu", "disk"}  # from where layers are brought to the others when they are run
    if len(places) > 1:
        raise ConfigError(
            f"model = {type(model).__name__} is spread over {len(places)} devices: allowed is a model on one. Load it "
            "without device_map, or with device_map={'': 0}; full attention (FullCache) takes it as it is"
        )
    if (parts := getattr(model, "tp_size", None) or 1) > 1:
        raise ConfigError(
            f"model = {type(model).__name__} is split over {parts} devices by tensor parallelism, each of which would "
            "choose other tokens by its own heads: allowed is a model on one. Load it without tp_plan; full attention "
            "(FullCache) takes it as it is"
        )


def is_decoder(model: Any) -> bool:
    """Whether `require_decoder` has nothing against ``model``."""
    try:
        require_decoder(model)
    except ConfigError:
        return False
    return True


def require_attention(model: PreTrainedModel, layer: int) -> None:
    """Raise `ConfigError` unless ``layer`` has attention, by which it could choose."""
    kinds = kinds_of(model)
    if sight_of(model, layer) == 0:
        fine = ", ".join(str(other) for other, kind in enumerate(kinds) if kind in _WINDOWS)
        raise ConfigError(
            f"layer = {layer} of {type(model).__name__} is of kind {kinds[layer]}, which attends to no single token: "
            f"allowed is a layer of attention ({fine})"
        )


def require_context(model: PreTrainedModel, prompt: Prompt, new: int = 0) -> None:
    """Raise `ConfigError` unless ``model`` can read ``prompt`` and ``new`` tokens more, as if each row were alone and
    the first that is read."""
    require_room(model, prompt, new)
    _require_angles_of_now(model, prompt)


def require_room(model: PreTrainedModel, prompt: Prompt, new: int = 0) -> None:
    """Raise `ConfigError` unless ``model`` can read ``prompt`` and ``new`` tokens more, as if each row were alone."""
    require_own_angles(model, prompt, new)
    if text_config(model).model_type in _UNMASKED and not bool(prompt.real.all()):
        raise ConfigError(
            f"the prompt has padding, and the state of {type(model).__name__} takes it in: allowed are prompts of one "
            "length in a batch, without any. Ask others one by one"
        )
    length, context = prompt.longest + new, context_of(model)
    if context is not None and length > context:
        raise ConfigError(
            f"the prompt has {length - new} tokens{f' and {new} are to come' if new else ''}: allowed is at most "
            f"{context}, the context of the model. Shorten the prompt, or load a model of a longer context."
        )


def require_own_angles(model: PreTrainedModel, prompt: Prompt, new: int = 0) -> None:
    """Raise `ConfigError` where rotary angles of a row would be a longer one's, ``new`` tokens to come.

    transformers takes those of kinds "longrope" and "dynamic" by the longest row of a batch.
    """
    rope = rope_of(model)
    if (kind := rope.get("rope_type")) not in ANGLES_BY_LENGTH:
        return
    declared = text_config(model).max_position_embeddings
    original = declared if kind == "dynamic" else rope.get("original_max_position_embeddings") or declared
    lengths = prompt.real.sum(-1)
    shortest, longest = int(lengths.min()), int(lengths.max())
    about = f"{type(model).__name__} has rotary angles of kind {kind!r}"
    if shortest < longest and shortest <= original < longest + new:
        raise ConfigError(
            f"prompts of {shortest} to {longest} tokens{f', and {new} to come,' if new else ''} stand in one batch, "
            f"and {about}, which transformers takes by the longest: allowed are batches of one length, or all on one "
            f"side of {original} tokens. Ask them one by one"
        )


def _require_angles_of_now(model: PreTrainedModel, prompt: Prompt) -> None:
    """Raise `ConfigError` where rotary angles would be those of another text that was read before.

    transformers takes those of kind "dynamic" by the longest text since the last one within the original context; what
    reads a prompt twice, or a part of it, reads texts of several lengths.
    """
    if rope_of(model).get("rope_type") != "dynamic":
        return
    longest, original = prompt.longest, text_config(model).max_position_embeddings
    if longest >= original:
        raise ConfigError(
            f"the prompt has {longest} tokens, and {type(model).__name__} has rotary angles of kind 'dynamic', which "
            f"transformers takes by the longest text that was read before: allowed are fewer than {original} tokens. "
            "Use full attention, or load the model with rope_type 'yarn' or 'linear'"
        )


def require_gaps(model: PreTrainedModel, prompt: Prompt, read: int) -> None:
    """Raise `ConfigError` where ``read`` tokens of ``prompt``, at positions with gaps, cannot be read."""
    if len(prompt.ids) > 1 or read >= prompt.ids.shape[-1]:
        return
    name = str(model.config._attn_implementation)
    if "flash" in name and tuple(map(int, _VERSION.split(".")[:2])) < (5, 15):
        raise ConfigError(
            f"attn_implementation = {name!r} ends in an error at positions with gaps between them under transformers "
            f"{_VERSION}, which takes these for several texts: allowed is transformers 5.15 or newer, or another "
            "implementation, such as 'sdpa'"
        )


def require_seeing(model: PreTrainedModel, prompt: Prompt, layers: Iterable[int]) -> None:
    """Raise `ConfigError` unless each of ``layers`` sees all of ``prompt``."""
    length = prompt.longest
    for layer in layers:
        window = sight_of(model, layer)
        if window < length:
            others = ", ".join(map(str, seeing(model, length)))
            cure = f"a layer that sees all of it ({others})" if others else "no layer sees more; shorten the prompt"
            raise ConfigError(
                f"the prompt has {length} tokens, and layer {layer} of {type(model).__name__} sees the last "
                f"{window:g} only: allowed is "
                + (cure if others else f"at most {window:g} tokens, as {cure}, or load another model")
            )


def context_of(model: PreTrainedModel) -> int | None:
    """The longest text that the model declares to read; scaling of its rotary angles by a factor included.

    Where layers of windows have angles of their own, as in Gemma 3, what is declared has the others' scaling in it.
    None where nothing is declared, or nothing is limited, as with distances in place of positions (alibi).
    """
    config = text_config(model)
    if getattr(config, "alibi", False):
        return None
    declared = getattr(config, "max_position_embeddings", None)
    rope = rope_of(model)
    factors = ("yarn", "dynamic", "linear") if rope is getattr(config, "rope_parameters", None) else ("yarn", "dynamic")
    if declared is None or rope.get("rope_type") not in factors:
        return declared
    original = rope.get("original_max_position_embeddings") or declared
    return max(declared, int(original * rope.get("factor", 1.0)))


def rope_of(model: PreTrainedModel) -> dict[str, Any]:
    """How rotary angles are made; where layers of windows have their own, in the others. Empty where there are none."""
    rope = getattr(text_config(model), "rope_parameters", None) or {}
    own: Any = rope.get("full_attention")
    return own if isinstance(own, dict) else rope
