"""What is in the folders and files that options name: a run that is resumed must find there what it began with."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_READ = 2**30  # bytes at most, of all files together
_BLOCK = 2**20
_MOST_FILES = 10_000  # that are opened; of more the names and sizes are enough


def fingerprints(config: Mapping[str, Any], out: Path) -> dict[str, str]:
    """A digest of what each option of a stored config names, by the option; of those that name a folder or file.

    It is of names, sizes and content, of large files of parts of it. Hidden files do not count.

    Args:
        config: as `to_plain` gives it.
        out: the run folder, which does not count where it is inside.
    """
    places = ((option, _place(value)) for option, value in _words(config))
    return {option: _digest(place, os.path.realpath(out)) for option, place in places if place is not None}


def changed_input(before: Mapping[str, str], config: Mapping[str, Any], out: Path) -> str:
    """An option that names something else than it did, as ``config.data = 'photos'``; empty if none does."""
    now = fingerprints(config, out)
    changed = (option for option in {**before, **now} if before.get(option) != now.get(option))
    return next((f"config.{option} = {dict(_words(config)).get(option)!r}" for option in changed), "")


def _words(plain: Any, option: str = "") -> Iterator[tuple[str, str]]:
    """The words in a stored config, by their dotted names."""
    if isinstance(plain, str):
        yield option, plain
    elif isinstance(plain, Mapping | list):
        for name, value in plain.items() if isinstance(plain, Mapping) else enumerate(plain):
            if name != "type":
                yield from _words(value, f"{option}.{name}" if option else f"{name}")


def _place(word: str) -> Path | None:
    """The folder or file that a word names, if it does: "retriever" names the weights of that package."""
    if word == "retriever":
        package = find_spec("featscope_retriever")
        return Path(package.origin).with_name("weights") if package is not None and package.origin else None
    place = os.path.expanduser(word)
    return Path(place) if word and os.path.exists(place) else None


def _digest(place: Path, out: str) -> str:
    found = blake2b(digest_size=16)
    files = sorted(_files(place, out))
    share = _READ // max(len(files), 1)
    for file in files:
        size = file.stat().st_size
        found.update(f"{os.fsencode(file.relative_to(place))!r} {size} ".encode())
        if len(files) <= _MOST_FILES:
            for part in _parts(file, size, share):
                found.update(part)
    return found.hexdigest()


def _files(place: Path, out: str) -> Iterator[Path]:
    if place.is_file():
        yield place
    for folder, inner, names in os.walk(place):
        inner[:] = [name for name in inner if name[0] != "." and os.path.realpath(Path(folder, name)) != out]
        yield from (file for name in names if name[0] != "." and os.path.isfile(file := Path(folder, name)))


def _parts(file: Path, size: int, share: int) -> Iterator[bytes]:
    """Evenly spaced parts of a file, ``share`` bytes at most; of one that is no larger all of it."""
    block = min(share, _BLOCK)
    count = min(share // block, -(-size // block))
    with suppress(OSError), file.open("rb") as opened:  # what cannot be read is refused by what needs it
        for part in range(count):
            opened.seek(part * max(size - block, 0) // max(count - 1, 1))
            yield opened.read(block)
