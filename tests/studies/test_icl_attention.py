"""The study of what a label attends to, small: known ratios, what each arm shows to a model, planted faults."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
import xarray as xr
from tiny_model import remembered_examples, saved

from featscope.check import check
from featscope.language.in_context import FocusedRow, ModelRow, load_examples, sentence_pairs, spans
from featscope.options import ConfigError
from featscope.runs import Settings, run
from featscope.streams import Streams
from featscope.studies.icl_attention import IclAttention
from featscope.studies.icl_attention.arms import LAYOUTS
from featscope.testing import Claims, Fault, Trial, by_name
from featscope.training import Evaluation

SMALL, LARGE = "small", "large"
HAND_SET = ("uniform", "focused")


def study(**options: Any) -> IclAttention:
    """Two random models of different size."""
    models = (saved(SMALL, 0, 16), saved(LARGE, 1, 32))
    return IclAttention(**{"models": models, "prompts": 8} | options)


@pytest.fixture(scope="module", autouse=True)
def _remembered() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sentence_pairs, "load_examples", remembered_examples)
        yield


@cache
def trial() -> Trial:
    """All arms."""
    return Trial(study(), replicas=3)


def with_planted(**ratios: float) -> dict[str, xr.Dataset]:
    """All arms if models' had these ratios (and their logarithms) in all replicas."""
    measured = dict(trial().runs)
    for arm, ratio in ratios.items():
        name = arm.replace("_", "-")
        old = measured[name]
        apart = (
            old["ratio"] * 0 + 1 + 1e-4 * (old["replica"] * (1 + list(measured).index(name)) % 7)
        )  # equal ones decide nothing
        measured[name] = old.assign(ratio=ratio * apart, log_ratio=np.log(ratio * apart))
    return measured


def with_ratios(**ratios: float) -> Claims:
    """The claims if models' arms had these ratios."""
    return by_name(study().claims(with_planted(**ratios)))


# --- what is known --------------------------------------------------------------------------------------------------


def test_hand_set_readers_have_the_ratios_that_they_were_given():
    for claim in trial().healthy.values():
        if claim.arm in HAND_SET:
            assert claim.verdict == ("holds" if claim.expected else "fails"), (claim.id, claim.arm)
    ids = {claim.id for claim in trial().healthy.values()}
    assert ids == {statement.id for statement in IclAttention.statements()}
    np.testing.assert_allclose(trial().run("focused")["normalised_ratio"], 0.1, rtol=1e-6)
    uniform = trial().run("uniform")
    lengths = (uniform["irrelevant_tokens"] / uniform["relevant_tokens"]) ** 0.5
    np.testing.assert_allclose(uniform["ratio"], lengths.mean("prompt"), rtol=1e-6)


def test_a_models_ratio_is_that_of_its_norms():
    one = trial().run(f"{SMALL}-correct")
    ratio = one["irrelevant"] / one["relevant"]
    lengths = (one["relevant_tokens"] / one["irrelevant_tokens"]) ** 0.5
    np.testing.assert_allclose(one["ratio"], ratio.mean("prompt"))
    np.testing.assert_allclose(one["normalised_ratio"], (ratio * lengths).mean("prompt"))
    np.testing.assert_allclose(one["log_ratio"], np.log(ratio * lengths).mean("prompt"))
    assert float(one["parameters"][0]) < float(trial().run(f"{LARGE}-correct")["parameters"][0])


def shown(monkeypatch, layout: str) -> list[tuple[str, str, str]]:
    """(text, first span's characters, second span's) of the prompts of an arm of the small model, replica 2."""
    seen = []

    def keep(self, text, asked):
        seen.append((text, *(text[first:last] for first, last in asked)))
        return FocusedRow(1.0).read(text, asked)

    with monkeypatch.context() as patch:
        patch.setattr(ModelRow, "read", keep)
        patch.setattr(ModelRow, "own_row", lambda self, text: FocusedRow(1.0).read(text, [(0, 1)]).weights)
        experiment = trial().arms[SMALL + layout].recipe.build(Streams(0, [2]))
        for step in range(4):
            experiment.advance(step)
    return seen


