"""Experiments that follow a differential equation."""

from dataclasses import dataclass, replace

import pytest
import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.options import ConfigError
from featscope.streams import Draws, Streams
from featscope.training import DivergedError
from featscope.training.flow import Flow, Following
from featscope.training.rosenbrock import StepSizeError, Trajectories
from featscope.training.stack import stack, together


class Decay(nn.Module):
    """y' = -rate y, or y' = y² where the rate is 0, with two starts a replica."""

    def __init__(self, rates: list[float], start: Float[Tensor, "replica start number"] | None = None) -> None:
        super().__init__()
        one = torch.ones(len(rates), 2, 1, dtype=torch.float64)
        self.state = nn.Parameter(one if start is None else start)
        self.register_buffer("rate", torch.tensor(rates, dtype=torch.float64))

    def constants(self):
        return self.get_buffer("rate").repeat_interleave(2)[None]

    def velocity(self, y, constants):
        rate = constants[0]
        return torch.where(rate > 0, -rate * y, y * y)

    def loss(self):
        return self.state.detach()[..., 0].square()


@dataclass(frozen=True)
class Decaying:
    """Options of `Decay` from random starts."""

    rate: float = 1.0

    def build(self, draws: Draws) -> Decay:
        return Decay([self.rate] * draws.replicas, draws.normal(2, 1, dtype=torch.float64))


def follow(flow: Flow, steps: int = 2000) -> int:
    """Steps until all trajectories have arrived."""
    for step in range(steps):
        if (flow.arrived >= 0).all():
            return step
        flow.advance(step)
    return steps


def test_each_trajectory_arrives_at_its_own_pace_with_the_right_value():
    flow = Flow(Decay([1e-3, 1.0, 1e4]), 2.0, Streams(0, range(3)))
    steps = follow(flow)
    assert torch.equal(flow.time, torch.full((3, 2), 2.0, dtype=torch.float64))
    expected = torch.exp(-2 * flow.learner.get_buffer("rate"))
    torch.testing.assert_close(flow.learner.state.detach()[:, 0, 0], expected, rtol=1e-5, atol=1e-7)
    arrived = flow.events()["arrived"]
    assert arrived[0] < arrived[1]  # what hardly moves takes few steps
    assert int(arrived.max()) == steps
    torch.testing.assert_close(flow.look(steps)["loss"].values, expected.square(), rtol=1e-4, atol=1e-7)
    assert flow.status() == "6 of 6 arrived"


def test_a_trajectory_that_has_arrived_stays():
    flow = Flow(Decay([1e-3, 1.0]), 2.0, Streams(0, range(2)))
    follow(flow)
    before = flow.learner.state.detach().clone()
    flow.advance(200)
    assert torch.equal(flow.learner.state, before)


def test_a_replica_that_blows_up_is_named():
    flow = Flow(Decay([1.0, 0.0]), 5.0, Streams(0, (3, 7)))
    with pytest.raises(DivergedError, match="the state of replica 7 is not finite at step"):
        follow(flow)
    assert flow.sound()


def test_where_one_trajectory_is_lost_the_others_stand_where_their_time_says(monkeypatch: pytest.MonkeyPatch):
    flow = Flow(Decay([1.0, 1.0], torch.ones(2, 2, 3, dtype=torch.float64)), 5.0, Streams(0, range(2)))
    flow.advance(0)
    advance = Trajectories.advance

    def lost(self, *args, **options):
        advance(self, *args, **options)
        raise StepSizeError(2)

    monkeypatch.setattr(Trajectories, "advance", lost)
    with pytest.raises(DivergedError, match="replica 1"):
        flow.advance(1)
    where = torch.exp(-flow.time)[..., None].expand(2, 2, 3)
    torch.testing.assert_close(flow.learner.state.detach(), where, rtol=1e-9, atol=0)


def test_a_replica_that_blows_up_can_be_given_up_while_others_go_on():
    flow = Flow(Decay([1.0, 0.0, 2.0]), 5.0, Streams(0, range(3)))
    flow.gives_up = True
    for step in range(1000):
        flow.advance(step)
    assert (flow.diverged >= 0).tolist() == [False, True, False]
    assert (flow.arrived >= 0).tolist() == [True, False, True]
    torch.testing.assert_close(
        flow.learner.state.detach()[[0, 2], 0, 0], torch.exp(torch.tensor([-5.0, -10.0]).double()), rtol=1e-3, atol=1e-8
    )


def test_durations_differ_within_one_program():
    recipe = Following(Decaying(), 1.0)
    recipes = [recipe, replace(recipe, duration=3.0), replace(recipe, learner=Decaying(0.5))]
    parts, alone = ([one.build(Streams(0, range(2))) for one in recipes] for _ in range(2))
    assert together(parts, [None] * 3) == [[0, 1, 2]]
    follow(stack(parts))
    for part, single in zip(parts, alone, strict=True):
        follow(single)
        torch.testing.assert_close(part.learner.state, single.learner.state, rtol=1e-12, atol=0)
        assert torch.equal(part.time, single.time)
        assert torch.equal(part.arrived, single.arrived)


def test_starts_of_a_replica_are_its_own():
    some, others = (Following(Decaying(), 1.0).build(Streams(0, replicas)) for replicas in ((0, 1), (1,)))
    assert torch.equal(some.learner.state[1], others.learner.state[0])
    assert not torch.equal(some.learner.state[0], some.learner.state[1])


@pytest.mark.parametrize("wrong", [{"duration": 0.0}, {"steps": 0}, {"probe_every": 0}])
def test_wrong_options_are_refused(wrong):
    with pytest.raises(ConfigError, match=f"Following.{next(iter(wrong))} = 0"):
        Following(Decaying(), **{"duration": 1.0} | wrong)
