"""The command line: what it prints, what it refuses, and how it ends."""

import json
import re
from pathlib import Path

import pytest

from featscope import __version__
from featscope.cli import _axis_values, main
from featscope.studies.decoupling import Decoupling
from processes import SMALL, finish, start


def call(capfd, *words: str | Path) -> tuple[int, str, str]:
    """Exit code, output and errors, lines joined and boxes taken off."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    out, err = capfd.readouterr()
    return ended.value.code, out, " ".join(err.replace("│", " ").split())


def test_without_a_command_it_shows_how_to_use_it(capfd):
    code, out, _ = call(capfd)
    assert code == 2
    assert all(f"featscope {command}" in out for command in ("list", "show", "run", "sweep", "report", "verify"))
    assert call(capfd, "--help")[:2] == (0, out)


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
    for statement in Decoupling.statements:
        assert f"{statement.id}  {statement.source}" in out
    assert "--optimizer.lr = 0.25" in out
    assert "--data.input-dim = 512" in out
    assert "optimizer:sgd, optimizer:torch-optimizer" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["walk"], "'walk' is no command: allowed is list, show, run, sweep, report, verify"),
        (["show", "nothing"], "STUDY = 'nothing' is unknown: allowed is one of decoupling,"),
        (["show", "decoupling", "more"], "'more' is too much"),
        (["run"], "usage: featscope run STUDY [options], with STUDY: one of decoupling,"),
        (["run", "nothing"], "STUDY = 'nothing' is unknown"),
        (["sweep"], "usage: featscope sweep STUDY [options], with STUDY: one of decoupling,"),
        (["sweep", "decoupling"], "Sweep.axes = () is out of range: allowed is at least one axis, --axis NAME=SPEC"),
        (["report"], "usage: featscope report DIR"),
        (["report", "no-such-folder"], "no-such-folder/config.json is missing"),
        (["verify", "decoupling", "nothing"], "STUDY = 'nothing' is unknown"),
    ],
)
def test_wrong_words_are_refused(capfd, words, message):
    code, _, err = call(capfd, *words)
    assert code == 2
    assert message in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--data.features", "2"], "SparseCoding.features = 2 is out of range: allowed is >= 3"),
        (["--data.features", "5"], "features=5, .* is out of range: allowed is data with features >= 6"),
        (["--data.input-dim", "100"], "SparseCoding.input_dim = 100 is out of range: allowed is a power of two"),
        (["--data.input-dim", "32"], "input_dim=32, .* allowed is data with input_dim > features"),
        (["--data.noise", "0"], "noise=0.0.* allowed is data with noise > 0"),
        (["--data.noise", "inf"], "SparseCoding.noise = inf is out of range: allowed is >= 0, and finite"),
        (["--data.dictionary", "fourier"], "hadamard.*qr.*canonical"),
        (["--learner.width", "0"], "SymmetricReLU.width = 0 is out of range: allowed is >= 1"),
        (["--objective.anchors", "0"], "Contrastive.anchors = 0 is out of range: allowed is >= 1"),
        (["--objective.loss.temperature", "0"], "InfoNCE.temperature = 0.0 is out of range: allowed is > 0"),
        (["--optimizer.lr", "nan"], "SGD.lr = nan is out of range: allowed is > 0"),
        (["--bias.feature-energy", "1"], "BiasSchedule.feature_energy = 1.0 .* between 0 and 1"),
        (["--steps", "0"], "Decoupling.steps = 0 is out of range: allowed is >= 1"),
        (["--steps", "many"], "--steps.* INT"),
        (["--probe-every", "0"], "Decoupling.probe_every = 0 is out of range: allowed is >= 1"),
        (["--replicas", "0"], "Settings.replicas = 0 is out of range: allowed is >= 1"),
        (["--seed", str(2**63)], "Settings.seed = 9223372036854775808 is out of range"),
        (["--device", "tpu"], "Settings.device = 'tpu' .* allowed is cpu, cuda or cuda:N"),
        (["--device", "cuda:99"], "Settings.device = 'cuda:99' .* allowed is a device that torch sees"),
        (["--memory-limit", "0"], "Settings.memory_limit = 0.0 .* > 0 GiB"),
        (["--memory-limit", "0.0001"], "Settings.memory_limit = 0.00 GiB .* needs .* Raise --memory-limit"),
        (["--nonsense", "1"], "Unrecognized options: --nonsense"),
        (["optimizer:nonsense"], "Unrecognized options: optimizer:nonsense .*optimizer:torch-optimizer"),
        (["optimizer:torch-optimizer", "--optimizer.name", "Nonsense"], "TorchOptimizer.name = 'Nonsense' is out of"),
        (["objective:sign-labels"], "only an arm of the study sets it"),
        (["--resume", "--overwrite"], "--resume and --overwrite exclude each other"),
        (["--resume"], "holds no run to resume"),
    ],
)
def test_bad_options_exit_with_2_naming_field_value_and_range_and_leave_nothing(capfd, tmp_path, options, message):
    out = tmp_path / "run"
    code, _, err = call(capfd, "run", "decoupling", "--out", out, *options)
    assert code == 2
    assert re.search(message, err), err
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def test_another_kind_of_part_is_named_last_before_its_own_options(tmp_path):
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
    assert finish(start("run", "decoupling", "--out", out, *small, *kind))[0] == 0
    optimizer = json.loads((out / "config.json").read_text())["config"]["optimizer"]
    assert {key: optimizer[key] for key in ("name", "lr")} == {"name": "AdamW", "lr": 0.01}
    claims = json.loads((out / "claims.json").read_text())["claims"]
    assert not any(claim["expected"] for claim in claims if claim["id"] == "stage1-trajectory")


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
    assert _axis_values(f"noise={spec}", spec) == values


@pytest.mark.parametrize(
    "axis", ["noise", "noise=", "noise=a", "noise=1:2", "noise=1:2:1", "noise=1:2:3.5", "noise=1,,2"]
)
def test_an_axis_that_cannot_be_read_is_refused_with_how_to_write_it(capfd, tmp_path, axis):
    code, _, err = call(capfd, "sweep", "decoupling", "--axis", axis, "--out", tmp_path / "run")
    assert code == 2
    assert f"--axis '{axis}' cannot be read: allowed is NAME=first:last:count with count >= 2, or NAME=value,v" in err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (["nose=1,2"], "axis 'nose' is no numeric option of Decoupling: allowed is one of data.features,"),
        (["data.features=8,2"], "SparseCoding.features = 2 is out of range: allowed is >= 3"),
        (["features=8,9.5"], "SparseCoding.features = 9.5 is out of range: allowed is a whole number"),
        (["noise=0.5,0"], r"noise=0.0\) .* allowed is data with noise > 0"),
        (["noise=1,1"], r"Axis.values of data.noise = \(1.0, 1.0\): allowed are one or more, all different"),
        (["noise=1,2", "data.noise=3"], "Sweep.axes = noise, noise: allowed are different names"),
    ],
)
def test_axes_of_a_sweep_are_checked_before_any_work(capfd, tmp_path, axes, message):
    words = [word for axis in axes for word in ("--axis", axis)]
    code, _, err = call(capfd, "sweep", "decoupling", *words, "--out", tmp_path / "run")
    assert code == 2
    assert re.search(message, err), err
    assert not (tmp_path / "run").exists()


def test_a_folder_with_files_is_refused_before_any_work(capfd, tmp_path, monkeypatch):
    (tmp_path / "thesis.tex").write_text("years of work")
    monkeypatch.setattr(Decoupling, "build", None)
    code, _, err = call(capfd, "run", "decoupling", "--out", tmp_path)
    assert code == 2
    assert "is not empty: pass --resume to go on, --overwrite to replace, or another folder" in err
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_divergence_exits_with_3_naming_step_replica_and_quantity(tmp_path):
    out = tmp_path / "run"
    code, stdout, err = finish(start("run", "decoupling", "--out", out, *SMALL, "--optimizer.lr", "1e30"))
    assert code == 3
    assert "featscope: training diverged: " in err
    assert re.search(r"(the loss|learner\.weight) of replica \d is not finite at step \d", err)
    assert "Traceback" not in err
    assert not (out / "claims.json").exists()
    assert (out / "config.json").exists()
    assert "holds" not in stdout


def test_out_of_a_terminal_a_short_run_says_nothing_until_the_verdicts(capfd, tmp_path):
    """And without --out it makes a folder below runs/, which `report` finds again."""
    code, out, err = finish(start("run", "decoupling", *SMALL, "--seed", "-3", cwd=tmp_path))
    assert code == 0
    assert err == ""
    assert "\x1b" not in out
    assert "mask-cancels-noise" in out
    assert "report: runs/decoupling-" in out
    (made,) = (tmp_path / "runs").iterdir()
    assert json.loads((made / "claims.json").read_text())["seed"] == -3
    code, out, err = call(capfd, "report", made)
    assert code == 0, err
    assert (made / "report.html").stat().st_size > 10_000
    assert list((made / "figures").glob("*.png"))


@pytest.mark.parametrize("strict", [False, True])
def test_verify_names_what_was_expected_and_does_not_hold_and_strict_exits_with_1(capfd, tmp_path, monkeypatch, strict):
    from featscope import cli
    from featscope.claims import Statement

    statement = Statement("known", "Lemma 1", "", "bound")
    claims = [statement.at_least(0.0, 1.0, arm="a"), statement.at_least(2.0, 1.0, arm="b")]
    claims += [statement.at_least(0.0, 1.0, arm="control", expected=False)]
    seen = []
    monkeypatch.setattr(cli, "_execute", lambda study, settings, out, again: seen.append((study, out)) or (0, claims))
    words = ["verify", "decoupling", "--out", tmp_path, *(["--strict"] if strict else [])]
    code, out, _ = call(capfd, *words)
    assert code == int(strict)
    assert "expected but not holding: decoupling/known (a)\n" in out
    assert seen == [(Decoupling(), tmp_path / "decoupling")]
