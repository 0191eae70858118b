"""Inverted exemplar labels as a questionnaire: what is computed of margins, by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_model import tiny_llama, tiny_tokenizer

from featscope.language.in_context import flipped_labels, load_examples, readers
from featscope.language.in_context.flipped_labels import FlippedLabels, rightness
from featscope.streams import Streams

RECIPE = FlippedLabels("follows", "sst2", "made-up", shots=4, flips=(0.0, 0.5, 1.0), items=3)


def test_every_item_inverts_labels_in_an_order_of_its_own(monkeypatch):
    seen = []
    monkeypatch.setattr(flipped_labels, "flipped", lambda shown, order, rate: seen.append((shown, order)) or shown)
    ask = replace(RECIPE, flips=(0.0,), items=8).asker(Streams(0, [0]))
    for item in range(8):
        ask(item)
    shown, orders = ({tuple(one) for one in of} for of in zip(*seen, strict=True))
    assert (len(shown), len(orders) > 3) == (8, True)


def test_a_model_that_finds_every_review_positive_is_right_on_those_that_are(monkeypatch):
    def likelihoods(model, tokenizer, prompts, words, special=True):
        return torch.tensor([[-1.0 if word == "positive" else -3.0 for word in words]] * len(prompts))

    monkeypatch.setattr(readers, "log_likelihoods", likelihoods)
    monkeypatch.setattr(flipped_labels, "load_once", lambda name, device: (tiny_llama(), tiny_tokenizer()))
    shown = []
    ask, asked = flipped_labels.ask, replace(RECIPE, learner="a model", items=12).asker(Streams(0, [0]))
    monkeypatch.setattr(flipped_labels, "ask", lambda *given: shown.append(given[2]) or ask(*given))
    found = [asked(item) for item in range(12)]
    truth = load_examples("sst2", "made-up", Streams(0, [0])).truth
    labels = [truth[query.texts] for query in shown[::3]]
    assert 0 < sum(labels) < 12
    assert [one["right"].tolist() for one in found] == [[label] * 3 for label in labels]
    assert all(one["margin"].tolist() == [2, 2, 2] for one in found)


def test_measures_by_hand(monkeypatch):
    """Three items, three shares; the second item is never right at the start, the third is a tie."""
    margins = torch.tensor([[1.0, -2.0, -1.0], [1.0, -1.0, 1.0], [0.0, 3.0, 0.0]], dtype=torch.float64)
    truth = [1, 0, 1]
    assert [rightness(*one).tolist() for one in zip(margins, truth, strict=True)] == [
        [1, 0, 0],
        [0, 1, 0],
        [0.5, 1, 0.5],
    ]

    def ask(item):
        right = rightness(margins[item], truth[item])
        return {"right": right, "margin": margins[item], "truth": truth[item], "parameters": 7, "apart": item / 8}

    monkeypatch.setattr(FlippedLabels, "asker", lambda self, streams: ask)
    evaluation = RECIPE.build(Streams(0, [0]))
    for step in range(RECIPE.steps):
        evaluation.advance(step)
    assert evaluation.status() == f"right {(0.5 + 2 / 3 + 1 / 6) / 3:.3f}"
    found = {name: one.values for name, one in evaluation.outcomes().items()}
    assert found["accuracy"].tolist() == [pytest.approx([0.5, 2 / 3, 1 / 6])]
    assert found["override"].tolist() == [pytest.approx([0.25 / 1.5, 1 / 1.5, 1.25 / 1.5])]
    assert found["says_one"].tolist() == [pytest.approx([2.5 / 3, 1 / 3, 1.5 / 3])]
    assert found["parameters"].tolist() == [7]
    assert found["apart"].tolist() == [0.25]
    assert float(found["slope"]) == pytest.approx((1 / 6 - 1 / 2) / 1)
    assert float(found["late_change"]) == pytest.approx(1 / 6 - 2 / 3)
    assert float(found["crossing"]) == pytest.approx(0.5 + 0.5 * (1 / 6) / (1 / 2))
    first = 1 / (1 + np.exp([-1.0, 1.0, 0.0]))
    assert float(found["likely"][0, 0]) == pytest.approx(first.mean())
    assert found["margin"].tolist() == [margins.tolist()]
    assert found["truth"].tolist() == [[1.0, 0.0, 1.0]]
