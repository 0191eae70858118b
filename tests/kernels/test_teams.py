"""Parts that run at the same time and wait for each other."""

import ctypes
import subprocess
import sys
import threading
import time

import pytest
import torch

from featscope.kernels import teams
from featscope.kernels.loops import Array, Code, Whole, function
from featscope.kernels.teams import arrive_and_wait, at_once, other_threads_first

pytestmark = pytest.mark.timeout(120, method="thread")  # who waits in machine code never comes back to be told


def _arrives(code: Code, mine: Array, barrier: Whole, all_of: Whole, let_others: Whole) -> None:
    nothing = code.whole(0)
    mine[nothing] = mine[nothing] + 1.0
    code.call(arrive_and_wait, barrier, all_of, let_others)
    mine[nothing] = mine[nothing] + 10.0


def arriving(barrier, all_of, mine, let_others=None):
    """A part that raises ``mine`` by 1, waits for all, and raises it by 10."""
    code = function(_arrives)
    let_others = let_others or other_threads_first()
    return lambda: code(mine.data_ptr(), ctypes.addressof(barrier), all_of, let_others)


def counter():
    return ctypes.c_int32(0)


def test_who_comes_first_waits_for_the_last():
    barrier, numbers, seen = counter(), torch.zeros(3), []

    def late():
        time.sleep(0.1)
        seen.append(numbers.tolist())
        arriving(barrier, 3, numbers[2:])()

    parts = [arriving(barrier, 3, numbers[i:]) for i in range(2)]
    assert at_once([*parts, late], barrier)
    assert seen == [[1, 1, 0]]
    assert numbers.tolist() == [11, 11, 11]


def test_who_waits_long_lets_others_have_the_core():
    barrier, mine, asked = counter(), torch.zeros(1), []

    def let_others() -> int:
        asked.append(time.perf_counter())
        if len(asked) == 3:
            barrier.value = 2
        return 0

    address = ctypes.CFUNCTYPE(ctypes.c_int)(let_others)
    arriving(barrier, 2, mine, ctypes.cast(address, ctypes.c_void_p).value)()
    assert len(asked) == 3
    assert float(mine) == 11


def test_a_counter_beyond_what_is_waited_for_holds_nobody():
    barrier, mine = ctypes.c_int32(5), torch.zeros(1)
    arriving(barrier, 3, mine)()
    assert float(mine) == 11


@pytest.mark.parametrize("place", [0, 1])
def test_what_a_part_raises_is_raised_and_nobody_waits_for_it(place):
    barrier, mine = counter(), torch.zeros(1)
    parts = [arriving(barrier, 2, mine)]
    parts.insert(place, lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        at_once(parts, barrier)
    assert float(mine) == 11


def test_an_interruption_before_the_last_part_begins_leaves_nobody_waiting():
    barrier, mine = counter(), torch.zeros(1)

    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        at_once([arriving(barrier, 2, mine), interrupted], barrier)
    assert float(mine) == 11
    again = counter()
    assert at_once([arriving(again, 2, mine), arriving(again, 2, torch.zeros(1))], again)


def test_helpers_are_used_again_and_hold_nothing():
    for _ in range(50):
        barrier, numbers = counter(), torch.zeros(2)
        at_once([arriving(barrier, 2, numbers), arriving(barrier, 2, numbers[1:])], barrier)
        assert numbers.tolist() == [11, 11]
    before = threading.active_count()
    at_once([lambda: None, lambda: None], counter())
    assert threading.active_count() == before


def test_without_threads_nothing_is_called(monkeypatch):
    monkeypatch.setattr(teams, "_helpers", [])
    monkeypatch.setattr(teams._Helper, "start", lambda self: (_ for _ in ()).throw(RuntimeError("no more threads")))
    called = []
    assert not at_once([lambda: called.append(0), lambda: called.append(1)], counter())
    assert not called


AT_THE_END = """
from ctypes import c_int32
from featscope.kernels.teams import at_once

class Last:
    def __del__(self):
        print(at_once([lambda: None] * 2, c_int32(0)))

print(at_once([lambda: None] * 2, c_int32(0)))
import builtins
builtins.last = Last()
"""


def test_when_the_interpreter_ends_nothing_is_called_and_nobody_waits():
    run = subprocess.run([sys.executable, "-c", AT_THE_END], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.split() == ["True", "False"]
