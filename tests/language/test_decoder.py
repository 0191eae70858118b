"""What versions of transformers call a cache, and models that are spread over devices."""

from types import SimpleNamespace

import pytest
import torch
from small_models import long_phi3, padded, prompt, tiny, word_tokenizer
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    FalconConfig,
    FalconForCausalLM,
    FalconH1Config,
    FalconH1ForCausalLM,
)

from featscope.language import Draft, FastKV, FullCache, GemFilter, SnapKV, SpeculativePrefill, choose_layer, decoder
from featscope.language.decoder import cache_argument, cache_of, require_gaps
from featscope.language.prompt import Prompt
from featscope.language.propagation import keep_hidden, read_again
from featscope.options import ConfigError


def test_a_cache_is_given_by_the_name_that_is_asked_for():
    assert cache_argument(lambda ids, cache=None: None) == "cache"
    assert cache_argument(lambda ids, past_key_values=None: None) == "past_key_values"
    assert cache_argument(lambda ids, **others: None) == "past_key_values"


def test_a_cache_is_found_by_either_name():
    assert cache_of(SimpleNamespace(cache=3)) == 3
    assert cache_of(SimpleNamespace(past_key_values=3)) == 3
    assert cache_of(torch.ones(2)) is None


def methods_of(model):
    return [FullCache(model), GemFilter(model, 2, 16, window=4), SnapKV(model, 16, window=4)]


def test_a_batch_in_which_rows_would_get_angles_of_others_is_refused():
    model, short, long = long_phi3(64), prompt(40), prompt(80, 1)
    greedy = {"max_new_tokens": 4, "do_sample": False}
    meets = padded(prompt(58), prompt(62, 1))  # on the way, but for GemFilter, which reads 16 tokens
    for method in methods_of(model):
        for batch in (padded(short, long), *([] if isinstance(method, GemFilter) else [meets])):
            with pytest.raises(
                ConfigError, match=r"of kind 'longrope', which .* by the longest: .* Ask them one by one"
            ):
                method.generate(batch, **greedy)
        for rows in ((prompt(70), long), (short, prompt(50, 1))):
            alone = [method.generate(row, **greedy)[0, -4:] for row in rows]
            assert torch.equal(method.generate(padded(*rows), **greedy)[:, -4:], torch.stack(alone))


