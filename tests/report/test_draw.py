"""PNGs: every type of description is drawn, also with gaps, one replica, and from threads."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import matplotlib as mpl
import matplotlib.figure
import numpy as np
import pytest
import report_samples as samples
from matplotlib.collections import LineCollection
from matplotlib.image import imread

from featscope.claims import Claim
from featscope.figures import (
    Agreement,
    Bars,
    Curve,
    Curves,
    Figure,
    Heatmaps,
    ImageGrids,
    MatrixMovie,
    Panel,
    Scatters,
    VerdictPanel,
    Verdicts,
)
from featscope.report import draw
from featscope.report.draw import _canvas, _filled, _panel
from featscope.report.draw_matrices import draw_movie
from featscope.report.draw_verdicts import draw_verdicts
from featscope.report.figure_data import figure_data
from featscope.report.geometry import bands, bent, deviations, log_ticks, mark_labels, not_drawn
from featscope.report.look import curve_swatches
from featscope.studies.summaries import identities


def test_frames_of_a_panel_that_ended_are_of_its_last_step() -> None:
    movie = samples.movie(4, 3)
    label = "plain (no augmentation)"
    canvas = draw_movie(replace(movie, last_steps={label: 300}))
    middle = movie.steps[(len(movie.steps) - 1) // 2]
    assert middle > 300
    for strip, of in zip(canvas.subfigs, movie.frames, strict=True):
        later = [300, 300] if of == label else [middle, movie.steps[-1]]
        titles = [axes.get_title() for axes in strip.axes if axes.get_title()]
        assert titles == [
            "step 0",
            *(f"step {step:,}".replace(",", " ") + ", its last" * (of == label) for step in later),
        ]
    with pytest.raises(ValueError, match=r"last_steps of 'alignment' has \['plan'\]: allowed are its panels"):
        replace(movie, last_steps={"plan": 300})


def test_a_movie_of_both_signs_has_the_same_colours_on_the_page_and_in_its_picture() -> None:
    signed = replace(samples.movie(4, 3), low=-0.2, high=1.0)
    told = figure_data(signed)
    assert (told["low"], told["high"], told["around_zero"]) == (-1.0, 1.0, True)
    (picture, *_) = (image for strip in draw_movie(signed).subfigs for axes in strip.axes for image in axes.images)
    assert picture.get_clim() == (-1.0, 1.0)
    assert not figure_data(samples.movie(4, 3))["around_zero"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: Curve("a", np.ones(2), np.ones(2), low=np.ones(2)), "the curve 'a' has one end of its interval"),
        (
            lambda: replace(samples.movie(4, 3), low=1.0),
            "colours of 'alignment' go from 1.0 to 1.0: expected low < high",
        ),
        (lambda: replace(samples.bars(), samples={"Arm": np.ones((2, 3))}), r"samples of 'probe' are of \['Arm'\]"),
        (lambda: replace(samples.agreement(), measured=np.ones(2)), r"measured of 'agreement' has shape \[2\]"),
        (
            lambda: VerdictPanel("a", np.ones(1), np.ones(1), ["hold"], ["so"]),
            "'a' has the verdict 'hold': allowed is holds, fails or undecided",
        ),
    ],
)
def test_what_would_show_something_else_is_refused_when_it_is_described(wrong, said) -> None:
    with pytest.raises(ValueError, match=said):
        wrong()


@pytest.mark.parametrize("figure", samples.figures(), ids=lambda figure: figure.id)
def test_every_type_is_drawn(figure: Figure, tmp_path: Path) -> None:
    draw(figure, tmp_path / "figure.png")
    picture = imread(tmp_path / "figure.png")
    assert picture.shape[1] >= 900
    assert picture[..., :3].std() > 0.02, "the picture is empty"
    assert [file.name for file in tmp_path.iterdir()] == ["figure.png"]


def test_global_settings_stay_and_threads_agree(tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    paths = [tmp_path / f"{i}.png" for i in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda path: draw(samples.bars(), path), paths))
    assert len({path.read_bytes() for path in paths}) == 1
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize(("y", "least"), [([0, 0], -0.05), ([0, -1], -1.05), ([2, 2], 1.89)])
def test_an_axis_of_zeros_alone_is_not_of_numbers_below(y: list[float], least: float) -> None:
    panel = Panel("share", "step", "share", [Curve("all", np.array([0, 1]), np.array(y, dtype=float))])
    axes = mpl.figure.Figure().add_subplot()
    _panel(axes, panel, curve_swatches([panel]), 4)
    assert axes.get_ylim()[0] == pytest.approx(least, abs=0.01)


def test_unknown_type_is_refused(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Sketch(Figure):
        pass

    with pytest.raises(TypeError, match="Sketch"):
        draw(Sketch("a", "b", "c"), tmp_path / "a.png")
    assert not list(tmp_path.iterdir())


def test_nothing_finite_still_draws(tmp_path: Path) -> None:
    nothing = np.full(3, np.nan)
    open_ended = (np.full(3, -np.inf), np.full(3, np.inf))
    curve = Curve("a $ sign", np.arange(3), nothing, *open_ended)
    panels = [Panel("empty", "x", "y", [curve], log_y=True, log_x=True), Panel("none", "x", "y", [])]
    figures = [
        Curves("curves", "t", "c", panels),
        Bars("bars", "t", "c", ["a", "b", "c"], {"one": (nothing, *open_ended)}, "y"),
        Heatmaps("heat", "t", "c", {"a": nothing[None], "b": nothing[:, None]}, "row", "column", "value"),
        Agreement("agreement", "t", "c", list("abc"), nothing, nothing, *open_ended, nothing),
    ]
    for figure in figures:
        draw(figure, tmp_path / f"{figure.id}.png")


@pytest.mark.filterwarnings("error")
def test_what_no_axis_can_show_is_drawn_without_a_word_to_the_terminal(tmp_path: Path) -> None:
    """Nothing positive on a logarithmic axis, and an interval of 110 decades."""
    zeros = [Curve("zeros", np.arange(3), np.zeros(3), np.zeros(3), np.zeros(3))]
    draw(Curves("curves", "t", "c", [Panel("zeros", "x", "y", zeros, log_y=True)]), tmp_path / "zeros.png")
    wide = Agreement(
        "agreement", "t", "c", ["a"], np.ones(1), np.array([1e110]), np.zeros(1), np.array([1e112]), np.ones(1)
    )
    draw(wide, tmp_path / "wide.png")
    rows = deviations(wide)
    assert len(rows.ticks[0]) <= 13
    assert rows.centre[0] == rows.high[0] == rows.reach


def test_band_leaves_out_what_is_unknown_and_stays_near_the_curve() -> None:
    curve = Curve("a", np.arange(3), np.ones(3), np.array([-np.inf, 0, 0.5]), np.array([np.inf, 2, 2]))
    ((x, low, high),) = bands(curve, log_y=True)
    np.testing.assert_array_equal(x, [1, 2])
    np.testing.assert_allclose(low, [0.1, 0.5])
    np.testing.assert_allclose(high, [2, 2])


def test_no_band_spans_a_point_of_which_no_interval_is_known() -> None:
    """As of a sweep's point at which all diverged; what lies alone has its interval, too."""
    y = np.array([1, 2, np.nan, 3, 4, np.nan, 5.0])
    curve = Curve("a", np.arange(7.0), y, y - 1, y + 1)
    assert [x.tolist() for x, _, _ in bands(curve, log_y=False)] == [[0, 1], [3, 4], [6]]
    axes = _canvas(Curves("f", "t", "c", [Panel("p", "x", "y", [curve])])).axes[0]
    bars = [lines.get_segments() for lines in axes.collections if isinstance(lines, LineCollection)]
    np.testing.assert_array_equal(bars, [[[[6, 4], [6, 6]]]])


