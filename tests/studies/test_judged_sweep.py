"""A study's claims over one or two options: what is trained, judged, added and told."""

import json
import math
import re
from dataclasses import dataclass, replace
from math import hypot

import pytest
import xarray as xr

from featscope.axes import Axis
from featscope.claims import Claim, bound
from featscope.cli import main
from featscope.commands.run import how_to_judge
from featscope.commands.sweep import axis_values
from featscope.options import ConfigError, require
from featscope.registry import find
from featscope.report.page import page_html
from featscope.report.provenance import command
from featscope.report.run_report import content, report_run
from featscope.report.unfinished import unfinished_content
from featscope.runs import Settings, run
from featscope.runs.execute import UnjudgedError, left_out
from featscope.runs.growing import grow
from featscope.runs.stored import read_claims, read_plan
from featscope.studies import Story
from featscope.studies.judged_sweep import JudgedSweep, _in_words
from featscope.studies.refinement import closer
from swept import ENTRY, Pull, Values, end

TARGETS = Axis("data.target", (0.0, 1.0, 2.0, 4.0))
WIDTHS = Axis("width", (2.0, 6.0))


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch):
    monkeypatch.setattr("featscope.runs.workers.cores", lambda: 1)


@dataclass(frozen=True)
class Claiming(Pull):
    """Numbers that are pulled far enough or not."""

    @bound("Lemma 1", on="pulled", at_most=1.0, because="A choice.")
    def near(self, run: xr.Dataset) -> xr.DataArray:
        """Numbers are near. Measured: the distance in the end."""
        return run.distance.isel(step=-1)

    @bound("Lemma 2", on="pulled", at_most=0.0)
    def as_near_as_the_other(self, runs) -> xr.DataArray:
        """One arm is as near as the other."""
        return runs["pulled"].distance.isel(step=-1) - runs["other"].distance.isel(step=-1)

    def watch(self, experiment):
        found = super().watch(experiment)
        own = found["distance"]._replace(values=0 * found["distance"].values + self.data.target)
        return found | {"own": own}


def test_what_fails_on_a_control_fails_as_it_must():
    class Controlled(Claiming):
        @bound("Lemma 3", on="pulled", not_on="other", at_most=-1.0)
        def nothing(self, run):
            """Distances are below zero."""
            return run.distance.isel(step=-1)

    study = JudgedSweep(Controlled(), (TARGETS,), ("nothing",))
    about = {"id": "nothing", "source": "Lemma 3", "statement": "", "kind": "bound", "title": "Below zero"}
    claims = [
        Claim.from_samples([1.0, 1.1, 1.2, 1.3], "<=", -1.0, arm=f"{arm}@target=1", expected=arm == "pulled", **about)
        for arm in ("pulled", "other")
    ]
    of = xr.Dataset({"distance": ("replica", [1.0])})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JudgedSweep, "story", lambda self, runs, claims: Story("Found."))
        patch.setattr(JudgedSweep, "figures", lambda self, runs: [])
        said = content(study, {"pulled": of}, claims)
    assert {*said.controls} == {"other@target=1"}
    assert "fails on a control, as it must" in page_html(said)


def judged(*axes, **more):
    return JudgedSweep(Claiming(), axes, ("near",), **more)


def trained(study, folder, **more):
    return run(study, Settings(seed=4, replicas=3), folder, **more)


def test_points_that_differ_in_numbers_train_together_and_are_judged_as_a_run_of_their_own(tmp_path):
    study = judged(TARGETS, WIDTHS)
    assert [(arm.name, len(arm.over[0].values)) for arm in study.arms()] == [("pulled", 4), ("pulled@1", 4)]
    outcome = trained(study, tmp_path / "sweep")
    by_point = study.over_points(outcome.claims)["near@pulled"]
    assert list(by_point) == [(target, width) for width in (2.0, 6.0) for target in (0.0, 1.0, 2.0, 4.0)]
    alone = trained(replace(Claiming(), width=6, data=replace(Claiming().data, target=2.0)), tmp_path / "alone")
    (near,) = (claim for claim in alone.claims if claim.id == "near")
    assert by_point[2.0, 6.0].values == pytest.approx(near.values)
    assert outcome.runs["pulled"].own.sel(at=6).isnull().sum() == 0  # not one of width 6
    assert outcome.runs["pulled"].own.isel(step=-1, replica=0).values.tolist() == [0.0, 1.0, 2.0, 4.0]
    assert {claim.arm for claim in outcome.claims} >= {"pulled@target=4+width=6", "pulled@target=0+width=2"}


