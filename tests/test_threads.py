"""How many threads compute, on how many cores, in what memory."""

import json
import os
import subprocess
import sys

import pytest
import torch

from featscope.system import free_memory
from featscope.threads import cores, one_thread_where_small


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


@pytest.fixture
def group(tmp_path, monkeypatch):
    """A function that writes files of control groups, on a machine with 64 cores."""
    monkeypatch.setattr("featscope.system._GROUPS", tmp_path)
    monkeypatch.setattr("featscope.system._MINE", tmp_path / "mine")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)

    def write(name: str, said: str) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{said}\n")

    return write


@pytest.mark.parametrize(
    ("files", "count"),
    [
        ({}, 64),
        ({"cpu.max": "250000 100000"}, 2),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu.max": "max 100000"}, 64),
        ({"cpu.max": ""}, 64),
        ({"cpu/cpu.cfs_quota_us": "400000", "cpu/cpu.cfs_period_us": "100000"}, 4),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 64),
        ({"cpu/cpu.cfs_quota_us": "400000"}, 64),
        ({"mine": "0::/job/step", "job/cpu.max": "300000 100000", "job/step/cpu.max": "max 100000"}, 3),
        ({"mine": "0::/other", "job/cpu.max": "300000 100000"}, 64),
        ({"mine": "0::/../job", "job/cpu.max": "300000 100000", "cpu.max": "500000 100000"}, 5),
        ({"mine": "5:cpu,cpuacct:/job\n0::/", "cpu/job/cpu.cfs_quota_us": "6", "cpu/job/cpu.cfs_period_us": "1"}, 6),
        ({"mine": "no such\nline"}, 64),
    ],
)
def test_no_more_cores_are_used_than_control_groups_allow(group, files, count):
    """As of a container; in both layouts, at every depth."""
    for name, said in files.items():
        group(name, said)
    assert cores() == count


@pytest.mark.parametrize(
    ("place", "most", "used", "stat"),
    [
        ("", "memory.max", "memory.current", "anon 5\ninactive_file 1024"),
        ("memory/", "memory.limit_in_bytes", "memory.usage_in_bytes", "inactive_file 7\ntotal_inactive_file 1024"),
    ],
)
def test_no_more_memory_is_free_than_control_groups_allow(group, place, most, used, stat):
    before = free_memory()
    assert before > 2**21
    group(f"{place}{most}", f"{2**20}")
    group(f"{place}{used}", f"{2**19}")
    assert free_memory() == 2**19
    group(f"{place}memory.stat", stat)
    assert free_memory() == 2**19 + 1024  # files that were read give way
    group(f"{place}{used}", f"{2**21}")
    assert free_memory() == 0
    for unlimited in ("max", f"{2**63 - 4096}"):
        group(f"{place}{most}", unlimited)
        assert free_memory() > 2**21


_LATER = """
import json
from featscope.threads import compute_with_one_thread
compute_with_one_thread()
import scipy.linalg
import sklearn.cluster
from threadpoolctl import threadpool_info
print(json.dumps([pool["num_threads"] for pool in threadpool_info()]))
"""


def test_libraries_that_a_worker_loads_later_have_one_thread_too():
    named = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "2")
    found = subprocess.run([sys.executable, "-c", _LATER], env=os.environ | named, capture_output=True, check=True)
    threads = json.loads(found.stdout)
    assert len(threads) >= 3
    assert set(threads) == {1}
