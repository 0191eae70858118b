"""Means over replicas as figures show them."""

import numpy as np
import pytest
import xarray as xr

from featscope.claims import Claim, interval_of_mean
from featscope.figures import Panel
from featscope.report.geometry import not_drawn
from featscope.studies.summaries import (
    INTERVALS,
    bars,
    chart,
    counted,
    curve,
    curves,
    heatmaps,
    identities,
    in_case,
    in_words,
    of_all,
    order,
    over_replicas,
    over_steps,
    percent,
    stored_answers,
    verdict,
)


@pytest.fixture
def series() -> xr.DataArray:
    values = np.random.default_rng(0).normal(size=(5, 4))
    return xr.DataArray(values, dims=("replica", "step"), coords={"step": [0, 1, 10, 20]})


def test_mean_and_interval_are_over_replicas_and_keep_the_other_axes(series):
    mean, low, high = over_replicas(series.transpose("step", "replica"))
    assert mean.shape == low.shape == high.shape == (4,)
    for point in range(4):
        samples = series.values[:, point]
        assert mean[point] == pytest.approx(samples.mean())
        assert (low[point], high[point]) == pytest.approx(interval_of_mean(samples))


def test_one_replica_has_no_interval(series):
    mean, low, high = over_replicas(series.isel(replica=[0]))
    assert np.array_equal(mean, series.values[0])
    assert np.isnan(low).all()
    assert np.isnan(high).all()
    line = curve(series.isel(replica=[0]), "x")
    assert line.low is None
    assert line.high is None


def test_whole_numbers_and_truths_have_means_too(series):
    for values in ((series > 0).astype(int), series > 0):
        mean, low, _ = over_replicas(values)
        np.testing.assert_array_equal(mean, (series > 0).mean("replica"))
        assert low[0] == interval_of_mean((series.values[:, 0] > 0).astype(float))[0]


def test_a_step_that_some_replica_never_reached_is_a_gap_and_one_that_none_did_is_left_out(series):
    series[2, 2:] = np.nan
    series[:, 3] = np.nan
    line = curve(series, "x")
    assert list(line.x) == [0, 1, 10]
    for drawn in (line.y, line.low, line.high):
        assert np.isfinite(drawn).tolist() == [True, True, False]
    np.testing.assert_array_equal(line.samples, series.values[:, :3])


def test_a_curve_of_which_a_replica_has_nothing_is_said_to_lack_it_and_not_to_be_unknown(series):
    series[1] = np.nan
    panel = Panel("t", "x", "y", [curve(series, "mine"), curve(series * np.nan, "lost")])
    assert not_drawn(panel) == "Not drawn: some replica has no value of mine; no value is known of lost."


def test_sentences_and_matrices_do_not_speak_of_survivors(series):
    """The mean of what is left of diverged replicas would be another quantity."""
    series[1] = np.nan
    assert in_words(series[0, 0]) == f"{float(series[0, 0]):.2f}"
    assert in_words(series) == percent(series) == "an unknown amount"
    matrix = series.expand_dims(row=[0.0])
    drawn = heatmaps("id", "t", "c", {"a": matrix}, ("row", "y"), ("step", "x"), "value")
    assert np.isnan(drawn.panels["a"]).all()


def test_matrices_beside_each_other_have_the_same_rows_and_columns(series):
    one = series.expand_dims(row=[0.0])
    other = one.assign_coords(step=[0, 1, 10, 21])
    with pytest.raises(ValueError, match="the panel 'b' of 'id' has other rows or columns than the first"):
        heatmaps("id", "t", "c", {"a": one, "b": other}, ("row", "y"), ("step", "x"), "value")


def test_a_curve_goes_along_any_dimension_and_has_the_label_and_the_abscissae_asked_for(series):
    over = series.rename(step="ratio").transpose("ratio", "replica")
    line = curve(over, "x", "ratio", dashed=True)
    mean, low, high = over_replicas(over)
    assert (line.label, line.dashed, list(line.x)) == ("x", True, [0, 1, 10, 20])
    for drawn, expected in ((line.y, mean), (line.low, low), (line.high, high)):
        np.testing.assert_array_equal(drawn, expected)
    assert list(curve(over, "x", "ratio", x=np.array([7, 8, 9, 10])).x) == [7, 8, 9, 10]


