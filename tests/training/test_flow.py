"""Experiments that follow a differential equation."""

import pytest
import torch
from torch import nn

from featscope.streams import Streams
from featscope.training import DivergedError
from featscope.training.flow import Flow


class Decay(nn.Module):
    """y' = -rate y, or y' = y² where the rate is 0, from 1, with two starts a replica."""

    def __init__(self, rates: list[float]) -> None:
        super().__init__()
        self.state = nn.Parameter(torch.ones(len(rates), 2, 1, dtype=torch.float64))
        self.register_buffer("rate", torch.tensor(rates, dtype=torch.float64))

    def velocity(self, y, which):
        rate = self.get_buffer("rate")[which // 2]
        return torch.where(rate > 0, -rate * y, y * y)

    def loss(self):
        return self.state.detach()[..., 0].square()


def test_each_trajectory_arrives_at_its_own_pace_with_the_right_value():
    flow = Flow(Decay([1e-3, 1.0, 1e4]), 2.0, Streams(0, range(3)))
    steps = 0
    while (flow.arrived < 0).any():
        loss = flow.advance(steps)
        steps += 1
    assert torch.isfinite(loss).all()
    assert torch.equal(flow.time, torch.full((3, 2), 2.0, dtype=torch.float64))
    expected = torch.exp(-2 * flow.learner.get_buffer("rate"))
    torch.testing.assert_close(flow.learner.get_parameter("state").detach()[:, 0, 0], expected, rtol=1e-5, atol=1e-7)
    arrived = flow.events()["arrived"]
    assert arrived[0] < arrived[1]  # what hardly moves takes few steps
    assert int(arrived.max()) == steps


def test_a_trajectory_that_has_arrived_stays():
    flow = Flow(Decay([1e-3, 1.0]), 2.0, Streams(0, range(2)))
    for step in range(200):
        flow.advance(step)
    before = flow.learner.get_parameter("state").detach().clone()
    flow.advance(200)
    assert torch.equal(flow.learner.get_parameter("state"), before)


def test_a_replica_that_blows_up_is_named():
    flow = Flow(Decay([1.0, 0.0]), 5.0, Streams(0, (3, 7)))

    def follow() -> None:
        for step in range(2000):
            flow.advance(step)

    with pytest.raises(DivergedError, match="the state of replica 7 is not finite at step"):
        follow()
