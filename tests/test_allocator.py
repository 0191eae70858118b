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


@pytest.mark.skipif(sys.platform != "linux", reason="the C library of Linux")
def test_memory_that_was_freed_is_used_again_without_page_faults():
    assert page_faults("keep") < 0.4 * page_faults()