def test_only_steps_are_left_out(series):
    """A point of another axis without a value stays, as a gap."""
    over = series.rename(step="ratio")
    over[2, 3] = np.nan
    line = curve(over, "x", "ratio")
    assert list(line.x) == [0, 1, 10, 20]
    assert np.isnan(line.y).tolist() == [False, False, False, True]


def test_intervals_are_cut_where_values_cannot_be(series):
    share = abs(series) / abs(series).max()
    assert over_replicas(share)[1].min() < 0
    cut = curve(share, "x", within=(0, 1))
    wanted = np.transpose([interval_of_mean(samples, within=(0, 1)) for samples in share.values.T])
    np.testing.assert_array_equal([cut.low, cut.high], wanted)
    assert cut.low.min() >= 0


def test_there_is_a_curve_for_each_value_of_a_dimension(series):
    both = xr.concat([series, 2 * series], xr.Variable("ratio", [0.5, 0.25]))
    half, quarter = curves(both, "ratio", lambda ratio: f"α = {ratio:g}")
    assert (half.label, quarter.label) == ("α = 0.5", "α = 0.25")
    np.testing.assert_array_equal(half.y, curve(series, "").y)
    np.testing.assert_allclose(quarter.high, 2 * half.high)
    assert [line.label for line in curves(both, "ratio")] == ["0.5", "0.25"]


def test_charts_and_bars_say_what_their_bands_and_lines_are_and_which_claims_they_show(series):
    drawn = chart("id", "Title", "Caption.", Panel("t", "x", "y", [curve(series, "x")]), claims=("a", "b"))
    assert (drawn.id, drawn.title, drawn.caption, drawn.claims) == ("id", "Title", f"Caption. {INTERVALS}", ("a", "b"))
    assert INTERVALS == "Means over replicas with 99 % intervals, where replicas differ."
    assert chart("id", "Title", "", Panel("t", "x", "y", [])).caption == INTERVALS
    grouped = bars("id", "Title", "Caption.", list("abcd"), {"x": series}, "y", claims=("a",))
    assert (grouped.caption, grouped.groups, grouped.claims) == (f"Caption. {INTERVALS}", list("abcd"), ("a",))
    for drawn, expected in zip(grouped.series["x"], over_replicas(series), strict=True):
        np.testing.assert_array_equal(drawn, expected)


def test_heatmaps_are_means_over_everything_but_rows_and_columns(series):
    values = xr.DataArray(
        np.arange(24.0).reshape(2, 3, 4),
        dims=("replica", "depth", "length"),
        coords={"depth": [0, 0.5, 1], "length": [10, 20, 30, 2**20]},
    )
    figure = heatmaps(
        "id", "Title", "Caption.", {"all": values.transpose()}, ("depth", "how deep"), ("length", "how long"), "share"
    )
    np.testing.assert_array_equal(figure.panels["all"], values.mean("replica"))
    assert figure.caption == "Caption. Means over replicas."
    alone = values.isel(replica=[0])
    assert heatmaps("id", "t", "Caption.", {"all": alone}, ("depth", "d"), ("length", "l"), "v").caption == "Caption."
    assert (figure.row_label, figure.column_label, figure.value_label) == ("how deep", "how long", "share")
    assert (list(figure.rows), list(figure.columns)) == (["0", "0.5", "1"], ["10", "20", "30", "1048576"])


def judged(id: str, samples, relation: str, arm: str = "a", predicted: float = 1.0) -> Claim:
    about = {"source": "", "statement": "", "kind": "bound"}
    about["law"] = "exact" if np.ndim(samples) == 0 else "mean"
    return Claim.from_samples(samples, relation, predicted, 0.5 * (relation == "="), id=id, arm=arm, **about)


