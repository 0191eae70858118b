"""Hidden states of the chosen tokens go on."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

from transformers import PreTrainedModel

from featscope.language.decoder import require_gaps, seeing_from, text_config
from featscope.language.keep import Cost, counted, operations_of
from featscope.language.method import new_tokens
from featscope.language.parts import Cache, LayerSelector, Selector
from featscope.language.prompt import Prompt
from featscope.language.propagation.one_pass import generate_in_one_pass
from featscope.language.propagation.whole_prompt import entries_of, require_layer_selector
from featscope.options import ConfigError


@dataclass(frozen=True)
class KeepHidden:
    """One pass: layers up to the selector's read all tokens, the others the chosen ones' hidden states.

    This is FastKV's token-selective propagation (Jo et al. 2025, arXiv 2502.01068) and PromptDistill's selective
    retention (Jin et al. 2025, arXiv 2503.23274), with one selection: H_{r+1} = H_r[J], at the tokens' own positions.
    Nothing is read twice; what the layers below made of other tokens stays in the hidden states that are kept.

    Attributes:
        later: selectors of layers above, from below, each of which chooses again among the tokens that still go on, as
            in PromptDistill's several stages, or, by blocks, in SlimInfer (Long et al. 2025, arXiv 2508.06447). With
            the cache `Selected` a layer holds what its own selector chose, or the next one above it. Windows and blocks
            are counted among the tokens that still go on; first and last tokens of the prompt that one of them forces
            are to be forced by those below, too.
    """

    later: Sequence[LayerSelector] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "later", (*self.later,))  # what is given may be read once

    def require(self, model: PreTrainedModel, selector: Selector | None, cache: Cache) -> None:
        """Raise `ConfigError` unless layers choose, from below, and keep the last token, from which the next comes."""
        if selector is None:
            raise ConfigError("selector = None chooses nothing to go on: allowed is FilterLayer or AttentionWindow")
        below = -1
        for one in (selector, *self.later):
            require_layer_selector(one)
            its = cast(LayerSelector, one)
            if not its.keeps_last:
                raise ConfigError(
                    "window = 0 may drop the prompt's last token, from whose hidden state the next one comes: allowed "
                    "with KeepHidden is a window >= 1"
                )
            if its.chunk is not None:
                raise ConfigError(f"chunk = {its.chunk} cannot be used where a prompt is read once: allowed is None")
            if self.later and isinstance(its.keep, Cost):
                raise ConfigError(
                    f"keep = {its.keep} cannot be met where several layers choose: allowed is a number of tokens, or a "
                    "share of the prompt"
                )
            if its.layer <= below:
                raise ConfigError(
                    f"layer = {its.layer} of later chooses among what layer {below} chose: allowed is > {below}"
                )
            below = its.layer
        for before, one in pairwise((cast(LayerSelector, selector), *self.later)):
            _require_places(before, one)
            one.require(model)

    def spent(self, model: PreTrainedModel, selector: Selector, length: int) -> tuple[float, range]:
        """Operations of the layers up to the selector's; those above."""
        below = cast(LayerSelector, selector).layer + 1
        above = range(below, text_config(model).num_hidden_layers)
        return operations_of(model, length, range(below)), above

    def generate(
        self,
        model: PreTrainedModel,
        prompt: Prompt,
        selector: Selector | None,
        keep: int,
        cache: Cache,
        options: dict[str, Any],
    ) -> Any:
        """What ``model.generate`` returns.

        Raises:
            ConfigError: a layer from the selector's on does not see the whole prompt and the tokens to come.
        """
        require_gaps(model, prompt, keep)
        its = cast(LayerSelector, selector)
        length, new = prompt.longest, new_tokens(model, options, prompt.ids.shape[-1])
        able = seeing_from(model, length + new)
        if its.layer not in able:
            others = f"a layer from which on all do ({', '.join(map(str, able))})" if able else "fewer tokens"
            raise ConfigError(
                f"layer = {its.layer}, or one above it, sees a part of {length + new} tokens alone ({new} of them to "
                f"come), and hidden states go on to all layers above: allowed is {others}. Or use ReadAgain, as "
                "GemFilter does, which asks that of the choosing layer only"
            )
        stages = [(its, keep), *((one, counted(one, prompt, one.forced())) for one in self.later)]
        return generate_in_one_pass(model, prompt, stages, cache, entries_of(cache, prompt), options, narrow=True)


def _require_places(before: LayerSelector, its: LayerSelector) -> None:
    """Raise `ConfigError` where a place that ``its`` forces may be another token's among those ``before`` chooses."""
    forced = {*getattr(before, "force_keep", ()), *range(-getattr(before, "window", 0), 0)}
    for place in getattr(its, "force_keep", ()):
        which = range(place + 1) if place >= 0 else range(place, 0)
        if not forced.issuperset(which):
            raise ConfigError(
                f"force_keep of layer {its.layer} has the place {place}, where another token may stand among those "
                f"that layer {before.layer} chooses: allowed are places up to which that one forces all, too. Let "
                f"layer {before.layer} have force_keep = {which}"
            )
