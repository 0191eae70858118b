"""The table of ways to read a long prompt, from which command line, studies and benchmarks build them by name."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from featscope.language.keep import Keep, kept_in_words
from featscope.language.load import (
    RETRIEVER,
    RETRIEVER_KERNEL,
    RETRIEVER_LAYER,
    RETRIEVER_POOL,
    load_once,
    load_tokenizer,
    require_folder,
)
from featscope.language.method import Method
from featscope.language.presets import (
    H2O,
    AdaKV,
    FastKV,
    FullCache,
    GemFilter,
    GemFilterOneRun,
    PromptDistill,
    SnapKV,
    SpeculativePrefill,
)
from featscope.language.selection import Pool
from featscope.language.selectors import Draft
from featscope.options import ConfigError, require
from featscope.registry import sound, the_one

KERNEL = 5
"""Neighbours whose scores are pooled, in GemFilter's and SnapKV's papers."""
POOL: Pool = "avg"
"""How, in their code."""
SPECULATIVE = "speculative"
"""The method for which another model chooses."""


@dataclass(frozen=True)
class Reading:
    """How much of a prompt is kept, and by what.

    Attributes:
        layer: r, the layer that chooses where one does, from 0.
        keep: k, tokens (or, in caches, entries of each layer and key head) that are kept; or their share; or a `Cost`,
            where the method takes one.
        window: last tokens that all but GemFilter by the paper's rule keep in any case.
        kernel: neighbours whose scores are pooled, where a method pools them.
        pool: how.
        draft: the smaller model that chooses in speculative prefill, as `load_model` takes it; None for none.
    """

    layer: int
    keep: Keep
    window: int = 32
    kernel: int = KERNEL
    pool: Pool = POOL
    draft: str | None = None

    def build(self, name: str, model: PreTrainedModel) -> Method:
        """The method called ``name`` on ``model``.

        Raises:
            ConfigError: no method has that name, or it cannot be built of this.
        """
        return listed(name).build(self, model)

    def about(self, name: str) -> str:
        """What it does, in a sentence."""
        pooled = (
            "" if (self.kernel, self.pool) == (KERNEL, POOL) else f" (scores: {self.pool} of {self.kernel} neighbours)"
        )
        keep = kept_in_words(self.keep)
        return listed(name).about.format(layer=self.layer, keep=keep, window=self.window, pooled=pooled)


def pooling_of(options: Any, name: str = "full") -> tuple[int, Pool]:
    """What options called ``kernel`` and ``pool`` say; where they are None, the retriever's own, or the paper's.

    Args:
        options: of a study, say, with ``model`` beside these two.
        name: the method that pools.

    Raises:
        ConfigError: the kernel is even.
    """
    own = options.model == RETRIEVER
    papers = RETRIEVER_KERNEL if own else listed(name).kernel
    kernel = papers if options.kernel is None else options.kernel
    require(options, "kernel", kernel >= 1 and kernel % 2 == 1, "an odd number >= 1")
    return kernel, options.pool or (RETRIEVER_POOL if own else POOL)


def layer_of(options: Any, *, needs_layer: bool = True) -> int:
    """What options called ``model`` and ``layer`` say; where the layer is None, the retriever's own.

    Args:
        options: of a study, say.
        needs_layer: whether there is a method in it for which a layer chooses.

    Raises:
        ConfigError: it is below 0, or another model is given none.
    """
    given = options.layer is not None or options.model == RETRIEVER or not needs_layer
    if not given:
        require_folder(options.model)  # a layer of what is not there cannot be chosen
    cure = "choose_layer finds one for your model."
    require(options, "layer", given and (options.layer or 0) >= 0, f">= 0 where --model = {options.model!r}", cure)
    return RETRIEVER_LAYER if options.layer is None else options.layer


def reading_of(options: Any, *, needs_layer: bool = True) -> Reading:
    """What options called ``keep`` and ``window`` say, and those of `layer_of` and `pooling_of`.

    Args:
        options: of a study, say.
        needs_layer: see `layer_of`.

    Raises:
        ConfigError: one of them is out of range.
    """
    layer = layer_of(options, needs_layer=needs_layer)
    require(options, "window", options.window >= 1, ">= 1")
    require(options, "keep", options.keep > options.window, f"> window = {options.window}")
    return Reading(layer, options.keep, options.window, *pooling_of(options))


def asked_for(name: str, window: int) -> str:
    """The row that commands mean by ``name``: ``gemfilter`` is the paper's rule only without a window."""
    return "question-kept" if name == "gemfilter" and window else name


