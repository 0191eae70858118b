"""The whole model reads the chosen tokens."""

from dataclasses import dataclass
from time import monotonic
from typing import Any, Literal, cast, get_args

from jaxtyping import Int
from torch import Tensor
from transformers import PreTrainedModel

from featscope.language.caches.full import Selected
from featscope.language.decoder import cache_of, require_context, require_gaps, rope_of, sight_of, text_config
from featscope.language.method import counted_from, new_tokens, require_own_input, setting, timed_from
from featscope.language.output import with_kept, with_prompt
from featscope.language.parts import Cache, Selector
from featscope.language.prompt import Prompt, padding_token
from featscope.language.propagation.whole_prompt import WholePrompt
from featscope.language.propagation.whole_text import with_whole_text
from featscope.options import ConfigError, require

Positions = Literal["new", "original"]


@dataclass(frozen=True)
class ReadAgain:
    """Two passes: the selector chooses, then the model's own ``generate`` reads the chosen tokens with all layers.

    Sampling, beams, streamers and stopping criteria work. Streamers see the kept tokens as the prompt;
    ``repetition_penalty``, ``no_repeat_ngram_size`` and a caller's own criteria and processors see all of it.

    Attributes:
        positions: "new" are 0 to k - 1, as in GemFilter (dissertation, Algorithm 2); "original" those of the whole
            prompt, as in speculative prefill (arXiv 2502.02789), which no layer's window may be too short for.
    """

    positions: Positions = "new"

    def __post_init__(self) -> None:
        require(self, "positions", self.positions in get_args(Positions), "new or original")

    def require(self, model: PreTrainedModel, selector: Selector | None, cache: Cache) -> None:
        """Raise `ConfigError` unless somebody chooses, and the cache has a rule of its own.

        With original positions the last token must be kept, as new ones are counted from it.
        """
        if selector is None or isinstance(cache, Selected):
            raise ConfigError(
                f"ReadAgain with selector = {type(selector).__name__} and cache = {type(cache).__name__} do not go "
                "together: allowed is a selector, and another cache than Selected"
            )
        if self.positions == "original" and not selector.keeps_last:
            raise ConfigError(
                "window = 0 may drop the prompt's last token, from whose place the next ones are counted: allowed with "
                "positions = 'original' is a window >= 1. Or use ReadAgain('new'), as GemFilter does"
            )

    def spent(self, model: PreTrainedModel, selector: Selector, length: int) -> tuple[float, range]:
        """Operations of the choice; all layers read it."""
        return selector.spent(model, length), range(text_config(model).num_hidden_layers)

    def generate(
        self,
        model: PreTrainedModel,
        prompt: Prompt,
        selector: Selector | None,
        keep: int,
        cache: Cache,
        options: dict[str, Any],
    ) -> Any:
        """What ``model.generate`` returns, the whole prompt before what was generated; ``kept`` is the choice."""
        began = monotonic()
        kept = cast(Selector, selector).select(model, prompt, keep)
        return self.answer(model, prompt, kept, cache, timed_from(began, model, options))

    def answer(
        self,
        model: PreTrainedModel,
        prompt: Prompt,
        kept: Int[Tensor, "batch kept"],
        cache: Cache,
        options: dict[str, Any],
    ) -> Any:
        """The second pass alone: generate from the tokens of ``prompt`` at ``kept``.

        Raises:
            ConfigError: places are the original ones, and context or windows of the model are too short for them.
        """
        require_own_input(model, options)
        short = prompt.take(kept, padding_token(model, options) or 0)
        if self.positions == "original":
            _require_places(model, prompt, short, new_tokens(model, options, prompt.ids.shape[-1]))
        options = with_whole_text(model, options, short.ids, prompt)
        options = counted_from(prompt.ids.shape[-1], model, options)
        if self.positions == "original":
            if setting(model, options, "use_cache") is False:
                raise ConfigError(
                    "use_cache = False cannot be used with positions = 'original', whose gaps transformers would take "
                    "for the ends of texts: leave it out"
                )
            options["position_ids"] = prompt.positions.gather(1, kept.clamp(min=0)).masked_fill(kept < 0, 0)
        output = WholePrompt().generate(model, short, None, 0, cache, options)
        if short.ids.shape != prompt.ids.shape:
            _spend(output)
        return with_kept(with_prompt(output, short.ids.shape[-1], prompt.ids), kept)


def _require_places(model: PreTrainedModel, prompt: Prompt, short: Prompt, new: int) -> None:
    """Raise `ConfigError` unless each layer of ``model`` can read tokens at all places of ``prompt`` and ``new`` more.

    transformers counts a window in the tokens that are read: with gaps between them it would reach farther back.
    """
    require_context(model, prompt, new)
    require_gaps(model, prompt, short.ids.shape[-1])
    own = prompt.longest
    length = own + new
    rope = rope_of(model)
    turns = rope["original_max_position_embeddings"] if rope.get("rope_type") == "longrope" else length
    if own <= turns < length and short.ids.shape != prompt.ids.shape:
        raise ConfigError(
            f"the prompt has {own} tokens and {new} are to come, and {type(model).__name__} has other rotary angles "
            f"beyond {turns} tokens, which what is read already would not get with positions = 'original': allowed is "
            f"at most {turns - own} new tokens. Use ReadAgain('new'), as GemFilter does"
        )
    narrow = [i for i in range(text_config(model).num_hidden_layers) if 0 < sight_of(model, i) < length]
    if narrow and short.ids.shape != prompt.ids.shape:
        raise ConfigError(
            f"layer {narrow[0]} of {type(model).__name__} sees the last {sight_of(model, narrow[0]):g} of {length} "
            f"tokens only ({new} of them to come), and with positions = 'original' it would see kept ones from farther "
            "away: allowed are layers that see all of them. Use ReadAgain('new'), as GemFilter does"
        )


def _spend(output: Any) -> None:
    """Let the cache of an ``output`` refuse to go on: it holds the kept tokens, and the output's text is the whole."""
    cache = cache_of(output)
    if cache is not None:
        cache.update = _refuse


def _refuse(*arguments: Any, **options: Any) -> None:
    raise ConfigError(
        "the cache of GemFilter's output holds the kept tokens of a prompt, at places that are not those of its "
        "sequences: going on from them would read tokens twice. To go on, or to ask again, use "
        "context = gem.read(ids), context.ask(question) and context.add(turn), or, where something else than a filter "
        "layer's last row chooses, ask anew with the whole text."
    )
