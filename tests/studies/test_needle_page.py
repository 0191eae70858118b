"""What the page of needles says and draws, of scores set by hand."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import xarray as xr
from judged_by_hand import judged

from featscope.studies.needle import NeedleInAHaystack
from featscope.studies.needle.arms import KINDS
from featscope.studies.summaries import over_replicas

STUDY = NeedleInAHaystack(lengths=(100, 300), depths=3, prompts=2, recall=4)
SCORES = {"full": 0.97, "gemfilter": 0.5, "question-kept": 0.9, "snapkv": 0.95, "h2o": 0.2, "no-needle": 0.1}
MATTERS = "the-needle-matters@full"


def measured(study: NeedleInAHaystack = STUDY, replicas: int = 3, **scores: float) -> dict[str, xr.Dataset]:
    """All arms with these mean scores; a prompt's own is a little off, by replica, length, depth and prompt."""
    found = SCORES | {name.replace("_", "-"): score for name, score in scores.items()}
    sizes = replicas, len(study.lengths), study.depths, study.prompts
    places = zip(np.indices(sizes), sizes, strict=True)
    apart = sum(0.001 * 2**i * (place - (size - 1) / 2) for i, (place, size) in enumerate(places))
    dims = ("replica", "length", "depth", "prompt")
    runs = {}
    for arm in study.arms():
        if arm.name in KINDS:
            shares = np.array([0.75, 0.25]) + 0.01 * [*KINDS].index(arm.name)
            whole = np.broadcast_to(shares[:, None], (replicas, 2, 4))
            runs[arm.name] = xr.Dataset({"whole": (("replica", "length", "prompt"), whole)})
        elif "heads" in arm.name:
            runs[arm.name] = xr.Dataset({"induction": (("replica", "prompt", "layer"), np.ones((replicas, 4, 6)))})
        else:
            each = found[arm.name] + apart
            runs[arm.name] = xr.Dataset(
                {name: (dims, each / part) for name, part in (("normalised", 1), ("exact", 2), ("kept", 4))}
            )
    return runs


def story(study: NeedleInAHaystack = STUDY, matters: str = "holds", replicas: int = 3, **scores: float) -> Any:
    return study.story(measured(study, replicas, **scores), judged({MATTERS: matters}))


def figures(study: NeedleInAHaystack = STUDY) -> Mapping[str, Any]:
    return {figure.id: figure for figure in study.figures(measured(study))}


def test_the_best_and_the_worst_method_stand_beside_full_attention():
    for matters in ("holds", "undecided"):
        assert story(matters=matters).found == (
            "Keeping 32 % of a text can be enough for right answers: SnapKV 95 %, H2O 20 %, full attention 97 %."
        )
    assert story(snapkv=0.9, question_kept=0.91).found == (
        "Keeping 32 % of a text is not enough for right answers: question kept 91 %, H2O 20 %, full attention 97 %."
    )


def test_headlines_name_the_first_of_a_comparison_first():
    assert story().headlines == {
        "gemfilter-beats-snapkv@gemfilter": "GemFilter 50 %, SnapKV 95 %.",
        "question-kept-beats-snapkv@question-kept": "question kept 90 %, SnapKV 95 %.",
        "gemfilter-beats-full@gemfilter": "GemFilter 50 %, full attention 97 %.",
        "snapkv-is-like-full@snapkv": "SnapKV 95 %, full attention 97 %.",
        MATTERS: "full attention 97 %, no needle 10 %.",
    }


def test_the_lede_says_where_the_sentence_is_hidden_and_of_how_many_texts_a_colour_is():
    assert story().lede == (
        "A sentence is hidden in texts of up to 300 tokens (pieces of words), at 3 places from the beginning to the "
        "question at the end. A method keeps 64 tokens in its own way; full attention keeps all. A colour is the share "
        "of the answer's words that came back, the mean of 6 texts."
    )
    middle = story(replace(STUDY, depths=1, prompts=1), replicas=1).lede
    assert "(pieces of words), in the middle, with the question at the end." in middle
    assert middle.endswith("the mean of 1 text.")
    assert ", at the beginning or before the question at the end." in story(replace(STUDY, depths=2)).lede


def test_nothing_is_compared_where_the_needle_does_not_matter():
    assert story(matters="fails", full=0.3).found == (
        "Not even the whole text gives the answer (full attention 30 %), so that nothing can be compared."
    )
    knows = "The hidden sentence makes too little of a difference (full attention 97 %, no needle 90 %), so that"
    assert story(matters="fails", no_needle=0.9).found == f"{knows} nothing can be compared."


def test_without_full_attention_the_best_method_says_whether_the_needle_matters():
    study = replace(STUDY, methods=("snapkv", "h2o"))
    assert story(study).found == "Keeping 32 % of a text may be enough for right answers: SnapKV 95 %, H2O 20 %."
    assert story(study, snapkv=0.4).found == (
        "No method gives the answer (SnapKV 40 %), so that nothing can be compared."
    )
    assert "of a difference (SnapKV 95 %, no needle 60 %)" in story(study, no_needle=0.6).found
    assert "may be enough for right answers: " in story(study, snapkv=np.nan).found


