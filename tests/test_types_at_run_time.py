"""The tests run with shapes and types checked at run time; this one makes sure that they really are."""

from collections.abc import Iterator

import jaxtyping
import pytest
import torch
from jaxtyping import Float, TypeCheckError
from torch import Tensor

from featscope.data import SparseCoding
from featscope.losses import InfoNCE
from featscope.models import soft_threshold
from types_at_run_time import check, when_called


def test_a_wrong_shape_is_caught():
    with pytest.raises(TypeCheckError):
        InfoNCE()(torch.zeros(2, 3, 4), torch.zeros(2, 5, 4), torch.zeros(2, 3, 4))
    with pytest.raises(TypeCheckError):
        soft_threshold(torch.zeros(2, 3, 4), torch.zeros(2, 3))


def test_a_wrong_type_is_caught():
    with pytest.raises(TypeCheckError):
        soft_threshold(torch.zeros(3, 4, dtype=torch.int64), torch.zeros(4))
    with pytest.raises(TypeCheckError):
        SparseCoding(features=32.5)


def side_by_side(one: "Float[Tensor, ' n']", *others: Float[Tensor, " n"], twice: bool = False) -> Float[Tensor, " n"]:
    return torch.cat([one, *others]) if twice else one


def counted(n: int) -> Iterator[int]:
    yield from range(n)


def test_what_is_returned_is_caught_and_one_letter_is_one_size_in_a_call():
    checked = when_called(side_by_side, typechecker=check)
    assert len(checked(torch.zeros(2), torch.zeros(2))) == 2
    assert len(checked(torch.zeros(3))) == 3  # another call
    for wrong in (
        lambda: checked(torch.zeros(2), torch.zeros(3)),
        lambda: checked(torch.zeros(2), torch.zeros(2), twice=True),
        lambda: checked(torch.zeros(2), twice=1),
    ):
        with pytest.raises(TypeCheckError):
            wrong()


def test_a_generator_checks_what_it_is_given():
    checked = when_called(counted, typechecker=check)
    assert [*checked(3)] == [0, 1, 2]
    with pytest.raises(TypeCheckError):
        checked("3")


def test_whether_types_are_checked_is_asked_at_each_call(monkeypatch):
    checked = when_called(side_by_side, typechecker=check)
    with monkeypatch.context() as patch:
        patch.setattr(jaxtyping.config, "jaxtyping_disable", True)
        assert len(checked(torch.zeros(2), torch.zeros(2), twice=True)) == 4
    with pytest.raises(TypeCheckError):
        checked(torch.zeros(2), torch.zeros(2), twice=True)
