"""The folder of a sweep: joined, killed, resumed."""

import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
import xarray as xr

from featscope.axes import Axis
from featscope.cli import main
from featscope.options import ConfigError
from featscope.runs import Settings, execute, run
from featscope.runs.stored import read_trajectory
from featscope.studies import Arm
from featscope.studies.decoupling import Decoupling
from featscope.studies.sweep import Sweep
from featscope.training import GradientTraining, Measurement
from swept import Pull, installed

WIDTHS = Axis("width", (1.0, 3.0))
OF_WIDTHS = replace(WIDTHS, option="learner.width")  # in a recipe
OF_WIDTHS = replace(WIDTHS, option="learner.width")  # in a recipe
OF_WIDTHS = replace(WIDTHS, option="learner.width")  # in a recipe
NOISE = Axis("data.noise", (0.1, 0.5, 1.0))


@dataclass(frozen=True)
class Ranging(Pull):
    """An arm over axes beside one without; one measurement is there only where there is a second number."""

    def arms(self):
        return [
            Arm("alone", self.recipe, "without axes"),
            Arm("wide", self.recipe, "with axes", at_end=[second], over=(OF_WIDTHS, NOISE)),
        ]


def second(experiment):
    value = experiment.learner.value
    found = {"numbers": Measurement(torch.full((len(value),), value.shape[1]))}
    return found | ({"second": Measurement(value[:, 1])} if value.shape[1] > 1 else {})


@pytest.fixture
def in_this_process(monkeypatch):
    monkeypatch.setattr("featscope.runs.workers.cores", lambda: 1)


@pytest.mark.parametrize("order", [1, -1])
def test_an_arm_may_range_over_options_beside_arms_that_do_not(tmp_path, in_this_process, monkeypatch, order):
    monkeypatch.setattr(sys.modules[__name__], "OF_WIDTHS", Axis("learner.width", WIDTHS.values[::order]))
    outcome = run(Ranging(), Settings(replicas=4), tmp_path / "run")
    assert [file.name for file in (tmp_path / "run" / "weights").iterdir()] == ["alone.safetensors"]
    stored = read_trajectory(tmp_path / "run")
    wide = stored["wide"]
    assert wide.identical(outcome.runs["wide"])
    assert wide["width"].values.tolist() == [1, 3]
    assert set(wide["distance"].dims) == {"replica", "step", "width", "noise"}
    assert wide["second"].sel(width=1).isnull().all()
    assert wide["second"].sel(width=3).notnull().all()
    assert "values" not in wide  # as long as the point has numbers
    assert set(stored["alone"]["values"].dims) == {"replica", "step", "number"}
    xr.testing.assert_equal(
        wide["distance"].sel(noise=0.1, width=1, drop=True),
        run(replace(Ranging(), width=1), Settings(replicas=4), tmp_path / "one").runs["alone"]["distance"],
    )


def test_measurements_of_equal_shape_keep_all_their_axes(tmp_path, in_this_process):
    @dataclass(frozen=True)
    class Noises(Pull):
        def arms(self):
            return [Arm("noises", self.recipe, "", over=(NOISE,))]

    data = run(Noises(), Settings(replicas=2), tmp_path / "run").runs["noises"]
    assert dict(data["values"].sizes) == {"noise": 3, "replica": 2, "step": 8, "number": 2}


@pytest.mark.parametrize(("points", "size"), [(1, 32), (2, 32), (3, 21), (64, 1), (500, 1)])
def test_an_arm_with_axes_trains_no_more_than_64_runs_at_once_if_it_can(points, size):
    arm = Arm("a", Pull().recipe, "", over=(Axis("data.noise", tuple(float(i) for i in range(points))),))
    assert execute._replicas_together(arm, 32) == size
    assert execute._replicas_together(replace(arm, over=()), 1000) == 1000


