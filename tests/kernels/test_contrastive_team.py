"""A step by several threads against the same step by one."""

import multiprocessing
import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from featscope.kernels import contrastive, contrastive_team, teams
from featscope.streams import Streams

SIDES = st.integers(1, 40)
pytestmark = pytest.mark.timeout(300, method="thread")  # who waits in machine code never comes back to be told


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


def test_where_no_thread_can_be_started_one_does_it_all(monkeypatch):
    monkeypatch.setattr(teams, "_helpers", [])
    monkeypatch.setattr(teams._Helper, "start", lambda self: (_ for _ in ()).throw(RuntimeError("no more threads")))
    (loss, slope), (of_many, slope_of_many) = both(32, 5, 20, 7, 4, 2)
    assert torch.equal(of_many, loss)
    assert torch.equal(slope, slope_of_many)


def test_two_computations_at_a_time_take_turns():
    found = []
    callers = [threading.Thread(target=lambda: found.append(both(256, 64, 32, 32, 8, 3))) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert len(found) == 4
    for (_, slope), (_, slope_of_many) in found:
        assert torch.equal(slope, slope_of_many)


def test_a_forked_process_has_threads_of_its_own():
    both(32, 5, 20, 7, 4, 2)
    fork = multiprocessing.get_context("fork")
    child = fork.Process(target=both, args=(32, 5, 20, 7, 4, 2))
    child.start()
    child.join(60)
    assert child.exitcode == 0
