"""What methods make of prompts: side by side, RULER's tasks, and questions on documents."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.marked import table
from benchmarks.reading import Reading, table_of
from featscope.language.examples import Example, write_examples
from featscope.language.load import RETRIEVER, RETRIEVER_LAYER, load_model, load_tokenizer
from featscope.language.ruler_prompts import Ruler
from featscope.language.ruler_prompts import prompts as of_ruler
from featscope.language.tune import TunePrompt, tune
from featscope.language.tune_results import Tried

RULER_KEEPS, LENGTH = (96, 256), 900
DOCUMENTS, QUESTIONS = 10, 4
DOCUMENT_KEEPS = (64, 128)
NEW_TOKENS = 64
LABELS = {"full": "full attention", "gemfilter": "GemFilter", "snapkv": "SnapKV", "promptdistill": "PromptDistill"}


def side_by_side() -> str:
    """Answers of the small model, and costs on a random one."""
    return table_of(Reading())


def ruler() -> str:
    """A row a task, and all of them; with another pooling, where values have many tokens."""
    tokenizer = load_tokenizer(RETRIEVER)
    examples = of_ruler(Ruler(Path("not-written.jsonl"), length=LENGTH), tokenizer)
    tried = _tried(examples, ("gemfilter", "snapkv", "promptdistill"), RULER_KEEPS)
    shown = [way for way in tried if way.keep in (None, RULER_KEEPS[0])]
    rows = [
        [f"`{task}`", *(_share(way.of_task(examples, task)) for way in shown)]
        for task in dict.fromkeys(one.task for one in examples)
    ]
    rows.append([f"all {len(examples)}", *map(_share, shown)])
    more = [way for way in tried if way.keep in (None, RULER_KEEPS[1])]
    rows.append([f"all, {RULER_KEEPS[1]} kept", *map(_share, more)])
    wide = [one for one in examples if one.task in ("niah_single_3", "niah_multikey_3")]
    pooled = _tried(wide, ("gemfilter", "snapkv", "promptdistill"), RULER_KEEPS[1:], kernel=127, pool="max")
    rows.append([f"identifiers, {RULER_KEEPS[1]} kept, maximum of 127 neighbours", *map(_share, pooled)])
    return table(["task", *(LABELS[way.method] for way in shown)], rows)


def documents() -> str:
    """Several questions on one document: right answers, and seconds to the first token in full attention's."""
    tokenizer = load_tokenizer(RETRIEVER)
    asked = {"tasks": ("niah_multikey_1",), "examples": DOCUMENTS, "questions": QUESTIONS}
    examples = of_ruler(Ruler(Path("not-written.jsonl"), length=LENGTH, **asked), tokenizer)
    tried = _tried(examples, ("gemfilter", "snapkv"), DOCUMENT_KEEPS)
    rows = [
        [LABELS[way.method], str(way.keep or "all"), _share(way), f"{way.first / tried[0].first:.2f}"] for way in tried
    ]
    return table(["method", "kept", "right", "time to the first token, of full's"], rows)


def _tried(
    examples: Sequence[Example], methods: tuple[str, ...], keeps: tuple[int, ...], **pooling: Any
) -> list[Tried]:
    """As `featscope tune-prompt` measures them."""
    model, tokenizer = load_model(RETRIEVER)
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "examples.jsonl"
        write_examples(data, examples)
        chosen = {"methods": methods, "layers": (RETRIEVER_LAYER,), "keeps": keeps, "max_new_tokens": NEW_TOKENS}
        return tune(TunePrompt(data, **chosen, **pooling), model, tokenizer, examples)


def _share(way: Tried) -> str:
    """Right answers, and parts where these are more."""
    low, high = way.interval
    parts = f", parts {way.parts:.2f}" if way.parts > way.share else ""
    return f"{way.share:.2f} ({low:.2f} to {high:.2f}){parts}"
