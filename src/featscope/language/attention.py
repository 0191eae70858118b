"""Looking into the attention of a Hugging Face model while it runs.

Models hand their queries (after rotary embedding), keys and values to an attention function that they look up by name
(`transformers.AttentionInterface`). `watched` stands, for a while, where functions are looked up: the one that is found
shows them to an observer and then does what it does. So one piece of code serves every architecture and kernel, and the
numbers are the ones that the model itself computes.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import pad
from transformers import AttentionInterface, PreTrainedModel

from featscope.language.decoder import text_model
from featscope.numbers import as_written
from featscope.options import ConfigError

_own: Any = None  # by what models looked up a function by its name when the first of these threads began
_lock = threading.Lock()
_watching = 0  # threads that watch a model
_mine = threading.local()  # observers of this thread, by the id of a model's module


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
    mask: Any
    scaling: float


@runtime_checkable
class Observer(Protocol):
    """Sees each layer's attention, in order of the layers."""

    def before(self, attention: Attention) -> Attention | None:
        """Before it is computed. May raise, which ends the forward pass, or return it with another mask."""

    def after(self, attention: Attention) -> None:
        """After it was computed."""


@contextmanager
def watched(model: PreTrainedModel, observer: Observer) -> Iterator[None]:
    """Within it, ``observer`` sees every attention that ``model`` computes in this thread; others do not notice.

    The model keeps the name of its attention function, by which transformers tells kernels and masks: eager, SDPA, flex
    and flash attention and kernels of the Hub are watched alike. Of a model of text and images, attention of the text
    is seen.

    Raises:
        ConfigError: the model does not take its attention function from `transformers.AttentionInterface`, or this
            thread watches it already.
    """
    text = text_model(model)
    if not getattr(text, "_can_set_attn_implementation", lambda: True)():
        raise ConfigError(
            f"{type(model).__name__} computes attention by its own code: allowed is a model that supports "
            "transformers' AttentionInterface"
        )
    observers: dict[int, Observer] = _mine.__dict__.setdefault("observers", {})
    modules = [id(module) for module in text.modules()]
    if not observers.keys().isdisjoint(modules):
        raise ConfigError("model is watched already: finish one generation before the next begins")
    observers.update(dict.fromkeys(modules, observer))
    _count(1)
    try:
        yield
    finally:
        _count(-1)
        for module in modules:
            del observers[module]


def require_seen(model: PreTrainedModel, seen: bool) -> None:
    """Raise `ConfigError` unless an observer saw attention of ``model``, which compiled code may not show."""
    if not seen:
        raise ConfigError(
            f"no attention of {type(model).__name__} could be watched, so that nothing was chosen or dropped: allowed "
            "is a model whose layers look their attention function up when they run. Load it without torch.compile"
        )


def _count(change: int) -> None:
    """Count threads that watch; while there are any, transformers looks functions up here."""
    global _own, _watching
    with _lock:
        if not _watching:
            _own = AttentionInterface.get_interface
        _watching += change
        found: Any = _looked_up if _watching else _own
        AttentionInterface.get_interface = found  # type: ignore[method-assign]


def _looked_up(interface: AttentionInterface, name: str, default: Callable[..., Any]) -> Callable[..., Any]:
    """What transformers would find, with this thread's observers around it."""
    function: Callable[..., Any] = _own(interface, name, default)
    observers: dict[int, Observer] = _mine.__dict__.get("observers", {})
    if not observers:
        return function

    def attention(
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Any = None,
        *rest: Any,
        **options: Any,
    ) -> Any:
        observer, its = observers.get(id(module)), cast(Any, module)
        if observer is None or getattr(its, "layer_idx", None) is None:
            return function(module, query, key, value, attention_mask, *rest, **options)
        seen = Attention(its.layer_idx, query, key, attention_mask, options.get("scaling") or query.shape[-1] ** -0.5)
        seen = observer.before(seen) or seen
        result = function(module, query, key, value, seen.mask, *rest, **options)
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
    last = int(places[-1]) + 1  # no row of these sees later keys, so that half of all products need not be formed
    with as_written(query.device):
        products = torch.einsum("bgjrd,bgtd->bgjrt", query[..., rows, :].float(), attention.key[:, :, :last].float())
    seen = (torch.arange(last, device=real.device) <= places[:, None]) & real[:, None, :last]
    hidden = ~seen[:, None, None]
    weights = (products * attention.scaling).masked_fill_(hidden, -torch.inf).softmax(-1).masked_fill_(hidden, 0.0)
    return pad(weights, (0, keys - last))