def test_angles_that_depend_on_what_was_read_before_are_refused():
    model = tiny(rope_parameters={"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e4}, max_position_embeddings=64)
    for method in methods_of(model)[1:]:
        with pytest.raises(ConfigError, match=r"'dynamic', which .* was read before: allowed are fewer than 64 tokens"):
            method.generate(prompt(64), max_new_tokens=2)
    for method in methods_of(model):
        first = method.generate(prompt(50), max_new_tokens=20, do_sample=False)  # full attention: into longer angles
        assert torch.equal(method.generate(prompt(50), max_new_tokens=20, do_sample=False), first)
    assert FullCache(model).generate(prompt(80), max_new_tokens=2).shape == (1, 82), "the model's own"


def test_prompts_beyond_the_context_are_refused_by_all_methods():
    for method in methods_of(tiny()):
        with pytest.raises(ConfigError, match=r"prompt has 257 tokens.*: allowed is at most 256, the context"):
            method.generate(prompt(257), max_new_tokens=2)
    assert FullCache(tiny()).generate(prompt(250), max_new_tokens=20).shape[1] <= 270, "which may end before"
    padding = torch.nn.functional.pad(prompt(60), (240, 0))
    assert FullCache(tiny()).generate(padding, max_new_tokens=2).shape == (1, 302), "which takes no place"


def test_full_attention_reads_all_where_positions_are_not_limited():
    sizes = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    ends = {"bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0}
    falcon = FalconForCausalLM(FalconConfig(**sizes, **ends, alibi=True, max_position_embeddings=64)).eval()
    bloom = BloomForCausalLM(BloomConfig(vocab_size=100, hidden_size=32, n_layer=2, n_head=4, **ends)).eval()
    for model in (falcon, bloom):
        assert FullCache(model).generate(prompt(80), max_new_tokens=2).shape == (1, 82)


def test_flash_attention_that_takes_gaps_for_ends_of_texts_is_refused(monkeypatch):
    one, two = (Prompt(ids, torch.ones_like(ids, dtype=torch.bool)) for ids in (prompt(), prompt().repeat(2, 1)))
    flash, other = tiny(), tiny()
    for model, name in ((flash, "flash_attention_2"), (other, "sdpa")):
        model.config = SimpleNamespace(_attn_implementation=name)
    require_gaps(flash, one, 16)
    monkeypatch.setattr(decoder, "_VERSION", "5.14.1")
    for model, asked, read in ((other, one, 16), (flash, two, 16), (flash, one, 60)):
        require_gaps(model, asked, read)
    with pytest.raises(ConfigError, match=r"'flash_attention_2' ends in an error .* 5\.14\.1, .* 5\.15 or"):
        require_gaps(flash, one, 16)
    for part in (keep_hidden, read_again):
        monkeypatch.setattr(part, "require_gaps", lambda _, *asked: require_gaps(flash, *asked))
    for method in (FastKV(tiny(), 2, 16, 8, 4), SpeculativePrefill(tiny(), tiny(), 16, window=4)):
        with pytest.raises(ConfigError, match="positions with gaps"):
            method.generate(prompt(), max_new_tokens=2)
    assert GemFilter(tiny(), 2, 16, window=4).generate(prompt(), max_new_tokens=2).shape == (1, 62), "it has none"


CHOOSING = {
    "a filter layer": lambda model: GemFilter(model, 2, 16, window=4),
    "a cache that drops": lambda model: SnapKV(model, 16, window=4),
    "a draft": lambda model: Draft(model, 16, window=4),
    "a choice of layers": lambda model: choose_layer(model, word_tokenizer(), [("w3 w4 w5 w6 w7", "w4")], 2, window=1),
}


@pytest.mark.parametrize("way", CHOOSING)
def test_what_chooses_wants_a_model_on_one_device(way):
    model = tiny()
    for one in ({"": 0}, {"model.embed_tokens": 0, "model.layers": "cpu", "lm_head": "cuda:0"}, {"": "cpu"}):
        model.hf_device_map = one
        CHOOSING[way](model)
    model.hf_device_map = {"model.embed_tokens": 0, "model.layers": 1, "lm_head": "disk"}
    with pytest.raises(ConfigError, match="LlamaForCausalLM is spread over 2 devices: allowed is a model on one"):
        CHOOSING[way](model)
    assert FullCache(model).reads_once


@pytest.mark.parametrize("way", CHOOSING)
def test_what_chooses_wants_all_heads_in_one_place(way):
    model = tiny()
    model._tp_size = 1  # as ``tp_plan="auto"`` leaves it on one
    CHOOSING[way](model)
    model._tp_size = 2
    with pytest.raises(ConfigError, match=r"split over 2 devices by tensor parallelism, .* Load it without tp_plan"):
        CHOOSING[way](model)
    assert FullCache(model).reads_once


def of_unknown_kind():
    """A model whose layers are of attention and of a state at once."""
    sizes = {"vocab_size": 100, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 256}
    state = {"mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_n_groups": 1, "mamba_d_state": 8}
    return FalconH1ForCausalLM(FalconH1Config(**sizes, **heads, **state, eos_token_id=None, pad_token_id=0)).eval()


GREEDY = {"max_new_tokens": 2, "do_sample": False}
SEEING = {
    "a filter layer": lambda model: GemFilter(model, 1, 16, window=4),
    "a cache that drops": lambda model: SnapKV(model, 16, window=4).generate(prompt(), **GREEDY),
    "a draft": lambda model: SpeculativePrefill(tiny(), model, 16, window=4).generate(prompt(), **GREEDY),
    "a choice of layers": CHOOSING["a choice of layers"],
}


@pytest.mark.parametrize("way", SEEING)
def test_layers_of_which_it_is_not_known_what_they_see_are_named(way):
    model = of_unknown_kind()
    with pytest.raises(ConfigError, match=r"of kind hybrid, and what it sees is not known: .* \(FullCache\)"):
        SEEING[way](model)
    assert torch.equal(FullCache(model).generate(prompt(), **GREEDY), model.generate(prompt(), **GREEDY))
