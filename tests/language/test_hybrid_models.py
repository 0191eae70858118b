"""Models whose layers differ, that read more than text, or whose cache is of another kind."""

from typing import Any

import numpy as np
import pytest
import torch
from hybrid_models import HYBRIDS, IN_CHUNKS, OF_OTHERS, PICTURES, TEXT, hybrid, with_pictures
from small_models import padded, prompt, tiny, word_tokenizer
from test_layers import text
from transformers import (
    CONFIG_MAPPING,
    AutoModelForCausalLM,
    MiniMaxConfig,
    MiniMaxForCausalLM,
    PreTrainedModel,
    RecurrentGemmaConfig,
    RecurrentGemmaForCausalLM,
)

from featscope.language import (
    H2O,
    FilterLayer,
    FullCache,
    GemFilter,
    GemFilterOneRun,
    KeepHidden,
    LastQueries,
    LayerBudgets,
    Prefill,
    PromptDistill,
    SnapKV,
    SpeculativePrefill,
    choose_layer,
    load_model,
)
from featscope.language.decoder import blocks, cache_of, kinds_of, seeing, seeing_from, sight_of
from featscope.language.keep import operations_of
from featscope.language.layers import choices_of_all_layers
from featscope.language.prompt import Prompt, padding_token
from featscope.options import ConfigError

GREEDY = {"max_new_tokens": 6, "do_sample": False}


@pytest.mark.parametrize("name", [*HYBRIDS, "minimax", "deepseek-v2", "deepseek-v3", "doge", "diffllama"])
def test_only_the_filter_layer_must_see_the_whole_prompt(name):
    model = hybrid(name)
    full = model.generate(prompt(), **GREEDY)
    assert torch.equal(GemFilter(model, 3, 60).generate(prompt(), **GREEDY), full)
    assert GemFilter(model, 3, 16, window=0).generate(prompt(), **GREEDY).kept.shape == (1, 16)


def test_a_filter_layer_with_a_window_names_those_that_see_all():
    with pytest.raises(ConfigError, match=r"layer 2 of Gemma2ForCausalLM sees the last 16 only: .* \(1, 3\)"):
        GemFilter(hybrid("gemma2"), 2, 8, window=0).select(prompt())
    assert GemFilter(hybrid("gemma2"), 2, 8, window=0).select(prompt(16)).shape == (1, 8)
    with pytest.raises(ConfigError, match="no layer sees more"):
        GemFilter(hybrid("windowed-mistral"), 2, 8, window=0).select(prompt())
    with pytest.raises(ConfigError, match=r"of kind linear_attention.*allowed is a layer of attention \(1, 3\)"):
        GemFilter(hybrid("qwen3-next"), 2, 8, window=0)


def test_a_window_that_is_as_long_as_the_prompt_hides_nothing():
    model = hybrid("gemma3")
    assert [seeing(model, length) for length in (15, 16, 17)] == [[0, 1, 2, 3], [0, 1, 2, 3], [1, 3]]
    assert [seeing_from(model, length) for length in (16, 17)] == [[0, 1, 2, 3], [3]]


@pytest.mark.parametrize("name", IN_CHUNKS)
def test_chunks_have_the_masks_and_angles_of_their_layer(name):
    model = hybrid(name)
    different = (
        3 + torch.randperm(90, generator=torch.Generator().manual_seed(0))[None, :60]
    )  # of equal ones Doge's window keeps any
    for batch in (different,) if name == "doge" else (prompt(), padded(prompt(60), prompt(41, 1))):
        whole = GemFilter(model, 3, 16, window=0).select(batch)
        for chunk in (7, 30):
            assert torch.equal(GemFilter(model, 3, 16, window=0, chunk=chunk).select(batch), whole)


@pytest.mark.parametrize("name", ["gemma4", "gemma3n", "qwen3-next", "minimax"])
def test_layers_that_cannot_be_cut_into_chunks_say_why(name):
    with pytest.raises(ConfigError, match=r"needs layers of attention that read nothing else.*Leave out chunk"):
        GemFilter(hybrid(name), 3, 16, window=0, chunk=7).select(prompt())


@pytest.mark.parametrize("name", HYBRIDS)
def test_layers_that_see_everything_evict_and_windows_stay(name):
    model = hybrid(name)
    full = model.generate(prompt(), **GREEDY)
    sees = {3} if name == "llama4" else {1} if name in OF_OTHERS else {1, 3}
    methods = (SnapKV(model, 60, window=8), H2O(model, 60, recent=8), GemFilterOneRun(model, max(sees), 60))
    for method in methods:
        assert torch.equal(method.generate(prompt(), **GREEDY), full)
    for method in (
        SnapKV(model, 20, window=8),
        H2O(model, 20, recent=8),
        GemFilterOneRun(model, max(sees), 20, window=0),
    ):
        out = method.generate(prompt(), return_dict_in_generate=True, **GREEDY)
        assert {layer for layer in range(4) if (out.kept[layer] >= 0).all()} == sees
        assert all((out.kept[layer] == -1).all() for layer in {0, 1, 2, 3} - sees)
        assert {cache_of(out).layers[layer].keys.shape[2] for layer in sees} == {25}


