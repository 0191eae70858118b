"""Experiments that train as one program, each as if it were alone."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
from torch import nn
from toys import Numbers, Targets, squared_distance

from featscope.axes import numeric_options, with_options
from featscope.data import PatchFeatures, SparseCoding, SparseTokens
from featscope.losses import InfoNCE, NonContrastive
from featscope.models import CubicPatches, IdentityInit, PlantedStart, SymmetricReLU, TokenMLP
from featscope.models.cubic_patches import Online
from featscope.numbers import per_replica
from featscope.streams import Streams
from featscope.training import (
    SGD,
    BiasSchedule,
    Contrastive,
    ContrastivePairs,
    Cooling,
    GradientTraining,
    MagnitudePruning,
    PredictOtherView,
    ProportionalBias,
    TorchOptimizer,
    Training,
)
from featscope.training.objectives import Ready
from featscope.training.stack import bind, stack, together
from swept import Noisy, Pull, Squares

REPLICAS = range(3)
SMALL = Training(
    SparseTokens(features=6, input_dim=24, activity=0.4),
    TokenMLP(width=10),
    ContrastivePairs(pairs=16),
    SGD(0.1, 0.01),
    {"bias": BiasSchedule(feature_energy=0.3)},
)


def build(recipe):
    return recipe.build(Streams(1, REPLICAS))


def at(recipe, **data):
    return build(replace(recipe, data=replace(recipe.data, **data)))


PULL = Pull().recipe


def train(experiment, steps: int) -> None:
    for step in range(steps):
        experiment.advance(step)


def test_parts_train_bit_for_bit_as_alone_where_replicas_do_not_share_a_reduction():
    points = [{"target": 0.5}, {"target": -2.0, "noise": 0.5}, {"noise": 0.0}]
    parts = [at(PULL, **point) for point in points]
    alone = [at(PULL, **point) for point in points]
    whole = stack(parts)
    train(whole, 20)
    for part, single in zip(parts, alone, strict=True):
        train(single, 20)
        assert torch.equal(part.learner.value, single.learner.value)
        assert torch.equal(part.rules["near"].step, single.rules["near"].step)
    assert len({float(part.learner.value.detach().sum()) for part in parts}) == 3
    assert torch.equal(whole.events()["near"], torch.cat([single.events()["near"] for single in alone]))


def test_networks_in_a_stack_stay_within_rounding_of_those_trained_alone():
    """Products of many replicas may be summed in another order. 30 steps, with biases and their stages."""
    points = [{"eps_min": 0.1}, {"eps_min": 1.0}, {"noise_std": 0.2}, {"activity": 0.3}]
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
    parts = [at(PULL, target=target) for target in (0.0, 5.0)]
    whole = stack(parts)
    with torch.no_grad():
        whole.learner.value[4] = 7.0
    assert (parts[1].learner.value[1] == 7).all()
    assert parts[0].streams.replicas == tuple(REPLICAS)
    assert whole.streams.replicas == (0, 1, 2, 0, 1, 2)
    drawn = whole.source.sample(whole.streams.at("any"), 4)
    for part, seen in zip(parts, drawn.split(3), strict=True):
        assert torch.equal(part.source.sample(part.streams.at("any"), 4), seen)


def test_tensors_that_a_rule_puts_in_place_of_others_are_the_parts_too():
    parts = [at(SMALL, noise_std=noise) for noise in (0.1, 0.2)]
    whole = stack(parts)
    whole.learner.weight.data = whole.learner.weight.data * 2
    whole.learner.bias = torch.full_like(whole.learner.bias, 0.25)
    bind(whole, parts)
    for part, weight in zip(parts, whole.learner.weight.split(3), strict=True):
        assert torch.equal(part.learner.weight, weight)
        assert (part.learner.bias == 0.25).all()
        assert part.learner.weight.data_ptr() == weight.data_ptr()


def test_parts_have_the_step_size_that_a_rule_has_set():
    cooled = replace(PULL, rules={"cooling": Cooling(PULL.steps, PULL.optimizer.lr)})
    parts, alone = ([at(cooled, target=target) for target in (0.0, 5.0)] for _ in range(2))
    whole = stack(parts)
    train(whole, 3)
    bind(whole, parts)
    for part, single in zip(parts, alone, strict=True):
        train(single, 3)
        assert part.optimizer.param_groups[0]["lr"] == single.optimizer.param_groups[0]["lr"] < PULL.optimizer.lr


def test_parts_keep_step_sizes_of_their_own():
    parts = [build(replace(PULL, optimizer=SGD(lr, 0.01))) for lr in (0.1, 0.3)]
    bind(stack(parts), parts)
    assert [part.optimizer.param_groups[0]["lr"] for part in parts] == [0.1, 0.3]


def test_restoring_the_whole_restores_the_parts():
    parts = [at(PULL, target=target) for target in (0.0, 5.0)]
    whole = stack(parts)
    state = {name: tensor + 1 for name, tensor in whole.state_dict().items()}
    whole.load_state_dict(state)
    assert torch.equal(torch.cat([part.learner.value for part in parts]), state["learner.value"])


def test_step_sizes_come_back_to_where_they_were():
    """A file is read on the CPU."""
    made = at(PULL)
    tensors, _ = made.state()
    (group,) = made.optimizer.param_groups
    group["lr"] = torch.full((len(REPLICAS),), 0.1, device="meta")
    made.restore(tensors | {"optimizer.option.0.lr": torch.full((len(REPLICAS),), 0.2)}, {})
    assert group["lr"].is_meta


def test_one_experiment_is_its_own_stack():
    experiment = at(PULL)
    assert stack([experiment]) is experiment


def with_optimizer(optimizer):
    streams = Streams(0, REPLICAS)
    return GradientTraining(Targets(REPLICAS), Numbers(3), squared_distance, optimizer, {}, streams)


@pytest.mark.parametrize("number", ["lr", "weight_decay"])
def test_step_size_and_decay_may_differ_between_parts(number):
    optimizers = [SGD(**{"lr": 0.3, "weight_decay": 0.1, number: value}) for value in (0.05, 0.2, 0.4)]
    parts, alone = ([with_optimizer(optimizer) for optimizer in optimizers] for _ in range(2))
    assert together(parts, [0, 0, 0]) == [[0, 1, 2]]
    train(stack(parts), 20)
    for part, single in zip(parts, alone, strict=True):
        train(single, 20)
        torch.testing.assert_close(part.learner.value, single.learner.value, rtol=1e-5, atol=1e-6)


@dataclass(frozen=True)
class Made:
    """Options of an optimizer: a function of parameters."""

    make: Callable

    def build(self, parameters):
        return self.make(parameters)


@pytest.mark.parametrize("name", ["AdamW", "Adam", "RMSprop"])
def test_any_optimizer_of_torch_is_stacked_with_all_its_options(name):
    kind = Made(lambda parameters: getattr(torch.optim, name)(parameters, lr=0.02, weight_decay=0.3, eps=0.1))
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
    return Made(lambda parameters: torch.optim.SGD([{"params": parameters, "lr": lr}], lr=1.0))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (TorchOptimizer("ASGD", 0.1), TorchOptimizer("ASGD", 0.2)),
        (TorchOptimizer("AdamW"), TorchOptimizer("Adam")),
        (SGD(), TorchOptimizer("SGD")),
        (grouped(0.1), grouped(0.2)),
    ],
)
def test_other_optimizers_with_other_numbers_are_not_put_together(one, other):
    assert together([with_optimizer(one), with_optimizer(other), with_optimizer(one)], [0] * 3) == [[0, 2], [1]]


def changed(change):
    experiment = at(PULL)
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
        lambda e: e.rules.update({"more": nn.Identity()}),
    ],
)
def test_experiments_that_differ_in_more_than_the_values_of_tensors_are_not_put_together(change):
    experiments = [at(PULL), changed(change), at(PULL, target=3.0), changed(change)]
    assert together(experiments, [0] * 4)[0] == [0, 2]


def test_experiments_with_arrays_that_are_no_buffers_train_apart():
    """Whether such arrays are equal in value says nothing about what depends on them."""
    assert together([changed(lambda e: setattr(e, "table", torch.zeros(2))) for _ in range(2)], [0, 0]) == [[0], [1]]


def test_other_shapes_and_other_schedules_are_not_put_together():
    experiments = [at(PULL), build(Pull(width=3).recipe), at(PULL), at(PULL)]
    assert together(experiments, [(12, 4), (12, 4), (12, 4), (20, 4)]) == [[0, 2], [1], [3]]


def test_a_tensor_without_the_replica_axis_keeps_an_experiment_apart():
    shared = [changed(lambda e: e.learner.register_buffer("table", torch.zeros(5))) for _ in range(2)]
    counted = [changed(lambda e: e.learner.register_buffer("count", torch.tensor(0))) for _ in range(2)]
    assert together([*shared, *counted], [0] * 4) == [[0], [1], [2], [3]]


def test_noise_is_shared_and_configs_are_of_no_matter_to_the_source():
    """What a config says must be in tensors: two sources of other numbers have equal attributes."""
    one, other = at(PULL, noise=0.1), build(Pull(data=Noisy(noise=0.9)).recipe)
    assert together([one, other], [0, 0]) == [[0, 1]]


# --- floats -----------------------------------------------------------------------------------------------------------

PATTERNS = replace(
    SMALL,
    data=replace(SMALL.data, token_activity=0.5),
    objective=ContrastivePairs(InfoNCE(0.5, "tau"), pairs=16),
    rules={"bias": ProportionalBias(0.1, 0.3, begins=2, takes=8), "pruning": MagnitudePruning(0.2)},
)
PLANTED = replace(SMALL, learner=PlantedStart(2, 0.3, 0.2, 0.05), rules={})
BY_NORM = replace(SMALL, rules={"bias": BiasSchedule(stage1_ends="norm", norm_growth=1.5, cap_ratio=0.3)})
CODING = Training(
    SparseCoding(features=6, input_dim=32),
    SymmetricReLU(width=10),
    Contrastive(anchors=16, negatives=8),
    SGD(0.1, 0.01),
    {"bias": BiasSchedule(feature_energy=0.3)},
)
PATCHES = Training(
    PatchFeatures(patches=6, feature_patches=2, input_dim=12),
    Online(CubicPatches(), IdentityInit(0.5)),
    PredictOtherView(NonContrastive(eps=0.1), samples=12, noise="dense"),
    SGD(0.05, 0.01),
)
FLOATS = {
    "tokens": (
        SMALL,
        {
            "data.eps_min": 0.9,
            "data.activity": 0.3,
            "data.noise_std": 0.3,
            "learner.init_norm": 0.1,
            "objective.loss.temperature": 0.5,
            "optimizer.lr": 0.2,
            "optimizer.weight_decay": 0.5,
            "rules.bias.reset": 0.3,
            "rules.bias.growth": 3.0,
            "rules.bias.cap_power": -8.0,
            "rules.bias.feature_energy": 0.6,
        },
    ),
    "patterns": (
        PATTERNS,
        {
            "data.token_activity": 0.9,
            "objective.loss.temperature": 1.5,
            "rules.bias.first": 0.2,
            "rules.bias.last": 0.1,
            "rules.pruning.ratio": 0.6,
        },
    ),
    "planted": (PLANTED, {"learner.amplitude": 0.5, "learner.minority_amplitude": 0.5, "learner.jitter": 0.1}),
    "by norm": (BY_NORM, {"rules.bias.norm_growth": 1.1, "rules.bias.cap_ratio": 0.9}),
    "patches": (
        PATCHES,
        {
            "data.strong": 2.0,
            "data.weak": 4.0,
            "data.strong_share": 0.2,
            "data.noise_std": 0.3,
            "learner.head.rate": 2.0,
            "objective.loss.eps": 9.0,
            "optimizer.lr": 0.5,
        },
    ),
    "coding": (CODING, {"data.sparsity": 1.5, "data.noise": 3.0, "optimizer.lr": 0.2, "rules.bias.reset": 0.3}),
}
POINTS = [(name, option) for name, (_, options) in FLOATS.items() for option in options]


@pytest.mark.parametrize(("name", "option"), POINTS)
def test_a_float_option_may_differ_between_the_parts_of_one_program(name, option):
    recipe, options = FLOATS[name]
    recipes = [recipe, with_options(recipe, {option: options[option]})]
    parts, alone = ([build(each) for each in recipes] for _ in range(2))
    assert together(parts, [0, 0]) == [[0, 1]]
    train(stack(parts), 30)
    for part, single in zip(parts, alone, strict=True):
        train(single, 30)
        for name, expected in single.learner.state_dict().items():
            torch.testing.assert_close(part.learner.state_dict()[name], expected, rtol=1e-3, atol=1e-5)
        assert all(torch.equal(part.events()[event], step) for event, step in single.events().items())
    assert not all(
        torch.allclose(a, b, rtol=1e-2) for a, b in zip(parts[0].parameters(), parts[1].parameters(), strict=True)
    )


def test_every_float_of_what_is_built_here_is_among_them():
    recipes = [recipe for recipe, _ in FLOATS.values()]
    kinds = {
        path.rpartition(".")[2] for recipe in recipes for path in numeric_options(recipe) if is_float(recipe, path)
    }
    assert kinds == {option.rpartition(".")[2] for _, option in POINTS}


def is_float(recipe, path: str) -> bool:
    return isinstance(numeric_options(recipe)[path], float)


@dataclass(frozen=True)
class Scaled(Ready):
    """A user's objective with numbers of its own, of which it says nothing."""

    factor: float = 1.0
    power: int = 2

    def __call__(self, learner, source, draws):
        return float(self.factor) * Squares()(learner, source, draws)


