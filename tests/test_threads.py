"""How many threads compute."""

import pytest
import torch

from featscope.threads import one_thread_where_small


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("weights", "threads"), [(0, 1), (2**16 - 1, 1), (2**16, 2)])
def test_small_networks_have_one_thread(weights, threads):
    with one_thread_where_small(weights):
        assert torch.get_num_threads() == threads
    assert torch.get_num_threads() == 2


def test_threads_come_back_after_an_error():
    with pytest.raises(KeyError), one_thread_where_small(1):
        raise KeyError
    assert torch.get_num_threads() == 2


def test_a_worker_keeps_its_one_thread():
    torch.set_num_threads(1)
    with one_thread_where_small(2**20):
        assert torch.get_num_threads() == 1
