"""Finding studies, our own and those of other packages; and what is refused of any entry point."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from itertools import groupby
from typing import Any

from featscope.catalogue import OWN_TRAINING, Entry
from featscope.options import ConfigError, MissingExtraError

_GROUP = "featscope.studies"
_OWN_TRAINING = EntryPoint(OWN_TRAINING.name, "featscope.catalogue:OWN_TRAINING", _GROUP)
"""Its name is taken, though it is registered nowhere and not listed."""


def entries() -> dict[str, Entry]:
    """All studies on this machine by name, but those of broken packages; nothing heavy is imported."""
    return {entry.name: entry for _, entry in _all() if isinstance(entry, Entry)}


def broken() -> dict[str, str]:
    """What is wrong with entry points of installed packages that lead to no `Entry`, a line each, by their names."""
    return {name: str(error) for name, error in _all() if not isinstance(error, Entry)}


def _all() -> Iterator[tuple[str, Entry | ConfigError | MissingExtraError]]:
    points = sorted([_OWN_TRAINING, *entry_points(group=_GROUP)], key=lambda p: p.name)
    loaded: list[tuple[Any, Entry]] = []
    for name, several in groupby(points, key=lambda p: p.name):
        try:
            point = the_one(name, several)
            loaded.append((point, _load(point)))
        except (ConfigError, MissingExtraError) as error:
            yield name, error
    for point, found in loaded:
        own = [other for other in points if other.name == found.name]  # an entry may have another name than its point
        try:
            the_one(found.name, [*(own or [other for other, its in loaded if its.name == found.name]), point])
            if found is not OWN_TRAINING:
                yield point.name, found
        except ConfigError as error:
            yield point.name if own else found.name, error


def the_one(name: str, points: Iterable[Any], kind: str = "study") -> Any:
    """The entry point of what is called ``name``, which may be there several times if it leads to one place.

    Args:
        name: of the study, or of another ``kind``.
        points: those that have the name.
        kind: what they lead to, in a word.

    Raises:
        ConfigError: several packages use the name.
    """
    first, *others = {point.value: point for point in points}.values()
    if others:
        named = " and ".join(_where(point) for point in (first, *others))
        raise ConfigError(f"{kind} {name!r} is that of {named}: allowed is one; remove a package, or rename its {kind}")
    return first


def _where(point: Any) -> str:
    package = getattr(getattr(point, "dist", None), "name", None)
    return f"entry point {point.name} = {point.value!r}{f' of the package {package}' if package else ''}"


def _load(point: Any) -> Entry:
    where = f"entry point {point.name} = {point.value!r}"
    with sound(where):
        entry = point.load()
    if not isinstance(entry, Entry):
        raise ConfigError(f"{where} is a {type(entry).__name__}: allowed is Entry")
    return entry


@contextmanager
def sound(where: str) -> Iterator[None]:
    """Say in a line what another package raises while it is imported; it may be anything."""
    try:
        yield
    except MissingExtraError:
        raise
    except (Exception, SystemExit) as error:
        said = " ".join(str(error).split())[:200]
        reason = said if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: {said}"
        raise ConfigError(
            f"{where} cannot be loaded ({reason}): repair or remove the package that registers it"
        ) from error


def entry(name: str) -> Entry:
    """The entry of the study called ``name``; nothing heavy is imported.

    Raises:
        ConfigError: there is no such study, or several packages have one of that name.
    """
    if name == OWN_TRAINING.name:
        return OWN_TRAINING
    # Its own entry point alone, where it has one: another package's broken one must not stop a run or its report.
    own = [_load(the_one(name, points))] if (points := entry_points(group=_GROUP, name=name)) else []
    known = {entry.name: entry for entry in own if entry.name == name} or entries()
    if name not in known:
        if why := broken().get(name):
            raise ConfigError(why)
        near = get_close_matches(name.lower(), known, 1)
        meant = f"did you mean {near[0]}? Allowed is one of" if near else "allowed is one of"
        raise UnknownStudyError(f"STUDY = {name!r} is unknown: {meant} {', '.join(known)}")
    return known[name]


class UnknownStudyError(ConfigError):
    """No package registers a study of that name."""


def find(name: str) -> tuple[Entry, Any]:
    """The entry and the class, a `Study`, of the study called ``name``.

    Raises:
        ConfigError: there is no such study, or its entry does not name its class.
    """
    found = entry(name)
    module, _, attribute = found.target.partition(":")
    with sound(f"study {name!r}, registered as {found.target!r},"):
        kind: Any = getattr(import_module(module), attribute, None)
    if getattr(kind, "name", None) != name:
        raise ConfigError(
            f"study {name!r} is registered as {found.target!r}: allowed is a Study whose `name` is {name!r}"
        )
    return found, kind


def find_of_run(plan: Mapping[str, Any]) -> tuple[Entry, Any]:
    """The entry and the class of the study of a run, which loads the classes of its config.

    Args:
        plan: what ``config.json`` holds.

    Raises:
        ConfigError: no package registers it, or `find` refuses it.
    """
    try:
        return find(plan["study"])
    except UnknownStudyError:
        module, _, name = class_of_run(plan["config"]).rpartition(":")
        script = module == "__main__"
        named = f"{'MODULE' if script else module}:{name}"
        where = " from the folder of its script, MODULE.py," if script else ""
        raise ConfigError(
            f"no package registers the study of this run, {plan['study']!r}: judge the run{where} with "
            f"--study {named}, which draws its page, too"
        ) from None


def class_of_run(config: Mapping[str, Any]) -> str:
    """The "module:Class" of what was run; of a sweep and of a ladder, that of the study that they are of."""
    inner = config.get("study")
    return str(inner["type"] if isinstance(inner, dict) and "type" in inner else config.get("type"))
