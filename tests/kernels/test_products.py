"""Matrix products in machine code against torch's in float64."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from featscope.kernels import loops, machine, multiply, products, vectors

SIDES = st.integers(1, 40)


def random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def matrix(replicas, rows, columns, layout):
    """One of each way to lie in memory: by rows, by columns, and with something between rows and replicas."""
    if layout == "columns":
        return random(replicas, columns, rows).mT
    if layout == "apart":
        return random(replicas, rows + 2, columns + 3)[:, 1:-1, :columns]
    return random(replicas, rows, columns)


LAYOUTS = st.sampled_from(["rows", "columns", "apart"])


def check(a, b, onto=None, times=1.0):
    expected = a.double() @ b.double() + (0 if onto is None else times * onto.double())
    size = a.double().abs() @ b.double().abs() + 1  # of which rounding takes a part
    found = products.multiplied(a, b, onto, times)
    assert found.dtype == torch.float32
    assert ((found - expected).abs() / size).amax() < 3e-7 * a.shape[2] ** 0.5 + 2e-7


@given(st.integers(1, 3), SIDES, SIDES, SIDES, LAYOUTS, LAYOUTS)
def test_products_of_all_shapes_and_layouts(replicas, rows, depth, columns, of_a, of_b):
    check(matrix(replicas, rows, depth, of_a), matrix(replicas, depth, columns, of_b))


@given(st.integers(1, 3), SIDES, SIDES, SIDES, st.sampled_from(["rows", "apart"]), LAYOUTS, st.floats(-2, 2))
def test_products_onto_a_multiple_of_what_is_there(replicas, rows, depth, columns, of_c, of_b, times):
    onto = matrix(replicas, rows, columns, of_c)
    whole = onto if onto._base is None else onto._base
    before, start = whole.clone(), onto.clone()
    check(matrix(replicas, rows, depth, "rows"), matrix(replicas, depth, columns, of_b), start, times)
    products.multiplied(matrix(replicas, rows, depth, "rows"), matrix(replicas, depth, columns, of_b), onto, times)
    assert torch.equal(onto, start)
    onto.zero_()
    if whole is not onto:
        before[:, 1:-1, :columns] = 0
        assert torch.equal(whole, before)  # nothing around it has changed


@pytest.mark.parametrize(
    "shape", [(1, 256, 512, 256), (2, 7, 700, 70), (1, 70, 3, 1700), (1, 70, 3, 1033), (1, 1, 1, 1), (2, 128, 9, 50)]
)
@pytest.mark.parametrize("turned", [True, False])
def test_products_of_more_panels_than_are_kept(shape, turned):
    replicas, rows, depth, columns = shape
    check(random(replicas, rows, depth), matrix(replicas, depth, columns, "columns" if turned else "rows"))


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_products_in_registers_of_every_width(lanes, monkeypatch):
    for module in (machine, vectors, products):
        monkeypatch.setattr(module, "lanes", lambda: lanes)
    monkeypatch.setattr(products, "function", loops.function.__wrapped__)
    for rows, depth, columns in ((1, 1, 1), (6, 16, 32), (13, 37, 41)):
        for layout in ("rows", "columns"):
            check(random(2, rows, depth), matrix(2, depth, columns, layout), random(2, rows, columns), 0.5)


def test_what_is_not_finite_stays_in_its_row_and_column():
    a, b = random(2, 9, 20), random(2, 20, 37)
    a[0, 3, 19], b[1, 4, 36] = torch.nan, torch.inf
    found = ~products.multiplied(a, b).isfinite()
    expected = torch.zeros_like(found)
    expected[0, 3], expected[1, :, 36] = True, True
    assert torch.equal(found, expected)


def test_what_does_not_suit_is_multiplied_by_torch(monkeypatch):
    def not_called(*_):
        raise AssertionError

    monkeypatch.setattr(products, "multiplied", not_called)
    a, b, strided = random(1, 40, 90), random(1, 90, 40), random(1, 180, 80)[:, ::2, ::2]
    with pytest.raises(AssertionError):
        multiply(a, b)
    onto = random(1, 40, 80)[..., ::2]
    expected = torch.baddbmm(onto, a, b, beta=0.5)
    torch.testing.assert_close(multiply(a, b, onto, 0.5), expected)
    for one, other in ((a.double(), b.double()), (a, strided), (a.clone().requires_grad_(), b), (a[:, :0], b)):
        assert torch.equal(multiply(one, other), torch.bmm(one, other))
    assert torch.equal(multiply(a[..., :0], b[:, :0]), torch.zeros(1, 40, 40))
    monkeypatch.setenv("FEATSCOPE_KERNELS", "torch")
    c = random(1, 40, 40)
    assert torch.equal(multiply(a, b, c.clone(), 0.5), torch.baddbmm(c, a, b, beta=0.5))