@dataclass(frozen=True)
class Wider(Claiming):
    """A float decides how many numbers there are."""

    ratio: float = 1.0

    @property
    def recipe(self):
        return replace(super().recipe, learner=self.learner)

    @property
    def learner(self):
        return Values(int(2 * self.ratio))

    @bound("Lemma 3", on="pulled", at_most=99.0)
    def all_near(self, run: xr.Dataset) -> xr.DataArray:
        """All numbers are near."""
        return abs(run["values"].isel(step=-1)).max("number")


RATIOS = Axis("ratio", (1.0, 2.0, 1.2))


def test_points_at_which_a_float_changes_a_shape_train_apart_and_are_judged(tmp_path):
    study = JudgedSweep(Wider(), (RATIOS,), ("all-near",))
    assert [(arm.name, arm.over[0].values) for arm in study.arms()] == [("pulled", (0.0, 2.0)), ("pulled@1", (1.0,))]
    outcome = trained(study, tmp_path / "sweep")
    assert [claim.arm for claim in outcome.claims] == ["pulled@ratio=1", "pulled@ratio=1.2", "pulled@ratio=2"]
    assert outcome.runs["pulled@1"].sizes["number"] == 4
    together = {"pulled": outcome.runs["pulled"], "pulled@1": outcome.runs["pulled@1"].drop_vars("values")}
    older = {"pulled": xr.concat([run.drop_vars("values", errors="ignore") for run in together.values()], "at")}
    near = JudgedSweep(Wider(), (RATIOS,), ("near",)).claims
    assert near(older) == near(together)


def test_how_long_points_go_on_keeps_none_apart():
    class Longer(Claiming):
        @property
        def recipe(self):
            return replace(super().recipe, steps=int(4 * self.data.target))

    study = JudgedSweep(Longer(), (Axis("data.target", (1.0, 2.0)),), ("near",))
    assert [arm.name for arm in study.arms()] == ["pulled"]


@dataclass(frozen=True)
class Built(Values):
    """What only shows when it is built."""

    ratio: float = 1.0

    def build(self, source, draws):
        return Values(int(2 * self.ratio)).build(source, draws)


class BuiltWider(Wider):
    @property
    def learner(self):
        return Built(2, self.ratio)


def test_what_cannot_be_put_side_by_side_is_named_and_not_called_kept(tmp_path):
    only_near = trained(JudgedSweep(BuiltWider(), (RATIOS,), ("near",)), tmp_path / "near")
    assert left_out(only_near.runs).startswith("Not kept of the arm pulled, as its shape depends on the point: values.")
    with pytest.raises(UnjudgedError) as raised:
        trained(JudgedSweep(BuiltWider(), (RATIOS,), ("all-near",)), tmp_path / "all")
    said = how_to_judge(raised.value, tmp_path / "all")
    assert "All else that was measured is kept. Not kept of the arm pulled, as its shape" in said
    assert left_out(trained(JudgedSweep(Wider(), (RATIOS,), ("near",)), tmp_path / "apart").runs) == ""


def test_one_name_measured_twice_is_refused_in_a_sweep_as_well(tmp_path):
    class Twice(Claiming):
        def arms(self):
            first, *others = super().arms()
            return [replace(first, at_end=(end, end)), *others]

    with pytest.raises(ValueError, match="'error' is measured twice"):
        trained(JudgedSweep(Twice(), (TARGETS,), ("near",)), tmp_path / "sweep")


