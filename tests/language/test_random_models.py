"""Models with random weights."""

import torch
from small_models import prompt, tiny

from featscope.language.random_models import random_model, untrained
from featscope.streams import Streams
from featscope.theory.token_selection import Geometry

SIZE = Geometry(layers=2, heads=4, kv_heads=2, channels=4, width=24, hidden=48, vocabulary=100)


def draws(replica: int = 0):
    return Streams(0, [replica]).at("weights")


def weights(model) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters() if p.ndim > 1])


def test_it_has_the_sizes_and_follows_from_its_draws():
    torch.manual_seed(7)
    before = torch.get_rng_state()
    model = random_model(SIZE, 64, draws(), spread=0.5)
    assert torch.equal(torch.get_rng_state(), before)
    attention, mlp = model.model.layers[1].self_attn, model.model.layers[1].mlp
    assert attention.q_proj.weight.shape == (16, 24)
    assert attention.k_proj.weight.shape == (8, 24)
    assert mlp.up_proj.weight.shape == (48, 24)
    assert len(model.model.layers) == 2
    assert abs(float(weights(model).std()) - 0.5) < 0.02
    assert torch.equal(weights(model), weights(random_model(SIZE, 64, draws(), spread=0.5)))
    assert not torch.equal(weights(model), weights(random_model(SIZE, 64, draws(1), spread=0.5)))
    assert model.generate(prompt(20), max_new_tokens=9, do_sample=False).shape == (1, 29)


def test_an_untrained_model_is_of_the_same_shapes_and_of_other_weights():
    model = tiny("qwen2")
    fresh = untrained(model, draws())
    assert type(fresh) is type(model)
    assert [p.shape for p in fresh.parameters()] == [p.shape for p in model.parameters()]
    assert not torch.equal(weights(fresh), weights(model))
    assert torch.equal(weights(fresh), weights(untrained(model, draws())))
    assert not fresh.training
