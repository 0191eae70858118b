"""What is given to methods in other shapes than a tensor, and what comes back."""

import copy
import pickle

import pytest
import torch
from small_models import prompt, tiny, word_tokenizer
from transformers import GenerationConfig, pipeline

from featscope.language import FilterLayer, FullCache, GemFilter, KeepHidden, SnapKV
from featscope.language.caches import Full
from featscope.options import ConfigError

GREEDY = {"max_new_tokens": 6, "do_sample": False}
METHODS = {
    "gemfilter": lambda model: GemFilter(model, 2, 16, window=4),
    "snapkv": lambda model: SnapKV(model, 16, window=4),
    "full": FullCache,
}


@pytest.mark.parametrize("method", METHODS)
def test_slices_copies_and_moves_have_kept(method):
    out = METHODS[method](tiny()).generate(prompt(), **GREEDY)
    for other in (out[:, 60:], out[0], out.to("cpu"), out.cpu(), out.clone(), copy.deepcopy(out)):
        assert torch.equal(other.kept, out.kept)
    assert torch.equal(pickle.loads(pickle.dumps(out)).kept, out.kept)
    assert out.to("meta").kept.device.type == "meta"
    assert type(out + 1) is torch.Tensor
    assert type(torch.cat([out, out])) is torch.Tensor
    assert word_tokenizer().decode(out[0, 60:]) == word_tokenizer().decode(out.tolist()[0][60:])
    whole = METHODS[method](tiny()).generate(prompt(), return_dict_in_generate=True, **GREEDY)
    assert torch.equal(whole.sequences[:, 60:].kept, whole.kept)


LENGTHS = {
    "option": lambda model: {"max_length": 66, "min_length": 62},
    "config": lambda model: {"generation_config": GenerationConfig(max_length=66, min_length=62)},
    "model": lambda model: model.generation_config.update(max_length=66, min_length=62),
    "model, and more new tokens": lambda model: model.generation_config.update(max_length=63) or {"max_new_tokens": 6},
}


@pytest.mark.parametrize("where", LENGTHS)
@pytest.mark.parametrize("method", METHODS)
def test_lengths_count_the_whole_prompt(method, where):
    model = tiny()
    options = LENGTHS[where](model) or {}
    out = METHODS[method](model).generate(prompt(), do_sample=False, **options)
    assert out.shape == (1, 66)
    if where != "model, and more new tokens":
        model.generation_config.eos_token_id = int(out[0, 60])
        if "generation_config" in options:
            options["generation_config"].eos_token_id = int(out[0, 60])
        stopped = METHODS[method](model).generate(prompt(), do_sample=False, **options)
        assert stopped.shape[1] >= 62
        assert int(stopped[0, 60]) != int(out[0, 60])  # an end may not come before the least length


def test_a_length_that_the_prompt_fills_is_refused():
    with pytest.raises(ConfigError, match="max_length = 60 leaves no room behind a prompt of 60 tokens"):
        GemFilter(tiny(), 2, 16, window=0).generate(prompt(), max_length=60)


@pytest.mark.parametrize("method", METHODS)
def test_a_pipeline_takes_a_method_for_a_model(method):
    model, tokenizer = tiny(), word_tokenizer()
    text = " ".join(f"w{int(word)}" for word in prompt()[0])
    made = pipeline("text-generation", model=METHODS[method](model), tokenizer=tokenizer)
    said = made(text, max_new_tokens=6, do_sample=False, return_full_text=False)[0]["generated_text"]
    out = METHODS[method](model).generate(prompt(), **GREEDY)
    assert said.split() == tokenizer.decode(out[0, 60:]).split()


@pytest.mark.parametrize("method", METHODS)
def test_prompts_in_other_shapes_work_or_say_what_does(method):
    its = METHODS[method](tiny())
    assert torch.equal(its.generate(inputs=prompt(), **GREEDY), its.generate(prompt(), **GREEDY))
    for wrong, message in (
        (lambda: its.generate([[1, 2, 3]], **GREEDY), "input_ids is a list: allowed is a tensor .*return_tensors='pt'"),
        (lambda: its.generate("text", **GREEDY), "input_ids is a str"),
        (lambda: its.generate({"input_ids": prompt()}, **GREEDY), r"input_ids is a dict.*as \*\*inputs"),
        (lambda: its.generate(prompt(), [[1] * 60], **GREEDY), "attention_mask is a list"),
        (lambda: its.generate(**GREEDY), "of input_ids and inputs none is given"),
        (lambda: its.generate(prompt(), inputs=prompt(), **GREEDY), "of input_ids and inputs both is given"),
    ):
        with pytest.raises(ConfigError, match=message):
            wrong()
    with pytest.raises(ConfigError, match=r"inputs_embeds cannot be given|none is given"):
        its.generate(inputs_embeds=torch.ones(1, 3, 32), **GREEDY)


def test_what_a_method_does_not_have_nobody_has():
    gem = GemFilter(tiny(), 2, 16, window=0)
    assert gem.device.type == "cpu"
    assert gem.config is gem.model.config
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = gem.nothing_of_the_kind
    assert copy.copy(gem).selector.keep == 16


@pytest.mark.parametrize("method", METHODS)
def test_what_is_moved_or_cast_is_still_the_method(method):
    its = METHODS[method](tiny())
    for moved in (its.to("cpu"), its.cpu(), its.train(), its.eval(), its.requires_grad_(False), its.float()):
        assert moved is its
    assert not its.model.training
    assert its.to(torch.bfloat16) is its
    assert its.dtype == torch.bfloat16
    assert its.get_input_embeddings() is its.model.get_input_embeddings()
    assert its.float().generate(prompt(), **GREEDY).kept.shape[-1] == (60 if method == "full" else 16)


@pytest.mark.parametrize("method", METHODS)
def test_what_is_set_is_a_part_or_the_models_own(method):
    its = METHODS[method](tiny())
    config = GenerationConfig(max_new_tokens=3, do_sample=False)
    its.generation_config = config
    assert its.model.generation_config is config
    assert its.generate(prompt()).shape == (1, 63)
    for name in ("keep", "layer", "window"):
        with pytest.raises(AttributeError, match=rf"{name} = 2048 cannot be set.*make a new {type(its).__name__}"):
            setattr(its, name, 2048)
    its.generate = lambda *given, **options: "somebody's own"
    assert its.generate(prompt()) == "somebody's own"


@pytest.mark.parametrize(
    ("name", "part"),
    [("selector", FilterLayer(2, 20, 4)), ("propagation", KeepHidden()), ("cache", Full()), ("model", 3)],
)
def test_parts_that_were_tried_together_stay_together(name, part):
    gem = GemFilter(tiny(), 2, 16, window=0)
    with pytest.raises(AttributeError, match=f"{name} = .* cannot be set: .* Make a new one"):
        setattr(gem, name, part)
    assert gem.select(prompt()).shape == (1, 16)


def test_what_is_stored_is_read_again_with_kept(tmp_path):
    out = METHODS["gemfilter"](tiny()).generate(prompt(), **GREEDY)
    torch.save(out, tmp_path / "out.pt")
    read = torch.load(tmp_path / "out.pt")
    assert torch.equal(read, out)
    assert torch.equal(read.kept, out.kept)