def test_what_no_axis_can_show_is_named_below_it() -> None:
    x = np.arange(1.0, 4)
    panel = Panel("p", "x", "y", [Curve("zero", x, 0 * x), Curve("lost", x, np.nan * x), Curve("seen", x, x)])
    assert not_drawn(panel) == "Not drawn: no value is known of lost."
    both = replace(panel, log_y=True)
    assert not_drawn(both) == "Not drawn: no value is known of lost; nothing is above 0 of zero."
    said = _canvas(Curves("f", "t", "c", [both])).axes[0].get_xlabel()
    assert said.replace("\n", " ") == f"x {not_drawn(both)}"
    assert figure_data(Curves("f", "t", "c", [both]))["panels"][0]["left_out"] == not_drawn(both)


@pytest.mark.parametrize("log", [False, True])
def test_an_interval_that_dwarfs_its_curve_is_cut_and_told(log: bool) -> None:
    x, y = np.arange(3.0), np.array([1.0, 1.1, 1.2])
    for far, told in ((0.05, False), (1e9, True)):
        panel = Panel("p", "step", "loss", [Curve("a", x, y, y - 0.05, y + far)], log_y=log)
        (axes,) = _canvas(Curves("c", "t", "c", [panel])).axes
        assert axes.get_ylim()[1] < 10
        assert ("Some intervals go beyond the axis." in " ".join(axes.get_xlabel().split())) == told


