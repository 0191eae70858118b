"""What the pages of the two studies of in-context learning say and draw, of answers and ratios set by hand."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import xarray as xr
from judged_by_hand import judged

from featscope.studies.icl_attention import IclAttention
from featscope.studies.icl_flipped_labels import IclFlippedLabels
from featscope.studies.summaries import INTERVALS, over_replicas

MODELS = ("some/large", "some/middle", "some/small")  # not in the order of their sizes
PARAMETERS = {"small": 1e6, "middle": 2e6, "large": 3e6}
ATTENTION = IclAttention(models=MODELS)
FLIPPED = IclFlippedLabels(models=MODELS, flips=(0.0, 0.25, 1.0), shots=8, items=20)
OFFSETS = np.array([-0.01, 0.0, 0.01])  # of replicas

RATIOS = {"small": 0.3, "middle": 0.6, "large": 0.9}
PARTS = {"-correct": 1.0, "-wrong": 1.1, "-swapped": 1.2, "-unrelated": 1.3}


def ratios(study: IclAttention = ATTENTION, **changes: float) -> dict[str, xr.Dataset]:
    """All arms: a model's ratio, by layout a little more; geometric means are half, norms go with the prompt."""
    runs = {}
    for arm in study.arms():
        name, dash, layout = arm.name.partition("-")
        own = RATIOS[name] * PARTS[dash + layout] if dash else {"uniform": 0.8, "focused": 0.1}[name]
        ratio = changes.get(arm.name.replace("-", "_"), own) + OFFSETS
        norms = {
            part: (("replica", "prompt"), np.outer(1 + ratio, scale * np.arange(1, 5)))
            for part, scale in (("relevant", 1), ("irrelevant", 10))
        }
        runs[arm.name] = xr.Dataset(
            {
                "ratio": ("replica", ratio),
                "log_ratio": ("replica", np.log(ratio / 2)),
                "parameters": ("replica", np.full(3, PARAMETERS.get(name, 0.0))),
            }
            | norms,
            attrs={"label": arm.label},
        )
    return runs


def attention_story(verdict: str = "holds", study: IclAttention = ATTENTION, **changes: float) -> Any:
    return study.story(ratios(study, **changes), judged({"larger-attends-to-both@large-correct": verdict}))


def test_the_largest_model_is_compared_with_the_smallest():
    for verdict, more in (("holds", "more"), ("fails", "no more"), ("undecided", "perhaps more")):
        assert attention_story(verdict).found == (
            f"large is {more} distracted by an irrelevant sentence than small: it gets 0.9 times as much attention as "
            "the other, there 0.3 times."
        )


def test_headlines_about_attention_are_of_the_arms_that_they_are_beside():
    assert attention_story().headlines == {
        "small-attends-to-relevant@small-correct": "0.3 times as much to the irrelevant one; 0.33 times with the wrong "
        "label.",
        "larger-attends-to-both@large-correct": "0.9 times as much to it; in small 0.3 times.",
        "relevance-beyond-position@small-correct": "The irrelevant one gets 0.3 times as much beside it, 0.39 times "
        "beside another irrelevant one.",
        "larger-attends-to-both@uniform": "0.8 times as much with uniform weights, 0.1 times with focused ones.",
        "normalised-is-exact@focused": "",
    }


def test_one_model_is_told_by_where_the_irrelevant_sentence_stands():
    one = replace(ATTENTION, models=("some/small",))
    assert attention_story(study=one).found == (
        "Labels attend more to their own sentence (small): an irrelevant one gets 0.3 times as much if last, 0.36 "
        "times if first."
    )
    unknown = attention_story(study=one, small_correct=np.nan).found
    assert "one of two sentences (small): an irrelevant one gets an unknown number of times as much if last" in unknown


@pytest.mark.parametrize(("ratio", "said"), [(99.4, "99 times"), (99.6, "100 times"), (1234.0, "1,234 times")])
def test_large_ratios_have_all_their_digits(ratio: float, said: str):
    one = replace(ATTENTION, models=("some/small",))
    assert f"an irrelevant one gets {said} as much if last" in attention_story(study=one, small_correct=ratio).found


