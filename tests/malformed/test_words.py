"""Words of every command that cannot be meant."""

from pathlib import Path

import pytest
from calling import call, refused, require_refused_or_begun
from test_data_files import published

from featscope.cli import COMMANDS

pytestmark = pytest.mark.timeout(120)

LONG = "x" * 300
NOT_NAMES = ("", " ", "nothing", "η", LONG, "../../evil", "/", "a/b", "\x07", "\n", "[red]x[/red]", "{0}", "%s")
NUL = "a\0b"
SMALL = ("run", "tensor-power", "--sequences", "6")


@pytest.mark.parametrize("word", NOT_NAMES, ids=repr)
def test_a_command_that_is_not_there(tmp_path, word):
    refused(word, within=tmp_path, names=["is no command"])


BY_NAME = ["show", "run", "sweep", "trend", "verify", "check"]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        pytest.param(command, name, marks=[] if command == BY_NAME[turn % len(BY_NAME)] else [pytest.mark.long])
        for command in BY_NAME
        for turn, name in enumerate([*NOT_NAMES, NUL])
    ],
    ids=repr,
)
def test_a_study_that_is_not_there(tmp_path, command, name):
    refused(command, name, within=tmp_path, names=["STUDY = "])


WORDS = ["--nonsense", "--nonsense=1", "-x", "--", "---", LONG, f"--{LONG}", "--η", "--\x07"]


