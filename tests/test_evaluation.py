"""Accuracies on frozen features: by a probe, by neighbours, by class."""

import jaxtyping
import numpy as np
import pytest
import torch

from featscope.evaluation import (
    Accuracy,
    accuracy_by_class,
    held_out,
    k_nearest_neighbours,
    leave_one_out_labels,
    linear_probe,
    linear_probe_labels,
    mean_by_class,
    standardised_by,
)
from featscope.options import ConfigError
from featscope.probes import constant_dimensions
from featscope.streams import Streams
from of_gpu import OfGPU


def clusters(count: int, spread: float, seed: int):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    centres = torch.eye(3, 6)
    return centres[labels] + spread * torch.randn(count, 6, generator=generator), labels


PROBES = pytest.mark.parametrize("probe", [linear_probe, k_nearest_neighbours])


@PROBES
def test_separated_classes_are_read_out_and_noise_is_not(probe):
    assert probe(*clusters(150, 0.05, 0), *clusters(90, 0.05, 1)).value == 1
    assert probe(*clusters(150, 50.0, 0), *clusters(90, 50.0, 1)).value < 0.6


def test_a_heavy_penalty_leaves_the_majority_alone_and_a_light_one_costs_nothing():
    (a, y), (b, z) = clusters(150, 0.05, 0), clusters(90, 0.05, 1)
    y, z = y.clamp(max=1), z.clamp(max=1)  # two of three are of class 1
    assert linear_probe_labels(a, y, b, penalty=1e6).tolist() == [1] * 90
    assert linear_probe(a, y, b, z, penalty=1e6).value == pytest.approx(60 / 90)
    assert linear_probe(a, y, b, z, penalty=1e-6).value == 1


@PROBES
def test_scale_of_features_does_not_matter(probe):
    scale = torch.tensor([1e-3, 1, 1e3, 1, 1, 10])
    (a, y), (b, z) = clusters(150, 0.5, 0), clusters(90, 0.5, 1)
    assert probe(a * scale, y, b * scale, z).value == pytest.approx(probe(a, y, b, z).value, abs=0.02)


@PROBES
def test_constant_features_do_not_break_anything(probe):
    features, labels = torch.zeros(30, 4), torch.arange(30) % 3
    assert 0 <= probe(features, labels, features, labels).value <= 1


def noisy(count: int, seed: int):
    """Clusters, and many dimensions that are constant but for rounding."""
    features, labels = clusters(count, 0.05, seed)
    noise = 1 + 1e-7 * torch.randn(count, 4000, generator=torch.Generator().manual_seed(seed))
    return torch.cat([features[:, :4], noise], 1), labels


def test_what_is_constant_but_for_rounding_has_no_vote():
    features, labels = noisy(150, 0)
    assert float((leave_one_out_labels(features, labels) == labels).double().mean()) > 0.99
    found = standardised_by(features, features + 3)
    assert all(not one[:, 4:].any() and one[:, :4].any() for one in found)
    assert (~constant_dimensions(features)).nonzero().flatten().tolist() == [0, 1, 2, 3]


@PROBES
def test_what_is_constant_in_training_but_for_rounding_says_nothing(probe):
    assert probe(*noisy(150, 0), *noisy(90, 1)).value > 0.99


def test_of_two_classes_with_as_many_votes_the_nearest_is_named():
    """So that of two neighbours the first alone counts, whatever the numbers of classes are."""
    (a, y), (b, z) = clusters(150, 2.0, 0), clusters(90, 2.0, 1)
    assert torch.equal(leave_one_out_labels(a, y, 2), leave_one_out_labels(a, y, 1))
    assert k_nearest_neighbours(a, y, b, z, 2) == k_nearest_neighbours(a, y, b, z, 1)
    assert not torch.equal(leave_one_out_labels(a, y, 3), leave_one_out_labels(a, y, 1))  # more votes count more
    assert torch.equal(leave_one_out_labels(a, 2 - y, 4), 2 - leave_one_out_labels(a, y, 4))
    noise, many = Streams(0, [0]).at("noise").normal(512, 8)[0], torch.arange(512) % 100
    assert float((leave_one_out_labels(noise, many) < 25).double().mean()) < 0.35


