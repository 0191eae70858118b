"""Chosen tokens at their original places: what context and windows of the model must hold."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from hybrid_models import hybrid
from small_models import long_phi3, padded, prompt, tiny
from transformers import GenerationConfig

from featscope.language import Draft, FilterLayer, GemFilter, Prefill, ReadAgain, SpeculativePrefill
from featscope.language import method as methods_options
from featscope.language.propagation import read_again
from featscope.options import ConfigError

GREEDY = {"max_new_tokens": 6, "do_sample": False}
LONG = tiny(num_hidden_layers=2, max_position_embeddings=512)


def test_a_draft_with_a_longer_context_does_not_lead_beyond_the_models():
    its = SpeculativePrefill(tiny(), LONG, 16, window=4, look_ahead=2)
    for length in (251, 400):
        with pytest.raises(ConfigError, match=rf"{length} tokens and 6 are to come: allowed is at most 256"):
            its.generate(prompt(length), **GREEDY)
    assert its.generate(prompt(250), **GREEDY).shape == (1, 256)
    with pytest.raises(ConfigError, match="100 are to come"):
        its.generate(prompt(250), max_length=350, do_sample=False)
    anew = Prefill(tiny(), Draft(LONG, 16, look_ahead=2, window=4))  # whose places are 0 to 15
    assert anew.generate(prompt(400), **GREEDY).shape == (1, 406)


def test_angles_that_would_change_on_the_way_are_refused():
    """What is read has the angles of short texts, and new tokens would have those of long ones."""
    its = Prefill(long_phi3(64), FilterLayer(2, 16, 8), ReadAgain("original"))
    with pytest.raises(ConfigError, match=r"other rotary angles beyond 64 tokens, .* at most 4 new tokens\. Use Read"):
        its.generate(prompt(60), **GREEDY)
    for length in (58, 65):
        assert its.generate(prompt(length), **GREEDY).shape == (1, length + 6)
    whole = Prefill(long_phi3(64), FilterLayer(2, 60, 8), ReadAgain("original"))
    assert torch.equal(whole.generate(prompt(60), **GREEDY), long_phi3(64).generate(prompt(60), **GREEDY))


@pytest.mark.parametrize("name", ["gemma2", "llama4"])
def test_windows_that_would_reach_farther_back_than_they_do_are_refused(name):
    model, original = hybrid(name), ReadAgain("original")
    with pytest.raises(ConfigError, match=r"layer 0 of .* sees the last 16 of 66 tokens only \(6 .*ReadAgain\('new'\)"):
        Prefill(model, FilterLayer(3, 20, 4), original).generate(prompt(), **GREEDY)
    whole = Prefill(model, FilterLayer(3, 60, 4), original).generate(prompt(), **GREEDY)  # without gaps
    assert torch.equal(whole, model.generate(prompt(), **GREEDY))
    assert Prefill(model, FilterLayer(3, 6, 4), original).generate(prompt(10), **GREEDY).shape == (1, 16)
    assert Prefill(model, FilterLayer(3, 20, 4)).generate(prompt(), **GREEDY).shape == (1, 66)


@pytest.mark.parametrize("selector", [FilterLayer(1, 16, 0), Draft(LONG, 16, look_ahead=2, window=0)])
def test_without_the_last_token_new_ones_would_stand_inside_the_prompt(selector):
    with pytest.raises(ConfigError, match=r"window = 0 may drop .* allowed with positions = 'original' is a window >="):
        Prefill(tiny(), selector, ReadAgain("original"))
    assert Prefill(tiny(), selector).generate(prompt(), **GREEDY).shape == (1, 66)
    kept = replace(selector, force_keep=(-1,))
    assert Prefill(tiny(), kept, ReadAgain("original")).generate(prompt(), **GREEDY).kept[0, -1] == 59


def test_layers_that_see_no_single_token_have_no_window():
    its = Prefill(hybrid("qwen3-next"), FilterLayer(3, 20, 4), ReadAgain("original"))
    assert its.generate(prompt(), **GREEDY).shape == (1, 66)


@pytest.mark.parametrize("where", ["options", "model"])
@pytest.mark.parametrize("make", [partial(GemFilter, layer=2), partial(SpeculativePrefill, draft=LONG)])
def test_the_time_that_is_left_counts_from_the_beginning(make, where, monkeypatch):
    """The choice takes a minute: one token comes all the same, as where the model itself reads so long."""
    model = tiny()
    method = make(model, keep=16, window=4)
    began = iter((100.0, 160.0))
    monkeypatch.setattr(read_again, "monotonic", lambda: next(began))
    monkeypatch.setattr(methods_options, "monotonic", lambda: next(began))
    if where == "model":
        model.generation_config.max_time = 59.0
    asked = {"max_time": 59.0} if where == "options" else {}
    assert method.generate(prompt(), max_new_tokens=20, do_sample=False, **asked).shape == (1, 61)
    began = iter((100.0, 100.5))
    asked = {"max_time": 600.0} if where == "options" else {}
    model.generation_config.max_time = 600.0 if where == "model" else None
    assert method.generate(prompt(), max_new_tokens=20, do_sample=False, **asked).shape == (1, 80)


def test_a_time_that_is_none_is_no_limit_and_one_of_a_config_stays_there(monkeypatch):
    model = tiny()
    model.generation_config.max_time = 0.0
    gem = GemFilter(model, 2, 16, window=4)
    assert gem.generate(prompt(), **GREEDY).shape == (1, 61)
    assert gem.generate(prompt(), **GREEDY, max_time=None).shape == (1, 66)
    config = GenerationConfig(max_new_tokens=5, do_sample=False, max_time=600.0)
    seen, own = [], type(model).generate
    monkeypatch.setattr(type(model), "generate", lambda its, *a, **of: seen.append(of) or own(its, *a, **of))
    assert gem.generate(prompt(), generation_config=config).shape == (1, 65)
    assert "max_time" not in seen[0]
    assert 500 < seen[0]["generation_config"].max_time < 600
    assert config.max_time == 600


@pytest.mark.parametrize("token", [-1, None, 7, 100])
def test_rows_shorter_than_what_is_kept_need_no_padding_token(token):
    model, rows = tiny(), (prompt(60), prompt(12, 1))
    model.config.pad_token_id = model.generation_config.pad_token_id = token
    ids = padded(*rows)
    mask = (ids != 0).long()
    found = GemFilter(model, 1, 20, window=4).generate(ids, mask, **GREEDY)
    for row, alone in zip(found, rows, strict=True):
        assert torch.equal(row[60:], GemFilter(model, 1, 20, window=4).generate(alone, **GREEDY)[0, -6:])
