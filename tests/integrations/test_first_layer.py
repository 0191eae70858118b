"""Which layer is taken for the first."""

import warnings

import pytest
import torch
from torch import nn

from featscope.integrations import Monitor
from featscope.integrations.first_layer import first_layer


class Backwards(nn.Module):
    """A linear layer whose weight is [input, output], as GPT-2's are."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs))

    def forward(self, x):
        return x @ self.weight


def test_a_layer_before_which_others_come_is_not_taken_for_the_first():
    with pytest.warns(UserWarning, match="layer = None: the first layer is '0', a Backwards, .* left out"):
        monitor = Monitor(nn.Sequential(Backwards(6, 5), nn.Linear(5, 3)), [torch.randn(16, 6)])
    assert "gradient_agreement" not in monitor.latest
    tokens = [torch.randint(9, (8, 4))]
    net = nn.Sequential(nn.Embedding(9, 5), nn.LayerNorm([4, 5]), nn.Flatten(), nn.Linear(20, 3))
    assert Monitor(net, tokens)._layer == "3"


class HeadFirst(nn.Module):
    """Has its head before its body, and in ``added`` a matrix that is no layer's."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.added = nn.Parameter(torch.zeros(4, 8))
        self.head, self.body = nn.Linear(8, 3), body

    def forward(self, x):
        out = self.body(x)
        states = out[0] if isinstance(out, tuple) else out
        return self.head(states.flatten(1)[:, :8] + self.added[0])


def test_the_first_layer_is_the_one_that_runs_first():
    x = [torch.randn(16, 6)]
    monitor = Monitor(HeadFirst(nn.Sequential(nn.Linear(6, 8), nn.ReLU())), x)
    assert monitor._layer == "body.0"
    normed = nn.utils.parametrizations.spectral_norm(nn.Linear(6, 8))
    assert Monitor(HeadFirst(normed), x)._layer == "body"


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        (nn.GRU(6, 8, batch_first=True), (4, 6)),
        (nn.MultiheadAttention(6, 2, batch_first=True), (4, 6)),
        (nn.TransformerEncoderLayer(6, 2, 8, batch_first=True), (4, 6)),
        (nn.Conv2d(6, 6, 3, groups=6), (6, 6, 6)),
        (nn.ConvTranspose2d(6, 4, 3), (6, 2, 2)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_where_the_first_layer_has_no_gram_matrix_the_next_is_not_taken(body, shape):
    net, x = HeadFirst(body), torch.randn(16, *shape)
    if isinstance(body, nn.MultiheadAttention):
        net.body.forward = lambda x, plain=body.forward: plain(x, x, x)
    with pytest.warns(UserWarning, match=r"layer = None: the first layer is 'body.*', a .*, which is no linear layer"):
        assert first_layer(net, lambda: net(x)) == ""


class Added(nn.Module):
    """Positions, which it adds."""

    def __init__(self) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.zeros(1, 6, 5, 5))

    def forward(self, x):
        return x + self.positions


def test_tables_norms_and_scales_before_the_first_layer_are_passed_over():
    passed = nn.PReLU(6), nn.Conv2d(6, 6, 1, groups=6), nn.LayerNorm([6, 5, 5]), Added()
    net = nn.Sequential(*passed, nn.Conv2d(6, 4, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert first_layer(net, lambda: net(torch.randn(2, 6, 5, 5))) == "4"
        assert first_layer(nn.Identity(), lambda: None) == ""


def test_that_no_layer_is_seen_to_run_is_told():
    net = nn.Sequential(nn.Linear(6, 4))
    with pytest.warns(UserWarning, match="layer = None: no layer runs in a way that hooks hear of.* left out"):
        assert first_layer(net, lambda: nn.functional.linear(torch.randn(2, 6), net[0].weight)) == ""
