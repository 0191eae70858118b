"""A step in machine code against the step in torch."""

import pytest
import torch

from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.studies.prediction_head import PredictionHeadStudy
from featscope.training.rosenbrock import attempt_at, integrate, reference

STUDY = PredictionHeadStudy(starts=7)
FLOWS = [arm.name for arm in STUDY.arms() if arm.stop_at == "arrived"]


@pytest.mark.parametrize("name", FLOWS)
def test_every_flow_takes_the_same_step_in_machine_code(name):
    """States and lengths of steps as they come up: 1, 3 and 60 steps after the start."""
    flow = STUDY.arm(name).recipe.build(Streams(3, range(3)))
    learner, constants = flow.learner, flow.learner.constants()
    for steps in (1, 2, 57):
        for step in range(steps):
            flow.advance(step)
        y, h = learner.state.detach().flatten(0, 1).mT.contiguous(), flow.step_size.flatten()
        compiled, plain = attempt_at(learner.velocity, y, constants), reference(learner.velocity)
        assert compiled.__qualname__ != plain.__qualname__
        (after, error), (also, expected) = compiled(y, constants, h), plain(y, constants, h)
        torch.testing.assert_close(after, also, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(error, expected, rtol=1e-4, atol=1e-10)


def spring(y, constants):
    return torch.stack([y[1], -constants[0] * y[0]])


@pytest.mark.parametrize("count", [1, 7, 8, 9, 24])
def test_numbers_of_trajectories_that_fill_no_block(count):
    start = torch.rand(2, count, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    stiffness = torch.linspace(1, 2, count, dtype=torch.float64)[None]
    ends = torch.linspace(1, 3, count, dtype=torch.float64)
    found = integrate(spring, start, ends, stiffness, rtol=1e-9, atol=1e-12)
    angle = stiffness[0].sqrt() * ends
    expected = start[0] * angle.cos() + start[1] * angle.sin() / stiffness[0].sqrt()
    torch.testing.assert_close(found[0], expected, rtol=1e-7, atol=1e-7)


def test_a_rate_that_knows_of_other_trajectories_is_refused():
    rates = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    start, none = torch.ones(1, 3, dtype=torch.float64), torch.empty(0, 3, dtype=torch.float64)
    ends = torch.full((3,), 0.1, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="size of tensor"):  # by torch, where machine code took the first one's
        integrate(lambda y, constants: -rates * y, start, ends, none, rtol=1e-9, atol=1e-12)


def test_what_cannot_be_traced_runs_in_torch():
    def falls(y, constants):
        return -y.sin()

    attempt = attempt_at(falls, torch.ones(1, 1), torch.empty(0, 1))
    assert attempt.__qualname__ == reference(falls).__qualname__


def test_torch_can_be_asked_for(monkeypatch):
    monkeypatch.setenv("FEATSCOPE_KERNELS", "torch")
    assert attempt_at(spring, torch.ones(2, 1), torch.ones(1, 1)).__qualname__ == reference(spring).__qualname__
    monkeypatch.setenv("FEATSCOPE_KERNELS", "fortran")
    with pytest.raises(ConfigError, match=r"FEATSCOPE_KERNELS = 'fortran' .* llvm or torch"):
        attempt_at(spring, torch.ones(2, 1), torch.ones(1, 1))
