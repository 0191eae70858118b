"""Ways of reading a long prompt side by side: what they answer, and what the first new token costs.

    python -m benchmarks.reading [--prompts 96 --length 512 --keeps 64 128]

Answers are the shipped retriever's, to passwords hidden in essays; intervals are Clopper and Pearson's at 95 %. Time
and memory are of a random Llama of 8 layers on a longer prompt, methods in turns; memory is the peak of all tensors
beyond the weights.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch
import tyro

from benchmarks.long_prompt import Bench, model_of
from benchmarks.marked import table
from featscope.claims.intervals import interval_of_binomial
from featscope.language import (
    H2O,
    AdaKV,
    AttentionWindow,
    FastKV,
    FilterLayer,
    FullCache,
    GemFilter,
    KeepHidden,
    LastQueries,
    LayerBudgets,
    Prefill,
    PromptDistill,
    ReadAgain,
    Selected,
    SnapKV,
    SpeculativePrefill,
)
from featscope.language.cost import timed_answer
from featscope.language.haystack import BUILT_IN, OTHERS, Haystack, passwords, read_texts
from featscope.language.load import RETRIEVER, RETRIEVER_KERNEL, RETRIEVER_LAYER, RETRIEVER_POOL, load_model
from featscope.language.methods import KERNEL
from featscope.streams import Streams
from featscope.training.memory import peak_bytes


@dataclass(frozen=True)
class Reading:
    """What is measured.

    Attributes:
        prompts: that are asked.
        length: tokens of each.
        keeps: tokens kept.
        window: last tokens kept in any case.
        seed: of the prompts.
        timed: what is timed; its ``layer`` chooses, and a draft has a quarter of its layers.
    """

    prompts: int = 96
    length: int = 512
    keeps: tuple[int, ...] = (64, 128)
    window: int = 32
    seed: int = 0
    timed: Bench = field(default_factory=lambda: Bench(lengths=(4096,), threads=1))


Build = Callable[..., Prefill]
"""Of a model, a layer, what is kept, a window and a draft; and of how scores are pooled."""
METHODS: dict[str, Build] = {
    "full attention": lambda model, layer, keep, window, draft, **rule: FullCache(model),
    "SnapKV": lambda model, layer, keep, window, draft, **rule: SnapKV(model, keep, window, **rule),
    "AdaKV": lambda model, layer, keep, window, draft, **rule: AdaKV(model, keep, window, **rule),
    "SnapKV, budgets of layers": lambda model, layer, keep, window, draft, **rule: Prefill(
        model, cache=LayerBudgets(LastQueries(keep, window, **rule))
    ),
    "H2O": lambda model, layer, keep, window, draft, **rule: H2O(model, keep, window),
    "GemFilter, the paper's rule": lambda model, layer, keep, window, draft, **rule: GemFilter(
        model, layer, keep, 0, **rule
    ),
    "GemFilter": lambda model, layer, keep, window, draft, **rule: GemFilter(model, layer, keep, window, **rule),
    "GemFilter, original positions": lambda model, layer, keep, window, draft, **rule: Prefill(
        model, FilterLayer(layer, keep, window, **rule), ReadAgain("original")
    ),
    "attention window, read again": lambda model, layer, keep, window, draft, **rule: Prefill(
        model, AttentionWindow(layer, keep, window, **rule)
    ),
    "hidden states, full cache": lambda model, layer, keep, window, draft, **rule: Prefill(
        model, FilterLayer(layer, keep, window, **rule), KeepHidden()
    ),
    "PromptDistill": lambda model, layer, keep, window, draft, **rule: PromptDistill(
        model, layer, keep, window, **rule
    ),
    "PromptDistill, two stages": lambda model, layer, keep, window, draft, **rule: PromptDistill(
        model, layer, 2 * keep, window, **rule, later=[(layer + 1, keep)]
    ),
    "blocks of 16, two stages": lambda model, layer, keep, window, draft, **rule: Prefill(
        model,
        AttentionWindow(layer, 2 * keep, window, **rule, block=16),
        KeepHidden((AttentionWindow(layer + 1, keep, window, **rule, block=16),)),
        Selected(),
    ),
    "FastKV": lambda model, layer, keep, window, draft, **rule: FastKV(model, layer, keep, keep, window, **rule),
    "speculative prefill": lambda model, layer, keep, window, draft, **rule: SpeculativePrefill(
        model, draft, keep, window, look_ahead=0, **{"kernel": KERNEL, **rule}
    ),
}


def shortened(model: Any, layers: int) -> Any:
    """The first layers of ``model``, as a draft."""
    short = deepcopy(model)
    short.model.layers = short.model.layers[:layers]
    short.config.num_hidden_layers = layers
    return short


def answered(bench: Reading) -> dict[str, list[int]]:
    """Prompts that each method answers right, by ``keeps``."""
    model, tokenizer = load_model(RETRIEVER)
    haystack, streams = Haystack(tokenizer, read_texts(BUILT_IN)), Streams(bench.seed, [0])
    hidden = []
    for number in range(bench.prompts):
        draws = streams.at("reading", number)
        asked, *others = passwords(draws, 1 + OTHERS)
        hidden.append(haystack.hide(draws, bench.length, float(draws.uniform(1)), asked, others))
    found: dict[str, list[int]] = {}
    draft, rule = shortened(model, 3), {"kernel": RETRIEVER_KERNEL, "pool": RETRIEVER_POOL}
    for name, build in METHODS.items():
        methods = [build(model, RETRIEVER_LAYER, keep, bench.window, draft, **rule) for keep in bench.keeps]
        found[name] = [sum(haystack.answer(method, one, 9)[1].normalised == 1 for one in hidden) for method in methods]
    return found


def costs(bench: Bench, window: int) -> dict[str, tuple[float, float]]:
    """Seconds to the first new token, and MiB."""
    model, length = model_of(bench), bench.lengths[0]
    draft = shortened(model, bench.layers // 4)
    ids = torch.randint(3, 1024, (1, length), generator=torch.Generator().manual_seed(length))
    methods = {name: build(model, bench.layer, bench.keep, window, draft) for name, build in METHODS.items()}
    rounds = [
        {name: timed_answer(method, ids, 1)[1][0] for name, method in methods.items()} for _ in range(bench.rounds)
    ]
    return {
        name: (
            median(one[name] for one in rounds),
            peak_bytes(lambda m=method: m.generate(ids, max_new_tokens=1, do_sample=False)) / 2**20,
        )
        for name, method in methods.items()
    }


def table_of(bench: Reading) -> str:
    """In Markdown, a row a method."""
    right, cost = answered(bench), costs(bench.timed, bench.window)
    whole = cost["full attention"]
    rows = []
    for name in METHODS:
        shares = []
        for count in right[name]:
            low, high = interval_of_binomial(count, bench.prompts, 0.95)
            shares.append(f"{count / bench.prompts:.2f} [{low:.2f}, {high:.2f}]")
        seconds, memory = cost[name]
        relative = [f"{seconds / whole[0]:.2f}", f"{memory:.0f}", f"{memory / whole[1]:.2f}"]
        rows.append([name, *shares, f"{seconds:.2f} s", *relative])
    right_of = [f"right, {keep} kept" for keep in bench.keeps]
    return table(["method", *right_of, "first token", "of full", "MiB", "of full"], rows)


def main() -> None:
    """Print the table."""
    bench = tyro.cli(Reading)
    torch.set_num_threads(bench.timed.threads)
    print(table_of(bench))


if __name__ == "__main__":
    main()
