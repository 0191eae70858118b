"""Checkpoints that are damaged, or of something else: set aside, said, and computed again."""

import re
import shutil
from pathlib import Path

import pytest
import torch
import xarray as xr
from safetensors import safe_open
from safetensors.torch import save_file

from featscope.options import ConfigError
from featscope.runs import Settings, run
from featscope.runs.folder import RunFolder
from featscope.runs.stored import read_trajectory
from featscope.tensors import DamagedError, packed, unpacked
from featscope.training import GradientTraining
from swept import Pull

FIRST = "checkpoint/pulled.0.0.safetensors"
TENSORS = {
    "a": torch.arange(6, dtype=torch.float32).reshape(2, 3).T,
    "empty": torch.zeros(0),
    "half": torch.ones(2, dtype=torch.bfloat16),
    "number": torch.tensor(3),
    "yes": torch.tensor([True, False]),
}
ABOUT = {"step": 3, "labels": {"a": ["ü", 1.5]}}


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch):
    monkeypatch.setattr("featscope.runs.workers.cores", lambda: 1)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A run that is done."""
    out = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("featscope.runs.workers.cores", lambda: 1)
        run(Pull(), Settings(), out)
    return out


def test_equal_tensors_make_equal_files(tmp_path):
    folder = RunFolder.create(tmp_path)
    for name in ("one", "other"):
        folder.write_tensors(f"weights/{name}.safetensors", TENSORS, ABOUT)
    one, other = ((tmp_path / "weights" / f"{name}.safetensors").read_bytes() for name in ("one", "other"))
    assert one == other
    back, about = folder.read_tensors("weights/one.safetensors")
    assert about == ABOUT
    assert all(torch.equal(back[name], TENSORS[name]) and back[name].dtype == TENSORS[name].dtype for name in TENSORS)


def test_no_flipped_bit_is_taken_and_none_ends_in_a_traceback(tmp_path, capfd):
    """Of every bit of the file. A blank that the format puts after its header may become another one, that is all."""
    folder = RunFolder.create(tmp_path)
    folder.write_tensors("a.safetensors", {"a": torch.ones(2), "b": torch.tensor([1, 2])}, {"step": 1})
    file, aside = tmp_path / "a.safetensors", tmp_path / "a.safetensors.damaged"
    sound = file.read_bytes()
    for place in range(8 * len(sound)):
        damaged = bytearray(sound)
        damaged[place // 8] ^= 1 << place % 8
        file.write_bytes(damaged)
        back = folder.read_tensors("a.safetensors")
        if back is not None:
            assert sound[place // 8] == ord(" ")
            assert back[1] == {"step": 1}
            assert back[0]["a"].tolist() == [1, 1]
            assert back[0]["b"].tolist() == [1, 2]
        aside.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("said", "other"), [(b'"shape":[2,3]', b'"shape":[3,2]'), (b'"dtype":"F32"', b'"dtype":"I32"')]
)
def test_as_many_bytes_of_another_shape_or_type_are_not_taken(tmp_path, said, other):
    made = packed({"a": torch.arange(6, dtype=torch.float32).reshape(2, 3)}, ABOUT)
    (tmp_path / "a").write_bytes(made.replace(said, other))
    assert made.count(said) == 1
    with pytest.raises(DamagedError, match="does not agree with its checksum"):
        unpacked(tmp_path / "a")


def test_a_file_of_an_older_version_has_no_checksum_and_is_read(tmp_path):
    save_file({"a": torch.ones(2)}, tmp_path / "a.safetensors", metadata={"about": '{"step": 1}'})
    tensors, about = RunFolder(tmp_path).read_tensors("a.safetensors")
    assert about == {"step": 1}
    assert tensors["a"].tolist() == [1, 1]


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-7])


def flipped(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-3] ^= 4
    file.write_bytes(content)


def rewritten(file: Path, **changed) -> None:
    """Sound, but for what is changed of its description."""
    folder = RunFolder(file.parents[1])
    tensors, about = folder.read_tensors(f"checkpoint/{file.name}")
    folder.write_tensors(f"checkpoint/{file.name}", tensors, about | changed)


def without(name: str):
    """Sound, but for tensors of a name."""

    def change(file: Path) -> None:
        folder = RunFolder(file.parents[1])
        tensors, about = folder.read_tensors(f"checkpoint/{file.name}")
        kept = {key: value for key, value in tensors.items() if name not in key}
        assert len(kept) < len(tensors)
        folder.write_tensors(f"checkpoint/{file.name}", kept, about)

    return change


DAMAGE = {
    "truncated": (truncated, "is not a whole safetensors file"),
    "empty": (lambda file: file.write_bytes(b""), "is not a whole safetensors file"),
    "text": (lambda file: file.write_text("not what it was" * 9), "is not a whole safetensors file"),
    "a folder": (lambda file: (file.unlink(), file.mkdir()), "is no file"),
    "a flipped bit": (flipped, "does not agree with its checksum"),
    "of others": (lambda file: save_file({"a": torch.ones(2)}, file), "does not agree with its checksum"),
    "without JSON": (lambda file: save_file({}, file, {"about": "{"}), "has a description that is not JSON"),
    "a list": (lambda file: save_file({}, file, {"about": "[1]"}), "has a description that is no JSON object"),
    "deep": (lambda file: save_file({}, file, {"about": "[" * 10**5}), "has a description that is not JSON"),
    "without steps": (lambda file: rewritten(file, step="3"), "has a description without a sound 'step'"),
    "beyond the end": (lambda file: rewritten(file, step=99), r"something else \(ValueError: step 99"),
    "without record": (lambda file: rewritten(file, record={}), r"something else \(KeyError"),
    "without weights": (without("experiment.learner"), r"something else \(RuntimeError"),
    "without state": (without("experiment."), r"something else \(ValueError: no state"),
}


def assert_same_files(one: Path, other: Path) -> None:
    """But for what is of the machine, and what was set aside."""
    for file in (file for file in one.rglob("*") if file.is_file() and file.name != "environment.json"):
        its = other / file.relative_to(one)
        if file.suffix != ".nc":  # compared below, by what it holds
            assert its.read_bytes() == file.read_bytes(), file.name
    runs, others = read_trajectory(one), read_trajectory(other)
    for arm in runs:
        xr.testing.assert_identical(runs[arm], others[arm])


@pytest.mark.parametrize("name", DAMAGE)
def test_what_is_damaged_is_set_aside_and_computed_again(whole, tmp_path, capfd, name):
    change, why = DAMAGE[name]
    out = tmp_path / "run"
    shutil.copytree(whole, out)
    if name == "without state":  # which is what a finished arm with axes looks like, but for being finished
        rewritten(out / FIRST, done=False)
    change(out / FIRST)
    found = (out / FIRST).read_bytes() if (out / FIRST).is_file() else None
    again = []
    with pytest.MonkeyPatch.context() as patch:
        advance = GradientTraining.advance
        patch.setattr(GradientTraining, "advance", lambda self, step: (again.append(step), advance(self, step))[1])
        run(Pull(), Settings(), out, resume=True)
    assert again == list(range(12))  # this shard, and not the others
    aside = out / f"{FIRST}.damaged"
    assert found is None or aside.read_bytes() == found
    (line,) = (line for line in capfd.readouterr().err.splitlines() if "damaged" in line)
    assert line.startswith(f"featscope: {out / FIRST} ")
    assert re.search(why, line)
    assert_same_files(whole, out)


def test_what_was_set_aside_before_stays(tmp_path, capfd):
    folder = RunFolder.create(tmp_path)
    for content in ("one", "two", "three"):
        (tmp_path / FIRST).write_text(content)
        assert folder.read_tensors(FIRST) is None
    aside = {file.name: file.read_text() for file in (tmp_path / "checkpoint").iterdir()}
    name = Path(FIRST).name
    assert aside == {f"{name}.damaged": "one", f"{name}.damaged.2": "two", f"{name}.damaged.3": "three"}
    assert len(capfd.readouterr().err.splitlines()) == 3


def test_what_may_not_be_read_is_an_error_and_stays(tmp_path, monkeypatch):
    folder = RunFolder.create(tmp_path)
    folder.write_tensors(FIRST, TENSORS, ABOUT)

    def denied(self, mode):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(ConfigError, match=r"pulled.0.0.safetensors cannot be read \(Permission denied\)"):
        folder.read_tensors(FIRST)
    assert (tmp_path / FIRST).exists()


def test_weights_have_a_checksum_too(whole):
    with safe_open(whole / "weights" / "pulled.safetensors", framework="pt") as file:
        assert list(file.metadata()) == ["checked"]
    assert RunFolder(whole).read_tensors("weights/pulled.safetensors")[1] == {"arm": "pulled"}
