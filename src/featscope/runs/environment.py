"""What computes a run: versions, machine and revision, and that it was not always the same."""

import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from featscope.kernels import backend
from featscope.threads import cores

_CHANGES = (
    "python",
    "packages",
    "git_revision",
    "study",
    "platform",
    "processor",
    "device",
    "products",
    "kernels",
    "inputs",
)
"""What may change numbers."""
_OF_ALL = ("seconds", "threads")
"""What is of the whole run, whatever changed on the way."""
_DIGITS = 8
_PATIENCE = 30  # seconds for git, on a busy machine
_NAMES = {"python": "Python", "git_revision": "revision", "products": "matrix products"}


def module_of(study: Any) -> str:
    """The module of a study; of one that runs another, as sweeps and trends do, that of the other."""
    inner = getattr(study, "study", None)
    return module_of(inner) if hasattr(inner, "arms") else type(study).__module__


def environment(device: str, module: str = "featscope") -> dict[str, Any]:
    """Versions, machine and revision, for ``environment.json``; ``module`` is the one that the study is of."""
    packages = ["featscope", "torch", "numpy", "scipy", "xarray", "scikit-learn"]
    needed_by_some = ("transformers", "tokenizers", "datasets", "featscope-retriever")
    versions = {name: version(name) for name in packages}
    for name in needed_by_some:
        with suppress(PackageNotFoundError):  # a folder of this name that can be imported is not the package
            versions[name] = version(name)
    return {
        "python": sys.version.split()[0],
        "packages": versions,
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": cores(),
        "device": torch.cuda.get_device_name(device) if device.startswith("cuda") else "cpu",
        "products": "cuBLAS" if device.startswith("cuda") else _products(),
        "kernels": f"llvmlite {version('llvmlite')}" if _in_machine_code(device) else "torch",
        "git_revision": _revision(_code_of(Path(__file__))),
    } | _package_of(module)


def _in_machine_code(device: str) -> bool:
    if backend() == "torch" or not device.startswith("cuda"):
        return backend() != "torch"
    from featscope.kernels import gpu

    return gpu.suits(torch.device(device))


def with_history(now: Mapping[str, Any], before: Mapping[str, Any] | None) -> dict[str, Any]:
    """``now`` as it is written where ``before`` stands: what was there goes into its history if anything changed.

    Args:
        now: what `environment` found.
        before: what ``environment.json`` holds of the run that is resumed; None for a new run.
    """
    began = {"since": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "history": []}
    if before is None:
        return {**now, **began}
    kept = {name: before[name] for name in ("since", "history", *_OF_ALL) if name in before}
    kept = {"since": None, "history": []} | kept  # an older version wrote neither
    if not _changes(before, now):
        return {**now, **kept}
    earlier = {name: value for name, value in before.items() if name not in ("history", *_OF_ALL)}
    return {**now, **kept, **began, "history": [*kept["history"], {"since": None} | earlier]}


def computed_by(here: Mapping[str, Any], parts: Iterable[Mapping[str, Any] | None]) -> dict[str, Any]:
    """What is written of a run whose parts were computed elsewhere: by the last kind of machine, and before by others.

    Args:
        here: what `with_history` gave, of the machine where the command was typed.
        parts: of each part, what `environment` found where it was computed; None of one that was computed here, now or
            before.
    """
    kinds: list[Mapping[str, Any]] = []
    some_here = False
    for part in parts:
        some_here = some_here or part is None
        if part is not None and all(_changes(kind, part) for kind in kinds):
            kinds.append(part)
    others = [{"since": here.get("since")} | dict(kind) for kind in kinds]
    if some_here:
        known = [here, *here["history"]]
        others = [other for other in others if all(_changes(stage, other) for stage in known)]
        return {**here, "history": [*here["history"], *others]}
    if not kinds or (len(kinds) == 1 and not _changes(here, kinds[0])):
        return dict(here)
    *earlier, last = others
    return {**here, **last, "history": [*here["history"], *earlier]}


def began(environment: Mapping[str, Any]) -> str:
    """When a run began, in UTC, as 2026-11-25 09:30:00; empty where an older version did not say it."""
    first = (environment.get("history") or [environment])[0]
    return (first.get("since") or "").removesuffix("Z").replace("T", " ")


def mixed(environment: Mapping[str, Any]) -> str:
    """That several environments or numbers of threads computed a run, and which, in a sentence; empty for one."""
    stages = [*environment.get("history", ()), environment]
    found: dict[str, list[str]] = {}
    for before, after in pairwise(stages):
        for name, (old, new) in _changes(before, after).items():
            found.setdefault(name, [old]).append(new)
    told = [f"{name} ({', then '.join(values)})" for name, values in found.items()]
    if len(threads := environment.get("threads", ())) > 1:
        told.append(f"threads ({' and '.join(map(str, threads))})")
    if not told:
        return ""
    each = ", ".join(told)
    return f"This run is mixed, and its numbers may depend on it: from part to part these changed: {each}."