class Tensorial(Scaled):
    """As `Scaled`, and says that its factor may be a tensor."""

    floats_per_replica: ClassVar[bool] = True

    def __call__(self, learner, source, draws):
        loss = Squares()(learner, source, draws)
        return per_replica(self.factor, loss) * loss


def scaled(kind, *factors, **more):
    return [build(replace(PULL, objective=kind(factor, **more))) for factor in factors]


def test_floats_of_options_that_say_nothing_get_programs_of_their_own():
    assert together(scaled(Scaled, 1.0, 2.0, 1.0), [0] * 3) == [[0, 2], [1]]
    assert together(scaled(Tensorial, 1.0, 2.0, 1.0), [0] * 3) == [[0, 1, 2]]


def test_whole_numbers_of_options_never_differ_within_a_program():
    experiments = [*scaled(Tensorial, 1.0), *scaled(Tensorial, 2.0, power=3)]
    assert together(experiments, [0, 0]) == [[0], [1]]


def test_a_whole_number_may_stand_for_a_float():
    """Where the field is a float: 2 and 0.5 make one tensor."""
    parts, alone = (scaled(Tensorial, 2, 0.5) for _ in range(2))
    assert together(parts, [0, 0]) == [[0, 1]]
    train(stack(parts), 10)
    for part, single in zip(parts, alone, strict=True):
        train(single, 10)
        torch.testing.assert_close(part.learner.value, single.learner.value)
    assert not torch.allclose(parts[0].learner.value, parts[1].learner.value, rtol=0.01)


