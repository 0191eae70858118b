"""Runs beside each other: what was set otherwise, which measurements differ, and by how much."""

from dataclasses import replace

import numpy as np
import pytest

from featscope.claims import Claim
from featscope.commands.compare import compare
from featscope.figures import Curve, Panel
from featscope.options import ConfigError
from featscope.report.comparison import _apart, _curves, _lede, write_comparison
from featscope.runs import Settings, run
from featscope.runs.compared import Pair, _pair, after_holm, environments, options, pairs, read_runs
from featscope.streams import METHOD
from swept import Noisy, Pull


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("featscope.runs.workers.cores", lambda: 1)
        run(Pull(), Settings(replicas=4), place / "one")
        run(Pull(data=Noisy(target=3.0)), Settings(replicas=4), place / "far")
        run(Pull(), Settings(seed=1, replicas=4), place / "seed")
    return place


def judged(values, law="mean", **more) -> Claim:
    about = {"id": "a", "source": "S", "statement": "It is.", "kind": "bound", "arm": "x", "expected": True}
    return Claim.from_samples(np.asarray(values), ">=", 0.0, law=law, **about | {"note": ""} | more)


def claiming(run):
    return replace(run, claims={"a@x": judged([1.0, 2.0])})


def test_options_that_differ_are_named_as_they_are_typed(folders):
    assert options(read_runs([folders / "one", folders / "far"])) == {"--data.target": ["1.0", "3.0"]}
    assert options(read_runs([folders / "one", folders / "seed"])) == {"--seed": ["0", "1"]}


def test_options_of_a_sweep_and_its_axes_are_named_as_they_are_typed(folders):
    run, _ = read_runs([folders / "one", folders / "far"])

    def swept(noise, *values):
        axis = {"type": "featscope.axes:Axis", "option": "data.noise", "values": list(values)}
        study = run.plan["config"] | {"width": noise}
        return replace(run, plan=run.plan | {"config": {"type": "Sweep", "study": study, "axes": [axis], "refine": 0}})

    found = options([swept(1, 0.1, 2.0), swept(2, 1 / 3, 2.0)])
    assert found == {"--axis data.noise": ["0.1,2", "0.3333333333333333,2"], "--width": ["1", "2"]}


def test_replicas_from_the_same_draws_are_compared_one_by_one():
    one, other = judged([1.0, 5.0, 9.0, 3.0]), judged([1.2, 5.2, 9.21, 3.2])
    together, apart = _pair(one, other, True), _pair(one, other, False)
    assert (together.paired, apart.paired) == (True, False)
    assert together.difference.measured == pytest.approx(0.2025) == pytest.approx(apart.difference.measured)
    assert together.apart
    assert not apart.apart
    assert apart.difference.interval[0] < -5  # Welch's


@pytest.mark.parametrize("same_draws", [True, False])
def test_replicas_that_counted_unequally_many_weigh_as_they_do_in_what_is_shown(same_draws):
    one, other = (judged([0.9, 0.1, 0.1, k], "share", trials=[1000, 10, 10, 10]) for k in (0.1, 0.2))
    assert _pair(one, other, same_draws).difference.measured == pytest.approx(other.measured - one.measured)


def test_rounding_of_another_machine_is_no_difference():
    """Though it may be the same way in all replicas."""
    values = np.linspace(1.1, 1.8, 8)
    assert not _pair(judged(values), judged(values * (1 - 5e-16)), True).apart


def test_runs_of_one_seed_that_drew_otherwise_are_not_paired(folders):
    one, far = read_runs([folders / "one", folders / "far"])
    earlier = replace(far, plan={**far.plan, "draws": None})
    assert (one.draws == far.draws, one.draws == earlier.draws) == (True, False)
    assert "began from the same draws" in _lede([claiming(one), far])
    assert "Replicas of different random numbers are independent" in _lede([claiming(one), earlier])
    assert "compared, with Welch's interval, which is wider where one run has few." in _lede([claiming(one), earlier])
    few = replace(earlier, plan={**earlier.plan, "replicas": 1})
    assert "compared, which has no interval where a run has one replica." in _lede([claiming(one), few])
    assert environments([one, earlier]) == {"random numbers": [METHOD, "an earlier version's"]}


def test_another_package_and_parts_of_a_run_are_other_environments(folders):
    one, far = read_runs([folders / "one", folders / "far"])
    assert environments([one, far]) == {}
    theirs = {"study": {"package": "swept", "version": "2", "revision": "b"}}
    packaged = replace(far, environment={**far.environment, **theirs})
    assert environments([one, packaged])["the study's package"][1] == "swept 2 b"
    library = {"products": "another", "kernels": "others"}
    for name, value in library.items():
        elsewhere = replace(far, environment={**far.environment, name: value})
        assert environments([one, elsewhere])[name][1] == value
    before = {**far.environment, "packages": {**far.environment["packages"], "torch": "1.0"}}
    resumed = replace(far, environment={**far.environment, "history": [before]})
    assert environments([one, resumed])["computed in parts"][0] == "-"
    assert "torch (1.0, then" in environments([one, resumed])["computed in parts"][1]