def test_every_arm_is_trained_where_a_claim_looks_at_several():
    assert [arm.name for arm in judged(TARGETS).arms()] == ["pulled"]
    both = JudgedSweep(Claiming(), (TARGETS,))
    assert [arm.name for arm in both.arms()] == ["pulled", "other"]


def test_an_arm_that_ranges_over_something_itself_is_an_arm_at_each_point(tmp_path):
    @dataclass(frozen=True)
    class Ranging(Claiming):
        def arms(self):
            first, *others = super().arms()
            return [replace(first, over=(Axis("data.noise", (0.1, 0.2)),)), *others]

        @bound("Lemma 1", on="pulled", at_most=1.0)
        def near(self, run: xr.Dataset) -> xr.DataArray:
            """Numbers are near."""
            return run.distance.isel(step=-1).max("noise") + 0 * run.own.isel(step=-1, noise=0)

    study = JudgedSweep(Ranging(), (Axis("data.target", (0.0, 4.0)),), ("near",))
    outcome = trained(study, tmp_path / "sweep")
    assert list(outcome.runs) == ["pulled@target=0", "pulled@target=4"]
    assert [run.own.max().item() for run in outcome.runs.values()] == [0.0, 4.0]
    assert [claim.arm for claim in outcome.claims] == ["pulled@target=0", "pulled@target=4"]
    near = JudgedSweep(Ranging(), (Axis("data.target", (1.0, 1.00000001)),), ("near",))
    assert [arm.name for arm in near.arms()] == ["pulled@target=1", "pulled@target=1.00000001"]


def test_a_point_that_diverges_is_undecided_and_the_others_go_on(tmp_path):
    study = JudgedSweep(Claiming(), (Axis("optimizer.lr", (0.1, 1e30)),), ("near",))
    claims = {claim.arm: claim for claim in trained(study, tmp_path / "sweep").claims}
    assert claims["pulled@lr=1e+30"].verdict == "undecided"
    assert claims["pulled@lr=0.1"].measured < 3


def drawn(samples, bound=1.0):
    """The diagram of these samples at targets 0, 1, ..."""
    study = judged(Axis("data.target", tuple(map(float, range(len(samples))))))
    about = {"id": "near", "source": "Lemma 1", "statement": "Numbers are near.", "kind": "bound"}
    claims = [Claim.from_samples(at, "<=", bound, arm=f"pulled@target={i}", **about) for i, at in enumerate(samples)]
    return study._figure("near", {"pulled": study.over_points(claims)["near@pulled"]})


def test_points_of_which_nothing_was_measured_are_handed_over_and_counted():
    some, none = [0.1, 0.2, 0.3], [float("nan")] * 3
    figure = drawn([some, none, some, none])
    (panel,) = figure.panels
    assert panel.x.tolist() == [0, 1, 2, 3]
    assert [math.isfinite(y) for y in panel.y] == [True, False, True, False]
    assert panel.verdicts[1] == "undecided"
    assert "Points of which nothing was measured stand at the foot: 2." in figure.caption
    assert "foot" not in drawn([some, some]).caption


def test_words_of_a_point_have_the_digits_that_tell_it_from_its_bound():
    ((close, far),) = (panel.said for panel in drawn([[1.000029, 1.00003, 1.000031], [2.0, 2.1, 2.2]]).panels)
    assert re.fullmatch(r"target=0: fails, 1\.00003\d* \(1\.0000\d+ to 1\.0000\d+\), wanted <= 1", close)
    assert re.fullmatch(r"target=1: fails, 2\.1 \(1\.\d+ to 2\.\d+\), wanted <= 1", far)


@pytest.mark.parametrize(
    ("measured", "words"),
    [(1.012341, "holds, 1.012 .*, wanted = 1 ± 0.0123"), (1.01236, "fails, .*, wanted = 1 ± 0.0123")],
)
def test_words_of_an_equation_have_the_tolerance_by_which_it_reads_as_its_verdict(measured, words):
    about = {"id": "near", "source": "Lemma 1", "statement": "Numbers are near.", "kind": "identity", "arm": "pulled"}
    made = Claim.from_samples(measured, "=", 1.0, 0.0123456, law="exact", **about)
    assert re.fullmatch(words, _in_words(made))


