"""From words to options, and from a refused option back to the word that was typed."""

import re
import sys
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from pathlib import Path
from shutil import which
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import tyro

from featscope.options import ConfigError
from featscope.registry import entries


def program() -> str:
    """`featscope`, or the path that it was called by where the shell would not find that one."""
    called = Path(sys.argv[0])
    known = which("featscope")
    if called.name != "featscope" or (known is not None and Path(known).resolve() == called.resolve()):
        return "featscope"
    return str(called)


def parse(kind: Any, words: list[str], program: str) -> Any:
    """Options by tyro. A word such as ``optimizer:torch-optimizer`` takes another kind of part; it and its options
    come last."""
    another_kind = any(re.fullmatch(r"[a-z-]+:[a-z-]+", word) for word in words)
    marker = tyro.conf.ConsolidateSubcommandArgs if another_kind else tyro.conf.AvoidSubcommands
    with as_typed(kind):
        return tyro.cli(kind, prog=f"featscope {program}", args=words, config=(marker,))


_HELP = ("-h", "--help")


def name_and_options(words: list[str], command: str, what: str, options: str = " [options]") -> tuple[str, list[str]]:
    """The first word, which names a study or a folder, and the others.

    Raises:
        ConfigError: there is no such word; the message says how to use the command.
    """
    if not words or words[0].startswith("-"):
        known = f", with {what}: one of {', '.join(entries())}" if what == "STUDY" else ""
        message = f"usage: featscope {command} {what}{options}{known}"
        if words and words[0] in _HELP:
            print(message)
            sys.exit(0)
        raise ConfigError(message)
    return words[0], words[1:]


def only_name(words: list[str], command: str, what: str) -> str:
    """The word that a command without options takes, which names a study or a folder.

    Raises:
        ConfigError: there is no such word, or one too many.
    """
    asks = [word for word in words if word in _HELP]
    name, rest = name_and_options(asks or words, command, what, "")
    if rest:
        raise ConfigError(f"{command} takes one {'folder' if what == 'DIR' else 'study'}; {rest[0]!r} is too much")
    return name


def typed_options(words: list[str]) -> dict[str, str]:
    """Which options ``words`` set, whether or not to their defaults, and to what: ``{"--data.features": "64"}``."""
    found = {}
    for word, after in zip(words, [*words, ""][1:], strict=True):
        if word.startswith("--"):
            option, joined, value = word.partition("=")
            found[option.replace("_", "-")] = value if joined else after
    return found


def option_names(kind: Any, prefix: str = "--") -> Iterator[tuple[tuple[str, str], str]]:
    """(class, field) -> the option as it is typed, for ``kind`` and all options within."""
    if plain := get_origin(kind):  # `Contrastive[Own]`: what its parameters stand for
        given = dict(zip(plain.__parameters__, get_args(kind), strict=True))
        kind = plain
    else:
        given = {}
    for name, hint in get_type_hints(kind).items():
        if name not in getattr(kind, "__dataclass_fields__", {}):
            continue
        if isinstance(hint, TypeVar):
            hint = given.get(hint, getattr(hint, "__default__", hint))
        typed = prefix + name.replace("_", "-")
        yield (kind.__name__, name), typed
        for inner in [hint] if is_dataclass(get_origin(hint)) else [hint, *get_args(hint)]:
            if is_dataclass(get_origin(inner) or inner):
                unnamed = prefix == "--" and name in ("settings", "telling", "study", "sweep", "trend")
                yield from option_names(inner, prefix if unnamed else f"{typed}.")


def require_free_names(kind: Any, command: str, others: Any) -> None:
    """Raise `ConfigError` where an option of the study ``kind`` has the name of one that ``command`` has for all.

    Args:
        kind: the study.
        command: such as "run".
        others: all options of the command but those of the study.
    """
    taken = {*_HELP, *(typed for _, typed in option_names(others))}
    for field in getattr(kind, "__dataclass_fields__", {}):
        if (typed := f"--{field.replace('_', '-')}") in taken:
            raise ConfigError(
                f"{kind.__name__}.{field} cannot be an option: `featscope {command}` has {typed} for all studies. "
                "Rename the field"
            )


@contextmanager
def as_typed(kind: type, study: object = None) -> Iterator[None]:
    """Let a refused option of ``kind`` be named as it is typed: ``--data.features`` for SparseCoding.features.

    Data that cannot be had are named by those options of ``study`` that say what they are.
    """
    try:
        yield
    except ConfigError as error:
        set_to = vars(study) if study and error.source else {}
        if sources := [f"--{name.replace('_', '-')}" for name, value in set_to.items() if value == error.source]:
            raise ConfigError(str(error).replace("data =", f"{' or '.join(sources)} =", 1)) from None
        names = list(option_names(kind))
        options = dict.fromkeys(option for place, option in names if place == (error.owner, error.field))
        if not options and error.owner:  # a recipe's own field, which a study's option of that name has set
            options = dict.fromkeys(
                option for (_, field), option in names if field == error.field and "." not in option
            )
        if not options:
            said = _with_dashes(str(error), {option for _, option in names})
            if error.owner or said == str(error):
                raise
            raise ConfigError(said) from None
        typed = " or ".join(options)
        message = str(error).replace(f"{error.owner}.{error.field} =", f"{typed} =", 1)
        raise ConfigError(message) from None


def _with_dashes(message: str, options: Container[str]) -> str:
    """``message`` with options as they are typed where it names them as they are stored: as its first word, for want of
    their owner, and in a list of what has changed since a run began."""

    def typed(found: re.Match[str]) -> str:
        option = f"--{found[1].replace('_', '-')}"
        return option + found[2] if option in options else found[0]

    message = re.sub(r"^([a-z_.]+)( = )", typed, message)
    return re.sub(r"(?<= )config\.(?:config\.)?(?:study\.)?([a-z_0-9.]+)(: )", typed, message)
