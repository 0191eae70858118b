"""Shares of the largest bins before training."""

import numpy as np
import pytest

from featscope.theory import attention_circuits as theory


def test_exponential_shares_are_those_of_spacings():
    power = np.random.default_rng(0).exponential(size=(20_000, 18))
    shares = np.sort(power, 1)[:, -4:].sum(1) / power.sum(1)
    assert theory.exponential_share(18, 4) == pytest.approx(shares.mean(), rel=5e-3)
    assert theory.exponential_share(18, 18) == pytest.approx(1)
    assert theory.exponential_share(3, 1) == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)


def test_bins_are_half_of_the_plane():
    assert [theory.half_plane(p) for p in (5, 7, 17)] == [8, 18, 128]
    assert theory.power_at_start(7, 4, 2, 10).shape == (10, 18)


def test_wide_heads_come_to_exponential_shares_and_narrow_ones_are_above(monkeypatch):
    monkeypatch.setattr(theory, "_MATRICES", 600)
    few, many = (theory.exponential_share(theory.half_plane(p), 4) for p in (7, 17))
    assert theory.share_at_start(7, 64, 64, 4) == pytest.approx(few, rel=0.03)
    assert theory.share_at_start(17, 32, 2, 4) > 1.2 * many  # of 18 bins four hold half in any case


def test_shares_at_the_start_are_those_of_matrices_that_are_made():
    """5 x 5 matrices of 8 hidden and 2 head dimensions: eight bins, the two largest of them."""
    rng = np.random.default_rng(0)
    embedding, key, query = (rng.normal(size=(4000, 8, n)) for n in (5, 2, 2))
    matrices = embedding.swapaxes(1, 2) @ key @ query.swapaxes(1, 2) @ embedding
    power = np.sort((np.abs(np.fft.fft2(matrices)) ** 2)[:, 1:, 1:3].reshape(4000, 8), 1)
    made = (power[:, -2:].sum(1) / power.sum(1)).mean()
    assert theory.share_at_start(5, 8, 2, 2) == pytest.approx(made, rel=0.02)
