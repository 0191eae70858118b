"""Growth under linear attention, against a simulation of its definition."""

import numpy as np
import pytest

from featscope.theory.imbalance import linear_attention_gain


def test_the_gain_is_that_of_attended_tokens():
    """z^(r) = X Xᵀ x^(r)/L on tokens s + noise: E[h(Y) <∇h(X), M_j>] over a_j A_ij. 4 standard errors are 5 %."""
    p, tokens, inputs, noise, count = np.array([0.5, 0.5, 0.2]), 3, 5, 0.3, 60_000
    draw = np.random.default_rng(0)
    u = draw.random((count, 3))
    codes = (u < p / 2) * 1.0 - (u >= 1 - p / 2)

    def attended() -> np.ndarray:
        x = noise * draw.normal(size=(count, tokens, inputs))
        x[..., :3] += codes[:, None]
        return np.einsum("nra,nla,nlb->nb", x, x, x) / tokens  # the sum over r

    first, second = attended(), attended()
    found = (first[:, :3] * second[:, :3]).mean(0) / (tokens**2 * p)
    assert linear_attention_gain(p, tokens, inputs, noise) == pytest.approx(found, rel=0.05)


@pytest.mark.parametrize(("tokens", "added"), [(1, 3.0), (2, 4.0)])
def test_what_noise_adds_in_one_dimension_is_a_third_moment(tokens, added):
    """E x³ = s³ + 3σ²s of one token, and E (x² + x'²)(x + x')/2 = 2s³ + 4σ²s of two."""
    gain = linear_attention_gain(np.array([0.5]), tokens, 1, 1.5)
    assert gain == pytest.approx((1 + added / tokens * 1.5**2) ** 2)