@pytest.mark.parametrize(
    ("name", "reason"),
    [("doge", "each head of DogeForCausalLM makes a mask of its own"), ("diffllama", "more than once in a pass")],
)
@pytest.mark.parametrize("method", [SnapKV, lambda model, keep: PromptDistill(model, 2, keep)])
def test_attention_that_no_cache_can_be_cut_for_says_why(method, name, reason):
    with pytest.raises(ConfigError, match=f"{reason}.*Use GemFilter or full attention"):
        method(hybrid(name), 40).generate(prompt(), **GREEDY)


@pytest.mark.parametrize("name", ["gemma3", "ministral", *OF_OTHERS])
def test_new_tokens_see_what_was_kept_and_their_windows(name):
    """The same as the model with all that is dropped masked by hand in the layers that see everything."""
    model, layer = hybrid(name), 1 if name in OF_OTHERS else 3
    out = GemFilterOneRun(model, layer, 16, window=0).generate(prompt(), **GREEDY)
    causal = torch.ones(61, 61, dtype=torch.bool).tril()
    near = causal & (torch.arange(61)[:, None] - torch.arange(61) < 16)
    kept = causal.clone()
    kept[60, :60] = False
    kept[60, out.kept[layer, 0, 0]] = True
    masks = {"full_attention": kept[None, None], "sliding_attention": near[None, None]}
    logits = model(out[:, :61], attention_mask=masks, position_ids=torch.arange(61)[None]).logits
    assert out[0, 61] == logits[0, -1].argmax()


def test_layers_that_read_what_others_hold_have_a_mask_of_as_many(monkeypatch):
    """Of six layers the fourth holds less than the second, and the sixth reads what the fourth holds."""
    kind, model, options = TEXT["gemma4-shared"]
    longer = {"num_hidden_layers": 6, "layer_types": ["sliding_attention", "full_attention"] * 3}
    monkeypatch.setitem(TEXT, "gemma4-shared", (kind, model, options | longer))
    its = Prefill(hybrid("gemma4-shared"), cache=LayerBudgets(LastQueries(20, 4)))
    batch = its.generate(padded(prompt(60), prompt(12, 1)), **GREEDY)
    for row, alone in ((batch[0, 60:], prompt(60)), (batch[1, 60:], prompt(12, 1))):
        assert torch.equal(row, its.generate(alone, **GREEDY)[0, alone.shape[1] :])


def test_caches_that_cannot_drop_entries_are_refused_by_name_with_a_cure_that_works():
    for name, message in (
        ("minimax", "MiniMaxForCausalLM has a cache of its own kind.*Use GemFilter"),
        ("deepseek-v2", "multi-head latent attention, as DeepSeek's.*Use GemFilter"),
        ("deepseek-v3", "multi-head latent attention, as DeepSeek's.*Use GemFilter"),
        ("windowed-mistral", "no layer sees more; shorten the prompt"),
    ):
        for method in (SnapKV, H2O):
            with pytest.raises(ConfigError, match=message):
                method(hybrid(name), 34).generate(prompt(), **GREEDY)
    assert SnapKV(hybrid("windowed-mistral"), 6, window=2).generate(prompt(10), **GREEDY).shape == (1, 16)


def test_the_layer_is_chosen_among_those_that_see():
    model = hybrid("gemma2")
    words = [text(60, seed).replace("w5", "w6").split() for seed in range(4)]
    examples = [(" ".join([*some[:20], "w5", *some[21:]]), "w5") for some in words]
    found = choose_layer(model, word_tokenizer(), examples, keep=59, stable=0.75)
    assert found.layer == 1
    assert found.whole.tolist() == [0, 0.75, 0, 1]
    assert (found.distance[:, [0, 2]] == 61).all(), "what sees a part of the prompt finds nothing"
    assert np.isnan(found.kept[:, [0, 2]]).all()
    above, below = found.figure().axes
    assert {x for line in above.lines for x in line.get_xdata()} == {1, 3}, "nor is it drawn as if it did"
    assert "not offered" in below.get_title()
    whole = Prompt(prompt(), torch.ones_like(prompt(), dtype=torch.bool))
    chosen = choices_of_all_layers(model, whole, 16)
    assert list(chosen) == [1, 3]
    assert torch.equal(chosen[3], GemFilter(model, 3, 16, window=0).select(prompt()))
    with pytest.raises(ConfigError, match="no layer sees more"):
        choices_of_all_layers(hybrid("windowed-mistral"), whole, 16)


