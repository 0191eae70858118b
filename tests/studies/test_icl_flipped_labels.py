"""The study of inverted exemplar labels, small: curves that are known, what holds and what must not, planted faults.

The language models are tiny and random; where one must follow, it is given a follower's answers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import numpy as np
import pytest
import torch
import xarray as xr
from tiny_model import saved

from featscope.claims import Claim
from featscope.language import in_context
from featscope.language.in_context import TASKS, Follower, Frequency, Ignorer, ModelReader, load_examples, parse
from featscope.options import ConfigError
from featscope.runs import Settings, run
from featscope.runs.folder import RunFolder
from featscope.runs.shard import Shard
from featscope.streams import Streams
from featscope.studies.base import Arm
from featscope.studies.icl_flipped_labels import IclFlippedLabels, judge, measures
from featscope.studies.icl_flipped_labels.study import TaskName
from featscope.training import Evaluation

REPLICAS = 5
SMALL, LARGE = "small", "large"


def study(**options: Any) -> IclFlippedLabels:
    """Two random models of different size."""
    models = (saved(SMALL, 0, 16), saved(LARGE, 1, 32))
    return IclFlippedLabels(**{"models": models, "items": 48, "shots": 4} | options)


def train(arm: Arm) -> xr.Dataset:
    """What is measured on ``arm``, seed 0."""
    parts = []
    with TemporaryDirectory() as place:
        folder = RunFolder.create(Path(place) / "run")
        for replica in range(REPLICAS):
            shard = Shard(arm, range(replica, replica + 1), 0, "cpu")
            parts += shard.run(folder, lambda: False, lambda steps, status: None).data
    return xr.concat(parts, "replica")


def arms() -> Mapping[str, Arm]:
    """By name; models, which are slow, get fewer items."""
    few = [arm for arm in study(items=16).arms() if arm.name not in judge.HAND_SET]
    return {arm.name: arm for arm in [*few, *(arm for arm in study().arms() if arm.name in judge.HAND_SET)]}


@cache
def runs() -> Mapping[str, xr.Dataset]:
    """All arms."""
    return {name: train(arm) for name, arm in arms().items()}


def judged(measured: Mapping[str, xr.Dataset], of: IclFlippedLabels | None = None) -> dict[tuple[str, str], Claim]:
    """(id, arm) -> claim."""
    return {(claim.id, claim.arm): claim for claim in (of or study()).claims(measured)}


@cache
def healthy() -> Mapping[tuple[str, str], Claim]:
    """The claims of `runs`."""
    return judged(runs())


# --- what is known --------------------------------------------------------------------------------------------------


def test_hand_set_learners_do_what_is_expected_of_them():
    claims = [claim for claim in healthy().values() if claim.arm in judge.HAND_SET]
    for claim in claims:
        assert claim.verdict == ("holds" if claim.expected else "fails"), (claim.id, claim.arm)
    assert {claim.id for claim in claims} == {statement.id for statement in IclFlippedLabels.statements}
    assert {arm.name for arm in arms().values() if arm.control} == set(judge.HAND_SET)


def test_every_statement_fails_somewhere_or_has_a_planted_fault():
    failing = {claim.id for claim in healthy().values() if claim.verdict == "fails"}
    assert failing | {fault.claim for fault in FAULTS.values()} == {s.id for s in IclFlippedLabels.statements}


def test_the_followers_curves_are_a_step_and_a_line():
    follows = runs()["follows"]
    np.testing.assert_array_equal(follows["accuracy"], [[1, 1, 0.5, 0, 0]] * REPLICAS)
    np.testing.assert_allclose(follows["likely"], [[k / 5 for k in (4.5, 3.5, 2.5, 1.5, 0.5)]] * REPLICAS)
    np.testing.assert_array_equal(follows["override"], follows["accuracy"][:, ::-1])
    np.testing.assert_allclose(follows["slope"], -1.2)
    np.testing.assert_array_equal(follows["late_change"], -0.5)
    np.testing.assert_array_equal(follows["crossing"], 0.5)
    ignores = runs()["ignores"]
    assert (np.ptp(ignores["accuracy"].values, 1) == 0).all()
    assert (ignores["override"] == 0).all()
    assert ignores["crossing"].isnull().all()
    assert 0.6 < float(ignores["accuracy"].mean()) < 0.9  # three quarters, by five standard deviations of 240 coins


def test_measures_by_hand():
    """Three items of one replica, three shares; the second item is never right at the start, the third is a tie."""
    margins = torch.tensor([[[1.0, -2.0, -1.0], [1.0, -1.0, 1.0], [0.0, 3.0, 0.0]]])
    truth = torch.tensor([[1.0, 0.0, 1.0]])
    right = measures.rightness(margins, truth)
    assert right.tolist() == [[[1, 0, 0], [0, 1, 0], [0.5, 1, 0.5]]]
    tasks = [
        lambda i=i: measures.found(margins[0, i], int(truth[0, i]), 7)  # type: ignore[misc]
        for i in range(3)
    ]
    rates = (0.0, 0.5, 1.0)
    evaluation = Evaluation(tasks, measures.columns(rates), Streams(0, [0]))
    for step in range(3):
        evaluation.advance(step)
    found = {name: one.values for name, one in measures.outcomes(evaluation, rates).items()}
    assert found["accuracy"].tolist() == [pytest.approx([0.5, 2 / 3, 1 / 6])]
    assert found["override"].tolist() == [pytest.approx([0.25 / 1.5, 1 / 1.5, 1.25 / 1.5])]
    assert found["says_one"].tolist() == [pytest.approx([2.5 / 3, 1 / 3, 1.5 / 3])]
    assert found["parameters"].tolist() == [7]
    assert float(found["slope"]) == pytest.approx((1 / 6 - 1 / 2) / 1)
    assert float(found["late_change"]) == pytest.approx(1 / 6 - 2 / 3)
    assert float(found["crossing"]) == pytest.approx(0.5 + 0.5 * (1 / 6) / (1 / 2))
    first = 1 / (1 + np.exp([-1.0, 1.0, 0.0]))
    assert float(found["likely"][0, 0]) == pytest.approx(first.mean())
    assert float(evaluation.loss(Streams(0, [0]).at("x"))) == pytest.approx(1 - (0.5 + 2 / 3 + 1 / 6) / 3)


def test_tasks_are_those_that_there_are():
    assert set(get_args(TaskName)) == set(TASKS)


def test_slopes_are_those_of_least_squares():
    accuracy, rates = (
        torch.rand(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)),
        [0, 0.1, 0.5, 0.6, 1],
    )
    expected = [np.polyfit(rates, one, 1)[0] for one in accuracy.numpy()]
    np.testing.assert_allclose(measures.slope(accuracy, rates), expected)


def test_models_see_the_same_prompts_and_shares_differ_in_labels_only(monkeypatch):
    seen: dict[type, list] = {}

    def keep(self, prompts):
        seen.setdefault(type(self), []).append(list(prompts))
        return torch.zeros(len(prompts), 2)

    for kind in (ModelReader, Frequency):
        monkeypatch.setattr(kind, "scores", keep)
    one = study(items=3)
    for arm in one.arms():
        if arm.name in (SMALL, "frequency"):
            experiment = arm.config.build(Streams(5, [2]))
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
    assert {id_: large[id_, LARGE].verdict for id_ in ("larger-falls-faster", "larger-is-better-without-flips")} == {
        "larger-falls-faster": "holds",
        "larger-is-better-without-flips": "holds",
    }
    assert large["large-falls-below-chance", LARGE].verdict == "holds"
    assert large["small-is-flat", SMALL].verdict == "holds"
    assert not large["larger-falls-faster", LARGE].expected  # so small a model is not expected to
    small = with_a_follower(monkeypatch, SMALL)
    assert small["larger-falls-faster", LARGE].verdict == "fails"
    assert small["larger-is-better-without-flips", LARGE].verdict == "fails"
    assert small["small-is-flat", SMALL].verdict == "fails"
    assert small["small-is-flat", SMALL].expected


def with_a_follower(monkeypatch, which: str) -> dict[tuple[str, str], Claim]:
    """The claims where the model called ``which`` is answered for by a follower."""
    plain = IclFlippedLabels._reader
    with monkeypatch.context() as patch:

        def reader(self, examples, streams):
            if not self.learner.endswith(which):
                return plain(self, examples, streams)
            truth = {examples.task.shown(texts): label for texts, label in examples.truth.items()}
            size = plain(self, examples, streams).parameters
            return Follower(examples.task.words, truth, size)

        patch.setattr(IclFlippedLabels, "_reader", reader)
        return judged({**runs(), which: train(arms()[which])})


def test_models_are_ordered_by_their_size_whatever_the_order_given():
    turned = study(models=tuple(reversed(study().models)))
    assert set(judged(runs(), turned)) == set(healthy())


def test_what_is_expected_goes_by_size():
    def of(small: float, large: float) -> dict[tuple[str, str], Claim]:
        sized = {SMALL: small, LARGE: large}
        return judged(
            {name: run.assign(parameters=run["parameters"] * 0 + sized.get(name, 0.0)) for name, run in runs().items()}
        )

    llama = of(7e9, 7e10)
    assert all(claim.expected for claim in llama.values() if claim.arm in (SMALL, LARGE))
    assert not of(1e6, 1e7)["larger-falls-faster", LARGE].expected


def test_one_model_is_not_compared():
    one = study(models=(study().models[0],))
    measured = {name: run for name, run in runs().items() if name != LARGE}
    assert [claim.id for claim in one.claims(measured) if claim.arm == SMALL] == ["small-is-flat"]


def test_it_runs_and_draws(tmp_path):
    one = study(models=(study().models[0],), items=4)
    outcome = run(one, Settings(replicas=2), tmp_path / "run")
    assert len(outcome.claims) == 11
    drawn = list(one.figures(outcome.runs, outcome.claims))
    assert [figure.id for figure in drawn] == ["accuracy", "following"]
    assert [curve.label for curve in drawn[0].panels[0].curves] == [SMALL, "chance"]
    assert list(drawn[0].panels[1].curves[0].y) == [1, 1, 0.5, 0, 0]
    assert "ends at 0%" in one.headline(outcome.runs, outcome.claims)
    assert f"{SMALL} (" in one.headline(outcome.runs, outcome.claims)


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
        next(iter(study(**options).arms())).config.build(Streams(0, [0]))


def test_a_prompt_beyond_the_context_is_refused_when_it_is_asked():
    experiment = next(iter(study(shots=200).arms())).config.build(Streams(0, [0]))
    with pytest.raises(ConfigError, match="Take fewer --shots"):
        experiment.advance(0)


# --- planted faults -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """``setattr(where, name, line)`` plants it; running ``arm`` again shows it to ``claim``."""

    where: Any
    name: str
    line: Any
    claim: str
    arm: str


ask, flipped, found = in_context.ask, in_context.flipped, measures.found


def one_too_few(exemplars, order, rate):
    return flipped(exemplars, order, max(0.0, rate - 1 / len(exemplars)))


def also_the_truth(margins, truth, parameters):
    wrong = found(margins, truth, parameters)
    wrong[1] = 1 - truth
    return wrong


def looks_at_exemplars(self, prompts):
    return torch.tensor([[0.0, 1.0 if parse(prompt).exemplars[0][1] == "positive" else -1.0] for prompt in prompts])


FAULTS = {
    "no label is inverted": Fault(
        in_context, "flipped", lambda exemplars, order, rate: list(exemplars), "follower-is-exact", "follows"
    ),
    "no label is inverted, below chance": Fault(
        in_context, "flipped", lambda exemplars, order, rate: list(exemplars), "large-falls-below-chance", "follows"
    ),
    "no label is inverted, faster": Fault(
        in_context, "flipped", lambda exemplars, order, rate: list(exemplars), "larger-falls-faster", "follows"
    ),
    "one label too few is inverted": Fault(
        in_context, "flipped", one_too_few, "follower-trusts-in-proportion", "follows"
    ),
    "half of the labels at most": Fault(
        in_context,
        "flipped",
        lambda exemplars, order, rate: flipped(exemplars, order, min(rate, 0.5)),
        "frequency-mirrors",
        "frequency",
    ),
    "the item's label is inverted too": Fault(
        measures, "found", also_the_truth, "larger-is-better-without-flips", "follows"
    ),
    "words of labels are exchanged": Fault(
        in_context,
        "ask",
        lambda task, exemplars, query: ask(replace(task, words=task.words[::-1]), exemplars, query),
        "follower-is-exact",
        "follows",
    ),
    "the ignorer looks at exemplars": Fault(Ignorer, "scores", looks_at_exemplars, "ignorer-is-exact", "ignores"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_takes_holds_from_an_expected_claim(name, monkeypatch):
    fault = FAULTS[name]
    claim = healthy()[fault.claim, fault.arm]
    assert claim.expected
    assert claim.verdict == "holds"
    monkeypatch.setattr(fault.where, fault.name, fault.line)
    assert judged({**runs(), fault.arm: train(arms()[fault.arm])})[fault.claim, fault.arm].verdict != "holds"
