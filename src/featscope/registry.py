"""Finding studies, our own and those of other packages."""

from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from featscope.catalogue import Entry
from featscope.options import ConfigError

_GROUP = "featscope.studies"


def entries() -> dict[str, Entry]:
    """All studies on this machine by name; nothing heavy is imported.

    Raises:
        ConfigError: an installed package registers something that is not an `Entry`, or cannot be loaded.
    """
    found = (_load(point) for point in sorted(entry_points(group=_GROUP), key=lambda p: p.name))
    return {entry.name: entry for entry in found}


def _load(point: Any) -> Entry:
    try:
        entry = point.load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"entry point {point.name} = {point.value!r} cannot be loaded ({error}): "
            "repair or remove the package that registers it"
        ) from None
    if not isinstance(entry, Entry):
        raise ConfigError(f"entry point {point.name} = {point.value!r} is a {type(entry).__name__}: allowed is Entry")
    return entry


def entry(name: str) -> Entry:
    """The entry of the study called ``name``; nothing heavy is imported.

    Raises:
        ConfigError: there is no such study.
    """
    # Its own entry point alone, where it has one: another package's broken one must not stop a run or its report.
    own = (_load(point) for point in entry_points(group=_GROUP, name=name))
    known = {entry.name: entry for entry in own if entry.name == name} or entries()
    if name not in known:
        raise ConfigError(f"STUDY = {name!r} is unknown: allowed is one of {', '.join(known)}")
    return known[name]


def find(name: str) -> tuple[Entry, Any]:
    """The entry and the class, a `Study`, of the study called ``name``.

    Raises:
        ConfigError: there is no such study, or its entry does not name its class.
    """
    found = entry(name)
    module, _, attribute = found.target.partition(":")
    kind: Any = getattr(import_module(module), attribute, None)
    if getattr(kind, "name", None) != name:
        raise ConfigError(
            f"study {name!r} is registered as {found.target!r}: allowed is a Study whose `name` is {name!r}"
        )
    return found, kind
