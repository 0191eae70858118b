"""Faults planted in a toy study: noticed, not noticed, equal or stopped, as they are known to be."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from math import inf, nan

import pytest
from toy_decay import TRIAL

from featscope.options import ConfigError
from featscope.testing import faults, planted
from featscope.testing.__main__ import main
from featscope.testing.faults import Bench, Fate, Judged, Look, noticed_by, package_of, read, try_faults
from featscope.testing.servers import Servers
from featscope.testing.trial import find_trial
from featscope.training import closed_form
from featscope.training import gradient as training

CLAIM = Judged("c", "a", True, "holds", True, 1.0, (0.9, 1.1), "<=", 2.0, 0.0, 8)


# --- judging ----------------------------------------------------------------------------------------------------------


UNDECIDED = replace(CLAIM, verdict="undecided", measured=1.8, interval=(1.5, 2.1))


@pytest.mark.parametrize(
    ("before", "after", "seen"),
    [
        (CLAIM, CLAIM, False),
        (CLAIM, replace(CLAIM, verdict="undecided"), True),
        (CLAIM, replace(CLAIM, verdict="fails"), True),
        (CLAIM, None, True),
        (replace(CLAIM, expected=False), replace(CLAIM, verdict="fails"), False),
        (replace(CLAIM, verdict="fails"), replace(CLAIM, verdict="undecided"), False),
        (UNDECIDED, replace(UNDECIDED, measured=2.2), False),  # within the healthy half-width, .3
        (UNDECIDED, replace(UNDECIDED, measured=2.4), True),
        (UNDECIDED, replace(UNDECIDED, measured=nan), True),
        (replace(UNDECIDED, stands=False), replace(UNDECIDED, measured=9.0), False),
        (replace(UNDECIDED, interval=(-inf, inf)), replace(UNDECIDED, measured=9.0), False),
    ],
)
def test_a_claim_notices_where_it_held_or_stood_clearly(before, after, seen):
    assert noticed_by({before.name: before}, {after.name: after} if after else {}) == ["c@a"] * seen


# --- a healthy trial --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", ["claims", "digests"])
def test_a_trial_that_does_not_measure_the_same_twice_is_refused(other, monkeypatch):
    one = Look({"c@a": CLAIM}, {"a": {"value": "1f"}}, {}, 0.1)
    changed = {"claims": {"c@a": replace(CLAIM, measured=1.5)}, "digests": {"a": {"value": "2e"}}}[other]
    looks = [one, one, one, replace(one, **{other: changed})]
    monkeypatch.setattr(Bench, "look", lambda self, **how: looks.pop(0))
    assert Bench("toy_decay:TRIAL").healthy == one
    with pytest.raises(ConfigError, match="toy_decay:TRIAL does not measure the same twice: take all chance from"):
        Bench("toy_decay:TRIAL")


# --- planting ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bench():
    """Few parts, so that it takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(faults, "PARTS", ("featscope.training.recursion",))
        return Bench("toy_decay:TRIAL")


@pytest.fixture(scope="module")
def tried(bench):
    """What became of faults that are known, by line."""
    known = {
        "self.value.copy_(self.level + self.rate * (self.value + self.level) + noise)",
        "sum_of_all = gain / experiment.learner.sum",
        "return (self.value + self.level).abs() < 1e-9",
        "self.rate, self.level = (0.5), options.level",
        "noise = 1e-3 * draws.normal( 3)",
    }
    mutants = {mutant.after: mutant for mutant in bench.mutants(0) if mutant.module == "toy_decay"}
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(bench.try_out, [mutants[line] for line in sorted(known)])
        return {one.after: one for one in found}


def test_whether_a_claim_stands_is_what_the_claim_itself_says(bench):
    (claim,) = [claim for claim in TRIAL.healthy.values() if claim.id == "ends-at-its-level"]
    assert bench.healthy.claims["ends-at-its-level@decay"].stands is claim.stands is True


def test_places_are_those_of_executed_lines(bench):
    assert bench.healthy.claims["ends-at-its-level@decay"].verdict == "holds"
    lines = {bench.sources[site.module].splitlines()[site.line - 1].strip() for site in bench.sites}
    assert "self.sum += self.value" in lines
    assert "recipe = Iteration(Decay(self.pace), 12, 4)" in lines
    assert not [line for line in lines if line.startswith(("require(", "rate: float", "raise", "return last("))]
    assert {site.module for site in bench.sites} == {"toy_decay", "featscope.training.recursion"}


def test_a_fault_is_noticed_by_the_claim_that_it_changes(tried):
    one = tried["self.value.copy_(self.level + self.rate * (self.value + self.level) + noise)"]
    assert (one.outcome, one.claims, one.arms) == ("noticed", ["ends-at-its-level@decay"], ["decay", "beside"])


@pytest.mark.parametrize(
    ("line", "arms"),
    [
        ("sum_of_all = gain / experiment.learner.sum", ["decay"]),
        ("self.rate, self.level = (0.5), options.level", ["decay", "beside"]),
    ],
)
def test_a_fault_that_changes_what_no_claim_watches_is_not(tried, line, arms):
    assert (tried[line].outcome, tried[line].claims, tried[line].arms) == ("unnoticed", [], arms)


@pytest.mark.parametrize(
    ("line", "arms"),
    [
        ("sum_of_all = gain / experiment.learner.sum", ["decay"]),
        ("return 3.0 - 4.0", ["decay", "beside"]),
        ("recipe = Iteration(Decay((0.25)), 12, 4)", ["decay", "beside"]),
    ],
)
def test_arms_are_run_again_that_execute_the_fault_also_what_an_arm_before_them_worked_out(bench, line, arms):
    mutants = {mutant.after: mutant for mutant in bench.mutants(0)}
    assert bench.arms(mutants[line]) == arms


