"""What torch is asked to do, traced into expressions."""

import numpy as np
import pytest
import torch

from featscope.kernels.trace import ONE, ZERO, Expressions, NotTraceableError, Traced


def values(of: Expressions, inputs: list[float]) -> list[float]:
    """Of every expression."""
    found: list[float] = []
    for kind, a, b in of.all:
        x, y = (found[int(a)], found[int(b)]) if kind in "+*/" or kind == "sqrt" else (a, b)
        done = {"constant": lambda x, y: x, "input": lambda x, y: inputs[int(x)], "sqrt": lambda x, y: x**0.5}
        done |= {"+": lambda x, y: x + y, "*": lambda x, y: x * y, "/": lambda x, y: x / y}
        found.append(done[kind](x, y))
    return found


def traced(*shape: int) -> Traced:
    of = Expressions()
    count = int(np.prod(shape))
    return Traced(torch.tensor([of.input(i) for i in range(count)]).view(shape), of)


PROGRAMS = {
    "arithmetic": lambda x: (2 * x - 3) / (x + 1) - -x,
    "powers": lambda x: x**3 + x**0 + x**-2 + x.reciprocal(),
    "roots": lambda x: x.sqrt() + x.rsqrt(),
    "sums": lambda x: x.sum() + x.sum(0, keepdim=True) + x.sum((0, 1)) * x.sum(-1)[:, None],
    "a matrix product": lambda x: (x[:, :, None] * x.mT[None][:, :, :2]).sum(1),
    "moves": lambda x: torch.cat([x.flatten(), torch.diag_embed(x[0]).flatten(), torch.stack([x[1], x[0]])[:, 1]]),
    "an index": lambda x: x[torch.tensor([1, 0, 1])][:, torch.tensor([2, 0])],
    "constants": lambda x: x * torch.tensor([0.0, 1.0, 2.5], dtype=torch.float64) + torch.ones_like(x),
    "nothing": lambda x: x * 0 + x.new_zeros(2, 3),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_expressions_have_the_values_and_derivatives_of_the_program(name):
    program, x = PROGRAMS[name], torch.rand(2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.5
    found = program(traced(2, 3))
    expected, slopes = program(x), found.of.derivatives()
    at = values(found.of, x.flatten().tolist())
    assert found.shape == expected.shape
    np.testing.assert_allclose([at[i] for i in found.numbers.flatten().tolist()], expected.flatten(), rtol=1e-14)
    jacobian = torch.autograd.functional.jacobian(program, x).view(expected.numel(), 6)
    mine = [[at[slopes[i].get(j, ZERO)] for j in range(6)] for i in found.numbers.flatten().tolist()]
    np.testing.assert_allclose(mine, jacobian, rtol=1e-13, atol=1e-14)


def test_the_same_is_calculated_once_and_constants_are_folded():
    x = traced(1)
    twice = x * x + x * x
    assert len([one for one in twice.of.all if one[0] == "*"]) == 1
    assert (x * 1 - 0).numbers.tolist() == x.numbers.tolist()
    assert (x.new_zeros(1) * x).numbers.tolist() == [ZERO]
    assert torch.ones_like(x).numbers.tolist() == [ONE]


@pytest.mark.parametrize(
    "program",
    [torch.sin, torch.abs, lambda x: x > 0, lambda x: x**0.5, lambda x: x.to(torch.float32), lambda x: x @ x.mT],
)
def test_what_is_not_known_is_refused(program):
    with pytest.raises(NotTraceableError):
        program(traced(2, 2))