@pytest.mark.parametrize(
    ("command", "word"),
    [
        pytest.param(command, word, marks=[] if (at + turn) % 3 == 0 else [pytest.mark.long])
        for at, command in enumerate(COMMANDS)
        for turn, word in enumerate(WORDS)
    ],
    ids=repr,
)
def test_an_option_that_is_not_there(tmp_path, command, word):
    named = {"show": ["decoupling"], "run": ["decoupling"], "sweep": ["decoupling"], "trend": ["tensor-power"]}
    named |= {"check": ["decoupling"], "judge": ["table.csv"], "report": ["folder"], "generate": ["--prompt", "file"]}
    named |= {"compare": ["a", "b"], "export": ["folder"], "watch": ["folder"], "open": ["folder"], "new": ["walk"]}
    named["ledger"] = ["folder"]
    if word == "--" and command in ("verify", "list", "new"):
        pytest.skip("nothing follows it")
    ended = call(command, *named.get(command, []), word, within=tmp_path)
    assert ended.code == 2 or word == "--", ended
    require_refused_or_begun(ended)


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with a run, a table of published means and a prompt."""
    folder = tmp_path_factory.mktemp("place")
    ended = call(*SMALL, "--steps", "8", "--replicas", "2", "--out", "run", within=folder, goes="to the end")
    assert ended.code == 0, ended
    published(folder)
    (folder / "prompt.txt").write_text("a prompt")
    return folder


TAKEN = {
    "report": ["run"],
    "judge": ["run"],
    "judge a table": ["table.csv"],
    "watch": ["run"],
    "open": ["run"],
    "export": ["run"],
    "ledger": ["."],
    "compare": ["run"],
    "generate": ["--prompt", "prompt.txt", "--model", ".", "--layer", "1", "--keep", "1"],
}


@pytest.mark.parametrize("command", TAKEN)
def test_a_word_too_many_is_refused_by_name(place, command):
    """What stands before it is there, and would be taken."""
    ended = refused(command.split()[0], *TAKEN[command], "junk", within=place, names=["junk"])
    assert command != "report" or "report takes one folder; 'junk' is too much" in ended.err


NOT_FOLDERS = {
    "empty": "",
    "a file": "mine.txt",
    "below a file": "mine.txt/out",
    "too long": LONG,
    "too deep": "a/" * 3000,
    "a device": "/dev/null",
    "below a device": "/dev/null/out",
    "no rights, even for root": "/proc/featscope",
    "with files": "full",
}


@pytest.mark.parametrize("out", NOT_FOLDERS)
@pytest.mark.parametrize(
    "words",
    [SMALL, (*SMALL, "--resume"), ("sweep", "tensor-power", "--axis", "scale=1,2"), ("trend", "tensor-power")],
    ids=" ".join,
)
def test_a_folder_that_cannot_be_written(tmp_path, words, out):
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    refused(*words, "--out", NOT_FOLDERS[out], within=tmp_path, names=["--out", "out ="])


@pytest.mark.parametrize("out", [out for out in NOT_FOLDERS if out not in ("empty", "with files")])
def test_a_folder_that_cannot_be_read(tmp_path, out):
    (tmp_path / "mine.txt").write_text("mine")
    refused("report", NOT_FOLDERS[out], within=tmp_path)


@pytest.mark.parametrize("out", NOT_FOLDERS)
def test_a_ledger_where_it_cannot_be_or_of_what_is_no_folder(tmp_path, out):
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    refused("ledger", ".", "--out", NOT_FOLDERS[out], within=tmp_path, names=["--out"])
    if out not in ("empty", "with files"):
        refused("ledger", NOT_FOLDERS[out], "--out", "new", within=tmp_path, names=["FOLDER", "a word"])


def test_a_folder_with_nul_in_its_name(tmp_path):
    refused(*SMALL, "--out", NUL, within=tmp_path, names=["--out"])
    refused("ledger", ".", "--out", NUL, within=tmp_path, names=["--out"])
    refused("ledger", NUL, within=tmp_path, names=["FOLDER"])


def test_resume_without_a_run(tmp_path):
    refused(*SMALL, "--out", "none", "--resume", within=tmp_path, names=["--out"])
    refused(*SMALL, "--out", "none", "--resume", "--overwrite", within=tmp_path, names=["--resume"])


AXES = (
    "", "=", "scale", "scale=", "=1,2", "scale=1,,2", "scale=a", "scale=1:2", "scale=1:2:0", "scale=1:2:-3",
    "scale=1:2:nan", "scale=1:2:1000000000", "scale=1:2:" + "9" * 5000, "scale=nan", "scale=inf,1", "scale=1,1",
    "scale=1:1:3", "scale=nan:1:3", "scale=-inf:inf:3", "scale=1e308:-1e308:3", "nothing=1,2", "power=1.5,2",
    "power=1e400", "sequences=1e23", "steps=-1,0", "scale=0x1,2", "η=1", f"{LONG}=1,2",
    "scale=" + ",".join(map(str, range(20000))), "a.b.c=1", ".=1", "scale.=1", "scale=1=2", "scale=\0", "seed=1,2",
)  # fmt: skip


@pytest.mark.parametrize("axis", AXES, ids=lambda axis: repr(axis[:30]))
def test_an_axis_that_cannot_be_meant(tmp_path, axis):
    refused("sweep", "tensor-power", "--axis", axis, "--out", "out", within=tmp_path, goes="one step")


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--axis"],
        ["--axis", "scale=1,2", "--axis", "scale=3,4"],
        ["--axis", "scale=1:2:1000", "--axis", "spread=1:2:1000", "--axis", "start=1:2:1000"],
        ["--axis", "scale=1,2", "--engine", "cloud"],
        ["--axis", "scale=1,2", "--engine", ""],
        ["--axis", "scale=1,2", "--address", "nowhere"],
        ["--axis", "scale=1,2", "--engine", "ray", "--address", ""],
        ["--axis", "scale=1,2", "--engine", "ray", "--address", "http://"],
        ["--axis", "scale=1,2", "--engine", "ray", "--address", "\x07"],
        ["--axis", "scale=1,2", "--engine", "ray", "--address", "nowhere:99999999"],
    ],
    ids=" ".join,
)
def test_a_sweep_that_cannot_be_meant(tmp_path, words):
    refused("sweep", "tensor-power", *words, "--out", "out", within=tmp_path)


SIZES = (
    ["1", "2"], ["nan"] * 6, ["inf"] * 6, ["0"] * 6, ["-1", "2", "4", "8", "16", "32"],
    ["32", "16", "8", "4", "2", "1"], ["1", "1", "1", "1", "1", "1"],
    ["1e300", "2e301", "4e302", "8e303", "16e304", "32e305"], ["word"] * 6, [""], ["1.5"] * 6,
    ["4", "8", "16", "32", "64", "1e400"], ["9" * 5000] * 6, ["100", "1e6", "1e12", "1e15", "1e18", "1e21"],
)  # fmt: skip


@pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: " ".join(sizes)[:30])
@pytest.mark.parametrize("name", ["tensor-power", "decoupling"])
def test_a_ladder_that_cannot_be_climbed(tmp_path, name, sizes):
    ended = call("trend", name, "--sizes", *sizes, "--out", "out", within=tmp_path, goes="one step")
    require_refused_or_begun(ended, ["--sizes", "--memory-limit"])
    assert ended.code == 2 or (name == "tensor-power" and sizes[-1] in ("32e305", "1e21")), ended  # of any size


@pytest.mark.parametrize("axis", ["", "nothing", LONG, "\0", "steps"], ids=repr)
def test_a_ladder_that_is_not_there(tmp_path, axis):
    ended = call("trend", "tensor-power", "--axis", axis, "--out", "out", within=tmp_path, goes="one step")
    require_refused_or_begun(ended, ["--axis"])
    assert ended.code == 2 or axis == ""


@pytest.mark.parametrize(
    "words",
    [
        ["--strict", "maybe"],
        ["--out"],
        ["--out", "mine.txt", "tensor-power"],
        ["--out", LONG, "tensor-power"],
    ],
    ids=repr,
)
def test_verify_that_cannot_be_meant(tmp_path, words):
    (tmp_path / "mine.txt").write_text("mine")
    refused("verify", *words, within=tmp_path)
