"""Attention is watched whatever computes it."""

import jaxtyping
import pytest
import torch
from hybrid_models import hybrid
from small_models import padded, prompt, tiny
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import flash_attention_mask

from featscope.language import H2O, GemFilter, GemFilterOneRun, SnapKV
from featscope.language.attention import Attention, attention_weights, watched
from featscope.language.first_pass import attention_at
from featscope.language.prompt import Prompt
from featscope.options import ConfigError

GREEDY = {"max_new_tokens": 6, "do_sample": False}
KERNELS = ("flash_attention_2", "flash_attention_3", "kernels-community/flash-attn2", "someone/paged-kernel")
METHODS = {
    "gemfilter": lambda model: GemFilter(model, 2, 16, window=0),
    "snapkv": lambda model: SnapKV(model, 16, window=8),
    "h2o": lambda model: H2O(model, 16, recent=8),
    "one-run": lambda model: GemFilterOneRun(model, 2, 16, window=0),
}


def stub_kernel(ran):
    """What a flash kernel does, by its definition: a causal mask of its own, and padding from a mask of two axes."""

    def kernel(module, query, key, value, attention_mask, scaling=None, **options):
        assert attention_mask is None or attention_mask.ndim == 2  # what transformers makes for names that it knows
        ran.append(module.layer_idx)
        length, keys = query.shape[2], key.shape[2]
        seen = torch.ones(length, keys, dtype=torch.bool).tril(keys - length)[None, None]
        if attention_mask is not None:
            seen = seen & attention_mask[:, None, None, -keys:].bool()
        groups = query.shape[1] // key.shape[1]
        products = query @ key.repeat_interleave(groups, 1).mT * scaling
        weights = products.masked_fill(~seen, torch.finfo(products.dtype).min).softmax(-1)
        return (weights @ value.repeat_interleave(groups, 1)).transpose(1, 2), None

    return kernel


@pytest.fixture(params=KERNELS)
def kernel_model(request, monkeypatch):
    """A model on a kernel that cannot be loaded here, with a stub in its place."""
    ran = []
    monkeypatch.setitem(AttentionInterface._global_mapping, request.param, stub_kernel(ran))
    monkeypatch.setitem(AttentionMaskInterface._global_mapping, request.param, flash_attention_mask)
    model = tiny()
    model.config._attn_implementation_internal = request.param
    return model, ran, request.param


@pytest.mark.parametrize("method", METHODS)
def test_kernels_are_used_and_never_loaded_anew(method, kernel_model):
    model, ran, name = kernel_model
    rows = padded(prompt(60), prompt(11, 1))  # the second is shorter than what is kept
    found = METHODS[method](model).generate(rows, **GREEDY)
    assert set(ran) == {0, 1, 2, 3}
    assert model.config._attn_implementation == name
    plain = METHODS[method](tiny()).generate(rows, **GREEDY)
    assert torch.equal(found, plain)
    assert torch.equal(found.kept, plain.kept)


def test_chunks_go_through_kernels_too(kernel_model):
    expected = GemFilter(tiny(), 2, 16, window=0).select(prompt())
    assert torch.equal(GemFilter(kernel_model[0], 2, 16, window=0, chunk=20).select(prompt()), expected)


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_a_forward_that_was_compiled_before_is_watched_too(method, monkeypatch):
    """What was traced without an observer is traced again where there is one; checks of types cannot be traced."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    model = tiny()
    model.forward = torch.compile(model.forward, backend="eager")  # any other traces alike, and takes a C++ compiler
    model.generate(prompt(), **GREEDY)
    expected = METHODS[method](tiny()).generate(prompt(), **GREEDY)
    assert torch.equal(METHODS[method](model).generate(prompt(), **GREEDY), expected)
    torch.compiler.reset()


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("name", ["eager", "flex_attention"])
def test_other_functions_choose_the_same_and_keep_their_name(name):
    model = tiny()
    model.set_attn_implementation(name)
    with torch.compiler.set_stance("force_eager"):  # without half a minute of a C++ compiler
        chosen = GemFilter(model, 2, 16, window=0).select(prompt())
    assert torch.equal(chosen, GemFilter(tiny(), 2, 16, window=0).select(prompt()))
    assert model.config._attn_implementation == name


def test_the_lookup_is_transformers_own_again():
    own = AttentionInterface.get_interface
    GemFilter(tiny(), 2, 16, window=0).select(prompt())
    with pytest.raises(ConfigError):
        GemFilter(tiny(), 2, 16, window=0).select(prompt(300))
    assert AttentionInterface.get_interface is own


def test_what_another_library_put_there_later_is_used_and_stays(monkeypatch):
    own, asked = AttentionInterface.get_interface, []

    def patched(interface, name, default):
        asked.append(name)
        return own(interface, name, default)

    monkeypatch.setattr(AttentionInterface, "get_interface", patched)
    GemFilter(tiny(), 2, 16, window=0).select(prompt())
    assert asked
    assert AttentionInterface.get_interface is patched


def test_weights_are_those_of_the_models_own_scaling():
    model, ids = hybrid("gemma3"), prompt()
    real = torch.ones_like(ids, dtype=torch.bool)
    reached = attention_at(model, Prompt(ids, real), 1)
    found = attention_weights(reached, real, slice(-5, None))[0].flatten(0, 1)
    model.set_attn_implementation("eager")
    assert torch.allclose(found, model(ids, output_attentions=True).attentions[1][0, :, -5:], atol=1e-6)
    assert reached.scaling == 1 / 16


def test_weights_of_a_model_in_half_precision_are_not_rounded_to_it():
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(1, heads, 9, 8, generator=generator).bfloat16() for heads in (4, 2))
    real = torch.ones(1, 9, dtype=torch.bool)
    half, whole = (Attention(0, q, k, None, 0.5) for q, k in ((query, key), (query.float(), key.float())))
    assert torch.equal(*(attention_weights(one, real, slice(-3, None)) for one in (half, whole)))
    assert attention_weights(half, real, slice(-3, None)).dtype == torch.float32


def test_models_that_share_a_config_are_told_apart():
    model = tiny()
    other = type(model)(model.config).eval()
    seen = []

    class Sees:
        def before(self, attention):
            seen.append(attention.layer)

        def after(self, attention):
            pass

    with watched(model, Sees()):
        other(prompt())
        assert seen == []
        model(prompt())
    assert seen == [0, 1, 2, 3]
