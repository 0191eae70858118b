"""A document that is read once, below the filter layer or by all layers, and asked about many times."""

import copy
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from types import MappingProxyType
from typing import Any, Protocol, cast, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import DynamicCache

from featscope.language.attention import Attention
from featscope.language.decoder import (
    ANGLES_BY_LENGTH,
    cache_argument,
    kinds_of,
    require_context,
    require_seeing,
    rope_of,
    text_config,
    text_model,
)
from featscope.language.first_pass import attention_at
from featscope.language.method import require_own_input, setting, timed_from
from featscope.language.partial_cache import DRAFTS
from featscope.language.prompt import Prompt, end_tokens, padding_token, read_prompt
from featscope.options import ConfigError

_CUT = ("full_attention", "sliding_attention", "chunked_attention")  # kinds whose cache can go back
_WINDOWED_BY_CACHE = ("moshi",)  # types of models whose masks hide nothing, while `generate` drops what is out of sight

_Ends = tuple[tuple[int, ...], int | None]
"""Tokens that end a text, and the one that is padding."""


@runtime_checkable
class DocumentReader(Protocol):
    """What a context needs of `featscope.language.prefill.Prefill`, whose selector is a `FilterLayer` or None."""

    model: Any
    selector: Any

    def generate(self, input_ids: Any = None, attention_mask: Any = None, **options: Any) -> Any:
        """Both passes."""

    def choose(self, reached: Attention, prompt: Prompt) -> Int[Tensor, "batch kept"]:
        """The choice, given what enters the filter layer's attention."""

    def answer(self, prompt: Prompt, kept: Int[Tensor, "batch kept"], **options: Any) -> Any:
        """The second pass alone."""


