"""Run folders: what may be taken over, and how files are written."""

import json
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr

from featscope.claims import Claim
from featscope.files import atomic_write
from featscope.options import ConfigError
from featscope.runs.export import export
from featscope.runs.folder import RunFolder
from featscope.runs.stored import read_claims, read_plan, read_trajectory

HALF = "0123456789abcdef"
"""What an atomic write puts behind a name."""


def overwrite(path: Path) -> None:
    with RunFolder.held(path, overwrite=True) as folder:
        folder.clear()


def test_a_new_folder_is_made_with_its_parents(tmp_path):
    RunFolder.create(tmp_path / "a" / "b")
    assert {f.name for f in (tmp_path / "a" / "b").iterdir()} == {"checkpoint", "weights", "figures"}


def test_a_folder_with_files_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match=r"^out = .* holds files, and no run: choose another folder"):
        RunFolder.create(tmp_path)
    assert [f.name for f in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("inside", ["sub", ".git", "checkpoint/deep"])
def test_a_folder_with_folders_of_others_is_refused(tmp_path, inside):
    (tmp_path / inside).mkdir(parents=True)
    with pytest.raises(ConfigError, match="holds files, and no run"):
        RunFolder.create(tmp_path)


def test_what_a_run_leaves_that_was_killed_before_its_first_file_counts_as_empty(tmp_path):
    RunFolder.create(tmp_path)
    half = tmp_path / f".config.json.{HALF}"
    for how in ({}, {"resume": True}):
        half.write_text('{"half')
        with RunFolder.held(tmp_path, **how):
            assert not half.exists()


def test_what_was_half_written_is_swept_and_nothing_else(tmp_path):
    folder = RunFolder.create(tmp_path)
    folder.write_json("config.json", {})
    strays = [f".claims.json.{HALF}", f"checkpoint/.a.0.safetensors.{HALF}", f"figures/.a.png.{HALF}"]
    strays += [".featscope.progress", ".featscope.progress.123", ".featscope.asked", f"..featscope.asked.{HALF}"]
    others = [".gitignore", "notes.txt", ".config.json.swp", "figures/.a.png.swp", "my.featscope.progress.txt"]
    for name in (*strays, *others):
        (tmp_path / name).write_text("x")
    with RunFolder.held(tmp_path, resume=True) as folder:
        folder.sweep()
    found = {str(f.relative_to(tmp_path)) for f in tmp_path.rglob("*") if f.is_file()}
    assert found == {"config.json", *others}


def test_overwrite_clears_the_run_and_keeps_other_files(tmp_path):
    folder = RunFolder.create(tmp_path)
    for name in ("config.json", "claims.json", "environment.json"):
        folder.write_json(name, {})
    folder.write_tensors("checkpoint/augmented.0.safetensors", {"a": torch.zeros(1)}, {})
    folder.write_tensors("weights/augmented.safetensors", {"a": torch.zeros(1)}, {})
    (tmp_path / "notes.txt").write_text("mine")
    overwrite(tmp_path)
    assert [f.name for f in tmp_path.rglob("*") if f.is_file()] == ["notes.txt"]


@pytest.mark.parametrize("theirs", [None, "{}", '{"model_type": "bert"}', "{"])
def test_overwrite_removes_nothing_of_a_folder_without_a_run(tmp_path, theirs):
    """Other programs write a config.json, and folders of these names, too."""
    names = ["figures/one.png", "checkpoint/a.safetensors", "weights/a.safetensors", "report.html", "tables/claims.csv"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("years of work")
    if theirs is not None:
        (tmp_path / "config.json").write_text(theirs)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    for how in ({"overwrite": True}, {}):
        with pytest.raises(ConfigError, match="holds files, and no run: choose another folder"):
            RunFolder.held(tmp_path, **how).__enter__()
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize("beside", ["environment.json", "claims.json", "trajectory.nc"])
def test_a_damaged_run_is_overwritten(tmp_path, beside):
    for name in ("config.json", beside):
        (tmp_path / name).write_text("{")
    overwrite(tmp_path)
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


def test_what_is_killed_while_it_clears_a_run_can_be_overwritten_again(tmp_path, monkeypatch):
    """What says that the folder holds a run is the last to go."""
    plan = {"study": "pull", "seed": 0, "replicas": 1, "device": "cpu", "config": {}, "shard_size": 1}
    unlink, left = Path.unlink, []

    def killed(file: Path, missing_ok: bool = False) -> None:
        if file.exists():
            if not left:
                raise KeyboardInterrupt
            left.pop()
        unlink(file, missing_ok=missing_ok)

    for lived in range(5):
        out = tmp_path / str(lived)
        folder = RunFolder.create(out)
        folder.write_json("config.json", plan)
        folder.write_json("environment.json", {})
        folder.write_tensors("weights/x.safetensors", {"a": torch.zeros(1)}, {})
        left[:] = [None] * lived
        with RunFolder.held(out, overwrite=True) as folder, monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", killed)
            with pytest.raises(KeyboardInterrupt) if lived < 3 else nullcontext():
                folder.clear()
        overwrite(out)
        assert [file for file in out.rglob("*") if file.is_file()] == []


def test_overwrite_removes_the_tables_of_the_run_and_no_others(tmp_path):
    folder = RunFolder.create(tmp_path)
    for name in ("config.json", "claims.json"):
        folder.write_json(name, {})
    run = xr.Dataset({"loss": (("replica", "step"), np.ones((1, 2)))}, coords={"replica": [0], "step": [0, 1]})
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "mine.csv").write_text("mine")
    written = export({"tau-0.5": run, "b": run.rename(step="tau").transpose()}, [], tmp_path / "tables", "csv")
    assert len(written) == 4
    overwrite(tmp_path)
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["mine.csv"]


def test_trends_go_before_claims_that_they_are_not_of_are_written(tmp_path):
    folder = RunFolder.create(tmp_path)
    folder.write_json("trends.json", {})
    folder.write_claims("study", 0, 1, {}, [], {})
    assert not (tmp_path / "trends.json").exists()


def test_resume_and_overwrite_exclude_each_other(tmp_path):
    with pytest.raises(ConfigError, match="exclude each other"):
        RunFolder.held(tmp_path, resume=True, overwrite=True).__enter__()


@pytest.mark.parametrize("make", [lambda p: None, lambda p: p.mkdir() or (p / "x").write_text("")])
def test_resuming_where_no_run_is_is_refused(tmp_path, make):
    make(tmp_path / "run")
    with pytest.raises(ConfigError, match="holds no run to resume"):
        RunFolder.held(tmp_path / "run", resume=True).__enter__()


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(ConfigError, match="is a file: allowed is a folder"):
        RunFolder.create(tmp_path / "run")


def test_a_place_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot be written \(.+\): choose another"):
        RunFolder.create(tmp_path / "file" / "run")


def test_an_atomic_write_that_fails_leaves_the_old_version(tmp_path, monkeypatch):
    file = tmp_path / "a.json"
    atomic_write(file, b"old")
    monkeypatch.setattr("featscope.files.os.fsync", lambda handle: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        atomic_write(file, b"new")
    assert file.read_bytes() == b"old"
    assert [f.name for f in tmp_path.iterdir()] == ["a.json"]


def test_an_atomic_write_keeps_to_the_umask(tmp_path):
    atomic_write(tmp_path / "a", b"")
    (tmp_path / "b").write_bytes(b"")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_trajectories_come_back_with_names_units_and_gaps(tmp_path):
    folder = RunFolder.create(tmp_path)
    values = np.array([[1.0, np.nan], [3.0, 4.0]])
    loss = xr.Variable(("replica", "step"), values, {"units": "nats", "long_name": "loss"})
    data = xr.Dataset({"loss": loss}, coords={"replica": [0, 1], "step": [0, 5]}).assign_attrs(
        about="x", role="control"
    )
    folder.write_trajectory({"one": data, "tau-0.5": data})
    back = read_trajectory(folder.path)
    assert set(back) == {"one", "tau-0.5"}
    xr.testing.assert_identical(back["tau-0.5"], data)
    assert back["one"]["loss"].attrs == {"units": "nats", "long_name": "loss"}


def test_tensors_come_back_with_their_description(tmp_path):
    folder = RunFolder.create(tmp_path)
    tensors = {"a": torch.randn(3, 2, generator=torch.Generator().manual_seed(0)).T, "n": torch.tensor([1, -1])}
    folder.write_tensors("weights/x.safetensors", tensors, {"step": 3, "labels": {"a": ["b", 1.5]}})
    back, about = folder.read_tensors("weights/x.safetensors")
    assert about == {"step": 3, "labels": {"a": ["b", 1.5]}}
    assert all(torch.equal(back[name], tensors[name]) for name in tensors)
    assert folder.read_tensors("weights/y.safetensors") is None


def test_a_number_with_any_stride_is_written(tmp_path):
    folder = RunFolder.create(tmp_path)
    number = torch.arange(16.0).view(2, 8)[:1, 3]
    assert number.stride() == (8,)
    folder.write_tensors("weights/x.safetensors", {"a": number}, {})
    back, _ = folder.read_tensors("weights/x.safetensors")
    assert torch.equal(back["a"], number)


def test_claims_file_has_the_contract_s_fields(tmp_path):
    folder = RunFolder.create(tmp_path)
    about = {"id": "id", "source": "Lemma 1", "statement": "text", "kind": "bound", "arm": "a"}
    said = {"title": "In plain words", "measures": "what.", "note": "because", "range": (0.0, np.inf)}
    claim = Claim.from_samples(np.array([1.0, 2.0, np.nan]), ">=", 0.0, **about, **said)
    folder.write_claims("study", 4, 3, {"type": "S"}, [claim], {"a": (1, 3)})
    stored = json.loads((tmp_path / "claims.json").read_text())
    assert list(stored) == ["study", "seed", "replicas", "config", "level", "diverged", "claims", "checksum"]
    assert stored["diverged"] == {"a": [1, 3]}
    assert stored["level"] == 0.99
    names = "id source statement kind arm predicted relation tolerance measured interval n expected note verdict "
    names += "title measures range values law trials error freedom"
    (one,) = stored["claims"]
    assert set(one) == set(names.split())
    assert (one["range"], one["values"], one["measured"]) == ([0.0, None], [1.0, 2.0, None], None)
    assert (one["title"], one["measures"], one["note"]) == ("In plain words", "what.", "because")
    assert repr(Claim.from_json(one)) == repr(claim)


@pytest.mark.parametrize(
    ("content", "message"), [(None, "is missing: is .* the folder of a run"), ("{", "is not JSON")]
)
def test_unreadable_json_is_an_error_of_use(tmp_path, content, message):
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(ConfigError, match=message):
        read_plan(tmp_path)


def test_where_claims_are_missing_the_cure_is_said(tmp_path):
    with pytest.raises(ConfigError, match=r"claims.json is missing: to mend it, judge it again: featscope judge /"):
        read_claims(tmp_path)


def test_unreadable_trajectories_are_errors_of_use(tmp_path):
    with pytest.raises(ConfigError, match="is missing: finish the run first"):
        read_trajectory(tmp_path)
    (tmp_path / "trajectory.nc").write_bytes(b"not HDF5")
    with pytest.raises(ConfigError, match="does not end with its checksum"):
        read_trajectory(tmp_path)


def test_a_file_in_place_of_a_run_is_said_to_be_one(tmp_path):
    (tmp_path / "file").write_text("a")
    with pytest.raises(ConfigError, match="file' is a file: allowed is the folder of a run"):
        read_plan(tmp_path / "file")
