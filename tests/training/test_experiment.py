"""What the engine asks of an experiment; replicas that diverge are given up, and the others do not notice."""

import json
import pickle

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from toys import Numbers, Targets, squared_distance

from featscope.streams import Streams
from featscope.training import (
    SGD,
    DivergedError,
    Experiment,
    FirstTime,
    GradientTraining,
    Measurement,
    Record,
    TorchOptimizer,
    train,
)
from featscope.training.gradient import Objective
from swept import Pull

BREAKS_AT, BROKEN = 7, 1


def breaking(value: float) -> Objective:
    """A loss that is ``value`` from step ``BREAKS_AT`` on in replica ``BROKEN``; its gradient is not finite then."""

    def objective(learner, source, draws):
        loss = squared_distance(learner, source, draws)
        late = (source.clock >= BREAKS_AT) & (torch.arange(len(loss)) == BROKEN)
        return loss * torch.where(late, value, 1.0)

    return objective


def tick(experiment):
    experiment.source.clock += 1
    return torch.zeros(3, dtype=torch.bool)


def experiment(objective=squared_distance, gives_up=True, optimizer=None, **rules) -> GradientTraining:
    source = Targets(range(3))
    source.register_buffer("clock", torch.zeros(3))
    rules = {"clock": FirstTime("clock", tick, every=1), **rules}
    made = GradientTraining(source, Numbers(3), objective, optimizer or SGD(0.3, 0.1), rules, Streams(0, range(3)))
    made.gives_up = gives_up
    return made


def values(experiment, steps=15):
    """Loss of the batch and value after every step."""
    seen = []
    for step in range(steps):
        experiment.advance(step)
        seen.append((experiment._latest[0].clone(), experiment.learner.value.detach().clone()))
    return seen


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
@pytest.mark.parametrize("optimizer", [SGD(0.3, 0.1), TorchOptimizer("AdamW", 0.1, 0.01)])
def test_a_replica_that_diverges_is_given_up_and_the_others_go_on_bit_for_bit(value, optimizer):
    sound, broken = experiment(optimizer=optimizer), experiment(breaking(value), optimizer=optimizer)
    others = [0, 2]
    for (loss, weights), (broken_loss, broken_weights) in zip(values(sound), values(broken), strict=True):
        assert torch.equal(loss[others], broken_loss[others])
        assert torch.equal(weights[others], broken_weights[others])
    assert broken.diverged.tolist() == [-1, BREAKS_AT, -1]
    assert broken.learner.value[BROKEN] == 0
    assert sound.diverged.tolist() == [-1, -1, -1]


def test_without_giving_up_divergence_ends_training():
    broken = experiment(breaking(torch.nan), gives_up=False)
    with pytest.raises(DivergedError, match=f"the loss of replica {BROKEN} is not finite at step {BREAKS_AT}"):
        values(broken)


def test_weights_that_are_not_finite_are_found_when_it_is_time_to_measure():
    made = experiment()
    with torch.no_grad():
        made.learner.value[2] = torch.inf
    made.require_sound(3)
    assert made.diverged.tolist() == [-1, -1, 3]
    assert made.learner.value[2] == 0


def test_the_step_that_counts_is_the_first():
    made = experiment(breaking(torch.inf))
    values(made)
    with torch.no_grad():
        made.learner.value[BROKEN] = torch.nan
    made.require_sound(99)
    assert made.diverged[BROKEN] == BREAKS_AT


def test_what_is_measured_on_a_replica_that_is_given_up_is_missing():
    made = experiment(breaking(torch.inf))
    record = Record()
    train(
        made,
        12,
        lambda e: {"value": Measurement(e.learner.value[:, 0])},
        [0, BREAKS_AT, BREAKS_AT + 1, 12],
        record,
    )
    run = record.to_dataset(range(3))
    for name in ("loss", "value"):
        missing = run[name].isnull().values
        assert not missing[[0, 2]].any()
        assert missing[BROKEN].tolist() == [False, False, True, True]


def test_whole_numbers_stay_and_so_does_what_is_measured_before():
    made = experiment()
    kept = {"pair": Measurement(torch.ones(3, 2), "two", ("number",), "m"), "count": Measurement(torch.arange(3))}
    assert made.masked(kept) == kept
    made.diverged[0] = 4
    found = made.masked(kept)
    assert found["pair"].values.isnan().tolist() == [[True, True], [False, False], [False, False]]
    assert found["pair"][1:] == ("two", ("number",), "m")
    assert not kept["pair"].values.isnan().any()
    assert found["count"].values.tolist() == [0, 1, 2]


