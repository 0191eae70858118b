"""The floors of the package: a forbidden import breaks the contract and is named; the guide names the same floors.

And the floors below it: versions of what it needs.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "featscope"


@pytest.fixture
def copy(tmp_path) -> Path:
    """The package beside the contract, as it is."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(PACKAGE, tmp_path / "featscope", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "featscope"


def judged(package: Path) -> tuple[int, str]:
    """What `lint-imports` says of ``package``: its exit code and its words, in a line."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=package.parent, capture_output=True, text=True, timeout=60)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_the_package_keeps_to_its_floors(copy):
    code, said = judged(copy)
    assert code == 0, said
    assert "0 broken" in said


def importing(line: str, of: str, what: str) -> tuple[str, str, str]:
    return of, line, f"featscope.{of.replace('/', '.')} -> featscope.{what}"


FORBIDDEN = [
    importing("from featscope.models import SymmetricReLU", of="theory/decoupling", what="models"),
    importing("from featscope.data import SparseTokens", of="theory/imbalance", what="data"),
    importing("import featscope.losses", of="models/token_mlp", what="losses"),
    importing("from featscope.probes import effective_rank", of="training/loop", what="probes"),
    importing("from featscope.training import train", of="probes/collapse", what="training"),
    importing("from featscope.studies import Study", of="language/prompt", what="studies"),
    importing("from featscope.runs import Settings", of="studies/summaries", what="runs"),
    importing("from featscope.testing import Trial", of="runs/lock", what="testing"),
    importing("from featscope.report import report_run", of="check", what="report"),
    importing("from featscope.numbers import per_replica", of="options", what="numbers"),
    importing(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from featscope.training import Experiment",
        of="models/heads",
        what="training",
    ),
    (
        "studies/pruning/probes",
        "def late():\n    from featscope.studies.pruning.arms import JUDGED",
        "No cycles are allowed in featscope.studies.pruning. It could be made acyclic by removing 1 dependency: "
        "- .probes -> .arms",
    ),
]


@pytest.mark.parametrize(("where", "line", "named"), FORBIDDEN, ids=[where for where, _, _ in FORBIDDEN])
def test_a_forbidden_import_is_named(copy, where, line, named):
    file = copy / f"{where}.py"
    file.write_text(f"{file.read_text()}\n\n{line}\n")
    code, said = judged(copy)
    assert code == 1, said
    assert named in said


def test_a_floor_that_nobody_knows_is_named(copy):
    (copy / "attic.py").write_text('"""A module on no floor."""\n')
    code, said = judged(copy)
    assert code == 1
    assert "featscope.attic" in said or "- attic" in said, said


def test_contributing_names_the_floors_of_the_contract_in_their_order():
    floors, circles = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert (floors["type"], floors["exhaustive"], floors["containers"]) == ("layers", True, ["featscope"])
    assert circles["type"] == "acyclic_siblings"
    contract = [name for layer in floors["layers"] for name in re.split(r" [|:] ", layer)]
    files = {name: f"{name}.py" if (PACKAGE / f"{name}.py").exists() else f"{name}/" for name in contract}
    assert all((PACKAGE / file).exists() for file in files.values())
    rows = re.findall(r"^\| (`[^|]+`[^|]*?) *\|", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    assert [name for row in rows for name in re.findall(r"`([^`]+)`", row)] == list(files.values())


@pytest.mark.parametrize(
    ("package", "lacking", "first"),
    [("numpy", "1.26.4", "2.0.0"), ("scipy", "1.12.0", "1.13.0"), ("scikit-learn", "1.5.2", "1.6.0")],
)
def test_versions_that_lack_what_is_called_are_not_allowed(package, lacking, first):
    """`numpy.trapezoid`, SciPy for NumPy 2, `sklearn.utils.validation.validate_data`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = {one.name: one.specifier for one in map(Requirement, project["dependencies"])}
    assert not asked[package].contains(lacking)
    assert asked[package].contains(first)