# --- Looking closer -----------------------------------------------------------------------------------------------


def look(axes, whole, holds, budget):
    """All points at which one looks, with verdicts by ``holds``, and in how many rounds."""
    known = {point: (holds(point),) for point in points_of(axes)}
    first, rounds = len(known), 0
    while more := closer(axes, whole, known, budget - (len(known) - first)):
        known |= {point: (holds(point),) for point in more}
        rounds += 1
    return known, rounds


def points_of(axes):
    first, *rest = axes
    return [(a,) for a in first.values] if not rest else [(a, b) for a in first.values for b in rest[0].values]


def test_along_one_axis_it_bisects_to_the_change():
    axis = Axis("x", (0.0, 1.0, 2.0, 3.0))
    known, rounds = look([axis], [False], lambda p: "holds" if p[0] < 1.3 else "fails", 5)
    assert (len(known), rounds) == (9, 5)
    assert max(p[0] for p in known if known[p] == ("holds",)) == pytest.approx(1.3, abs=2**-4)
    assert closer([axis], [False], dict.fromkeys(points_of([axis]), ("holds",)), 9) == []


def test_middles_are_of_the_scale_of_the_axis_and_whole_numbers_end():
    grid = {(1.0,): ("holds",), (100.0,): ("fails",)}
    assert closer([Axis("x", (1.0, 100.0))], [False], grid, 1) == [(10.0,)]
    assert closer([Axis("x", (1.0, 2.0))], [True], {(1.0,): ("holds",), (2.0,): ("fails",)}, 9) == []


def test_over_two_axes_points_gather_where_the_verdict_changes():
    axes = [Axis("x", (0.0, 0.5, 1.0)), Axis("y", (0.0, 0.5, 1.0))]

    def holds(point):
        return "holds" if hypot(*point) < 0.8 else "fails"

    known, rounds = look(axes, [False, False], holds, 60)
    added = [point for point in known if point not in points_of(axes)]
    assert rounds >= 3
    assert 50 <= len(added) <= 60
    near = [abs(hypot(*point) - 0.8) for point in added]
    assert sum(one < 0.25 for one in near) > 0.8 * len(near)
    assert max(near) < 0.6


def test_places_of_a_closer_look_are_told_with_all_their_digits():
    """To four digits, it would hold at 1000 and fail from 1000 on."""
    axis = Axis("data.target", (1000.0, 1010.0))
    study = JudgedSweep(Claiming(), (axis,), ("near",), 1, (((1000.04,),),))
    about = {"id": "near", "source": "", "statement": "", "kind": "bound", "arm": "pulled", "law": "exact"}
    at = {(x,): Claim.from_samples(x, "<=", 1000.02, **about) for x in (1000.0, 1000.04, 1010.0)}
    assert study._where(at) == "holds 1000; fails 1000.04 to 1010"
    both = replace(study, axes=(axis, WIDTHS), refine=0, added=())
    over = {
        (x, width): Claim.from_samples(x, "<=", 1000.02, **about) for x in (1000.0, 1000.04) for width in (2.0, 6.0)
    }
    assert both._where(over) == "target 1000 to 1000.04"


def test_changes_come_before_what_is_undecided_and_points_stay_within_the_budget():
    verdicts = {(0.0,): "undecided", (1.0,): "undecided", (2.0,): "undecided", (3.0,): "fails"}
    axis, told = Axis("x", (0.0, 1.0, 2.0, 3.0)), {point: (one,) for point, one in verdicts.items()}
    assert closer([axis], [False], told, 9) == [(2.5,)]
    assert closer([axis], [False], told, 0) == []
    alike = dict.fromkeys(told, ("undecided",))
    assert closer([axis], [False], alike, 2) == [(0.5,), (1.5,)]


