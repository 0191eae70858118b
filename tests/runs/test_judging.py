"""A stored run is judged again, without training, and what is otherwise than before is said."""

import json
import re
from dataclasses import dataclass, replace

import numpy as np
import pytest

from featscope.axes import Axis
from featscope.claims import Claim, ordering
from featscope.commands.again import stored_study
from featscope.commands.judge import judge
from featscope.commands.run import execute as in_terminal
from featscope.options import ConfigError
from featscope.report.run_report import report_run
from featscope.runs import Settings, run
from featscope.runs.execute import UnjudgedError
from featscope.runs.judging import changes, judge_again
from featscope.runs.older import in_words
from featscope.runs.plain import to_plain
from featscope.runs.stored import read_claims, read_plan, read_trajectory
from featscope.studies.base import last
from featscope.studies.sweep import Sweep
from swept import Pull

LEAST = 0.0


@dataclass(frozen=True)
class Judged(Pull):
    """The same, with a claim."""

    name = "judged"

    @ordering("nobody", on="pulled", more_than=0.0)
    def is_pulled(self, run):
        """Numbers end above a bound. Measured: 1 and a thousandth of the loss at the end, less the bound."""
        return 1 + last(run, run.loss) / 1000 - LEAST


@dataclass(frozen=True)
class Later(Judged):
    """The same in a later version, with an arm more, and claims on more than was measured when `Judged` was."""

    def arms(self):
        """Also one that is pulled farther."""
        arm, *rest = Pull.arms(self)
        return [arm, *rest, replace(arm, name="farther", about="the same", label="farther")]

    @ordering("nobody", on=("pulled", "other"), more_than=0.0)
    def is_pulled(self, run, arm):
        """Numbers end above a bound. Measured: 1 and a thousandth of the loss at the end, less the bound; of the other
        arm their spread."""
        return 1 + last(run, run.loss) / 1000 - LEAST if arm == "pulled" else last(run, run.spread)

    @ordering("nobody", on="pulled", more_than=0.0)
    def is_narrow(self, run):
        """Numbers end close together. Measured: 1 less their spread."""
        return 1 - last(run, run.spread)

    @ordering("nobody", on="pulled", more_than=0.0)
    def is_pulled_farther(self, runs):
        """Numbers end closer than another arm's. Measured: the difference."""
        return last(runs["farther"], runs["farther"].loss) - last(runs["pulled"], runs["pulled"].loss)

    def figures(self, runs):
        """As sweeps and ladders, which draw their verdicts."""
        assert self.claims(runs)
        return super().figures(runs)


@pytest.fixture
def out(tmp_path, monkeypatch):
    monkeypatch.setattr("featscope.runs.workers.cores", lambda: 1)
    run(Judged(), Settings(replicas=4), tmp_path / "run")
    return tmp_path / "run"


def test_a_run_is_judged_again_as_before(out):
    before = (out / "claims.json").read_bytes()
    outcome, changed = judge_again(out, Judged())
    assert changed == []
    assert [claim.verdict for claim in outcome.claims] == ["holds"]
    assert (out / "claims.json").read_bytes() == before
    (out / "claims.json").write_text("damaged")
    judge_again(out, Judged())
    assert (out / "claims.json").read_bytes() == before


def test_what_a_mended_claim_changes_is_said_and_written(out, monkeypatch):
    monkeypatch.setitem(globals(), "LEAST", 10.0)
    page = report_run(out, Judged()).read_text()
    assert "judges some otherwise: is-pulled@pulled: holds, now fails" in page  # the report alone changes no verdict
    assert read_claims(out)[0].verdict == "holds"
    _, changed = judge_again(out, Judged())
    assert changed == ["is-pulled@pulled: holds, now fails"]
    assert read_claims(out)[0].verdict == "fails"
    assert "otherwise" not in report_run(out, Judged()).read_text()


def test_claims_that_are_newer_than_the_run_are_left_out_and_told(out, monkeypatch, capsys):
    page = report_run(out, Later()).read_text()
    assert "otherwise" not in page
    assert "cannot judge" not in page
    assert "over-steps" in page
    outcome, changed = judge_again(out, Later())
    assert [(claim.id, claim.arm) for claim in outcome.claims] == [("is-pulled", "pulled")]
    assert changed == []
    assert outcome.newer == {"is-pulled": "spread", "is-narrow": "spread", "is-pulled-farther": "farther"}
    monkeypatch.setattr(Judged, "tests", Later.tests)
    monkeypatch.setattr(Judged, "arms", Later.arms)
    assert judge([str(out), "--study", f"{__name__}:Judged"]) == 0
    said = capsys.readouterr().out
    assert "All as before." in said
    assert (
        "not measured what they ask for: is-pulled (spread), is-narrow (spread), is-pulled-farther (farther)." in said
    )


