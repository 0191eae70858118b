"""SnapKV, H2O and GemFilter-One-Run."""

import pytest
import torch
from small_models import ARCHITECTURES, padded, prompt, tiny
from transformers import GenerationConfig

from featscope.language import H2O, AllQueries, GemFilter, GemFilterOneRun, SnapKV
from featscope.language.decoder import cache_of
from featscope.language.first_pass import attention_at
from featscope.language.partial_cache import Dropped, PartialLayer
from featscope.language.prompt import Prompt
from featscope.options import ConfigError

GREEDY = {"max_new_tokens": 6, "do_sample": False}
METHODS = {
    "snapkv": lambda model, keep: SnapKV(model, keep, window=8),
    "h2o": lambda model, keep: H2O(model, keep, recent=8),
    "one-run": lambda model, keep: GemFilterOneRun(model, 2, keep, window=0),
}


@pytest.mark.parametrize("method", METHODS)
def test_keeping_everything_is_the_models_own_generation(method):
    model = tiny()
    full = model.generate(prompt(), **GREEDY)
    assert torch.equal(METHODS[method](model, 60).generate(prompt(), **GREEDY), full)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["llama", "qwen3", "phi3"])
def test_rows_of_a_padded_batch_are_those_of_prompts_alone(name, method):
    evicting = METHODS[method](tiny(name), 16)
    rows = [prompt(60), prompt(40, 1), prompt(12, 2)]
    batch = evicting.generate(padded(*rows), **GREEDY)
    for i, row in enumerate(rows):
        assert torch.equal(batch[i, 60:], evicting.generate(row, **GREEDY)[0, row.shape[1] :])


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_new_tokens_see_what_was_kept_at_its_own_positions(name):
    """The same as the model with everything else masked: eviction only saves memory."""
    if name == "gemma2":
        pytest.skip("its masks differ between layers")
    model = tiny(name)
    out = GemFilterOneRun(model, 2, 16, window=0).generate(prompt(), **GREEDY)
    first = model(prompt()).logits[:, -1].argmax(-1)
    assert out[0, 60] == first
    visible = torch.zeros(61, dtype=torch.bool)
    visible[out.kept[2, 0, 0]] = True
    visible[60] = True
    mask = torch.ones(61, 61, dtype=torch.bool).tril()
    mask[60] = visible
    ids = out[:, :61]
    logits = model(ids, attention_mask=mask[None, None], position_ids=torch.arange(61)[None]).logits
    assert out[0, 61] == logits[0, -1].argmax()


def test_caches_hold_what_is_kept_and_new_tokens():
    for method in METHODS.values():
        out = method(tiny(), 16).generate(prompt(), return_dict_in_generate=True, **GREEDY)
        assert [layer.keys.shape[2] for layer in cache_of(out).layers] == [21] * 4
        assert out.kept.shape == (4, 1, 2, 16)
        assert (out.kept.diff(dim=-1) > 0).all()


def test_snapkv_keeps_the_window_and_what_it_attends_to_most():
    model = tiny()
    attentions = tiny_eager(model)(prompt(), output_attentions=True).attentions
    kept = SnapKV(model, 16, window=8).generate(prompt(), **GREEDY).kept
    for layer, weights in enumerate(attentions):
        received = weights[0, :, -8:, :52].sum(1).unflatten(0, (2, 2)).sum(1)
        average = torch.nn.functional.avg_pool1d(received[:, None], 5, 1, 2)[:, 0]
        expected = torch.cat([average.topk(8).indices.sort().values, torch.arange(52, 60).expand(2, -1)], -1)
        assert torch.equal(kept[layer, 0], expected)


def test_h2o_keeps_recent_entries_and_heavy_hitters():
    model = tiny()
    attentions = tiny_eager(model)(prompt(), output_attentions=True).attentions
    kept = H2O(model, 16, recent=8).generate(prompt(), **GREEDY).kept
    for layer, weights in enumerate(attentions):
        received = weights[0, :, :, :52].sum(1).unflatten(0, (2, 2)).sum(1)
        expected = torch.cat([received.topk(8).indices.sort().values, torch.arange(52, 60).expand(2, -1)], -1)
        assert torch.equal(kept[layer, 0], expected)


def test_all_queries_of_a_longer_prompt_count():
    """Their weights are formed a few hundred rows at once."""
    model, ids = tiny(max_position_embeddings=400), prompt(300)
    real = torch.ones_like(ids, dtype=torch.bool)
    weights = tiny_eager(model)(ids, output_attentions=True).attentions[1]
    found = AllQueries(16, 8).scores(attention_at(model, Prompt(ids, real), 1), real)
    assert torch.allclose(found, weights.sum(2).unflatten(1, (2, 2)).sum(2), atol=1e-4)


def tiny_eager(model):
    eager = type(model)(model.config).eval()
    eager.load_state_dict(model.state_dict())
    eager.set_attn_implementation("eager")
    return eager


