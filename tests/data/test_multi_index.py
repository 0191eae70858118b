"""Polynomials of few directions: every part has the share that it is given, and its sign."""

import pytest
import torch

from featscope.data import MultiIndex
from featscope.streams import Streams

STREAMS = Streams(0, range(2))


def test_every_part_has_its_share_and_its_sign():
    """By products with Hermite polynomials, whose squares are 1, 1, 2 and 6 in the mean; 200,000 inputs."""
    source = MultiIndex(6, 2, constant=0.1, linear=0.2, quadratic=0.4, cubic=0.3).build(STREAMS.at("data"))
    x, y = source.sample(STREAMS.at("batch"), 200_000, torch.float64)
    z, y = x @ source.features.mT, y[..., None]
    of_square, of_cube = (y * (z**2 - 1)).mean(1), (y * (z**3 - 3 * z)).mean(1)
    assert y.mean(1).flatten().tolist() == pytest.approx([0.1**0.5] * 2, abs=0.02)
    assert (y * z).mean(1)[:, 0].tolist() == pytest.approx([0.2**0.5] * 2, abs=0.05)
    for replica in range(2):
        assert (of_square[replica].square() / 2).tolist() == pytest.approx([0.4 / 2] * 2, rel=0.1)
        assert (of_cube[replica].square() / 6).tolist() == pytest.approx([0.3 / 2] * 2, rel=0.2)
    assert of_square.sign().tolist() == [[1, -1]] * 2
    along = source.features @ source.hessian @ source.features.mT
    torch.testing.assert_close(along.diagonal(dim1=1, dim2=2), of_square, rtol=0.05, atol=0)
