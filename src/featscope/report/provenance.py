"""Where a run's numbers come from, and how to get them again."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from featscope.studies import Study
from featscope.studies.judged_sweep import JudgedSweep
from featscope.studies.scaling import ScalingStudy
from featscope.studies.sweep import Sweep


def changed_options(study: Study) -> dict[str, str]:
    """Options that are not at their defaults, as they are typed: ``{"--data.features": "64"}``.

    A part of another kind is a word of its own, ``{"optimizer:torch-optimizer": ""}``, with what differs from that
    kind's defaults; these come last, as the command line wants it.
    """
    given = study.study if isinstance(study, Sweep | JudgedSweep | ScalingStudy) else study
    plain: dict[str, str] = {}
    kinds: dict[str, str] = {}
    _collect(type(given)(), given, "", plain, kinds)
    return plain | kinds


def _collect(old: Any, new: Any, path: str, into: dict[str, str], kinds: dict[str, str]) -> None:
    for one in fields(new):
        name = f"{path}.{one.name}" if path else one.name
        before, now = getattr(old, one.name), getattr(new, one.name)
        if before == now:
            continue
        typed = name.replace("_", "-")
        if not is_dataclass(now):
            into[_flag(typed, now)] = _typed(now)
        elif type(before) is type(now):
            _collect(before, now, name, into, kinds)
        else:
            kinds[f"{typed}:{re.sub(r'(?<=[a-z0-9])(?=[A-Z])', '-', type(now).__name__).lower()}"] = ""
            kind: Any = type(now)
            _collect(kind(), now, name, kinds, kinds)


def _flag(typed: str, value: Any) -> str:
    """On or off is in the flag itself."""
    before, dot, name = typed.rpartition(".")
    return f"--{before}{dot}no-{name}" if value is False else f"--{typed}"


def _typed(value: Any) -> str:
    if isinstance(value, bool):
        return ""
    if isinstance(value, tuple):
        return " ".join(map(_typed, value))
    return shlex.quote(str(value))


def command(study: Study, plan: Mapping[str, Any]) -> str:
    """The whole command that runs it again, with every changed option; ``plan`` is what ``config.json`` holds. Empty
    where there is none."""
    if not study.command:
        return ""
    words = [f"featscope {study.command}", f"--seed {plan['seed']}", f"--replicas {plan['replicas']}"]
    words += [f"--device {plan['device']}"]
    words += [f"--memory-limit {limit!r}"] if (limit := plan.get("memory_limit")) is not None else []
    words += [f"{option} {value}".strip() for option, value in changed_options(study).items()]
    return " ".join(words)


def facts(study: Study, environment: Mapping[str, Any]) -> dict[str, str]:
    """What computed it, with which versions, and how long that took; ``environment`` is ``environment.json``."""
    versions = dict(environment["packages"])
    found = {"FeatScope": f"{versions.pop('featscope', 'unknown')}{_revision(environment.get('git_revision'))}"}
    if own := environment.get("study"):
        of = f"{own['package']} {own['version']}".strip()  # a script has no version
        found["Study"] = f"{type(study).__qualname__} of {of}{_revision(own['revision'])}"
    found |= {
        "With": ", ".join([*(f"{name} {of}" for name, of in versions.items()), f"Python {environment['python']}"]),
        "Machine": f"{environment['processor']}, {_cores(environment)}{environment['platform']}",
        "Device": environment["device"],
    }
    if environment.get("products"):
        found["Matrix products"] = environment["products"]
    if environment.get("kernels"):
        found["Kernels"] = environment["kernels"]
    if environment.get("seconds") is not None:
        took = f"{environment['seconds']:.0f} s" if environment["seconds"] >= 1 else "less than a second"
        found["Took"] = f"{took} of running and measuring"
    return found


def _revision(revision: str | None) -> str:
    return f", revision {revision}" if revision else ""


def _cores(environment: Mapping[str, Any]) -> str:
    cores = environment.get("cores")  # not said by the first version
    return f"{cores} {'core' if cores == 1 else 'cores'}, " if cores else ""
