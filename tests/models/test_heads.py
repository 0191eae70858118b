"""Heads that are thrown away after training."""

import pytest
import torch
from torch import nn

from featscope.models import AlexNet, IdentityHead, PredictionHead
from featscope.options import ConfigError
from featscope.streams import Streams


def build(kind: str, outputs: int = 6, replica: int = 0) -> nn.Module:
    return PredictionHead(kind, hidden=40).build(outputs, Streams(0, [replica]).at("head"))


def test_kinds_are_what_they_are_called():
    z = torch.randn(3, 6)
    assert torch.equal(build("none")(z), z)
    identity = build("identity")
    assert isinstance(identity, IdentityHead)
    assert torch.equal(identity(z), z)
    assert isinstance(build("linear"), nn.Linear)
    assert [p.shape for p in build("mlp").parameters()] == [(40, 6), (40,), (6, 40), (6,)]


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_random_heads_begin_as_pytorch_begins_them_and_at_their_address(kind):
    first, again, other = build(kind), build(kind), build(kind, replica=1)
    for one, same, new in zip(first.parameters(), again.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, same)
        assert not torch.equal(one, new)
    large = PredictionHead(kind, hidden=400).build(300, Streams(0, [0]).at("head"))
    for layer in (part for part in large.modules() if isinstance(part, nn.Linear)):
        fresh = nn.Linear(layer.in_features, layer.out_features)
        assert layer.weight.abs().max() <= layer.in_features**-0.5
        torch.testing.assert_close(layer.weight.std(), fresh.weight.std(), rtol=0.02, atol=0)
        torch.testing.assert_close(layer.bias.std(), fresh.bias.std(), rtol=0.15, atol=0)


def test_wrong_options_are_named():
    with pytest.raises(ConfigError, match=r"PredictionHead\.hidden = 0 is out of range"):
        PredictionHead(hidden=0)


def test_several_replicas_are_refused_as_a_head_of_an_encoder_is_one_network():
    with pytest.raises(ValueError, match="replicas = 3: allowed is 1"):
        PredictionHead("linear").build(4, Streams(0, [5, 6, 7]).at("w"))
    with pytest.raises(ValueError, match="replicas = 3: allowed is 1"):
        AlexNet(4).build(None, Streams(0, [5, 6, 7]).at("w"))
