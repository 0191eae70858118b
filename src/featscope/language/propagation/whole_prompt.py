"""Every layer reads all tokens."""

from dataclasses import dataclass
from typing import Any, cast

import torch
from transformers import PreTrainedModel

from featscope.language.caches.full import Full, Selected
from featscope.language.decoder import is_decoder, require_own_angles, require_room
from featscope.language.keep import Cost, counted, operations_of
from featscope.language.method import new_tokens
from featscope.language.output import with_kept
from featscope.language.parts import Cache, LayerSelector, Selector
from featscope.language.prompt import Prompt
from featscope.language.propagation.one_pass import generate_in_one_pass
from featscope.options import ConfigError


@dataclass(frozen=True)
class WholePrompt:
    """One pass in which every layer reads all tokens, as full attention does; the cache may drop some afterwards.

    It costs what full attention costs; the first new token comes from the untouched cache.
    """

    def require(self, model: PreTrainedModel, selector: Selector | None, cache: Cache) -> None:
        """Raise `ConfigError` if there is a selector and nobody asks for its choice, or the other way round."""
        if (selector is not None) != isinstance(cache, Selected):
            raise ConfigError(
                f"WholePrompt with selector = {type(selector).__name__} and cache = {type(cache).__name__} do not go "
                "together: allowed is a selector with Selected, or no selector with another cache"
            )
        keep = getattr(selector, "keep", None)
        if isinstance(keep, Cost):
            raise ConfigError(
                f"keep = {keep} cannot be met where every layer reads the whole prompt: allowed is a number "
                "of tokens, or a share of the prompt"
            )
        require_layer_selector(selector)

    def spent(self, model: PreTrainedModel, selector: Selector, length: int) -> tuple[float, range]:
        """All: every layer reads everything."""
        return operations_of(model, length), range(0)

    def generate(
        self,
        model: PreTrainedModel,
        prompt: Prompt,
        selector: Selector | None,
        keep: int,
        cache: Cache,
        options: dict[str, Any],
    ) -> Any:
        """What ``model.generate`` returns; without selector and with a full cache, ``kept`` are all places.

        Raises:
            ConfigError: the prompt is longer than a decoder's context, or rotary angles of a row would be another
                text's.
        """
        if type(cache) is not Full:
            entries = entries_of(cache, prompt)
            stages = [] if selector is None else [(cast(LayerSelector, selector), keep)]
            return generate_in_one_pass(model, prompt, stages, cache, entries, options, narrow=False)
        require_own_angles(model, prompt, new_tokens(model, options, prompt.ids.shape[-1]))
        if is_decoder(model):
            require_room(model, prompt)  # how many tokens will come is not known
        its: Any = model
        output = its.generate(prompt.ids, attention_mask=prompt.mask, **options)
        places = torch.arange(prompt.ids.shape[-1], device=prompt.ids.device).expand_as(prompt.ids)
        return with_kept(output, places.masked_fill(~prompt.real, -1))


def entries_of(cache: Cache, prompt: Prompt) -> int:
    """Entries of each key head, on average, that ``cache`` keeps of ``prompt``."""
    return prompt.ids.shape[-1] if cache.keep is None else counted(cache, prompt, cache.forced())


def require_layer_selector(selector: Selector | None) -> None:
    """Raise `ConfigError` if ``selector`` looks into no layer of the model that reads."""
    if selector is not None and not isinstance(selector, LayerSelector):
        raise ConfigError(
            f"selector = {type(selector).__name__} looks into no layer of the model that reads, and one pass chooses "
            "on its way: allowed is FilterLayer or AttentionWindow. Use ReadAgain"
        )
