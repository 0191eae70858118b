"""The study of regression in a prompt, small: what holds, what must not, what it refuses, and planted faults."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_icl_regression import ARMS, STUDY, TRIAL, shorter

from featscope.data import RegressionPrompts, RegressionPromptSource
from featscope.models import LinearSelfAttention, LowRankRegressors
from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.studies.icl_regression import IclRegression, probes
from featscope.studies.icl_regression.online import EveryRank, SquaredError
from featscope.studies.icl_regression.population import PopulationLoss
from featscope.studies.icl_regression.sampling import EvaluatedModels, PretrainedModels
from featscope.testing import Fault, Trial
from featscope.testing.trial import measure
from featscope.theory import icl_regression as theory

WHOLE = Trial(IclRegression(prompts=200, steps=20))
"""Trained to the end."""


def test_what_is_expected_does_not_fail_and_what_is_not_does_not_hold():
    for key, claim in TRIAL.healthy.items():
        assert claim.verdict != ("fails" if claim.expected else "holds"), key


def test_no_control_has_an_expected_claim():
    controls = {arm.name for arm in STUDY.arms() if arm.role == "control"}
    assert controls == {"last-directions", "unrelated-labels"}
    assert not [key for key, claim in TRIAL.healthy.items() if claim.expected and key[1] in controls]


def test_a_control_trains_as_long_as_its_arm():
    online, unrelated = ARMS["online"].recipe, ARMS["unrelated-labels"].recipe
    assert replace(online, data=replace(online.data, related=False)) == unrelated


def test_every_statement_is_put_to_the_test():
    assert {id for id, _ in TRIAL.healthy} == {statement.id for statement in IclRegression.statements()}


def test_figures_and_story_have_the_numbers():
    drawn = list(STUDY.figures(TRIAL.runs))
    assert [figure.id for figure in drawn] == ["errors", "parts", "ways"]
    for figure in drawn:
        for panel in figure.panels:
            assert all(np.isfinite(curve.y).all() for curve in panel.curves), panel.title
    story = STUDY.story(TRIAL.runs, list(TRIAL.healthy.values()))
    assert story.found.startswith("The best rank ")
    assert story.headlines.keys() <= {f"{id}@{arm}" for id, arm in TRIAL.healthy}
    free = TRIAL.healthy["free-blocks", "rank-of-a-block"]
    found = [replace(free, interval=ends) for ends in ((0.0, 0.001), (0.9, 1.0), (0.0, 1.0))]
    assert [claim.verdict for claim in found] == ["holds", "fails", "undecided"]
    said = [STUDY.story(TRIAL.runs, [claim]).headlines["free-blocks@rank-of-a-block"] for claim in found]
    assert [word for one in said for word in ("stay", "used") if word in one] == ["stay", "used"]


def test_the_story_turns_with_what_was_found():
    fell = TRIAL.healthy["best-rank-falls-with-noise", "evaluation"]
    found = [replace(fell, interval=ends) for ends in ((0.6, 1.0), (0.0, 0.4), (0.0, 1.0))]
    assert [claim.verdict for claim in found] == ["holds", "fails", "undecided"]
    told = [STUDY.story(TRIAL.runs, [claim]) for claim in found]
    words = ("falls from", "does not fall from", "may fall from")
    assert [f"The best rank {word}" in story.found for word, story in zip(words, told, strict=True)] == [True] * 3
    assert not [story.lede for story in told if "small models best" in story.lede]
    assert "with clean labels to" in told[0].found
    gap = replace(TRIAL.healthy["gap-needs-label-noise", "covered"], interval=(0.0, 0.05))
    noisy = replace(STUDY, noises=(1.0, 16.0)).story(TRIAL.runs, [found[0], gap])
    assert "with the least noise to" in noisy.found
    assert noisy.headlines["gap-needs-label-noise@covered"] == "The least noise leaves next to no gap."


def test_the_bound_on_a_gap_names_the_noise_that_it_is_compared_with():
    (test,) = (test for test in STUDY.tests if test.statement.id == "gap-needs-label-noise")
    assert "at the least noise but one" in test.because


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dimension": 2}, r"dimension = 2 .* >= 3"),
        ({"covered": 8}, r"covered = 8 .* 1 to dimension - 1 = 7"),
        ({"rank": 0}, r"rank = 0 .* 1 to"),
        ({"steps": 4}, r"steps = 4 .* >= 5"),
        ({"training_steps": 0}, r"training_steps = 0 .* >= 1"),
        ({"noises": (1.0, 0.0)}, r"noises = \(1.0, 0.0\) .* smallest first"),
        ({"examples": 0}, r"examples = 0 .* >= 1"),
        ({"prompts": 0}, r"prompts = 0 .* >= 1"),
        ({"samples": 0}, r"samples = 0 .* >= 1"),
    ],
)
def test_wrong_options_are_named_before_anything_runs(options, message):
    with pytest.raises(ConfigError, match=message):
        IclRegression(**options).arms()


# --- planted faults -------------------------------------------------------------------------------------------------

inputs, sample, take = RegressionPromptSource.inputs, RegressionPromptSource.sample, EvaluatedModels.take
forward, loss = PopulationLoss.forward, SquaredError.__call__
coefficients, add, excess = theory.coefficients, EvaluatedModels.add, theory.excess
LOSS = theory.pretraining_loss
build_models = PretrainedModels.__init__


def without_the_root(self, draws, *shape):
    x = inputs(self, draws, *shape)
    bent = (self.directions * self.spectrum**0.1) @ self.directions.mT
    return (x.flatten(1, -2) @ bent).view(x.shape)


def a_tenth_more(self, products):
    return take(self, 1.1 * products)


def noise_twice(self, found):
    add(self, {**found, "label_power": 2 * found["label_power"]})


def signal_of_twice_the_power(self, found):
    add(self, {**found, "signal_power": 1.1 * found["signal_power"]})


def moments_with_noise_alone(self, found):
    add(self, {**found, "second": 1.1 * found["second"]})


def losses_without_the_half(self, found):
    add(self, {name: 2 * values for name, values in found.items()})


@torch.no_grad()
def short_of_the_end(self, draws):
    forward(self, draws)
    self.model.key.mul_(0.999)


def of_the_wrong_sign(self, learner, source, draws):
    prompts, targets = source.sample(draws, self.prompts)
    return (learner(prompts) + targets[:, None]).square().mean(-1).sum(1)


def without_the_trace(spectrum, samples):
    return coefficients(spectrum, 1e9)


def ranks_one_further(spectrum, samples):
    return np.roll(coefficients(spectrum, samples), -1, 0)


def few_of_their_own(self, draws, prompts, examples):
    own = inputs(self, draws, prompts, min(examples, 4))
    return own.repeat(1, 1, -(-examples // 4), 1)[:, :, :examples]


def of_all_directions(self):
    return [float(i**-self.decay) for i in range(1, self.dimension + 1)]


def without_label_noise(self, found):
    add(self, {**found, "loss": found["loss"][..., :1].expand_as(found["loss"])})


def largest_first(self, products):
    return take(self, products.flip(1))


def of_one_rank(self, products):
    return take(self, products[:, STUDY.covered].unsqueeze(1).expand_as(products))


def means_twice(self, found):
    add(self, {**found, "first": 2 * found["first"]})


def without_u(self):
    return self.key_query[:, :-1]


def without_the_label_row(self):
    return self.key.mT @ self.query


def a_third_too_large(spectrum, samples):
    return 1.3 * coefficients(spectrum, samples)


def over_the_query(self, prompts):
    seen = (prompts * (prompts @ self.value[:, None, :, None])).sum(-2) / (prompts.shape[-2] - 1)
    return (seen @ self.key_query / prompts[..., -1, :-1]).sum(-1)


def over_the_block(self):
    return self.value[:, -1, None, None] / self.key_query[:, :-1]


def without_other_blocks(self, source, options, draws):
    build_models(self, source, replace(options, blocks="zero"), draws)


FAULTS = {
    "answers over the query": Fault(
        LinearSelfAttention, "forward", over_the_query, "answers-are-the-layers", "free-blocks"
    ),
    "one example less": Fault(
        theory,
        "pretraining_loss",
        lambda products, covariance, samples: LOSS(products, covariance, samples - 1),
        "gain-of-pretraining",
        "pretraining-loss",
    ),
    "a product over U": Fault(
        LinearSelfAttention, "product", property(over_the_block), "answers-are-the-layers", "rank-of-a-block"
    ),
    "prompts to judge by that are the first again": Fault(
        probes, "_draws", lambda streams, step: streams.at("judge", 0), "judged-by-fresh-prompts", "online"
    ),
    "other blocks left at zero": Fault(
        PretrainedModels, "__init__", without_other_blocks, "other-blocks-change-the-loss", "other-blocks"
    ),
    "inputs of another spectrum": Fault(
        RegressionPromptSource, "inputs", without_the_root, "evaluation-loss", "evaluation"
    ),
    "models a tenth too large": Fault(EvaluatedModels, "take", a_tenth_more, "input-noise", "evaluation"),
    "models a tenth too large, bias": Fault(EvaluatedModels, "take", a_tenth_more, "shrinkage-bias", "evaluation"),
    "models a tenth too large, directions": Fault(EvaluatedModels, "take", a_tenth_more, "marginal-value", "covered"),
    "models a tenth too large, gap": Fault(EvaluatedModels, "take", a_tenth_more, "gap-of-ranks", "covered"),
    "noise twice": Fault(EvaluatedModels, "add", noise_twice, "label-noise", "evaluation"),
    "signal of more power": Fault(EvaluatedModels, "add", signal_of_twice_the_power, "input-noise", "covered"),
    "moments a tenth too large": Fault(EvaluatedModels, "add", moments_with_noise_alone, "second-moment", "evaluation"),
    "losses without the half": Fault(
        PretrainedModels, "add", losses_without_the_half, "loss-of-pretraining", "pretraining-loss"
    ),
    "excess without the half": Fault(
        PretrainedModels, "add", losses_without_the_half, "excess-is-half-the-sum", "pretraining-loss"
    ),
    "factors that shrink": Fault(PopulationLoss, "forward", short_of_the_end, "best-of-each-rank", "least-squares"),
    "factors that shrink, loss": Fault(
        PopulationLoss, "forward", short_of_the_end, "least-loss-of-each-rank", "equal-eigenvalues"
    ),
    "a loss of the wrong sign": Fault(
        SquaredError, "__call__", of_the_wrong_sign, "trained-models-err-as-predicted", "online", steps=50
    ),
    "coefficients of endless pretraining": Fault(
        theory, "coefficients", without_the_trace, "best-of-each-rank", "least-squares"
    ),
    "models of the next rank": Fault(theory, "coefficients", ranks_one_further, "residual-bias", "evaluation"),
    "long pretraining, inputs of another spectrum": Fault(
        RegressionPromptSource, "inputs", without_the_root, "approximation", "long-pretraining"
    ),
    "examples that are copies": Fault(
        RegressionPromptSource, "inputs", few_of_their_own, "gap-falls-with-examples", "lengths"
    ),
    "inputs in all directions": Fault(
        RegressionPrompts,
        "spectrum",
        property(of_all_directions),
        "no-gap-without-further-directions",
        "few-directions",
    ),
    "no label noise": Fault(EvaluatedModels, "add", without_label_noise, "best-rank-falls-with-noise", "evaluation"),
    "no label noise, best rank": Fault(
        EvaluatedModels, "add", without_label_noise, "best-rank-is-predicted", "evaluation"
    ),
    "no label noise, gap": Fault(EvaluatedModels, "add", without_label_noise, "gap-is-affine-in-noise", "covered"),
    "ranks the other way round": Fault(EvaluatedModels, "take", largest_first, "larger-models-are-worse", "covered"),
    "models of one rank": Fault(EvaluatedModels, "take", of_one_rank, "gap-without-label-noise", "covered"),
    "means twice": Fault(EvaluatedModels, "add", means_twice, "covariance-of-examples", "evaluation"),
    "an excess without its half": Fault(
        theory, "excess", lambda *of: 2 * excess(*of), "excess-is-a-square", "least-squares"
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_takes_holds_from_an_expected_claim(name, monkeypatch):
    TRIAL.require_noticed(FAULTS[name], monkeypatch)


LONG_FAULTS = {
    "a loss of the wrong sign, models": Fault(
        SquaredError, "__call__", of_the_wrong_sign, "trained-models-are-the-best", "online"
    ),
    "a loss of the wrong sign, least losses": Fault(
        SquaredError, "__call__", of_the_wrong_sign, "trained-losses-are-least", "online"
    ),
    "a product without u": Fault(LinearSelfAttention, "product", property(without_u), "free-blocks", "free-blocks"),
    "a best model that is a third too large": Fault(
        theory, "coefficients", a_third_too_large, "nothing-better-with-all-blocks", "free-blocks"
    ),
    "the block's label row left out": Fault(
        LinearSelfAttention,
        "key_query",
        property(without_the_label_row),
        "other-blocks-add-a-rank",
        "rank-of-a-block",
    ),
    "the block's label row left out, loss": Fault(
        LinearSelfAttention,
        "key_query",
        property(without_the_label_row),
        "better-with-all-blocks",
        "rank-of-a-block",
    ),
}
"""Of what only training to its end decides."""


@pytest.mark.long
@pytest.mark.parametrize("name", LONG_FAULTS)
def test_a_fault_in_training_takes_holds_from_an_expected_claim(name, monkeypatch):
    WHOLE.require_noticed(LONG_FAULTS[name], monkeypatch)


def test_noise_of_the_label_power_is_of_variance_one():
    run = TRIAL.run("evaluation")
    assert run.label_noise.dims == ("replica", "rank")
    assert STUDY.prompts <= probes.JUDGED


def test_two_draws_at_least_judge_trained_models(monkeypatch):
    monkeypatch.setattr(probes, "JUDGED", STUDY.prompts)
    assert measure(STUDY, shorter("online", 1), 1).judged_afresh.item() == 1


def test_models_half_as_large_again_are_off_by_half():
    source = RegressionPrompts(4, 10).build(Streams(0, [0, 1]).at("data"))
    off = probes.distances(1.5 * probes.optima(source), source)["off"].values
    torch.testing.assert_close(off[:, 1:], torch.full_like(off[:, 1:], 0.5))
    assert (off[:, 0] == 0).all()


def test_models_of_every_rank_learn_as_if_each_were_alone():
    streams = Streams(0, [0, 1])
    source = RegressionPrompts(4, 10).build(streams.at("data"))
    models, loss = EveryRank().build(source, streams.at("start")), SquaredError(20)
    single = [LowRankRegressors(models.key[:, [r]], models.query[:, [r]]) for r in range(5)]
    alone = [loss(model, source, streams.at("batch")) for model in single]
    torch.testing.assert_close(loss(models, source, streams.at("batch")), torch.stack(alone).sum(0))
