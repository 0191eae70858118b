"""Whether files are those that were read before."""

import os
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path


def stamp(folder: Path, files: Iterable[Path]) -> str:
    """A hash of where ``folder`` is, and of the name, size and time of each of its ``files``; "" if it is none.

    What is read is kept with it, so that it is read anew where it changed or another folder is meant.
    """
    if not os.path.isdir(folder):  # unlike pathlib it takes any name
        return ""
    state = blake2b(str(folder.resolve()).encode("utf-8", "surrogateescape"), digest_size=16)
    for file in sorted(files):
        if file.is_file():
            known = file.stat()
            state.update(f"\0{file}\0{known.st_size}\0{known.st_mtime_ns}".encode("utf-8", "surrogateescape"))
    return state.hexdigest()
