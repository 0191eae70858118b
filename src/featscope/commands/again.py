"""The study of a stored run, with the options that it was run with."""

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from featscope.options import ConfigError
from featscope.own_code import said
from featscope.registry import class_of_run, find_of_run
from featscope.runs.plain import from_plain, within_a_class
from featscope.studies import Study

_SCRIPT = "__main__:"  # how the tag begins of a class of the script that is run


def stored_study(plan: Mapping[str, Any], named: str = "") -> Study:
    """The study of a stored run with its options, as ``config.json`` has them.

    Args:
        plan: what ``config.json`` holds.
        named: MODULE:CLASS, of a study that no package registers; the module may be a file of the current folder. It
            also stands for a class that ran as a part of a script, ``python module.py``.

    Raises:
        ConfigError: there is no such study, or it is not what was run; or this version of it cannot have these options.
    """
    config = plan["config"]
    if named:
        kind = _named(named)
        config = _as_module(config, kind.__module__)
        was = class_of_run(config)
        if f"{kind.__module__}:{kind.__qualname__}" not in (config.get("type"), was):
            raise ConfigError(f"--study = {named!r} is not what was run: allowed is {was}")
    else:
        find_of_run(plan)  # loads the classes of its config
    try:
        study = from_plain(config)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"config.json does not fit {plan['study']} as it is installed: {error}") from None
    if not isinstance(study, Study):
        raise ConfigError(f"config.json: config = {type(study).__name__} is out of range: allowed is a Study's options")
    return study


def _named(named: str) -> type:
    """The class that MODULE:CLASS says."""
    module, _, name = named.partition(":")
    here = os.getcwd()  # which `python -m` would look through, too
    sys.path.append(here)
    try:
        kind = within_a_class(import_module(module), name)
    except (ImportError, TypeError, ValueError) as error:
        raise ConfigError(f"--study = {named!r} cannot be loaded ({error}): allowed is MODULE:CLASS") from None
    except Exception as error:  # whatever the module's own code raises
        raise ConfigError(f"--study = {named!r} cannot be loaded: {said(error)}") from error
    finally:
        del sys.path[len(sys.path) - 1 - sys.path[::-1].index(here)]  # modules may have added others behind it
    if not isinstance(kind, type):
        raise ConfigError(f"--study = {named!r} cannot be loaded (no class {name!r} there): allowed is MODULE:CLASS")
    return kind


def _as_module(plain: Any, module: str) -> Any:
    """A stored config with classes of ``module`` in place of those of a script."""
    if isinstance(plain, dict):
        moved = {name: _as_module(value, module) for name, value in plain.items()}
        tag = str(moved.get("type", ""))
        return moved | {"type": f"{module}:{tag.removeprefix(_SCRIPT)}"} if tag.startswith(_SCRIPT) else moved
    return [_as_module(value, module) for value in plain] if isinstance(plain, list) else plain
