"""The model that ships."""

import json
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch
from retriever_task import TEXTS, WORDS
from trainings import trainings

from featscope.language import FullCache, GemFilter, SnapKV
from featscope.language.haystack import Haystack, passwords
from featscope.language.load import (
    RETRIEVER_KERNEL,
    RETRIEVER_LAYER,
    RETRIEVER_LENGTH,
    RETRIEVER_POOL,
    layers_of,
    load_model,
)
from featscope.language.retriever.data import Task
from featscope.language.retriever.wordings import HELD_OUT
from featscope.streams import Streams

WEIGHTS = Path(str(files("featscope_retriever") / "weights"))


def test_what_ships_is_small_and_says_how_it_was_made():
    assert sum(file.stat().st_size for file in WEIGHTS.iterdir()) < 20e6
    for made in trainings(json.loads((WEIGHTS / "training.json").read_text())):
        assert made["recipe"]["stages"][-1]["length"] == RETRIEVER_LENGTH
        assert RETRIEVER_LAYER < layers_of("retriever") == made["recipe"]["layers"]


def test_the_shipped_model_answers():
    model, tokenizer = load_model("retriever")
    haystack = Haystack(tokenizer, TEXTS)
    right = 0
    for number in range(40):
        draws = Streams(0, [0]).at("shipped", number)
        asked, *others = passwords(draws, 4)
        hidden = haystack.hide(draws, 256, float(draws.uniform(1)), asked, others)
        with torch.no_grad():
            out = model.generate(hidden.ids, max_new_tokens=9, do_sample=False)
        right += tokenizer.decode(out[0, 256:]).strip().startswith(asked.answer)
    assert right >= 36


@pytest.mark.long
def test_the_shipped_model_is_read_in_part_for_words_that_it_never_saw():
    model, tokenizer = load_model("retriever")
    of, rng = Task(tokenizer, TEXTS * 5, WORDS[1], HELD_OUT), np.random.default_rng(0)
    wide = {"kernel": RETRIEVER_KERNEL, "pool": RETRIEVER_POOL}
    methods = {
        "full attention": FullCache(model),
        "GemFilter": GemFilter(model, RETRIEVER_LAYER, 64, 16, **wide),
        "SnapKV": SnapKV(model, 64, 16, **wide),
        "GemFilter of 5 neighbours": GemFilter(model, RETRIEVER_LAYER, 64, 16),
    }
    right = dict.fromkeys(methods, 0)
    for _ in range(20):
        tokens, answer, *_ = of.judged("words", rng, 512)
        first, end = np.flatnonzero(answer)[[0, -1]]
        ids = torch.from_numpy(tokens[:first])[None]
        for name, method in methods.items():
            out = method.generate(ids, torch.ones_like(ids), max_new_tokens=int(end + 1 - first), do_sample=False)
            right[name] += out[0, first:].tolist() == tokens[first : end + 1].tolist()
    of_five = right.pop("GemFilter of 5 neighbours")  # which hold the beginning of an answer alone
    assert min(right.values()) >= 18, right
    assert of_five < right["GemFilter"], of_five
