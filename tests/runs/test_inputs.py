"""What options name is part of what computes a run, and told where it changes."""

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from featscope.losses import NonContrastive
from featscope.runs import Settings, inputs, run
from featscope.runs.inputs import contents
from featscope.runs.plain import to_plain
from swept import Pull


@dataclass(frozen=True)
class Reading(Pull):
    """Pulled by photographs.

    Attributes:
        photos: their folder.
    """

    photos: str = ""


@pytest.fixture
def photos(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr("featscope.runs.workers.cores", lambda: 1)
    folder = tmp_path / "photos"
    (folder / "cats").mkdir(parents=True)
    (folder / "cats" / "1.png").write_bytes(b"a cat")
    (folder / "labels.txt").write_bytes(b"1 cats")
    return folder


def test_only_options_that_name_a_folder_or_a_file_are_looked_at(photos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = {"type": "photos", "data": "photos", "study": {"list": str(photos / "labels.txt"), "steps": 3}}
    config |= {
        "hub": "cifar10",
        "none": "",
        "damaged": "a\0b",
        "models": ["cifar10", "photos"],
        "axes": [["width", [1]]],
    }
    found = contents(config, tmp_path / "run")
    assert list(found) == ["data", "study.list", "models.1"]
    assert found["data"] == found["models.1"] != found["study.list"]
    assert found["data"].startswith("2 files, 11 bytes, ")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert contents({"data": "~/photos"}, tmp_path / "run") == {"data": found["data"]}


def test_a_word_that_is_the_name_of_the_run_is_no_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "relu" / "checkpoint").mkdir(parents=True)
    assert contents({"activation": "relu", "data": "relu/checkpoint"}, Path("relu")) == {}


def test_a_run_that_an_option_names_counts(tmp_path):
    run(Pull(), Settings(), tmp_path / "before")
    found = contents({"start": str(tmp_path / "before")}, tmp_path / "run")["start"]
    (tmp_path / "before" / "claims.json").write_text("{}")
    assert not found.startswith("0 files")
    assert contents({"start": str(tmp_path / "before")}, tmp_path / "run")["start"] != found


def test_the_retriever_is_what_its_package_holds(tmp_path):
    package = pytest.importorskip("featscope_retriever", reason="for want of the package 'featscope-retriever'")
    weights = Path(package.__file__).with_name("weights")
    one, other = (contents({"model": name}, tmp_path) for name in ("retriever", str(weights)))
    assert one == other != {}


def links(photos: Path) -> None:
    """A folder elsewhere that a link leads to, and one that leads back."""
    (photos.parent / "dogs").mkdir()
    (photos.parent / "dogs" / "1.png").write_bytes(b"a dog")
    (photos / "dogs").symlink_to(photos.parent / "dogs")
    (photos.parent / "dogs" / "all").symlink_to(photos)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda photos: (photos / "cats" / "1.png").write_bytes(b"a dog"), True),
        (lambda photos: (photos / "cats" / "1.png").rename(photos / "cats" / "2.png"), True),
        (lambda photos: (photos / "cats" / "2.png").touch(), True),
        (lambda photos: (photos.parent / "dogs" / "1.png").write_bytes(b"a fox"), True),
        (lambda photos: os.utime(photos / "labels.txt", (1, 1)), False),
        (lambda photos: (photos / ".DS_Store").touch(), False),
        (lambda photos: (photos / "cache.lock").touch(), False),
        (lambda photos: (photos / "run" / "config.json").touch(), False),
        (lambda photos: (photos / "another" / "claims.json").touch(), False),
    ],
)
def test_names_and_content_count_and_neither_times_nor_what_is_hidden_or_of_runs(photos, change, told):
    (photos / "run").mkdir()
    (photos / "another").mkdir()
    for name in ("config.json", "environment.json"):
        (photos / "another" / name).touch()
    links(photos)
    config, out = {"data": str(photos)}, photos / "run"
    before = contents(config, out)
    change(photos)
    assert (contents(config, out) != before) == told


def told_places(folder: Path, size: int, others: int = 0) -> list[bool]:
    """Of each byte of a file beside some of one byte, whether another one in its place is told."""
    folder.mkdir(exist_ok=True)
    for number in range(others):
        (folder / f"{number}").write_bytes(b"0")
    file, config, found = folder / "data", {"data": str(folder)}, []
    file.write_bytes(bytes(size))
    before = contents(config, folder.parent / "run")
    for place in range(size):
        file.write_bytes(bytes(place) + b"x" + bytes(size - place - 1))
        found.append(contents(config, folder.parent / "run") != before)
    return found


def test_every_byte_counts_of_what_is_not_too_large_and_else_head_tail_and_parts_between(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "_BLOCK", 8)
    for size in (1, 7, 8, 9, 63):
        assert all(told_places(tmp_path / "a", size))
    monkeypatch.setattr(inputs, "_READ", 64)
    assert all(told_places(tmp_path / "b", 32, others=20))  # a file may be larger than its equal share
    found = told_places(tmp_path / "a", 160)
    assert sum(found) == 64
    assert (found[0], found[-1]) == (True, True)
    few = told_places(tmp_path / "c", 100, others=9)
    assert sum(few) == 6
    assert (few[0], few[-1]) == (True, True)


def test_of_very_many_files_names_and_sizes_count(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "_MOST_FILES", 1)
    config, out = {"data": str(photos)}, tmp_path / "run"
    before = contents(config, out)
    (photos / "labels.txt").write_bytes(b"1 dogs")
    assert contents(config, out) == before
    (photos / "labels.txt").write_bytes(b"1 mouse")
    assert contents(config, out) != before


def test_a_run_whose_data_change_half_way_is_mixed_and_says_so(photos, tmp_path):
    out, study = tmp_path / "run", Reading(photos=str(photos))
    assert not run(study, Settings(), out).mixed
    assert not run(study, Settings(), out, resume=True).mixed
    (photos / "cats" / "2.png").touch()
    next((out / "checkpoint").iterdir()).unlink()
    said = run(study, Settings(), out, resume=True).mixed
    told = r"what photos names \(2 files, 11 bytes, [0-9a-f]{8}, then 3 files, 11 bytes, [0-9a-f]{8}\)"
    assert re.search(f"This run is mixed.* these changed: {told}", said)
    assert run(study, Settings(), out, resume=True).mixed == said


def test_a_run_of_a_version_that_did_not_look_is_not_mixed(photos, tmp_path):
    out, study = tmp_path / "run", Reading(photos=str(photos))
    run(study, Settings(), out)
    about = json.loads((out / "environment.json").read_text())
    assert list(about["inputs"]) == ["photos"]
    del about["inputs"], about["checksum"]
    (out / "environment.json").write_text(json.dumps(about))
    shutil.rmtree(photos)
    assert not run(study, Settings(), out, resume=True).mixed


def test_a_word_of_a_list_names_no_folder_even_if_one_is_called_so(tmp_path, monkeypatch):
    """As of `--device cpu` beside a folder cpu: a resumed run would be said to be of other data once it changed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "batch").mkdir()
    (tmp_path / "batch" / "file").write_text("a")
    config = {"objective": to_plain(NonContrastive(normalization="batch")), "data": "batch"}
    assert [*contents(config, tmp_path / "out")] == ["data"]
