"""Freed memory is kept, where the C library can be asked to."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
from featscope.allocator import keep_freed_memory
if "keep" in sys.argv:
    keep_freed_memory()
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
before = faults()
for _ in range(5):
    bytearray(b"x") * (1 << 26)
print(faults() - before)
"""


def page_faults(*words: str) -> int:
    run = subprocess.run([sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=True)
    return int(run.stdout)


HANDED_BACK = """
import psutil
from featscope.allocator import hand_back_freed_memory, keep_freed_memory
keep_freed_memory()
hold = lambda: psutil.Process().memory_full_info().uss
parts = [bytearray(b"x") * (1 << 20) for _ in range(100)]
kept = parts[::10]  # lie between what is freed
del parts
before = hold()
hand_back_freed_memory()
print(before - hold())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the C library of Linux")
def test_what_was_kept_is_handed_back_also_from_between_what_is_in_use():
    run = subprocess.run([sys.executable, "-c", HANDED_BACK], capture_output=True, text=True, check=True)
    assert int(run.stdout) > 80 * (1 << 20)


@pytest.mark.skipif(sys.platform != "linux", reason="the C library of Linux")
def test_memory_that_was_freed_is_used_again_without_page_faults():
    assert page_faults("keep") < 0.4 * page_faults()