def test_bars_of_ratios_stand_under_the_label_of_their_arm():
    runs = ratios()
    bars = next(iter(ATTENTION.figures(runs)))
    arms = [model + layout for model in ("small", "middle", "large") for layout in PARTS] + ["uniform", "focused"]
    assert bars.groups == [ATTENTION.arm(arm).label for arm in arms]
    as_it_is, geometric = bars.series.values()
    assert [*bars.series] == ["as it is (mean)", "lengths taken out (geometric mean)"]
    for place, arm in enumerate(arms):
        for series, drawn in ((runs[arm].ratio, as_it_is), (np.exp(runs[arm].log_ratio), geometric)):
            expected = over_replicas(series, (0, np.inf))
            np.testing.assert_allclose([ends[place] for ends in drawn], expected, err_msg=arm)
    assert as_it_is[0][0] == pytest.approx(0.3)
    assert geometric[0][0] == pytest.approx(0.15)
    assert (bars.references, bars.y_label) == ([(1.0, "both alike")], "ratio of norms")


def test_norms_are_drawn_of_the_layout_and_the_sentence_that_a_panel_names():
    *_, figure = ATTENTION.figures(ratios())
    for panel, layout, scale in zip(figure.panels, (1.0, 1.0, 1.1, 1.1), (1, 10, 1, 10), strict=True):
        assert [line.label for line in panel.curves] == ["small", "middle", "large"]
        for line in panel.curves:
            first = 1 + RATIOS[line.label] * layout - 0.01
            np.testing.assert_allclose(line.y, first * scale * np.arange(1, 5), err_msg=panel.title)


# --- labels that are inverted -----------------------------------------------------------------------------------------

RIGHT = {
    "small": (0.6, 0.58, 0.55),
    "middle": (0.7, 0.6, 0.4),
    "large": (0.9, 0.8, 0.2),
    "follows": (0.97, 0.95, 0.03),
    "ignores": (0.75, 0.75, 0.75),
    "frequency": (0.5, 0.5, 0.5),
}


def answers(study: IclFlippedLabels = FLIPPED, **slopes: float) -> dict[str, xr.Dataset]:
    """All arms: shares of right answers, of those given up, probabilities, and how often the second label is said."""
    runs = {}
    for arm in study.arms():
        right = np.array(RIGHT[arm.name]) + OFFSETS[:, None]
        series = {"accuracy": right, "override": (1 - right) / 2, "likely": right / 2, "says_one": right / 4}
        runs[arm.name] = xr.Dataset(
            {name: (("replica", "flip"), of) for name, of in series.items()}
            | {
                "slope": ("replica", np.full(3, slopes.get(arm.name, right[0, -1] - right[0, 0]))),
                "parameters": ("replica", np.full(3, PARAMETERS.get(arm.name, 0.0))),
            },
            attrs={"label": arm.label},
        )
    return runs


def flipped_story(verdicts: Mapping[str, str], study: IclFlippedLabels = FLIPPED, **slopes: float) -> Any:
    return study.story(answers(study, **slopes), judged(verdicts))


def test_the_largest_model_is_hurt_more_or_less_than_the_smallest():
    key = "larger-falls-faster@large"
    for verdict, hurt in (("holds", "hurt"), ("fails", "do not hurt"), ("undecided", "may hurt")):
        assert flipped_story({key: verdict}).found == (
            f"Wrong examples {hurt} large more than small: from 90 % right answers to 20 %, and from 60 % to 55 %."
        )
    rising = flipped_story({key: "holds"}, large=0.1, small=0.5).found
    assert rising.startswith("Wrong examples help large less than small: from 90 %")


