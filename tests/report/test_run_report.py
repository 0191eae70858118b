"""The report of a run folder, also of one that an older version of its study made."""

import json
from pathlib import Path

import pytest

from featscope.options import ConfigError
from featscope.registry import find
from featscope.report import report_run
from featscope.runs import Settings, run
from featscope.runs.folder import RunFolder
from featscope.runs.stored import read_trajectory


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the tensor power method, with claims and identities."""
    _, kind = find("tensor-power")
    return run(kind(sequences=2, steps=200), Settings(replicas=2), tmp_path_factory.mktemp("run") / "tensor").folder


def edited(folder: Path, tmp_path: Path, name: str, change) -> Path:
    """A copy of ``folder`` in which the JSON file ``name`` is changed."""
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in folder.iterdir():
        if file.is_file():
            (copy / file.name).write_bytes(file.read_bytes())
    stored = json.loads((copy / name).read_text())
    del stored["checksum"]  # as in files of an older version
    change(stored)
    (copy / name).write_text(json.dumps(stored))
    return copy


def test_it_has_the_studys_words_and_the_command(folder: Path) -> None:
    page = report_run(folder).read_text()
    _, kind = find("tensor-power")
    assert kind.asks in page
    assert "featscope run tensor-power --seed 0 --replicas 2" in page
    assert "another version made it" not in page


def test_a_claim_of_an_older_version_keeps_its_verdict_and_gets_todays_words(folder: Path, tmp_path: Path) -> None:
    def forget(stored) -> None:
        for claim in stored["claims"]:
            for name in ("title", "measures", "range", "values", "law", "trials"):
                del claim[name]
            claim["statement"] = "An old wording."

    page = report_run(edited(folder, tmp_path, "claims.json", forget)).read_text()
    _, kind = find("tensor-power")
    assert "An old wording" not in page
    assert all(statement.title.replace("'", "&#39;") in page for statement in kind.statements()[:5])


@pytest.mark.parametrize(
    "change",
    [
        lambda stored: stored["config"].update(gone=1),
        lambda stored: stored["config"].update(type="featscope.studies.gone:Gone"),
        lambda stored: stored["config"].update(power=0),
    ],
    ids=["an option that is gone", "a class that is gone", "a value that is no longer allowed"],
)
def test_a_run_with_options_of_another_version_is_shown_as_far_as_it_is_stored(
    folder: Path, tmp_path: Path, change
) -> None:
    copy = edited(folder, tmp_path, "config.json", change)
    claims = json.loads((copy / "claims.json").read_text())
    del claims["checksum"]
    change(claims)
    (copy / "claims.json").write_text(json.dumps(claims))
    RunFolder(copy).write_trajectory(read_trajectory(folder))
    page = report_run(copy).read_text()
    assert "another version made it" in page
    assert "Predictions against measurements" in page
    assert "featscope run tensor-power" not in page
    assert "against expectation" not in page  # nothing was expected at options that are not known


def test_a_run_without_a_measurement_that_is_drawn_now_is_shown_as_far_as_it_is_stored(
    folder: Path, tmp_path: Path
) -> None:
    copy = edited(folder, tmp_path, "config.json", lambda stored: None)
    runs = read_trajectory(folder)
    RunFolder(copy).write_trajectory({name: arm.drop_vars("total", errors="ignore") for name, arm in runs.items()})
    page = report_run(copy).read_text()
    assert "another version made it" in page


def test_a_plan_without_its_study_is_refused_with_the_cure(folder: Path, tmp_path: Path) -> None:
    copy = edited(folder, tmp_path, "config.json", lambda stored: stored.pop("study"))
    with pytest.raises(
        ConfigError, match=r"config.json is incomplete, study is missing: .* begin anew with --overwrite"
    ):
        report_run(copy)