def test_one_run_chooses_what_gemfilter_chooses():
    model = tiny()
    chosen = GemFilter(model, 2, 16, window=0).select(prompt())
    once = GemFilterOneRun(model, 2, 16, window=0).generate(prompt(), **GREEDY).kept
    assert torch.equal(once, chosen.expand(4, 2, 16)[:, None])


def test_beams_work():
    for method in METHODS.values():
        out = method(tiny(), 16).generate(prompt(), num_beams=3, return_dict_in_generate=True, **GREEDY)
        assert out.sequences.shape == (1, 66)
        assert out.kept.shape == (4, 1, 2, 16)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda m: SnapKV(m, 0), ">= 1"),
        (lambda m: SnapKV(m, 32), r"LastQueries.keep = 32 is out of range: allowed is > window = 32"),
        (lambda m: SnapKV(m, 64, kernel=2), "an odd number"),
        (lambda m: H2O(m, 32), "> window = 32"),
        (lambda m: GemFilterOneRun(m, 4, 4, window=0), "0 to 3"),
    ],
)
def test_wrong_options_say_what_is_allowed(make, message):
    with pytest.raises(ConfigError, match=message):
        make(tiny())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prefill_chunk_size": 25}, "prefill_chunk_size cannot be used"),
        ({"cache_implementation": "static"}, "cache_implementation cannot be used"),
        ({"prompt_lookup_num_tokens": 3}, "prompt_lookup_num_tokens cannot be used"),
        ({"assistant_early_exit": 1}, "assistant_early_exit cannot be used where the cache is evicted: leave it out"),
        ({"use_mtp": True}, "use_mtp cannot be used"),
        ({"guidance_scale": 1.5, "negative_prompt_ids": prompt(9)}, "negative_prompt_ids cannot be used where the c"),
        ({"use_cache": False}, "nothing to evict"),
        ({"past_key_values": None, "inputs_embeds": torch.ones(1)}, "inputs_embeds cannot be given"),
    ],
)
def test_options_that_an_evicted_cache_does_not_follow_are_refused(method, options, message):
    with pytest.raises(ConfigError, match=message):
        METHODS[method](tiny(), 16).generate(prompt(), **GREEDY | options)


def test_the_models_own_settings_are_looked_at_too():
    model = tiny()
    expected = SnapKV(model, 16, window=8).generate(prompt(), **GREEDY)
    model.generation_config.cache_implementation = "static"
    with pytest.raises(ConfigError, match="cache_implementation"):
        SnapKV(model, 16, window=8).generate(prompt(), **GREEDY)
    found = SnapKV(model, 16, window=8).generate(prompt(), cache_implementation=None, **GREEDY)
    assert torch.equal(found, expected)  # as the message says
    model.generation_config.cache_implementation = "hybrid"  # of Gemma's files on the Hub
    assert torch.equal(SnapKV(model, 16, window=8).generate(prompt(), **GREEDY), expected)
    with pytest.raises(ConfigError, match="leaves nothing to evict"):
        SnapKV(model, 16, window=8).generate(prompt(), generation_config=GenerationConfig(use_cache=False), **GREEDY)


def test_tokens_that_are_taken_back_were_not_seen():
    model = tiny()
    out = SnapKV(model, 16, window=8).generate(prompt(), return_dict_in_generate=True, **GREEDY)
    cache = cache_of(out)
    held, seen = cache.layers[0].held, cache.get_seq_length()
    for layer in cache.layers:
        layer.crop(-2)
    assert (cache.layers[0].held, cache.get_seq_length()) == (held - 2, seen - 2)


def test_phi3_beyond_its_original_context_evicts_and_across_it_is_refused():
    model = tiny("phi3", original_max_position_embeddings=32)
    out = SnapKV(model, 16, window=8).generate(prompt(), return_dict_in_generate=True, **GREEDY)
    assert [layer.keys.shape[2] for layer in cache_of(out).layers] == [21] * 4
    with pytest.raises(ConfigError, match="reads its prompt in pieces or anew"):
        SnapKV(model, 16, window=8).generate(prompt(29), **GREEDY)
    assert model.config._attn_implementation == "sdpa"


def test_samples_of_one_prompt_share_what_was_kept():
    for method in METHODS.values():
        torch.manual_seed(0)
        out = method(tiny(), 16).generate(prompt(), max_new_tokens=4, do_sample=True, num_return_sequences=3)
        assert out.shape == (3, 64)
        assert out.kept.shape == (4, 1, 2, 16)


def test_masks_are_made_by_numbers_or_by_places_of_queries():
    """transformers 5.2, the newest that kvpress allows, hands over the places."""
    layer = PartialLayer(Dropped())
    layer.seen, layer.dropped.fewest = 60, 40
    assert layer.get_mask_sizes(torch.arange(60, 63)) == layer.get_mask_sizes(3) == (23, 40)
