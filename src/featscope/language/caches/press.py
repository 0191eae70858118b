"""A press of kvpress as the cache."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from featscope.language.caches.full import Full
from featscope.language.decoder import blocks, text_model
from featscope.language.partial_cache import PartialLayer
from featscope.language.prompt import Prompt
from featscope.options import ConfigError

_pressing = threading.RLock()  # presses find things on the modules, which threads share


@dataclass(frozen=True)
class Press(Full):
    """Each layer holds what ``press`` leaves of it once the prompt is read (kvpress, for the second pass, say).

    kvpress 0.5.5 asks for transformers below 5.3 and hooks into an argument that later ones do not hand over, while
    FeatScope asks for 5.6 or later. So its hooks are not used: ``press.compress`` is called with what it documents.
    Which entries are kept is not known, and ``kept`` says nothing of it. Presses that hook into more than `compress`
    (AdaKV's, those that compress while decoding) are refused or do nothing here; `HeadBudgets` is the former's rule.

    Attributes:
        press: with ``compress(module, hidden_states, keys, values, attentions, kwargs)``.
    """

    press: Any

    def __post_init__(self) -> None:
        if not callable(getattr(self.press, "compress", None)):
            raise ConfigError(
                f"Press.press = {type(self.press).__name__} has no compress: allowed is a press of kvpress"
            )

    def require(self, model: PreTrainedModel) -> None:
        """Let the press look at ``model``.

        Raises:
            ConfigError: the model has no rotary embedding where presses look for it.
        """
        if not hasattr(text_model(model), "rotary_emb"):
            raise ConfigError(
                f"model = {type(model).__name__} has no rotary_emb for Press.press = {type(self.press).__name__} to "
                "find: allowed is a model that keeps its rotary embedding there, such as Llama. Use LastQueries"
            )
        if callable(look := getattr(self.press, "post_init_from_model", None)):
            look(model)

    @contextmanager
    def pressing(self, model: PreTrainedModel, prompt: Prompt, cache: Any) -> Iterator[None]:
        """Within it, each layer of ``cache`` that has read its first tokens is pressed. Threads take turns.

        Raises:
            ConfigError: a prompt is padded, which a press does not know; the press works by more than `compress`; or
                heads are left with different numbers of entries, which it marks on the module.
        """
        if not bool(prompt.real.all()):
            raise ConfigError("Press does not know padding: allowed are prompts of one length. Ask one at a time")
        pressed: set[int] = set()
        mine = threading.get_ident()

        def press(module: Any, given: tuple[Any, ...], options: dict[str, Any], output: Any) -> None:
            if threading.get_ident() != mine:
                return
            held = cache.layers[module.layer_idx]
            if module.layer_idx in pressed or not isinstance(held, PartialLayer):
                return
            pressed.add(module.layer_idx)
            hidden = options["hidden_states"] if "hidden_states" in options else given[0]
            options = options | {"hidden_states": hidden}
            try:
                keys, values = self.press.compress(module, hidden, held.keys, held.values, output[1], options)
            except NotImplementedError:
                raise ConfigError(
                    f"Press.press = {type(self.press).__name__} compresses by more than compress, which it does not "
                    "have: allowed is a press that does it there, such as SnapKVPress"
                ) from None
            if getattr(module, "masked_key_indices", None) is not None:
                module.masked_key_indices = None
                raise ConfigError(
                    f"Press.press = {type(self.press).__name__} hides entries head by head by a patch of its own: "
                    "allowed is a press that drops them. Use HeadBudgets"
                )
            held.keys, held.values = keys, values
            held.dropped.fewest = held.seen - max(cache.layers[done].held for done in pressed)

        attentions = [module for block in blocks(model) if (module := _attention(block)) is not None]
        rotary = text_model(model).rotary_emb
        with _pressing:
            handles = [module.register_forward_hook(press, with_kwargs=True) for module in attentions]
            for module in attentions:
                module.__dict__["rotary_emb"] = rotary  # where presses look for it
            try:
                yield
            finally:
                for handle, module in zip(handles, attentions, strict=True):
                    handle.remove()
                    del module.__dict__["rotary_emb"]


def _attention(block: nn.Module) -> nn.Module | None:
    """The attention of a layer."""
    return next((module for module in block.children() if hasattr(module, "layer_idx")), None)
