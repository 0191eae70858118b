"""How often the small model answers what it never saw, and what it did: shares of prompts answered whole."""

from pathlib import Path

import numpy as np
from transformers import LlamaForCausalLM

from benchmarks.marked import table
from featscope.language.load import load_model
from featscope.language.retriever.data import KINDS, Kind, Task, together
from featscope.language.retriever.model import accuracy
from featscope.language.retriever.texts import read_essays, split_words
from featscope.language.retriever.wordings import HELD_OUT, TRAINED, Wordings

LENGTHS = (128, 512, 1024)
LONG: tuple[Kind, ...] = ("identifiers",)  # whose prompts do not fit into the shortest
PROMPTS = 200
SENTENCES, QUESTIONS = ("nouns", "verbs", "of_nouns", "of_verbs"), ("ask_nouns", "ask_verbs", "openers")


def seen(*sections: str) -> Wordings:
    """Those held out, but for some sections, which are of those trained on."""
    return HELD_OUT._replace(**{name: getattr(TRAINED, name) for name in sections})


COLUMNS: dict[str, tuple[Kind, Wordings]] = {
    **{kind: (kind, HELD_OUT) for kind in KINDS},
    "unseen sentences, questions trained on": ("questions", seen(*QUESTIONS)),
    "sentences trained on, unseen questions": ("questions", seen(*SENTENCES)),
    "both trained on": ("questions", seen(*SENTENCES, *QUESTIONS)),
}


def table_of(essays: Path, model: str = "retriever", prompts: int = PROMPTS) -> str:
    """A row for each length, in essays and with words of keys and values that were not trained on."""
    network, tokenizer = load_model(model)
    assert isinstance(network, LlamaForCausalLM)
    trained, others = read_essays(essays)
    _, words = split_words(trained)
    rows = []
    for length in LENGTHS:
        row = [f"{length:,}"]
        for kind, wordings in COLUMNS.values():
            if kind in LONG and length == min(LENGTHS):
                row.append("")
                continue
            task = Task(tokenizer, others, words, wordings)
            rng = np.random.default_rng([2, length, KINDS.index(kind)])
            row.append(f"{accuracy(network, together([task.judged(kind, rng, length) for _ in range(prompts)])):.2f}")
        rows.append(row)
    return table(["tokens", *COLUMNS], rows)