@PROBES
def test_features_may_be_of_half_precision_and_have_a_gradient(probe):
    (a, y), (b, z) = clusters(150, 0.05, 0), clusters(90, 0.05, 1)
    assert probe(a.bfloat16().requires_grad_(), y, b.bfloat16().requires_grad_(), z).value == 1
    assert [one.dtype for one in standardised_by(a.double(), b.half())] == [np.float64, np.float32]


def test_what_cannot_be_told_apart_is_refused():
    features, labels = clusters(90, 0.05, 0)
    with pytest.raises(ConfigError, match=r"train_labels = \[2\] alone: allowed are two classes or more"):
        linear_probe(features, torch.full_like(labels, 2), features, labels)
    with pytest.raises(ConfigError, match="features = 1 sample: allowed are 2 or more"):
        leave_one_out_labels(features[:1], labels[:1])


def test_the_largest_label_costs_nothing():
    features, labels = clusters(90, 0.05, 0)
    assert torch.equal(leave_one_out_labels(features, labels * 10**12), labels * 10**12)


def test_by_class():
    named, labels = torch.tensor([0, 0, 1, 2, 2, 1, 2]), torch.tensor([0, 0, 0, 2, 2, 2, 2])
    by_class = accuracy_by_class(named, labels, 3)
    assert [one.value for one in by_class] == [2 / 3, pytest.approx(np.nan, nan_ok=True), 3 / 4]
    assert by_class[1] == (pytest.approx(np.nan, nan_ok=True), 0, 1, 0)
    assert [one.samples for one in by_class] == [3, 0, 4]
    (a, y), (b, z) = clusters(150, 0.5, 0), clusters(90, 0.5, 1)
    each = accuracy_by_class(linear_probe_labels(a, y, b), z, 3)
    assert np.mean([one.value for one in each]) == pytest.approx(linear_probe(a, y, b, z).value)


def test_means_by_class():
    by_class = mean_by_class(torch.tensor([1.0, 3.0, -2.0]), torch.tensor([2, 2, 0]), 3)
    assert by_class[[0, 2]].tolist() == [-2, 2]
    assert by_class[1].isnan()


def test_means_of_classes_are_to_the_bit_those_of_counted_bins():
    draws = Streams(0, [0]).at("values")
    values, labels = draws.normal(5000)[0], (7 * draws.uniform(5000)[0]).long()
    wanted = torch.bincount(labels, values.double(), 9) / torch.bincount(labels, minlength=9)
    assert torch.equal(mean_by_class(values, labels, 9).nan_to_num(), wanted.nan_to_num())


def test_intervals_cover():
    truth, draws = 0.9, Streams(0, [0]).at("coins").uniform(400, 50)[0]
    found = [Accuracy.of(row < truth) for row in draws]
    assert np.mean([one.low <= truth <= one.high for one in found]) >= 0.985
    assert Accuracy.of(torch.ones(50, dtype=torch.bool)).low == pytest.approx(0.005 ** (1 / 50))


def test_a_fifth_of_each_domain_is_held_out():
    domains = torch.tensor([0] * 10 + [1] * 23 + [2] * 100)
    held = held_out(domains, 0.2, Streams(0, [0]).at("held"))
    assert [int(held[domains == domain].sum()) for domain in range(3)] == [2, 5, 20]
    assert torch.equal(held, held_out(domains, 0.2, Streams(0, [0]).at("held")))
    assert not torch.equal(held, held_out(domains, 0.2, Streams(0, [1]).at("held")))


def test_features_labels_and_groups_may_be_on_a_gpu():
    (features, labels), domains = clusters(90, 0.05, 0), torch.arange(90) % 2
    held = held_out(domains, 0.2, Streams(0, [0]).at("held"))
    there = [one.as_subclass(OfGPU) for one in (features, labels, domains)]
    assert torch.equal(held_out(there[2], 0.2, Streams(0, [0]).at("held")), held)
    assert accuracy_by_class(labels, there[1], 3) == accuracy_by_class(labels, labels, 3)
    assert accuracy_by_class(there[1], labels, 3) == accuracy_by_class(labels, labels, 3)
    for probe in (linear_probe, k_nearest_neighbours):
        assert probe(*there[:2], *there[:2]) == probe(features, labels, features, labels)


