"""Looped linear attention against the formulas as they are printed."""

import jaxtyping
import numpy as np
import pytest
import torch

from featscope.models import LoopedLinearAttention, answer, attention_mask, gradient_descent_weights
from featscope.options import ConfigError

GENERATOR = torch.Generator().manual_seed(0)


def normal(*shape):
    return torch.randn(*shape, generator=GENERATOR, dtype=torch.float64)


def as_printed(z, query_key, value, mask, step):
    """Z - η (M ∘ (Z Q Zᵀ)) Z P of one prompt, with all of M."""
    return z - step * (mask * (z @ query_key @ z.T)) @ z @ value


@pytest.mark.parametrize("kind", ["query", "query-and-itself", "causal"])
def test_a_loop_is_the_printed_formula(kind):
    query_key, value, prompts, step = normal(2, 4, 4), normal(2, 4, 4), normal(2, 3, 6, 4), normal(2, 3).abs()
    layer = LoopedLinearAttention(query_key, value)
    found = layer(prompts, attention_mask(kind, 6), step)
    in_place = prompts.clone()
    layer.loop_(in_place, attention_mask(kind, 6), step)
    torch.testing.assert_close(in_place, found, rtol=1e-13, atol=0)
    whole = np.zeros((6, 6))
    whole[-1] = 1
    if kind == "query":
        whole[-1, -1] = 0
    if kind == "causal":
        whole = np.tril(np.ones((6, 6)))
    for r, p in np.ndindex(2, 3):
        wanted = as_printed(*(t.numpy() for t in (prompts[r, p], query_key[r], value[r])), whole, float(step[r, p]))
        np.testing.assert_allclose(found[r, p].detach(), wanted, rtol=1e-12)


def test_hand_set_weights_add_the_gradient_to_the_query_and_leave_the_rest(tmp_path):
    prompts = normal(1, 1, 9, 4)
    x, y, q, alpha = prompts[0, 0, :-1, :3], prompts[0, 0, :-1, 3], prompts[0, 0, -1, :3], prompts[0, 0, -1, 3]
    layer = LoopedLinearAttention(*(w[None] for w in gradient_descent_weights(3)))
    found = layer(prompts, attention_mask("query", 9), 0.1)
    torch.testing.assert_close(found[0, 0, -1, :3], q - 0.1 * (x.T @ x @ q + alpha * x.T @ y), rtol=1e-12, atol=0)
    assert torch.equal(found[..., :-1, :], prompts[..., :-1, :])
    assert found[0, 0, -1, 3] == alpha
    assert torch.equal(answer(found), -found[..., -1, :3])


def test_a_mask_of_another_name_is_refused(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which refuses it first, in tests alone
    with pytest.raises(ConfigError, match=r"kind = 'query_and_itself' .* 'query', 'query-and-itself' or 'causal'"):
        attention_mask("query_and_itself", 3)
