"""Right answers of the small model that ships, to hidden words, 95 % intervals.

Twice: the whole prompt is read with its question, and a document is read before its question is known.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.against_kvpress.ways import LIBRARIES, OURS, THEIRS, Pressed, ratio, snapkv
from featscope.claims.intervals import interval_of_binomial
from featscope.language import FullCache, GemFilter
from featscope.language.haystack import BUILT_IN, OTHERS, Haystack, Hidden, normalised_score, passwords, read_texts
from featscope.language.load import RETRIEVER, RETRIEVER_KERNEL, RETRIEVER_LAYER, RETRIEVER_POOL, load_model
from featscope.streams import Streams

NEW, WINDOW = 9, 32
FEW: dict[str, Any] = {"pool": "avg", "kernel": 5}
"""How both libraries pool the scores of neighbours by themselves."""
MANY: dict[str, Any] = {"pool": "avg", "kernel": RETRIEVER_KERNEL}
OWN: dict[str, Any] = {"pool": RETRIEVER_POOL, "kernel": RETRIEVER_KERNEL}
"""As the small model's answers of several tokens need it; kvpress takes averages alone."""
NAMES = {"avg": "average", "max": "maximum"}
Ask = Callable[[Tensor, int], Tensor]
"""Tokens said to a prompt ``[1, token]`` whose last so many are the question."""


def accuracy(prompts: int, length: int, keeps: tuple[int, ...], seed: int) -> dict[str, dict[str, list[float]]]:
    """By method and tokens kept: share of right answers, and its interval."""
    model, tokenizer = load_model(RETRIEVER)
    haystack, streams = Haystack(tokenizer, read_texts(BUILT_IN)), Streams(seed, [0])
    hidden = []
    for number in range(prompts):
        draws = streams.at("reading", number)
        asked, *others = passwords(draws, 1 + OTHERS)
        hidden.append(haystack.hide(draws, length, float(draws.uniform(1)), asked, others))
    found: dict[str, dict[str, list[float]]] = {}
    for keep in keeps:
        for name, ask in _methods(model, keep).items():
            right = sum(_is_right(haystack, one, ask) for one in hidden)
            found.setdefault(name, {})[str(keep)] = [right / prompts, *interval_of_binomial(right, prompts, 0.95)]
    return found


@torch.no_grad()
def _is_right(haystack: Haystack, hidden: Hidden, ask: Ask) -> bool:
    said = ask(hidden.ids, len(haystack.encode(hidden.asked.question)))
    text = haystack.tokenizer.decode(said, skip_special_tokens=True).replace(".", " ")
    return normalised_score(text, hidden.asked.answer) == 1


def _methods(model: Any, keep: int) -> dict[str, Ask]:
    """Names begin with what is known when the prompt is reduced."""

    def whole(method: Any) -> Ask:
        def ask(ids: Tensor, question: int) -> Tensor:
            return method.generate(ids, torch.ones_like(ids), max_new_tokens=NEW, do_sample=False)[0, ids.shape[1] :]

        return ask

    def in_context(ids: Tensor, question: int) -> Tensor:
        context = gem.read(ids[:, :-question])
        return context.ask(ids[:, -question:], max_new_tokens=NEW, do_sample=False)[0, ids.shape[1] :]

    gem = GemFilter(model, RETRIEVER_LAYER, keep, WINDOW, **OWN)
    found = {"with the question | full attention": whole(FullCache(model))}
    for pooled in (FEW, MANY, OWN):
        kind = f"({pooled['kernel']}, {NAMES[pooled['pool']]})"
        its = GemFilter(model, RETRIEVER_LAYER, keep, WINDOW, **pooled)
        found[f"with the question | SnapKV {kind}, {OURS}"] = whole(snapkv(OURS, model, keep, WINDOW, **pooled))
        found[f"with the question | GemFilter {kind}, {OURS}"] = whole(its)
    found[f"document first | GemFilter {kind}, {OURS}: chooses anew"] = in_context
    if THEIRS not in LIBRARIES:
        return found
    from kvpress import ExpectedAttentionPress, KVzipPress, SnapKVPress

    def press(kind: Any, **options: Any) -> Callable[[int], Any]:
        return lambda length: kind(compression_ratio=ratio(keep, length), **options)

    presses = {
        f"SnapKV ({pooled['kernel']}, average)": press(SnapKVPress, window_size=WINDOW, kernel_size=pooled["kernel"])
        for pooled in (FEW, MANY)
    }
    presses["expected attention"] = press(ExpectedAttentionPress)
    for name, press_of in presses.items():
        found[f"with the question | {name}, {THEIRS}"] = whole(Pressed(model, press_of))
    for name, press_of in (presses | {"KVzip": press(KVzipPress)}).items():
        found[f"document first | {name}, {THEIRS}"] = _pressed_first(model, press_of)
    return found


def _pressed_first(model: Any, press_of: Callable[[int], Any]) -> Ask:
    """As kvpress' pipeline does: the document is pressed, then the question is read, then the answer is written."""
    from kvpress import KVPressTextGenerationPipeline

    class Tokens:
        """The pipeline wants a text; tokens are handed on as they are, and taken back undecoded."""

        def decode(self, ids: Tensor, **options: Any) -> str:
            return " ".join(str(int(one)) for one in ids)

    pipe = KVPressTextGenerationPipeline.__new__(KVPressTextGenerationPipeline)
    pipe.model, pipe.tokenizer = model, Tokens()

    def ask(ids: Tensor, question: int) -> Tensor:
        document = ids[:, :-question]
        given = {"context_ids": document, "questions_ids": [ids[:, -question:]]}
        said = pipe._forward(given, max_new_tokens=NEW, press=press_of(document.shape[1]))[0]
        return torch.tensor([int(one) for one in str(said).split()])

    return ask
