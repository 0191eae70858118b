"""A GPU draws the numbers that a processor draws, to the bit."""

from typing import get_args

import pytest
import torch

from featscope.kernels import draws, gpu, philox
from featscope.streams import Streams
from featscope.studies.decoupling import Decoupling
from kinds_of_draws import KINDS

SIZES = [(1, 1), (1, 100_003), (5, 257), (70_001, 3)]  # replicas, blocks: more rows than a grid has, too
KINDS_THERE = KINDS | {
    "many": lambda draws: draws.choice(900, 40),
    "halves": lambda draws: draws.halves(torch.ones(draws.replicas, 3, 5, device=draws.device))[0],
}


@pytest.mark.parametrize(("replicas", "blocks"), SIZES)
@pytest.mark.parametrize("kind", get_args(philox.Kind))
def test_all_bits_are_those_of_the_processor(kind, replicas, blocks):
    numbers, address = torch.arange(replicas, dtype=torch.int32) * 3, (7, 2**31 + 5, 1, 0x9ABCDEF0, 0x12345678)
    here, there = (torch.full((replicas, 4 * blocks), -1, dtype=torch.int32, device=on) for on in ("cpu", "cuda"))
    draws.fill(kind, here, numbers, address)
    gpu.fill(kind, there, numbers.cuda(), address)
    assert torch.equal(there.cpu(), here)


@pytest.mark.parametrize("replicas", [range(6), [2, 0, 2, 1]])
@pytest.mark.parametrize("kind", sorted(KINDS_THERE))
def test_streams_are_the_same_on_both(kind, replicas):
    here, there = (Streams(-4, replicas, on).at("batch", 2**40) for on in ("cpu", "cuda"))
    for _ in range(2):  # the second goes on along the stream
        one, other = KINDS_THERE[kind](here), KINDS_THERE[kind](there)
        assert other.device.type == "cuda"
        assert torch.equal(other.cpu(), one)


@pytest.mark.parametrize("replicas", [1, 5])
def test_a_step_in_closed_form_is_the_processors_but_for_rounding(replicas):
    recipe = Decoupling().arm("augmented").recipe.shortened(2)
    here, there = (recipe.build(Streams(3, range(replicas), on)) for on in ("cpu", "cuda"))
    for step in range(2):
        here.advance(step)
        there.advance(step)
    for name, one in here.state_dict().items():
        torch.testing.assert_close(there.state_dict()[name].cpu(), one, rtol=1e-3, atol=1e-5, equal_nan=True)


def test_draws_wait_for_what_is_before_them_on_their_own_stream_of_the_gpu():
    with torch.cuda.stream(torch.cuda.Stream()):
        found = Streams(1, range(64), "cuda").at("batch").normal(1000, 100).sum((1, 2)).cpu()
    assert torch.equal(found, Streams(1, range(64), "cuda").at("batch").normal(1000, 100).sum((1, 2)).cpu())