OF_TODAY = "featscope.runs.environment._revision"


def test_slips_of_a_claim_and_what_was_judged_before_raise_unless_other_code_computed_the_run(out, monkeypatch):
    monkeypatch.setattr(Judged, "tests", Later.tests[1:2])  # is-narrow, on an arm of which it was not judged
    assert judge_again(out, Judged())[0].newer == {"is-narrow": "spread"}
    (out / "claims.json").unlink()  # and nothing tells that it is newer
    with pytest.raises(UnjudgedError) as raised:
        judge_again(out, Judged())
    assert "is-narrow" in str(raised.value.__cause__.__notes__)
    monkeypatch.setattr(OF_TODAY, lambda code: "a later revision")
    outcome, changed = judge_again(out, Judged())
    assert (outcome.claims, outcome.newer, changed) == ([], {"is-narrow": "spread"}, None)


def test_what_is_no_arm_is_a_slip(out, monkeypatch):
    monkeypatch.setattr(Judged, "tests", Later.tests[2:3])  # another arm, which this study does not have
    monkeypatch.setattr(OF_TODAY, lambda code: "a later revision")
    with pytest.raises(UnjudgedError) as raised:
        judge_again(out, Judged())
    assert "farther" in str(raised.value.__cause__)


def test_what_was_measured_is_named_where_a_name_is_nearly_that(out):
    runs = read_trajectory(out)
    assert in_words({"a": "los"}, runs).endswith("ask for: a (los; is loss meant?). A run of today's version has it.")
    assert in_words({}, runs) == ""


def test_a_run_that_a_later_version_goes_on_with_is_judged_as_far_as_it_was_measured(out, monkeypatch):
    monkeypatch.setattr("featscope.runs.workers.cores", lambda: 1)
    monkeypatch.setattr(OF_TODAY, lambda code: "a later revision")
    monkeypatch.setattr(Judged, "tests", Later.tests[:2])
    outcome = run(Judged(), Settings(replicas=4), out, resume=True)
    assert [claim.id for claim in outcome.claims] == ["is-pulled"]
    assert outcome.newer == {"is-pulled": "spread", "is-narrow": "spread"}


@pytest.mark.parametrize("far", [np.inf, -np.inf, np.nan])
def test_what_is_stored_as_none_is_as_before(far):
    about = {"id": "a", "arm": "x", "source": "Lemma 1", "statement": "", "kind": "bound"}
    made = Claim.from_samples([1.0, far], ">=", far, **about)
    assert changes([Claim.from_json(made.to_json())], [made]) == []
    assert changes([Claim.from_samples([1.0, 2.0], ">=", far, **about)], [made])


def test_another_interval_with_the_same_verdict_is_said():
    about = {"id": "a", "arm": "x", "source": "Lemma 1", "statement": "", "kind": "bound"}
    few, many = (Claim.from_samples([0.9] * 8, ">=", 0.5, law="share", trials=[n] * 8, **about) for n in (20, 40))
    assert (few.verdict, few.measured) == (many.verdict, many.measured) == ("holds", pytest.approx(0.9))
    assert changes([few], [many]) == ["a@x: holds as before, by another interval"]
    assert changes([few], [few]) == []


@pytest.mark.parametrize(
    "changed", [{"predicted": 1.1}, {"tolerance": 0.6}, {"measured": 1.01}, {"expected": False}, {"law": "draws"}]
)
def test_another_measure_or_bound_is_told_where_the_verdict_stays(changed):
    about = {"id": "a", "arm": "x", "source": "Lemma 1", "statement": "", "kind": "identity"}
    before = Claim.from_samples([1.0, 1.001, 0.999], "=", 1.0, 0.5, **about)
    assert changes([before], [before]) == []
    assert changes([before], [replace(before, **changed)]) == ["a@x: holds as before, by another measure or bound"]


