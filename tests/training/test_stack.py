"""Experiments that train as one program, each as if it were alone."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from toys import Numbers, Targets, squared_distance

from featscope.data import SparseTokens
from featscope.models import TokenMLP
from featscope.streams import Streams
from featscope.studies.imbalance import Imbalance
from featscope.training import SGD, BiasSchedule, ContrastivePairs, Experiment, TorchOptimizer
from featscope.training.stack import stack, together
from swept import Noisy, Pull

REPLICAS = range(3)
SMALL = Imbalance(
    data=SparseTokens(features=6, input_dim=24),
    learner=TokenMLP(width=10),
    objective=ContrastivePairs(pairs=16),
    bias=BiasSchedule(feature_energy=0.3),
)


def at(study, **data):
    return replace(study, data=replace(study.data, **data)).build(Streams(1, REPLICAS))


def train(experiment, steps: int) -> None:
    for step in range(steps):
        experiment.advance(step)


def test_parts_train_bit_for_bit_as_alone_where_replicas_do_not_share_a_reduction():
    points = [{"target": 0.5}, {"target": -2.0, "noise": 0.5}, {"noise": 0.0}]
    parts = [at(Pull(), **point) for point in points]
    alone = [at(Pull(), **point) for point in points]
    whole = stack(parts)
    train(whole, 20)
    for part, single in zip(parts, alone, strict=True):
        train(single, 20)
        assert torch.equal(part.learner.value, single.learner.value)
        assert torch.equal(part.rules[0].step, single.rules[0].step)
    assert len({float(part.learner.value.detach().sum()) for part in parts}) == 3
    assert torch.equal(whole.events()["near"], torch.cat([single.events()["near"] for single in alone]))


def test_networks_in_a_stack_stay_within_rounding_of_those_trained_alone():
    """Products of many replicas may be summed in another order. 30 steps, with biases and their stages."""
    points = [{"eps_min": 0.1}, {"eps_min": 1.0}, {"noise_std": 0.2}, {"activity": 0.4}]
    parts, alone = ([at(SMALL, **point) for point in points] for _ in range(2))
    train(stack(parts), 30)
    for part, single in zip(parts, alone, strict=True):
        train(single, 30)
        torch.testing.assert_close(part.learner.weight, single.learner.weight, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(part.learner.bias, single.learner.bias, rtol=1e-4, atol=1e-6)
        assert torch.equal(part.events()["stage1_end"], single.events()["stage1_end"])
    assert (parts[3].events()["stage1_end"] > 0).any()  # so that rules had something to do
    assert not torch.allclose(parts[0].learner.weight, parts[1].learner.weight, rtol=1e-3)


def test_parts_are_views_and_see_their_own_draws():
    parts = [at(Pull(), target=target) for target in (0.0, 5.0)]
    whole = stack(parts)
    with torch.no_grad():
        whole.learner.value[4] = 7.0
    assert (parts[1].learner.value[1] == 7).all()
    assert parts[0].streams.replicas == tuple(REPLICAS)
    assert whole.streams.replicas == (0, 1, 2, 0, 1, 2)
    drawn = whole.source.sample(whole.streams.at("any"), 4)
    for part, seen in zip(parts, drawn.split(3), strict=True):
        assert torch.equal(part.source.sample(part.streams.at("any"), 4), seen)


def test_restoring_the_whole_restores_the_parts():
    parts = [at(Pull(), target=target) for target in (0.0, 5.0)]
    whole = stack(parts)
    state = {name: tensor + 1 for name, tensor in whole.state_dict().items()}
    whole.load_state_dict(state)
    assert torch.equal(torch.cat([part.learner.value for part in parts]), state["learner.value"])


def test_one_experiment_is_its_own_stack():
    experiment = at(Pull())
    assert stack([experiment]) is experiment


def with_optimizer(optimizer):
    streams = Streams(0, REPLICAS)
    return Experiment(Targets(REPLICAS), Numbers(3), squared_distance, optimizer, [], streams)


@pytest.mark.parametrize("number", ["lr", "weight_decay"])
def test_step_size_and_decay_may_differ_between_parts(number):
    optimizers = [SGD(**{"lr": 0.3, "weight_decay": 0.1, number: value}) for value in (0.05, 0.2, 0.4)]
    parts, alone = ([with_optimizer(optimizer) for optimizer in optimizers] for _ in range(2))
    assert together(parts, [0, 0, 0]) == [[0, 1, 2]]
    train(stack(parts), 20)
    for part, single in zip(parts, alone, strict=True):
        train(single, 20)
        torch.testing.assert_close(part.learner.value, single.learner.value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["AdamW", "Adam", "RMSprop"])
def test_any_optimizer_of_torch_is_stacked_with_all_its_options(name):
    def kind(parameters):
        return getattr(torch.optim, name)(parameters, lr=0.02, weight_decay=0.3, eps=0.1)

    parts, alone = ([with_optimizer(kind) for _ in range(2)] for _ in range(2))
    for each in (parts, alone):
        each[1].source.target += 2
    assert together(parts, [0, 0]) == [[0, 1]]
    train(stack(parts), 10)
    for part, single in zip(parts, alone, strict=True):
        train(single, 10)
        assert torch.equal(part.learner.value, single.learner.value)
    assert not torch.equal(parts[0].learner.value, parts[1].learner.value)


def grouped(lr: float):
    return lambda parameters: torch.optim.SGD([{"params": parameters, "lr": lr}], lr=1.0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (TorchOptimizer("AdamW", 0.1), TorchOptimizer("AdamW", 0.2)),
        (TorchOptimizer("AdamW"), TorchOptimizer("Adam")),
        (SGD(), TorchOptimizer("SGD")),
        (grouped(0.1), grouped(0.2)),
    ],
)
def test_other_optimizers_with_other_numbers_are_not_put_together(one, other):
    assert together([with_optimizer(one), with_optimizer(other), with_optimizer(one)], [0] * 3) == [[0, 2], [1]]


def changed(change):
    experiment = at(Pull())
    change(experiment)
    return experiment


class Other(Numbers):
    pass


@pytest.mark.parametrize(
    "change",
    [
        lambda e: setattr(e.learner, "slope", 0.1),
        lambda e: setattr(e.learner, "table", torch.zeros(2)),
        lambda e: setattr(e.source, "streams", e.streams),  # what modules hold themselves is not the stack's to set
        lambda e: setattr(e, "objective", squared_distance),
        lambda e: setattr(e, "gives_up", True),
        lambda e: e.learner.register_buffer("more", torch.zeros(3)),
        lambda e: setattr(e, "learner", Other(3)),
        lambda e: e.learner.value.requires_grad_(False),
        lambda e: e.double(),
        lambda e: e.rules.append(nn.Identity()),
    ],
)
def test_experiments_that_differ_in_more_than_the_values_of_tensors_are_not_put_together(change):
    experiments = [at(Pull()), changed(change), at(Pull(), target=3.0), changed(change)]
    assert together(experiments, [0] * 4)[0] == [0, 2]


def test_experiments_with_arrays_that_are_no_buffers_train_apart():
    """Whether such arrays are equal in value says nothing about what depends on them."""
    assert together([changed(lambda e: setattr(e, "table", torch.zeros(2))) for _ in range(2)], [0, 0]) == [[0], [1]]


def test_other_shapes_and_other_schedules_are_not_put_together():
    experiments = [at(Pull()), at(Pull(width=3)), at(Pull()), at(Pull())]
    assert together(experiments, [(12, 4), (12, 4), (12, 4), (20, 4)]) == [[0, 2], [1], [3]]


def test_a_tensor_without_the_replica_axis_keeps_an_experiment_apart():
    shared = [changed(lambda e: e.learner.register_buffer("table", torch.zeros(5))) for _ in range(2)]
    counted = [changed(lambda e: e.learner.register_buffer("count", torch.tensor(0))) for _ in range(2)]
    assert together([*shared, *counted], [0] * 4) == [[0], [1], [2], [3]]


def test_noise_is_shared_and_configs_are_of_no_matter_to_the_source():
    """What a config says must be in tensors: two sources of other numbers have equal attributes."""
    one, other = at(Pull(), noise=0.1), replace(Pull(), data=Noisy(noise=0.9)).build(Streams(1, REPLICAS))
    assert together([one, other], [0, 0]) == [[0, 1]]
