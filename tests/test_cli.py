"""The command line: what it prints, what it refuses, and how it ends."""

import gc
import json
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field, make_dataclass
from importlib.resources import files
from io import StringIO
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
import pytest
from rich.console import Console

from featscope import __version__, cli
from featscope.claims import Claim
from featscope.cli import COMMANDS, USAGE, main
from featscope.commands import run as commands
from featscope.commands.parsing import as_typed, program, typed_options
from featscope.commands.show import card_of, stored_card
from featscope.commands.sweep import axis_values
from featscope.data import Images, SparseTokens, class_sizes
from featscope.losses import InfoNCE
from featscope.options import ConfigError
from featscope.registry import entries, find
from featscope.streams import Streams
from featscope.studies.decoupling import Decoupling
from featscope.tex import in_unicode
from featscope.training import SGD, Training
from in_terminal import call
from processes import SMALL, finish, start
from swept import ENTRY, Pull, installed


def test_without_a_command_it_shows_how_to_use_it(capfd):
    code, out, _ = call(capfd)
    assert code == 2
    assert all(
        f"featscope {command}" in out
        for command in (
            "list",
            "show",
            "run",
            "sweep",
            "trend",
            "report",
            "verify",
            "check",
            "new",
            "judge",
            "compare",
            "ledger",
            "export",
            "watch",
            "open",
        )
    )
    assert call(capfd, "--help")[:2] == (0, out)


def test_exit_codes_of_claims_that_raise_and_of_equal_replicas_are_told():
    page = (Path(__file__).parents[1] / "docs" / "concepts.md").read_text()
    two, three = (re.search(rf"^\| {code} \| (.*) \|$", page, re.M)[1] for code in (2, 3))
    assert "code of a claim raises" in two
    assert "featscope judge DIR" in two
    assert "replicas are equal" in three
    codes = " ".join(USAGE.partition("Exit codes")[2].split())
    assert "or code of your own raised: mend it; that of a claim, then featscope judge DIR" in codes
    assert "replicas are equal" in codes


@pytest.mark.parametrize(
    ("called", "found", "printed"),
    [
        ("-c", None, "featscope"),
        ("/there/bin/featscope", "/there/bin/featscope", "featscope"),
        (".venv/bin/featscope", None, ".venv/bin/featscope"),
        (".venv/bin/featscope", "/elsewhere/featscope", ".venv/bin/featscope"),
    ],
)
def test_commands_are_printed_as_the_shell_finds_them(monkeypatch, called, found, printed):
    monkeypatch.setattr("sys.argv", [called])
    monkeypatch.setattr("featscope.commands.parsing.which", lambda name: found)
    assert program() == printed


