"""What the operating system refuses, in words, and what it allows this process: cores and memory."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from math import inf
from pathlib import Path

_NO_MEMORY = ("allocate memory", "out of memory", "STATUS_ALLOC_FAILED")
"""In what torch says of the processor's memory, of a GPU's, and of what a library takes there for itself."""
_limited: ContextVar[bool] = ContextVar("limited", default=False)  # by `limited_space`
_GROUPS, _MINE = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")  # control groups; in which this process is


def refused_by_system(error: BaseException) -> str:
    """Why the system did not do what it was asked, in a sentence; empty if that is not what went wrong."""
    if lacks_memory(error):
        said = next(iter(str(error).strip().splitlines()), "none was to be had")  # below are a GPU's hints
        return f"the system has no memory left ({said})."
    if isinstance(error, OSError):
        where = f": {error.filename}" if error.filename else ""
        return f"the system says {error.strerror or error}{where}."
    return ""


def lacks_memory(error: BaseException) -> bool:
    """Whether what went wrong is that no memory was to be had."""
    told = isinstance(error, RuntimeError) and any(words in str(error) for words in _NO_MEMORY)
    return told or isinstance(error, MemoryError)


def allowed_cores() -> float:
    """Cores whose time this process's control groups allow it, as a container's do; infinitely many without one."""
    fewest = inf
    for group in _groups("cpu"):
        said = _read(group / "cpu.max").split()
        said = said or [_read(group / "cpu.cfs_quota_us"), _read(group / "cpu.cfs_period_us")]
        if len(said) == 2 and all(word.isdecimal() for word in said) and int(said[1]):  # neither "max" nor -1
            fewest = min(fewest, int(said[0]) / int(said[1]))
    return fewest


def free_memory() -> int:
    """Bytes that this process may still have: that the machine has, and that its control groups allow it."""
    import psutil

    free: int = psutil.virtual_memory().available
    for group in _groups("memory"):
        most = _read(group / "memory.max") or _read(group / "memory.limit_in_bytes")
        used = _read(group / "memory.current") or _read(group / "memory.usage_in_bytes")
        if most.isdecimal() and used.isdecimal():
            words = _read(group / "memory.stat").split()
            stat = dict(zip(words[::2], words[1::2], strict=False))
            files = stat.get("total_inactive_file") or stat.get("inactive_file", "0")  # given back when it is wanted
            free = min(free, max(0, int(most) - max(0, int(used) - int(files))))
    return free


@contextmanager
def limited_space(more: float) -> Iterator[None]:
    """Let this process have ``more`` bytes than now, so that a larger request fails at once; on Linux only."""
    if sys.platform != "linux":
        yield
        return
    import resource

    import psutil

    before = resource.getrlimit(resource.RLIMIT_AS)
    most = psutil.Process().memory_info().vms + int(more)
    resource.setrlimit(resource.RLIMIT_AS, (min([most, *(end for end in before if end >= 0)]), before[1]))
    outside = _limited.set(True)
    try:
        yield
    finally:
        _limited.reset(outside)
        resource.setrlimit(resource.RLIMIT_AS, before)


@contextmanager
def mapped_files() -> Iterator[None]:
    """Let what is mapped meanwhile not count against `limited_space`.

    Weights in safetensors files are mapped, more than once as they are loaded: memory holds them once, for all
    processes, and address space is not what they take.
    """
    if not _limited.get():
        yield
        return
    import resource

    import psutil

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    had = psutil.Process().memory_info().vms
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    try:
        yield
    finally:
        soft += max(0, psutil.Process().memory_info().vms - had)
        resource.setrlimit(resource.RLIMIT_AS, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _groups(controller: str) -> Iterator[Path]:
    """Folders of the control groups that this process is in, the innermost first, in both layouts that Linux has.

    In a container the outermost that it sees is its own.
    """
    places = {"": "", controller: ""}  # in the newer layout controllers have no folders of their own
    for line in _read(_MINE).splitlines():
        names, _, place = line.partition(":")[2].partition(":")
        places |= {name: place for name in names.split(",") if name in places}
    for name, place in places.items():
        parts = [part for part in place.split("/") if part]
        inside = [] if ".." in parts else parts  # it is moved to where this process sees nothing
        for depth in range(len(inside), -1, -1):
            yield _GROUPS.joinpath(name, *inside[:depth])


def _read(file: Path) -> str:
    """What a file of the system says; nothing where there is none, or it is not for this process."""
    with suppress(OSError, ValueError):
        return file.read_text().strip()
    return ""
