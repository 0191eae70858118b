"""Rules between steps: the bias schedule, first times, thresholds in a fixed ratio to norms, falling steps."""

from dataclasses import replace
from math import log, sqrt
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from toys import experiment

from featscope.data import SparseCoding
from featscope.models import SymmetricReLU, SymmetricReLUNetwork
from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.training import (
    SGD,
    BiasSchedule,
    Contrastive,
    Cooling,
    FirstTime,
    ProportionalBias,
    TorchOptimizer,
    Training,
)

D, D1, LR = 8, 16, 0.5
RESET = 0.6 * sqrt(2 * log(D) / D)


def stage(weight: torch.Tensor, **options):
    """A learner with ``weight`` in a place where the first D coordinates are the features, and the rule."""
    source = nn.Module()
    source.dictionary = torch.eye(D1, D).expand(len(weight), -1, -1)
    learner = SymmetricReLUNetwork(weight)
    optimizer = torch.optim.SGD([learner.weight], lr=LR)
    e = SimpleNamespace(learner=learner, source=source, optimizer=optimizer)
    return e, BiasSchedule(**options).build(e)


def weights(energy: float, size: float = 1.0, replicas: int = 2, neurons: int = 3) -> torch.Tensor:
    """Neurons of norm ``size`` with a share ``energy`` of their squared norm in the features' span."""
    w = torch.zeros(replicas, neurons, D1)
    w[..., 0], w[..., -1] = size * sqrt(energy), size * sqrt(1 - energy)
    return w


@torch.no_grad()
def move(e, rule, weight: torch.Tensor, step: int) -> None:
    e.learner.weight.copy_(weight)
    rule(e, step)


def test_in_stage_1_biases_are_zero_and_at_its_end_they_are_set_to_their_share_of_the_norm():
    e, rule = stage(weights(0.1))
    move(e, rule, weights(0.79, 2.0), 1)
    assert (e.learner.bias == 0).all()
    assert rule.stage.tolist() == [1, 1]
    move(e, rule, weights(0.81, 3.0), 2)
    assert torch.allclose(e.learner.bias, torch.full((2, 3), RESET * 3))
    assert rule.events()["stage1_end"].tolist() == [2, 2]
    assert rule.stage.tolist() == [2, 2]


def test_a_checkpoint_from_before_thresholds_were_kept_as_set_is_loaded():
    (_, before), (_, rule) = stage(weights(0.1)), stage(weights(0.1))
    old = {name: value for name, value in before.state_dict().items() if name != "reset_bias"}
    rule.load_state_dict(old)
    assert rule.reset_bias.isnan().all()
    assert "reset_bias" not in old


def test_replicas_pass_their_stages_alone():
    e, rule = stage(weights(0.1))
    move(e, rule, torch.cat([weights(0.9, replicas=1), weights(0.5, replicas=1)]), 1)
    assert rule.stage.tolist() == [2, 1]
    assert (e.learner.bias[1] == 0).all()
    assert (e.learner.bias[0] > 0).all()
    move(e, rule, weights(0.9), 5)
    assert rule.events()["stage1_end"].tolist() == [1, 5]


def test_a_replica_ends_stage_2_while_another_is_in_stage_1():
    e, rule = stage(weights(0.1))
    slow = weights(0.5, replicas=1)
    move(e, rule, torch.cat([weights(0.9, replicas=1), slow]), 1)
    move(e, rule, torch.cat([weights(0.9, 9.0, replicas=1), slow]), 2)
    assert rule.events()["stage2_end"].tolist() == [2, -1]


def test_the_median_neuron_ends_stage_1():
    w = torch.cat([weights(0.9, neurons=2), weights(0.1, neurons=1)], 1)
    e, rule = stage(weights(0.1))
    move(e, rule, w, 1)
    assert rule.stage.tolist() == [2, 2]


