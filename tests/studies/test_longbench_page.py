"""What the page of LongBench says and draws, of scores set by hand."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import xarray as xr
from judged_by_hand import judged

from featscope.claims import interval_of_mean
from featscope.studies.longbench import LongBench
from featscope.studies.longbench.figures import ARMS

STUDY = LongBench(data="somewhere", tasks=("qasper", "trec"))
SIZES = 14, 5  # examples of the two tasks
SCORES = {"gemfilter": 40.0, "question-kept": 45.0, "snapkv": 50.0, "h2o": 30.0, "full": 60.0, "middle-row": 10.0}
COMPARABLE, SOMETHING = "gemfilter-is-comparable-to-snapkv@gemfilter", "something-to-lose@full"


def measured(study: LongBench = STUDY, sizes: tuple[int, ...] = SIZES, kept: int = 96) -> dict[str, xr.Dataset]:
    """Of prompts of 900 tokens and longer; a task's scores are 10 points above those of the task before it.

    Examples alternate around these scores, methods by more or less.
    """
    task_of = np.repeat(np.arange(len(sizes)), sizes)
    tokens = 900.0 + 10 * np.arange(len(task_of))
    apart = np.concatenate(
        [np.where(np.arange(size) % 2, 1.0, -1.0) if size % 2 == 0 else np.zeros(size) for size in sizes]
    )
    runs = {}
    for place, name in enumerate(study.methods):
        score = SCORES[name] + 10 * task_of + (1 + place) * apart
        told = {
            "score": score,
            "exact": (score > 59).astype(float),
            "task_of": task_of.astype(float),
            "tokens": tokens,
            "kept": tokens if name == "full" else np.full_like(tokens, kept),
            "cut": np.where(tokens > 1000, 5.0, 0.0),
        }
        runs[name] = xr.Dataset({key: (("replica", "example"), of[None]) for key, of in told.items()})
        runs[name]["mean_score"] = ("replica", [np.mean([score[task_of == task].mean() for task in {*task_of}])])
        runs[name]["compression"] = ("replica", [told["kept"].mean() / tokens.mean()])
    return runs


def story(study: LongBench = STUDY, comparable: str = "holds", something: str = "holds", **of: Any) -> Any:
    return study.story(measured(study, **of), judged({COMPARABLE: comparable, SOMETHING: something}))


def figures(study: LongBench = STUDY, **of: Any) -> Mapping[str, Any]:
    return {figure.id: figure for figure in study.figures(measured(study, **of))}


def test_a_text_shorter_than_what_may_be_kept_is_not_said_to_have_as_much():
    for keep, said in ((900, "900 tokens"), (901, "up to 901 tokens")):  # the shortest text has 900
        told = story(replace(STUDY, keep=keep))
        assert f"on long texts, of which it keeps {said} (pieces of words): GemFilter has" in told.lede
        assert told.headlines["compression@gemfilter"] == f"10 % of it, {said}."


def test_the_story_has_gemfilters_score_first():
    both = "45.0 and 55.0 of 100 with 10 % of a text, 65.0 with all."
    assert story().found == f"GemFilter scores as SnapKV does: {both}"
    assert story(comparable="fails").found == f"GemFilter does not score as SnapKV does: {both}"
    assert story(comparable="undecided", something="undecided").found == (
        f"Whether GemFilter scores as SnapKV does is open: {both}"
    )
    assert story(something="fails").found == (
        "The model finds too little to compare anything: 65.0 of 100 points with all of a text."
    )
    assert story(kept=4).found.endswith("with 0.4 % of a text, 65.0 with all.")


def test_the_lede_counts_questions_and_says_what_methods_keep():
    assert story().lede == (
        "A model answers 19 questions of 2 kinds (LongBench) on long texts, of which it keeps 96 tokens (pieces of "
        "words): GemFilter has layer 3 choose them and reads those alone; SnapKV keeps what the last tokens attend to; "
        "H2O keeps what all attend to. Bars are mean scores, from 0 to 100, of a kind of question, and last of all "
        "kinds."
    )
    one = story(replace(STUDY, tasks=("trec",), methods=("full", "question-kept")), sizes=(1,))
    assert one.found == "Of 100 points: full attention 60.0, question kept 45.0."
    assert one.lede.startswith(
        "A model answers 1 question of 1 kind (LongBench) on long texts, of which it keeps 96 tokens (pieces of "
        "words). Bars"
    )
    alone = story(replace(STUDY, methods=("full",)))
    assert "on long texts. Bars" in alone.lede
    assert alone.headlines == {
        SOMETHING: "65.0 points with all of a text.",
        "published-scores-are-comparable@Table 9.1": "",
    }


def test_headlines_are_of_what_their_claims_are_about():
    assert story().headlines == {
        COMPARABLE: "45.0 against 55.0 points.",
        "gemfilter-is-no-worse-than-h2o@gemfilter": "45.0 against 35.0 points.",
        SOMETHING: "65.0 points with all of a text.",
        "compression@gemfilter": "10 % of it, 96 tokens.",
        "published-scores-are-comparable@Table 9.1": "",
    }


def test_bars_are_means_of_tasks_and_their_mean_with_intervals_where_examples_are_many():
    bars = figures()["scores"]
    assert bars.groups == ["Qasper", "TREC", "Mean"]
    assert [*bars.series] == [label for name, label in ARMS.items() if name in SCORES]
    for place, name in enumerate(STUDY.methods):
        mean, low, high = bars.series[ARMS[name]]
        np.testing.assert_allclose(mean, [SCORES[name], SCORES[name] + 10, SCORES[name] + 5])
        samples = measured()[name].score.values[0, : SIZES[0]]
        assert (low[0], high[0]) == pytest.approx(interval_of_mean(samples)), place
        assert np.isnan([low[1], high[1]]).all()
        assert low[2] < mean[2] < high[2]
    assert "Mean scores with 96 tokens kept; layer 3 chooses, where one does." in bars.caption
    assert bars.title == "Scores per task"
    alone = figures(replace(STUDY, methods=("full",)))["scores"].caption
    assert alone.startswith("Mean scores. Intervals are at 99 %")


def test_differences_are_the_first_named_less_the_other():
    bars = figures()["differences"]
    *series, printed = bars.series.items()
    expected = {"GemFilter less SnapKV": -10, "GemFilter less full attention": -20, "question kept less SnapKV": -5}
    assert [label for label, _ in series] == [*expected]
    for label, (mean, low, high) in series:
        np.testing.assert_allclose(mean, expected[label])
        assert low[0] < mean[0] < high[0] < 0
    label, (mean, low, _) = printed
    assert label == "GemFilter-1024 less SnapKV-1024, printed"
    np.testing.assert_allclose(mean[:2], [11.0 - 11.17, 63.0 - 67.5])
    assert np.isnan(low).all()
    assert (bars.y_label, bars.references) == ("difference (points)", [(0.0, "equal")])
    assert "Beside them, llama-3.1-8b in the paper." in bars.caption


def test_it_is_said_how_many_prompts_were_cut_and_what_is_kept():
    figure = figures()["lengths"]
    assert "Left, how long prompts are; the line is what is kept. Cut to fit the context: 8 of 19." in figure.caption
    assert "in 6 groups of all tasks." in figure.caption
    prompts, score = figure.panels
    assert prompts.marks == [(96.0, "kept (k)")]
    assert [curve.label for curve in score.curves] == [label for name, label in ARMS.items() if name in SCORES]
    for curve in score.curves:
        each = measured()[{label: name for name, label in ARMS.items()}[curve.label]]
        assert curve.y[-1] == pytest.approx(each.score.values[0, -3:].mean())
    alone = figures(replace(STUDY, methods=("full",), tasks=("trec",)), sizes=(1,))["lengths"]
    assert "Left, how long prompts are. Cut to fit the context: 0 of 1. Right, mean" in alone.caption
    assert "in 1 group of all tasks." in alone.caption
    assert alone.panels[0].marks == []


def test_rows_of_tables_are_of_the_method_that_they_are_called():
    beside, both = STUDY.tables(measured())
    assert beside.headings == both.headings == ["method", "Qasper", "TREC", "Mean"]
    for table, form in ((beside, "{:.1f}".format), (both, None)):
        rows = {label: cells for label, *cells in table.rows}
        for name, score in SCORES.items():
            points = [cell.split(" / ")[0] for cell in rows[ARMS[name]]]
            assert points == [f"{score:.1f}", f"{score + 10:.1f}", f"{score + 5:.1f}"]
            assert (form is None) == (" / " in rows[ARMS[name]][0])
    rows = {label: cells for label, *cells in both.rows}
    assert rows["SnapKV"] == ["50.0 / 0.00", "60.0 / 1.00", "55.0 / 0.50"]
    rows = {label: cells for label, *cells in beside.rows}
    assert rows["SnapKV-1024, llama-3.1-8b, printed"][:2] == ["11.2", "67.5"]


def test_an_example_on_which_methods_differ_is_called_by_its_number_in_its_task():
    runs = measured()
    for name, run in runs.items():
        words = np.array([[f"{name} {place}" for place in range(sum(SIZES))]], dtype=object)
        score = xr.full_like(run.score, 50.0)
        score[0, 3] = 10.0 if name == "h2o" else 50.0
        score[0, 16] = 30.0 if name == "h2o" else 50.0
        dims = ("replica", "example")
        runs[name] = run.assign(score=score, said=(dims, words), wanted=(dims, np.full_like(words, "this")))
    first, second = [*STUDY.tables(runs)][2:]
    assert first.title == "Qasper, example 4: “this” is wanted"
    assert second.title == "TREC, example 3: “this” is wanted"
    assert first.headings == ["method", "points", "answer"]
    assert {label: cells for label, *cells in first.rows}["H2O"] == ["10", "h2o 3"]
    assert {label: cells for label, *cells in second.rows}["H2O"] == ["30", "h2o 16"]


def test_made_up_data_are_called_so_in_story_figures_and_tables():
    made_up = replace(STUDY, data="made-up")
    said = story(made_up)
    assert said.found.startswith("MADE-UP DATA. GemFilter scores as")
    assert said.lede.endswith("These scores say nothing about LongBench; for that, give --data and --model.")
    drawn = figures(made_up)
    for name in ("scores", "differences", "lengths"):
        assert drawn[name].caption.startswith("MADE-UP DATA"), name
    assert not any("printed" in label for label in drawn["differences"].series)
    assert [table.title[:12] for table in made_up.tables(measured(made_up))] == ["MADE-UP DATA"]
