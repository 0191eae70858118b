"""Sweeps: what they train, what they keep, what they show."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import xarray as xr

from featscope.axes import Axis, with_options
from featscope.claims import interval_of_mean
from featscope.figures import Curves
from featscope.options import ConfigError
from featscope.report.provenance import command
from featscope.report.run_report import report_run
from featscope.runs import Settings, run
from featscope.runs.execute import Outcome
from featscope.runs.stored import read_plan
from featscope.runs.unfinished import so_far
from featscope.studies import Arm, Study
from featscope.studies.sweep import ARM, Sweep
from featscope.training import SGD, Answer, Measurement, Questionnaire, Training
from swept import Noisy, Pull

NOISE = Axis("data.noise", (0.05, 0.5))
TARGET = Axis("data.target", (3.0, -1.0, 0.0))
REPLICAS = 3


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch):
    monkeypatch.setattr("featscope.runs.workers.cores", lambda: 1)


def sweep(tmp_path, *axes: Axis, study: Pull | None = None, replicas: int = REPLICAS) -> Outcome:
    return run(Sweep(study or Pull(), axes), Settings(seed=4, replicas=replicas), tmp_path / "sweep")


def alone(tmp_path, **options: float) -> xr.Dataset:
    """The first arm of the study with these options, in a run of its own."""
    study = Pull()
    for option, value in options.items():
        study = with_options(study, {option.replace("__", "."): value})
    name = "-".join(f"{value}" for value in options.values())
    return run(study, Settings(seed=4, replicas=REPLICAS), tmp_path / name).runs["pulled"]


def test_the_result_is_one_dataset_over_the_axes_with_labels_in_order(tmp_path):
    data = sweep(tmp_path, TARGET, NOISE).runs[ARM]
    assert dict(data.sizes) == {"replica": 3, "step": len(data["step"]), "target": 3, "noise": 2}
    assert data["target"].values.tolist() == [-1, 0, 3]
    assert data["noise"].values.tolist() == [0.05, 0.5]
    assert set(data["distance"].dims) == {"replica", "step", "target", "noise"}
    assert set(data["error"].dims) == set(data["at_first"].dims) == {"replica", "target", "noise"}
    assert data["distance"].attrs == {"units": "m", "long_name": "how far it is"}
    assert "values" not in data  # more than one number a replica
    assert data["above"].dtype == np.int64


def test_every_point_has_the_numbers_of_a_run_of_its_own_bit_for_bit(tmp_path):
    data = sweep(tmp_path, TARGET, NOISE).runs[ARM]
    for target in (3.0, -1.0):
        for noise in NOISE.values:
            single = alone(tmp_path, data__target=target, data__noise=noise)
            point = data.sel(target=target, noise=noise)
            for name in ("loss", "distance", "above", "error", "at_first", "near"):
                xr.testing.assert_equal(point[name].drop_vars(["target", "noise"]), single[name])


@dataclass(frozen=True)
class Telling(Pull):
    """Its first arm has an axis of its own, and tells the target that the options have where it is measured."""

    def arms(self):
        def tell(name):
            return lambda experiment: {name: Measurement(0 * experiment.source.target + self.data.target, "")}

        assays = {"at_start": (tell("first"),), "at_end": (tell("last"),), "watch": tell("on_the_way")}
        return [Arm("told", self.recipe, "over noise", over=(NOISE,), **assays)]


def test_every_point_is_measured_as_the_study_does_there(tmp_path):
    data = sweep(tmp_path, TARGET, study=Telling()).runs[ARM]
    for name in ("first", "on_the_way", "last"):
        assert (data[name] == data["target"]).all(), name
    assert "distance" not in data  # which the study would watch, and its arm does not


def test_axes_of_the_arm_itself_are_said_to_be_left_out():
    assert "told (over noise; here noise as the options say) over 3 points" in Sweep(Telling(), (TARGET,)).about
    assert "told (over noise) over 2 points" in Sweep(Telling(), (NOISE,)).about


def test_many_points_are_split_among_shards_and_have_the_same_numbers(tmp_path, monkeypatch):
    whole = sweep(tmp_path / "whole", TARGET, NOISE).runs[ARM]
    monkeypatch.setattr("featscope.runs.execute._RUNS_IN_A_SHARD", 4)
    outcome = sweep(tmp_path, TARGET, NOISE)
    xr.testing.assert_identical(outcome.runs[ARM], whole)
    assert len(list((outcome.folder / "checkpoint").iterdir())) == 2 * REPLICAS  # 4 points and 2
    study, plan = Sweep(Pull(), (TARGET, NOISE)), read_plan(outcome.folder)
    found = so_far(outcome.folder, study, plan)
    assert all(arm.done for arm in found.arms)
    assert found.runs[ARM].sizes["target"] == 3
    (outcome.folder / "checkpoint" / f"{ARM}.2.4.safetensors").unlink()
    missing = so_far(outcome.folder, study, plan)
    assert not missing.arms[0].done
    assert missing.runs[ARM]["distance"].isel(step=-1).notnull().all(("replica", "noise")).sum() == 2


def test_step_sizes_and_decays_may_be_axes(tmp_path):
    """One program: η and λ of every replica are tensors; they may round differently."""
    data = sweep(tmp_path, Axis("optimizer.lr", (0.01, 0.2)), Axis("optimizer.weight_decay", (0.0, 0.5))).runs[ARM]
    single = alone(tmp_path, optimizer__lr=0.2, optimizer__weight_decay=0.5)
    point = data.sel(lr=0.2, weight_decay=0.5)
    np.testing.assert_allclose(point["distance"], single["distance"], rtol=1e-5)
    assert float(abs(data["distance"].diff("lr")).isel(step=-1).min()) > 0.01


def test_an_axis_that_changes_shapes_gives_programs_of_their_own(tmp_path):
    data = sweep(tmp_path, Axis("width", (4.0, 1.0, 2.0)), NOISE).runs[ARM]
    assert data["width"].values.tolist() == [1, 2, 4]
    assert data["width"].dtype == np.int64
    assert len(list((tmp_path / "sweep" / "checkpoint").glob("sweep.0.*"))) == 3
    for width in (1, 4):
        single = alone(tmp_path, width=width, data__noise=0.5)
        xr.testing.assert_equal(data["distance"].sel(width=width, noise=0.5, drop=True), single["distance"])


def test_an_axis_over_steps_ends_every_point_at_its_own_step(tmp_path):
    data = sweep(tmp_path, Axis("steps", (5.0, 12.0))).runs[ARM]
    assert data["step"].values[-1] == 12
    short, long = (data["distance"].sel(steps=steps) for steps in (5, 12))
    assert short.sel(step=slice(6, None)).isnull().all()
    assert short.sel(step=5).notnull().all()
    xr.testing.assert_equal(
        short.sel(step=4, drop=True).drop_vars("steps"), long.sel(step=4, drop=True).drop_vars("steps")
    )
    single = alone(tmp_path, steps=5)
    np.testing.assert_array_equal(data["error"].sel(steps=5), single["error"])


def test_an_axis_of_one_value_is_an_axis(tmp_path):
    data = sweep(tmp_path, Axis("data.noise", (0.2,))).runs[ARM]
    assert data["distance"].sizes["noise"] == 1


def diverging(tmp_path) -> Outcome:
    return sweep(tmp_path, Axis("optimizer.lr", (0.1, 1e30, 0.2)), NOISE)


def test_points_that_diverge_are_recorded_and_the_rest_goes_on(tmp_path):
    data = diverging(tmp_path).runs[ARM]
    assert (data["diverged"].sel(lr=1e30) == 1).all()
    assert (data["diverged"].sel(lr=[0.1, 0.2]) == -1).all()
    lost = data.sel(lr=1e30)
    for name in ("loss", "distance", "error", "at_first", "near"):  # whatever the type, and also what was before
        assert lost[name].isnull().all()
        assert data[name].sel(lr=0.1).notnull().all()
    point = data.sel(lr=0.1, noise=0.05)
    np.testing.assert_allclose(point["distance"], alone(tmp_path, data__noise=0.05)["distance"], rtol=1e-5)


def shown(outcome: Outcome, study: Sweep) -> dict[str, Curves]:
    return {figure.id: figure for figure in study.figures(outcome.runs)}


def test_figures_show_every_measurement_over_the_first_axis(tmp_path):
    study = Sweep(Pull(), (TARGET, NOISE))
    outcome = run(study, Settings(replicas=4), tmp_path / "sweep")
    figures = shown(outcome, study)
    assert list(figures) == ["at-the-last-step", "measured-once", "first-steps"]
    along = {panel.title: panel for panel in figures["at-the-last-step"].panels}
    assert list(along) == ["loss on fresh data", "how far it is", "numbers above the target"]
    assert [panel.title for panel in figures["measured-once"].panels] == ["where the first began", "test error"]
    panel = along["how far it is"]
    assert (panel.x_label, panel.y_label, panel.log_x) == ("target", "distance (m)", False)
    assert [curve.label for curve in panel.curves] == ["noise = 0.05", "noise = 0.5"]
    curve = panel.curves[1]
    ends = outcome.runs[ARM]["distance"].isel(step=-1).sel(noise=0.5).transpose("target", "replica").values
    assert curve.x.tolist() == [-1, 0, 3]
    np.testing.assert_allclose(curve.y, ends.mean(1), rtol=1e-6)
    intervals = np.array([interval_of_mean(one.astype(float)) for one in ends])
    np.testing.assert_allclose(np.stack([curve.low, curve.high], 1), intervals, rtol=1e-4)


def test_lines_are_named_by_values_with_all_their_digits():
    """To six digits, two lines would bear one name, and so one colour."""
    sizes = (1048576.0, 1048577.0)
    values = xr.DataArray(np.ones((2, 2, 2)), dims=("replica", "noise", "target"))
    panel = Sweep(Pull(), (NOISE, Axis("data.target", sizes)))._panel(
        "t", "y", values.assign_coords(noise=list(NOISE.values), target=list(sizes))
    )
    assert [curve.label for curve in panel.curves] == ["target = 1048576", "target = 1048577"]


def test_figures_leave_out_runs_that_diverged_and_say_where_they_are(tmp_path):
    outcome = diverging(tmp_path)
    study = Sweep(Pull(), (Axis("optimizer.lr", (0.1, 1e30, 0.2)), NOISE))
    figure = shown(outcome, study)["at-the-last-step"]
    assert "left out" in figure.caption
    share, *others = figure.panels
    assert share.title == "runs that diverged"
    assert all(curve.y.tolist() == [0, 0, 1] and curve.low is None for curve in share.curves)
    for panel in others:
        assert panel.log_x
        assert all(np.isfinite(curve.y).tolist() == [True, True, False] for curve in panel.curves)
    assert study.story(outcome.runs, []).found == "6 points over lr and noise, 3 replicas each; 6 of 18 runs diverged."


def with_near(*steps: list[float], diverged: bool = False) -> dict[str, xr.DataArray]:
    """A sweep over noise, three replicas at each of two points, that were near at these steps; -1 is never."""
    gone = np.array([[-1, -1, -1], [-1, -1, 4 if diverged else -1]])
    over = ("noise", "replica")
    near = xr.DataArray(np.array(steps), dims=over, attrs={"units": "step"})
    run = xr.Dataset({"near": near, "diverged": (over, gone)}, {"noise": list(NOISE.values)})
    figures = {figure.id: figure for figure in Sweep(Pull(), (NOISE,)).figures({ARM: run})}
    assert "left out" in figures["first-steps"].caption or not diverged
    panels = {panel.title: panel for panel in figures["first-steps"].panels}
    assert ("drawn where it came in all" in figures["first-steps"].caption) == ("near: in how many" in panels)
    return panels


def test_first_steps_of_events_are_drawn_over_the_axis():
    (panel,) = with_near([2, 3, 4], [6, 7, 8]).values()
    assert (panel.title, panel.y_label) == ("near", "first step")
    assert panel.curves[0].y.tolist() == [3, 7]


def test_where_an_event_did_not_come_in_all_its_share_is_drawn_and_no_mean_of_the_early_ones():
    panels = with_near([2, 3, 4], [-1, 7, -1])
    np.testing.assert_array_equal(panels["near"].curves[0].y, [3, np.nan])
    share = panels["near: in how many"]
    assert share.y_label == "share of replicas"
    np.testing.assert_allclose(share.curves[0].y, [1, 1 / 3])
    (never,) = with_near([-1, -1, -1], [-1, -1, -1]).values()
    assert (never.title, never.curves[0].y.tolist()) == ("near: in how many", [0, 0])


def test_replicas_that_diverged_lack_no_event():
    (panel,) = with_near([2, 3, 4], [6, 8, np.nan], diverged=True).values()
    assert panel.curves[0].y.tolist() == [3, 7]


def test_of_one_replica_nothing_is_known_about_the_spread(tmp_path):
    outcome = sweep(tmp_path, NOISE, replicas=1)
    (curve,) = shown(outcome, Sweep(Pull(), (NOISE,)))["at-the-last-step"].panels[0].curves
    assert (curve.low, curve.high) == (None, None)


def test_the_report_is_drawn_from_the_folder_and_has_no_empty_table(tmp_path):
    study = Sweep(Pull(), (TARGET, NOISE))
    folder = run(study, Settings(replicas=2), tmp_path / "sweep").folder
    page = report_run(folder, study).read_text()
    assert "6 points over target and noise, 2 replicas each; none diverged." in page
    assert "featscope sweep" not in page  # nobody has registered the study, so no command runs it
    assert command(study, {"seed": 0, "replicas": 2, "device": "cpu"}) == (
        "featscope sweep pull --axis data.target=3,-1,0 --axis data.noise=0.05,0.5 --seed 0 --replicas 2 --device cpu"
    )
    assert "A sweep of the arm pulled (as the options say) over 6 points" in page
    assert 'id="claims"' not in page
    assert 'class="tally"' not in page
    assert sorted(png.name for png in (folder / "figures").iterdir()) == [
        "at-the-last-step.png",
        "first-steps.png",
        "measured-once.png",
    ]


@dataclass(frozen=True)
class Settled(Pull):
    """Its first arm sets the noise itself."""

    def arms(self):
        return [Arm("quiet", replace(self.recipe, data=Noisy(self.data.target, 0.0)), "without noise")]


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ((), r"--axis is missing: allowed is at least one axis, --axis NAME=SPEC"),
        ((NOISE, NOISE), r"--axis is given for noise, noise: allowed are different ones; leave one out"),
        ((Axis("data.noise", (0.1, -0.1)),), r"Noisy.noise = -0.1 is out of range: allowed is >= 0"),
        ((TARGET, Axis("width", (1.5,))), r"Settled.width = 1.5 is out of range: allowed is a whole number"),
        ((TARGET, NOISE), r"data.noise=0.05,0.5 changes nothing in the arm 'quiet', which sets it: allowed are"),
    ],
)
def test_axes_that_cannot_be_swept_are_refused_before_any_work(axes, message):
    with pytest.raises(ConfigError, match=message):
        Sweep(Settled(), axes)


def test_a_sweep_is_described_by_its_study(tmp_path):
    study = Sweep(Pull(steps=9, probe_every=3), (NOISE,))
    assert (study.name, study.default_replicas, study.command) == ("pull", 3, "sweep pull --axis data.noise=0.05,0.5")
    (arm,) = study.arms()
    assert arm.about == "pulled (as the options say) over noise"
    assert (arm.recipe.steps, arm.recipe.probe_every, arm.recipe.replica_axis) == (9, 3, True)


def test_a_study_of_ordinary_modules_is_swept_point_by_point(tmp_path):
    study = Sweep(Ordinary(), (TARGET,))
    data = run(study, Settings(replicas=2), tmp_path / "sweep").runs[ARM]
    assert data["distance"].sizes["target"] == 3
    assert len(list((tmp_path / "sweep" / "checkpoint").iterdir())) == 6  # a program a point, a shard a replica


class OneByOne(Training):
    """Builds one replica, although its tensors look as if they had an axis for many."""

    replica_axis = False


@dataclass(frozen=True)
class Ordinary(Pull):
    """As a study whose networks have no replica axis."""

    @property
    def recipe(self):
        return OneByOne(**vars(super().recipe))


def test_fast_and_slow_points_share_the_draws_of_a_replica(tmp_path):
    data = sweep(tmp_path, TARGET, study=Pull(optimizer=SGD(0.1, 0.0))).runs[ARM]
    assert data["target"].values.tolist() == [-1, 0, 3]
    began = data["at_first"]
    assert (began == began.isel(target=0)).all()
    assert (began.isel(target=0, replica=0) != began.isel(target=0, replica=1)).all()


@dataclass(frozen=True)
class Stopping(Pull):
    """Whose first arm ends when all are near."""

    def arms(self):
        return [Arm("pulled", self.recipe, "until it is near", stop_at="near", at_end=super().arms()[0].at_end)]


def test_it_stops_where_its_arm_would(tmp_path):
    """The points of a program end together: when all have come there."""
    data = sweep(tmp_path, TARGET, study=Stopping(steps=400, optimizer=SGD(0.3, 0.0))).runs[ARM]
    assert (data["near"] > 0).all()
    assert data["near"].max() == data["step"][-1] < 400
    assert (data["last_step"] == data["step"][-1]).all()


@dataclass(frozen=True)
class Asking(Questionnaire):
    """Asks for products with a factor."""

    factor: float = 1.0

    @property
    def grid(self):
        return {"x": (1, 2)}

    @property
    def answers(self):
        return {"product": Answer("factor times x")}

    def asker(self, streams):
        return lambda x: {"product": self.factor * x}


@dataclass(frozen=True)
class Total(Asking):
    """As `Asking`; only the sum is measured."""

    def summary(self, evaluation):
        return {"total": Measurement(evaluation["product"].sum(-1), "sum over x")}


@dataclass(frozen=True)
class Questions(Study):
    """Asks."""

    factor: float = 1.0
    summed: bool = False

    name = "questions"

    def arms(self):
        return [Arm("asked", Total(self.factor) if self.summed else Asking(self.factor), "questions")]


@pytest.mark.parametrize("summed", [False, True])
def test_questions_are_swept_and_what_is_one_number_is_shown(tmp_path, summed):
    study = Sweep(Questions(summed=summed), (Axis("factor", (1.0, 10.0)),))
    outcome = run(study, Settings(replicas=2), tmp_path / "sweep")
    data, figures = outcome.runs[ARM], shown(outcome, study)
    assert (data["total"] if summed else data["product"].sum("x")).transpose("replica", "factor").values.tolist() == [
        [3, 30],
        [3, 30],
    ]
    assert [figure.panels[0].title for id, figure in figures.items() if id == "measured-once"] == [
        "sum over x"
    ] * summed
