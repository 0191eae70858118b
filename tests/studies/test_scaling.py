"""Studies along a ladder: what is run, judged and foretold."""

import json
import re
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import xarray as xr

from featscope.claims import Claim, bound, identity, interval_of_mean
from featscope.cli import main
from featscope.commands.trend import tell_trends
from featscope.options import ConfigError
from featscope.registry import entries, find
from featscope.report.provenance import command
from featscope.report.run_report import changed_in_words, content, report_run
from featscope.runs import Outcome, Settings, run
from featscope.runs.folder import RunFolder
from featscope.runs.stored import read_trends
from featscope.studies.ladder import Ladder
from featscope.studies.scaling import WITH_LADDERS, ScalingStudy, trend_in_words
from featscope.trends import trend_of
from featscope.trends.of_claims import _trials
from swept import ENTRY, Pull

SIZES = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
CLAIMS = {"far@pulled": "value", "mean-is-at-target": "difference"}


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch):
    monkeypatch.setattr("featscope.runs.workers.cores", lambda: 1)


@dataclass(frozen=True)
class Grown(Pull):
    """More and more numbers."""

    ladders: ClassVar = (
        Ladder("width", SIZES, CLAIMS, at={"data.target": 2.0}, pace={"steps": lambda n: n}, arms=("pulled",)),
        Ladder("", SIZES, CLAIMS, pace={"data.target": lambda n: 1 / n}, symbol="n"),
    )

    @bound("Lemma 1", on=("pulled", "other"), at_most=0.5)
    def far(self, run: xr.Dataset) -> xr.DataArray:
        """Numbers are near. Measured: the distance in the end."""
        return run.distance.isel(step=-1)

    @identity("Lemma 2", on="pulled", equals=0.0, within=0.5)
    def mean_is_at_target(self, run: xr.Dataset, runs) -> xr.DataArray:
        """The mean is at the target."""
        return run.error

    @bound("Lemma 3", on="pulled", at_most=0.0)
    def not_on_the_ladder(self, run: xr.Dataset) -> xr.DataArray:
        """Not on the ladder."""
        return run.error


@pytest.fixture
def outcome(tmp_path):
    return run(ScalingStudy(Grown()), Settings(seed=4, replicas=3), tmp_path / "trend")


def test_every_arm_at_every_size_is_an_arm_and_its_claims_are_those_of_a_run_of_that_size(outcome, tmp_path):
    assert list(outcome.runs) == [f"pulled@width={size:g}" for size in SIZES]
    study = ScalingStudy(Grown()).at(8)
    assert (study.width, study.steps, study.data.target) == (8, 8, 2.0)
    alone = run(study, Settings(seed=4, replicas=3), tmp_path / "alone")
    (far,) = (claim for claim in alone.claims if (claim.id, claim.arm) == ("far", "pulled"))
    (there,) = (claim for claim in outcome.claims if (claim.id, claim.arm) == ("far", "pulled@width=8"))
    assert there.values == far.values
    assert {claim.id for claim in outcome.claims} == {"far", "mean-is-at-target"}


def test_each_size_is_watched_by_the_study_of_that_size(tmp_path):
    @dataclass(frozen=True)
    class Watching(Grown):
        def watch(self, experiment):
            found = super().watch(experiment)
            return found | {"own": found["distance"]._replace(values=0 * found["distance"].values + self.width)}

    runs = run(ScalingStudy(Watching()), Settings(seed=4, replicas=3), tmp_path / "trend").runs
    assert [float(one.own.max()) for one in runs.values()] == list(SIZES)