def test_what_options_hold_says_for_itself():
    """The objective says nothing, the loss that it holds does."""
    objectives = [Contrastive(loss=InfoNCE(temperature)) for temperature in (0.5, 1.0)]
    assert not hasattr(objectives[0], "floats_per_replica")
    experiments = [build(replace(CODING, objective=each)) for each in objectives]
    assert together(experiments, [0, 0]) == [[0, 1]]


class Shifted(nn.Module):
    """A user's objective as a module with a number in an attribute."""

    def __init__(self, shift) -> None:
        super().__init__()
        self.shift = shift

    def forward(self, learner, source, draws):
        loss = Squares()(learner, source, draws)
        return loss + per_replica(self.shift, loss) * learner.value.sum(-1)


class SaysSo(Shifted):
    floats_per_replica = True


def shifted(kind, *shifts):
    experiments = [build(PULL) for _ in shifts]
    for experiment, shift in zip(experiments, shifts, strict=True):
        experiment.objective = kind(shift)
    return experiments


def test_floats_of_modules_that_say_nothing_get_programs_of_their_own():
    assert together(shifted(Shifted, 0.1, 0.2, 0.1), [0] * 3) == [[0, 2], [1]]
    parts, alone = (shifted(SaysSo, 0.1, 0.9, 0.1) for _ in range(2))
    assert together(parts, [0] * 3) == [[0, 1, 2]]
    train(stack(parts), 10)
    for part, single in zip(parts, alone, strict=True):
        train(single, 10)
        torch.testing.assert_close(part.learner.value, single.learner.value)
    assert not torch.allclose(parts[0].learner.value, parts[1].learner.value, rtol=0.01)