def test_of_full_attention_alone_it_is_not_said_that_something_is_kept():
    for lengths in ((48,), (100, 300)):
        said = story(replace(STUDY, methods=("full",), lengths=lengths))
        assert said.found == "All of each text is read: full attention 97 %, no needle 10 % of the answer's words."
        assert "Full attention keeps all. A colour" in said.lede
        assert "64 tokens" not in said.lede


def test_little_that_is_kept_is_not_nothing():
    assert story(replace(STUDY, lengths=(100, 2**17))).found.startswith("Keeping 0.1 % of a text can be")


def test_grids_have_lengths_across_and_places_in_percent_down():
    grids, kept = (figures()[name] for name in ("grids", "kept"))
    for grid in (grids, kept):
        assert (grid.rows, grid.columns, grid.ends) == (["0", "50", "100"], ["100", "300"], (0, 1))
        assert (grid.row_label, grid.column_label) == ("place in the text (%)", "length of the text (tokens)")
    assert [*grids.panels] == [
        "full attention",
        "GemFilter",
        "question kept",
        "SnapKV",
        "H2O",
        "no needle",
    ]
    assert [*kept.panels] == [*grids.panels][1:-1]
    for panels, part in ((grids.panels, 1), (kept.panels, 4)):
        np.testing.assert_allclose(panels["H2O"], (0.2 + np.add.outer([-0.004, 0, 0.004], [-0.001, 0.001])) / part)


def test_means_are_over_the_other_axis():
    over_length, over_place, whole = figures()["means"].panels
    run = measured()["snapkv"]
    for panel, series, axis, x, label in (
        (over_length, "normalised", "length", [100, 300], "length of the text (tokens)"),
        (over_place, "normalised", "depth", [0, 50, 100], "place in the text (%)"),
        (whole, "exact", "length", [100, 300], "length of the text (tokens)"),
    ):
        line = {curve.label: curve for curve in panel.curves}["SnapKV"]
        others = {"length", "depth", "prompt"} - {axis}
        mean, low, high = over_replicas(run[series].mean(others), (0, 1))
        np.testing.assert_array_equal(line.x, x)
        for drawn, expected in ((line.y, mean), (line.low, low), (line.high, high)):
            np.testing.assert_allclose(drawn, expected)
        assert panel.x_label == label
    assert (over_length.y_label, whole.y_label) == (
        "share of the answer's words given",
        "share of prompts answered whole",
    )


def test_bars_of_what_was_never_seen_are_of_the_length_that_they_are_called():
    unseen = figures()["unseen"]
    assert unseen.groups == [label for _, label in KINDS.values()]
    for length, first in (("512 tokens", 0.75), ("1,024 tokens", 0.25)):
        np.testing.assert_allclose(unseen.series[length][0], first + 0.01 * np.arange(5))
    assert unseen.references == [(0.95, "wanted of 512 tokens"), (0.9, "of 1,024")]
    assert "unseen" not in figures(replace(STUDY, recall=0))


def test_a_table_shows_what_methods_say_where_they_differ_most():
    runs = measured()
    for name in SCORES:
        run = runs[name]
        scores = xr.ones_like(run.normalised)
        scores[0, 0, 1, 1] = 0.5 if name == "h2o" else 1.0
        scores[0, 1, 2, 0] = 0.25 if name == "h2o" else 1.0
        scores[1, 1, 0, 0] = 0.0 if name == "h2o" else 1.0  # another replica
        words = np.array([f"{name} {place}" for place in range(run.normalised.size)], dtype=object)
        said = (run.normalised.dims, words.reshape(run.normalised.shape))
        runs[name] = run.assign(normalised=scores, said=said, wanted=said)
    first, second = STUDY.tables(runs)
    assert first.title == "300 tokens, 100 % into the text, prompt 1: “full 10” is wanted"
    assert second.title == "100 tokens, 50 % into the text, prompt 2: “full 3” is wanted"
    assert first.headings == ["method", "share of the answer's words given", "answer"]
    assert [row[0] for row in first.rows] == [
        "full attention",
        "GemFilter",
        "question kept",
        "SnapKV",
        "H2O",
    ]
    assert first.rows[-1] == ["H2O", "0.25", "h2o 10"]
    assert second.rows[-1] == ["H2O", "0.50", "h2o 3"]


@pytest.mark.parametrize("name", ["adakv", "fastkv"])
def test_a_method_alone_has_a_story_without_headlines(name):
    study = replace(STUDY, methods=(name,))
    label = study.arm(name).label
    said = study.story(measured(study, **{name: 0.8}), [])
    assert said.found == f"Keeping 32 % of a text may be enough for right answers: {label} 80 %."
    assert said.headlines == {}