def test_a_class_that_is_none_of_the_numbers_is_not_left_out():
    labels = torch.arange(30) % 3 + 1
    with pytest.raises(ConfigError, match=r"labels are 1 to 3: allowed are 0 to 2, .* return_inverse=True"):
        accuracy_by_class(labels, labels, 3)


@pytest.mark.parametrize(("centre", "width"), [(1.0, 1e-4), (0.0, 1e-8)])
def test_what_varies_little_is_no_constant(centre, width):
    (found,) = standardised_by(centre + width * torch.linspace(-1, 1, 50, dtype=torch.float64)[:, None])
    assert found.std(0) == pytest.approx(1.0)


def test_labels_that_are_not_one_for_each_sample_are_refused(monkeypatch):
    """Of a column each would be compared with all: a share of 1.3, say."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # users have no types at run time
    x, y = torch.randn(8, 2), torch.arange(8) % 2
    for function in (linear_probe, k_nearest_neighbours):
        with pytest.raises(ConfigError, match=r"test_labels have shape \[3, 1\] for 3 samples: .* labels\.flatten\(\)"):
            function(x, y, x[:3], y[:3, None])
        with pytest.raises(ConfigError, match=r"train_labels have shape \[8, 1\]"):
            function(x, y[:, None], x[:3], y[:3])
        with pytest.raises(ConfigError, match=r"test_labels have shape \[1\] for 3 samples"):
            function(x, y, x[:3], y[:1])
    for named, labels, shape in ((y[:1], y[:3], "3"), (y[:3], y[:3, None], "3, 1"), (y[:3, None], y[:3], "3, 1")):
        with pytest.raises(ConfigError, match=rf"(named|labels) have shape \[{shape}\]"):
            accuracy_by_class(named, labels, 2)
    with pytest.raises(ConfigError, match=r"labels have shape \[8, 1\] for 8 samples"):
        leave_one_out_labels(x, y[:, None])


X, Y = torch.randn(8, 2, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 2


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: held_out(Y, 20.0, Streams(0, [0]).at("held")), r"share = 20\.0 is out of range: allowed is 0 to 1"),
        (lambda: held_out(Y, -1.0, Streams(0, [0]).at("held")), r"share = -1\.0 .* 0 to 1"),
        (lambda: linear_probe(X, Y, X, Y, penalty=0.0), r"penalty = 0\.0 is out of range: allowed is > 0, and finite"),
        (lambda: linear_probe_labels(X, Y, X, float("inf")), r"penalty = inf .* > 0, and finite"),
        (lambda: k_nearest_neighbours(X, Y, X, Y, 0), "neighbours = 0 is out of range: allowed is >= 1"),
        (lambda: leave_one_out_labels(X, Y, 0), "neighbours = 0 is out of range: allowed is >= 1"),
        (lambda: mean_by_class(X[:, 0], Y[:3], 2), r"labels have shape \[3\] for 8 samples"),
        (lambda: mean_by_class(X[:, 0], Y, 1), r"labels are 0 to 1: allowed are 0 to 0"),
    ],
)
def test_options_out_of_range_are_refused_by_name(call, told, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # users have no types at run time
    with pytest.raises(ConfigError, match=told):
        call()


@pytest.mark.parametrize("probe", [linear_probe, k_nearest_neighbours])
@pytest.mark.parametrize("place", range(4))
def test_arrays_of_numpy_are_refused_with_the_cure(probe, place, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # users have no types at run time
    given = [X, Y, X, Y]
    given[place] = given[place].numpy()
    with pytest.raises(TypeError, match=r"got a ndarray: expected a torch\.Tensor, torch\.as_tensor\(x\) makes one"):
        probe(*given)


def test_all_or_none_may_be_held_out():
    assert [int(held_out(Y, share, Streams(0, [0]).at("held")).sum()) for share in (0.0, 1.0)] == [0, 8]
