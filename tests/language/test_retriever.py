"""The retrieval task, its training, and the model that ships."""

import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from featscope.language.haystack import Haystack, passwords, read_texts
from featscope.language.load import RETRIEVER_LENGTH, load_model
from featscope.language.retriever import checkpoint
from featscope.language.retriever import train as module
from featscope.language.retriever.passwords import ADJECTIVES, CITIES, NOUNS
from featscope.language.retriever.prompts import Prompts, read_essays, train_tokenizer
from featscope.language.retriever.recipe import TrainingPlan, TrainingStage
from featscope.language.retriever.train import train
from featscope.options import ConfigError
from featscope.streams import Streams

WEIGHTS = Path(str(files("featscope.language") / "retriever" / "weights"))
TEXTS = read_texts("built-in")


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(TEXTS, 1024)


def test_cities_and_words_are_single_tokens(tokenizer):
    assert len(set(CITIES)) == 64
    for words in (CITIES, ADJECTIVES, NOUNS):
        assert all(len(tokenizer(" " + word)["input_ids"]) == 1 for word in words)


@pytest.mark.parametrize(("needles", "questions", "length"), [(1, 1, 40), (4, 1, 96), (6, 4, 200)])
def test_sequences_ask_for_what_they_hide(tokenizer, needles, questions, length):
    prompts = Prompts(tokenizer, TEXTS)
    for seed in range(5):
        tokens, answers = prompts.sequence(np.random.default_rng(seed), length, needles, questions)
        assert len(tokens) == length
        text = tokenizer.decode(tokens)
        assert text.count("opens the gate") == needles
        asked = tokenizer.decode(tokens[answers]).split()
        assert len(asked) == 2 * questions
        for adjective, noun in zip(asked[::2], asked[1::2], strict=True):
            assert f"{adjective} {noun} opens the gate" in text


def test_copies_repeat_and_only_what_repeats_is_an_answer(tokenizer):
    tokens, answers = Prompts(tokenizer, TEXTS).copies(np.random.default_rng(0), 3, 64)
    for row, mark in zip(tokens, answers, strict=True):
        first = int(mark.nonzero()[0])
        period = first - 2
        assert torch.equal(row[first:], row[first - period : 64 - period])
        assert mark[first:].all()


def test_too_short_a_sequence_is_refused(tokenizer):
    with pytest.raises(ValueError, match="too short for 4 needles"):
        Prompts(tokenizer, TEXTS).sequence(np.random.default_rng(0), 30, 4, 1)


def recipe(folder: Path, essays: Path) -> TrainingPlan:
    stages = (TrainingStage(64, 2, copies=True), TrainingStage(96, 2))
    return TrainingPlan(
        essays=essays, out=folder, vocabulary=1024, width=32, layers=1, heads=2, stages=stages, tokens=256
    )


@pytest.fixture
def essays(tmp_path):
    folder = tmp_path / "essays"
    folder.mkdir()
    for i in range(7):
        (folder / f"{i}.txt").write_text(TEXTS[0])
    return folder


def test_another_recipe_does_not_go_on(tmp_path, essays, monkeypatch):
    monkeypatch.setattr(module, "accuracy", lambda *given: 0.5)
    monkeypatch.setattr(module, "_CHECKPOINT", 1)
    monkeypatch.setattr(module, "cores", lambda: 1)
    first = recipe(tmp_path / "out", essays)
    monkeypatch.setattr(Path, "unlink", lambda self, **options: None)
    train(first)
    with pytest.raises(ConfigError, match="by another recipe"):
        train(replace(first, lr=1e-3))


@pytest.mark.parametrize(
    ("options", "message"), [({"tokens": 10}, ">= 96"), ({"stages": ()}, "one stage"), ({"context": 10}, ">= 96")]
)
def test_wrong_recipes_say_what_is_allowed(options, message, essays):
    with pytest.raises(ConfigError, match=message):
        replace(recipe(Path("out"), essays), **options)


def test_training_goes_on_where_it_was_stopped(tmp_path, essays, monkeypatch):
    to_train, held_out = read_essays(essays)
    assert (len(to_train), len(held_out)) == (5, 2)
    monkeypatch.setattr(module, "accuracy", lambda *given: 0.5)
    monkeypatch.setattr(module, "cores", lambda: 1)
    train(recipe(tmp_path / "whole", essays))

    save, saved = checkpoint.save, []

    def stopping(path, model, optimizer, recipe, step, history):
        save(path, model, optimizer, recipe, step, history)
        saved.append(step)
        if step == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint, "save", stopping)
    monkeypatch.setattr(module, "_CHECKPOINT", 2)
    with pytest.raises(KeyboardInterrupt):
        train(recipe(tmp_path / "again", essays))
    train(recipe(tmp_path / "again", essays))
    assert saved == [2, 4]
    whole, again = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "again"))
    assert all(torch.equal(whole[name], again[name]) for name in whole)
    assert not (tmp_path / "again" / "checkpoint.safetensors").exists()


def test_the_shipped_weights_are_those_of_the_recipe(essays):
    assert sum(file.stat().st_size for file in WEIGHTS.iterdir()) < 20e6
    about = json.loads((WEIGHTS / "training.json").read_text())
    default = TrainingPlan(essays=essays, out=Path())
    assert [TrainingStage(**stage) for stage in about["recipe"].pop("stages")] == list(default.stages)
    own = {name: getattr(default, name) for name in about["recipe"] if name not in ("essays", "out")}
    assert {name: about["recipe"][name] for name in own} == own
    assert about["history"][-1]["step"] == default.steps
    assert default.stages[-1].length == RETRIEVER_LENGTH


@pytest.mark.parametrize("length", [128, RETRIEVER_LENGTH])
def test_the_shipped_model_answers(length):
    """More than 95 of 100 prompts. One that answers 99.5 of 100 fails this in one of 6,000 seeds; this one is fixed."""
    model, tokenizer = load_model("retriever")
    haystack = Haystack(tokenizer, TEXTS)
    right = 0
    for number in range(100):
        draws = Streams(0, [0]).at("shipped", number)
        asked, *others = passwords(draws, 4)
        hidden = haystack.hide(draws, length, float(draws.uniform(1)), asked, others)
        with torch.no_grad():
            out = model.generate(hidden.ids, max_new_tokens=2, do_sample=False)
        right += tokenizer.decode(out[0, length:]).strip() == asked.answer
    assert right > 95


def test_stages_are_in_order(essays):
    stages = (TrainingStage(64, 2), TrainingStage(96, 1))
    shortened = TrainingPlan(essays=essays, out=Path(), stages=stages)
    assert [stage.length for stage in shortened.schedule()] == [64, 64, 96]