@pytest.mark.parametrize("name", PICTURES)
def test_text_goes_through_models_of_text_and_pictures(name, tmp_path):
    with_pictures(name).save_pretrained(tmp_path)
    word_tokenizer().save_pretrained(tmp_path)
    model, _ = load_model(str(tmp_path))
    full = model.generate(prompt(), **GREEDY)
    assert torch.equal(GemFilter(model, 3, 60).generate(prompt(), **GREEDY), full)
    assert torch.equal(SnapKV(model, 60, window=8).generate(prompt(), **GREEDY), full)
    assert GemFilter(model, 3, 16, window=0).generate(prompt(), **GREEDY).shape == (1, 66)
    out = SnapKV(model, 20, window=8).generate(prompt(), return_dict_in_generate=True, **GREEDY)
    sees = range(4) if name in ("qwen2-vision", "mistral3-vision") else (1, 3)
    assert [cache_of(out).layers[layer].keys.shape[2] for layer in sees] == [25] * len(sees)
    assert (out.kept[list(sees)] >= 0).all()
    batch = SnapKV(model, 20, window=8).generate(padded(prompt(60), prompt(41, 1)), **GREEDY)
    assert torch.equal(batch[0], out.sequences[0])
    assert torch.equal(batch[1, 19:], SnapKV(model, 20, window=8).generate(prompt(41, 1), **GREEDY)[0])


def test_pictures_are_refused():
    model = with_pictures("qwen2-vision")
    gem = GemFilter(model, 3, 16, window=0)
    with pytest.raises(ConfigError, match="pixel_values cannot be given: the method reads text alone"):
        gem.generate(prompt(), pixel_values=torch.zeros(1), **GREEDY)
    model.config.image_token_id = 7
    with pytest.raises(ConfigError, match="hold image_token_id = 7, the place of an image"):
        gem.generate(torch.tensor([[3, 7, 9]]), **GREEDY)


def test_windows_stay_as_they_are_where_they_are_longer_than_the_prompt_too():
    """Else a longer row beside it, or more tokens to come, would change what a prompt's caches drop."""
    model = tiny("gemma2", sliding_window=80)
    out = SnapKV(model, 20, window=8).generate(prompt(), **GREEDY)
    drops = [kind == "full_attention" for kind in model.config.layer_types]
    assert [bool((layer >= 0).all()) for layer in out.kept] == drops
    assert (out.kept[~np.array(drops)] == -1).all()


@pytest.mark.parametrize("name", ["gpt-oss", "gemma2", "gemma3", "ministral", "llama4"])
@pytest.mark.parametrize("layer", [0, 1])
def test_a_padded_row_that_goes_on_in_one_pass_answers_as_alone(name, layer):
    """Masks are made for the first layer of each kind of attention, which may hold the chosen tokens alone."""
    model, row = hybrid(name), prompt(9, 2)
    both = padded(prompt(12, 1), row)
    method = Prefill(model, FilterLayer(layer, 6, 2), KeepHidden())
    options = {"max_new_tokens": 3, "do_sample": False, "return_dict_in_generate": True, "output_logits": True}
    alone = method.generate(row, attention_mask=torch.ones_like(row), **options)
    beside = method.generate(both, attention_mask=(both != 0).long(), **options)
    for one, other in zip(alone.logits, beside.logits, strict=True):
        torch.testing.assert_close(one[0], other[1], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["gpt-oss", "gemma3", "llama4"])
def test_what_a_cache_drops_does_not_depend_on_tokens_to_come_or_on_other_rows(name):
    """A window that holds all of one prompt, and not of a longer one, is the model's own for both."""
    model, row = hybrid(name), prompt(12, 3)
    method = SnapKV(model, 6, window=2)
    mask = torch.ones_like(row)
    few, more = (method.generate(row, attention_mask=mask, max_new_tokens=new, do_sample=False) for new in (4, 5))
    assert few[0].tolist() == more[0, :-1].tolist()
    options = {"max_new_tokens": 2, "do_sample": False, "return_dict_in_generate": True, "output_logits": True}
    both = padded(prompt(40, 1), row)
    alone = method.generate(row, attention_mask=mask, **options)
    beside = method.generate(both, attention_mask=(both != 0).long(), **options)
    for one, other in zip(alone.logits, beside.logits, strict=True):
        torch.testing.assert_close(one[0], other[1], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["gemma3", "gpt-oss"])
def test_a_draft_with_windows_chooses_for_a_row_as_alone(name):
    method = SpeculativePrefill(hybrid("gemma2"), hybrid(name), 6, 2, look_ahead=2, kernel=1, pool="none")
    for seed in range(4):
        row = prompt(12, seed + 50)
        both = padded(prompt(40, seed), row)
        beside = method.select(both, (both != 0).long())[1] - 28
        assert beside.tolist() == method.select(row, torch.ones_like(row))[0].tolist()


