"""Machine code between matrix products against the same in torch."""

import pytest
import torch

from featscope.kernels import BACKENDS, rows, suits
from featscope.streams import Streams

SHAPES = [(1, 1, 1), (3, 5, 7), (2, 17, 50), (1, 4, 96)]


def random(*shape, scale=1.0):
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("shape", SHAPES)
def test_shrink_is_to_the_bit_what_torch_does(shape):
    u, b = random(*shape), random(shape[0], shape[2]).abs()
    b[0, 0] = 0
    expected = u - u.clamp(-b[:, None], b[:, None])
    rows.shrink(u, b)
    assert torch.equal(u, expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_descent_is_to_the_bit_what_torch_does(shape):
    weight, slope = random(*shape), random(*shape, scale=3.0)
    expected = weight.clone().mul_(0.993).add_(slope, alpha=-0.37)
    rows.descend(weight, slope, 0.993, 0.37)
    assert torch.equal(weight, expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_draws_are_the_same_numbers_in_machine_code_and_in_torch(shape, monkeypatch):
    made = {}
    for kernels in BACKENDS:
        monkeypatch.setenv("FEATSCOPE_KERNELS", kernels)
        draws = Streams(7, range(shape[0])).at("batch", 3)
        chances = 0.3, torch.linspace(0.01, 1, shape[0])[:, None, None], torch.full((shape[0], 1, shape[2]), 0.7)
        codes = [draws.signs(*shape[1:], chance=chance) for chance in chances]
        x = random(shape[0], 2 * shape[1], shape[2])
        made[kernels] = [*codes, *draws.halves(x[:, : shape[1]]), *draws.halves(x.double()), draws.normal(4)]
    for one, other in zip(*made.values(), strict=True):
        assert torch.equal(one, other)
        assert one.dtype == other.dtype


@pytest.mark.parametrize("kernels", BACKENDS)
def test_replicas_do_not_share_the_coins_of_one(kernels, monkeypatch):
    monkeypatch.setenv("FEATSCOPE_KERNELS", kernels)
    with pytest.raises(ValueError, match=r"x has shape \[3, 5, 9\]: expected the draws' replica axis in front, \[1, "):
        Streams(7, [0]).at("batch").halves(random(3, 5, 9))


def test_signs_come_as_often_as_they_should():
    codes = Streams(7, range(2)).at("batch").signs(200, 300, chance=torch.tensor([0.1, 0.6])[:, None, None])
    for replica, chance in enumerate((0.1, 0.6)):
        for sign in (1, -1):
            assert float((codes[replica] == sign).float().mean()) == pytest.approx(chance / 2, abs=0.01)


@pytest.mark.parametrize(("batch", "keys", "neurons"), [(1, 1, 1), (5, 9, 4), (33, 70, 30)])
@pytest.mark.parametrize("scale", [0.1, 3.0, 30.0])
def test_contrast_is_the_softmax(batch, keys, neurons, scale):
    anchor, positive = random(2, batch, neurons), random(2, neurons, batch).mT.contiguous()
    products = random(2, batch, keys, scale=scale)
    own = (anchor * positive).sum(-1, keepdim=True)
    log_share = torch.cat([own, products], -1).double().log_softmax(-1)
    loss, pull = rows.contrast(products, anchor, positive)
    near = {"rtol": 2e-6, "atol": 1e-6}
    torch.testing.assert_close(loss, -log_share[..., 0].mean(-1).float(), **near)
    torch.testing.assert_close(products, log_share[..., 1:].exp().float() / batch, rtol=1e-4, atol=1e-7)
    doubt = -torch.expm1(log_share[..., :1]).float()
    torch.testing.assert_close(pull, -doubt * positive / batch, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("batch", [1, 7, 50])
def test_contrast_within_a_batch_is_the_softmax_less_what_is_right(batch):
    products = random(2, batch, batch, scale=4.0)
    log_share = products.double().log_softmax(-1)
    loss = rows.within_batch(products)
    torch.testing.assert_close(loss, -log_share.diagonal(dim1=1, dim2=2).mean(-1).float(), rtol=2e-6, atol=1e-6)
    expected = (log_share.exp() - torch.eye(batch, dtype=torch.float64)).float() / batch
    torch.testing.assert_close(products, expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("place", [0, 3, 40])
def test_what_is_not_finite_shows_in_its_own_replica_alone(bad, place):
    anchor, products = random(3, 8, 4), random(3, 8, 41)
    products[1, 2, place] = bad
    loss, _ = rows.contrast(products, anchor, anchor)
    assert loss.isfinite().tolist() == [True, False, True]
    square = random(3, 41, 41)
    square[1, 2, place] = bad
    assert rows.within_batch(square).isfinite().tolist() == [True, False, True]


def test_no_power_of_e_is_off_by_more_than_rounding():
    products = torch.linspace(-100, 0, 4001)[None, None]  # the anchor's own similarity is 0, the largest
    powers = products.double().exp()
    rows.contrast(products, torch.zeros(1, 1, 1), torch.zeros(1, 1, 1))
    found = products.double() * (1 + powers.sum())
    torch.testing.assert_close(found, powers, rtol=1e-6, atol=1e-37)


def test_machine_code_is_for_float32_and_where_it_is_wanted(monkeypatch):
    assert suits(random(2))
    assert not suits(random(2).double())
    assert not suits(random(2).requires_grad_())
    monkeypatch.setenv("FEATSCOPE_KERNELS", "torch")
    assert not suits(random(2))