def test_a_model_alone_is_told_by_its_own_fall():
    one = replace(FLIPPED, models=("some/small",))
    for verdict, slope, said in (
        ("holds", -0.1, "goes on much as before"),
        ("fails", -0.5, "gives in"),
        ("undecided", -0.2, "may give in"),
        ("undecided", 0.0, "may give in"),
        ("fails", 0.5, "does not go on as before on the way there"),
        ("undecided", 0.2, "may not go on as before on the way there"),
    ):
        assert flipped_story({"small-is-flat@small": verdict}, one, small=slope).found == (
            f"Where all examples are labelled wrong, small {said}: 55 % right, 60 % before (guessing: 50 %)."
        )


def test_a_model_alone_that_does_better_is_said_to(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(RIGHT, "small", (0.6, 0.58, 0.7))
    one = replace(FLIPPED, models=("some/small",))
    for verdict, slope, said in (
        ("fails", 0.1, "does better"),
        ("undecided", 0.1, "may do better"),
        ("fails", -0.1, "does not go on as before on the way there"),
    ):
        found = flipped_story({"small-is-flat@small": verdict}, one, small=slope).found
        assert found.startswith(f"Where all examples are labelled wrong, small {said}: 70 % right, 60 % before")


def test_headlines_about_labels_are_of_the_arms_that_they_are_beside():
    small, large = (
        "60 % right with no label inverted, 55 % with all",
        "90 % right with no label inverted, 20 % with all",
    )
    assert flipped_story({}).headlines == {
        "small-is-flat@small": f"{small}; it gives up 22 % of what it had right.",
        "larger-falls-faster@large": f"{large}; small {small}.",
        "large-falls-below-chance@large": "20 % right.",
        "follower-is-exact@follows": "97 % right with no label inverted, 3 % with all.",
        "ignorer-is-exact@ignores": "75 % right with no label inverted, 75 % with all.",
    }


def test_examples_are_counted():
    assert flipped_story({}).lede.startswith("A prompt shows 8 texts with labels, then one whose label is asked for.")
    one = replace(FLIPPED, shots=1, items=1)
    assert flipped_story({}, one).lede.startswith("A prompt shows 1 text with labels")
    captions = [next(iter(study.figures(answers(study)))).caption for study in (FLIPPED, one)]
    assert captions[0].startswith("Task sst2, made-up, 8 exemplars, 20 items a replica; what counts as right is never")
    assert captions[1].startswith("Task sst2, made-up, 1 exemplar, 1 item a replica;")
    assert captions[0].endswith(INTERVALS)


def test_each_panel_draws_its_series_over_percent():
    accuracy, following = FLIPPED.figures(answers())
    models, hand_set = ["small", "middle", "large"], ["follows exemplars", "ignores exemplars", "frequent label"]
    names = dict(zip([*models, *hand_set], RIGHT, strict=True))
    for panel, labels, part in (
        (accuracy.panels[0], models, lambda right: right),
        (accuracy.panels[1], hand_set, lambda right: right),
        (following.panels[0], [*models, *hand_set[:-1]], lambda right: (1 - right) / 2),
        (following.panels[1], [*models, *hand_set], lambda right: right / 2),
        (following.panels[2], [*models, *hand_set], lambda right: right / 4),
    ):
        lines = {line.label: line for line in panel.curves}
        assert panel.x_label == "labels of examples inverted (%)"
        guessing = lines.pop("guessing", None)
        assert (guessing is not None) == (panel in accuracy.panels)
        if guessing is not None:
            assert guessing.dashed
            assert guessing.y.tolist() == [0.5] * 3
        assert [*lines] == labels
        for label, line in lines.items():
            assert line.x.tolist() == [0, 25, 100]
            assert not line.dashed
            np.testing.assert_allclose(line.y, part(np.array(RIGHT[names[label]])), err_msg=panel.title)


def test_a_replica_that_had_nothing_right_does_not_hide_what_others_gave_up():
    runs = answers()
    override = runs["small"].override.copy()
    override[0] = np.nan
    _, following = FLIPPED.figures(runs | {"small": runs["small"].assign(override=override)})
    line = following.panels[0].curves[0]
    assert line.label == "small"
    np.testing.assert_allclose(line.y, override[1:].mean("replica"))
    assert np.isfinite([line.low, line.high]).all()
