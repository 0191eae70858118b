"""What all ways of generating have in common."""

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import PreTrainedModel

from featscope.language.prompt import read_prompt
from featscope.options import ConfigError

Output = TypeVar("Output")


@runtime_checkable
class Method(Protocol):
    """A way of generating: a model and what of the prompt it keeps."""

    model: Any

    def generate(self, input_ids: Tensor, attention_mask: Tensor | None = None, **options: Any) -> Any:
        """What ``model.generate`` returns, with the attribute ``kept``."""


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
    """Raise `ConfigError` for options of ``generate`` that take the place of the prompt, or add images to it."""
    for name in ("pixel_values", "pixel_values_videos", "input_features", "image_sizes", "image_grid_thw"):
        if options.get(name) is not None:
            raise ConfigError(
                f"{name} cannot be given: the method reads text alone, by the text half of a model of text and images. "
                "Ask the model itself about images."
            )
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