@pytest.fixture
def steps(monkeypatch, in_this_process):
    """(numbers a replica, step) of each step that is trained."""
    seen, advance = [], GradientTraining.advance

    def counted(self, step):
        seen.append((self.learner.value.shape[1], step))
        return advance(self, step)

    monkeypatch.setattr(GradientTraining, "advance", counted)
    return seen


def test_a_resumed_sweep_skips_what_is_done(tmp_path, steps, monkeypatch):
    study = Sweep(Pull(), (WIDTHS, NOISE))
    whole = run(study, Settings(replicas=2), tmp_path / "whole")
    watch, calls = Pull.watch, 0

    def interrupted(self, experiment):
        nonlocal calls
        calls += experiment.learner.value.shape[1] == 3
        if calls > 12:
            raise KeyboardInterrupt
        return watch(self, experiment)

    monkeypatch.setattr(Pull, "watch", interrupted)
    monkeypatch.setattr("featscope.runs.program._SECONDS_BETWEEN_CHECKPOINTS", 0)
    with pytest.raises(KeyboardInterrupt):
        run(study, Settings(replicas=2), tmp_path / "run")
    monkeypatch.setattr(Pull, "watch", watch)
    steps.clear()
    resumed = run(study, Settings(replicas=2), tmp_path / "run", resume=True)
    xr.testing.assert_identical(resumed.runs["sweep"], whole.runs["sweep"])
    trained = [step for width, step in steps if step > 0 and width == 3]
    assert trained
    assert min(trained) > 1
    assert not [step for width, step in steps if width == 1 and step > 0]  # step 0: to learn the memory it takes
    steps.clear()
    run(study, Settings(replicas=2), tmp_path / "run", resume=True)
    assert not steps


def test_another_axis_is_another_sweep(tmp_path, in_this_process):
    run(Sweep(Pull(), (NOISE,)), Settings(replicas=2), tmp_path / "run")
    with pytest.raises(ConfigError, match=r"--resume needs the options that the run began with; changed: .*axes"):
        run(Sweep(Pull(), (Axis("data.noise", (0.1, 0.5)),)), Settings(replicas=2), tmp_path / "run", resume=True)


def test_a_sweep_through_the_command_line_and_its_page(tmp_path, in_this_process, monkeypatch, capfd):
    """Two axes, of which one changes shapes."""
    installed(tmp_path / "package")
    monkeypatch.syspath_prepend(tmp_path / "package")
    out = tmp_path / "sweep"
    words = ["sweep", "pull", "--replicas", "4", "--axis", "noise=0.1:1:3", "--axis", "width=3,1", "--out", out]
    for command in (words, ["report", out]):
        (out / "report.html").unlink(missing_ok=True)
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in command])
        printed = capfd.readouterr()
        assert ended.value.code == 0, printed.err
        assert "6 points over noise and width" in (out / "report.html").read_text()
        if command is words:
            assert "6 points over noise and width, 4 replicas each; none diverged." in printed.out
    assert not list(out.rglob(".*"))  # nothing half written is left behind
    axes = (Axis("data.noise", (0.1, 0.55, 1.0)), Axis("width", (3.0, 1.0)))
    untouched = run(Sweep(Pull(), axes), Settings(replicas=4), tmp_path / "untouched")
    xr.testing.assert_identical(read_trajectory(out)["sweep"], untouched.runs["sweep"])
    assert len(np.unique(untouched.runs["sweep"]["loss"].isel(step=-1))) == 24


@pytest.mark.parametrize(
    ("one", "other"), [(Pull(), Sweep(Pull(), (Axis("optimizer.lr", (0.1, 0.2)),))), (Pull(), Decoupling())]
)
def test_a_folder_of_another_run_is_not_gone_on_with(tmp_path, one, other):
    run(one, Settings(replicas=2), tmp_path / "run")
    with pytest.raises(ConfigError, match="holds another run, of pull: choose another --out, or --overwrite"):
        run(other, Settings(replicas=2), tmp_path / "run", resume=True)