def test_what_nothing_is_known_of_is_no_difference():
    assert _pair(judged([1.0, 2.0]), judged([1.0, 2.0, 3.0]), True).paired is False
    assert _pair(judged(np.array([1.0])), judged([1.0, 2.0]), False).difference is None
    assert _pair(judged([1.0, 1.0]), judged([2.0, 2.0]), False).difference is None
    assert _pair(judged(np.array([1.0, 2.0]), "exact"), judged([1.0, 3.0]), False).difference is None
    assert _pair(judged([1.0, np.nan]), judged([1.0, 2.0]), True).difference is None


def test_shares_whose_intervals_do_not_meet_differ_even_where_no_replica_does():
    for values in ([0.0] * 8, [1.0] * 8), ([1.0] * 8, [0.75] * 8):
        of_things = 0.75 in values[1]
        law = {"law": "share", "trials": [40] * 8} if of_things else {"law": "yes/no"}
        one, other = (judged(each, **law) for each in values)
        for same_draws in (True, False):
            pair = _pair(one, other, same_draws)
            assert pair.apart
            assert after_holm({"a": pair}) == {"a"}
        assert not _pair(one, one, True).apart


def test_shares_whose_intervals_do_not_meet_are_corrected_for_with_the_others():
    """Eight of eight and none of eight have a p-value of about 1.7e-4."""
    never, always = (judged([value] * 8, law="yes/no") for value in (0.0, 1.0))
    alike = _pair(judged([1.0, 2.0, 1.5]), judged([1.1, 1.9, 1.5]), False)
    for count, sure in ((20, {"a"}), (300, set())):
        assert after_holm({"a": _pair(never, always, True)} | {str(n): alike for n in range(count)}) == sure
    low, high = _pair(never, always, True).difference.interval
    assert (low, high) == pytest.approx((0.315, 1.0), abs=1e-3)


def test_another_bound_is_told_and_extremes_have_no_mean_difference():
    one = judged([1.0, 2.0, 1.5])
    assert not _pair(one, one, True).asked_otherwise
    for changed in ({"predicted": 0.5}, {"tolerance": 0.5}, {"relation": ">"}, {"law": "draws"}):
        assert _pair(one, replace(one, **changed), True).asked_otherwise
    worst = [judged(values, "extreme", trials=[9] * 3) for values in ([1.0, 2.0, 1.5], [2.0, 3.0, 2.5])]
    assert _pair(*worst, True).difference is None


def test_a_bound_that_moved_is_told_in_the_terminal_too(folders, tmp_path, monkeypatch, capsys):
    """Where verdict and measurement are as they were."""
    paths = [folders / "one", folders / "seed"]
    claim = judged([1.0, 2.0, 1.5])
    claims = [{"a@x": claim}, {"a@x": replace(claim, predicted=-1.0)}]
    runs = [replace(run, claims=of) for run, of in zip(read_runs(paths), claims, strict=True)]
    monkeypatch.setattr("featscope.commands.compare.read_runs", lambda _: runs)
    assert compare([*map(str, paths), "--out", str(tmp_path / "page")]) == 0
    said = capsys.readouterr().out
    assert "another bound" in said
    assert "perhaps by chance" not in said
    assert "Of 1 claim that both judge, no verdict is another one" in said


def test_one_of_many_must_survive_holm():
    """At 99 % each, one of hundred alike differs by chance."""
    draws = np.random.default_rng(0)
    found = {str(n): _pair(*(judged(draws.normal(size=8)) for _ in range(2)), False) for n in range(300)}
    assert 0 < sum(pair.apart for pair in found.values()) < 12
    assert not after_holm(found)
    found["far"] = Pair(*(judged(draws.normal(size=8) + shift) for shift in (0, 50)), None, False)
    found["far"] = _pair(found["far"].one, found["far"].other, False)
    assert after_holm(found) == {"far"}


def test_the_page_and_the_terminal_say_it(folders, capsys):
    assert compare([str(folders / "one"), str(folders / "far"), "--out", str(folders / "page")]) == 0
    said = capsys.readouterr().out
    assert "--data.target" in said
    page = (folders / "page" / "report.html").read_text()
    assert "What is different between one and far?" in page
    assert "--data.target" in page
    assert (folders / "page" / "figures" / "furthest.png").exists()


def test_claims_of_both_are_paired_in_order(folders):
    assert not pairs(*read_runs([folders / "one", folders / "far"]))  # the study claims nothing


def test_a_page_that_is_there_is_replaced_when_told_to(folders, tmp_path):
    words = [str(folders / "one"), str(folders / "far"), "--out", str(tmp_path)]
    (tmp_path / "report.html").write_text("mine")
    with pytest.raises(ConfigError, match="holds a page: replace it by --overwrite, or choose another folder"):
        compare(words)
    assert (tmp_path / "report.html").read_text() == "mine"
    assert compare([*words, "--overwrite"]) == 0