def test_mark_labels_that_would_overlap_are_lifted() -> None:
    panel = Panel("p", "x", "y", [Curve("a", np.array([0.0, 100]), np.zeros(2))])
    far = mark_labels(replace(panel, marks=[(10.0, "one"), (90.0, "two")]), characters=40)
    near = mark_labels(replace(panel, marks=[(50.0, "stage one"), (52.0, "stage two")]), characters=40)
    assert [mark.level for mark in far] == [0, 0]
    assert [mark.level for mark in near] == [0, 1]


def test_agreement_has_the_verdicts_of_claims() -> None:
    figure = samples.agreement()
    assert deviations(figure).verdicts == ["holds", "holds", "undecided", "fails", "undecided", "holds"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"y": np.ones(2)}, r"y of the verdicts on 'a' has shape \[2\]: expected \[3\], a value a point"),
        ({"x": np.ones((3, 1))}, r"x of the verdicts on 'a' has shape \[3, 1\]: expected \[3\]"),
        ({"low": np.ones(4)}, r"low of the verdicts on 'a' has shape \[4\]: expected \[3\]"),
        ({"high": np.ones(())}, r"high of the verdicts on 'a' has shape \[\]: expected \[3\]"),
        ({"edges": [np.ones(3), np.ones(2)]}, r"a bound of the verdicts on 'a' has shape \[2\]: expected \[3\]"),
        ({"verdicts": ["holds"]}, "'a' has 1 verdicts and 3 words on 3 points: expected one each"),
        ({"said": ["so"] * 4}, "'a' has 3 verdicts and 4 words on 3 points: expected one each"),
    ],
)
def test_verdicts_whose_values_do_not_fit_are_refused_by_name(wrong, said) -> None:
    ones = np.ones(3)
    panel = VerdictPanel("a", ones, ones, ["holds"] * 3, ["so"] * 3, ones, ones, [ones])
    with pytest.raises(ValueError, match=said):
        replace(panel, **wrong)


def test_verdicts_that_the_intervals_do_not_tell_are_those_of_the_claims() -> None:
    """Replicas that all measured the same decide nothing; 0.4 is 0.3 ± 0.1, but not by the units of an axis."""
    about = {"source": "", "statement": "", "kind": "identity", "arm": "a"}
    claims = [
        Claim.from_samples([1.0, 1.0], "=", 1.0, 0.1, id="alike", **about),
        Claim.from_samples(0.4, "=", 0.3, 0.1, id="edge", law="exact", **about),
    ]
    (figure,) = identities(claims)
    assert deviations(figure).verdicts == [claim.verdict for claim in claims] == ["undecided", "holds"]
    assert deviations(replace(figure, verdicts=())).verdicts == ["holds", "fails"]
    with pytest.raises(ValueError, match="'identities' has 1 verdicts on 2 rows: expected one each"):
        replace(figure, verdicts=["holds"])


def test_bent_axis_is_odd_and_increasing() -> None:
    values = np.linspace(-50, 50, 201)
    np.testing.assert_allclose(bent(values), -bent(-values))
    assert (np.diff(bent(values)) > 0).all()
    np.testing.assert_allclose(bent(np.array([0.5, 10, 100])), [0.5, 2, 3])


