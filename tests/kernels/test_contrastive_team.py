"""A step by several threads against the same step by one."""

import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from featscope.kernels import contrastive, contrastive_team, teams
from featscope.kernels.teams import side_by_side
from featscope.streams import Streams

SIDES = st.integers(1, 40)


def both(batch, keys, inputs, neurons, features, threads):
    draw = torch.Generator().manual_seed(batch * keys + inputs)
    weight, threshold = torch.randn(1, neurons, inputs, generator=draw), torch.rand(1, neurons, generator=draw) / 5
    dictionary = torch.randn(1, inputs, features, generator=draw) / features**0.5
    given_ = weight, threshold, dictionary, (batch, keys), (0.4, 0.3)
    one, many = (Streams(3, [8]).at("batch", 5).skip(0) for _ in range(2))
    return contrastive.step(*given_, *one), contrastive_team.step(*given_, *many, threads)


@given(st.sampled_from([16, 32, 48, 80]), SIDES, SIDES, SIDES, SIDES, st.integers(2, 5))
def test_threads_give_what_one_gives(batch, keys, inputs, neurons, features, threads):
    (loss, slope), (of_many, slope_of_many) = both(batch, keys, inputs, neurons, features, threads)
    torch.testing.assert_close(of_many, loss, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(slope_of_many, slope, rtol=1e-5, atol=1e-6)


def test_threads_write_to_places_of_their_own():
    for _ in range(10):  # they would have to meet
        (loss, slope), (of_many, slope_of_many) = both(1024, 512, 64, 64, 8, 2)
        torch.testing.assert_close(of_many, loss, rtol=1e-5, atol=1e-6)
        assert torch.equal(slope, slope_of_many)


def test_batches_whose_parts_would_share_a_block_are_refused():
    assert contrastive_team.is_divisible(32)
    assert not contrastive_team.is_divisible(24)


def test_what_a_part_raises_is_raised():
    with pytest.raises(ZeroDivisionError):
        side_by_side([lambda: 1 / 0, lambda: None])


def test_all_parts_have_ended_when_the_last_raises():
    ended = []
    with pytest.raises(ZeroDivisionError):
        side_by_side([lambda: (time.sleep(0.1), ended.append(1)), lambda: 1 / 0])
    assert ended


def test_where_no_thread_can_be_started_parts_are_called_here(monkeypatch):
    monkeypatch.setattr(teams, "_others", ThreadPoolExecutor(1))
    teams._others.shutdown()
    called = []
    side_by_side([lambda: called.append(0), lambda: called.append(1), lambda: called.append(2)])
    assert called == [0, 1, 2]


def test_a_forked_process_has_threads_of_its_own():
    both(32, 5, 20, 7, 4, 2)
    fork = multiprocessing.get_context("fork")
    child = fork.Process(target=both, args=(32, 5, 20, 7, 4, 2))
    child.start()
    child.join(60)
    assert child.exitcode == 0
