"""The study at its defaults, which takes a second: its verdicts, and that its claims notice when something is wrong."""

import numpy as np
import pytest
import torch
from featscope.check import check
from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.testing import Fault, Trial

from my_study.study import FirstDirection, LinearNeuron, OneDirection, OneDirectionSource

TRIAL = Trial(FirstDirection())
FAULTS = {
    "the direction is not in the inputs": Fault(
        OneDirectionSource,
        "sample",
        lambda self, draws, count: draws.normal(count, self.direction.shape[-1]),
        claim="finds-the-direction",
        arm="signal",
        verdict="fails",
    ),
    "the neuron is read at twice its weights": Fault(
        LinearNeuron,
        "forward",
        lambda self, x: 2 * torch.einsum("rbi,ri->rb", x, self.weight),
        claim="length-is-the-variance",
        arm="signal",
        verdict="fails",
    ),
}


def test_nothing_is_misspelt() -> None:
    assert not check(FirstDirection()).problems


def test_what_is_expected_holds_and_the_control_fails() -> None:
    for key, claim in TRIAL.healthy.items():
        assert claim.verdict == ("holds" if claim.expected else "fails"), key


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_turns_a_verdict(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    TRIAL.require_noticed(FAULTS[name], monkeypatch)


def test_the_largest_variance_is_that_of_the_inputs_drawn() -> None:
    source = OneDirection().build(Streams(seed=0, replicas=range(2)).at("dictionary"))
    for x, u in zip(source.sample(Streams(0, range(2)).at("a look"), 50_000), source.direction, strict=True):
        variances, directions = np.linalg.eigh(np.cov(x.numpy().T))
        assert variances[-1] == pytest.approx(1 + OneDirection().strength, rel=0.05)
        assert abs(directions[:, -1] @ u.numpy()) == pytest.approx(1, abs=0.01)


def test_wrong_options_are_named() -> None:
    with pytest.raises(ConfigError, match=r"input_dim = 1 .* >= 2"):
        OneDirection(input_dim=1)