def test_identities_are_drawn_against_their_predictions():
    claims = [
        judged("one", [1.0, 1.5], "="),
        judged("bound", [1.0, 1.5], ">="),
        judged("one", 2.0, "=", "b"),
        judged("alone", [1.0], "="),
        judged("lost", [1.0, np.nan], "="),
        judged("two", [1.0, 3.0], "=", predicted=2.5),
    ]
    (figure,) = identities(claims)
    assert (figure.id, list(figure.labels)) == ("identities", ["one (a)", "one (b)", "two (a)"])
    assert figure.claims == ("one", "two")
    assert "measured (dot, with its 99 % interval) against its prediction" in figure.caption
    np.testing.assert_array_equal(figure.measured, [1.25, 2.0, 2.0])
    np.testing.assert_array_equal(figure.predicted, [1.0, 1.0, 2.5])
    np.testing.assert_array_equal(figure.low, [claims[0].interval[0], 2.0, claims[5].interval[0]])
    np.testing.assert_array_equal(figure.high, [claims[0].interval[1], 2.0, claims[5].interval[1]])
    np.testing.assert_array_equal(figure.tolerance, [0.5, 0.5, 0.5])
    assert identities(claims[1:2]) == []
    assert identities([]) == []


def test_identities_without_a_value_or_an_interval_are_said_to_be_left_out():
    seen, lost = judged("a", [1.0, 1.1, 1.2], "="), judged("b", [1.0], "=")
    (figure,) = identities([seen, lost])
    assert figure.caption.startswith("Every identity and exponent but 1, of which no value or no interval is known, ")
    (whole,) = identities([seen])
    assert whole.caption.startswith("Every identity and exponent, measured")


def test_default_figure_draws_each_series_of_each_arm_that_has_it(series):
    deep = series.expand_dims(neuron=3)
    watched = xr.Dataset(
        {"loss": series, "rate": (series.dims, series.values, {"units": "1", "long_name": "Pr(fires)"})}
    )
    runs = {"a": watched.assign(norms=deep), "b": watched[["loss"]], "start": watched.isel(step=[0])}
    (figure,) = over_steps(runs)
    loss, rate = figure.panels
    assert [curve.label for curve in loss.curves] == ["a", "b"]
    assert [curve.label for curve in rate.curves] == ["a"]
    assert (loss.y_label, rate.y_label, rate.title) == ("loss", "rate", "Pr(fires)")
    swept = watched[["loss"]].expand_dims(lr=2)
    ((loss, _),) = (figure.panels for figure in over_steps(runs | {"swept": swept}))
    assert [curve.label for curve in loss.curves] == ["a", "b"]  # an arm over options has no one curve
    assert over_steps({"swept": swept}) == []
    once = watched[["rate"]].assign(loss=(("replica", "size"), np.ones((watched.sizes["replica"], 2))))
    ((loss, _),) = (figure.panels for figure in over_steps(runs | {"once": once}))
    assert [curve.label for curve in loss.curves] == ["a", "b"]  # the same name of what was measured once, over sizes


def test_arms_whose_series_are_of_different_things_are_not_drawn_under_one_name():
    def arm(about: str) -> xr.Dataset:
        loss = xr.DataArray(np.ones((2, 3)), dims=("replica", "step"), attrs={"long_name": about})
        return xr.Dataset({"loss": loss}, coords={"step": [0, 1, 2]})

    known, fresh = arm("loss on what is trained on"), arm("loss on fresh data")
    (figure,) = over_steps({"a": known, "b": fresh, "c": known})
    drawn = {panel.title: [curve.label for curve in panel.curves] for panel in figure.panels}
    assert drawn == {"loss on what is trained on": ["a", "c"], "loss on fresh data": ["b"]}
    in_bits = known.assign(loss=known.loss.assign_attrs(units="bits"))
    (figure,) = over_steps({"a": known, "b": in_bits})
    drawn = {panel.y_label: [curve.label for curve in panel.curves] for panel in figure.panels}
    assert drawn == {"loss": ["a"], "loss (bits)": ["b"]}


def test_numbers_in_sentences_are_words_where_there_is_none():
    assert in_words(xr.DataArray([1.0, 2.0]), "{:.1f} times") == "1.5 times"
    assert percent(xr.DataArray([0.2, 0.4])) == "30 %"
    assert percent(np.nan) == in_words(np.inf) == "an unknown amount"


def test_a_share_that_is_neither_none_nor_all_is_not_rounded_to_that():
    told = {0.0: "0 %", 1e-6: "0 %", 1e-4: "0.01 %", 0.0038: "0.4 %", 0.005: "0.5 %", 0.0099: "1 %", 0.01: "1 %"}
    told |= {0.37: "37 %", 0.994: "99 %", 0.996: "99.6 %", 0.9996: "100 %", 1.0: "100 %", 2.0: "200 %"}
    assert {share: percent(share) for share in told} == told
    assert percent(xr.DataArray([0.001, 0.003])) == "0.2 %"


