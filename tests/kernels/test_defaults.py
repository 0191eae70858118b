"""Machine code writes float32s, whatever torch makes by default: else into another tensor's memory."""

from collections.abc import Iterator

import pytest
import torch

from featscope.data import SparseCoding
from featscope.kernels import multiply
from featscope.losses import InfoNCE
from featscope.models import AlexNet, SymmetricReLU
from featscope.models.cubic_patches import views_of_cubes
from featscope.streams import Streams
from featscope.views import RandomMask


def found() -> Iterator[torch.Tensor]:
    """What machine code makes of tensors of float32."""
    draws = Streams(0, [0, 1]).at("x")
    made = torch.Generator("cpu").manual_seed(0)

    def some(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=made, dtype=torch.float32, device="cpu")

    yield from RandomMask()(some(2, 64, 512), draws)
    yield multiply(some(2, 64, 80), some(2, 80, 96))
    yield from views_of_cubes(some(2, 10, 64, 8).permute(0, 2, 3, 1), (some(2, 64, 8) > 0).float())
    yield InfoNCE()(some(2, 64, 32), some(2, 64, 32), some(2, 100, 32))
    yield InfoNCE().in_batch(some(2, 64, 32), some(2, 64, 32))
    encoder = AlexNet(8).build(None, Streams(0, [0]).at("w")).float()
    with torch.no_grad():
        yield encoder(some(2, 3, 32, 32))
    source = SparseCoding(features=16).build(Streams(0, [0, 1]).at("source"))
    with torch.no_grad():
        yield SymmetricReLU(width=32).build(source, draws)(some(2, 64, source.dictionary.shape[-2]))


@pytest.fixture
def default() -> Iterator[None]:
    yield
    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_results_do_not_depend_on_the_default_type(dtype: torch.dtype, default: None) -> None:
    expected = [*found()]
    torch.set_default_dtype(dtype)
    for one, other in zip(found(), expected, strict=True):
        torch.testing.assert_close(one.float(), other, rtol=0.02, atol=0.02)


def test_products_do_not_depend_on_the_default_device(default: None) -> None:
    one, other = torch.randn(2, 64, 80), torch.randn(2, 80, 96)
    expected = multiply(one, other)
    torch.set_default_device("meta")
    assert multiply(one, other).equal(expected)
