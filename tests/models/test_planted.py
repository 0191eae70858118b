"""Networks that hold every feature from the start."""

import pytest
import torch

from featscope.data import SparseTokens
from featscope.models import PlantedStart
from featscope.options import ConfigError
from featscope.streams import Streams

STREAMS = Streams(0, range(3))


def planted(**options):
    source = SparseTokens(features=5, input_dim=30, minority=2).build(STREAMS.at("dictionary"))
    return source, PlantedStart(**options).build(source, STREAMS.at("weights"))


def test_a_planted_network_holds_each_feature_in_neurons_of_its_own():
    source, learner = planted(neurons=3, amplitude=0.6, minority_amplitude=0.2, jitter=0.0)
    assert learner.weight.shape == (3, 15, 30)
    assert learner.tokens == source.tokens
    assert source.means
    for replica in range(3):
        for neuron, weight in enumerate(learner.weight[replica].detach()):
            feature = neuron // 3
            expected = (0.2 if feature >= 3 else 0.6) * source.dictionary[replica, :, feature]
            assert torch.allclose(weight, expected)


def test_jitter_is_independent_noise_on_every_weight():
    """1350 weights: mean and variance are off by more than 5 standard errors once in a million."""
    _, learner = planted(neurons=3, jitter=0.1)
    _, exact = planted(neurons=3, jitter=0.0)
    noise = (learner.weight - exact.weight).detach()
    assert abs(float(noise.mean())) < 5 * 0.1 / 1350**0.5
    assert float(noise.var()) == pytest.approx(0.01, rel=5 * (2 / 1350) ** 0.5)
    assert not torch.equal(noise[0], noise[1])


@pytest.mark.parametrize(
    "options", [{"neurons": 0}, {"amplitude": 0.0}, {"minority_amplitude": -1.0}, {"jitter": -1.0}]
)
def test_wrong_options_of_the_start_are_refused(options):
    ((field, value),) = options.items()
    with pytest.raises(ConfigError, match=f"PlantedStart.{field} = {value} is out of range: allowed is >"):
        PlantedStart(**options)
