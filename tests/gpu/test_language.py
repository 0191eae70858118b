"""Every way to read a long prompt chooses and answers on a GPU as it does on the processor."""

from copy import deepcopy

import pytest
import torch
from small_models import ARCHITECTURES, padded, prompt, saved_draft, tiny

from featscope.language import GemFilter
from featscope.language.load import RETRIEVER_KERNEL, RETRIEVER_LAYER, RETRIEVER_POOL, load_model
from featscope.language.methods import METHODS, PEERS, Reading


@pytest.mark.parametrize("method", [*METHODS, *PEERS])
@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_each_method_says_what_it_says_on_the_processor(architecture, method):
    model, ids = tiny(architecture), prompt(90, seed=4)
    reading = Reading(layer=1, keep=24, window=8, draft=saved_draft())
    here = reading.build(method, model).generate(ids, max_new_tokens=6, do_sample=False)
    there = reading.build(method, deepcopy(model).cuda()).generate(ids.cuda(), max_new_tokens=6, do_sample=False)
    assert there.device.type == "cuda"
    assert torch.equal(there.cpu(), here)


@pytest.mark.parametrize("chunk", [None, 16])
def test_padded_rows_keep_the_tokens_that_they_keep_on_the_processor(chunk):
    ids, model = padded(prompt(90, seed=1), prompt(60, seed=2)), tiny()
    mask = (ids != 0).long()
    here = GemFilter(model, 1, 24, window=8, chunk=chunk).select(ids, mask)
    there = GemFilter(deepcopy(model).cuda(), 1, 24, window=8, chunk=chunk).select(ids.cuda(), mask.cuda())
    assert torch.equal(there.cpu(), here)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_shipped_model_answers_on_a_gpu(dtype):
    model, tokenizer = load_model("retriever", "cuda")
    text = "In Lima, the password is: green river. " + "Other words stand here and there. " * 60
    ids = tokenizer(
        f"{text}\nWhich words open the gate? In Lima, the password is:", return_tensors="pt"
    ).input_ids.cuda()
    out = (
        Reading(RETRIEVER_LAYER, 96, 32, RETRIEVER_KERNEL, RETRIEVER_POOL)
        .build("question-kept", model.to(dtype))
        .generate(ids, max_new_tokens=6, do_sample=False)
    )
    assert "green river" in tokenizer.decode(out[0, ids.shape[1] :])
