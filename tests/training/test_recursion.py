"""Maps that are iterated: who has come to the end, and when."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from featscope.models import PowerMethod
from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.training import Iteration, Recursion, train
from featscope.training.record import Record
from featscope.training.stack import stack, together

METHOD = PowerMethod(power=3, weight=1, step_size=0.05, start=0.2, strongest=1.5, sequences=4)


class Countdown(nn.Module):
    """Numbers that fall by 1, or by what a draw says, and stay at 0."""

    def __init__(self, value) -> None:
        super().__init__()
        self.register_buffer("value", value)
        self.draws = []

    @property
    def passed(self):
        return self.value <= 0

    def forward(self, draws):
        self.draws.append(draws.uniform(1).item() if draws.replicas == 1 else None)
        self.value.sub_(1).clamp_(min=0)


@dataclass(frozen=True)
class From:
    """Options of `Countdown`: where each replica's sequences begin."""

    values: tuple[tuple[float, ...], ...] = ((1.0, 3.0), (2.0, 2.0), (9.0, 0.0))

    def build(self, draws):
        return Countdown(torch.tensor(self.values))


def build(replicas=range(3), **options):
    return Iteration(From(**options), 20, 5).build(Streams(0, replicas))


def advance(experiment, to, start=0):
    for step in range(start, to):
        experiment.advance(step)
    return experiment


def test_the_event_is_that_all_sequences_of_a_replica_have_passed():
    experiment = advance(build(), 4)
    assert experiment.events()["passed"].tolist() == [3, 2, -1]
    assert experiment.status() == "5 of 6 passed"
    assert advance(experiment, 12, 4).events()["passed"].tolist() == [3, 2, 9]  # and stays what it was


def test_it_stops_there():
    assert train(build(), 20, lambda e: {}, [0], Record(), stop_at="passed") == 9


def test_every_step_has_draws_of_its_own():
    experiment = advance(build([7], values=((9.0,),)), 3)
    assert experiment.learner.draws == [Streams(0, [7]).at("batch", step).uniform(1).item() for step in range(3)]
    assert len(set(experiment.learner.draws)) == 3


def test_it_measures_nothing_of_itself_and_has_no_loss():
    experiment = advance(build(), 2)
    assert experiment.look(2) == {}
    assert experiment.outcomes() == {}


def test_the_recipe_gives_starts_their_own_draws():
    experiment = Iteration(METHOD, 12, 4).build(Streams(3, range(2)))
    assert isinstance(experiment, Recursion)
    uniform = Streams(3, range(2)).at("start").uniform(4, dtype=torch.float64)
    torch.testing.assert_close(experiment.learner.state[:, 0].detach(), 0.2 * (1 + 0.25 * uniform))


def test_steps_and_looks_are_at_least_one():
    with pytest.raises(ConfigError, match=r"Iteration.steps = 0"):
        Iteration(METHOD, 0, 4)
    with pytest.raises(ConfigError, match=r"Iteration.probe_every = 0"):
        Iteration(METHOD, 12, 0)


def test_what_has_passed_stands_still():
    experiment = advance(Iteration(METHOD, 20, 4).build(Streams(0, range(3))), 12)
    assert experiment.learner.passed.all()
    before = {name: tensor.clone() for name, tensor in experiment.state_dict().items()}
    when = experiment.events()["passed"]
    assert ((when > 1) & (when <= 12)).all()
    experiment.advance(12)
    for name, tensor in experiment.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def test_replicas_and_step_sizes_go_together_as_they_do_alone():
    def method(size):
        return Iteration(PowerMethod(power=3, weight=1, step_size=size, sequences=4), 20, 4)

    def alone(size, replicas=range(3)):
        return advance(method(size).build(Streams(0, replicas)), 12)

    parts = [method(size).build(Streams(0, range(3))) for size in (0.02, 0.05)]
    assert together(parts, [0, 0]) == [[0, 1]]
    advance(stack(parts), 12)
    for size, part in zip((0.02, 0.05), parts, strict=True):
        torch.testing.assert_close(part.learner.total, alone(size).learner.total)
        assert torch.equal(part.events()["passed"], alone(size).events()["passed"])
    torch.testing.assert_close(alone(0.05, range(2, 3)).learner.total, parts[1].learner.total[2:])


def test_a_state_is_all_there_is():
    first = advance(Iteration(METHOD, 20, 4).build(Streams(0, range(3))), 3)
    second = Iteration(METHOD, 20, 4).build(Streams(0, range(3)))
    second.restore(*first.state())
    advance(first, 12, 3), advance(second, 12, 3)
    for (name, one), other in zip(first.state_dict().items(), second.state_dict().values(), strict=True):
        assert torch.equal(one, other), name
