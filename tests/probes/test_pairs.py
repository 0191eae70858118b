"""Scores of representations of token pairs, on pairs that are written down."""

import numpy as np
import pytest
import torch
from torch import nn

from featscope.data import TokenPairs
from featscope.probes.downstream import regression_error, regression_errors
from featscope.probes.pairs import score_pairs

ANGLE = torch.tensor([[0.6, 0.8], [0.0, 1.0], [0.0, 0.0], [1.0, 0.0]])


def test_cosines_are_of_pairs_with_a_signal_and_of_all():
    """Cosines 0.6, 1, 0 (nothing is seen) and 0; the second pair is empty."""
    x = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 0.0], [0.0, 3.0]])
    codes = torch.tensor([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0], [0.0, -1.0]])
    pairs = TokenPairs(x[None], ANGLE[None], codes[None], codes[None])
    found = score_pairs(nn.Identity(), pairs, pairs, [])
    assert found.cosine.tolist() == pytest.approx([(0.6 + 0 + 0) / 3])
    assert found.cosine_all.tolist() == pytest.approx([(0.6 + 1 + 0 + 0) / 4])


def test_heads_learn_their_target_and_where_it_never_varies_there_is_no_error():
    """f(X) is the first code alone: a target on it is known, one on the second is not, and one on nothing is none."""
    generator = torch.Generator().manual_seed(0)
    train, test = (torch.randint(-1, 2, (2, 400, 2), generator=generator).float() for _ in range(2))
    batches = [TokenPairs(codes, codes, codes, codes) for codes in (train, test)]
    targets = [torch.tensor([[a, b]] * 2) for a, b in ((1.0, 0.0), (0.0, 1.0), (0.0, 0.0))]
    network = nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        network.weight.copy_(torch.tensor([[1.0, 0.0]]))
        known, unknown, none = score_pairs(network, *batches, targets).errors
    assert float(known.max()) < 1e-4
    assert unknown.tolist() == pytest.approx([1, 1], abs=0.05)
    assert none.isnan().all()


def test_errors_of_replicas_are_those_of_each():
    generator = torch.Generator().manual_seed(0)
    f, g = (torch.randn(3, 50, 4, generator=generator) for _ in range(2))
    y, z = f[..., 0] + f[..., 1] ** 2, g[..., 0] + g[..., 1] ** 2
    z[1] = 2.0
    found = regression_errors(f, y, g, z).numpy()
    np.testing.assert_allclose(found[[0, 2]], [regression_error(f[i], y[i], g[i], z[i]) for i in (0, 2)], rtol=1e-6)
    assert np.isnan(found[1])


def test_cosines_are_divided_by_both_lengths():
    x, y = torch.eye(2)[None], torch.tensor([[[3.0, 4.0], [0.0, 2.0]]])
    pairs = TokenPairs(x, y, x, x)
    assert float(score_pairs(nn.Identity(), pairs, pairs, []).cosine) == pytest.approx(0.8)