@pytest.mark.parametrize(
    "words",
    [
        ["run", "tensor-power", "--out="],
        ["run", "tensor-power", "--out", ""],
        ["export", "--overwrite", ""],
        ["report", ""],
    ],
)
def test_what_an_unset_variable_leaves_is_no_folder(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "= '' is empty, as an unset variable of a shell is: give it, or leave it out" in capsys.readouterr().err


@pytest.mark.parametrize("width", range(30, 131, 5))
def test_every_name_and_every_verdict_is_in_the_terminal_whole(monkeypatch, width):
    about = {"source": "s", "statement": "x", "kind": "bound"}
    samples = np.array([5.0, 6.0, 7.0])
    claims = [
        Claim.from_samples(samples, ">", 6.1, id="a-claim-of-a-long-name", arm="an-arm", **about),
        Claim.from_samples(samples, "<", 100.0, id="another", arm="b", expected=False, **about),
        Claim.from_samples(samples, "<", 0.0, id="third", arm="of-the-longest-name", **about),
    ]
    said = StringIO()
    monkeypatch.setattr(commands, "Console", lambda **_: Console(file=said, width=width))
    commands.print_verdicts("study", claims)
    printed = said.getvalue()
    for word in ("undecided", "holds", "fails", *(name for claim in claims for name in (claim.id, claim.arm))):
        assert re.search(rf"(?<![\w-]){word}(?![\w-])", printed), word


def test_no_word_sets_no_option():
    assert typed_options([]) == {}
    assert typed_options(["--a", "1", "--b_c=2", "--d"]) == {"--a": "1", "--b-c": "2", "--d": ""}


@pytest.mark.parametrize(
    ("one", "relation", "other", "texts"),
    [
        (1.0, ">=", 0.5, (">= 1", "0.5")),
        (0.9999, ">", 0.99984, ("> 0.9999", "0.9998")),
        (0.9999, ">=", 0.9999, (">= 1", "1")),
        (1.0, "=", 1.0000000002, ("= 1 ± 0", "1.0000000002")),
        (1.0, "=", 1.0, ("= 1 ± 0", "1")),
        (1 / 3, "<=", float("nan"), ("<= 0.333", "nan")),
    ],
)
def test_a_bound_and_a_measurement_are_told_apart(one, relation, other, texts):
    assert commands.told_apart(one, other, relation) == texts


def test_the_table_marks_what_goes_against_expectation_at_default_options_and_nothing_undecided(capfd):
    about = {"source": "Lemma 1", "statement": "", "kind": "bound", "arm": "a"}
    claims = [
        Claim.from_samples(samples, ">=", 0.0, id=id, expected=expected, **about)
        for id, samples, expected in [
            ("open", [-1.0, 1.1], True),
            ("lost", [-1.0, -1.001], True),
            ("won", [1.0, 1.001], False),
            ("doubted", [-1.0, 1.1], False),
            ("known", [-1.0, -1.001], False),
        ]
    ]
    assert [claim.verdict for claim in claims] == ["undecided", "fails", "holds", "undecided", "fails"]
    commands.print_verdicts("a", claims)
    said = {line.split()[0]: line for line in capfd.readouterr().out.splitlines() if " a " in line}
    assert [id for id, line in said.items() if "(unexpected)" in line] == ["lost", "won"]
    assert [id for id, line in said.items() if "(not expected to hold)" in line] == ["doubted", "known"]
    commands.print_verdicts("a", claims, at_defaults=False)
    assert "(unexpected)" not in capfd.readouterr().out


def test_the_table_shows_names_of_claims_as_they_are_written(capfd):
    about = {"source": "Lemma 1", "statement": "", "kind": "bound"}
    claims = [
        Claim.from_samples([1.0, 1.1], ">=", 0.0, id=id, arm=arm, **about)
        for id, arm in (("rate[fast]", "a"), ("rate", "b[/b]"))
    ]
    commands.print_verdicts("a", claims)
    out = capfd.readouterr().out
    assert "rate[fast]" in out
    assert "b[/b]" in out


def test_the_version(capfd):
    assert call(capfd, "--version")[:2] == (0, f"{__version__}\n")


def test_list_names_the_studies_also_as_json(capfd):
    code, out, _ = call(capfd, "list")
    assert code == 0
    assert "decoupling" in out
    code, out, _ = call(capfd, "list", "--json")
    (entry,) = [entry for entry in json.loads(out) if entry["name"] == "decoupling"]
    assert entry["source"] == "Wen & Li 2021, arXiv 2105.15134"
    assert entry["minutes"] > 0


def test_show_has_every_statement_with_its_source_and_every_option_with_its_default(capfd):
    code, out, _ = call(capfd, "show", "decoupling")
    assert code == 0
    joined = " ".join(out.split())
    for statement in Decoupling.statements():
        assert f"{statement.source}; {statement.id}" in joined
        for words in (statement.title, statement.text, statement.measured, statement.note):
            assert " ".join(in_unicode(words).split()) in joined
    assert "--optimizer.lr = 0.25" in out
    assert "--data.input-dim = 512\n      dimension of the input, d1; a power of two" in out
    assert "optimizer:sgd, optimizer:torch-optimizer" in out


OWN = [entry for entry in entries().values() if entry.target.startswith("featscope.")]


@pytest.mark.parametrize("entry", OWN, ids=lambda entry: entry.name)
def test_the_card_that_show_reads_is_that_of_the_study(entry):
    """If it is not: `make cards`."""
    assert stored_card(entry) == json.loads(json.dumps(card_of(entry.name)))


def test_every_study_has_a_card_and_there_are_no_others():
    cards = files("featscope") / "cards"
    assert {card.name for card in cards.iterdir()} == {f"{entry.name}.json" for entry in OWN}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["list"], 0, "decoupling"),
        (["list", "--json"], 0, "decoupling"),
        (["show", "decoupling"], 0, "decoupling"),
        (["show", "gemfilter"], 0, "gemfilter"),
        (["run", "decuopling"], 2, "STUDY = 'decuopling' is unknown"),
    ],
)
def test_what_needs_nothing_heavy_imports_nothing_heavy(words, code, said):
    """In a process of its own, which says what it has imported when it ends."""
    program = f"""
import atexit, sys
heavy = {{"torch", "scipy", "sklearn", "transformers", "matplotlib", "xarray"}}
atexit.register(lambda: print(*heavy & set(sys.modules), file=sys.stderr))
from featscope.cli import main
main({words})
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    *errors, heavy = done.stderr.splitlines()
    assert (done.returncode, heavy) == (code, "")
    assert said in (done.stdout if code == 0 else errors[0])


def test_a_study_of_another_package_is_shown_without_a_card(tmp_path, monkeypatch, capfd):
    installed(tmp_path / "package")
    monkeypatch.syspath_prepend(tmp_path / "package")
    code, out, err = call(capfd, "show", "pull")
    assert code == 0, err
    assert "Numbers are pulled towards a target." in out
    assert "--data.noise = 0.1" in out


def test_check_says_how_much_of_a_study_is_sound(tmp_path, monkeypatch, capfd):
    installed(tmp_path / "package")
    monkeypatch.syspath_prepend(tmp_path / "package")
    code, out, err = call(capfd, "check", "pull")
    assert code == 0, err
    assert re.fullmatch(r"pull: 2 arms took a step, 0 claims and 1 figures are sound \(\d+\.\d s\)\n", out)


@pytest.mark.parametrize(
    ("field", "words"),
    [
        *((name, ["run"]) for name in ("seed", "device", "replicas", "out", "json", "quiet", "resume", "memory_limit")),
        ("help", ["run"]),
        ("seed", ["check"]),
        ("engine", ["sweep"]),
        ("sizes", ["trend"]),
    ],
)
def test_a_study_whose_option_every_study_has_is_refused_by_name(monkeypatch, capfd, field, words):
    kind = make_dataclass("Named", [(field, int, 1)], bases=(Pull,), frozen=True)
    monkeypatch.setattr("featscope.commands.run.find", lambda name: (ENTRY, kind))
    monkeypatch.setattr("featscope.registry.entry", lambda name: ENTRY)
    code, _, err = call(capfd, *words, "pull")
    assert code == 2
    command = "run" if words == ["check"] else words[0]
    typed = field.replace("_", "-")
    assert f"Named.{field} cannot be an option: `featscope {command}` has --{typed} for all studies. Rename" in err


def test_an_option_may_have_the_name_of_one_that_another_command_has(monkeypatch):
    kind = make_dataclass("Named", [("sizes", int, 1)], bases=(Pull,), frozen=True)
    monkeypatch.setattr("featscope.commands.run.find", lambda name: (ENTRY, kind))
    chosen, _, _ = commands.study_options("run", "pull", ["--sizes", "3"])
    assert chosen.study.sizes == 3


def test_check_lists_the_problems_of_a_study(tmp_path, monkeypatch, capfd):
    installed(tmp_path / "package")
    monkeypatch.syspath_prepend(tmp_path / "package")
    monkeypatch.setattr("swept.Pull.watch", lambda self, experiment: experiment.nothing)
    code, out, err = call(capfd, "check", "pull")
    assert (code, out) == (2, "")
    assert "pull has 1 problem: the arms 'pulled' and 'other' cannot take a step: AttributeError" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["walk"],
            "'walk' is no command: allowed is " + ", ".join(COMMANDS),
        ),
        (
            ["show", "nothing"],
            "STUDY = 'nothing' is unknown: allowed is one of attention-circuits,",
        ),
        (["show", "decoupling", "more"], "'more' is too much"),
        (
            ["run"],
            "usage: featscope run STUDY [options], with STUDY: one of attention-circuits,",
        ),
        (["run", "nothing"], "STUDY = 'nothing' is unknown"),
        (
            ["sweep"],
            "usage: featscope sweep STUDY [options], with STUDY: one of attention-circuits,",
        ),
        (
            ["trend"],
            "usage: featscope trend STUDY [options], with STUDY: one of attention-circuits,",
        ),
        (
            ["trend", "needle"],
            "needle declares no ladder to climb: allowed are decoupling, imbalance, prediction-head, tensor-power, and",
        ),
        (["trend", "tensor-power", "--axis", "e"], "--axis = 'e' is no ladder of tensor-power: allowed is one of d,"),
        (["trend", "tensor-power", "--sizes", "1", "2"], "--sizes = (1.0, 2.0) is out of range: allowed is 6 positive"),
        (["sweep", "decoupling"], "--axis is missing: allowed is at least one axis, --axis NAME=SPEC"),
        (["report"], "usage: featscope report DIR"),
        (["watch", "no-such-folder"], "no-such-folder/config.json is missing"),
        (
            ["open", "no-such-folder"],
            "DIR = 'no-such-folder' holds no run: allowed is a run folder, or one with runs below it",
        ),
        (["list", "--runs", "runs", "--json"], "allowed is no folder together with --json"),
        (["run", "decoupling", "--quiet", "--json"], "--quiet and --json exclude each other: give one of them"),
        (["sweep", "decoupling", "--json", "--quiet"], "--quiet and --json exclude each other: give one of them"),
        (["report", "no-such-folder"], "no-such-folder/config.json is missing"),
        (["verify", "decoupling", "nothing"], "STUDY = 'nothing' is unknown"),
        (["check"], "usage: featscope check STUDY"),
        (["check", "nothing"], "STUDY = 'nothing' is unknown"),
        (["check", "decoupling", "--steps"], "'--steps' is too much"),
        (
            ["judge"],
            "usage: featscope judge DIR [--study MODULE:CLASS], or featscope judge TABLE.csv [--n N] [--error-is",
        ),
        (["judge", "no-such.csv"], "no-such.csv cannot be read (No such file or directory): allowed is a CSV file"),
        (["judge", "no-such.csv", "--n", "1"], "--n = 1 is out of range: allowed is >= 2"),
        (["judge", "no-such.csv", "--error-is", "std"], "sample"),
    ],
)
def test_wrong_words_are_refused(capfd, words, message):
    code, _, err = call(capfd, *words)
    assert code == 2
    assert message in err


@pytest.mark.parametrize("words", [["show", "--help"], ["check", "decoupling", "--help"], ["report", "x", "-h"]])
def test_commands_without_options_have_help_and_name_none(capfd, words):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert not ended.value.code
    said = capfd.readouterr().out
    assert said.startswith(f"usage: featscope {words[0]} ")
    assert "[options]" not in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--data.features", "2"], "^featscope: --data.features = 2 is out of range: allowed is >= 3"),
        (
            ["--data.features", "5"],
            "--data = SparseCoding.features=5, .* is out of range: allowed is data with features >= 6",
        ),
        (["--data.input-dim", "100"], "--data.input-dim = 100 is out of range: allowed is a power of two"),
        (["--data.input-dim", "32"], "--data = .*input_dim=32, .* allowed is data with input_dim > features"),
        (["--data.noise", "0"], "--data = .*noise=0.0.* allowed is data with noise > 0"),
        (["--data.noise", "inf"], "--data.noise = inf is out of range: allowed is >= 0, and finite"),
        (["--data.dictionary", "fourier"], "hadamard.*qr.*canonical"),
        (["--learner.width", "0"], "--learner.width = 0 is out of range: allowed is >= 1"),
        (["--objective.anchors", "0"], "--objective.anchors = 0 is out of range: allowed is >= 1"),
        (["--objective.loss.temperature", "0"], "--objective.loss.temperature = 0.0 is out of range: allowed is > 0"),
        (["--optimizer.lr", "nan"], "--optimizer.lr = nan is out of range: allowed is > 0"),
        (["--bias.feature-energy", "1"], "--bias.feature-energy = 1.0 .* between 0 and 1"),
        (["--steps", "0"], "--steps = 0 is out of range: allowed is >= 1"),
        (["--steps", "many"], "--steps.* INT"),
        (["--probe-every", "0"], "--probe-every = 0 is out of range: allowed is >= 1"),
        (["--replicas", "0"], "--replicas = 0 is out of range: allowed is 1 to"),
        (["--seed", str(2**63)], "--seed = 9223372036854775808 is out of range"),
        (["--device", "tpu"], "--device = 'tpu' .* allowed is cpu, cuda or cuda:N"),
        (["--device", "cuda:99"], "--device = 'cuda:99' .* allowed is a device that torch sees"),
        (["--memory-limit", "0"], "--memory-limit = 0.0 .* > 0 GiB"),
        (["--memory-limit", "0.0001"], "--memory-limit = 0.0001 GiB .* needs .* Raise --memory-limit"),
        (["--nonsense", "1"], "Unrecognized options: --nonsense"),
        (["optimizer:nonsense"], "Unrecognized options: optimizer:nonsense .*optimizer:torch-optimizer"),
        (["optimizer:torch-optimizer", "--optimizer.name", "Nonsense"], "--optimizer.name = 'Nonsense' is out of"),
        (["objective:sign-labels"], "Unrecognized options: objective:sign-labels"),
        (["--resume", "--overwrite"], "--resume and --overwrite exclude each other"),
        (["--resume"], "featscope: --out = .* holds no run to resume"),
    ],
)
def test_bad_options_exit_with_2_naming_field_value_and_range_and_leave_nothing(capfd, tmp_path, options, message):
    out = tmp_path / "run"
    code, _, err = call(capfd, "run", "decoupling", "--out", out, *options)
    assert code == 2
    assert re.search(message, err), err
    assert list(tmp_path.iterdir()) == []


def test_a_default_folder_is_not_made_for_a_refused_run(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in (["--memory-limit", "0.0001"], ["--steps", "0"], ["--data.features", "5"]):
        assert call(capfd, "run", "decoupling", *words)[0] == 2
    assert list(tmp_path.iterdir()) == []


@dataclass(frozen=True)
class Two:
    """Options of one class at two places.

    Attributes:
        slow: one.
        fast: the other.
    """

    slow: SGD = field(default_factory=SGD)
    fast: SGD = field(default_factory=SGD)


def test_an_option_that_could_be_one_of_two_is_named_as_either():
    with pytest.raises(ConfigError, match=r"^--slow\.lr or --fast\.lr = -1\.0 is out of range"), as_typed(Two):
        SGD(lr=-1.0)
    with pytest.raises(ConfigError, match=r"^InfoNCE\.temperature = 0\.0 is out of range"), as_typed(Two):
        InfoNCE(temperature=0.0)


@pytest.mark.parametrize(
    ("said", "typed"),
    [
        ("slow = './x' is no folder", "--slow = './x' is no folder"),
        ("other = 3 is out of range", "other = 3 is out of range"),
        ("run; changed: config.config.study.slow.lr: 1 -> 2", "run; changed: --slow.lr: 1 -> 2"),
        ("run; changed: config.config.slow.type: 'A' -> 'B'", "run; changed: config.config.slow.type: 'A' -> 'B'"),
    ],
)
def test_options_without_an_owner_are_named_as_they_are_typed(said, typed):
    with pytest.raises(ConfigError) as refused, as_typed(Two):
        raise ConfigError(said)
    assert str(refused.value) == typed


@pytest.mark.parametrize(
    ("study", "build", "said"),
    [
        (
            "longtail-images",
            lambda at: class_sizes(10, 50, 100.0),
            "--imbalance = 100 .* at most 50, .* Take more images",
        ),
        (
            "longtail-images",
            lambda at: Images("shapes", 4, 4).build(at).sample(at, 9),
            "--batch = 9 .* at most 4, .* Take smaller batches",
        ),
        (
            "imbalance",
            lambda at: SparseTokens().build(at).projected_pairs(at, 2),
            "--objective.noise = 'projected' .* allowed is 'dense'",
        ),
    ],
)
def test_what_data_refuse_is_named_as_the_option_is_typed(study, build, said):
    with pytest.raises(ConfigError, match=f"^{said}"), as_typed(find(study)[1]):
        build(Streams(0, [0]).at("data"))


def test_another_kind_of_part_is_named_last_before_its_own_options(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(commands, "report_run", lambda out: out / "report.html")
    out = tmp_path / "run"
    small = [
        "--steps",
        "5",
        "--replicas",
        "2",
        "--data.features",
        "6",
        "--data.input-dim",
        "32",
        "--learner.width",
        "8",
    ]
    kind = ["optimizer:torch-optimizer", "--optimizer.name", "AdamW", "--optimizer.lr", "0.01"]
    assert call(capfd, "run", "decoupling", "--out", out, *small, *kind)[0] == 0
    optimizer = json.loads((out / "config.json").read_text())["config"]["optimizer"]
    assert {key: optimizer[key] for key in ("name", "lr")} == {"name": "AdamW", "lr": 0.01}
    claims = json.loads((out / "claims.json").read_text())["claims"]
    assert not any(claim["expected"] for claim in claims if claim["id"] == "stage1-trajectory")


@pytest.mark.parametrize("out", [[], ["--out", "my runs/one"]])
@pytest.mark.parametrize("typed", [[], ["--resume"], ["--overwrite"], ["--no-resume"]])
def test_the_command_that_goes_on_is_read_where_a_part_is_of_another_kind(tmp_path, monkeypatch, out, typed):
    monkeypatch.chdir(tmp_path)
    kind = ["optimizer:torch-optimizer", "--optimizer.lr", "0.01"]
    if typed == ["--resume"] and not out:
        with pytest.raises(ConfigError, match="--resume needs --out"):
            commands.study_options("run", "decoupling", [*typed, *kind])
        return
    chosen, folder, again = commands.study_options("run", "decoupling", [*typed, "--seed", "1", *out, *kind])
    folder.mkdir(parents=True)
    (folder / "config.json").touch()
    for to_replace, resume in ((None, True), (commands._written(folder), False)):
        _, said = commands._to_go_on(folder, to_replace, again)
        called, command, name, *words = shlex.split(said)
        assert (called, command, name) == (program(), "run", "decoupling")
        read, where, _ = commands.study_options("run", "decoupling", words)
        assert (read.study, read.settings, where) == (chosen.study, chosen.settings, folder)
        assert (read.resume, read.overwrite) == (resume, not resume)


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        ("0.1:1.0:10", (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)),
        ("1:0:3", (1.0, 0.5, 0.0)),
        ("-1e-3:1e-3:2", (-0.001, 0.001)),
        ("0.01,0.03", (0.01, 0.03)),
        ("7", (7.0,)),
    ],
)
def test_an_axis_is_a_range_with_its_ends_or_a_list(spec, values):
    assert axis_values(f"noise={spec}", spec) == values


@pytest.mark.parametrize(
    "axis", ["noise", "noise=", "noise=a", "noise=1:2", "noise=1:2:1", "noise=1:2:3.5", "noise=1,,2"]
)
def test_an_axis_that_cannot_be_read_is_refused_with_how_to_write_it(capfd, tmp_path, axis):
    code, _, err = call(capfd, "sweep", "decoupling", "--axis", axis, "--out", tmp_path / "run")
    assert code == 2
    assert f"--axis '{axis}' cannot be read: allowed is NAME=first:last:count with count >= 2, the same with " in err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        (["--optimizer.lr", "0.7"], "0.7"),
        (["--optimizer.lr", "0.25"], "0.25"),  # the default
        (["--optimizer.lr=0.25"], "0.25"),
        (["optimizer:torch-optimizer", "--optimizer.lr", "0.001"], "0.001"),
    ],
)
def test_an_option_that_an_axis_sets_is_refused(capfd, tmp_path, typed, value):
    words = ["--axis", "lr=0.1,0.2", "--steps", "1", "--replicas", "1", "--out", tmp_path / "run", *typed]
    code, _, err = call(capfd, "sweep", "decoupling", *words)
    assert code == 2
    assert f"--optimizer.lr = {value} would be lost: --axis lr=0.1,0.2 sets it at every point. Leave it out" in err
    assert not (tmp_path / "run").exists()


def test_an_option_that_an_axis_sets_may_be_typed_as_one_of_its_values(tmp_path, monkeypatch, capfd):
    installed(tmp_path / "package")
    monkeypatch.syspath_prepend(tmp_path / "package")
    monkeypatch.setattr("featscope.commands.run.report_run", lambda out: out)
    words = ["--axis", "width=1:3:3", "--width", "3", "--replicas", "2", "--out", tmp_path / "run"]
    code, out, err = call(capfd, "sweep", "pull", *words)
    assert code == 0, err
    assert "3 points over width, 2 replicas each; none diverged." in out


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (["nose=1,2"], "axis 'nose' is no numeric option of decoupling: allowed is one of data.features,"),
        (["data.features=8,2"], "--data.features = 2 is out of range: allowed is >= 3"),
        (["features=8,9.5"], "--data.features = 9.5 is out of range: allowed is a whole number"),
        (["noise=0.5,0"], r"noise=0.0\) .* allowed is data with noise > 0"),
        (["noise=1,1"], "values of data.noise = 1,1: allowed are one or more, all different"),
        (["noise=1,2", "data.noise=3"], "--axis is given for noise, noise: allowed are different ones"),
    ],
)
def test_axes_of_a_sweep_are_checked_before_any_work(capfd, tmp_path, axes, message):
    words = [word for axis in axes for word in ("--axis", axis)]
    code, _, err = call(capfd, "sweep", "decoupling", *words, "--out", tmp_path / "run")
    assert code == 2
    assert re.search(message, err), err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("axis", "said"),
    [
        ("noise=0.1,0.5", "2 points run as one program."),
        ("width=1:3:3", "3 points run as 3 programs: width changes the shapes of tensors."),
    ],
)
def test_a_sweep_says_beside_its_results_how_many_programs_it_runs(tmp_path, monkeypatch, capfd, axis, said):
    installed(tmp_path / "package")
    monkeypatch.syspath_prepend(tmp_path / "package")
    monkeypatch.setattr("featscope.commands.run.report_run", lambda out: out)
    code, out, err = call(capfd, "sweep", "pull", "--axis", axis, "--replicas", "2", "--out", tmp_path / "run")
    assert (code, err) == (0, said)
    assert f"points over {axis.partition('=')[0]}, 2 replicas each; none diverged." in out


def test_a_folder_with_files_is_refused_before_any_work(capfd, tmp_path, monkeypatch):
    (tmp_path / "thesis.tex").write_text("years of work")
    monkeypatch.setattr(Training, "build", lambda self, streams: 1 / 0)
    code, _, err = call(capfd, "run", "decoupling", "--out", tmp_path)
    assert code == 2
    assert "holds files, and no run: choose another folder" in err
    for name in ("config.json", "environment.json"):  # of a run, though damaged
        (tmp_path / name).touch()
    code, _, err = call(capfd, "run", "decoupling", "--out", tmp_path)
    assert "is not empty: pass --resume to go on, --overwrite to replace (in Python resume=True, overwrite=True)" in err
    for name in ("config.json", "environment.json"):
        (tmp_path / name).unlink()
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_divergence_exits_with_3_naming_step_replica_and_quantity(tmp_path, capfd):
    out = tmp_path / "run"
    code, stdout, err = call(capfd, "run", "decoupling", "--out", out, *SMALL, "--optimizer.lr", "1e30")
    assert code == 3
    assert "featscope: training diverged: " in err
    assert re.search(r"(the loss|learner\.weight) of replica \d of the arm [a-z-]+ is not finite at step \d", err)
    assert "smaller learning rate (featscope show decoupling lists them)" in err
    assert "Traceback" not in err
    assert not (out / "claims.json").exists()
    assert (out / "config.json").exists()
    assert "holds" not in stdout


def test_a_watched_run_is_served_until_it_has_ended(tmp_path):
    """In a process of its own, whose server is asked for the page and then ends with it."""
    words = ["run", "pull", "--watch", "--quiet", "--out", tmp_path / "run", "--steps", "300"]
    process = start(*words, report=True, env=installed(tmp_path / "package"))
    address = process.stderr.readline().removeprefix("watch: ").strip()
    with urlopen(address, timeout=30) as answer:
        assert "Waiting for the run" in answer.read().decode()
    code, _, err = finish(process)
    assert (code, err) == (0, "")
    with pytest.raises(URLError):
        urlopen(address, timeout=5)


def test_only_a_process_of_its_own_keeps_what_there_is_from_being_garbage(monkeypatch):
    frozen: list[bool] = []
    monkeypatch.setattr("featscope.cli.gc.freeze", lambda: frozen.append(True))
    with pytest.raises(SystemExit):
        main(["list"])
    assert (gc.isenabled(), frozen) == (True, [])
    monkeypatch.setattr("sys.argv", ["featscope", "list"])
    with pytest.raises(SystemExit):
        main()
    assert (gc.isenabled(), frozen) == (True, [True])


def test_what_featscope_warns_of_is_a_line_without_a_place_in_its_code():
    own, other = str(Path(cli.__file__).with_name("report") / "run_report.py"), "elsewhere.py"
    assert cli.in_a_line("so", UserWarning, own, 7) == "featscope: so\n"
    assert cli.in_a_line("so", RuntimeWarning, own, 7).startswith(f"{own}:7: RuntimeWarning: so")
    assert cli.in_a_line("so", UserWarning, other, 7, line="x") == "elsewhere.py:7: UserWarning: so\n  x\n"
