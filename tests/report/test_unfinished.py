"""The page of a run that was killed: it says so, shows what is there, and a finished run is not confused by it."""

import json
import shlex
import shutil
from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest
import xarray as xr
from going_on import ended_on_its_way

from featscope.claims import bound
from featscope.figures import MatrixMovie
from featscope.options import ConfigError
from featscope.report.run_report import report_run
from featscope.report.unfinished import Judged as JudgedBefore
from featscope.report.unfinished import claims_so_far, figures_so_far, matrices_so_far, unfinished_content
from featscope.runs import Settings, run
from featscope.runs.folder import RunFolder
from featscope.runs.stored import read_plan
from featscope.runs.unfinished import is_unfinished, so_far
from featscope.studies import Axis, last
from featscope.studies.sweep import Sweep
from swept import Pull, installed


class Judged(Pull):
    """As it is, with claims: of what is there early, of the end, and of another arm."""

    @bound("here", on="pulled", at_most=10.0, because="far")
    def near_enough(self, run):
        """It is near."""
        return last(run, run.distance)

    @bound("here", on="pulled", at_most=10.0, because="far")
    def near_in_the_end(self, run):
        """It is near in the end."""
        return run.error

    @bound("here", on="pulled", at_most=10.0, because="far")
    def nearer_than_the_other(self, runs):
        """It is nearer than the other."""
        return last(runs["pulled"], runs["pulled"].distance) - last(runs["other"], runs["other"].distance)