@pytest.mark.parametrize("neurons", [1, 2, 7, 8])
def test_the_lower_median_is_what_torch_takes(neurons):
    shares = Streams(0, range(40)).at("shares").uniform(neurons)
    shares[0] = 0.8
    w = torch.zeros(40, neurons, D1)
    w[..., 0], w[..., -1] = shares.sqrt(), (1 - shares).sqrt()
    w[1, 0] = 0  # a neuron without a direction
    e, rule = stage(weights(0.1, replicas=40, neurons=neurons))
    energy = (w @ e.source.dictionary).square().sum(-1) / w.norm(dim=-1).square()
    move(e, rule, w, 1)
    assert torch.equal(rule.stage == 2, energy.median(-1).values >= 0.8)


def test_biases_follow_the_norm_and_grow_by_the_minimum_where_it_does_not():
    e, rule = stage(weights(0.9))
    move(e, rule, weights(0.9), 1)
    sizes = torch.tensor([[1.1, 1.0, 0.8]]).expand(2, 3)[..., None]
    move(e, rule, weights(0.9) * sizes, 2)
    minimum = 1 + 0.3 * LR / D
    assert torch.allclose(e.learner.bias, RESET * torch.tensor([1.1, minimum, minimum]).expand(2, 3))
    move(e, rule, weights(0.9) * sizes, 3)
    assert torch.allclose(e.learner.bias[0, 0], torch.tensor(RESET * 1.1 * minimum))


def test_biases_stop_growing_above_their_cap():
    cap = log(D) ** 2 / sqrt(D)
    e, rule = stage(weights(0.9, size=0.99 * cap / RESET))
    move(e, rule, weights(0.9, size=0.99 * cap / RESET), 1)
    move(e, rule, weights(0.9, size=1.2 * cap / RESET), 2)
    above = e.learner.bias.clone()
    assert (above > cap).all()
    move(e, rule, weights(0.9, size=9 * cap / RESET), 3)
    assert torch.equal(e.learner.bias, above)


def test_beyond_a_cap_on_their_ratio_to_the_norm_biases_only_follow_it():
    e, rule = stage(weights(0.9), cap_ratio=0.3, growth=1.0)  # RESET is 0.43
    move(e, rule, weights(0.9), 1)
    for step, size in enumerate((1.0, 0.5, 2.0, 1.9), 2):
        move(e, rule, weights(0.9, size), step)
        assert torch.allclose(e.learner.bias, torch.full((2, 3), RESET * size))


def test_up_to_the_cap_biases_grow_by_the_minimum():
    """Here at norm 3, so that b and b / ||w|| are not the same."""
    e, rule = stage(weights(0.9, size=3.0), cap_ratio=0.5, growth=1.0)
    move(e, rule, weights(0.9, size=3.0), 1)
    expected, minimum = 3 * RESET, 1 + LR / D
    for step in range(2, 10):
        move(e, rule, weights(0.9, size=3.0), step)
        expected *= minimum if expected < 1.5 else 1
        assert torch.allclose(e.learner.bias, torch.full((2, 3), expected))
    assert 1.5 <= expected < 1.5 * minimum


def test_neurons_reach_the_cap_one_by_one():
    w = weights(0.9)
    e, rule = stage(w, cap_ratio=0.44, growth=1.0)
    move(e, rule, w, 1)
    e.learner.bias[:, 0] = 0.45  # beyond the cap; the others have 0.43
    move(e, rule, w, 2)
    minimum = 1 + LR / D
    assert torch.allclose(e.learner.bias, torch.tensor([[0.45, RESET * minimum, RESET * minimum]] * 2))


def test_stage_3_begins_when_one_squared_norm_has_grown_d_fold_since_stage_1():
    e, rule = stage(weights(0.1))
    move(e, rule, weights(0.9, size=2.0), 1)
    move(e, rule, weights(0.9, size=2 * sqrt(D) * 0.99), 2)
    assert rule.stage.tolist() == [2, 2]
    w = weights(0.9, size=2.0)
    w[1, 2] *= sqrt(D) * 1.01
    move(e, rule, w, 3)
    assert rule.events()["stage2_end"].tolist() == [-1, 3]


def test_by_norm_every_neuron_must_have_grown():
    e, rule = stage(weights(0.9), stage1_ends="norm", norm_growth=2.0)
    one_short = weights(0.9, size=1.5)
    one_short[:, 0] *= 0.9  # squared: 1.82 of the start
    move(e, rule, one_short, 1)
    assert rule.stage.tolist() == [1, 1]
    move(e, rule, weights(0.1, size=1.5), 2)
    assert rule.stage.tolist() == [2, 2]


