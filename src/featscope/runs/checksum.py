"""Checksums of JSON and NetCDF files, each within the file that it is of.

A file and its checksum are so written in one step: a kill at any moment leaves both old or both new. One list for the
whole folder would be shorter to read, but a kill between a file and the list would leave a sound file that the list
calls damaged. Checkpoints and weights have theirs in `tensors`.
"""

import json
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

NAME = "checksum"
"""What the checksum is called in a JSON file; in NetCDF, an attribute that says that the file ends with one."""

IN_NETCDF = "The last line of this file has the BLAKE2b checksum of all bytes before it."

_LINE = b"\nchecksum "
_BYTES = 32
_TRAILER = len(_LINE) + 2 * _BYTES + 1
_AT_A_TIME = 1 << 20


def sealed(content: Mapping[str, Any]) -> bytes:
    """Readable JSON of ``content`` and, as its last field, the checksum of its text."""
    return _text({**content, NAME: _of_json(content)}) + b"\n"


def agrees(content: Mapping[str, Any], checksum: str) -> bool:
    """Whether parsed JSON is what `sealed` was given. Blanks and line ends do not count."""
    return _of_json(content) == checksum


def _of_json(content: Mapping[str, Any]) -> str:
    return blake2b(_text(content), digest_size=_BYTES).hexdigest()


def _text(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False).encode()


def with_line(data: bytes) -> bytes:
    """``data`` and a line with its checksum. HDF5 ignores what follows its end."""
    return b"".join((data, _LINE, blake2b(data, digest_size=_BYTES).hexdigest().encode(), b"\n"))


def is_whole(file: Path) -> bool:
    """Whether a file is what `with_line` gave, to the bit."""
    size = file.stat().st_size - _TRAILER
    if size < 0:
        return False
    with file.open("rb") as opened:
        opened.seek(size)
        line = opened.read()
        if not (line.startswith(_LINE) and line.endswith(b"\n")):
            return False
        opened.seek(0)
        state = blake2b(digest_size=_BYTES)
        while size > 0 and (some := opened.read(min(size, _AT_A_TIME))):
            state.update(some)
            size -= len(some)
    return line[len(_LINE) : -1] == state.hexdigest().encode()