def least_window(names: Iterable[str]) -> int:
    """The shortest window that all of these commands' methods take."""
    return 0 if {*names} <= {"gemfilter", "full"} else 1


def require_used(options: Any, names: Sequence[str]) -> None:
    """Raise `ConfigError` where ``options`` say what none of the methods ``names`` looks at.

    Args:
        options: of a command or a study, a dataclass; layers, pooling, ``keep`` and ``window`` are looked at where they
            are not the default's.
        names: the methods.
    """
    rows = [listed(name) for name in names]
    told = (
        (("layer", "layers"), any(row.by_layer for row in rows), "No layer chooses there."),
        (("kernel", "pool"), any(row.pools for row in rows), "No scores are pooled there."),
        (("keep", "keeps", "window"), bool({*names} - {"full"}), "All is kept there."),
    )
    option = "--method" if hasattr(options, "method") else "--methods"
    defaults = {field.name: field.default for field in fields(options)}
    for together, used, cure in told:
        for name in together:
            if not used and getattr(options, name, None) != defaults.get(name):
                require(options, name, False, f"no value with {option} {' '.join(names) or 'full'}", cure)


def require_draft(options: Any, names: Iterable[str]) -> None:
    """Raise `ConfigError` unless ``options.draft`` is a model where one of ``names`` needs it, and None elsewhere."""
    if SPECULATIVE not in names:
        cure = "No other model chooses there."
        require(options, "draft", options.draft is None, f"no value without the method {SPECULATIVE}", cure)
        return
    cure = f"With the method {SPECULATIVE} a smaller model of the same tokenizer chooses."
    require(options, "draft", options.draft is not None, "a folder, or a model of the Hub", cure)
    with _of_draft():
        require_folder(options.draft)


def require_tokens_of_draft(options: Any, tokenizer: PreTrainedTokenizerBase, text: str) -> None:
    """Raise `ConfigError` where the tokenizer of ``options.draft`` makes other tokens of ``text``."""
    if options.draft is None:
        return
    with _of_draft():
        others = load_tokenizer(options.draft)
    of_both = [known(text, add_special_tokens=False)["input_ids"] for known in (tokenizer, others)]
    require(options, "draft", of_both[0] == of_both[1], "a model of the same tokenizer", "Its tokens are others.")


