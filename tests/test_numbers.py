"""Float64 where a device has none, as Apple's GPUs; other devices stand for them here."""

from importlib import import_module

import pytest
import torch
from torch import nn

from featscope.losses import NuclearNorm
from featscope.numbers import in_double, place_of_doubles
from featscope.probes import collapse_of, layer_agreement, simplified_gradient_of_layer
from featscope.training import MagnitudePruning
from featscope.training.pruning import PruningMask

REFUSED = "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64."


def refused(values):
    raise TypeError(REFUSED)


class OnApple(torch.Tensor):
    """Says that it is on such a GPU."""

    device = property(lambda self: torch.device("mps"))
    double = refused

    def cpu(self):
        return self.as_subclass(torch.Tensor)


def test_it_is_taken_on_the_processor():
    found = in_double(torch.ones(2).as_subclass(OnApple))
    assert (found.dtype, found.device.type) == (torch.float64, "cpu")
    assert place_of_doubles(torch.device("mps")) == torch.device("cpu")
    assert place_of_doubles(torch.device("cuda", 1)) == torch.device("cuda", 1)


def test_what_is_added_to_a_training_takes_all_float64_so(monkeypatch):
    double = torch.Tensor.double
    for name in (
        "numbers",
        "losses.nuclear_norm",
        "probes.collapse",
        "probes.gradient_features",
        "probes.gradient_outer_product",
    ):
        monkeypatch.setattr(import_module(f"featscope.{name}"), "in_double", lambda values: double(values))
    monkeypatch.setattr(torch.Tensor, "double", refused)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    x, y = torch.randn(8, 4), torch.ones(8)
    NuclearNorm()(net(x)).backward()
    assert net[0].weight.grad.any()
    assert abs(layer_agreement(net, [x], at="0", output=net)) < 1.001
    assert simplified_gradient_of_layer(net, [(x, y)], at="1").shape == (2, 3)
    assert collapse_of(net(x)).samples == 8


@pytest.mark.parametrize("granularity", ["neuron", "entry"])
def test_shares_that_are_pruned_are_kept_on_the_processor(monkeypatch, granularity):
    """Of a model on a device that computes nothing."""
    monkeypatch.setattr("featscope.numbers._NO_FLOAT64", ("meta",))
    net = nn.Linear(4, 3, device="meta")
    mask = PruningMask(MagnitudePruning(0.5, granularity=granularity), net)
    mask.choose(net)
    assert (mask.ratio.dtype, mask.ratio.device.type) == (torch.float64, "cpu")
    assert mask.kept.device.type == "meta"


@pytest.mark.skipif(not torch.backends.mps.is_available(), reason="for want of a GPU of Apple's")
def test_what_is_added_to_a_training_runs_on_apples_gpu():
    net = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)).to("mps")
    x = torch.randn(8, 4, device="mps")
    NuclearNorm()(net(x)).backward()
    MagnitudePruning(0.5, granularity="entry", gradient="straight-through").on(net)(x)
    assert abs(layer_agreement(net, [x], at="0", output=net)) < 1.001
    assert collapse_of(net(x)).samples == 8
