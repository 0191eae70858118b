"""All between a model and a FlashAttention kernel is transformers' own, with a stand-in for the package."""

import sys

import pytest
import torch
from benchmarks.flash_of_torch import KERNEL, install
from small_models import padded, prompt, tiny
from transformers import modeling_flash_attention_utils

from featscope.language import (
    H2O,
    FastKV,
    FullCache,
    GemFilter,
    GemFilterOneRun,
    PromptDistill,
    SnapKV,
    SpeculativePrefill,
)

GREEDY = {"max_new_tokens": 6, "do_sample": False}
METHODS = {
    "full": FullCache,
    "gemfilter": lambda model: GemFilter(model, 2, 16, window=0),
    "in chunks": lambda model: GemFilter(model, 2, 16, window=0, chunk=20),
    "snapkv": lambda model: SnapKV(model, 16, window=8),
    "h2o": lambda model: H2O(model, 16, recent=8),
    "one-run": lambda model: GemFilterOneRun(model, 2, 16, window=0),
    "fastkv": lambda model: FastKV(model, 1, 16, 12, window=8),
    "promptdistill": lambda model: PromptDistill(model, 1, 16, window=8),
    "speculative": lambda model: SpeculativePrefill(model, model, 16, window=8),
}


@pytest.fixture
def flash_model():
    """A model on "flash_attention_2", for as long as a test takes."""
    its = vars(modeling_flash_attention_utils)
    before = dict(its)
    if install() != KERNEL:
        pytest.skip("the package itself is there")
    model = tiny()
    model.config._attn_implementation = "flash_attention_2"
    yield model
    its.update(before)
    for name in ("flash_attn", "flash_attn.bert_padding"):
        del sys.modules[name]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rows", [prompt(60), padded(prompt(60), prompt(11, 1))], ids=["one prompt", "padded"])
def test_methods_write_and_keep_what_they_do_by_sdpa(method, rows, flash_model):
    found, expected = (METHODS[method](model).generate(rows, **GREEDY) for model in (flash_model, tiny()))
    assert torch.equal(found, expected)
    assert torch.equal(found.kept, expected.kept)
