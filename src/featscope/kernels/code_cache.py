"""Machine code that an earlier process made: LLVM takes up to a second for a function, reading it some milliseconds."""

import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b

from featscope.files import atomic_write, cache_folder

_KEPT = 1024  # files, of some 15 KiB
_SUM = 32  # bytes


def remembered(text: str, make: Callable[[], bytes]) -> bytes:
    """What ``make`` makes of ``text``, or made of it in an earlier process.

    It is kept in the user's cache with its own checksum, and made anew where that does not agree. Nothing is kept where
    the cache cannot be written.

    Args:
        text: all that the result depends on.
        make: makes it.
    """
    try:
        file = cache_folder("machine-code") / f"{_sum(text.encode()).hex()}.o"
    except RuntimeError:
        return make()
    found = b""
    with suppress(OSError):
        found = file.read_bytes()
        os.utime(file)
    if found[_SUM:] and found[:_SUM] == _sum(found[_SUM:]):
        return found[_SUM:]
    made = make()
    with suppress(OSError):
        file.parent.mkdir(0o700, parents=True, exist_ok=True)  # what lies there is run
        atomic_write(file, _sum(made) + made)
        by_use = sorted(file.parent.iterdir(), key=lambda kept: kept.stat().st_mtime)
        for unused in by_use[:-_KEPT]:
            unused.unlink()
    return made


def _sum(data: bytes) -> bytes:
    return blake2b(data, digest_size=_SUM).digest()
