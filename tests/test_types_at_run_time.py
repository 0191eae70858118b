"""The tests run with shapes and types checked at run time; this one makes sure that they really are."""

import pytest
import torch
from jaxtyping import TypeCheckError

from featscope.data import SparseCoding
from featscope.losses import InfoNCE
from featscope.models import soft_threshold


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