SMALL = {"vocab_size": 100, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "pad_token_id": 0}


def test_full_attention_of_minimax_has_the_window_too_where_there_is_one():
    kinds = ["linear_attention", "full_attention"] * 2
    sizes = {"num_key_value_heads": 2, "head_dim": 8, "num_hidden_layers": 4, "layer_types": kinds, "block_size": 8}
    experts = {"num_local_experts": 2, "num_experts_per_tok": 1}
    model = MiniMaxForCausalLM(MiniMaxConfig(**SMALL, **sizes, **experts, sliding_window=16))
    assert sight_of(model, 1) == 16
    assert sight_of(MiniMaxForCausalLM(MiniMaxConfig(**SMALL, **sizes, **experts)), 1) == np.inf


def test_rows_of_several_lengths_are_refused_where_padding_enters_a_state():
    sizes = {"num_key_value_heads": 1, "num_hidden_layers": 3, "attention_window_size": 128, "lru_width": 32}
    model = RecurrentGemmaForCausalLM(RecurrentGemmaConfig(**SMALL, **sizes, head_dim=8)).eval()
    method, both = GemFilter(model, 2, 20, window=4), padded(prompt(60, 1), prompt(45, 2))
    assert method.select(both[:1], torch.ones(1, 60, dtype=torch.long)).shape == (1, 20)
    with pytest.raises(ConfigError, match="the prompt has padding, and the state of RecurrentGemma"):
        method.select(both, (both != 0).long())


def test_a_document_is_read_anew_for_each_question_where_heads_choose_among_what_is_held():
    method = FullCache(hybrid("doge"))
    for seed in range(4):
        document, question = prompt(40, seed), prompt(9, seed + 10)
        both = torch.cat([document, question], 1)
        asked = method.read(document, torch.ones_like(document)).ask(question, **GREEDY)
        assert asked.equal(method.generate(both, attention_mask=torch.ones_like(both), **GREEDY))


def _tiny(kind: str, **more: Any) -> PreTrainedModel:
    """Of any family of transformers, by its name."""
    sizes = {"vocab_size": 100, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4, "head_dim": 8}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256, "sliding_window": 16}
    sizes |= {"num_local_experts": 4, "num_experts_per_tok": 2, "initializer_range": 0.2, "pad_token_id": 0}
    known = CONFIG_MAPPING[kind]()
    torch.manual_seed(0)
    config = CONFIG_MAPPING[kind](**{name: size for name, size in sizes.items() if hasattr(known, name)} | more)
    return AutoModelForCausalLM.from_config(config).eval()


LAYERS = ["sliding_attention", "sliding_attention", "full_attention", "full_attention"]


@pytest.mark.parametrize(
    ("kind", "own", "more"),
    [("lara_mini", "position_embeddings", {"layer_types": LAYERS}), ("beam", "attention_scaling", {})],
)
def test_layers_that_are_handed_something_of_their_own_are_not_read_in_chunks(kind, own, more):
    """In the model's own loop, so that no argument of the first layer tells."""
    if kind not in CONFIG_MAPPING:
        pytest.skip(f"this transformers has no {kind}")
    model, x = _tiny(kind, **more), torch.randint(3, 100, (1, 60), generator=torch.Generator().manual_seed(0))
    sees_all = len(kinds_of(model)) - 1 - kinds_of(model)[::-1].index("full_attention")
    assert GemFilter(model, sees_all, 20, 4).select(x).shape == (1, 20)
    with pytest.raises(ConfigError, match=rf"layer \d of {type(model).__name__} has {own} of its own. Leave out chunk"):
        GemFilter(model, sees_all, 20, 4, chunk=7).select(x)


def test_experts_that_are_not_called_so_count_as_they_are_used():
    """JetMoE's MLP has a matrix for each expert, and calls none of its parts by that name."""
    if "jetmoe" not in CONFIG_MAPPING:
        pytest.skip("this transformers has no jetmoe")
    block = blocks(model := _tiny("jetmoe"))[0]
    every = dict(block.named_parameters())
    of_experts = [one for name, one in every.items() if one.ndim == 3 or ".experts." in name]
    assert any(one.ndim == 3 and ".experts." not in name for name, one in every.items())
    used = sum(p.numel() for p in every.values()) - sum(p.numel() for p in of_experts) / 2
    config = model.config
    pairs = 60 * 60 * 2 * config.num_attention_heads * config.kv_channels
    assert operations_of(model, 60) == pytest.approx(len(blocks(model)) * (2 * used * 60 + pairs))


def test_a_configuration_without_a_padding_token_has_none():
    """As Molmo2's."""
    model = _tiny("llama")
    assert padding_token(model) == 0
    del model.config.pad_token_id
    model.generation_config.pad_token_id = None
    assert padding_token(model) is None
