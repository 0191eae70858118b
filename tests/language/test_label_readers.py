"""Small models that read labels: what they are trained on, and that a trained one can be asked by the study."""

import json
from pathlib import Path

import pytest
import torch

from featscope.language.in_context import parse
from featscope.language.in_context.label_readers import (
    MADE_UP_WORDS,
    TASK,
    Plan,
    Reviews,
    build,
    loss_and_right,
    train,
)
from featscope.language.in_context.made_up import _BLAME, _PEOPLE, _PRAISE
from featscope.language.in_context.readers import ModelReader
from featscope.language.load import load_model
from featscope.options import ConfigError


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    return Reviews(Plan(tmp_path_factory.mktemp("out"), noise=0.0))


def meant(text: str) -> int:
    (found,) = [word in _PRAISE for word in text.split() if word in _PRAISE + _BLAME]
    return int(found)


@pytest.mark.parametrize(("kind", "agreeing"), [("prior", 17), ("inverted", 0)])
def test_labels_mean_what_they_say_or_the_opposite(reviews, kind, agreeing):
    batch = reviews.batch(0, 4, kind)
    assert batch.labels.sum(1).tolist() == [17] * 4
    for ids in batch.ids:
        text = reviews.tokenizer.decode(ids, skip_special_tokens=True)
        words = [word for word in text.split() if word in TASK.words]
        judged = [meant(part) for part in text.split("sentence")[1:]]
        assert sum(TASK.words[one] == word for one, word in zip(judged, words, strict=True)) == agreeing


def test_made_up_words_stand_for_both_in_one_sequence(reviews):
    batch = reviews.batch(0, 4, "made-up")
    for ids, labels in zip(batch.ids, batch.labels, strict=True):
        words = reviews.tokenizer.convert_ids_to_tokens(ids[labels])
        assert len(words) == 17
        assert len(set(words)) == 2
        assert set(words) <= set(MADE_UP_WORDS)


def test_the_tokenizer_knows_all_of_a_prompt(reviews):
    assert reviews.tokenizer.unk_token_id not in reviews.batch(0, 8).ids
    assert torch.equal(reviews.batch(3, 2).ids, reviews.batch(3, 2).ids)
    assert not torch.equal(reviews.batch(3, 2).ids, reviews.batch(4, 2).ids)


def test_other_sentences_stand_beside_reviews(reviews, tmp_path):
    beside = Reviews(Plan(tmp_path, beside=0.5, noise=0.0))
    batch = beside.batch(0, 20, "prior")
    words = [word for ids in batch.ids for word in beside.tokenizer.convert_ids_to_tokens(ids)]
    assert beside.tokenizer.unk_token not in words
    assert 130 < sum(words.count(name) for name in _PEOPLE) < 210, "half of 340"
    assert sum(words.count(name) for name in TASK.words) == 340
    assert not set(_PEOPLE) & set(reviews.tokenizer.get_vocab()), "nothing else changes where there are none"


def test_only_labels_count(reviews):
    model, batch = build(reviews.plan, len(reviews.tokenizer)), reviews.batch(0, 3)
    loss, right = loss_and_right(model, batch)
    logits = model(batch.ids, attention_mask=(batch.ids > 0).long()).logits.log_softmax(-1)
    places = batch.labels.nonzero().tolist()
    expected = -sum(logits[row, at - 1, batch.ids[row, at]] for row, at in places) / len(places)
    torch.testing.assert_close(loss, expected)
    last = [max(at for of, at in places if of == row) for row in range(3)]
    said = [logits[row, at - 1].argmax() == batch.ids[row, at] for row, at in enumerate(last)]
    assert right.tolist() == [float(one) for one in said]


def test_a_trained_model_can_be_asked(tmp_path):
    train(Plan(tmp_path, width=8, layers=1, steps=3, rows=2))
    made = json.loads((tmp_path / "training.json").read_text())
    assert made["recipe"]["width"] == 8
    assert set(made["history"][-1]) >= {"prior", "inverted", "made-up", "loss"}
    model, tokenizer = load_model(str(tmp_path))
    assert model.num_parameters() == made["parameters"]
    prompt = "sentence: the plot is dull .\nThe answer is negative.\n\nsentence: the plot is lovely .\nThe answer is"
    assert parse(prompt).exemplars == (("sentence: the plot is dull .", "negative"),)
    assert ModelReader(model, tokenizer, TASK.words).scores([prompt]).isfinite().all()


def test_a_training_that_diverges_writes_nothing(tmp_path):
    with pytest.raises(
        ConfigError, match=r"lr = 1e\+20 is out of range: allowed is one at which the loss stays finite; step \d is"
    ):
        train(Plan(tmp_path / "out", width=8, layers=1, steps=8, rows=2, lr=1e20))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"out": Path("nowhere/out")}, "a folder, no file, within one that is there"),
        ({"out": Path(__file__)}, "a folder, no file, within one that is there"),
        ({"heads": 3}, "heads = 3"),
        ({"inverted": 0.8, "made_up": 0.3}, "inverted = 0.8"),
        ({"steps": 0}, "steps = 0"),
        ({"beside": 2.0}, "beside = 2.0"),
        ({"rows": 0}, "rows = 0"),
        ({"shots": 4000}, "shots = 4000 .* < 4000"),
        ({"lr": float("nan")}, "lr = nan .* finite"),
    ],
)
def test_wrong_options_are_named(tmp_path, options, problem):
    with pytest.raises(ConfigError, match=problem):
        Plan(**{"out": tmp_path} | options)
