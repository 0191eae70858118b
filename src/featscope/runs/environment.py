"""What computes a run: versions, machine and revision."""

import platform
import subprocess
import sys
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from featscope.threads import cores


def environment(device: str, module: str = "featscope") -> dict[str, Any]:
    """Versions, machine and revision, for ``environment.json``; ``module`` is the one that the study is of."""
    packages = ["featscope", "torch", "numpy", "scipy", "xarray", "scikit-learn"]
    packages += [name for name in ("transformers", "tokenizers", "datasets") if find_spec(name) is not None]
    return {
        "python": sys.version.split()[0],
        "packages": {name: version(name) for name in packages},
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": cores(),
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else "cpu",
        "git_revision": _revision(Path(__file__)),
    } | _package_of(module)


def _package_of(module: str) -> dict[str, Any]:
    """Package, version and revision of a study that is not one of FeatScope's own."""
    package = module.partition(".")[0]
    if package in ("featscope", "__main__"):
        return {}
    of = packages_distributions().get(package, [])
    file = getattr(sys.modules.get(module), "__file__", None)
    revision = _revision(Path(file)) if file else None
    return {"study": {"package": package, "version": version(of[0]) if of else "", "revision": revision}}


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _revision(file: Path) -> str | None:
    """Revision of the checkout that ``file`` is of; None for an installed package."""

    def git(*command: str) -> str:
        run = ["git", "-C", str(file.parent), *command]
        return subprocess.run(run, capture_output=True, text=True, timeout=5, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", file.name)  # not some other project's checkout
        return git("describe", "--always", "--dirty")
    except (OSError, subprocess.SubprocessError):
        return None