def test_an_arm_that_is_not_run_again_measures_what_it_did(bench):
    """And the other arms, which are not run at all, keep what they measured."""
    again = bench.look(arms=["decay"])
    assert again.fingerprint == bench.healthy.fingerprint


def test_training_goes_by_autograd_there(monkeypatch):
    monkeypatch.setattr(training, "gradient", training.gradient)
    planted.look({"target": "toy_decay:TRIAL", "replicas": None, "known": None, "arms": None}, None)
    assert training.gradient is not closed_form.gradient
    assert training.gradient(None, None, None, None) is None


def test_what_does_not_end_is_ended_and_the_next_is_tried(tmp_path):
    job = {"path": [], "module": None, "limit": None, "trace": [], "said": "", "result": ""}
    servers = Servers()
    for name in ("job", "pipe"):
        (tmp_path / name).write_text(json.dumps(job | {"said": str(tmp_path / "said")}))
    (tmp_path / "pipe").unlink()
    os.mkfifo(tmp_path / "pipe")  # to read it takes forever
    assert servers.do(tmp_path / "pipe", 0.1) is None
    assert servers.do(tmp_path / "job", None) == 1
    assert "No module named 'featscope'" in (tmp_path / "said").read_text()


def test_a_fault_that_changes_no_number_is_equal(tried):
    assert tried["return (self.value + self.level).abs() < 1e-9"].outcome == "equal"


def test_a_fault_that_ends_the_run_has_stopped_it(tried):
    one = tried["noise = 1e-3 * draws.normal( 3)"]
    assert one.outcome == "stopped"
    assert one.why.startswith("RuntimeError: The size of tensor")


def test_faults_are_tried_until_there_are_enough_and_the_file_is_gone_on_with(bench, tmp_path, monkeypatch):
    tried = []

    def try_out(self, mutant):
        tried.append(mutant.key)
        about = {name: getattr(mutant, name) for name in ("key", "module", "line", "kind", "before", "after")}
        return Fate(**about, outcome="unnoticed" if mutant.kind == "number" else "equal")

    monkeypatch.setattr(Bench, "try_out", try_out)
    monkeypatch.setattr(faults, "cores", lambda: 1)
    out, said = tmp_path / "faults.jsonl", []
    report = try_faults(bench, 2, 0, out, said.append)
    assert (report.count("unnoticed"), report.count("noticed")) == (2, 0)
    assert report.faults == said
    assert report.faults[-1].kind == "number"
    assert len({one.key for one in said}) == len(said) >= 2
    assert [json.loads(line)["key"] for line in out.read_text().splitlines()[1:]] == [one.key for one in said]

    tried.clear()
    again = try_faults(bench, 3, 0, out, said.append)
    assert again.faults[: len(report.faults)] == report.faults
    assert not {one.key for one in report.faults} & set(tried)

    assert read(out) == again
    head = json.loads(out.read_text().splitlines()[0])
    for other in ("healthy", "code", "seed"):
        out.write_text(json.dumps(head | {other: "other"}) + "\n")
        with pytest.raises(ConfigError, match="written for another trial or other code, or with another --seed"):
            try_faults(bench, 2, 0, out, said.append)


@pytest.mark.parametrize("text", ["", "{}", "[]", "words", '{"target": "a", "healthy": "b"}\n', "\udcff"])
def test_a_file_of_another_kind_is_refused(bench, tmp_path, text):
    out = tmp_path / "faults.jsonl"
    out.write_text(text, errors="surrogateescape")
    with pytest.raises(ConfigError, match=r"--out = .*faults.jsonl holds no planted faults, or its last line is cut"):
        try_faults(bench, 1, 0, out, list)
    with pytest.raises(ConfigError, match="holds no planted faults"):
        read(tmp_path)


def test_a_file_whose_last_line_is_cut_is_refused(bench, tmp_path):
    out, one = tmp_path / "faults.jsonl", Fate("a", "b", 1, "number", "x", "y", "equal")
    head = {name: value for name, value in asdict(bench.report(0, [])).items() if name != "faults"}
    out.write_text(f"{json.dumps(head)}\n{json.dumps(asdict(one))}\n")
    assert read(out).faults == [one]
    out.write_text(out.read_text()[:-9])
    with pytest.raises(ConfigError, match="its last line is cut"):
        try_faults(bench, 1, 0, out, list)


# --- naming -----------------------------------------------------------------------------------------------------------


def test_a_trial_is_found_by_its_module_or_made_of_a_study():
    assert find_trial("toy_decay:TRIAL").study == TRIAL.study
    assert find_trial("tensor-power", 3).study.sequences == 6
    with pytest.raises(ConfigError, match="'toy_decay:GAIN' is a float"):
        find_trial("toy_decay:GAIN")
    with pytest.raises(ConfigError, match="--replicas = 3 is for a study"):
        find_trial("toy_decay:TRIAL", 3)
    with pytest.raises(ConfigError, match="--replicas = 0 is out of range: allowed is >= 1"):
        find_trial("tensor-power", 0)


def test_the_study_s_own_package_is_the_one_around_its_module():
    assert package_of(TRIAL.study) == "toy_decay"
    assert package_of(find_trial("tensor-power").study) == "featscope.studies.tensor_power"


def test_a_wrong_name_is_said(capsys):
    assert main(["tensor-powr"]) == 2
    assert "is unknown" in capsys.readouterr().err