def test_a_cell_in_which_the_study_cannot_be_is_not_cut_and_finer_ones_are():
    told = {(0.0,): ("holds",), (4.0,): ("fails",), (6.0,): ("fails",), (8.0,): ("holds",)}
    axis = Axis("x", (0.0, 4.0, 8.0))
    assert closer([axis], [False], told, 9) == [(2.0,)]
    assert closer([axis], [False], told, 9, lambda point: point != (2.0,)) == [(7.0,)]
    assert closer([axis], [False], told, 9, lambda point: False) == []


@dataclass(frozen=True)
class Even(Claiming):
    """Numbers in pairs."""

    def __post_init__(self):
        super().__post_init__()
        require(self, "width", self.width % 2 == 0, "an even number")


@pytest.mark.parametrize(("widths", "more"), [((2.0, 4.0), ()), ((2.0, 6.0), ((4.0,),))])
def test_one_does_not_look_where_the_study_cannot_be(widths, more):
    study = JudgedSweep(Even(), (Axis("width", widths),), ("near",), refine=2)
    about = {"id": "near", "source": "Lemma 1", "statement": "Numbers are near.", "kind": "bound"}
    ends = [[0.1, 0.2, 0.3], [5.1, 5.2, 5.3]]
    claims = [
        Claim.from_samples(at, "<=", 1.0, arm=f"pulled@width={width:g}", **about)
        for at, width in zip(ends, widths, strict=True)
    ]
    assert [claim.verdict for claim in claims] == ["holds", "fails"]
    assert study.closer(claims) == more


def test_a_run_that_grows_trains_new_points_alone_and_is_resumed_where_it_was(tmp_path, monkeypatch):
    study = judged(TARGETS, refine=3)
    first = trained(study, tmp_path / "run")
    more = study.closer(first.claims)
    assert more
    larger = study.grown(more)
    before, after = study.arms(), larger.arms()
    assert [arm.recipe for arm in after[: len(before)]] == [arm.recipe for arm in before]  # so that what is done counts
    grow(tmp_path / "run", larger)
    assert unfinished_content(tmp_path / "run", larger).claims
    assert [arm.name for arm in larger.arms()] == ["pulled", "pulled@1"]
    second = trained(larger, tmp_path / "run", resume=True)
    old = {claim.arm: claim.values for claim in first.claims}
    assert len(second.claims) == len(old) + len(more)
    assert {claim.arm: claim.values for claim in second.claims}.items() >= old.items()
    with pytest.raises(ConfigError, match="needs the options that the run began with"):
        trained(study, tmp_path / "run", resume=True)


# --- The command --------------------------------------------------------------------------------------------------


@pytest.fixture
def call(tmp_path, monkeypatch, capfd):
    for module in ("commands.run", "report.run_report", "report.unfinished"):
        monkeypatch.setattr(f"featscope.{module}.find", lambda name: (ENTRY, Claiming))
    monkeypatch.setattr("featscope.registry.entry", lambda name: ENTRY)
    monkeypatch.chdir(tmp_path)

    def called(*words):
        with pytest.raises(SystemExit) as ended:
            main(["sweep", "pull", *words])
        return ended.value.code, *capfd.readouterr()

    return called


def test_the_command_judges_adds_points_draws_and_goes_on(call, tmp_path):
    words = ["--judge", "--axis", "target=0:4:3", "--claim", "near", "--refine", "3", "--replicas", "4", "--out", "run"]
    code, out, err = call(*words)
    assert code == 0, err
    assert re.search(r"near@pulled +\d +\d +\d +holds 0 to", out)
    found = re.search(r"Of (\d+) points over target, near holds at \d+, fails at \d+ and is undecided at \d+\.", out)
    count = int(found[1])
    assert 3 < count <= 6
    assert (tmp_path / "run" / "figures" / "where-near.png").exists()
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Points with each verdict" in page
    assert re.search('"kind": ?"verdicts"', page)
    assert "data.target along an axis" in page
    claims = read_claims(tmp_path / "run")
    assert len(claims) == count
    code, _, err = call(*words, "--resume")
    assert code == 0, err
    assert [claim.to_json() for claim in read_claims(tmp_path / "run")] == [claim.to_json() for claim in claims]
    with pytest.raises(SystemExit) as ended:
        main(["judge", str(tmp_path / "run")])
    assert ended.value.code == 0