def test_trends_are_of_the_measurements_and_stand_on_the_page(outcome):
    study = ScalingStudy(Grown())
    trends = study.trends(outcome.claims)
    assert set(trends) == {"far@pulled", "mean-is-at-target@pulled"}
    far = trends["far@pulled"]
    assert far.samples.shape == (6, 3)
    assert far.trend.predicted == 0.5
    assert json.loads(json.dumps(far.to_json(), allow_nan=False))["at"][0]["size"] == 2
    assert re.search(r"up to width = 1024\. At 256: holds \(.* At 1024: holds \(", trend_in_words(far, "width"))
    page = report_run(outcome.folder, study).read_text()
    assert "Numbers are near" in page
    assert (outcome.folder / "figures" / "trend-far-pulled.png").exists()


@pytest.mark.parametrize("chosen", [ScalingStudy(Grown()), ScalingStudy(Grown(), "width")])
def test_the_command_that_is_printed_resumes_the_trend(chosen):
    plan = {"seed": 0, "replicas": 4, "device": "cpu", "memory_limit": 2.5}
    said = command(chosen, plan)
    assert ("--axis" in said) == bool(chosen.axis)  # `--resume` compares it as it was typed
    assert said.endswith("--memory-limit 2.5")
    assert "--memory-limit" not in command(chosen, plan | {"memory_limit": None})


def test_the_page_expects_nothing_of_other_sizes(outcome):
    study = ScalingStudy(Grown())
    assert content(study, outcome.runs, outcome.claims).changed == "width along a ladder"
    assert changed_in_words(ScalingStudy(Grown(), "n")) == "n along a ladder"
    page = report_run(outcome.folder, study).read_text()
    assert "Not at default options (width along a ladder)" in page
    assert "against expectation" not in page


BROKEN_TRENDS = [
    (lambda trend: trend.pop("compared"), r"trends\.json is incomplete, trends\[0\]\.compared is missing"),
    (lambda trend: trend["at"].pop(), r"trends\[0\]\.at = .* allowed is the sizes \[2\.0, 4\.0"),
    (lambda trend: trend["at"][1].update(verdict="so"), r"trends\[0\]\.at\[1\]\.verdict = 'so' .* allowed is 'holds'"),
    (lambda trend: trend["at"][0].update(interval=[2, 1]), r"at\[0\]\.interval = \[2, 1\] .* the low end before"),
    (
        lambda trend: trend["foretold"][1].update(probability=2),
        r"foretold\[1\]\.probability = 2 is out of range: allowed is 0 to 1",
    ),
    (lambda trend: trend["direction"].update(word="up"), r"direction\.word = 'up' .* allowed is 'toward'"),
    (lambda trend: trend.update(surprise=0.125), r"trends\.json does not agree with its checksum"),
]


@pytest.mark.filterwarnings("ignore:pull cannot read")
def test_the_command_says_what_is_foretold_and_keeps_it(tmp_path, monkeypatch, capfd):
    for module in ("commands.run", "report.run_report"):
        monkeypatch.setattr(f"featscope.{module}.find", lambda name: (ENTRY, Grown))
    monkeypatch.setattr("featscope.registry.entry", lambda name: ENTRY)
    words = ["trend", "pull", "--axis", "width", "--replicas", "3", "--out", str(tmp_path / "run")]
    with pytest.raises(SystemExit) as ended:
        main(words)
    out = capfd.readouterr().out
    assert ended.value.code == 0
    assert "pull: verdicts over width" in out
    assert out.count("Laws by weight") == 2
    assert "Of 2 claims over 6 sizes" in out
    stored = read_trends(tmp_path / "run")
    assert (stored["symbol"], stored["sizes"]) == ("width", list(SIZES))
    first = stored["trends"][0]
    assert (first["id"], first["arm"], len(first["at"])) == ("far", "pulled", 6)
    assert [said["factor"] for said in first["foretold"]] == [4, 16]
    file = tmp_path / "run" / "trends.json"
    for change, message in BROKEN_TRENDS:
        spoilt = json.loads(file.read_text())
        change(spoilt["trends"][0])
        (tmp_path / "trends.json").write_text(json.dumps(spoilt))
        with pytest.raises(ConfigError, match=f"{message}.*--resume, which foretells anew"):
            read_trends(tmp_path)
    with RunFolder.held(tmp_path / "run", resume=True), pytest.raises(ConfigError, match="is held by this process"):
        tell_trends(ScalingStudy(Grown(), "width"), Outcome(tmp_path / "run", {}, []))