def test_a_claim_that_raises_costs_no_training(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("featscope.runs.workers.cores", lambda: 1)
    monkeypatch.setitem(globals(), "LEAST", "a word")
    code, _ = in_terminal(Judged(), Settings(replicas=4), tmp_path / "run", ["run", "judged"])
    said = capsys.readouterr().err
    assert code == 2
    assert "in the claim 'is-pulled' on 'pulled'" in said
    assert "test_judging.py, line" in said
    assert f"featscope judge {tmp_path / 'run'}" in said
    with pytest.raises(UnjudgedError):
        judge_again(tmp_path / "run", Judged())
    monkeypatch.setitem(globals(), "LEAST", 0.0)
    outcome, changed = judge_again(tmp_path / "run", Judged())
    assert changed is None
    assert outcome.claims == read_claims(tmp_path / "run")


def test_the_page_is_written_before_anything_is_said(out, monkeypatch):
    """`featscope judge DIR | head -1` ends what follows the first line."""

    def nobody_reads(*_, **__):
        raise BrokenPipeError

    report_run(out, Judged())
    monkeypatch.setitem(globals(), "LEAST", 10.0)
    monkeypatch.setattr("builtins.print", nobody_reads)
    with pytest.raises(BrokenPipeError):
        judge([str(out), "--study", f"{__name__}:Judged"])
    page = (out / "report.html").read_text()
    assert "against expectation" in page
    assert "judges some otherwise" not in page


def test_the_command_says_what_changed_and_all_where_nothing_was_judged(out, monkeypatch, capsys):
    named = f"{__name__}:Judged"
    monkeypatch.setitem(globals(), "LEAST", 10.0)
    assert judge([str(out), "--study", named]) == 0
    said = capsys.readouterr().out
    assert "0 of the 1 claims expected to hold at this size do." in said
    assert "Otherwise than before:\n  is-pulled@pulled: holds, now fails\n" in said
    assert "predicted" not in said  # no table
    assert "export" not in said
    (out / "tables").mkdir()  # as `featscope export` leaves it
    monkeypatch.setitem(globals(), "LEAST", 0.0)
    assert judge([str(out), "--study", named]) == 0
    assert f"say what was judged before. To write them anew:\n  featscope export {out} --o" in capsys.readouterr().out
    assert judge([str(out), "--study", named]) == 0
    assert "export" not in capsys.readouterr().out
    monkeypatch.setitem(globals(), "LEAST", 10.0)
    (out / "claims.json").unlink()
    assert judge([str(out), "--study", named]) == 0
    said = capsys.readouterr().out
    assert "predicted" in said
    assert "before" not in said


def test_the_study_of_a_folder_can_be_named(out):
    assert stored_study(read_plan(out), f"{__name__}:Judged") == Judged()
    with pytest.raises(ConfigError, match=r"--study = 'nowhere:Study' cannot be loaded .* allowed is MODULE:CLASS"):
        stored_study(read_plan(out), "nowhere:Study")


def test_a_module_that_raises_is_named_with_its_line_and_a_relative_one_is_refused(out, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raises_at_once.py").write_text("import math\nmath.nope\n")
    with pytest.raises(ConfigError, match=r"cannot be loaded: AttributeError: .*raises_at_once.py, line 2"):
        stored_study(read_plan(out), "raises_at_once:Study")
    with pytest.raises(ConfigError, match=r"--study = '\.mine:Study' cannot be loaded"):
        stored_study(read_plan(out), ".mine:Study")


def test_a_class_of_a_script_is_found_in_the_module_of_that_name(out):
    plan = read_plan(out)
    plan["config"] = json.loads(json.dumps(plan["config"]).replace(f"{__name__}:", "__main__:"))
    assert stored_study(plan, f"{__name__}:Judged") == Judged()


def test_another_class_than_what_was_run_is_refused_and_of_a_sweep_its_study_is_named(out):
    plan, named = read_plan(out), f"{__name__}:Judged"
    with pytest.raises(ConfigError, match=f"--study = 'swept:Pull' is not what was run: allowed is {re.escape(named)}"):
        stored_study(plan, "swept:Pull")
    swept = Sweep(Judged(), (Axis("width", (1.0, 2.0)),))
    plan["config"] = to_plain(swept)
    assert stored_study(plan, named) == swept
    with pytest.raises(ConfigError, match=f"is not what was run: allowed is {re.escape(named)}"):
        stored_study(plan, "swept:Pull")
