"""What else runs while a method reads its prompt, and what a method must not leave to the model."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest
import torch
from hybrid_models import hybrid
from small_models import prompt, tiny
from test_prefill import NormPress
from transformers import (
    DynamicCache,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    Lfm2MoeConfig,
    Lfm2MoeForCausalLM,
    LogitsProcessor,
)

from featscope.language import (
    AdaKV,
    Draft,
    FastKV,
    FilterLayer,
    FullCache,
    GemFilter,
    KeepHidden,
    LastQueries,
    LayerBudgets,
    Prefill,
    Press,
    PromptDistill,
    SnapKV,
    layers,
)
from featscope.language.decoder import cache_argument, cache_of
from featscope.language.prompt import Prompt
from featscope.language.propagation import one_pass
from featscope.language.selectors import draft
from featscope.options import ConfigError

GREEDY = {"max_new_tokens": 6, "do_sample": False}
HOOKED = {
    "hidden states go on": lambda model: PromptDistill(model, 1, 16, window=4),
    "in chunks": lambda model: GemFilter(model, 2, 16, window=4, chunk=20),
    "a press": lambda model: Prefill(model, cache=Press(NormPress())),
}


@pytest.mark.parametrize("way", HOOKED)
@pytest.mark.parametrize("layer", [0, 2])
def test_other_threads_read_what_they_read_alone(way, layer):
    model, other = tiny(), prompt(30, 5)
    expected, alone = HOOKED[way](model).generate(prompt(), **GREEDY), model.generate(other, **GREEDY)
    answers = []

    def once(*given):
        if not answers:
            answers.append(None)
            with ThreadPoolExecutor(1) as pool:
                answers[0] = pool.submit(model.generate, other, **GREEDY).result()

    model.model.layers[layer].register_forward_pre_hook(once)
    assert torch.equal(HOOKED[way](model).generate(prompt(), **GREEDY), expected)
    assert torch.equal(answers[0], alone)


class Reads(LogitsProcessor):
    """Reads a text with the model itself, token by token, as guidance does."""

    def __init__(self, model, text):
        self.model, self.text, self.read = model, text, []

    def __call__(self, input_ids, scores):
        held = {cache_argument(self.model.forward): DynamicCache()}
        for i in range(self.text.shape[1]):
            self.read.append(self.model(self.text[:, i : i + 1], **held).logits[0, -1])
        return scores


@torch.no_grad()
def test_what_heads_hide_is_not_hidden_from_another_reading_of_the_model():
    model = tiny()
    outside, inside = (Reads(model, prompt(30, 3)) for _ in range(2))  # more tokens than a head holds, in the end
    outside(None, None)
    its = AdaKV(model, 20, window=4, kernel=1, pool="none")
    out = its.generate(prompt(), logits_processor=[inside], return_dict_in_generate=True, **GREEDY)
    with pytest.raises(ConfigError, match="more entries in some heads"):
        cache_of(out).update(None, None, 0)
    assert len(inside.read) == 6 * 30
    assert torch.equal(torch.stack(inside.read), torch.stack(outside.read * 6))
    assert torch.equal(out.sequences, its.generate(prompt(), **GREEDY))


def test_hidden_states_go_on_where_windows_see_the_tokens_to_come_too():
    its = Prefill(hybrid("windowed-mistral"), FilterLayer(1, 8, window=4), KeepHidden())
    assert its.generate(prompt(14), max_new_tokens=2, do_sample=False).shape == (1, 16)
    with pytest.raises(ConfigError, match=r"sees a part of 24 tokens alone \(10 of them to come\).* is fewer tokens"):
        its.generate(prompt(14), max_new_tokens=10, do_sample=False)


def test_a_model_without_the_angles_that_a_press_looks_for_is_refused_and_left_as_it_is():
    sizes = {"vocab_size": 100, "hidden_size": 32, "intermediate_size": 64, "moe_intermediate_size": 16}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "num_experts": 2, "num_experts_per_tok": 1}
    kinds = ["conv", "full_attention"]
    model = Lfm2MoeForCausalLM(Lfm2MoeConfig(num_hidden_layers=2, layer_types=kinds, **sizes, **heads)).eval()
    with pytest.raises(ConfigError, match=r"has no rotary_emb for Press\.press = NormPress to find"):
        Prefill(model, cache=Press(NormPress())).generate(prompt(), **GREEDY)
    assert not any(module._forward_hooks for module in model.modules())


class Named(NormPress):
    """Looks for hidden states among the options, too."""

    def compress(self, module, hidden_states, *given):
        assert given[-1]["hidden_states"] is hidden_states
        return super().compress(module, hidden_states, *given)


def test_hidden_states_that_a_layer_hands_over_by_position_are_pressed_too():
    sizes = {"vocab_size": 100, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4}
    for model in (tiny(), GPTNeoXForCausalLM(GPTNeoXConfig(num_hidden_layers=2, **sizes)).eval()):
        out = Prefill(model, cache=Press(Named())).generate(prompt(), return_dict_in_generate=True, **GREEDY)
        assert {layer.keys.shape[2] for layer in cache_of(out).layers} == {15}


class Wrapper:
    """Works by hooks of its own, as presses do that wrap others."""

    def compress(self, *given):
        raise NotImplementedError("compress method must be implemented in subclass")


def test_a_press_that_works_by_more_than_compress_is_refused():
    with pytest.raises(ConfigError, match=r"Press\.press = Wrapper compresses by more than compress"):
        Prefill(tiny(), cache=Press(Wrapper())).generate(prompt(), **GREEDY)


@pytest.mark.parametrize("build", [lambda m: SnapKV(m, 16, window=4), lambda m: PromptDistill(m, 1, 16, window=4)])
def test_attention_that_nobody_could_watch_is_no_answer(build, monkeypatch):
    monkeypatch.setattr(one_pass, "watched", lambda *given: nullcontext())
    with pytest.raises(ConfigError, match="no attention of LlamaForCausalLM could be watched"):
        build(tiny()).generate(prompt(), **GREEDY)


@pytest.mark.parametrize("module", [layers, draft])
def test_attention_that_nobody_could_watch_is_no_choice(module, monkeypatch):
    monkeypatch.setattr(module, "watched", lambda *given: nullcontext())
    model, its = tiny(), Prompt(prompt(), torch.ones(1, 60, dtype=torch.bool))
    with pytest.raises(ConfigError, match="no attention of LlamaForCausalLM could be watched"):
        _ = Draft(model, 16, 1, 4).scores(its) if module is draft else layers.scores_of_all_layers(model, its)


@pytest.mark.parametrize("name", ["generate_batch", "init_continuous_batching", "continuous_batching_context_manager"])
def test_the_models_own_generation_of_many_is_not_the_methods(name):
    assert not hasattr(GemFilter(tiny(), 2, 16, window=4), name)


def test_continuous_batching_by_an_option_is_refused():
    paged = {"cache_implementation": "paged", **GREEDY}
    for method in (GemFilter(tiny(), 2, 16, window=4), SnapKV(tiny(), 16, window=4)):
        with pytest.raises(ConfigError, match="cache_implementation = 'paged' cannot be used"):
            method.generate(prompt(), **paged)
    for method in (GemFilter(tiny(), 2, 16, window=4), FullCache(tiny())):
        with pytest.raises(ConfigError, match="cache_implementation = 'paged' cannot be used"):
            method.read(prompt()).ask(prompt(5), **paged)


UNEVEN = {
    "hidden states go on": lambda model: Prefill(model, FilterLayer(1, 16, 4), KeepHidden()),
    "fewer go on than are held": lambda model: FastKV(model, 1, 10, 20, window=4),
    "budgets of layers": lambda model: Prefill(model, cache=LayerBudgets(LastQueries(16, 8))),
}
EVEN = {
    "all go on": lambda model: Prefill(model, FilterLayer(1, 60, 4), KeepHidden()),
    "more go on than are held": lambda model: FastKV(model, 1, 20, 10, window=4),
    "the same budget for all layers": lambda model: Prefill(model, cache=LayerBudgets(LastQueries(16, 8), last=1.0)),
    "windows beside what is dropped": lambda model: SnapKV(hybrid("gemma2"), 16, window=4),
}


@pytest.mark.parametrize("way", [*UNEVEN, *EVEN])
def test_a_cache_whose_layers_hold_different_numbers_does_not_go_on(way):
    its = (UNEVEN | EVEN)[way](tiny())
    out = its.generate(prompt(), return_dict_in_generate=True, **GREEDY)
    name, longer = cache_argument(its.model.forward), torch.cat([out.sequences, prompt(5, 7)], 1)
    if way in EVEN:
        assert its.model.generate(longer, **{name: cache_of(out)}, **GREEDY).shape == (1, 77)
        return
    with pytest.raises(ConfigError, match=r"more entries in some heads or layers .* Ask anew with the whole text"):
        its.model.generate(longer, **{name: cache_of(out)}, **GREEDY)


def test_attention_that_cannot_hide_by_heads_is_refused_when_it_is_chosen_later():
    model = tiny()
    its = AdaKV(model, 16, window=4)
    its.generate(prompt(), **GREEDY)
    model.config._attn_implementation_internal = "flash_attention_2"  # as by ``set_attn_implementation``
    with pytest.raises(ConfigError, match="which attn_implementation = 'flash_attention_2' cannot: allowed is"):
        its.generate(prompt(), **GREEDY)