def test_names_of_claims_are_printed_as_they_are_written(outcome, monkeypatch, capfd):
    read = ScalingStudy.trends
    monkeypatch.setattr(ScalingStudy, "trends", lambda *given: {f"{key}[/b]": one for key, one in read(*given).items()})
    tell_trends(ScalingStudy(Grown()), outcome)
    assert capfd.readouterr().out.count("far@pulled[/b]") == 2, "in the table and before what is foretold"


@pytest.mark.filterwarnings("ignore:pull cannot read")
def test_a_trend_that_is_judged_anew_prints_its_table_and_foretells_anew(outcome, monkeypatch, capfd):
    for module in ("commands.run", "registry", "report.run_report"):
        monkeypatch.setattr(f"featscope.{module}.find", lambda name: (ENTRY, Grown))
    file = outcome.folder / "trends.json"
    tell_trends(ScalingStudy(Grown()), outcome)
    told, written = capfd.readouterr().out, file.read_bytes()
    for spoil in (file.unlink, lambda: file.write_text("{}")):
        spoil()
        with pytest.raises(SystemExit, match=r"^0$"):
            main(["judge", str(outcome.folder)])
        out = capfd.readouterr().out
        assert told in out
        assert "pull: verdicts over width" in out
        assert "All as before." in out
        assert file.read_bytes() == written


@pytest.mark.parametrize(
    ("ladder", "option", "typed"),
    [
        ("width", "--width", "3"),
        ("width", "--data.target", "3.0"),
        ("width", "--steps", "20"),
        ("width", "--steps", "12"),  # the default
        ("n", "--data.target", "3.0"),
    ],
)
def test_an_option_that_the_ladder_sets_is_refused_before_any_work(tmp_path, monkeypatch, capfd, ladder, option, typed):
    monkeypatch.setattr("featscope.commands.run.find", lambda name: (ENTRY, Grown))
    monkeypatch.setattr("featscope.registry.entry", lambda name: ENTRY)
    with pytest.raises(SystemExit) as ended:
        main(["trend", "pull", "--axis", ladder, option, typed, "--out", str(tmp_path / "run")])
    assert ended.value.code == 2
    said = f"{option} = {typed} would be lost: the ladder over {ladder} sets it at every size. Leave it out"
    assert said in capfd.readouterr().err
    assert not (tmp_path / "run").exists()


def test_another_ladder_is_chosen_by_its_symbol_and_named_in_the_command():
    study = ScalingStudy(Grown(), "n", (*SIZES, 128.0))
    assert study.at(4).data.target == 0.25
    assert len(study.arms()) == 14
    plan = {"seed": 1, "replicas": 3, "device": "cpu"}
    assert command(study, plan).startswith("featscope trend pull --axis n --sizes 2 4 8 16 32 64 128 --seed 1")
    larger = ScalingStudy(Grown(), "n", (*SIZES, 1048577.0))
    assert (larger.command[-7:], larger.arms()[-1].name) == ("1048577", "other@n=1048577")


def test_what_is_no_ladder_is_refused():
    with pytest.raises(ConfigError, match="no ladder of pull: allowed is one of width, n"):
        ScalingStudy(Grown(), "height")
    with pytest.raises(ConfigError, match=r"declares no ladder to climb: allowed are decoupling, .* `ladders`"):
        ScalingStudy(Pull())
    assert {name for name in entries() if find(name)[1].ladders} == set(WITH_LADDERS)
    with pytest.raises(ConfigError, match="6 positive sizes"):
        ScalingStudy(Grown(), "width", (1, 2, 3))
    with pytest.raises(ConfigError, match="one claim"):
        Ladder("width", SIZES, {})

    @dataclass(frozen=True)
    class Wrong(Grown):
        ladders: ClassVar = (Ladder("width", SIZES, {"farr": "value"}),)

    with pytest.raises(ConfigError, match="'farr' is no claim"):
        ScalingStudy(Wrong())


