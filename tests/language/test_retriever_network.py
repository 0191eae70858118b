"""The retriever's network, its loss, its steps, and how often it answers."""

from copy import deepcopy

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from featscope.language.retriever.data import KEYS, NONE, Batch
from featscope.language.retriever.forward import hidden, logits
from featscope.language.retriever.hints import Readers, of_hints
from featscope.language.retriever.model import accuracy, build, fits, go_on, loss_and_right
from featscope.language.retriever.muon import Muon, orthogonal


def test_text_and_hints_are_learned_beside_answers(tokenizer):
    model, readers = build(tokenizer, 32, 2, 2, 64, 0), Readers(32)
    tokens = torch.randint(3, 50, (2, 9), generator=torch.Generator().manual_seed(0))
    answers = torch.zeros(2, 9, dtype=torch.bool)
    answers[:, 6] = answers[0, 7:9] = True  # three tokens, and one
    keys, sought = torch.full((2, 9, KEYS), NONE), torch.full((2, 9), NONE)
    keys[:, 3, 0] = keys[:, 5, 0] = 7
    sought[:, 5] = 3
    batch = Batch(tokens, answers, keys, sought)
    loss, right = loss_and_right(model, readers, batch)
    loss.backward()
    assert readers.starts.weight.grad.norm() > 0
    states, read = hidden(model, tokens)
    said = model.lm_head(states)
    after = torch.nn.functional.cross_entropy(said[:, :-1:2].flatten(0, 1), tokens[:, 1::2].flatten())
    each = torch.nn.functional.cross_entropy(said[:, 5:8].transpose(1, 2), tokens[:, 6:], reduction="none")
    of_rows = (each[0, 0] + each[0, 1] / 4 + each[0, 2] / 4) / 1.5, each[1, 0]
    expected = sum(of_rows) / 2 + 0.1 * after + of_hints(model, readers, read, batch)
    torch.testing.assert_close(loss, expected, rtol=0.02, atol=0)
    assert right == (said[:, 5].argmax(-1) == tokens[:, 6]).float().mean()


def test_a_new_model_looks_one_token_back(tokenizer):
    model = build(tokenizer, 128, 2, 2, 512, 0)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        weights = model(torch.randint(3, 1000, (1, 100)), output_attentions=True).attentions[0][0, 0]
    assert float(weights.diagonal(-1)[5:].mean()) > 0.5


def test_the_network_that_is_trained_is_that_of_transformers(tokenizer):
    model = build(tokenizer, 64, 3, 4, 2048, 0)
    for length in (50, 900):  # attention is formed of 256 queries at a time
        tokens = torch.randint(3, 1000, (2, length))
        with torch.no_grad():
            wanted = model.model(tokens, use_cache=False).last_hidden_state
            found, read = hidden(model, tokens, torch.float32)
            assert torch.allclose(found, wanted, atol=2e-4)
            all_states = model.model(tokens, use_cache=False, output_hidden_states=True).hidden_states
            assert len(read) == 3
            assert all(torch.allclose(*both, atol=2e-4) for both in zip(read, all_states, strict=False))
            rounded, _ = hidden(model, tokens)
        assert torch.nn.functional.cosine_similarity(rounded, wanted, dim=-1).mean() > 0.999


@pytest.mark.parametrize(("has", "dtype"), [("AVX512", torch.bfloat16), ("AVX2", torch.float32)])
def test_products_are_in_bfloat16_where_the_processor_has_fast_ones(tokenizer, monkeypatch, has, dtype):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: has)
    seen = set()

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default):
                seen.add(args[-1].dtype)
            return func(*args, **(kwargs or {}))

    model = build(tokenizer, 64, 2, 4, 512, 0)
    with torch.no_grad(), Watch():
        states, _ = hidden(model, torch.randint(3, 1000, (2, 40)))
        assert logits(states, model.lm_head.weight).dtype == states.dtype == torch.float32
        assert orthogonal(torch.randn(2, 8, 16)).dtype == torch.float32
    assert seen == {dtype}


@pytest.mark.parametrize(("layers", "added"), [(2, []), (4, [1, 3]), (5, [1, 3, 4])])
def test_layers_that_a_model_gets_say_nothing_at_first_and_the_middle_one_still_looks(tokenizer, layers, added):
    small, deep = (build(tokenizer, 64, depth, 4, 512, seed) for depth, seed in ((2, 0), (layers, 1)))
    own = deepcopy(deep.model.layers)
    go_on(deep, small)
    tokens = torch.randint(3, 1000, (1, 60))
    with torch.no_grad():
        assert torch.equal(small(tokens).logits, deep(tokens).logits)
    for number in added:  # what they read by is that of a new model
        assert torch.equal(deep.model.layers[number].self_attn.q_proj.weight, own[number].self_attn.q_proj.weight)
    assert torch.equal(
        deep.model.layers[layers // 2].self_attn.q_proj.weight, small.model.layers[1].self_attn.q_proj.weight
    )
    assert fits(small, deep)
    assert fits(deep, small) == (layers == 2)


def test_whole_answers_count(tokenizer, monkeypatch):
    model = build(tokenizer, 32, 1, 2, 64, 0)
    tokens = torch.randint(3, 50, (2, 9))
    answers = torch.zeros(2, 9, dtype=torch.bool)
    answers[:, 4:7] = True
    said = torch.nn.functional.one_hot(tokens[:, 1:][answers[:, 1:]], 1024).float()

    batch = Batch(tokens, answers, torch.full((2, 9, KEYS), NONE), torch.full((2, 9), NONE))
    assert accuracy_of(model, said, batch, monkeypatch) == 1
    said[4] = 0  # a token of the second answer
    assert accuracy_of(model, said, batch, monkeypatch) == 0.5


def accuracy_of(model, said, batch, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(model.lm_head, "forward", lambda states: said)
        return accuracy(model, batch)


def test_muon_steps_along_an_orthogonal_matrix():
    torch.manual_seed(0)
    for shape in ((3, 16, 16), (2, 32, 16), (2, 16, 32)):
        found = torch.linalg.svdvals(orthogonal(torch.randn(shape)))
        assert found.min() > 0.3
        assert found.max() < 1.3
    weight = torch.nn.Parameter(torch.zeros(8, 8))
    weight.grad = torch.diag(torch.arange(1.0, 9.0))
    Muon([weight], 0.1).step()
    left, _, right = torch.linalg.svd(weight.grad)
    off = weight.detach() - torch.diag(weight.detach().diagonal())
    assert off.abs().max() < 1e-5
    assert (weight.detach().diagonal() < -0.05).all()
    assert torch.allclose((left @ right).abs(), torch.eye(8), atol=1e-5)
