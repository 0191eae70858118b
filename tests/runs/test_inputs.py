"""A run that is resumed finds in folders and files what it began with."""

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from featscope.axes import Axis
from featscope.commands.parsing import as_typed
from featscope.options import ConfigError
from featscope.runs import Settings, inputs, run
from featscope.runs.growing import grow
from featscope.runs.inputs import changed_input, fingerprints
from featscope.runs.stored import read_plan
from featscope.studies.sweep import Sweep
from swept import Pull


@dataclass(frozen=True)
class Reading(Pull):
    """Pulled by photographs.

    Attributes:
        photos: their folder.
    """

    photos: str = ""


@dataclass(frozen=True)
class Typed:
    """Options of a command."""

    study: Reading = field(default_factory=Reading)


@pytest.fixture
def photos(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr("featscope.runs.workers.cores", lambda: 1)
    folder = tmp_path / "photos"
    (folder / "cats").mkdir(parents=True)
    (folder / "cats" / "1.png").write_bytes(b"a cat")
    (folder / "labels.txt").write_bytes(b"1 cats")
    return folder


def lose_a_checkpoint(out: Path) -> None:
    next((out / "checkpoint").iterdir()).unlink()


def test_only_options_that_name_a_folder_or_a_file_have_a_fingerprint(photos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = {"type": "photos", "data": "photos", "study": {"list": str(photos / "labels.txt"), "steps": 3}}
    config |= {
        "hub": "cifar10",
        "none": "",
        "damaged": "a\0b",
        "models": ["cifar10", "photos"],
        "axes": [["width", [1]]],
    }
    found = fingerprints(config, tmp_path / "run")
    assert list(found) == ["data", "study.list", "models.1"]
    assert found["data"] == found["models.1"] != found["study.list"]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert fingerprints({"data": "~/photos"}, tmp_path / "run") == {"data": found["data"]}


def test_the_retriever_is_what_its_package_holds(tmp_path):
    package = pytest.importorskip("featscope_retriever", reason="for want of the package 'featscope-retriever'")
    weights = Path(package.__file__).with_name("weights")
    one, other = (fingerprints({"model": name}, tmp_path) for name in ("retriever", str(weights)))
    assert one == other != {}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda photos: (photos / "cats" / "1.png").write_bytes(b"a dog"), True),
        (lambda photos: (photos / "cats" / "1.png").rename(photos / "cats" / "2.png"), True),
        (lambda photos: (photos / "cats" / "2.png").touch(), True),
        (lambda photos: shutil.rmtree(photos), True),
        (lambda photos: os.utime(photos / "labels.txt", (1, 1)), False),
        (lambda photos: (photos / ".DS_Store").touch(), False),
        (lambda photos: (photos / "run" / "config.json").touch(), False),
    ],
)
def test_names_and_content_count_and_neither_times_nor_what_is_hidden_or_of_the_run(photos, monkeypatch, change, told):
    monkeypatch.chdir(photos.parent)
    (photos / "run").mkdir()
    config, out = {"data": "photos"}, photos / "run"
    before = fingerprints(config, out)
    change(photos)
    assert changed_input(before, config, out) == ("config.data = 'photos'" if told else "")


def test_every_byte_counts_of_a_file_and_of_a_large_one_parts(tmp_path, monkeypatch):
    file, config = tmp_path / "data", {"data": str(tmp_path / "data")}

    def told(size: int) -> list[bool]:
        """Whether a change of each byte is."""
        file.write_bytes(bytes(size))
        before = fingerprints(config, tmp_path / "run")
        found = []
        for place in range(size):
            file.write_bytes(bytes(place) + b"x" + bytes(size - place - 1))
            found.append(fingerprints(config, tmp_path / "run") != before)
        return found

    monkeypatch.setattr(inputs, "_BLOCK", 8)
    for size in (1, 7, 8, 9, 63):
        assert all(told(size))
    monkeypatch.setattr(inputs, "_READ", 24)
    found = told(80)
    assert sum(found) == 24
    assert (found[0], found[40], found[-1]) == (True, True, True)


def test_of_very_many_files_names_and_sizes_count(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "_MOST_FILES", 1)
    config = {"data": str(photos)}
    before = fingerprints(config, tmp_path / "run")
    (photos / "labels.txt").write_bytes(b"1 dogs")
    assert not changed_input(before, config, tmp_path / "run")
    (photos / "labels.txt").write_bytes(b"1 mouse")
    assert changed_input(before, config, tmp_path / "run")


def test_a_run_whose_data_are_others_is_read_where_it_ended_and_not_gone_on_with(photos, tmp_path):
    out, study = tmp_path / "run", Reading(photos=str(photos))
    run(study, Settings(), out)
    (photos / "labels.txt").write_bytes(b"1 dogs")
    assert run(study, Settings(), out, resume=True).folder == out
    lose_a_checkpoint(out)
    said = "= '.*photos' holds is not what the run began with, .* Put it back, or begin anew with --overwrite"
    with pytest.raises(ConfigError, match=rf"^--resume: what config\.photos {said}"):
        run(study, Settings(), out, resume=True)
    with pytest.raises(ConfigError, match=f"^--resume: what --photos {said}"), as_typed(Typed):
        run(study, Settings(), out, resume=True)
    (photos / "labels.txt").write_bytes(b"1 cats")
    run(study, Settings(), out, resume=True)


def test_a_sweep_whose_data_are_others_names_the_option_of_its_study(photos, tmp_path):
    out, study = tmp_path / "run", Sweep(Reading(photos=str(photos)), (Axis("data.noise", (0.1, 0.5)),))
    run(study, Settings(replicas=1), out)
    lose_a_checkpoint(out)
    shutil.rmtree(photos)
    with pytest.raises(ConfigError, match=r"what --photos = '.*photos' holds"), as_typed(Typed):
        run(study, Settings(replicas=1), out, resume=True)


def test_a_run_of_a_version_that_took_no_fingerprints_goes_on(photos, tmp_path):
    out, study = tmp_path / "run", Reading(photos=str(photos))
    run(study, Settings(), out)
    plan = json.loads((out / "config.json").read_text())
    assert list(plan["inputs"]) == ["photos"]
    del plan["inputs"], plan["checksum"]
    (out / "config.json").write_text(json.dumps(plan))
    shutil.rmtree(photos)
    lose_a_checkpoint(out)
    assert run(study, Settings(), out, resume=True).folder == out


def test_a_run_that_grows_keeps_its_fingerprints(photos, tmp_path):
    out, study = tmp_path / "run", Reading(photos=str(photos))
    run(study, Settings(), out)
    before = read_plan(out)["inputs"]
    (photos / "labels.txt").write_bytes(b"1 dogs")
    grow(out, study)
    assert read_plan(out)["inputs"] == before