@pytest.mark.parametrize("shifts", [(1, 2), (1, 0.5), (True, 0.5), (None, 0.5), ("a", "b")])
def test_attributes_of_modules_that_are_no_floats_get_programs_of_their_own(shifts):
    assert together(shifted(SaysSo, *shifts), [0, 0]) == [[0], [1]]


def test_numbers_that_do_not_differ_stay_numbers():
    whole = stack(shifted(SaysSo, 0.1, 0.1))
    assert whole.objective.shift == 0.1
    assert isinstance(whole.optimizer.param_groups[0]["lr"], float)
    mixed = stack(shifted(SaysSo, 0.1, 0.2))
    assert mixed.objective.shift.tolist() == [0.1] * 3 + [0.2] * 3


def test_parts_keep_numbers_of_their_own():
    """What is measured on a part is measured with its own options."""
    parts = scaled(Tensorial, 1.0, 2.0)
    stack(parts)
    assert [part.objective.factor for part in parts] == [1.0, 2.0]


@pytest.mark.parametrize("like", [torch.zeros(3), torch.zeros(3, 2), torch.zeros(3, 2, 4, dtype=torch.float64)])
def test_numbers_of_replicas_combine_with_what_belongs_to_replicas(like):
    number = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    found = like + per_replica(number, like)
    assert found.dtype == like.dtype
    of_each = found.flatten(1).unique(dim=1).squeeze(1) if like.ndim > 1 else found
    assert of_each.tolist() == [1, 2, 3]
    assert per_replica(0.5, like) == 0.5
    assert per_replica(number, torch.zeros(3, dtype=torch.int64)).dtype == torch.get_default_dtype()