def by_other_code(environment: Mapping[str, Any], module: str) -> bool:
    """Whether some part of a run was computed by other code than today's, of FeatScope or of a study in ``module``."""

    def code(packages: Mapping[str, Any], revision: str | None, study: Any) -> tuple[Any, ...]:
        return packages.get("featscope"), revision, study

    now = code(
        {"featscope": version("featscope")}, _revision(_code_of(Path(__file__))), _package_of(module).get("study")
    )
    stages = [*environment.get("history", ()), environment]
    return any(code(one.get("packages") or {}, one.get("git_revision"), one.get("study")) != now for one in stages)


def _products() -> str:
    """The library that torch multiplies matrices with, and the processor's instructions that it may use."""
    library = re.search(r"BLAS_INFO=(\w+)", torch.__config__.show())
    return f"{library[1] if library else 'unknown'}, {torch.backends.cpu.get_cpu_capability()}"


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """What differs, by name: what was and what is. Of packages that both have, as others are not what the run needs;
    and of options, as older versions did not look at what these name."""
    found: dict[str, tuple[str, str]] = {}
    for name in _CHANGES:
        old, new = before.get(name), after.get(name)
        if name in ("packages", "inputs") and old and new:
            told = "what {} names" if name == "inputs" else "{}"
            found |= {told.format(of): (old[of], new[of]) for of in old if of in new and old[of] != new[of]}
        elif old != new and name != "inputs":
            found[_NAMES.get(name, name)] = (_told(old), _told(new))
    return found


def _told(value: Any) -> str:
    if isinstance(value, Mapping):  # package, version and revision of a study
        value = " ".join(str(part) for part in value.values() if part)
    return str(value or "unknown")


def _package_of(module: str) -> dict[str, Any]:
    """Package, version and revision of a study that is not one of FeatScope's own; of a script, its name."""
    package = module.partition(".")[0]
    if package == "featscope":
        return {}
    of = _distributions(tuple((place, _changed(place)) for place in sys.path)).get(package, [])
    file = Path(getattr(sys.modules.get(module), "__file__", None) or "")
    code = _code_of(file) if file.is_file() else None  # what is typed in is in no file
    revision = _revision(code) if code else None
    if code:
        revision = revision or _digest(code)
    name = file.name or "what was typed in" if package == "__main__" else package
    return {"study": {"package": name, "version": version(of[0]) if of else "", "revision": revision}}


@lru_cache(maxsize=1)  # all lists of files of all that is installed: a quarter of a second
def _distributions(places: tuple[tuple[str, int], ...]) -> Mapping[str, list[str]]:
    """The distributions of each package, read again where something was installed or places are searched otherwise."""
    return packages_distributions()


def _changed(place: str) -> int:
    try:
        return Path(place).stat().st_mtime_ns
    except OSError:
        return 0


def _code_of(file: Path) -> Path:
    """The folder of the package that a module is of, or the module where it is of none."""
    found = file.resolve()
    while (found.parent / "__init__.py").exists():
        found = found.parent
    return found


def _digest(code: Path) -> str:
    """Of all modules of a package, or of one."""
    found = sha256()
    for module in sorted(code.rglob("*.py")) if code.is_dir() else [code]:
        found.update(module.read_bytes())
    return found.hexdigest()[:_DIGITS]


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _revision(code: Path) -> str | None:
    """Revision of the checkout that a package or module is of; None for what is in none.

    Where modules are not as they were committed, a digest of all of them follows, so that two states of uncommitted
    code have two names.
    """

    def git(*command: str) -> str:
        run = ["git", "-C", str(code.parent), *command]
        done = subprocess.run(run, capture_output=True, text=True, timeout=_PATIENCE, check=False)
        if done.returncode < 0:  # killed, which says nothing of the checkout: else a resumed run would seem mixed
            done = subprocess.run(run, capture_output=True, text=True, timeout=_PATIENCE, check=False)
        done.check_returncode()
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", code.name)  # not some other project's checkout
        changed = git("status", "--porcelain", "--untracked-files=all", "--", code.name).splitlines()
        uncommitted = any(line.endswith((".py", '.py"')) for line in changed)  # git quotes some names
        return git("describe", "--always") + (f"-dirty-{_digest(code)}" if uncommitted else "")
    except (OSError, subprocess.SubprocessError):
        return None