def test_arms_differ_in_what_they_say_they_do(monkeypatch):
    truth = {text: label for (text,), label in load_examples("sst2", "made-up", Streams(0, [2])).truth.items()}
    layouts = {layout: shown(monkeypatch, layout) for layout in LAYOUTS}
    words = ("negative", "positive")
    for prompts in zip(*layouts.values(), strict=True):
        (right, relevant, irrelevant), wrong, swapped, unrelated = prompts
        word = words[truth[relevant]]
        assert right == f"sentence: {relevant} {irrelevant}\nThe answer is {word}"
        other = words[1 - truth[relevant]]
        assert wrong == (f"sentence: {relevant} {irrelevant}\nThe answer is {other}", relevant, irrelevant)
        assert swapped == (f"sentence: {irrelevant} {relevant}\nThe answer is {word}", relevant, irrelevant)
        text, instead, same = unrelated
        assert (text, same) == (f"sentence: {instead} {irrelevant}\nThe answer is {word}", irrelevant)
        assert instead not in (relevant, irrelevant)
        assert instead not in truth
        assert irrelevant not in truth


def test_orderings_go_by_the_ratios():
    more = with_ratios(small_correct=0.3, large_correct=0.9, small_wrong=0.3, large_wrong=0.2)
    assert more["larger-attends-to-both", f"{LARGE}-correct"].verdict == "holds"
    assert more["larger-attends-to-both-wrong-label", f"{LARGE}-wrong"].verdict == "fails"
    assert more["small-attends-to-relevant", f"{SMALL}-correct"].verdict == "holds"
    assert with_ratios(small_correct=0.6)["small-attends-to-relevant", f"{SMALL}-correct"].verdict == "fails"
    same = with_ratios(small_correct=0.3, large_correct=0.3)
    assert same["larger-attends-to-both", f"{LARGE}-correct"].verdict == "fails"


def test_the_story_turns_with_the_ratios():
    def found(chosen: IclAttention, **ratios: float) -> str:
        measured = with_planted(**ratios)
        return chosen.story(measured, chosen.claims(measured)).found

    more = found(study(), small_correct=0.3, large_correct=0.9)
    assert more.startswith(f"{LARGE} is more distracted by an irrelevant sentence than {SMALL}: it gets 0.9 times")
    assert f"{LARGE} is no more distracted" in found(study(), small_correct=0.3, large_correct=0.2)
    one = study(models=study().models[:1])
    assert found(one, small_correct=0.3, small_swapped=0.4) == (
        f"Labels attend more to their own sentence ({SMALL}): an irrelevant one gets 0.3 times as much if last, 0.4 "
        "times if first."
    )
    for last, first, said in ((3, 2, "an irrelevant"), (3, 0.4, "the nearer"), (0.3, 2, "the farther")):
        assert f"more to {said} sentence" in found(one, small_correct=last, small_swapped=first)
    assert "nan" not in found(one, small_correct=np.nan)


def test_place_is_taken_out():
    less = with_ratios(small_correct=0.8, small_unrelated=0.9, large_correct=0.9, large_unrelated=0.8)
    assert less["relevance-beyond-position", f"{SMALL}-correct"].verdict == "holds"
    assert less["relevance-beyond-position", f"{LARGE}-correct"].verdict == "fails"


def test_what_is_expected_goes_by_the_size_of_the_smallest_model():
    of_any = {"layouts-change-what-is-attended", "rows-are-the-final-layers"}  # whatever the size
    of_models = [c for c in trial().healthy.values() if c.arm not in HAND_SET and c.id not in of_any]
    assert not any(claim.expected for claim in of_models)
    sizes = {SMALL: 13e9, LARGE: 70e9}
    runs = {
        name: run.assign(parameters=run["parameters"] * 0 + sizes.get(name.partition("-")[0], 0.0))
        for name, run in trial().runs.items()
    }
    llama = [c for c in study().claims(runs) if c.arm not in HAND_SET and c.id not in of_any]
    assert {(claim.id, claim.arm) for claim in llama} == {
        ("larger-attends-to-both", f"{LARGE}-correct"),
        ("larger-attends-to-both-wrong-label", f"{LARGE}-wrong"),
        ("small-attends-to-relevant", f"{SMALL}-correct"),
        ("relevance-beyond-position", f"{SMALL}-correct"),
        ("relevance-beyond-position", f"{LARGE}-correct"),
    }
    assert all(claim.expected for claim in llama)
    sizes[SMALL] = 13e6
    runs = {
        name: run.assign(parameters=run["parameters"] * 0 + sizes.get(name.partition("-")[0], 0.0))
        for name, run in trial().runs.items()
    }
    assert not by_name(study().claims(runs))["larger-attends-to-both", f"{LARGE}-correct"].expected