def test_log_ticks() -> None:
    assert log_ticks(3.0, 60.0) == [5, 10, 20, 50]
    assert log_ticks(1e-6, 1.0) is None
    assert log_ticks(3.0, 4.0) is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: Curves("a", "t", "c", []),
        lambda: Heatmaps("a", "t", "c", {}, "row", "column", "value"),
        lambda: ImageGrids("a", "t", "c", {}),
    ],
)
def test_a_figure_of_nothing_is_refused_where_it_is_described(make):
    """As `featscope check` sees it, and no run ends without its page."""
    with pytest.raises(ValueError, match="the figure 'a' has no panels: expected one or more, or no figure"):
        make()


def test_bars_of_one_colour_are_hatched_otherwise(tmp_path):
    looks = [tuple(sorted(_filled(i).items())) for i in range(21)]
    assert len({*looks}) == 21
    one = (np.ones(1), np.ones(1), np.ones(1))
    draw(Bars("bars", "t", "c", ["a"], {str(i): one for i in range(9)}, "y"), tmp_path / "bars.png")


def test_points_that_measured_nothing_stand_at_the_foot():
    values = np.array([2.0, np.nan, 3.0, -1.0])
    panel = VerdictPanel("a", np.arange(4.0), values, ["holds", "undecided", "holds", "fails"], ["so"] * 4)
    for log, at_foot in ((False, [1.0]), (True, [1.0, 3.0])):
        (axes,) = draw_verdicts(Verdicts("v", "t", "c", [panel], "x", "y", log_y=log)).axes
        foot = [c for c in axes.collections if c.get_offset_transform() == axes.get_xaxis_transform()]
        assert sorted(x for c in foot for x, y in c.get_offsets().tolist() if y == 0) == at_foot


def test_marks_that_are_nowhere_are_left_out():
    panel = Panel("p", "x", "y", [], marks=[(float("nan"), "never"), (1.0, "once")])
    assert [label for _, label in figure_data(Curves("a", "t", "c", [panel]))["panels"][0]["marks"]] == ["once"]


def test_labels_of_marks_that_are_nowhere_take_no_room():
    marks = [(7.0, "late"), (float("nan"), "never"), (2.0, "early")]
    found = mark_labels(Panel("p", "x", "y", [], marks=marks), characters=40)
    assert [one.text for one in found] == ["early", "late"]


def test_the_picture_of_a_movie_says_which_replica_it_is_of_and_counts_from_one_as_the_page_does() -> None:
    movie = MatrixMovie("m", "t", "c", [0, 9], {"a": np.zeros((2, 2, 3, 4))}, "row", "column", "value")
    canvas = _canvas(movie)
    assert canvas.subfigs[0]._suptitle.get_text() == "a, replica 0"
    assert canvas.axes[0].get_xlim() == (0.5, 4.5)
    assert canvas.axes[0].get_ylim() == (3.5, 0.5)
    alone = _canvas(replace(movie, frames={"a": np.zeros((1, 2, 3, 4))}))
    assert alone.subfigs[0]._suptitle.get_text() == "a"


@pytest.mark.parametrize(
    ("values", "beyond"), [([0.0, 1.0], "neither"), ([-1, 1], "min"), ([0, 1 + 1e-9], "neither"), ([-2, 3], "both")]
)
def test_a_scale_says_where_values_are_beyond_it(values: list[float], beyond: str) -> None:
    canvas = _canvas(Heatmaps("h", "t", "c", {"a": np.array([[*values, np.nan]])}, "r", "c", "v", ends=(0, 1)))
    assert canvas.axes[0].images[0].colorbar.extend == beyond


def test_points_of_a_class_without_a_name_are_refused() -> None:
    """They would be in no picture."""
    with pytest.raises(ValueError, match="'a' of 's' has the class -1: expected 0 to 1, as named"):
        Scatters("s", "t", "c", {"a": np.zeros((2, 2))}, {"a": np.array([0, -1])}, ["one", "two"])
