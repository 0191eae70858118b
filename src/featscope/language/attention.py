"""Looking into the attention of a Hugging Face model while it runs.

Models hand their queries (after rotary embedding), keys and values to an attention function that they look up by name
(`transformers.AttentionInterface`). `watched` gives a model, for a while, a function that shows them to an observer
and then does what the model's own function does. So one piece of code serves every architecture, and the numbers are
the ones that the model itself computes.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from featscope.options import ConfigError

_PREFIX = "featscope-"
_lock = threading.Lock()
_watchers: dict[int, int] = {}  # id of a model's config -> threads that watch it
_mine = threading.local()  # observers of this thread, by the id of a model's config


class Attention(NamedTuple):
    """One layer's attention in one forward pass.

    Attributes:
        layer: its number, from 0.
        query: after rotary embedding.
        key: after rotary embedding, those of the cache before the new ones.
        mask: what hides keys, as the model made it: None for a causal mask (or for one that hides nothing).
        scaling: by which products are multiplied before the softmax.
    """

    layer: int
    query: Float[Tensor, "batch head query channel"]
    key: Float[Tensor, "batch kv_head key channel"]
    mask: Tensor | None
    scaling: float


@runtime_checkable
class Observer(Protocol):
    """Sees each layer's attention, in order of the layers."""

    def before(self, attention: Attention) -> None:
        """Before it is computed. May raise, which ends the forward pass."""

    def after(self, attention: Attention) -> None:
        """After it was computed."""


@contextmanager
def watched(model: PreTrainedModel, observer: Observer) -> Iterator[None]:
    """Within it, ``observer`` sees every attention that ``model`` computes in this thread; others do not notice.

    Raises:
        ConfigError: the model does not take its attention function from `transformers.AttentionInterface`, or this
            thread watches it already.
    """
    config = model.config
    observers = _mine.__dict__.setdefault("observers", {})
    if id(config) in observers:
        raise ConfigError("model is watched already: finish one generation before the next begins")
    _enter(model)
    observers[id(config)] = observer
    try:
        yield
    finally:
        del observers[id(config)]
        _leave(model)


def _enter(model: PreTrainedModel) -> None:
    config = model.config
    with _lock:
        if not _watchers.get(id(config)):
            own = config._attn_implementation
            name = _PREFIX + own
            AttentionInterface.register(name, _watching(own))
            AttentionMaskInterface.register(name, AttentionMaskInterface()[own])
            model.set_attn_implementation(name)
            if config._attn_implementation != name:
                raise ConfigError(
                    f"{type(model).__name__} computes attention by its own code: allowed is a model that supports "
                    "transformers' AttentionInterface"
                )
        _watchers[id(config)] = _watchers.get(id(config), 0) + 1


def _leave(model: PreTrainedModel) -> None:
    config = model.config
    with _lock:
        _watchers[id(config)] -= 1
        if not _watchers[id(config)]:
            del _watchers[id(config)]
            model.set_attn_implementation(config._attn_implementation.removeprefix(_PREFIX))


def _watching(own: str) -> Callable[..., tuple[Tensor, Tensor | None]]:
    def attention(
        module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
    ) -> tuple[Tensor, Tensor | None]:
        eager: Any = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
        function = AttentionInterface().get_interface(own, eager)
        its: Any = module
        seen = Attention(its.layer_idx, query, key, attention_mask, options.get("scaling") or query.shape[-1] ** -0.5)
        observer = _mine.__dict__.get("observers", {}).get(id(its.config))
        if observer is None:
            return function(module, query, key, value, attention_mask, **options)
        observer.before(seen)
        result = function(module, query, key, value, attention_mask, **options)
        observer.after(seen)
        return result

    return attention


def attention_weights(
    attention: Attention, real: Bool[Tensor, "batch token"], rows: slice
) -> Float[Tensor, "batch kv_head group row token"]:
    """Softmax of scaled products, float32, of ``rows`` of the queries; the queries are those of the last tokens.

    Args:
        attention: what was watched.
        real: which tokens are no padding.
        rows: which queries.
    """
    keys = attention.key.shape[2]
    query = attention.query.unflatten(1, (attention.key.shape[1], -1))
    places = torch.arange(keys - query.shape[3], keys, device=real.device)[rows]
    products = torch.einsum("bgjrd,bgtd->bgjrt", query[..., rows, :].float(), attention.key.float())
    seen = (torch.arange(keys, device=real.device) <= places[:, None]) & real[:, None, :]
    hidden = ~seen[:, None, None]
    return (products * attention.scaling).masked_fill(hidden, -torch.inf).softmax(-1).masked_fill(hidden, 0.0)