def test_with_factors_zero_biases_stay_zero():
    e, rule = stage(weights(0.1), reset=0.0, growth=0.0)
    for step in (1, 2):
        move(e, rule, weights(0.9, size=float(step)), step)
    assert (e.learner.bias == 0).all()
    assert rule.events()["stage1_end"].tolist() == [1, 1]


def test_it_remembers_what_thresholds_were_when_they_were_set_and_of_what_norm():
    e, rule = stage(weights(0.1))
    for step, size in ((1, 1.0), (2, 1.1), (3, 2.0)):
        move(
            e,
            rule,
            torch.cat([weights(0.9 if step == 2 else 0.1, size=size, replicas=1), weights(0.1, replicas=1)]),
            step,
        )
    assert rule.events()["stage1_end"].tolist() == [2, -1]
    assert torch.allclose(rule.reset_bias[0], torch.tensor(1.1 * RESET))
    assert torch.allclose(rule.reference_norm[0], torch.tensor(1.1))
    assert (rule.reset_bias[1] == 0).all()


def test_what_it_remembers_is_in_its_state():
    e, rule = stage(weights(0.1))
    move(e, rule, weights(0.9), 1)
    other, again = stage(weights(0.1))
    again.load_state_dict(rule.state_dict())
    other.learner.load_state_dict(e.learner.state_dict())
    for run, copy in ((e, rule), (other, again)):
        move(run, copy, weights(0.9, size=1.3), 2)
    assert torch.equal(e.learner.bias, other.learner.bias)
    assert again.events()["stage1_end"].tolist() == [1, 1]


def test_first_times_are_remembered_for_each_replica_and_only_looked_for_now_and_then():
    truth = torch.tensor([False, False])
    e = SimpleNamespace(streams=SimpleNamespace(replicas=(0, 1)))
    rule = FirstTime("event", lambda experiment: truth.clone(), every=5).build(e)
    for step in range(1, 21):
        truth[0] = step >= 7
        truth[1] = step in (11, 12)  # between two looks
        rule(e, step)
    assert rule.events()["event"].tolist() == [10, -1]


@pytest.mark.parametrize(
    "options",
    [
        {"reset": -0.1},
        {"growth": -1.0},
        {"feature_energy": 1.0},
        {"norm_growth": 1.0},
        {"cap_power": float("inf")},
        {"cap_ratio": 0.0},
        {"cap_ratio": float("nan")},
    ],
)
def test_wrong_options_are_refused(options):
    (field,) = options
    with pytest.raises(ConfigError, match=f"BiasSchedule.{field} = .* is out of range"):
        BiasSchedule(**options)


# --- in a fixed ratio to norms --------------------------------------------------------------------------------------

NORMS = torch.tensor([[1.0, 2.0, 0.5], [4.0, 0.1, 3.0]])


def proportional(**options):
    """Two replicas of three neurons with norms `NORMS`, and the rule."""
    weight = torch.zeros(2, 3, 5)
    weight[..., 1], weight[..., 4] = 0.6 * NORMS, -0.8 * NORMS
    e = SimpleNamespace(learner=SymmetricReLUNetwork(weight))
    return e, ProportionalBias(**options).build(e)


@torch.no_grad()
def ratio_after(e, rule, step: int) -> float:
    """b / ||w||, which all neurons must have in common."""
    rule(e, step)
    ratios = e.learner.bias / e.learner.weight.norm(dim=-1)
    assert torch.allclose(ratios, ratios[:1, :1].expand_as(ratios))
    return float(ratios[0, 0])


def test_thresholds_are_set_before_the_first_step_and_follow_the_norm_of_each_neuron():
    e, rule = proportional(first=0.25, last=0.25)
    assert torch.allclose(e.learner.bias, 0.25 * NORMS)
    with torch.no_grad():
        e.learner.weight.mul_(torch.tensor([1.0, 3.0, 0.2])[None, :, None])
        rule(e, 1)
    assert torch.allclose(e.learner.bias, 0.25 * NORMS * torch.tensor([1.0, 3.0, 0.2]))