STUDY = Judged(steps=20, probe_every=2)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A run that was killed after eight looks, of which the memory that it takes needs some; to be copied."""
    folder = tmp_path_factory.mktemp("killed") / "run"
    ended_on_its_way(folder, STUDY, looks=8)
    return folder


@pytest.fixture
def folder(killed, tmp_path):
    """A copy of it."""
    return shutil.copytree(killed, tmp_path / "run")


def test_it_says_how_far_it_is_and_what_is_judged(folder):
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    page = report_run(folder, STUDY)
    assert page.name == "unfinished.html"
    text = page.read_text()
    assert "Unfinished: 0 of 2 arms are done, pulled is at step" in text
    assert "1 of its claims can be judged so far" in text
    assert '<body class="unfinished">' in text
    assert "so far: " in text
    after = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file() and file != page}
    assert after == before


def test_claims_that_were_judged_before_are_shown_with_curves_as_they_are_now(folder, monkeypatch):
    now = unfinished_content(folder, STUDY)
    monkeypatch.setattr("featscope.report.unfinished.claims_so_far", lambda *_: pytest.fail("claims are judged again"))
    judged = JudgedBefore(now.claims, datetime(2026, 1, 2, 3, 4, 5))
    said = unfinished_content(folder, STUDY, judged)
    assert said.claims == now.claims
    assert "shown in grey as they would have been judged at 03:04:05" in said.unfinished
    assert [figure.title for figure in said.figures] == [figure.title for figure in now.figures]


def test_what_was_measured_is_what_a_whole_run_measures(folder, tmp_path):
    found = so_far(folder, STUDY, read_plan(folder))
    whole = run(STUDY, Settings(replicas=2), tmp_path / "whole").runs["pulled"]
    there = found.runs["pulled"]
    assert 2 <= there.sizes["step"] < whole.sizes["step"]
    xr.testing.assert_identical(there["values"], whole["values"].sel(step=there["step"]))
    assert (there["last_step"] == there["step"].max()).all()
    assert "near" in there  # an event, so far
    assert list(found.runs) == ["pulled"]
    assert [arm.begun for arm in found.arms] == [True, False]


def test_a_run_that_goes_on_to_its_end_leaves_nothing_of_it(folder):
    report_run(folder, STUDY)
    run(STUDY, Settings(replicas=2), folder, resume=True)
    assert not is_unfinished(folder)
    assert report_run(folder, STUDY).name == "report.html"
    assert not (folder / "unfinished.html").exists()


def test_the_command_that_resumes_it_has_the_folder_as_one_word(folder, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path / "package")
    installed(tmp_path / "package")
    moved = folder.rename(tmp_path / "my run")
    said = shlex.split(unfinished_content(moved).command)
    assert said[3:8] == ["--out", str(moved), "--resume", "--seed", "0"]  # before parts of another kind


def test_overwriting_clears_it(folder):
    report_run(folder, STUDY)
    with RunFolder.held(folder, overwrite=True) as held:
        held.clear()
    assert not (folder / "unfinished.html").exists()


def test_a_sweep_on_its_way(tmp_path):
    study = Sweep(Pull(steps=20, probe_every=2), (Axis("data.noise", (0.1, 0.5)), Axis("width", (2, 1))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("swept.Pull.watch", Pull.watch)
        watch, seen = Pull.watch, 0

        def counted(self, experiment):
            nonlocal seen
            seen += 1
            if seen > 14:
                raise KeyboardInterrupt
            return watch(self, experiment)

        patch.setattr(Pull, "watch", counted)
        patch.setattr("featscope.runs.workers.cores", lambda: 1)
        patch.setattr("featscope.runs.program._SECONDS_BETWEEN_CHECKPOINTS", 0)
        with pytest.raises(KeyboardInterrupt):
            run(study, Settings(replicas=2), tmp_path / "run")
    content = unfinished_content(tmp_path / "run", study)
    assert "sweep is at step" in content.found
    assert so_far(tmp_path / "run", study, read_plan(tmp_path / "run")).runs["sweep"].sizes["noise"] == 2


def test_a_longer_point_of_a_sweep_over_steps_is_done_when_its_own_steps_are(tmp_path):
    study = Sweep(Judged(steps=10, probe_every=1000), (Axis("steps", (10, 1000)),))
    ended_on_its_way(tmp_path / "run", study, looks=6 + 8)  # of the second, less than a tenth
    (arm,) = so_far(tmp_path / "run", study, read_plan(tmp_path / "run")).arms
    assert (arm.step, arm.steps, arm.done) == (5, 10, False)


def test_replicas_to_pick_are_those_that_every_arm_has(folder, monkeypatch):
    """Of an arm on its way, fewer shards may have measured than of one that is done."""
    found = so_far(folder, STUDY, read_plan(folder))
    both = found.runs["pulled"]
    for runs, count in (({"pulled": both, "other": both.isel(replica=[0])}, 1), ({"pulled": both}, 2), ({}, 2)):
        monkeypatch.setattr("featscope.report.unfinished.so_far", lambda *_, runs=runs: replace(found, runs=runs))
        assert unfinished_content(folder, STUDY).replicas == count


def test_replicas_that_diverged_are_told_while_the_run_goes_on(folder, monkeypatch):
    """Curves end where the first of them did, which must not look as if the run had."""
    found = so_far(folder, STUDY, read_plan(folder))
    assert unfinished_content(folder, STUDY).warnings == []
    lost = found.runs["pulled"].assign(diverged=("replica", [3, -1]))
    monkeypatch.setattr("featscope.report.unfinished.so_far", lambda *_: replace(found, runs={"pulled": lost}))
    (told,) = unfinished_content(folder, STUDY).warnings
    assert told.startswith("Runs diverged: 1 of 2 in the arm pulled.")


def spoil(folder, how):
    file = next((folder / "checkpoint").glob("pulled.*"))
    file.write_bytes(how(file.read_bytes()))


@pytest.mark.parametrize("how", [lambda b: b"", lambda b: b[:100], lambda b: b[:-1] + bytes([b[-1] ^ 1])])
def test_a_checkpoint_that_is_damaged_is_left_out_and_left_there(folder, how):
    spoil(folder, how)
    before = sorted(folder.rglob("*"))
    content = unfinished_content(folder, STUDY)
    assert content.found == "Unfinished: 0 of 2 arms are done."
    assert sorted(folder.rglob("*")) == before


def test_a_checkpoint_of_another_seed_is_left_out(folder):
    (file,) = (folder / "checkpoint").glob("pulled.*")
    tensors, about = RunFolder(folder).read_tensors(f"checkpoint/{file.name}")
    RunFolder(folder).write_tensors(f"checkpoint/{file.name}", tensors, about | {"seed": 1})
    assert unfinished_content(folder, STUDY).found == "Unfinished: 0 of 2 arms are done."


def test_a_run_that_has_measured_nothing_has_a_page(folder):
    for file in (folder / "checkpoint").iterdir():
        file.unlink()
    assert "no claim can be judged yet" in report_run(folder, STUDY).read_text()


def test_options_that_the_study_does_not_have_are_refused(folder):
    from featscope.runs.checksum import sealed

    plan = json.loads((folder / "config.json").read_text())
    plan.pop("checksum", None)
    plan["study"] = "decoupling"
    plan["config"] = {"kind": "nothing"}
    (folder / "config.json").write_bytes(sealed(plan))
    with pytest.raises(ConfigError, match=r"config.json"):
        report_run(folder)


def test_a_folder_in_the_place_of_the_page_is_refused(folder):
    (folder / "unfinished.html").mkdir()
    with pytest.raises(ConfigError, match=r"unfinished.html is a folder: allowed is a file"):
        report_run(folder, STUDY)


def test_claims_and_figures_that_raise_are_left_out():
    class Odd(Judged):
        """Its figures begin well."""

        def figures(self, runs):
            yield from super().figures(runs)
            raise LookupError("an arm that has not begun")

    run = xr.Dataset(
        {"distance": (("replica", "step"), np.ones((2, 3))), "last_step": (("replica",), [4, 4])},
        {"replica": [0, 1], "step": [0, 2, 4]},
    )
    assert [claim.id for claim in claims_so_far(Odd(), {"pulled": run})] == ["near-enough"]
    assert [figure.id for figure in figures_so_far(Odd(), {"pulled": run})] == ["over-steps"]


def test_matrices_are_drawn_where_no_figure_of_the_study_can_be():
    values = np.zeros((1, 2, 3, 2))
    values[0, -1] = [[0.1, -0.9], [0.8, 0.2], [0.0, 0.5]]
    run = xr.Dataset(
        {"alignment": (("replica", "step", "neuron", "feature"), values, {"long_name": "cosines"})},
        {"replica": [0], "step": [0, 5]},
    )
    (movie,) = matrices_so_far({"with masking": run})
    assert isinstance(movie, MatrixMovie)
    assert movie.frames["with masking"][0, -1].tolist() == [[0.8, 0.2], [0.1, 0.9], [0.0, 0.5]]
    assert matrices_so_far({"with masking": 2 * run}) == []
