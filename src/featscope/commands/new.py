"""`featscope new`: a package with a study, its test and its entry point, ready to be made one's own."""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path, PurePosixPath

from featscope.catalogue import OWN_TRAINING
from featscope.commands.parsing import name_and_options, parse
from featscope.options import ConfigError
from featscope.registry import entries

_NAME = "1 to 60 letters, digits, '-' and '_', the first a letter, the last no '-' or '_'"


@dataclass(frozen=True)
class _NewArgs:
    """A package with a study that runs and passes its tests at once."""

    out: Path | None = None
    """Folder that is made; NAME if not given."""


def new(words: list[str]) -> int:
    """Make the package, whole or not at all, and print how to go on.

    Raises:
        ConfigError: the name cannot be that of a study and a module, or the folder is there or cannot be made.
    """
    name, options = name_and_options(words, "new", "NAME")
    out = parse(_NewArgs, options, f"new {name}").out
    module = _module(name)
    out = Path(name) if out is None else out
    _make(name, module, out)
    print(f"The study {name} is in {out}. It runs as it stands:\n  cd {shlex.quote(str(out))}")
    print(f"  pip install -e '.[test]'\n  featscope run {name}\n  pytest")
    print(f"Then make {out / 'src' / module / 'study.py'} yours.")
    return 0


def _module(name: str) -> str:
    """The module of the study called ``name``.

    Raises:
        ConfigError: it cannot have that name.
    """
    shown = f"NAME = {name[:100]!r}"
    if not re.fullmatch(r"(?=.{1,60}\Z)[A-Za-z](?:[A-Za-z0-9_-]*[A-Za-z0-9])?", name):
        raise ConfigError(f"{shown} is out of range: allowed is {_NAME}. It names a study, a module and a package.")
    module = name.replace("-", "_")
    if iskeyword(module):
        raise ConfigError(f"{shown} is a word of Python: allowed is what a module can be called. Add to it.")
    if name == OWN_TRAINING.name:
        raise ConfigError(f"{shown} is the name of trainings that a Monitor watches: choose another name.")
    if name in entries():
        raise ConfigError(f"{shown} is a study already: allowed is a name that featscope list does not have.")
    if module in sys.modules or find_spec(module):
        raise ConfigError(f"{shown} would hide the module {module}, which is installed: choose another name.")
    return module


def _make(name: str, module: str, out: Path) -> None:
    shown = f"--out = {str(out)!r}"
    try:
        if os.path.lexists(out):
            raise ConfigError(f"{shown} is there already: allowed is a new folder; choose another name")
        if not out.absolute().parent.is_dir():
            raise ConfigError(f"{shown} is not in a folder: make {str(out.parent)!r} first")
        beside = out.with_name(f".{out.name}.{os.getpid()}")
        beside.mkdir()
    except (OSError, ValueError) as error:  # ValueError: no name may have NUL in it
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{shown} cannot be made ({why}): choose another folder") from None
    try:
        for path, text in _template(name, module):
            file = beside / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        beside.rename(out)
    except BaseException:
        with suppress(OSError):
            shutil.rmtree(beside)
        raise


def _template(name: str, module: str) -> Iterator[tuple[PurePosixPath, str]]:
    """The files of the package: where they stand in it, and what is in them."""
    called = {"my-study": name, "my_study": module}

    def renamed(text: str) -> str:
        return re.sub("my[-_]study", lambda found: called[found[0]], text)

    for path, text in _files(files("featscope") / "templates" / "study", PurePosixPath()):
        yield PurePosixPath(renamed(str(path))), renamed(text)


def _files(folder: Traversable, place: PurePosixPath) -> Iterator[tuple[PurePosixPath, str]]:
    for found in folder.iterdir():
        if found.name.startswith((".", "__pycache__")):  # left there by pip and other tools
            continue
        if found.is_dir():
            yield from _files(found, place / found.name)
        else:
            yield place / found.name, found.read_text(encoding="utf-8")
