"""The contrastive term of fine-tuning: against a loop, and refused where it is silently off."""

import math

import pytest
import torch
from torch import nn

from featscope.losses import ContrastiveRegularizer
from featscope.options import ConfigError


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_it_is_a_loop_over_anchors():
    x, noise = normal(5, 3), normal(5, 3, seed=1)
    term = ContrastiveRegularizer(lambda batch: (batch, batch + noise), 0.7, 0.3)
    views = [row / math.sqrt(float(row @ row)) for row in torch.cat([2 * x + 1, 2 * (x + noise) + 1])]
    total = 0.0
    for i, anchor in enumerate(views):
        others = [math.exp(float(anchor @ other) / 0.7) for j, other in enumerate(views) if j != i]
        total -= math.log(math.exp(float(anchor @ views[(i + 5) % 10]) / 0.7) / sum(others))
    assert float(term(lambda batch: 2 * batch + 1, x)) == pytest.approx(0.3 * total / 10, rel=1e-5)
    assert term.first == pytest.approx(total / 10, rel=1e-5)


def test_the_first_value_is_checked_and_no_other():
    term = ContrastiveRegularizer(temperature=0.02)
    near = torch.eye(4)
    with pytest.raises(ConfigError, match=r"begins at .* nats: allowed is .*0.001 or more.*temperature = 0.02"):
        term.of_features(near, near)
    assert term.first is None, "a second try is checked, too"
    term.of_features(near, near.roll(1, 0))
    assert float(term.of_features(near, near)) < 1e-3


def test_dropout_at_a_low_temperature_is_refused_and_at_a_high_one_is_not():
    x = normal(16, 200)
    encoder = nn.Dropout(0.02)
    with pytest.raises(ConfigError, match="next to no gradient"):
        ContrastiveRegularizer(temperature=0.05)(encoder, x)
    assert float(ContrastiveRegularizer(temperature=0.5, weight=1.0)(encoder, x)) > 1


@pytest.mark.parametrize("features", [torch.full((4, 3), torch.nan), torch.ones(1, 3)], ids=["NaN", "one pair"])
def test_what_has_no_gradient_is_refused(features):
    with pytest.raises(ConfigError, match="begins at"):
        ContrastiveRegularizer().of_features(features, features)


def test_views_that_are_the_same_are_refused_with_the_cure():
    """A model of transformers comes in evaluation mode, in which dropout makes no views."""
    encoder, x = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5)).eval(), normal(6, 3)
    term = ContrastiveRegularizer()
    with pytest.raises(ConfigError, match=r"two views have the same features: .* encoder\.train\(\)"):
        term(encoder, x)
    assert float(term(encoder.train(), x).detach()) > 0
    assert float(ContrastiveRegularizer(weight=0.0)(encoder.eval(), x).detach()) == 0, "a control without the term"


def test_a_validation_before_training_is_not_taken_for_its_first_step():
    encoder, x = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5)).eval(), normal(6, 3)
    term = ContrastiveRegularizer(temperature=0.02)
    with torch.no_grad():
        assert float(term(encoder, x)) >= 0
    assert term.first is None
    with pytest.raises(ConfigError, match=r"begins at|same features"):
        term(encoder, x)


def test_gradients_reach_the_encoder_from_both_views():
    encoder = nn.Linear(3, 4)
    one, other = encoder(normal(6, 3)), encoder(normal(6, 3, seed=1))
    one.retain_grad(), other.retain_grad()
    ContrastiveRegularizer().of_features(one, other).backward()
    assert all(bool(part.grad.any()) for part in (one, other, encoder.weight))


def test_half_precision_is_widened():
    one, other = normal(8, 16), normal(8, 16, seed=1)
    exact = ContrastiveRegularizer(temperature=0.1, weight=1.0).of_features(one.half().float(), other.half().float())
    assert float(ContrastiveRegularizer(temperature=0.1, weight=1.0).of_features(one.half(), other.half())) == float(
        exact
    )


def test_autocast_narrows_nothing():
    one, other = normal(8, 16), normal(8, 16, seed=1)
    exact = ContrastiveRegularizer(temperature=0.01, weight=1.0).of_features(one, other)
    with torch.autocast("cpu", torch.bfloat16):
        assert float(ContrastiveRegularizer(temperature=0.01, weight=1.0).of_features(one, other)) == float(exact)


@pytest.mark.parametrize(("options", "name"), [({"temperature": 0.0}, "temperature"), ({"weight": -1.0}, "weight")])
def test_wrong_options_are_named(options, name):
    with pytest.raises(ConfigError, match=f"ContrastiveRegularizer.{name}"):
        ContrastiveRegularizer(**options)


def test_a_control_without_weight_may_have_a_small_term_and_a_resumed_training_too():
    apart = 100 * torch.eye(8)
    views = (apart, apart + torch.randn(8, 8, generator=torch.Generator().manual_seed(0)))
    with pytest.raises(ConfigError, match="begins at"):
        ContrastiveRegularizer(temperature=0.05).of_features(*views)
    assert ContrastiveRegularizer(temperature=0.05, weight=0.0).of_features(*views) == 0
    resumed = ContrastiveRegularizer(temperature=0.05)
    resumed.first = 1.5
    assert resumed.of_features(*views) < 1e-4
    with pytest.raises(ConfigError, match="begins at nan"):
        ContrastiveRegularizer(weight=0.0).of_features(*(torch.full((4, 3), torch.nan) for _ in range(2)))
