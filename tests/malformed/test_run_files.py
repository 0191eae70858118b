"""Files of a run folder that are not what a run wrote: `report` and `run --resume` say so and leave them."""

import json
import shutil
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from broken_bytes import BYTES, JSON
from calling import call, refused, require_refused, require_refused_or_begun
from hypothesis import settings

from featscope.runs.checksum import sealed

pytestmark = pytest.mark.timeout(120)

RUN = ("run", "tensor-power", "--sequences", "6", "--steps", "8", "--replicas", "2", "--out", "run")
RESUME = (*RUN, "--resume")
REPORT = ("report", "run")
READ = {
    "config.json": (REPORT, RESUME),
    "environment.json": (REPORT, RESUME),
    "claims.json": (REPORT,),
    "trajectory.nc": (REPORT,),
}
"""Files, and the commands that read them."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with a run in it, which each test leaves as it was."""
    place = tmp_path_factory.mktemp("whole")
    ended = call(*RUN, within=place, goes="to the end")
    assert ended.code == 0, ended
    return place


@pytest.fixture
def spoil(folder) -> Iterator[Callable[[str, Callable[[Path, bytes], Any]], None]]:
    """Change a file of the run until the end of the test."""
    before: dict[Path, bytes] = {}

    def change(name: str, to: Callable[[Path, bytes], Any]) -> None:
        file = folder / "run" / name
        before[file] = file.read_bytes()
        to(file, before[file])

    yield change
    for file, content in before.items():
        shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)
        file.write_bytes(content)


def gone(file: Path, content: bytes) -> None:
    file.unlink()


def a_folder(file: Path, content: bytes) -> None:
    file.unlink()
    file.mkdir()


def a_link_to_itself(file: Path, content: bytes) -> None:
    file.unlink()
    file.symlink_to(file)


NOT_FILES = (gone, a_folder, a_link_to_itself)


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("how", [*BYTES, *JSON])
def test_a_file_with_other_bytes(folder, spoil, name, how):
    if how in JSON and not name.endswith(".json"):
        pytest.skip("no JSON")
    spoil(name, lambda file, sound: file.write_bytes((BYTES | JSON)[how](sound)))
    for words in READ[name]:
        refused(*words, within=folder, names=[name])


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("how", NOT_FILES)
def test_what_is_no_file(folder, spoil, name, how):
    spoil(name, how)
    for words in READ[name]:
        ended = call(*words, within=folder)
        if name == "environment.json" and how in (gone, a_link_to_itself) and words == RESUME:  # as the cure says
            assert ended.code is None
            continue
        require_refused(ended, [name, "--out"])


def _set(found: Any, path: tuple[str | int, ...], value: Any) -> None:
    for part in path[:-1]:
        found = found[part]
    if value is GONE:
        del found[path[-1]]
    else:
        found[path[-1]] = value


GONE = object()
CHANGES = {
    "gone": GONE,
    "null": None,
    "true": True,
    "a word": "word",
    "a number": 7,
    "negative": -3,
    "a fraction": 0.5,
    "NaN": float("nan"),
    "infinite": float("inf"),
    "4,000 digits": 10**4000,
    "a list": [1],
    "empty": [],
    "three of them": [1, 2, 3],
    "reversed": [2, 1],
    "an object": {"a": 1},
    "deep": [[[[[[[["a"]]]]]]]],
}
NEVER = {"infinite", "NaN", "4,000 digits"}
KINDS = {bool: "true", str: "a word", int: "a number", float: "a fraction", list: "a list", dict: "an object"}
PLACES = {
    "config.json": [(key,) for key in ("study", "seed", "replicas", "device", "config", "shard_size")],
    "environment.json": [
        (key,) for key in ("python", "packages", "platform", "processor", "device", "git_revision", "cores", "seconds")
    ],
    "claims.json": [
        *((key,) for key in ("study", "seed", "replicas", "config", "claims", "level", "diverged")),
        *(
            ("claims", 0, key)
            for key in (
                "id",
                "source",
                "statement",
                "arm",
                "relation",
                "predicted",
                "measured",
                "interval",
                "n",
                "kind",
            )
        ),
        *(("claims", 0, key) for key in ("verdict", "tolerance", "expected", "values", "range", "law", "trials")),
    ],
}


ALL = settings.default.max_examples > 1000  # the profile of `make fuzz`
_PLACES = [(name, path) for name, paths in PLACES.items() for path in paths]
_TURNS = list(CHANGES)
FIELDS = [
    pytest.param(name, path, change, id=f"{name} {path} {change}")
    for turn, (name, path) in enumerate(_PLACES)
    for change in (_TURNS if ALL else [_TURNS[3 * turn % len(_TURNS)]])
]


@pytest.mark.parametrize(("name", "path", "change"), FIELDS)
def test_a_field_with_another_value(folder, spoil, name, path, change):
    found = json.loads((folder / "run" / name).read_bytes())
    holds = found
    for part in path:
        holds = holds.get(part) if isinstance(holds, dict) else holds[part]
    changed = deepcopy(found)
    del changed["checksum"]
    if change == "gone" and holds is None:
        pytest.skip("it is not there")
    _set(changed, path, CHANGES[change])
    written = json.dumps(changed).encode() if change in NEVER else sealed(changed)  # as if a version had written it
    spoil(name, lambda file, sound: file.write_bytes(written))
    wrong = change in NEVER or (holds is not None and _another_kind(holds, CHANGES[change]))
    for words in READ[name]:
        ended = call(*words, within=folder)
        if wrong:
            require_refused(ended, [name])
        else:  # null for a number that is not finite, say; or an option that is another than before
            require_refused_or_begun(ended, [name, "--resume", "STUDY"])


def _another_kind(one: Any, other: Any) -> bool:
    kinds = (str, bool, int | float, list, dict)
    kind = next(kind for kind in kinds if isinstance(one, kind))
    return other is not GONE and other is not None and not isinstance(other, kind)


@pytest.mark.parametrize("name", [name for name in READ if name.endswith(".json")])
def test_a_field_too_many(folder, spoil, name):
    spoil(name, lambda file, sound: file.write_text(json.dumps(json.loads(sound) | {"η\x07": 1})))
    for words in READ[name]:
        refused(*words, within=folder, names=[name])


def _checkpoint(folder: Path) -> str:
    return next(str(file.relative_to(folder / "run")) for file in sorted((folder / "run").rglob("*.safetensors")))


@pytest.mark.parametrize(
    "how", [how if how in ("half", "zeros") else pytest.param(how, marks=pytest.mark.long) for how in BYTES]
)
def test_a_checkpoint_with_other_bytes_is_set_aside_and_said(folder, tmp_path, how):
    shutil.copytree(folder / "run", tmp_path / "run")
    file = tmp_path / "run" / _checkpoint(folder)
    file.write_bytes(BYTES[how](file.read_bytes()))
    ended = call(*RESUME, within=tmp_path, goes="to the end")
    assert ended.code == 0, ended
    assert file.name in ended.err
    assert (tmp_path / "run" / "claims.json").read_bytes() == (folder / "run" / "claims.json").read_bytes()