class OneDevice(TorchFunctionMode):
    """Refuses tensors of two devices in one call, as a GPU does."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        given = (*args, *(kwargs or {}).values())
        assert len({one.device for one in given if isinstance(one, torch.Tensor)}) <= 1, function
        return function(*args, **(kwargs or {}))


def test_what_is_measured_on_another_device_is_masked_there():
    """As by a probe that computes on the CPU whatever the device."""
    made = experiment()
    made.diverged[0] = 4
    with OneDevice():
        found = made.masked({"elsewhere": Measurement(torch.ones(3, 2, device="meta"), "two", ("number",))})
    assert found["elsewhere"].values.is_meta


class Sees(nn.Module):
    """A rule that remembers whether all weights it saw were finite."""

    def __init__(self) -> None:
        super().__init__()
        self.finite = True

    def build(self, experiment):
        return self

    def forward(self, experiment, step):
        self.finite = self.finite and bool(experiment.learner.value.isfinite().all())


def test_rules_see_no_weights_that_are_not_finite():
    rule = Sees()
    values(experiment(breaking(torch.inf), sees=rule))
    assert rule.finite


class Spoils(nn.Module):
    """A rule that makes NaN of zero weights, as a division by a norm does."""

    def build(self, experiment):
        return self

    def forward(self, experiment, step):
        value = experiment.learner.value
        value.copy_(torch.where(experiment.diverged[:, None] >= 0, value / value, value))


def test_nothing_that_a_rule_makes_of_zero_weights_reaches_the_probes():
    made = experiment(breaking(torch.inf), spoils=Spoils())
    values(made)
    assert made.diverged.tolist() == [-1, BREAKS_AT, -1]
    assert made.learner.value.isfinite().all()


def test_events_after_a_replica_was_given_up_have_not_happened():
    at_zero = FirstTime("zero", lambda e: e.learner.value[:, 0] == 0, every=1)
    early = FirstTime("early", lambda e: e.learner.value[:, 0] < 99, every=1)
    made = experiment(breaking(torch.inf), at_zero=at_zero, early=early)
    values(made)
    assert made.events()["zero"].tolist() == [-1, -1, -1]
    assert made.events()["early"].tolist() == [1, 1, 1]


def test_training_that_waits_for_an_event_does_not_wait_for_replicas_that_are_given_up():
    away = FirstTime("away", lambda e: (e.source.clock >= 10) & (torch.arange(3) != BROKEN), every=1)
    watch = lambda e: {}  # noqa: E731
    assert train(experiment(breaking(torch.inf), away=away), 40, watch, [0], Record(), stop_at="away") < 15
    assert train(experiment(away=away), 40, watch, [0], Record(), stop_at="away") == 40


class Ordinary(nn.Module):
    """A network without replica axis: weights, running statistics, a count."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(1, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))


def test_the_one_replica_of_a_module_without_replica_axis_can_be_given_up():
    def objective(learner, source, draws):
        x = source.sample(draws, 8).x[0]
        return learner.layers(x).square().mean().reshape(1) * torch.inf

    made = GradientTraining(Targets([4]), Ordinary(), objective, SGD(0.1, 0.0), {}, Streams(0, [4]))
    made.gives_up = True
    made.advance(0)
    assert made.diverged.tolist() == [0]
    assert all((parameter == 0).all() for parameter in made.parameters())


def test_a_table_that_all_replicas_share_is_left_alone():
    made = experiment(breaking(torch.inf))
    made.learner.register_buffer("table", torch.ones(5))
    values(made)
    assert (made.learner.table == 1).all()


def test_all_replicas_may_be_given_up():
    made = Pull(optimizer=SGD(1e30, 0.0)).recipe.build(Streams(0, range(3)))
    made.gives_up = True
    values(made, 5)
    assert (made.diverged == 1).all()


# --- the protocol -----------------------------------------------------------------------------------------------------


