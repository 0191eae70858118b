"""The head that begins as the identity."""

import pytest
import torch

from featscope.models import IdentityInit
from featscope.models.prediction_head import matrix_of
from featscope.options import ConfigError
from featscope.training.optimizers import GradientDescent


def test_begins_as_the_identity_and_keeps_its_diagonal():
    head = IdentityInit().build(3, replicas=2)
    f = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(head(f), f)
    optimizer = GradientDescent(head.parameters(), lr=0.1, weight_decay=0.0)
    head(f).square().sum().backward()
    optimizer.step()
    assert torch.equal(head.matrix.diagonal(dim1=-2, dim2=-1), torch.ones(2, 3))
    assert head.off_diagonal.abs().sum() > 0


def test_predictions_are_products_with_the_matrix():
    head = IdentityInit(rate=0.3).build(4)
    with torch.no_grad():
        head.scaled.normal_(generator=torch.Generator().manual_seed(1))
    f = torch.randn(6, 4, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(head(f), f @ head.matrix.T)


def test_the_matrix_moves_with_its_own_step_size():
    f = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    moved = []
    for rate in (1.0, 0.25):
        head = IdentityInit(rate).build(3)
        optimizer = GradientDescent(head.parameters(), lr=0.1, weight_decay=0.0)
        head(f).square().sum().backward()
        optimizer.step()
        moved.append(head.off_diagonal.detach())
    torch.testing.assert_close(moved[1], 0.25 * moved[0])


def test_a_rate_of_zero_is_refused():
    with pytest.raises(ConfigError, match=r"IdentityInit.rate = 0.0 .* > 0"):
        IdentityInit(0.0)


def test_the_matrix_of_a_head_is_found_from_what_it_does():
    head, linear = IdentityInit().build(6), torch.nn.Linear(6, 6)
    with torch.no_grad():
        head.scaled.copy_(torch.arange(36.0).reshape(6, 6) / 36)
    torch.testing.assert_close(matrix_of(head), head.matrix)
    torch.testing.assert_close(matrix_of(linear), linear.weight)