def test_what_was_not_judged_is_undecided():
    claims = [judged("one", [2.0, 2.1, 2.2], ">="), judged("one", [0.0, 0.1, 0.2], ">=", arm="b")]
    assert [verdict(claims, key) for key in ("one@a", "one@b", "two@a")] == ["holds", "fails", "undecided"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(8.3e-15, "8·10⁻¹⁵"), (2e9, "2·10⁹"), (0.0, "0"), (-4e-3, "-4·10⁻³"), (np.nan, "an unknown amount")],
)
def test_orders_are_written_with_a_power_of_ten(value, text):
    assert order(value) == text


def test_what_is_said_of_all_fails_with_one_and_is_open_with_one():
    assert of_all(["holds", "holds"]) == "holds"
    assert of_all(["holds", "undecided", "fails"]) == "fails"
    assert of_all(["holds", "undecided"]) == of_all([]) == "undecided"


def test_answers_are_shown_where_scores_differ_most_one_of_each_group():
    """Of the first replica; the questions of a group are 0 and 1, 2 and 3, and so on."""
    first = {"a": [0.0, 1.0, 0.5, 0.5, 1.0, 1.0], "b": [0.5, 1.0, 0.5, 0.25, 0.0, 0.5]}
    dims = ("replica", "question")

    def run(name: str) -> xr.Dataset:
        words = [f"{name} {place}" for place in range(6)]
        scores = [first[name], [9.0 * (name == "a")] * 6]
        return xr.Dataset(
            {"score": (dims, scores), "said": (dims, [words, ["-"] * 6]), "wanted": (dims, [list("uvwxyz"), ["-"] * 6])}
        )

    silent = run("a").drop_vars("said")
    runs, groups = {"A": run("a"), "B": run("b"), "silent": silent}, np.array([0, 0, 1, 1, 2, 2])
    tables = list(stored_answers(runs, "score", ("points", "{:.1f}"), "question {}".format, groups))
    assert [table.title for table in tables] == [
        "question 4: “y” is wanted",
        "question 0: “u” is wanted",
        "question 3: “x” is wanted",
    ]
    assert tables[0].headings == ["method", "points", "answer"]
    assert tables[0].rows == [["A", "1.0", "a 4"], ["B", "0.0", "b 4"]]
    each = list(stored_answers(runs, "score", ("points", "{:.1f}"), "question {}".format, np.arange(6)))
    assert len(each) == 5
    assert list(stored_answers({"silent": silent}, "score", ("points", "{}"), str, groups)) == []


def test_long_answers_are_cut_and_put_on_one_line():
    dims = ("replica", "question")
    said = {"said": (dims, [["one\n two  three" + 200 * "x"]]), "wanted": (dims, [["four\nfive"]])}
    run = xr.Dataset({"score": (dims, [[1.0]])} | said)
    (table,) = stored_answers({"A": run}, "score", ("points", "{:.0f}"), "question {}".format, np.array([0]))
    assert table.title == "question 0: “four five” is wanted"
    answer = table.rows[0][2]
    assert answer.startswith("one two threex")
    assert answer.endswith("x…")
    assert len(answer) == 120


def test_what_is_said_in_a_case_is_that_of_the_verdict():
    claims = [judged("one", [2.0, 2.1, 2.2], ">="), judged("two", [0.0, 0.1, 0.2], ">=")]
    assert [in_case(claims, key, "yes", "no") for key in ("one@a", "two@a", "three@a")] == ["yes", "no", ""]


def test_things_are_counted_in_the_singular_and_in_the_plural():
    assert [counted(number, "text") for number in (0, 1, 2)] == ["0 texts", "1 text", "2 texts"]


def test_matrices_may_have_other_scalars_beside_their_axes(series):
    """As what was taken at the last of some axis has its place there."""
    one = series.expand_dims(row=[0.0])
    drawn = heatmaps("id", "t", "c", {"a": one, "b": one.assign_coords(seed=3)}, ("row", "y"), ("step", "x"), "v")
    assert [*drawn.panels] == ["a", "b"]