def test_a_layout_that_is_not_shown_is_noticed():
    runs = dict(trial().runs)
    shown = by_name(study().claims(runs))
    for layout in ("wrong", "swapped", "unrelated"):
        arm = f"{SMALL}-{layout}"
        assert shown["layouts-change-what-is-attended", arm].measured > 0.01
        hidden = by_name(study().claims(runs | {arm: runs[f"{SMALL}-correct"]}))
        assert hidden["layouts-change-what-is-attended", arm].measured == 0
        assert hidden["layouts-change-what-is-attended", arm].verdict != "holds"


def test_arms_have_their_roles():
    roles = {name: arm.role for name, arm in trial().arms.items() if arm.role != "arm"}
    assert roles == dict.fromkeys((f"{SMALL}-unrelated", f"{LARGE}-unrelated", *HAND_SET), "reference")


def test_it_runs_and_draws_four_panels(tmp_path):
    one = study(prompts=2)
    outcome = run(one, Settings(replicas=2), tmp_path / "run")
    ratios, norms = one.figures(outcome.runs)
    titles = {
        "Right label, relevant sentence": ("correct", "relevant"),
        "Right label, irrelevant sentence": ("correct", "irrelevant"),
        "Wrong label, relevant sentence": ("wrong", "relevant"),
        "Wrong label, irrelevant sentence": ("wrong", "irrelevant"),
    }
    assert [panel.title for panel in norms.panels] == list(titles)
    for panel, (layout, sentence) in zip(norms.panels, titles.values(), strict=True):
        assert [curve.label for curve in panel.curves] == [SMALL, LARGE]
        for curve in panel.curves:
            np.testing.assert_array_equal(curve.y, outcome.runs[f"{curve.label}-{layout}"][sentence][0])
    assert len(ratios.groups) == 10
    np.testing.assert_allclose(ratios.series["lengths taken out (geometric mean)"][0][-2:], [1.0, 0.1], rtol=1e-6)
    assert f"distracted by an irrelevant sentence than {SMALL}" in one.story(outcome.runs, outcome.claims).found


def test_the_smallest_study_can_be_checked():
    assert check(study()).problems == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"models": ()}, "models"),
        ({"models": ("a/x", "b/x")}, "different last parts"),
        ({"models": ("a/uniform",)}, "none of"),
        ({"prompts": 0}, "prompts = 0"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        study(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompts": 1001}, "at most 1000, what the data have"),
        ({"irrelevant": "./nowhere"}, "irrelevant = './nowhere' cannot be read"),
    ],
)
def test_what_is_not_there_is_refused_when_it_is_built(options, message):
    with pytest.raises(ConfigError, match=message):
        study(**options).arm("uniform").recipe.build(Streams(0, [0]))


# --- planted faults -------------------------------------------------------------------------------------------------

norms, inside, read, answered = spans.span_norms, spans._inside, FocusedRow.read, Evaluation.__getitem__


def without_squares(row, asked):
    return [
        one._replace(norm=float(row.weights[:, inside(row.offsets, span)].sum()))
        for one, span in zip(norms(row, asked), asked, strict=True)
    ]


def turned_over(self, name):
    return 1 / answered(self, name) if name == "ratio" else answered(self, name)


def one_for_both(self, text, asked):
    return read(FocusedRow(0.1), text, asked)


LAST_ROW = spans._LastRow
FAULTS = {
    "sums of weights": Fault(sentence_pairs, "span_norms", without_squares, "raw-is-exact", "uniform"),
    "a span that ends a token late": Fault(
        spans,
        "_inside",
        lambda offsets, span: inside(offsets, (span[0], span[1] + 4)),
        "normalised-is-exact",
        "focused",
    ),
    "spans exchanged": Fault(
        sentence_pairs, "span_norms", lambda row, asked: norms(row, asked)[::-1], "small-attends-to-relevant", "focused"
    ),
    "the ratio turned over": Fault(Evaluation, "__getitem__", turned_over, "normalised-is-exact", "focused"),
    "the row of another layer": Fault(
        spans,
        "_LastRow",
        lambda layer, prompt: LAST_ROW(layer - 1, prompt),
        "rows-are-the-final-layers",
        f"{SMALL}-correct",
    ),
    "one reader for both": Fault(FocusedRow, "read", one_for_both, "larger-attends-to-both", "uniform"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_takes_holds_from_an_expected_claim(name, monkeypatch):
    trial().require_noticed(FAULTS[name], monkeypatch)