@pytest.mark.parametrize(
    ("claims", "arms", "words"),
    [
        ({"far@other": "value"}, ("pulled",), "'far@other' is of no arm that is run: allowed is one of pulled. Add"),
        ({"mean-is-at-target": "value"}, ("other",), "'mean-is-at-target' is of no arm that is run"),
        ({"far": "values"}, (), "'far' bears 'values': allowed is one of 'value', 'ratio', 'difference'"),
    ],
)
def test_a_ladder_whose_claims_would_be_left_out_is_refused_before_any_work(claims, arms, words):
    @dataclass(frozen=True)
    class Wrong(Grown):
        ladders: ClassVar = (Ladder("width", SIZES, claims, arms=arms),)

    with pytest.raises(ConfigError, match=f"Ladder.claims: {words}"):
        ScalingStudy(Wrong())


def test_a_claim_that_lacks_a_size_is_named(outcome):
    study = ScalingStudy(Grown())
    assert "no trend" not in study.story(outcome.runs, outcome.claims).found
    some = [claim for claim in outcome.claims if (claim.id, claim.arm) != ("far", "pulled@width=8")]
    found = study.story(outcome.runs, some).found
    assert found.startswith("Of 1 claims over 6 sizes")
    assert found.endswith(" far@pulled has no trend: it is not judged at width = 8.")
    none = study.story(outcome.runs, []).found
    assert "far@pulled has no trend: it is not judged at width = 2, 4, 8, 16, 32, 64." in none
    assert "not-on-the-ladder" not in none


def test_a_claim_that_looks_at_an_arm_which_is_not_run_says_so(outcome):
    @dataclass(frozen=True)
    class Looking(Grown):
        @bound("Lemma 1", on="pulled", at_most=0.5)
        def far(self, runs):
            """Numbers are nearer than the others."""
            return runs["pulled"].distance.isel(step=-1) - runs["other"].distance.isel(step=-1)

    with pytest.raises(LookupError, match=r"'far' looks at the arm 'other', .* add it to Ladder\.arms = \('pulled',\)"):
        ScalingStudy(Looking()).claims(outcome.runs)


@pytest.mark.parametrize("name", entries())
def test_declared_ladders_can_be_climbed(name):
    study = find(name)[1]()
    for ladder in study.ladders:
        climbed = ScalingStudy(study, ladder.name)
        recipes = {}
        for arm in climbed.arms():
            recipes.setdefault(arm.name.partition("@")[0], []).append(arm.recipe)
        assert all(len(set(map(repr, each))) == len(each) for each in recipes.values())


def claims(values, predicted, tolerance=0.0, relation="<=", **about) -> list[Claim]:
    given = {"id": "one", "source": "", "statement": "", "kind": "bound", "arm": "a"} | about
    pairs = zip(values, np.broadcast_to(predicted, 6), np.broadcast_to(tolerance, 6), strict=True)
    return [Claim.from_samples(each, relation, at, within, **given) for each, at, within in pairs]


