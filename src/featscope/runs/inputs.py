"""What is in the folders and files that options name: part of what computes a run, as versions and machine are."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from featscope.options import listed_words
from featscope.runs.plain import known

_READ = 2**30  # bytes at most that are read of what an option names
_BLOCK = 2**20
_MOST_FILES = 10_000  # that are opened; of more the names and sizes are enough
_OF_PROGRAMS = ("__pycache__", "Thumbs.db", "desktop.ini")


def contents(config: Mapping[str, Any], out: Path) -> dict[str, str]:
    """What each option of a stored config names, if it names a folder or file, as "412 files, 3.1 GB, 0a1b2c3d".

    The digest is of names, sizes and content: of all of it up to a GiB,
    of more parts of each file, of more than 10,000 files none. Hidden files, what programs leave, and runs that are
    stored within do not count.

    Args:
        config: as `to_plain` gives it.
        out: the run folder, which does not count either.
    """
    own, named = os.path.realpath(out), ((option, _place(word)) for option, word in _words(config))
    places = {option: place for option, place in named if place is not None and not place.is_relative_to(own)}
    read = {place: _contents(place, own) for place in {*places.values()}}
    return {option: read[place] for option, place in places.items()}


def _words(plain: Any, option: str = "") -> Iterator[tuple[str, str]]:
    """The words in a stored config, by their dotted names, but for those that are one of a list: they name no place."""
    if isinstance(plain, str):
        yield option, plain
    elif isinstance(plain, Mapping | list):
        kind = known(plain.get("type")) if isinstance(plain, Mapping) else None
        for name, value in plain.items() if isinstance(plain, Mapping) else enumerate(plain):
            if name != "type" and not (kind and isinstance(value, str) and value in listed_words(kind, str(name))):
                yield from _words(value, f"{option}.{name}" if option else f"{name}")


def _place(word: str) -> Path | None:
    """The folder or file that a word names, if it does: "retriever" names the weights of that package."""
    if word == "retriever":
        package = find_spec("featscope_retriever")
        return Path(package.origin).with_name("weights") if package is not None and package.origin else None
    place = os.path.expanduser(word)
    return Path(os.path.realpath(place)) if word and os.path.exists(place) else None


def _contents(place: Path, own: str) -> str:
    sizes = dict[Path, int]()
    for file in _files(place, own):
        with suppress(OSError):  # gone by now, as other programs' files may be
            sizes[file] = file.stat().st_size
    total, found = sum(sizes.values()), blake2b(digest_size=4)
    for file, size in sorted(sizes.items()):
        found.update(f"{os.fsencode(file.relative_to(place))!r} {size} ".encode())
        if len(sizes) <= _MOST_FILES:
            for part in _parts(file, size, size if total <= _READ else _READ // len(sizes)):
                found.update(part)
    amount = f"{total / 1e9:.1f} GB" if total >= 1e9 else f"{total / 1e6:.1f} MB" if total >= 1e6 else f"{total} bytes"
    return f"{len(sizes)} file{'s' if len(sizes) != 1 else ''}, {amount}, {found.hexdigest()}"


def _files(place: Path, own: str) -> Iterator[Path]:
    """All files that count, links to folders followed once each; ``own`` is the run's folder."""
    if place.is_file():
        yield place
    seen = {own}
    for folder, inner, names in os.walk(place, followlinks=True):
        real, of_a_run = os.path.realpath(folder), {"config.json", "environment.json"} <= {*names}
        if real in seen or (of_a_run and real != str(place)):
            inner.clear()
            continue
        seen.add(real)
        inner[:] = filter(_counts, inner)
        yield from (file for name in names if _counts(name) and (file := Path(folder, name)).is_file())


def _counts(name: str) -> bool:
    return name[0] != "." and name not in _OF_PROGRAMS and not name.endswith(".lock")


def _parts(file: Path, size: int, share: int) -> Iterator[bytes]:
    """A file in blocks; of one larger than ``share`` bytes as much, in evenly spaced parts from head to tail."""
    block = max(1, min(_BLOCK, size if size <= share else share // 2))
    count = -(-size // block) if size <= share else share // block
    with suppress(OSError), file.open("rb") as opened:  # what cannot be read is refused by what needs it
        for part in range(count):
            opened.seek(part * block if size <= share else part * (size - block) // max(count - 1, 1))
            yield opened.read(block)
