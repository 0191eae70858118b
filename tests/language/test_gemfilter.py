"""GemFilter on unmodified models of every architecture."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jaxtyping
import numpy as np
import pytest
import torch
from hybrid_models import hybrid
from small_models import ARCHITECTURES, padded, prompt, tiny
from transformers import (
    DynamicCache,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    StoppingCriteria,
    StoppingCriteriaList,
    T5Config,
    T5ForConditionalGeneration,
)

from featscope.language import Draft, FilterLayer, GemFilter, GemFilterOneRun, LastQueries, SnapKV
from featscope.language.attention import watched
from featscope.language.decoder import context_of
from featscope.language.first_pass import attention_at
from featscope.language.prompt import Prompt
from featscope.language.selection import places_of
from featscope.options import ConfigError

GREEDY = {"max_new_tokens": 6, "do_sample": False}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_keeping_everything_is_the_models_own_generation(name):
    model = tiny(name)
    full = model.generate(prompt(), **GREEDY)
    gem = GemFilter(model, layer=2, keep=60).generate(prompt(), **GREEDY)
    assert torch.equal(full, gem)
    assert gem.kept.tolist() == [list(range(60))]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_rows_of_a_padded_batch_are_those_of_prompts_alone(name):
    gem = GemFilter(tiny(name), layer=2, keep=16, window=0)
    rows = [prompt(60), prompt(40, 1), prompt(11, 2)]
    batch = gem.generate(padded(*rows), **GREEDY)
    for i, row in enumerate(rows):
        alone = gem.generate(row, **GREEDY)
        assert torch.equal(batch[i, 60:], alone[0, row.shape[1] :])
        kept = batch.kept[i][batch.kept[i] >= 0]
        assert torch.equal(kept, alone.kept[0] + 60 - row.shape[1])


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("row", ["last", "middle", "largest"])
def test_chunks_choose_what_the_whole_pass_chooses(name, row):
    model = tiny(name)
    batch = padded(prompt(60), prompt(40, 1))
    whole = GemFilter(model, 2, 16, window=0, row=row).select(batch)
    for chunk in (7, 30, 100):
        assert torch.equal(GemFilter(model, 2, 16, window=0, row=row, chunk=chunk).select(batch), whole)


def test_rows_choose_differently():
    chosen = [
        GemFilter(tiny(), 2, 16, window=0, row=row).select(prompt()).tolist() for row in ("last", "middle", "largest")
    ]
    assert chosen[0] != chosen[1]
    assert chosen[0] != chosen[2]


def test_the_middle_row_is_that_of_each_prompt_alone():
    ids = padded(prompt(60), prompt(41, 1))
    both = Prompt(ids, ids != 0)
    reached = attention_at(tiny(), both, 2)
    products = torch.einsum("bhrd,bhtd->brt", reached.query, reached.key.repeat_interleave(2, 1))
    found = FilterLayer(2, 16, 0, row="middle").scores(reached, both)
    for row, middle in enumerate((30, 19 + 20)):
        assert torch.allclose(found[row], products[row, middle], atol=1e-4)


@pytest.mark.parametrize("build", [GemFilter, GemFilterOneRun])
def test_places_that_are_asked_for_are_kept(build):
    ids = padded(prompt(60), prompt(40, 1))
    plain, forced = (
        build(tiny(), 2, 12, window=4, force_keep=force).select(ids).tolist() for force in ((), (0, 1, -9))
    )
    for row, first in enumerate((0, 20)):
        asked = {first, first + 1, 51}
        assert not asked <= {*plain[row]}
        assert asked | {*range(56, 60)} <= {*forced[row]}


def test_the_choice_is_that_of_raw_products_of_the_models_own_layers():
    """Without any of our hooks: projections and rotary embedding applied by hand to what enters the layer."""
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    model, ids = tiny(), prompt()
    entering = model(ids, output_hidden_states=True).hidden_states[2]
    layer = model.model.layers[2]
    normed = layer.input_layernorm(entering)
    query, key = (
        p(normed).view(1, 60, -1, 8).transpose(1, 2) for p in (layer.self_attn.q_proj, layer.self_attn.k_proj)
    )
    cos, sin = model.model.rotary_emb(entering, torch.arange(60)[None])
    query, key = apply_rotary_pos_emb(query, key, cos, sin)
    products = (key.repeat_interleave(2, 1) @ query[:, :, -1, :, None]).sum((1, 3))
    average = torch.nn.functional.avg_pool1d(products[:, None], 5, 1, 2)[0, 0]
    expected = average.topk(16).indices.sort().values
    assert torch.equal(GemFilter(model, 2, 16, window=0).select(ids)[0], expected)


def test_only_layers_below_the_filter_run():
    model = tiny()
    ran: list[int] = []
    for i, block in enumerate(model.model.layers):
        block.register_forward_hook(lambda module, given, result, i=i: ran.append(i))
    model.lm_head.register_forward_hook(lambda module, given, result: ran.append(99))
    for chunk in (None, 20):
        ran.clear()
        GemFilter(model, 2, 16, window=0, chunk=chunk).select(prompt())
        assert set(ran) == {0, 1}


def test_the_whole_prompt_comes_back_in_front_of_what_is_generated():
    out = GemFilter(tiny(), 2, 16, window=0).generate(prompt(), **GREEDY)
    assert out.shape == (1, 66)
    assert torch.equal(out[:, :60], prompt())


def test_beams_samples_streamers_and_stopping_criteria_work():
    gem = GemFilter(tiny(), 2, 16, window=0)
    beams = gem.generate(
        prompt(), num_beams=3, num_return_sequences=2, return_dict_in_generate=True, output_scores=True, **GREEDY
    )
    assert beams.sequences.shape == (2, 66)
    assert beams.kept.shape == (1, 16)
    two = padded(prompt(60), prompt(40, 1))
    several = gem.generate(two, num_beams=3, num_return_sequences=2, **GREEDY)
    assert torch.equal(several[:, :60], two.repeat_interleave(2, 0)), "each answer behind its own prompt"
    for row, alone in enumerate((prompt(60), prompt(40, 1))):
        own = gem.generate(alone, num_beams=3, num_return_sequences=2, **GREEDY)
        assert torch.equal(several[2 * row : 2 * row + 2, 60:], own[:, alone.shape[1] :])
    torch.manual_seed(0)
    assert gem.generate(prompt(), max_new_tokens=4, do_sample=True, num_return_sequences=3).shape == (3, 64)

    class Stop(StoppingCriteria):
        def __call__(self, input_ids, scores, **options):
            return torch.ones(len(input_ids), dtype=torch.bool)

    assert gem.generate(prompt(), stopping_criteria=StoppingCriteriaList([Stop()]), **GREEDY).shape == (1, 61)
    seen = []

    class Stream:
        def put(self, value):
            seen.append(value)

        def end(self):
            seen.append("end")

    gem.generate(prompt(), streamer=Stream(), **GREEDY)
    assert seen[-1] == "end"


def test_the_second_pass_may_evict_too():
    model = tiny()
    out = GemFilter(model, layer=2, keep=32, window=0, cache=LastQueries(20, 4)).generate(prompt(), **GREEDY)
    assert out.shape == (1, 66)
    assert out.kept.shape == (1, 32)
    whole = GemFilter(model, layer=2, keep=32, window=0, cache=LastQueries(40, 4)).generate(prompt(), **GREEDY)
    assert torch.equal(whole, GemFilter(model, 2, 32, window=0).generate(prompt(), **GREEDY))


def test_the_model_is_left_as_it_was():
    model = tiny()
    before = model(prompt()).logits
    GemFilter(model, 2, 16, window=0).generate(prompt(), **GREEDY)
    assert model.config._attn_implementation == "sdpa"
    assert torch.equal(model(prompt()).logits, before)
    with pytest.raises(ConfigError, match="at most 256"):
        GemFilter(model, 2, 16, window=0).generate(prompt(300), **GREEDY)
    assert model.config._attn_implementation == "sdpa"


class Nothing:
    def before(self, attention):
        pass

    def after(self, attention):
        pass


def test_a_thread_watches_a_model_once():
    model = tiny()
    with watched(model, Nothing()), pytest.raises(ConfigError, match="watched already"):
        GemFilter(model, 2, 16, window=0).select(prompt())
    assert model.config._attn_implementation == "sdpa"


def test_other_threads_do_not_notice():
    """Plain and filtered generations at the same time, each with its own result."""
    model = tiny()
    plain = model.generate(prompt(), **GREEDY)
    filtered = GemFilter(model, 2, 16, window=0).generate(prompt(), **GREEDY)
    with watched(model, Nothing()), ThreadPoolExecutor(3) as pool:
        works = [
            lambda: model.generate(prompt(), **GREEDY),
            lambda: GemFilter(model, 2, 16, window=0).generate(prompt(), **GREEDY),
            lambda: SnapKV(model, 20, window=4).generate(prompt(), **GREEDY),
        ]
        found = [pool.submit(works[i % 3]) for i in range(12)]
        for i, future in enumerate(found):
            if i % 3 < 2:
                assert torch.equal(future.result(), (plain, filtered)[i % 3])
            assert future.result().shape == (1, 66)
    assert model.config._attn_implementation == "sdpa"


def test_layers_with_rotary_angles_of_their_own_go_whole_and_in_chunks():
    model = Gemma3ForCausalLM(
        Gemma3TextConfig(
            vocab_size=100,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
            sliding_window=64,
            layer_types=["sliding_attention", "full_attention"] * 2,
            max_position_embeddings=256,
            bos_token_id=1,
            eos_token_id=None,
            pad_token_id=0,
        )
    ).eval()
    full = model.generate(prompt(), **GREEDY)
    assert torch.equal(GemFilter(model, 2, 60).generate(prompt(), **GREEDY), full)
    assert torch.equal(
        GemFilter(model, 2, 16, window=0, chunk=20).select(prompt()), GemFilter(model, 2, 16, window=0).select(prompt())
    )


def test_scaled_contexts_are_as_long_as_declared_and_padding_does_not_count():
    rope = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0, "original_max_position_embeddings": 64}
    scaled = tiny("qwen2", rope_parameters=rope, max_position_embeddings=64)
    assert GemFilter(scaled, 2, 16, window=0).select(prompt(200)).shape == (1, 16)
    with pytest.raises(ConfigError, match="at most 256"):
        GemFilter(scaled, 2, 16, window=0).select(prompt(300))
    assert context_of(tiny("qwen2", rope_parameters=rope, max_position_embeddings=300)) == 300  # which says more
    linear = {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}
    assert context_of(tiny("qwen2", rope_parameters=linear, max_position_embeddings=64)) == 256
    of_kinds = hybrid("gemma3")
    of_kinds.config.rope_parameters = {"full_attention": linear, "sliding_attention": linear | {"rope_type": "default"}}
    assert context_of(of_kinds) == of_kinds.config.max_position_embeddings  # Gemma 3 has the factor in it
    long = torch.nn.functional.pad(prompt(60), (240, 0))
    assert torch.equal(
        GemFilter(tiny(), 2, 16, window=0).select(long) - 240, GemFilter(tiny(), 2, 16, window=0).select(prompt(60))
    )


def test_sums_over_heads_are_not_rounded_to_half_precision():
    model = tiny().to(torch.bfloat16)
    kept = GemFilter(model, 2, 16, window=0).select(prompt())
    assert kept.shape == (1, 16)
    from featscope.language.selection import summed_queries

    assert summed_queries(torch.randn(1, 4, 1, 8).bfloat16(), 2).dtype == torch.float32


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": 4}, r"FilterLayer.layer = 4 is out of range: allowed is 0 to 3. .*choose_layer"),
        ({"layer": -1}, "allowed is 0 to 3"),
        ({"keep": 0}, r"FilterLayer.keep = 0 is out of range: allowed is >= 1"),
        (
            {"window": 16},
            "0 to 15, less than keep = 16. Keep more, or a smaller window; 0 is the paper's rule",
        ),
        ({"window": 8, "force_keep": range(-20, -8)}, "at most keep = 16 places, with the window"),
        ({"kernel": 4}, "an odd number"),
        ({"chunk": 0}, ">= 1, or None"),
        ({"force_keep": range(-17, 0)}, "at most keep = 16 places"),
    ],
)
def test_wrong_options_say_what_is_allowed(options, message):
    with pytest.raises(ConfigError, match=message):
        GemFilter(tiny(), **{"layer": 2, "keep": 16, "window": 0} | options)


def test_models_that_cannot_be_filtered_say_why():
    sizes = {"vocab_size": 100, "num_layers": 1, "num_heads": 2, "d_model": 16, "d_ff": 16, "d_kv": 8}
    with pytest.raises(ConfigError, match="encoder-decoder"):
        GemFilter(T5ForConditionalGeneration(T5Config(**sizes)), 0, 4, window=0)
    with pytest.raises(ConfigError, match="no rotary position embedding"):
        GemFilter(GPT2LMHeadModel(GPT2Config(vocab_size=100, n_embd=16, n_layer=1, n_head=2)), 0, 4, window=0)


def test_what_is_no_transformers_model_is_refused():
    with pytest.raises(ConfigError, match="no transformers model: allowed is a PreTrainedModel"):
        GemFilter(torch.nn.Linear(2, 2), 0, 4, window=0)
    with pytest.raises(ConfigError, match="cannot generate"):
        GemFilter(tiny().model, 2, 16, window=0)
    with pytest.raises(ConfigError, match="reads prompts its own way already"):
        GemFilter(GemFilter(tiny(), 2, 40), 2, 40)


def test_a_window_that_hides_early_tokens_is_refused_and_one_that_does_not_is_fine():
    narrow = tiny("mistral", sliding_window=32)
    with pytest.raises(
        ConfigError, match=r"60 tokens, and layer 2 of Mistral.* sees the last 32 only: allowed is at most 32"
    ):
        GemFilter(narrow, 2, 16, window=0).select(prompt())
    assert GemFilter(narrow, 2, 16, window=0).select(prompt(30)).shape == (1, 16)
    assert GemFilter(tiny("mistral", sliding_window=64), 2, 16, window=0).select(prompt()).shape == (1, 16)


@pytest.mark.parametrize(
    ("ids", "mask", "message"),
    [
        (torch.zeros(1, 0, dtype=torch.long), None, "at least one token"),
        (torch.zeros(4, dtype=torch.long), None, r"\[batch, token\]"),
        (torch.ones(1, 4), None, "token numbers"),
        (torch.ones(1, 4, dtype=torch.long), torch.ones(1, 3), "that of input_ids"),
        (torch.ones(1, 4, dtype=torch.long), torch.tensor([[1, 1, 1, 0]]), "padding_side = 'left'"),
        (torch.ones(1, 4, dtype=torch.long), torch.tensor([[1, 0, 1, 1]]), "padding_side = 'left'"),
    ],
)
def test_wrong_prompts_say_what_is_allowed(ids, mask, message):
    with pytest.raises(ConfigError, match=message):
        GemFilter(tiny(), 2, 16, window=0).generate(ids, mask)


@pytest.mark.parametrize("name", ["cache", "past_key_values"])  # since transformers 5.24, and before
def test_options_that_speak_of_another_prompt_are_refused(name):
    gem = GemFilter(tiny(), 2, 16, window=0)
    with pytest.raises(ConfigError, match=f"{name} cannot be given"):
        gem.generate(prompt(), **{name: DynamicCache()}, **GREEDY)


class _Keeps:
    """Keeps the attention of every layer."""

    def __init__(self):
        self.seen = {}

    def before(self, attention):
        self.seen[attention.layer] = attention

    def after(self, attention):
        pass


@torch.no_grad()
def test_a_pass_up_to_a_layer_finds_what_the_whole_pass_has_there():
    model, kept = tiny(), _Keeps()
    with watched(model, kept):
        model(prompt(), use_cache=False)
    at = attention_at(model, Prompt(prompt(), torch.ones_like(prompt(), dtype=torch.bool)), 2)
    assert at.layer == 2
    assert torch.equal(at.query, kept.seen[2].query)
    assert torch.equal(at.key, kept.seen[2].key)


def test_a_layer_without_attention_is_named():
    with pytest.raises(ConfigError, match="layer = 4 of LlamaForCausalLM has no attention"):
        attention_at(tiny(), Prompt(prompt(), torch.ones_like(prompt(), dtype=torch.bool)), 4)


@pytest.mark.parametrize("make", [partial(FilterLayer, 2), partial(Draft, tiny()), LastQueries])
def test_a_whole_number_of_any_kind_is_tokens(make, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which refuses them first, in tests alone
    for keep in (np.int64(12), np.uint8(12), torch.tensor(12)):
        assert make(keep, window=4).keep == 12
        assert type(make(keep, window=4).keep) is int
    for wrong in (True, np.True_, np.int64(0), "12"):
        with pytest.raises(ConfigError, match=r"keep = .* is out of range: allowed is >= 1 \(tokens\), or a share"):
            make(wrong, window=4)


@pytest.mark.parametrize("place", [60, 5000, -61])
def test_places_that_a_prompt_does_not_have_are_refused(place):
    for build in (GemFilter, GemFilterOneRun):
        method = build(tiny(), layer=2, keep=12, window=4, force_keep=(0, place))
        with pytest.raises(ConfigError, match=rf"the place {place}, and a prompt has 60 tokens: allowed is -60 to 59"):
            method.generate(prompt(), **GREEDY)


def test_of_a_batch_rows_that_are_cut_have_all_places():
    long, short, all_kept = prompt(60), prompt(40, 1), prompt(10, 2)
    method = GemFilter(tiny(), 2, 12, window=4, force_keep=(45,))
    assert method.select(padded(long, all_kept)).shape == (2, 12)
    with pytest.raises(ConfigError, match=r"the place 45, and a prompt has 40 tokens: .* lengths apart"):
        method.select(padded(long, short))


@pytest.mark.parametrize("make", [partial(FilterLayer, 2), partial(Draft, tiny())])
def test_places_that_are_kept_are_a_list_of_ones_own(make):
    given = [0, 1, 1, -9]
    its = make(12, window=4, force_keep=given)
    given.append(5)
    assert its.force_keep == (0, 1, 1, -9)
    assert its.forced() == 7
    for once in ((place for place in (0, 1, -9)), torch.tensor([0, 1, -9]), np.array([0, 1, -9])):
        assert places_of("its", once) == (0, 1, -9)
    for wrong in (3, "ab", (0.5,), slice(3), [True, False], torch.tensor([True]), np.array([False])):
        with pytest.raises(ConfigError, match=r"force_keep = .* is no list of whole numbers: allowed are places"):
            places_of("its", wrong)