def test_a_bound_that_depends_on_the_size_is_divided_out_or_subtracted():
    size = np.array(SIZES)
    y = (3 / size)[:, None] * (1 + 0.01 * np.random.default_rng(0).standard_normal((6, 8)))
    ratio = trend_of(claims(y, 1 / size), SIZES, "ratio")
    assert ratio.trend.predicted == 1
    assert ratio.samples.mean() == pytest.approx(3, rel=0.02)
    np.testing.assert_allclose(ratio.intervals, [interval_of_mean(at) for at in y * size[:, None]])
    assert ratio.trend.at(16).verdict == "fails"
    apart = trend_of(claims(y, 1 / size, tolerance=10 / size, relation="="), SIZES, "difference")
    assert apart.samples.mean() == pytest.approx(0.2, rel=0.02)
    np.testing.assert_allclose(apart.intervals, [interval_of_mean(at) for at in (y * size[:, None] - 1) / 10])
    assert apart.trend.tolerance == 1
    assert apart.trend.at(16).verdict == "holds"
    with pytest.raises(ValueError, match="must declare a ratio or a difference"):
        trend_of(claims(y, 1 / size), SIZES, "value")
    with pytest.raises(ValueError, match="not all positive"):
        trend_of(claims(y, -1 / size), SIZES, "ratio")


def test_an_end_of_the_range_that_depends_on_the_size_bounds_no_larger_one():
    y = np.array(SIZES)[:, None] * (1 + 0.01 * np.random.default_rng(0).standard_normal((6, 8)))
    counted = [
        replace(one, range=(0.0, 2.0 * size)) for one, size in zip(claims(y, 1.0), SIZES, strict=True)
    ]  # of as many neurons, say
    assert trend_of(counted, SIZES, "value").trend.at(16).interval[0] > 4 * SIZES[-1]
    below = [replace(one, range=(0.0, 1e9)) for one in counted]
    assert trend_of(below, SIZES, "value").trend.curves.min() >= 0


@pytest.mark.parametrize("bears", ["value", "ratio", "difference"])
def test_where_nothing_is_predicted_at_a_size_nothing_is_said(bears):
    y = np.ones((6, 8)) + 0.1 * np.random.default_rng(0).standard_normal((6, 8))
    found = trend_of(claims(y, [1.0, 1.0, np.nan, 1.0, 1.0, 1.0]), SIZES, bears)
    assert (found.trend, found.silent) == (None, "nothing finite is predicted at 8")
    assert json.dumps(found.to_json(), allow_nan=False)
    (measured,) = ScalingStudy(Grown())._figure("far@pulled", found).panels[0].curves
    assert measured.y == pytest.approx(y.mean(axis=1))


def test_a_tolerance_that_is_no_number_and_a_size_at_which_nothing_counts_are_silent():
    y = np.full((6, 8), 0.5) + 0.1 * np.random.default_rng(0).random((6, 8))
    for tolerance, size in (([0.1, np.nan, 0.1, 0.1, 0.1, 0.1], SIZES[1]), (np.inf, SIZES[0])):
        for bears in ("value", "ratio", "difference"):
            found = trend_of(claims(y, 1.0, tolerance, "="), SIZES, bears)
            assert (found.trend, found.silent) == (None, f"nothing finite is predicted at {size:g}")
    some = claims(y, 0.5, law="share", trials=[10] * 8)
    none = claims(np.zeros((6, 8)), 0.5, law="share", trials=[0] * 8)
    found = trend_of([none[0], *some[1:]], SIZES, "value")
    assert (found.trend, found.silent) == (None, f"nothing was counted at {SIZES[0]:g}")


def test_shares_have_as_many_trials_as_a_replica_counts_on_average():
    y = np.full((6, 8), 0.5)
    assert _trials(claims(y, 0.5, law="share", trials=[10, 30] * 4)).tolist() == [20.0] * 6
    assert _trials(claims(y.round(), 0.5, law="yes/no")).tolist() == [1.0] * 6
    assert _trials(claims(y, 0.5)) is None


def test_of_the_worst_of_random_draws_nothing_is_said():
    """Of 300 ladders of draws whose law does not move 28 spoke when it was taken for exact; 20 said that it moves."""
    y = 0.8 + 0.001 * np.random.default_rng(0).standard_normal((6, 8))
    y[:, 7] = 1.1 + 0.001 * np.arange(6)
    found = trend_of(claims(y, 1.0, law="extreme", trials=[40] * 8), SIZES, "value")
    assert {claim.verdict for claim in found.claims} == {"fails"}
    assert found.samples[:, 0].tolist() == y[:, 7].tolist()
    assert found.trend is None
    assert found.silent.startswith("it is the worst of random draws")


