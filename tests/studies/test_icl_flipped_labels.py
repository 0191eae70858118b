"""The study of inverted exemplar labels, small: curves that are known, what holds and what must not, planted faults.

The language models are tiny and random; where one must follow, it is given a follower's answers.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any, get_args

import numpy as np
import pytest
import torch
import xarray as xr
from tiny_model import remembered_examples, saved

from featscope.check import check
from featscope.language.in_context import (
    TASKS,
    FlippedLabels,
    Follower,
    Frequency,
    Ignorer,
    ModelReader,
    flipped_labels,
    load_examples,
    parse,
    readers,
)
from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.studies.icl_flipped_labels import IclFlippedLabels
from featscope.studies.icl_flipped_labels.arms import TaskName
from featscope.testing import Claims, Fault, Trial, by_name

REPLICAS = 5
SMALL, LARGE = "small", "large"
HAND_SET = ("follows", "ignores", "frequency")


def study(**options: Any) -> IclFlippedLabels:
    """Two random models of different size."""
    models = (saved(SMALL, 0, 16), saved(LARGE, 1, 32))
    return IclFlippedLabels(**{"models": models, "items": 24, "shots": 4} | options)


@pytest.fixture(scope="module", autouse=True)
def _remembered() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flipped_labels, "load_examples", remembered_examples)
        yield


@cache
def trial() -> Trial:
    """All arms; models, which are slow, get fewer items."""
    few = {name: study(items=8).arm(name) for name in (SMALL, LARGE)}
    return Trial(study(), REPLICAS, arms=few)


# --- what is known --------------------------------------------------------------------------------------------------


OF_FEW_ITEMS = ("frequency-knows-nothing", "ignorer-knows-three-quarters")
"""Claims that more items than these would decide."""


def test_hand_set_learners_do_what_is_expected_of_them():
    claims = [claim for claim in trial().healthy.values() if claim.arm in HAND_SET]
    for claim in claims:
        if claim.id in OF_FEW_ITEMS and claim.expected:
            assert claim.verdict != "fails", (claim.id, claim.arm)
        else:
            assert claim.verdict == ("holds" if claim.expected else "fails"), (claim.id, claim.arm)
    of_models = {"readings-agree"}
    assert {claim.id for claim in claims} == {one.id for one in IclFlippedLabels.statements()} - of_models
    roles = {name: arm.role for name, arm in trial().arms.items()}
    assert roles == {SMALL: "arm", LARGE: "arm"} | dict.fromkeys(HAND_SET, "reference")


def test_every_statement_fails_somewhere_or_has_a_planted_fault():
    failing = {claim.id for claim in trial().healthy.values() if claim.verdict == "fails"}
    assert failing | {fault.claim for fault in FAULTS.values()} == {s.id for s in IclFlippedLabels.statements()}


def test_chance_enters_where_it_counts_what_the_ignorer_happens_to_know():
    laws = {key: claim.law for key, claim in trial().healthy.items() if key[1] in HAND_SET}
    assert {key for key, law in laws.items() if law != "exact"} == {
        ("larger-is-better-without-flips", "follows"),
        ("large-falls-below-chance", "ignores"),
        ("frequency-knows-nothing", "frequency"),
        ("frequency-knows-nothing", "follows"),
        ("ignorer-knows-three-quarters", "ignores"),
    }
    known = xr.DataArray([0.5, 0.95, 0.6, 0.98, 0.98], dims="replica")  # by a larger variance than that of the draws
    runs = dict(trial().runs)
    runs["ignores"] = runs["ignores"].assign(accuracy=known.expand_dims(flip=5, axis=1))
    claims = by_name(study().claims(runs))
    assert claims["larger-is-better-without-flips", "follows"].verdict == "undecided"
    assert claims["large-falls-below-chance", "ignores"].interval[0] < 0.75


def test_the_followers_curves_are_a_step_and_a_line():
    follows = trial().run("follows")
    np.testing.assert_array_equal(follows["accuracy"], [[1, 1, 0.5, 0, 0]] * REPLICAS)
    np.testing.assert_allclose(follows["likely"], [[k / 5 for k in (4.5, 3.5, 2.5, 1.5, 0.5)]] * REPLICAS)
    np.testing.assert_array_equal(follows["override"], follows["accuracy"][:, ::-1])
    np.testing.assert_allclose(follows["slope"], -1.2)
    np.testing.assert_array_equal(follows["late_change"], -0.5)
    np.testing.assert_array_equal(follows["crossing"], 0.5)
    ignores = trial().run("ignores")
    assert (np.ptp(ignores["accuracy"].values, 1) == 0).all()
    assert (ignores["override"] == 0).all()
    assert ignores["crossing"].isnull().all()
    assert 0.55 < float(ignores["accuracy"].mean()) < 0.95  # three quarters, by five standard deviations of 120 coins


def test_tasks_are_those_that_there_are():
    assert set(get_args(TaskName)) == set(TASKS)


def test_models_see_the_same_prompts_and_shares_differ_in_labels_only(monkeypatch):
    seen: dict[type, list] = {}

    def keep(self, prompts):
        seen.setdefault(type(self), []).append(list(prompts))
        return torch.zeros(len(prompts), 2)

    for kind in (ModelReader, Frequency):
        monkeypatch.setattr(kind, "scores", keep)
    one = study(items=3)
    for name in (SMALL, "frequency"):
        experiment = one.arm(name).recipe.build(Streams(5, [2]))
        for step in range(3):
            experiment.advance(step)
    assert seen[ModelReader] == seen[Frequency]
    truth = {
        TASKS["sst2"].shown(t): label for t, label in load_examples("sst2", "made-up", Streams(5, [2])).truth.items()
    }
    for prompts in seen[ModelReader]:
        read = [parse(prompt) for prompt in prompts]
        assert len({one.query for one in read}) == 1
        assert len({tuple(text for text, _ in one.exemplars) for one in read}) == 1
        wrong = [sum(word != TASKS["sst2"].words[truth[text]] for text, word in one.exemplars) for one in read]
        assert wrong == [0, 1, 2, 3, 4]
    first, second = seen[ModelReader][:2]
    assert parse(first[0]).exemplars != parse(second[0]).exemplars


def test_a_model_that_follows_is_told_from_one_that_does_not(monkeypatch):
    """The larger model answers as a follower does: all orderings hold. The smaller one: none does."""
    large = with_a_follower(monkeypatch, LARGE)
    assert large["larger-falls-faster", LARGE].verdict == "holds"
    assert large["larger-is-better-without-flips", LARGE].stands  # eight items decide little
    assert large["large-falls-below-chance", LARGE].verdict == "holds"
    assert large["small-is-flat", SMALL].stands
    assert not large["larger-falls-faster", LARGE].expected  # so small a model is not expected to
    small = with_a_follower(monkeypatch, SMALL)
    assert small["larger-falls-faster", LARGE].verdict == "fails"
    assert not small["larger-is-better-without-flips", LARGE].stands
    assert small["small-is-flat", SMALL].verdict == "fails"
    assert small["small-is-flat", SMALL].expected


def with_a_follower(monkeypatch, which: str) -> Claims:
    """The claims where the model called ``which`` is answered for by a follower."""
    plain = FlippedLabels.reader

    def reader(self, examples, draws, device):
        truth = {examples.task.shown(texts): label for texts, label in examples.truth.items()}
        return Follower(examples.task.words, truth, plain(self, examples, draws, device).parameters)

    assert trial().runs  # all others are what they are without
    with monkeypatch.context() as patch:
        patch.setattr(FlippedLabels, "reader", reader)
        return trial().again(which)


def test_a_model_that_does_better_on_inverted_labels_is_not_flat():
    one = study(models=(study().models[0],))
    runs = {name: run for name, run in trial().runs.items() if name != LARGE}
    follows = runs["follows"]
    backwards = follows.accuracy.isel(flip=slice(None, None, -1))
    rising = follows.assign(parameters=runs[SMALL].parameters, slope=-follows.slope, accuracy=backwards)
    claims = one.claims(runs | {SMALL: rising})
    assert by_name(claims)["small-is-flat", SMALL].verdict == "fails"
    assert one.story(runs | {SMALL: rising}, claims).found == (
        f"Where all examples are labelled wrong, {SMALL} does better: 100 % right, 0 % before (guessing: 50 %)."
    )


def test_models_are_ordered_by_their_size_whatever_the_order_given():
    turned = study(models=tuple(reversed(study().models)))
    assert set(by_name(turned.claims(trial().runs))) == set(trial().healthy)


def test_what_is_expected_goes_by_size():
    def of(small: float, large: float) -> Claims:
        sized = {SMALL: small, LARGE: large}
        runs = {
            name: run.assign(parameters=run["parameters"] * 0 + sized.get(name, 0.0))
            for name, run in trial().runs.items()
        }
        return by_name(study().claims(runs))

    llama = of(7e9, 7e10)
    assert all(claim.expected for claim in llama.values() if claim.arm in (SMALL, LARGE))
    note = llama["larger-falls-faster", LARGE].note
    assert "Expected from 1,000,000,000 parameters on; this model has 70,000,000,000." in note
    assert not of(1e6, 1e7)["larger-falls-faster", LARGE].expected


def test_one_model_is_not_compared():
    one = study(models=(study().models[0],))
    measured = {name: run for name, run in trial().runs.items() if name != LARGE}
    assert [claim.id for claim in one.claims(measured) if claim.arm == SMALL] == ["small-is-flat", "readings-agree"]


def test_a_study_of_one_model_is_drawn_and_summed_up():
    one = study(models=(study().models[0],))
    runs = {name: run for name, run in trial().runs.items() if name != LARGE}
    claims = one.claims(runs)
    assert len(claims) == 15
    drawn = list(one.figures(runs))
    assert [figure.id for figure in drawn] == ["accuracy", "following"]
    assert [curve.label for curve in drawn[0].panels[0].curves] == [SMALL, "guessing"]
    assert list(drawn[0].panels[1].curves[0].y) == [1, 1, 0.5, 0, 0]
    assert [curve.label for curve in drawn[1].panels[0].curves] == [SMALL, "follows exemplars", "ignores exemplars"]
    story = one.story(runs, claims)
    assert story.headlines["follower-is-exact@follows"] == "100 % right with no label inverted, 0 % with all."
    assert f"{SMALL} may give in" in story.found  # its slope is 0, of eight items
    swayed = runs | {SMALL: runs["follows"].assign(parameters=runs[SMALL].parameters)}
    assert one.story(swayed, one.claims(swayed)).found == (
        f"Where all examples are labelled wrong, {SMALL} gives in: 0 % right, 100 % before (guessing: 50 %)."
    )
    unknown = runs | {SMALL: runs[SMALL].assign(accuracy=runs[SMALL].accuracy * np.nan)}
    assert "nan" not in one.story(unknown, []).found


def test_the_story_of_two_models_turns_with_the_one_that_falls():
    runs = dict(trial().runs)
    for who, said in ((LARGE, "hurt"), (SMALL, "do not hurt")):
        falls = runs | {who: runs["follows"].assign(parameters=runs[who].parameters)}
        assert (
            study()
            .story(falls, study().claims(falls))
            .found.startswith(f"Wrong examples {said} {LARGE} more than {SMALL}: from ")
        )


def test_the_smallest_study_can_be_checked():
    assert check(study()).problems == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"models": ()}, "models"),
        ({"models": ("a/x", "b/x")}, "different last parts"),
        ({"models": ("a/follows",)}, "none of"),
        ({"models": (".",)}, "different last parts"),
        ({"shots": 0}, "shots = 0"),
        ({"flips": (0.0, 0.5)}, "ascending shares from 0 to 1"),
        ({"flips": (0.0, 0.6, 0.5, 1.0)}, "ascending shares from 0 to 1"),
        ({"items": 0}, "items = 0"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        study(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"items": 1001}, "at most 1000, what the data have"),
        ({"shots": 1001}, "at most 1000, what the data have"),
        ({"task": "rte"}, "has no task 'rte'"),
        ({"chat": True}, "no chat template"),
        ({"models": ("./nowhere",)}, "is no folder"),
    ],
)
def test_what_is_not_there_is_refused_when_it_is_built(options, message):
    with pytest.raises(ConfigError, match=message):
        next(iter(study(**options).arms())).recipe.build(Streams(0, [0]))


def test_a_prompt_beyond_the_context_is_refused_when_it_is_asked():
    experiment = study(shots=200).arm(SMALL).recipe.build(Streams(0, [0]))
    with pytest.raises(ConfigError, match="Take fewer --shots"):
        experiment.advance(0)


# --- planted faults -------------------------------------------------------------------------------------------------

ask, flipped, rightness = flipped_labels.ask, flipped_labels.flipped, flipped_labels.rightness
likelihoods = readers.log_likelihoods


def none(exemplars, order, rate):
    return list(exemplars)


def one_too_few(exemplars, order, rate):
    return flipped(exemplars, order, max(0.0, rate - 1 / len(exemplars)))


def half_at_most(exemplars, order, rate):
    return flipped(exemplars, order, min(rate, 0.5))


def exchanged(task, exemplars, query):
    return ask(replace(task, words=task.words[::-1]), exemplars, query)


def also_the_truth(margins, truth):
    return rightness(margins, 1 - truth)


scores = Ignorer.scores


def looks_at_exemplars(self, prompts):
    return torch.tensor([[0.0, 1.0 if parse(prompt).exemplars[0][1] == "positive" else -1.0] for prompt in prompts])


def early(model, tokenizer, prompts, *asked, **options):
    """Without the last word before the label."""
    return likelihoods(model, tokenizer, [prompt.rpartition(" ")[0] for prompt in prompts], *asked, **options)


MODULE = flipped_labels
FAULTS = {
    "no label is inverted": Fault(MODULE, "flipped", none, "follower-is-exact", "follows"),
    "no label is inverted, below chance": Fault(MODULE, "flipped", none, "large-falls-below-chance", "follows"),
    "no label is inverted, faster": Fault(MODULE, "flipped", none, "larger-falls-faster", "follows"),
    "one label too few is inverted": Fault(MODULE, "flipped", one_too_few, "follower-trusts-in-proportion", "follows"),
    "half of the labels at most": Fault(MODULE, "flipped", half_at_most, "frequency-mirrors", "frequency"),
    "the item's label is inverted too": Fault(
        MODULE, "rightness", also_the_truth, "larger-is-better-without-flips", "follows"
    ),
    "words of labels are exchanged": Fault(MODULE, "ask", exchanged, "follower-is-exact", "follows"),
    "the ignorer is always wrong": Fault(
        Ignorer, "scores", lambda self, prompts: -scores(self, prompts), "ignorer-knows-three-quarters", "ignores"
    ),
    "prompts end early": Fault(readers, "log_likelihoods", early, "readings-agree", SMALL),
    "the ignorer looks at exemplars": Fault(Ignorer, "scores", looks_at_exemplars, "ignorer-is-exact", "ignores"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_takes_holds_from_an_expected_claim(name, monkeypatch):
    trial().require_noticed(FAULTS[name], monkeypatch)