def test_it_tells_machines_that_it_grew(call):
    words = ["--judge", "--axis", "target=0:4:3", "--claim", "near", "--refine", "1", "--replicas", "4", "--json"]
    code, out, _ = call(*words, "--out", "run")
    events = [json.loads(line)["event"] for line in out.splitlines()]
    assert code == 0
    assert events.count("grew") == 1
    assert events.count("finished") == 1
    assert events.count("claim") == 4


def test_a_log_axis_is_spaced_by_ratios():
    assert axis_values("x=1:100:3:log", "1:100:3:log") == (1.0, 10.0, 100.0)
    assert axis_values("x=4096:1048576:3:log", "4096:1048576:3:log") == (4096.0, 65536.0, 1048576.0)
    assert Axis("x", (1.0, 10.0, 100.0)).logarithmic
    assert not Axis("x", (1.0, 2.0, 3.0)).logarithmic
    assert not Axis("x", (0.0, 1.0, 100.0)).logarithmic
    for wrong in ("0:1:3:log", "1:2:3:lin", "1:2:3:log:4", "-1:1:3:log"):
        with pytest.raises(ConfigError, match="cannot be read"):
            axis_values(f"x={wrong}", wrong)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--axis", "target=0,1", "--claim", "near"], "--claim needs --judge"),
        (["--axis", "target=0,1", "--refine", "3"], "--refine needs --judge"),
        (["--judge"], "allowed are one or two different ones"),
        (["--judge", "--axis", "target=0,1", "--axis", "noise=0,1", "--axis", "width=1,2"], "one or two different"),
        (["--judge", "--axis", "target=0,1", "--claim", "far"], "--claim = 'far' is unknown: allowed is one of near,"),
        (["--judge", "--axis", "target=0,1", "--refine", "-1"], "--refine = -1 is out of range: allowed is >= 0"),
        (["--judge", "--axis", "noise=-1,1"], "--data.noise = -1"),
    ],
)
def test_what_cannot_be_judged_is_refused_before_any_work(call, tmp_path, words, message):
    code, _, err = call(*words, "--out", "run")
    assert code == 2
    assert message in err
    assert not (tmp_path / "run").exists()


def test_a_study_without_claims_and_an_axis_that_changes_nothing_are_refused():
    with pytest.raises(ConfigError, match="pull claims nothing"):
        JudgedSweep(Pull(), (TARGETS,))

    @dataclass(frozen=True)
    class Fixed(Claiming):
        def arms(self):
            return [replace(arm, recipe=Pull().recipe) for arm in super().arms()]

    with pytest.raises(ConfigError, match="target=0,1,2,4 changes nothing in any arm"):
        JudgedSweep(Fixed(), (TARGETS,), ("near",))


def test_the_page_of_an_unfinished_one_and_its_command(tmp_path):
    study = judged(TARGETS, WIDTHS, refine=2)
    said = command(replace(study, added=(((0.5, 2.0),),)), {"seed": 1, "replicas": 3, "device": "cpu"})
    words = "featscope sweep pull --judge --axis data.target=0,1,2,4 --axis width=2,6 --claim near --refine 2 --seed 1"
    assert said.startswith(words)
    outcome = trained(study, tmp_path / "run")
    assert "where-near" in report_run(outcome.folder, study).read_text()
    plan = read_plan(tmp_path / "run")
    assert plan["config"]["only"] == ["near"]


def test_an_arm_that_sets_what_varies_itself_is_said_to_be_one_measurement():
    study = find("tensor-power")[1]().smallest()
    sweep = JudgedSweep(study, (Axis("power", (6.0, 14.0)),), ("weighted-lower-bound",))
    assert sweep._same(["starts", "step-sizes", "steep"]) == (
        "One measurement at all points, as it sets what varies itself: starts, steep. "
    )