@contextmanager
def _of_draft() -> Iterator[None]:
    """Within it, what is wrong with a model is said to be wrong with the draft."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(str(error).replace("model =", "draft =", 1)) from None


def _speculative(of: Reading, model: PreTrainedModel) -> Method:
    require_draft(of, [SPECULATIVE])
    with _of_draft():
        draft, _ = load_once(str(of.draft), str(model.device))
    return SpeculativePrefill(model, draft, of.keep, of.window, pool=of.pool, kernel=of.kernel)


class Listed(NamedTuple):
    """A row of the table.

    Attributes:
        label: two or three words.
        about: what it does, in a sentence with the numbers of a `Reading`.
        build: makes it on a model.
        by_layer: whether a layer chooses.
        by_cost: whether `Reading.keep` may be a `Cost`.
        kernel: neighbours whose scores its paper pools.
    """

    label: str
    about: str
    build: Callable[[Reading, PreTrainedModel], Method]
    by_layer: bool = True
    by_cost: bool = False
    kernel: int = KERNEL

    @property
    def pools(self) -> bool:
        """Whether scores of neighbours are pooled, so that `Reading.kernel` and `Reading.pool` say something."""
        return "{pooled}" in self.about


PEERS: Mapping[str, Listed] = {
    "fastkv": Listed(
        "FastKV",
        "FastKV: hidden states of the {keep} tokens that the last {window} attend to in layer {layer} go on; every "
        "layer and head keeps {keep} entries{pooled}.",
        lambda of, model: FastKV(model, of.layer, of.keep, of.keep, of.window, pool=of.pool, kernel=of.kernel),
    ),
    "promptdistill": Listed(
        "PromptDistill",
        "PromptDistill: hidden states of the {keep} tokens that the last one likes in layer {layer} go on{pooled}.",
        lambda of, model: PromptDistill(model, of.layer, of.keep, of.window, pool=of.pool, kernel=of.kernel),
        by_cost=True,
    ),
    "adakv": Listed(
        "AdaKV",
        "AdaKV: every layer keeps {keep} entries a head on average, more of them where attention spreads{pooled}.",
        lambda of, model: AdaKV(model, of.keep, of.window, pool=of.pool, kernel=of.kernel),
        by_layer=False,
    ),
    SPECULATIVE: Listed(
        "speculative prefill",
        "Speculative prefill: a smaller model chooses {keep} tokens, the last {window} among them{pooled}.",
        _speculative,
        by_layer=False,
        by_cost=True,
        kernel=Draft.kernel,
    ),
}
"""Ways that came after the dissertation."""

_GROUP = "featscope.prefill"
_OF_STUDIES = {"question-kept", "one-run", "middle-row", "largest-row"}


def names() -> list[str]:
    """Names of all methods: of both tables, and of those that other packages register."""
    return [
        *METHODS,
        *PEERS,
        *sorted({point.name for point in entry_points(group=_GROUP)} - METHODS.keys() - PEERS.keys()),
    ]


def offered() -> list[str]:
    """Those of `names` that commands take: all but variations that studies compare."""
    return [name for name in names() if name not in _OF_STUDIES]


def listed(name: str) -> Listed:
    """The row called ``name``: our own, or what the entry point ``name`` of the group ``featscope.prefill`` leads to.

    Raises:
        ConfigError: no method has that name, several have, or another package's cannot be used.
        MissingExtraError: another package's needs an extra of ours.
    """
    if own := METHODS.get(name) or PEERS.get(name):
        ours = EntryPoint(name, f"{__name__}:METHODS", _GROUP)
        the_one(name, [ours, *_of_our_names(*sys.path).get(name, ())], "method")
        return own
    points = entry_points(group=_GROUP, name=name)
    if not points:
        raise ConfigError(f"method = {name!r} is unknown: allowed is one of {', '.join(names())}")
    point = the_one(name, points, "method")
    where = f"method = {name!r}, registered as {point.value!r},"
    with sound(where):
        found = point.load()
    if not isinstance(found, Listed):
        raise ConfigError(f"{where} is a {type(found).__name__}: allowed is featscope.language.methods.Listed")
    return found


@cache
def _of_our_names(*path: str) -> Mapping[str, list[EntryPoint]]:
    """Entry points of packages in ``path`` that have the name of a method of ours: to look takes 30 milliseconds."""
    points = [point for point in entry_points(group=_GROUP) if point.name in (*METHODS, *PEERS)]
    return {name: [point for point in points if point.name == name] for name in {point.name for point in points}}


METHODS: Mapping[str, Listed] = {
    "full": Listed("full attention", "Full attention.", lambda of, model: FullCache(model), by_layer=False),
    "gemfilter": Listed(
        "GemFilter",
        "GemFilter by the paper's rule: layer {layer} chooses {keep} tokens{pooled}.",
        lambda of, model: GemFilter(model, of.layer, of.keep, 0, pool=of.pool, kernel=of.kernel),
        by_cost=True,
    ),
    "question-kept": Listed(
        "question kept",
        "GemFilter with the last {window} of its {keep} tokens kept in any case{pooled}.",
        lambda of, model: GemFilter(model, of.layer, of.keep, of.window, pool=of.pool, kernel=of.kernel),
        by_cost=True,
    ),
    "snapkv": Listed(
        "SnapKV",
        "SnapKV: every layer and head keeps {keep} entries: the last {window}, and what they attend to{pooled}.",
        lambda of, model: SnapKV(model, of.keep, of.window, pool=of.pool, kernel=of.kernel),
        by_layer=False,
    ),
    "h2o": Listed(
        "H2O",
        "H2O: every layer and head keeps {keep} entries: the last {window}, and what all tokens attend to.",
        lambda of, model: H2O(model, of.keep, recent=of.window),
        by_layer=False,
    ),
    "one-run": Listed(
        "one run",
        "One run: all layers read the prompt, then each keeps the {keep} entries that layer {layer} chooses{pooled}.",
        lambda of, model: GemFilterOneRun(model, of.layer, of.keep, window=0, pool=of.pool, kernel=of.kernel),
    ),
    "middle-row": Listed(
        "middle row",
        "GemFilter, but the prompt's middle token chooses (dissertation, Section 9.4.4){pooled}.",
        lambda of, model: GemFilter(model, of.layer, of.keep, 0, pool=of.pool, kernel=of.kernel, row="middle"),
        by_cost=True,
    ),
    "largest-row": Listed(
        "largest row",
        "GemFilter, but the row of scores with the largest norm chooses{pooled}.",
        lambda of, model: GemFilter(model, of.layer, of.keep, 0, pool=of.pool, kernel=of.kernel, row="largest"),
        by_cost=True,
    ),
}
