"""Gaussians at the corners of a cube: their centres, noise and labels, and what is refused."""

import numpy as np
import pytest
import torch

from featscope.data.sign_mixture import SignMixture
from featscope.options import ConfigError
from featscope.streams import Streams


def test_samples_lie_about_their_centres_and_have_their_labels():
    source = SignMixture(25, 3, 0.7).build(Streams(0, range(2)).at("data"))
    x, y, part = source.sample(Streams(0, range(2)).at("batch"), 20_000, torch.float64)
    assert source.centres.shape == (2, 8, 25)
    np.testing.assert_allclose(source.centres.norm(dim=-1), np.sqrt(3))
    own = source.centres.gather(1, part[..., None].expand(-1, -1, 25))
    noise = x - own
    np.testing.assert_allclose(noise.mean(1), 0, atol=0.01)
    assert float(noise.square().sum(-1).mean()) == pytest.approx(0.49 * 3, rel=0.02)
    signs = (own @ source.patterns.mT).round()
    assert torch.equal(signs.prod(-1), y)
    np.testing.assert_allclose([(part == centre).double().mean() for centre in range(8)], 1 / 8, atol=0.01)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"directions": 0}, "directions = 0 .* 1 to 10"),
        ({"directions": 11}, "directions = 11 .* 1 to 10"),
        ({"dimension": 3}, "dimension = 3 .* >= directions = 4"),
        ({"noise": 0.0}, "noise = 0.0 .* > 0"),
    ],
)
def test_options_out_of_range_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        SignMixture(**options)
