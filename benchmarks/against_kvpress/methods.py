"""Which methods each library has: do they run as they come, and what do they spend on the prompt."""

import inspect
import itertools
from collections.abc import Callable, Iterator
from copy import deepcopy
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks.against_kvpress.models import words
from benchmarks.against_kvpress.ways import OURS, WINDOW, Pressed, outcome, ratio
from benchmarks.long_prompt import Bench, model_of
from benchmarks.reading import shortened
from featscope.language import (
    H2O,
    AdaKV,
    AllQueries,
    AttentionWindow,
    Draft,
    FastKV,
    FilterLayer,
    Full,
    FullCache,
    GemFilter,
    GemFilterOneRun,
    HeadBudgets,
    KeepHidden,
    LastQueries,
    LayerBudgets,
    Prefill,
    Press,
    PromptDistill,
    ReadAgain,
    Selected,
    SnapKV,
    SpeculativePrefill,
)
from featscope.language.cost import operations

LENGTH, KEPT, LAYER = 1024, 128, 2
NO_METHODS = ("BasePress", "ScorerPress", "KVPressTextGenerationPipeline")
"""What kvpress exports beside its methods: two base classes and the pipeline."""
Build = Callable[[Any], Any]


def methods(library: str) -> dict[str, dict[str, str]]:
    """By method: what came of it on a random Llama (1,024 tokens, 128 kept), SDPA, and eager attention where it asks.

    The cost is that of all operations to the first new token, over full attention's.
    """
    return _tried(_ours() if library == OURS else _theirs())


def presses(library: str) -> dict[str, dict[str, str]]:
    """The same of kvpress' presses as the cache of GemFilter's second pass, which reads twice as many as are kept."""
    return {} if library == OURS else _tried(_in_second_pass())


def _tried(builds: dict[str, Build]) -> dict[str, dict[str, str]]:
    model = model_of(Bench(lengths=(LENGTH,)))
    folder = TemporaryDirectory()
    words().save_pretrained(folder.name)
    model.config.name_or_path = folder.name  # where some presses look for the tokenizer
    ids = torch.randint(3, 1024, (1, LENGTH), generator=torch.Generator().manual_seed(0))
    options = {"max_new_tokens": 1, "do_sample": False}
    full = operations(lambda: model.generate(ids, **options))

    def cost(build: Build) -> str:
        method = build(deepcopy(model))  # some presses change it
        out = method.generate(ids, do_sample=False, max_new_tokens=4, return_dict_in_generate=True)
        share = operations(lambda: method.generate(ids, **options)) / full
        return f"runs: {share:.2f} of full, {_held(out.past_key_values)} entries at the end"

    found = {}
    for name, build in builds.items():
        found[name] = {"sdpa": outcome(lambda b=build: cost(b))}
        if not found[name]["sdpa"].startswith("runs"):
            model.set_attn_implementation("eager")
            found[name]["eager"] = outcome(lambda b=build: cost(b))
            model.set_attn_implementation("sdpa")
    return {n: {on: text.replace(folder.name, "MODEL") for on, text in said.items()} for n, said in found.items()}


def _held(cache: Any) -> int:
    """Entries of the fullest layer and head."""
    return max(layer.keys.shape[-2] for layer in cache.layers)


def _ours() -> dict[str, Build]:
    """Presets, and what their parts make in any other way."""
    presets: dict[str, Build] = {
        "full attention": FullCache,
        "GemFilter": lambda m: GemFilter(m, LAYER, KEPT, WINDOW),
        "GemFilter in one run": lambda m: GemFilterOneRun(m, LAYER, KEPT, window=WINDOW),
        "SnapKV": lambda m: SnapKV(m, KEPT, WINDOW),
        "H2O": lambda m: H2O(m, KEPT, WINDOW),
        "AdaKV": lambda m: AdaKV(m, KEPT, WINDOW),
        "FastKV": lambda m: FastKV(m, LAYER, KEPT, KEPT, WINDOW),
        "PromptDistill": lambda m: PromptDistill(m, LAYER, KEPT, WINDOW),
        "speculative prefill": lambda m: SpeculativePrefill(m, shortened(m, LAYER), KEPT, WINDOW),
    }
    return presets | {
        f"{selector} + {propagation} + {cache}": lambda m, parts=(selector, propagation, cache): Prefill(
            m, SELECTORS[parts[0]](m), PROPAGATIONS[parts[1]], CACHES[parts[2]]
        )
        for selector, propagation, cache in _together()
    }


SELECTORS: dict[str, Build] = {
    "filter layer": lambda m: FilterLayer(LAYER, KEPT, WINDOW),
    "attention window": lambda m: AttentionWindow(LAYER, KEPT, WINDOW),
    "draft": lambda m: Draft(shortened(m, LAYER), KEPT, window=WINDOW),
}
PROPAGATIONS = {
    "read again": ReadAgain(),
    "read again at original positions": ReadAgain("original"),
    "hidden states": KeepHidden(),
}
CACHES = {
    "full": Full(),
    "last queries": LastQueries(KEPT // 2, WINDOW),
    "all queries": AllQueries(KEPT // 2, WINDOW),
    "budgets of heads": HeadBudgets(LastQueries(KEPT // 2, WINDOW)),
    "budgets of layers": LayerBudgets(LastQueries(KEPT // 2, WINDOW)),
    "selected": Selected(),
}


def _together() -> Iterator[tuple[str, str, str]]:
    """The 42 combinations that go together."""
    for selector, propagation, cache in itertools.product(SELECTORS, PROPAGATIONS, CACHES):
        hidden = propagation == "hidden states"
        if not (selector == "draft" and hidden) and (hidden or cache != "selected"):
            yield selector, propagation, cache


def _theirs() -> dict[str, Build]:
    """All presses, with nothing given but the ratio, and SnapKV where a press wraps another."""
    return {name: lambda m, k=kind: Pressed(m, lambda length: _press(k, length)) for name, kind in _kinds().items()}


def _in_second_pass() -> dict[str, Build]:
    """All presses, given as much, as the cache of what a layer chose."""
    chosen = 2 * KEPT

    def build(kind: Any) -> Build:
        return lambda m: Prefill(m, FilterLayer(LAYER, chosen, WINDOW), ReadAgain(), Press(_press(kind, chosen)))

    return {name: build(kind) for name, kind in _kinds().items()}


def _kinds() -> dict[str, Any]:
    import kvpress

    return {name: getattr(kvpress, name) for name in kvpress.__all__ if name not in NO_METHODS}


def _press(kind: Any, length: int) -> Any:
    from kvpress import KnormPress, SnapKVPress

    share, layers = ratio(KEPT, length), Bench().layers
    given: dict[str, Any] = {
        "press": SnapKVPress(share, window_size=WINDOW),
        "base_press": SnapKVPress(share, window_size=WINDOW),
        "prefilling_press": SnapKVPress(share, window_size=WINDOW),
        "presses": [KnormPress(0.5), SnapKVPress(0.5, window_size=WINDOW)],
        "compression_ratios": [share] * layers,
        "compression_ratio": share,
        "head_compression_ratio": share,
        "key_channel_compression_ratio": 0.5,
        "threshold": 0.0,
    }
    takes = inspect.signature(kind).parameters
    return kind(**{name: value for name, value in given.items() if name in takes})
