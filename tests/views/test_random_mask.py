"""RandomMask and the identity pair."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from featscope.streams import Streams
from featscope.views import RandomMask, SameSample


@given(batch=st.integers(1, 6), width=st.integers(1, 40), seed=st.integers(0, 2**40))
def test_the_halves_are_disjoint_and_add_up_to_twice_the_sample(batch, width, seed):
    streams = Streams(seed, range(2))
    x = streams.at("x").normal(batch, width)
    before = x.clone()
    anchor, positive = RandomMask()(x, streams.at("view"))
    assert torch.equal(anchor + positive, 2 * x)
    assert torch.equal(anchor * positive, torch.zeros_like(x))
    assert torch.equal(x, before)


def test_each_coordinate_goes_either_way_anew_for_each_sample():
    """Shares of 4000 coins have spread 0.008; 0.04 is 5 σ of 32 coordinates: one false alarm in 10^5."""
    streams = Streams(0, range(2))
    anchor, _ = RandomMask()(torch.ones(2, 4000, 32), streams.at("view"))
    kept = anchor / 2
    assert (kept.mean(1) - 0.5).abs().max() < 0.04
    assert not torch.equal(kept[0], kept[1])
    assert len({tuple(row) for row in kept[0].tolist()}) == 4000  # 2^32 masks; a repeat has probability 0.002


def test_the_mask_keeps_the_mean():
    """The mean of 4000 views of a sample: spread 1/√4000 = 0.016 a coordinate, 5 σ."""
    x = torch.ones(1, 4000, 8)
    views = RandomMask()(x, Streams(0, [0]).at("view"))
    assert all((view.mean(1) - 1).abs().max() < 0.08 for view in views)


def test_without_augmentation_the_pair_is_the_sample():
    x = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    anchor, positive = SameSample()(x, Streams(0, range(2)).at("view"))
    assert torch.equal(anchor, x)
    assert torch.equal(positive, x)


def test_a_plain_batch_needs_no_draws():
    torch.manual_seed(0)
    x = torch.randn(4, 3, 8, 8)
    anchor, positive = RandomMask()(x)
    assert torch.equal(anchor + positive, 2 * x)
    assert not (anchor * positive).any()
    assert 0.4 < float((anchor != 0).double().mean()) < 0.6
    torch.manual_seed(1)
    assert not torch.equal(RandomMask()(x)[0], anchor)


def test_a_plain_batch_does_not_share_the_one_mask_of_a_replica():
    draws = Streams(0, [0]).at("view")
    with pytest.raises(ValueError, match=r"x has shape \[64, 10\]: expected the draws' replica axis in front, \[1, "):
        RandomMask()(torch.ones(64, 10), draws)
    first, _ = RandomMask()(torch.ones(1, 64, 10), draws)
    assert len(first[0].unique(dim=0)) > 32
