"""Choosing the filter layer."""

import numpy as np
import pytest
import torch
from small_models import tiny, word_tokenizer

from featscope.language import GemFilter, choose_layer
from featscope.language.layers import LayerChoice, choices_of_all_layers, needle_distance, needle_span
from featscope.language.prompt import Prompt
from featscope.options import ConfigError


def text(length: int, seed: int) -> str:
    words = torch.randint(3, 100, (length,), generator=torch.Generator().manual_seed(seed))
    return " ".join(f"w{int(word)}" for word in words)


def test_distances_are_counted_from_either_end():
    needle = range(10, 13)
    assert needle_distance(torch.tensor([2, 7]), needle) == 3
    assert needle_distance(torch.tensor([2, 15]), needle) == 3
    assert needle_distance(torch.tensor([2, 12]), needle) == 0
    assert needle_distance(torch.tensor([9]), needle) == 1


def test_a_needles_tokens_are_those_that_touch_it():
    ids, span = needle_span(word_tokenizer(), "w5 w6 w7 w8 w9", "w7 w8")
    assert ids.tolist() == [[5, 6, 7, 8, 9]]
    assert span == range(2, 4)
    with pytest.raises(ConfigError, match="not in its prompt"):
        needle_span(word_tokenizer(), "w5 w6", "w7")


def test_one_pass_gives_every_layers_choice():
    model = tiny()
    ids = torch.randint(3, 100, (2, 50), generator=torch.Generator().manual_seed(0))
    all_layers = choices_of_all_layers(model, Prompt(ids, torch.ones_like(ids, dtype=torch.bool)), 12, window=0)
    assert list(all_layers) == [0, 1, 2, 3]
    for layer, chosen in all_layers.items():
        assert torch.equal(chosen, GemFilter(model, layer, 12, window=0).select(ids))


def test_the_first_layer_that_covers_is_chosen():
    model, tokenizer = tiny(), word_tokenizer()
    examples = [(text(60, seed), " ".join(text(60, seed).split()[20:23])) for seed in range(4)]
    found = choose_layer(model, tokenizer, examples, keep=59, window=0)
    assert found.layer == 0
    assert (found.distance == 0).all()
    few = choose_layer(model, tokenizer, examples, keep=3, window=0)
    assert few.layer is None
    assert few.distance.max() > 0
    assert len(few.figure().axes) == 2


def test_a_layer_must_hold_in_enough_examples(monkeypatch):
    from featscope.language import layers

    rows = iter([[9, 0, 4, 0, 0], [9, 5, 4, 0, 0], [9, 5, 4, 0, 3]])
    monkeypatch.setattr(layers, "_distances", lambda *given: next(rows))
    found = choose_layer(tiny(), word_tokenizer(), [("w5", "w5")] * 3, keep=4, window=0, stable=0.6)
    assert found.layer == 3
    np.testing.assert_allclose(found.covered, [0, 1 / 3, 0, 1, 2 / 3])


@pytest.mark.parametrize(
    ("keep", "window", "message"),
    [
        (60, 0, "keep = 60 keeps all of a prompt of 60 tokens: allowed is"),
        (40, 38, r"ends in the last 38 tokens of its prompt, .* smaller window than 38"),
    ],
)
def test_what_every_layer_would_cover_is_refused(keep, window, message):
    example = (text(60, 0), " ".join(text(60, 0).split()[20:23]))
    with pytest.raises(ConfigError, match=message):
        choose_layer(tiny(), word_tokenizer(), [example], keep=keep, window=window)
    choose_layer(tiny(), word_tokenizer(), [example], keep=40, window=37)


def test_no_examples_are_refused():
    with pytest.raises(ConfigError, match="one pair"):
        choose_layer(tiny(), word_tokenizer(), [], keep=40)


def test_a_choice_draws_itself_even_without_a_layer():
    assert LayerChoice(None, np.ones((2, 3), dtype=int), 0.9).figure().axes
