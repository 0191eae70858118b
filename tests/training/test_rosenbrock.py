"""The stiff solver."""

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from torch.utils._python_dispatch import TorchDispatchMode

from featscope.models.population import Population, PopulationNetwork, random_start
from featscope.streams import Streams
from featscope.training.rosenbrock import (
    StepSizeError,
    Trajectories,
    _jacobian,
    _PowersAsProducts,
    _try,
    integrate,
    reference,
)


def van_der_pol(y, constants):
    return torch.stack([y[1], 3 * (1 - y[0] ** 2) * y[1] - y[0]])


def in_equal_steps(steps: int) -> torch.Tensor:
    y = torch.tensor([[2.0], [0.5]], dtype=torch.float64)
    for _ in range(steps):
        y, _ = _try(van_der_pol, y, torch.empty(0, 1), torch.tensor([1.0 / steps], dtype=torch.float64))
    return y


def test_is_of_order_four():
    exact = in_equal_steps(1000)
    coarse, fine = (float((in_equal_steps(n) - exact).abs().max()) for n in (40, 80))
    assert 3.7 < np.log2(coarse / fine) < 4.5


def test_the_jacobian_is_exact():
    y = torch.tensor([[1.5, -0.3], [0.2, 2.0]], dtype=torch.float64)
    found = _jacobian(van_der_pol, y, torch.empty(0, 2))
    expected = torch.stack(
        [torch.stack([0 * y[0], 1 + 0 * y[0]]), torch.stack([-6 * y[0] * y[1] - 1, 3 * (1 - y[0] ** 2)])]
    )
    torch.testing.assert_close(found, expected, rtol=1e-14, atol=1e-14)


class PowersOfCuda(TorchDispatchMode):
    """Takes complex powers as CUDA does, as exp(n log z), and counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch imports its compiler

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.pow.Tensor_Scalar and args[0].is_complex():
            self.count += 1
            return (args[1] * args[0].log()).exp()
        return func(*args, **(kwargs or {}))


def powers(y, constants):
    return torch.stack([y[0] ** 3 + y[1] ** 2, y[0] ** -2 * y[1] ** 5])


def test_the_jacobian_of_powers_of_what_is_negative_is_exact_where_cuda_takes_them():
    y, none = torch.tensor([[-0.5, 1.5], [-2.0, -0.3]], dtype=torch.float64), torch.empty(0, 2)
    a, b = y
    expected = torch.stack([torch.stack([3 * a**2, 2 * b]), torch.stack([-2 * b**5 / a**3, 5 * b**4 / a**2])])
    with PowersOfCuda():
        lost = _jacobian(powers, y, none)
    assert (lost - expected).abs().max() > 1e9
    with PowersOfCuda(), _PowersAsProducts():
        found = _jacobian(powers, y, none)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    with PowersOfCuda() as taken:
        _jacobian(powers, y.to("meta"), none.to("meta"))  # which is as far from the CPU as a GPU is
    assert taken.count == 0


def test_the_learner_with_infinite_batches_has_one_jacobian_however_powers_are_taken():
    start = random_start(Streams(0, range(1)).at("start"), 5, 30, 2)
    network = PopulationNetwork(start, 2, Population.alike(1, (1.0, 0.5), (2.0, 1.0), 4.0, 0.8, 0.3))
    y, given = network.state.detach().flatten(0, 1).mT, network.constants()
    with PowersOfCuda(), _PowersAsProducts():
        found = _jacobian(network.velocity, y, given)
    torch.testing.assert_close(found, _jacobian(network.velocity, y, given), rtol=1e-9, atol=1e-12)


def test_each_trajectory_agrees_with_scipy_at_its_own_end():
    start = torch.tensor([[2.0, 0.1, -1.0], [0.0, 0.2, 1.0]], dtype=torch.float64)
    ends = torch.tensor([1.0, 10.0, 3.0], dtype=torch.float64)
    found = integrate(van_der_pol, start, ends, rtol=1e-8, atol=1e-10)
    for i in range(3):
        one = solve_ivp(
            lambda t, y: van_der_pol(torch.tensor(y), None).numpy(),
            (0, float(ends[i])),
            start[:, i],
            rtol=1e-9,
            atol=1e-11,
        )
        np.testing.assert_allclose(found[:, i], one.y[:, -1], atol=1e-5)


def test_stiffness_costs_no_steps():
    """y' = -1e6 (y - cos t): an explicit method would need a million steps."""

    def stiff(y, constants):
        return torch.stack([-1e6 * (y[0] - torch.cos(y[1])), torch.ones_like(y[1])])

    moving = Trajectories(torch.zeros(2, 1, dtype=torch.float64), *torch.tensor([[0.0], [1e-9]], dtype=torch.float64))
    end, steps = torch.tensor([2.0], dtype=torch.float64), 0
    while moving.advance(reference(stiff), torch.empty(0, 1), end, rtol=1e-6, atol=1e-9):
        steps += 1
    assert steps < 500
    assert float(moving.y[0]) == pytest.approx(np.cos(2.0), abs=1e-5)
    assert float(moving.time) == 2.0


def test_a_trajectory_does_not_depend_on_its_neighbours():
    start = torch.tensor([[2.0, 0.1], [0.0, 0.2]], dtype=torch.float64)
    ends = torch.tensor([5.0, 5.0], dtype=torch.float64)
    both = integrate(van_der_pol, start, ends, rtol=1e-6, atol=1e-9)
    alone = integrate(van_der_pol, start[:, 1:], ends[1:], rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(both[:, 1:], alone, rtol=1e-12, atol=1e-12)


def test_what_blows_up_is_named():
    start = torch.tensor([[0.1, 1.0]], dtype=torch.float64)
    with pytest.raises(StepSizeError, match="trajectory 1 cannot be followed any further"):
        integrate(lambda y, constants: y**2, start, torch.full((2,), 5.0, dtype=torch.float64), rtol=1e-6, atol=1e-9)