@pytest.mark.parametrize(("out", "message"), [("one", "holds a run"), ("/proc/x", "cannot be written")])
def test_a_page_goes_where_nothing_is_lost(folders, out, message):
    with pytest.raises(ConfigError, match=f"--out = .* {message}.* choose another folder"):
        compare([str(folders / "one"), str(folders / "far"), "--out", str(folders / out)])


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (["one"], "2 to 6 run folders; 1 given"),
        (["one", "one"], "one folder twice"),
        (["one", "nothing"], "config.json is missing"),
    ],
)
def test_what_cannot_be_compared_is_said(folders, chosen, message):
    with pytest.raises(ConfigError, match=message):
        read_runs([folders / name for name in chosen])


def test_a_series_that_an_earlier_version_described_otherwise_is_laid_over_todays(folders):
    one, far = read_runs([folders / "one", folders / "far"])
    described = {
        arm: data.assign(loss=data.loss.assign_attrs(long_name="loss on what is trained on"))
        for arm, data in far.runs.items()
    }
    titles = [panel.title for figure in _curves([one, replace(far, runs=described)]) for panel in figure.panels]
    assert {"loss on fresh data, pulled", "loss on fresh data, other"} <= set(titles)


def test_a_panel_is_not_called_by_the_only_arm_that_there_is(folders):
    one, far = read_runs([folders / "one", folders / "far"])
    for arm in one.runs:
        alone = replace(one, runs={arm: one.runs[arm]})
        for first, named in ((alone, False), (one, True)):
            figures = _curves([first, replace(far, runs={arm: far.runs[arm]})])
            titles = [panel.title for figure in figures for panel in figure.panels]
            assert titles
            assert all(title.endswith(f", {arm}") == named for title in titles)


def test_without_intervals_what_is_furthest_apart_goes_by_the_range():
    steps = np.arange(4.0)

    def panel(title: str, one: list[float], other: list[float]) -> Panel:
        return Panel(title, "step", "value", [Curve("a", steps, np.array(one)), Curve("b", steps, np.array(other))])

    same = panel("same", [0.0, 0, 0, 0], [0.0, 0, 0, 0])
    close = panel("close", [0.0, 1, 2, 3], [0.0, 1, 2, 3.1])
    far = panel("far", [0.0, 0.001, 0.002, 0.003], [0.003, 0.002, 0.001, 0.0])
    assert sorted([same, close, far], key=_apart) == [same, close, far]
    assert _apart(far) == pytest.approx(1)


def of_replicas(run, count, name):
    data = {arm: one.isel(replica=slice(count)) for arm, one in run.runs.items()}
    return replace(run, runs=data, plan={**run.plan, "replicas": count}, name=name)


def test_runs_of_different_numbers_of_replicas_are_told_so(folders, tmp_path):
    one, far = read_runs([folders / "one", folders / "far"])
    page = write_comparison([of_replicas(one, 1, "one"), far], tmp_path).read_text()
    assert "one has 1 replica, far has 4 replicas. Lines are means" in page
    assert "There is one replica" not in page
    assert '<option value="3">' in page
    assert "As shares of the range that both curves have." in page
    same = write_comparison([one, far], tmp_path / "same").read_text()
    assert "Lines are means over 4 replicas" in same
    assert "In units of their intervals." in same


def test_what_is_said_of_units_is_true_of_the_panels_that_are_drawn(folders):
    one, far = read_runs([folders / "one", folders / "far"])
    few = of_replicas(far, 1, "few")
    for runs, unit in (
        ([one, few], "As shares of the range that both curves have."),
        ([one, far], "In units of their intervals."),
        ([one, far, few], "In units of their intervals; where not both curves have these, as shares"),
    ):
        assert unit in _curves(runs)[0].caption


def test_of_three_runs_it_is_said_which_are_paired(folders):
    one, far, seed = read_runs([folders / "one", folders / "far", folders / "seed"])
    said = _lede([claiming(one), far, seed])
    assert "Replicas of one number of one and far began from the same draws" in said
    assert "Replicas of different seeds, as those of seed, are independent: their means" in said
    assert "Replicas of one number began" in _lede([claiming(one), far, far])
    assert "Replicas of different seeds are independent" in _lede([claiming(one), seed, seed])


def test_other_data_behind_the_same_option_are_told(folders):
    one, _ = read_runs([folders / "one", folders / "far"])
    first, second = (replace(one, environment={**one.environment, "inputs": {"data": of}}) for of in ("0a1b", "ffff"))
    assert environments([first, second]) == {"what data names": ["0a1b", "ffff"]}
    assert environments([first, first]) == {}


def test_a_panel_with_a_gap_is_as_far_apart_as_its_other_points():
    x = np.arange(4.0)
    first = Curve("a", x, np.array([1.0, np.nan, 2, 3]))
    far, near = (Panel("p", "x", "y", [first, Curve("b", x, np.array([1.0, 1, 2, 3]) + by)]) for by in (2.0, 0.5))
    assert _apart(far) > _apart(near) > 0