class Counting(Experiment):
    """Counts; that is all that must be given."""

    def __init__(self, streams) -> None:
        super().__init__(streams)
        self.register_buffer("count", torch.zeros(len(streams.replicas)))

    def advance(self, step: int) -> None:
        self.count += 1


def test_only_a_step_must_be_given():
    streams = Streams(0, range(4, 6))
    with pytest.raises(NotImplementedError):
        Experiment(streams).advance(0)
    made, record = Counting(streams), Record()
    assert train(made, 3, lambda e: {"count": Measurement(e.count)}, [0, 3], record) == 3
    assert (made.status(), made.events(), made.look(0), made.outcomes(), made.kept()) == ("", {}, {}, {}, {})
    assert not made.gives_up
    run = record.to_dataset([4, 5])
    assert set(run.data_vars) == {"count"}  # and no loss where nothing has one
    assert run["count"].values.tolist() == [[0, 3], [0, 3]]


def test_what_is_kept_for_good_is_the_learner_and_what_the_source_knows():
    made = experiment(optimizer=TorchOptimizer("AdamW", 0.1))
    made.advance(0)
    assert set(made.kept()) == {"learner.value", "source.target", "source.clock"}


def test_the_last_look_is_that_of_each_replica():
    made = experiment(breaking(torch.inf))
    assert made.last_look.tolist() == [-1, -1, -1]
    train(made, 12, lambda e: {}, [0, 4, 10], Record())
    assert made.diverged.tolist() == [-1, BREAKS_AT, -1]
    assert made.last_look.tolist() == [12, 4, 12]


class Slowing(torch.optim.Optimizer):
    """Steps that become smaller; it counts in whole numbers, as some optimizers do."""

    @classmethod
    def build(cls, parameters):
        return cls(parameters, {"lr": 0.5})

    def step(self, closure=None):
        for parameter in self.param_groups[0]["params"]:
            remembered = self.state[parameter]
            remembered["count"] = remembered.get("count", 0) + 1
            parameter.data.sub_(0.5 / remembered["count"] * parameter.grad)


@pytest.mark.parametrize(
    "optimizer", [SGD(0.3, 0.1), TorchOptimizer("AdamW", 0.1), TorchOptimizer("RMSprop", 0.1), Slowing]
)
def test_a_state_is_all_that_changes_and_goes_through_files_as_tensors_and_json(optimizer):
    def made():
        away = FirstTime("away", lambda e: e.learner.value[:, 0] > 0.5, every=1)
        return experiment(breaking(torch.inf), optimizer=optimizer, away=away)

    first, second = made(), made()
    values(first, BREAKS_AT + 2)
    tensors, numbers = first.state()
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    second.restore(tensors, json.loads(json.dumps(numbers)))
    for step in range(BREAKS_AT + 2, 20):
        first.advance(step)
        second.advance(step)
    assert torch.equal(first.learner.value, second.learner.value)
    assert second.diverged.tolist() == [-1, BREAKS_AT, -1]
    assert all(torch.equal(first.events()[name], second.events()[name]) for name in ("clock", "away"))
    again = made()
    again.restore({name: tensor for name, tensor in tensors.items() if not name.startswith("optimizer.")}, {})
    for step in range(BREAKS_AT + 2, 20):
        again.advance(step)
    remembers = bool(first.optimizer.state_dict()["state"])
    assert torch.equal(first.learner.value, again.learner.value) != remembers  # the optimizer's memory matters


def test_a_state_is_worth_keeping_while_all_parameters_are_finite():
    made = experiment()
    assert made.sound()
    with torch.no_grad():
        made.learner.value[1] = torch.nan
    assert not made.sound()


def test_of_a_single_replica_the_first_axis_may_be_anything():
    made = Counting(Streams(0, [7]))
    with pytest.raises(DivergedError, match="weights of replica 7 is not finite at step 5"):
        made.require_finite("weights", torch.tensor([0.0, torch.nan, 1.0]), 5)
    made.gives_up = True
    made.require_finite("weights", torch.tensor([0.0, torch.nan, 1.0]), 5)
    assert made.diverged.tolist() == [5]


def test_what_diverged_passes_between_processes():
    error = pickle.loads(pickle.dumps(DivergedError("the loss", 3, 8)))
    assert (error.quantity, error.step, error.replica) == ("the loss", 3, 8)
    assert str(error) == "the loss of replica 8 is not finite at step 3"
