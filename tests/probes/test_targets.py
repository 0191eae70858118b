"""Gradients to the targets of a loss."""

import pytest
import torch

from featscope.losses import NonContrastive
from featscope.probes.targets import gradient_to_targets


def embeddings(seed: int) -> torch.Tensor:
    return torch.randn(6, 4, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("normalization", ["batch", "l2"])
def test_targets_that_are_constants_get_none(normalization):
    assert gradient_to_targets(NonContrastive(normalization), embeddings(0), embeddings(1)) == 0


def test_a_product_passes_as_much_to_targets_as_the_predictions_are_long():
    prediction, target = embeddings(0), 3 * embeddings(1)
    ratio = gradient_to_targets(lambda f, g: (f * g).sum(), prediction, target)
    torch.testing.assert_close(ratio, prediction.norm() / target.norm())


def test_it_works_where_gradients_are_off():
    with torch.no_grad():
        same = embeddings(0)
        assert float(gradient_to_targets(lambda f, g: ((f - g - 1) ** 2).sum(), same, same)) == pytest.approx(1)
