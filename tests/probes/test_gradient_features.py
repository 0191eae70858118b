"""Gradient features and outer products: what is known, by hand and in closed form."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from featscope.probes import (
    average_gradient_outer_product,
    gradient_features,
    layer_agreement,
    matrix_agreement,
    nice_neurons,
    simplified_gradient,
    simplified_gradient_of_layer,
    simplified_gradient_of_mixture,
)

X = torch.tensor([[1.0, 0.0], [0.0, 2.0], [-1.0, 1.0]])
Y = torch.tensor([1.0, -1.0, 1.0])


def test_a_gradient_is_the_mean_of_yx_over_what_fires():
    weight, bias = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0.5, -3.0])
    found = simplified_gradient(weight, bias, X, Y)
    assert torch.allclose(found, torch.tensor([[1.0, 0.0], [0.0, -1.0]]) / 3)


def test_the_closed_form_is_the_mean_of_many():
    torch.manual_seed(0)
    means = torch.tensor([[2.0, 0.0, 0.0], [0.0, 3.0, 0.0]], dtype=torch.float64)
    labels, shares = torch.tensor([1.0, -1.0]).double(), torch.tensor([0.25, 0.75]).double()
    part = (torch.rand(400_000) > 0.25).long()
    x = means[part] + torch.tensor([1.0, 0.5])[part, None] * torch.randn(400_000, 3, dtype=torch.float64)
    weight, bias = torch.tensor([[1.0, 1.0, 0.5], [0.3, -1.0, 2.0]]).double(), torch.tensor([1.0, -0.5]).double()
    exact = simplified_gradient_of_mixture(weight, bias, means, torch.tensor([1.0, 0.5]), shares, labels)
    assert torch.allclose(simplified_gradient(weight, bias, x, labels[part]), exact, atol=0.01)


def test_the_gradient_of_a_layer_is_that_of_its_inputs():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Dropout(), nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2))
    classes = (Y > 0).long()
    loader = DataLoader(TensorDataset(X, classes), batch_size=2)
    found = simplified_gradient_of_layer(model, loader, at="3", signs=lambda c: 2.0 * c - 1)
    assert model.training
    model.eval()
    expected = simplified_gradient(model[3].weight, -model[3].bias, model[:3](X), Y)
    assert torch.allclose(found, expected.detach(), atol=1e-6)
    with pytest.raises(ValueError, match=r"at = '1' is a ReLU"):
        simplified_gradient_of_layer(model, loader, at="1")
    with pytest.raises(ValueError, match="no batches"):
        simplified_gradient_of_layer(model, [], at="3")
    with pytest.raises(ValueError, match=r"at = '3' is out of range: it got an input of shape \(1, 3, 2\)"):
        simplified_gradient_of_layer(model, [(X[None], Y[None])], at="3")
    assert not model[3]._forward_pre_hooks


@pytest.mark.parametrize("labels", [torch.tensor([0, 1, 1]), torch.tensor([-1.0, 1.0, 0.5]), torch.ones(3).bool() ^ 1])
def test_labels_that_are_no_signs_are_refused_without_what_makes_them(labels):
    with pytest.raises(ValueError, match=r"a label is 0(\.5)?: allowed without `signs` are -1 and 1"):
        simplified_gradient_of_layer(nn.Linear(2, 2), [(X, labels)], at="")
    assert simplified_gradient_of_layer(nn.Linear(2, 2), [(X, Y.long())], at="").shape == (2, 2)


def test_greedy_cones_find_the_fullest_first_and_count_sides_together():
    torch.manual_seed(0)
    axes = torch.eye(6)[:3]
    gradients = torch.cat([10 * axes[:1].repeat(30, 1), -10 * axes[:1].repeat(20, 1), 5 * axes[1:2].repeat(20, 1)])
    gradients = torch.cat([gradients, axes[2:3].repeat(30, 1)]) + 0.05 * torch.randn(100, 6)
    found = gradient_features(gradients, cone=0.1, shortest=3.0, least=0.1)
    assert found.shares.tolist() == pytest.approx([0.5, 0.2])
    assert torch.allclose((found.directions @ axes[:2].mT).abs(), torch.eye(2), atol=0.05)
    assert (found.owner[-30:] == -1).all()
    assert len(gradient_features(gradients, 0.1, 3.0, least=0.3).directions) == 1
    assert gradient_features(gradients, 0.1, 100.0).directions.shape == (0, 6)


@pytest.mark.parametrize("cone", [0.0, 1.0, 1.5])
def test_cones_that_hold_all_or_nothing_are_refused(cone):
    with pytest.raises(ValueError, match=rf"cone = {cone} is out of range: allowed is > 0 and < 1"):
        gradient_features(torch.eye(3), cone)
    with pytest.raises(ValueError, match=rf"cone = {cone} is out of range: allowed is > 0 and < 1"):
        nice_neurons(torch.eye(3), torch.eye(3), cone)


def test_nice_neurons_are_on_one_side_and_long_enough():
    weight = torch.tensor([[2.0, 0.1], [-2.0, 0.0], [0.5, 0.0], [1.0, 1.0]])
    found = nice_neurons(weight, torch.tensor([[1.0, 0.0]]), cone=0.1, shortest=1.0)
    assert found.tolist() == [[True, False, False, False]]


def test_the_outer_product_of_a_linear_map_is_its_gram_matrix():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3, bias=False), nn.Dropout())
    weight = model[1].weight
    found = average_gradient_outer_product(model, [torch.randn(5, 2, 2), torch.randn(3, 2, 2)])
    assert torch.allclose(found, (weight.mT @ weight).detach(), atol=1e-6)
    assert model.training
    assert weight.grad is None
    assert matrix_agreement(found, 3 * found).item() == pytest.approx(1)
    with pytest.raises(ValueError, match="no batches"):
        average_gradient_outer_product(model, [])
    with pytest.raises(ValueError, match="expected a tensor"):
        average_gradient_outer_product(nn.Flatten(0), [torch.randn(5, 2)])


def test_sums_of_half_precision_are_wide():
    layer = nn.Linear(6, 3).bfloat16()
    x, y = torch.randn(8, 6, generator=torch.Generator().manual_seed(0)).bfloat16(), torch.ones(8)
    for probe in (
        lambda batches: simplified_gradient_of_layer(nn.Sequential(layer), batches, at="0"),
        lambda batches: average_gradient_outer_product(layer, batches),
    ):
        one, many = probe([(x, y)]), probe([(x, y)] * 1200)
        torch.testing.assert_close(many, one, rtol=1e-4, atol=1e-6)


def test_truths_in_place_of_signs_are_refused():
    """Of the others there would be nothing: 0 in place of -1."""
    batches = [(torch.randn(8, 3), torch.arange(8) % 4)]
    with pytest.raises(ValueError, match=r"signs gives 0: allowed are -1 and 1\. .* 2\.0 \* \(y == 3\) - 1"):
        simplified_gradient_of_layer(nn.Linear(3, 5), batches, at="", signs=lambda y: y == 3)


@pytest.mark.parametrize("size", [1e-8, 1e-10, 1e-20])
def test_small_gradients_agree_with_weights_as_large_ones_do(size):
    """Squares of gradients of 1e-5 are 1e-10; of replicas each has its own size."""
    weight = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    gram, other = weight.mT @ weight, torch.diag(torch.arange(1.0, 5.0))
    assert float(matrix_agreement(gram, size * gram)) == pytest.approx(1)
    pair = torch.stack([gram, size * gram])
    torch.testing.assert_close(matrix_agreement(pair, other.expand(2, -1, -1)), matrix_agreement(gram, other).expand(2))
    assert float(matrix_agreement(gram, 0 * gram)) == 0


@pytest.mark.parametrize("size", [1.0, 1e-13])
def test_directions_are_found_however_short_gradients_are_and_on_either_side(size):
    axes = torch.eye(6)[:2]
    signs = torch.tensor([1.0, -1.0]).repeat(15)[:, None]
    gradients = torch.cat([signs * axes[:1], axes[1:].expand(10, -1)])
    gradients += 0.05 * torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
    found = gradient_features(size * gradients, cone=0.1)
    assert found.shares.tolist() == pytest.approx([0.75, 0.25])
    assert torch.allclose((found.directions @ axes.mT).abs(), torch.eye(2), atol=0.05)


def test_a_direction_of_just_as_many_neurons_as_are_asked_for_counts():
    gradients = torch.cat([torch.eye(4)[:1].expand(3, -1), torch.eye(4)[1:2]])
    assert gradient_features(gradients, cone=0.1, least=0.25).shares.tolist() == [0.75, 0.25]


def test_labels_in_a_column_are_labels_and_others_are_refused():
    module, x, y = nn.Linear(6, 8), torch.randn(16, 6), torch.randn(16).sign()
    flat = simplified_gradient_of_layer(module, [(x, y)], at="")
    assert simplified_gradient_of_layer(module, [(x, y[:, None])], at="").equal(flat)
    with pytest.raises(ValueError, match=r"labels have shape \[16, 2\]: allowed is one a sample"):
        simplified_gradient_of_layer(module, [(x, torch.stack([y, y], 1))], at="")


def test_a_gate_is_decided_exactly_under_autocast():
    weight, bias, x, y = torch.randn(30, 64), torch.randn(30), torch.randn(200, 64), torch.randn(200).sign()
    with torch.autocast("cpu", torch.bfloat16):
        found = simplified_gradient(weight, bias, x, y)
    assert found.equal(simplified_gradient(weight, bias, x, y))


def test_a_layer_behind_torch_compile_is_read_as_it_was_written():
    plain = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
    x, y = torch.randn(16, 6), torch.randn(16).sign()
    compiled = torch.compile(plain, backend="eager")
    compiled(x)
    expected = simplified_gradient_of_layer(plain, [(x, y)], at="0")
    for at in ("0", "_orig_mod.0"):
        assert simplified_gradient_of_layer(compiled, [(x, y)], at=at).equal(expected)


@pytest.mark.parametrize("seed", range(5))
def test_directions_come_by_how_many_they_hold(seed):
    gradients = torch.randn(200, 6, generator=torch.Generator().manual_seed(seed))
    found = gradient_features(gradients, cone=0.15)
    assert found.shares.tolist() == sorted(found.shares.tolist(), reverse=True)
    for place, share in enumerate(found.shares):
        held = gradients[found.owner == place]
        assert len(held) == round(200 * float(share))
        cosines = (torch.nn.functional.normalize(held, dim=1) @ found.directions[place]).abs()
        assert (cosines > 1 - 0.15 - 1e-6).all()


def test_a_mean_that_holds_fewer_than_the_gradient_it_is_around_does_not_end_the_search():
    for seed in range(60):
        gradients = torch.randn(300, 5, generator=torch.Generator().manual_seed(seed))
        unit = torch.nn.functional.normalize(gradients, dim=1)
        most = int(((unit @ unit.mT).abs() > 0.9).sum(1).max())
        assert (len(gradient_features(gradients, cone=0.1, least=0.05).directions) > 0) >= (most >= 15)


def test_what_is_read_of_a_layer_in_training_mode_does_not_change_it():
    layer = torch.nn.utils.parametrizations.spectral_norm(nn.Linear(2, 3))
    net = nn.Sequential(layer, nn.ReLU()).train()
    before = {name: buffer.clone() for name, buffer in net.named_buffers()}
    simplified_gradient_of_layer(net, [(X, Y)], at="0")
    layer_agreement(net, [X], at="0", output=net)
    assert before
    assert all(torch.equal(buffer, before[name]) for name, buffer in net.named_buffers())
    assert net.training


def test_a_module_that_works_in_place_has_an_outer_product():
    net = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(2, 1))
    after = nn.Sequential(nn.ReLU(), net[1])
    assert torch.equal(average_gradient_outer_product(net, [X]), average_gradient_outer_product(after, [X]))
