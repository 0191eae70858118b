"""Files: written whole or not at all, and read again when they change."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache, wraps
from itertools import islice
from pathlib import Path
from reprlib import repr as short
from secrets import token_hex
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])
_MOST_STAMPED = 1000  # files of a folder whose change is seen

AS_IT_IS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""How `os.open` reads a file that anybody may have put there: no link is followed, no pipe waited for.

Windows knows neither, and must be told to change no ends of lines.
"""


def cache_folder(name: str) -> Path:
    """What is kept between processes under ``name``: ``featscope/name`` in the user's cache, which may not be there.

    Raises:
        RuntimeError: nobody knows where the user is at home.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "featscope" / name


def atomic_write(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` in one step: whole or not at all."""
    part = path.with_name(f".{path.name}.{token_hex(8)}")
    file = part.open("xb")  # a new file, with the rights that new files have
    try:
        with file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def kept_while_unchanged(most: int) -> Callable[[F], F]:
    """Keeps the last ``most`` results of a function whose first argument names a folder or file, until that changes.

    By names, sizes and times, of a thousand files at most; what is no place here, such as a name on the Hub, is taken
    for unchanged.
    """

    def keeping(function: F) -> F:
        kept = lru_cache(maxsize=most)(lambda _stamp, *given: function(*given))
        return cast(F, wraps(function)(lambda *given: kept(_stamp_of(str(given[0])), *given)))

    return keeping


def _stamp_of(name: str) -> tuple[Any, ...]:
    files, found = list[Path](), list[Any]()
    with suppress(OSError, ValueError):  # what is no name of a file
        place = Path(os.path.expanduser(name)).resolve()
        files = sorted(islice(place.rglob("*"), _MOST_STAMPED)) if place.is_dir() else [place]
    for file in files:
        with suppress(OSError):  # gone by now, or a link that leads nowhere
            its = file.stat()
            found.append((file, its.st_size, its.st_mtime_ns))
    return tuple(found)


def each_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, for ``json.loads(text, object_pairs_hook=each_once)``; of a name twice, the last would win.

    Raises:
        ValueError: a name is there twice.
    """
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{short(name)} is there twice")
        found[name] = value
    return found