def test_the_ratio_is_0_until_it_begins_and_then_goes_in_a_straight_line_to_where_it_stays():
    e, rule = proportional(first=0.3, last=0.5, begins=10, takes=4)
    assert (e.learner.bias == 0).all()
    found = [ratio_after(e, rule, step) for step in (5, 9, 10, 11, 13, 14, 15, 1000)]
    assert found == pytest.approx([0, 0, 0.3, 0.35, 0.45, 0.5, 0.5, 0.5])


def test_a_ratio_that_takes_no_time_is_its_last_one():
    e, rule = proportional(first=0.1, last=0.4, begins=3)
    assert [ratio_after(e, rule, step) for step in (2, 3, 4)] == pytest.approx([0, 0.4, 0.4])


def test_a_proportion_has_no_state():
    _, rule = proportional()
    assert not rule.state_dict()  # a checkpoint needs none: steps are counted by the experiment


@pytest.mark.parametrize("options", [{"first": 1.0}, {"last": -0.1}, {"begins": -1}, {"takes": -1}])
def test_wrong_proportions_are_refused(options):
    (field,) = options
    with pytest.raises(ConfigError, match=f"ProportionalBias.{field} = .* is out of range: allowed is >= 0"):
        ProportionalBias(**options)


@pytest.mark.parametrize("optimizer", [SGD(0.4), TorchOptimizer("Adam", 0.01)])
def test_cooling_goes_on_to_the_bit_where_it_was_left(optimizer):
    data = SparseCoding(features=6, input_dim=32)
    rules = {"cooling": Cooling(10, optimizer.lr)}
    recipe = Training(data, SymmetricReLU(width=8), Contrastive(anchors=16, negatives=16), optimizer, rules, steps=10)
    with pytest.raises(
        ConfigError, match=r"Cooling\.steps = 10 is out of range: allowed is >= 11, the training's steps"
    ):
        replace(recipe, steps=11).build(Streams(3, range(2)))
    whole, first, second = (recipe.build(Streams(3, range(2))) for _ in range(3))
    for step in range(9):
        whole.advance(step)
    for step in range(6):
        first.advance(step)
    tensors, numbers = first.state()
    second.restore({name: tensor.clone() for name, tensor in tensors.items()}, dict(numbers))
    for step in range(6, 9):
        second.advance(step)
    assert torch.equal(whole.learner.weight, second.learner.weight)


def test_steps_cool_on_a_line_to_nothing():
    weight = torch.nn.Parameter(torch.zeros(1))
    experiment = SimpleNamespace(optimizer=torch.optim.SGD([weight], lr=0.4))
    rule = Cooling(4, 0.4).build(experiment)
    rates = []
    for step in range(6):
        rule(experiment, step)
        rates.append(experiment.optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([0.4, 0.3, 0.2, 0.1, 0.0, 0.0])
    with pytest.raises(ConfigError, match=r"lr = 0 .* > 0"):
        Cooling(4, 0)


def test_steps_do_not_cool_from_another_size_than_the_optimizer_s():
    weight = torch.nn.Parameter(torch.zeros(1))
    experiment = SimpleNamespace(optimizer=torch.optim.SGD([weight], lr=0.4))
    said = r"Cooling\.lr = 0\.1 is out of range: allowed is the optimizer's step size, 0\.4\. Change both\."
    with pytest.raises(ConfigError, match=said):
        Cooling(4, 0.1).build(experiment)
    experiment.optimizer.param_groups[0]["lr"] = torch.tensor(0.4)  # as optimizers in CUDA graphs have it
    Cooling(4, 0.4).build(experiment)


def test_of_two_events_of_one_name_neither_is_lost_in_silence():
    near, far = (FirstTime("near", lambda e, size=size: e.learner.value[:, 0].abs() < size, every=1) for size in (1, 2))
    assert experiment(rules={"near": near}).events().keys() == {"near"}
    with pytest.raises(ValueError, match="two events are called 'near': expected"):
        experiment(rules={"near": near, "far": far}).events()
    given_up = FirstTime("diverged", lambda e: e.learner.value[:, 0] > 0, every=1)
    with pytest.raises(ValueError, match="two events are called 'diverged': expected"):
        experiment(rules={"given up": given_up}).events()
