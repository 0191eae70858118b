"""A way of reading long prompts, composed of its parts."""

from typing import Any, cast

from jaxtyping import Int
from torch import Tensor
from typing_extensions import get_protocol_members

from featscope.language.attention import Attention
from featscope.language.caches.full import Full
from featscope.language.context import Context, WholeContext
from featscope.language.decoder import is_decoder, require_decoder, require_one_device
from featscope.language.keep import affordable, counted
from featscope.language.method import OfModel, require_own_input
from featscope.language.parts import Cache, LayerSelector, Propagation, Selector
from featscope.language.prompt import Prompt, asked_prompt, read_prompt
from featscope.language.propagation.read_again import ReadAgain
from featscope.language.propagation.whole_prompt import WholePrompt
from featscope.language.selectors.filter_layer import FilterLayer
from featscope.options import ConfigError

_PARTS = ("model", "selector", "propagation", "cache")


def _require_part(name: str, part: Any, kind: Any, such: str) -> None:
    """Raise `ConfigError` unless ``part`` is one of its ``kind``."""
    if isinstance(part, type) or not isinstance(part, kind):
        lacking = ", ".join(sorted({*get_protocol_members(kind)} - {*dir(part)}))
        why = f" (it has no {lacking})" if lacking else ""
        raise ConfigError(
            f"{name} = {part!r:.200} is no {name}{why}: allowed is one of featscope.language.parts.{kind.__name__}, "
            f"such as {such}. Prefill takes model, selector, propagation and cache, in this order"
        )


class Prefill(OfModel):
    """Generation from a prompt that is read in part: selector, propagation and cache.

    Without any of them it is the model's own generation. Nothing is trained, and nothing in the model is changed.

    Args:
        model: a decoder with rotary embedding; any language model where nothing is chosen or dropped.
        selector: who chooses tokens, None for nobody (`featscope.language.selectors`).
        propagation: what layers then see of them (`featscope.language.propagation`).
        cache: what they hold of what they have read (`featscope.language.caches`).

    Raises:
        ConfigError: the parts do not go together, or not with the model.
    """

    def __init__(
        self,
        model: Any,
        selector: Selector | None = None,
        propagation: Propagation | None = None,
        cache: Cache | None = None,
    ) -> None:
        self.selector = selector
        self.propagation = propagation or (WholePrompt() if selector is None else ReadAgain())
        self.cache = cache or Full()
        if selector is not None:
            _require_part("selector", selector, Selector, "FilterLayer")
        _require_part("propagation", self.propagation, Propagation, "ReadAgain")
        _require_part("cache", self.cache, Cache, "LastQueries")
        self.model: Any = model  # last: what is set from here on is looked for in the model, too
        if isinstance(model, Prefill):
            raise ConfigError(
                f"model = {type(model).__name__} reads prompts its own way already: allowed is a model. Give its cache "
                "as cache"
            )
        if selector is not None or type(self.cache) is not Full:
            require_decoder(model)
            require_one_device(model)
        self.propagation.require(model, selector, self.cache)
        self.cache.require(model)
        if selector is not None:
            selector.require(model)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set what the model has of that name; model and parts are fixed, as they are tried together.

        Raises:
            AttributeError: it is one of these, or nobody has it.
        """
        if name in _PARTS and "model" in vars(self):
            raise AttributeError(
                f"{name} = {value!r:.60} cannot be set: model, selector, propagation and cache are tried together when "
                f"a {type(self).__name__} is made. Make a new one"
            )
        super().__setattr__(name, value)

    def generate(self, input_ids: Any = None, attention_mask: Any = None, **options: Any) -> Any:
        """What the model's ``generate`` returns: the whole prompt with what was generated.

        Its attribute ``kept`` are the places of the chosen tokens ``[batch, kept]``; where caches drop entries in one
        pass, those that each layer holds ``[layer, batch, kv_head, kept]``. -1 stands where it is fewer than elsewhere,
        and in layers with a window, which keep it as they always do.

        Args:
            input_ids: prompts, a tensor ``[batch, token]``, padded on the left.
            attention_mask: 0 at padding; found by the padding token if None, as in the model's ``generate``.
            options: those of the model's ``generate``.

        Raises:
            ConfigError: the prompt is longer than the model's context, hidden from a layer that must see all of it, or
                ``options`` do not go with what is done to it.
        """
        if self.selector is not None or type(self.cache) is not Full:
            require_own_input(self.model, options)
        prompt, options = asked_prompt(self.model, input_ids, attention_mask, options)
        keep = 0 if self.selector is None else self._count(prompt)
        return self.propagation.generate(self.model, prompt, self.selector, keep, self.cache, options)

    def select(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Int[Tensor, "batch kept"]:
        """The choice alone: places of the kept tokens, ascending; -1 on the left of prompts with fewer."""
        prompt = read_prompt(self.model, input_ids, attention_mask)
        if self.selector is None:
            raise ConfigError("selector = None chooses nothing: allowed is a selector")
        return self.selector.select(self.model, prompt, self._count(prompt))

    def read(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Context:
        """Read a document once, to ask about it many times.

        Args:
            input_ids: documents ``[batch, token]``, padded on the left.
            attention_mask: as of `generate`.

        Raises:
            ConfigError: a document is longer than the model's context, the model has no rotary positions, or the method
                is neither full attention nor one where the last row of a filter layer chooses what is read again.
        """
        if self.selector is None:
            require_decoder(self.model)
        if not self.reads_once:
            raise ConfigError(
                "documents are asked about by the last row of a filter layer, or by full attention, and this method "
                f"has selector = {self.selector!r:.200}, propagation = {self.propagation!r} and cache = "
                f"{self.cache!r:.200}: allowed is FilterLayer with row = 'last' and ReadAgain, as GemFilter has them, "
                "or FullCache"
            )
        kind = WholeContext if self.selector is None else Context
        return kind(self, read_prompt(self.model, input_ids, attention_mask))

    @property
    def reads_once(self) -> bool:
        """Whether `read` can keep what was made of a document: what most caches drop hangs on the question."""
        its = self.selector
        if its is None:
            return type(self.cache) is Full and is_decoder(self.model)
        return isinstance(its, FilterLayer) and its.row == "last" and isinstance(self.propagation, ReadAgain)

    def choose(self, reached: Attention, prompt: Prompt) -> Int[Tensor, "batch kept"]:
        """The tokens of ``prompt`` that the selector chooses, given what enters its layer's attention."""
        return cast(LayerSelector, self.selector).choose(reached, prompt, self._count(prompt))

    def answer(self, prompt: Prompt, kept: Int[Tensor, "batch kept"], **options: Any) -> Any:
        """The second pass alone: generate from the tokens of ``prompt`` at ``kept``, as `generate` does."""
        return cast(ReadAgain, self.propagation).answer(self.model, prompt, kept, self.cache, options)

    def _count(self, prompt: Prompt) -> int:
        """How many tokens of ``prompt`` are kept."""
        its = cast(Selector, self.selector)

        def allowed(length: int, share: float) -> int:
            return affordable(self.model, length, share, *self.propagation.spent(self.model, its, length))

        return counted(its, prompt, its.forced(), allowed)