class Context:
    """What `Prefill.read` returns for GemFilter: a document, and what the layers up to the filter layer made of it.

    Each question chooses tokens of its own among the document's and its own ones. What does not depend on the question
    is kept: keys and values of the layers up to the filter layer, (r + 1)/m of a whole cache. Where they depend on
    what follows (layers with a state, as linear attention; rotary angles by the length of the text; heads that choose
    keys among what is held, as Doge's; windows that the cache alone has, as Moshi's), document and question are read
    anew each time, with the same answers. Threads that ask one context take turns.

    Attributes:
        prompt: the document, and what was added to it.
    """

    def __init__(self, method: DocumentReader, prompt: Prompt) -> None:
        self._method = method
        self._layer: int | None = getattr(method.selector, "layer", None)
        kinds = kinds_of(method.model)
        goes_back = set(kinds if self._layer is None else kinds[: self._layer + 1]) <= set(_CUT)
        reuses = goes_back and rope_of(method.model).get("rope_type") not in ANGLES_BY_LENGTH
        chooses = hasattr(text_config(method.model), "keep_window_size")  # a head does, among what is held
        windowed = text_config(method.model).model_type in _WINDOWED_BY_CACHE
        reuses = reuses and not (chooses or windowed)
        self._cache = DynamicCache() if reuses else None
        self._lock, self._taken = threading.RLock(), False
        self._ends: set[_Ends] = set()  # of questions since something was added
        self.prompt = Prompt(prompt.ids[:, :0], prompt.real[:, :0])
        self._append(prompt)
        self._read_in = self._now_in

    @property
    def _now_in(self) -> tuple[torch.dtype, torch.device]:
        its = self._method.model
        return its.dtype, its.device

    def __copy__(self) -> "Context":
        """Another context of the same document and the same model, to which other things can be added."""
        with self._turn():
            other = object.__new__(type(self))
            vars(other).update(vars(self), _cache=copy.deepcopy(self._cache), _lock=threading.RLock(), _taken=False)
            other._ends = set(self._ends)
            return other

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Contexts are not stored."""
        raise ConfigError(
            "a context cannot be pickled or saved, as it holds a model and what it read: keep the document, and read "
            "it again"
        )

    def __deepcopy__(self, memo: Any) -> "Context":
        """The same: the model is not copied."""
        return copy.copy(self)

    @property
    def length(self) -> int:
        """Tokens of the document, with padding."""
        return self.prompt.ids.shape[1]

    def ask(self, input_ids: Tensor, attention_mask: Tensor | None = None, **options: Any) -> Any:
        """Generate from the document and ``input_ids`` behind it. The context stays as it was.

        Args:
            input_ids: the question ``[batch, token]``, a row for each document, without padding and without a token
                that begins a text.
            attention_mask: ones, if it is given.
            options: those of the model's ``generate``.

        Returns:
            what the method's ``generate`` returns for document and question in one.

        Raises:
            ConfigError: the question cannot stand behind the document.
        """
        with self._turn():
            whole = self._behind(input_ids, attention_mask)
            self._ends.add(_ends_of(self._method.model, options))
            if self._cache is None:
                return self._method.generate(whole.ids, whole.mask, **options)
            require_context(self._method.model, whole)
            return self._answer(whole, options)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Within it, no other thread asks or adds, and this one does not while it is at it."""
        with self._lock:
            if self._taken:
                raise ConfigError(
                    "the context answers already, and what runs meanwhile (a streamer, a stopping criterion) cannot "
                    "ask it or add to it: do so when the answer is there"
                )
            self._taken = True
            try:
                yield
            finally:
                self._taken = False

    def _answer(self, whole: Prompt, options: dict[str, Any]) -> Any:
        require_seeing(self._method.model, whole, [cast(int, self._layer)])
        began = monotonic()
        try:
            kept = self._method.choose(self._read(whole), whole)
        finally:
            self._go_back()
        return self._method.answer(whole, kept, **timed_from(began, self._method.model, options))

    def _go_back(self) -> None:
        """Drop from the cache what stands behind the document."""
        layers: Any = cast(DynamicCache, self._cache).layers
        for layer in layers:
            if (more := int(layer.get_seq_length()) - self.length) > 0:
                layer.crop(-more)

    def add(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> None:
        """Put ``input_ids`` behind the document, such as a question and its answer: the next one is asked after them.

        Raises:
            ConfigError: they cannot stand behind the document.
        """
        with self._turn():
            self._append(self._behind(input_ids, attention_mask, self._ends))
            self._ends.clear()

    @torch.no_grad()
    def _append(self, whole: Prompt) -> None:
        require_context(self._method.model, whole)
        before = self.prompt
        try:
            if self._cache is not None:
                step = getattr(self._method.selector, "chunk", None) or whole.ids.shape[1]
                for end in range(self.length + step, whole.ids.shape[1] + step, step):
                    self._read(Prompt(whole.ids[:, :end], whole.real[:, :end]))
                    self.prompt = Prompt(whole.ids[:, :end], whole.real[:, :end])
            self.prompt = whole
        except BaseException:  # no memory, or Ctrl-C: whoever tries again must not find a half of it
            self.prompt = before
            if self._cache is not None:
                self._go_back()
            raise

    @torch.no_grad()
    def _read(self, whole: Prompt) -> Any:
        """What enters the filter layer's attention: queries of what is new in ``whole``, keys of all of it."""
        new = whole._replace(ids=whole.ids[:, self.length :])
        return attention_at(self._method.model, new, cast(int, self._layer), self._cache)

    def _behind(self, input_ids: Tensor, attention_mask: Tensor | None, asked: Iterable[_Ends] = ()) -> Prompt:
        """The document with ``input_ids`` behind it, which may be an answer that ends as one of ``asked``."""
        if self._cache is not None and self._now_in != self._read_in:
            (dtype, device), (now, here) = self._read_in, self._now_in
            raise ConfigError(
                f"the document was read in {dtype} on {device}, and the model is in {now} on {here} by now, which does "
                "not go together: read the document anew"
            )
        model = self._method.model
        added = read_prompt(model, input_ids, attention_mask)
        ids: Int[Tensor, "batch token"] = self.prompt.ids
        filled = _filled_up(added.ids, *_ends_of(model)) or any(_filled_up(added.ids[:, -2:], *one) for one in asked)
        padded = not bool(added.real.all()) or (attention_mask is None and filled)
        if padded or added.ids.shape[0] != ids.shape[0]:
            raise ConfigError(
                f"input_ids has {added.ids.shape[0]} rows{', with padding' if padded else ''}: allowed is a row "
                f"without padding for each of the {ids.shape[0]} documents. Where questions or answers differ in "
                "length, read each document apart; where all tokens are of the text, give an attention_mask of ones."
            )
        moved = (torch.cat([of, new.to(of.device)], 1) for of, new in zip(self.prompt, added, strict=True))
        return Prompt(*moved)


def _ends_of(model: Any, options: Mapping[str, Any] = MappingProxyType({})) -> _Ends:
    padding = padding_token(model, options)
    return tuple(end_tokens(model, options)), None if padding is None else int(padding)


def _filled_up(ids: Int[Tensor, "batch token"], ends: Sequence[int], padding: int | None) -> bool:
    """Whether rows that ended before others are filled up as ``generate`` does it: with padding, or a text's end."""
    if len(ids) == 1:
        return False
    if padding is not None and padding not in ends:
        return bool(ids[:, -1].eq(padding).any())
    ended = torch.isin(ids, ids.new_tensor(ends))
    return bool((ended[:, :-1] & ended[:, 1:]).any())


class WholeContext(Context):
    """What `Prefill.read` returns for full attention: a document, and what all layers made of it.

    Questions with beams, with several answers each, with drafts (assisted decoding, prompt lookup), without a cache or
    with one of another kind (``cache_implementation``), read document and question anew.
    """

    def _answer(self, whole: Prompt, options: dict[str, Any]) -> Any:
        model = self._method.model
        require_own_input(model, options)
        rows = (setting(model, options, name) or 1 for name in ("num_beams", "num_return_sequences"))
        drafts = any(setting(model, options, name) for name in DRAFTS)
        other = setting(model, options, "cache_implementation") not in (None, "hybrid")  # the latter says nothing
        if max(rows) > 1 or drafts or other or setting(model, options, "use_cache") is False:
            return self._method.generate(whole.ids, whole.mask, **options)
        name = cache_argument(model.forward)
        own: dict[str, Any] = {name: self._cache}
        if hasattr(getattr(model, "model", None), "rope_deltas"):  # which are those of the last picture's question
            own["position_ids"] = whole.positions
        try:
            output = self._method.generate(whole.ids, whole.mask, **options, **own)
        finally:
            self._go_back()
        if not isinstance(output, Tensor):
            output[name] = None  # it is the context's own, which goes back to the document
        return output

    @torch.no_grad()
    def _read(self, whole: Prompt) -> None:
        its, new = text_model(self._method.model), whole.ids[:, self.length :]
        places = whole.positions[:, -new.shape[1] :]
        held = {cache_argument(its.forward): self._cache}
        its(new, attention_mask=whole.mask, position_ids=places, use_cache=True, **held)