def test_replicas_without_a_measurement_are_left_out_and_told_and_at_the_largest_size_nothing_is_said():
    y = np.ones((6, 8)) + 0.1 * np.random.default_rng(0).standard_normal((6, 8))
    assert trend_of(claims(y, 2.0), SIZES, "value").trend is not None
    y[2, :3] = np.nan
    found = trend_of(claims(y, 2.0), SIZES, "value")
    assert found.trend is not None
    assert found.compared == "measured, of 5 of 8 replicas"
    assert trend_in_words(found, "n").endswith("Of 5 of 8 replicas: the others did not measure it at every size.")
    measured = ScalingStudy(Grown())._figure("one@a", found).panels[0].curves[0]
    assert measured.y == pytest.approx(y[:, 3:].mean(axis=1))
    intervals = np.array([interval_of_mean(at) for at in y[:, 3:]])
    np.testing.assert_allclose(np.stack([measured.low, measured.high], 1), intervals)
    y[-1, 7] = np.nan
    found = trend_of(claims(y, 2.0), SIZES, "value")
    assert found.trend is None
    assert found.silent.startswith("1 of 8 replicas did not measure it at the largest size")
    y[-1, 7] = 1.0
    y[2, 1:] = np.nan
    found = trend_of(claims(y, 2.0), SIZES, "value")
    assert found.trend is None
    assert "least at 8" in found.silent


def test_as_many_replicas_are_run_as_the_study_has():
    _, kind = find("decoupling")
    assert ScalingStudy(kind()).default_replicas == kind.default_replicas == 20


def test_where_nothing_is_said_nothing_foretold_is_drawn(monkeypatch):
    draws = np.random.default_rng(0)

    def drawn(y):
        found = trend_of(claims(y, 2.0), SIZES, "value")
        figure = ScalingStudy(Grown())._figure("one@a", found)
        return found, figure.caption, {curve.label: curve.x[-1] for curve in figure.panels[0].curves}

    y = np.ones((6, 8)) + 0.01 * draws.standard_normal((6, 8))
    found, caption, ends = drawn(y)
    both = [found]
    assert not found.silent
    assert "Laws by weight: " in caption
    assert ends == {"measured": 64, "foretold": 1024, "bound": 1024}
    assert caption.endswith("The dashed band holds 90 % of what is foretold.")
    y[-1] += 1
    found, caption, ends = drawn(y)
    assert found.trend is not None
    assert "standard errors" in found.silent
    both.append(found)
    monkeypatch.setattr(ScalingStudy, "trends", lambda self, claims: dict(zip(("one@a", "other@a"), both, strict=True)))
    told = ScalingStudy(Grown()).story({}, []).found
    assert told == "Of 2 claims over 6 sizes, 1 are foretold to hold at width = 1024; nothing is said of 1."
    assert ends == {"measured": 64, "bound": 64}
    assert "band" not in caption
    y[-1, 7] = np.nan
    found, caption, ends = drawn(y)
    assert found.trend is None
    assert ends == {"measured": 64}
    assert "band" not in caption
    assert caption.endswith("Of 7 of 8 replicas: the others did not measure it at every size.")


def test_of_one_replica_nothing_is_said_but_where_no_chance_enters():
    y = (3 / np.array(SIZES))[:, None]
    found = trend_of(claims(y, 10.0), SIZES, "value")
    assert found.trend is None
    assert found.silent.startswith("fewer than 2 replicas")
    assert trend_of(claims(y, 10.0, law="exact"), SIZES, "value").trend is not None
    y[2] = np.nan
    found = trend_of(claims(y, 10.0, law="exact"), SIZES, "value")
    assert (found.trend, found.silent) == (None, "it was not measured at 8")
