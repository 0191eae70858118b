"""The study of universality, small: what holds, what must not, what it refuses, and planted faults."""

from math import sqrt

import numpy as np
import pytest
import torch

from featscope.data import TaskFeatures, TaskFeatureSource
from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.studies.universality import Universality, labelled, pretraining, tables
from featscope.studies.universality.arms import (
    FAR,
    FOUR,
    JOINT,
    KEPT,
    LABELS,
    RANDOM,
    SEARCHED,
    SPECIFIC,
    SPHERE,
    TUNED,
    TURNED,
    TWO,
    UNEVEN,
    UNRELATED,
)
from featscope.testing import Fault, Trial
from featscope.theory import universality as theory

STUDY = Universality().smallest()
TRIAL = Trial(STUDY)
SHORT = {
    "shared-one-private-1-over-t",
    "spurious-are-dropped",
    "without-augmentation-they-count-as-shared",
    "task-specific-all-ones",
    "kinds-do-not-mix",
    "features-of-a-kind-are-equal",
    "uneven-weights",
    "cka-of-trained-representations",
    "pairs-without-relation-leave-nothing",
}
"""Claims that few steps of small batches do not come to."""
WIDE = {
    "noise-costs-what-least-squares-have",
    "mended-variance",
    "many-labels-close-the-gap",
    "complexity-ratio",
    "cka-closed-form",
}
"""Claims that few draws leave undecided."""


@pytest.mark.long
def test_what_is_expected_holds_and_what_is_not_fails():
    for key, claim in TRIAL.healthy.items():
        if key[0] not in SHORT and key != ("finetune-near-wstar", FAR):
            wanted = ("holds" if claim.expected else "fails",) + ("undecided",) * (key[0] in WIDE)
            assert claim.verdict in wanted, key


@pytest.mark.long
def test_every_statement_is_put_to_the_test():
    assert {claim for claim, _ in TRIAL.healthy} == {s.id for s in STUDY.statements()}


@pytest.mark.long
def test_nothing_is_expected_of_controls():
    controls = {arm.name for arm in STUDY.arms() if arm.role == "control"}
    assert controls == {"random-tables-unrelated", "searched-tables-plain", "unrelated-pairs"}
    assert not [key for key, claim in TRIAL.healthy.items() if key[1] in controls and claim.expected]


@pytest.mark.long
def test_figures_and_story_have_the_numbers():
    drawn = {figure.id: figure for figure in STUDY.figures(TRIAL.runs)}
    assert list(drawn) == ["kept", "errors", "matrices", "on-the-way", "complexity", "norms"]
    tuned, _, _ = drawn["kept"].series["four, then tuned on the one"]
    np.testing.assert_allclose(tuned, [1, 0.5625, 0.25, 0], atol=0.01)
    clean, noisy = drawn["errors"].panels
    assert clean.curves[0].y[-1] < 1e-9 < noisy.curves[0].y[-1]
    story = STUDY.story(TRIAL.runs, list(TRIAL.healthy.values()))
    kept = "Pre-training on four tasks keeps 96 % of shared features' weight and 25 % of each task's own"
    assert story.found.startswith(f"{kept}, not as the proposition has it. With half as many labels")
    assert STUDY.story(TRIAL.runs, []).found.startswith(f"{kept}. With half")


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: Universality(steps=0), "steps = 0 .* >= 1"),
        (lambda: Universality(batch=1), "batch = 1 .* >= 2"),
        (lambda: Universality(gamma=1.0), "gamma = 1.0 .* below 1"),
        (lambda: Universality(repeats=1), "repeats = 1 .* >= 2"),
        (lambda: pretraining.LinearRepresentation("nowhere"), "start = 'nowhere' .* random, joint or superposed"),
        (lambda: pretraining.PairLoss(loss="hinge"), "loss = 'hinge' .* logistic or exponential"),
        (lambda: pretraining.NearStart(0.0), "gamma = 0.0 .* > 0"),
        (lambda: tables.FourStates(outputs=4), "outputs = 4 .* 2 or 3"),
        (lambda: tables.SearchedTables(outputs=1), "outputs = 1 .* >= 2"),
    ],
)
def test_options_out_of_range_are_named(made, message):
    with pytest.raises(ConfigError, match=message):
        made()


def test_the_projection_is_the_nearest_within_bounds():
    generator = torch.Generator().manual_seed(0)
    matrix = 2 * torch.randn(2, 6, 9, generator=generator, dtype=torch.float64)
    near = pretraining.within(matrix, 3)
    values = torch.linalg.svdvals(near)
    assert values.amax() <= 1 + 1e-9
    torch.testing.assert_close(values.square().sum(-1), torch.full((2,), 3.0).double())
    others = torch.randn(500, 2, 6, 9, generator=generator, dtype=torch.float64)
    for size in (0.01, 0.1, 1.0):
        allowed = pretraining.within((near + size * others).flatten(0, 1), 3).unflatten(0, (500, 2))
        assert ((allowed - matrix).norm(dim=(-2, -1)) >= (near - matrix).norm(dim=(-2, -1)) - 1e-9).all()
    torch.testing.assert_close(pretraining.within(0.01 * matrix, 3), 0.01 * matrix)


def test_fits_in_a_ball_are_least_squares_with_the_least_ridge():
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(3, 12, n, generator=generator, dtype=torch.float64) for n in (4, 1))
    free = torch.linalg.lstsq(x, y).solution[..., 0]
    torch.testing.assert_close(labelled.ball_minimiser(x, y[..., 0], 2 * free.norm(dim=-1)), free)
    radius = free.norm(dim=-1) / 2
    held = labelled.ball_minimiser(x, y[..., 0], radius)
    torch.testing.assert_close(held.norm(dim=-1), radius)
    slope = (x.mT @ (x @ held[..., None] - y))[..., 0]  # at the bound it points at the origin
    torch.testing.assert_close(slope / slope.norm(dim=-1, keepdim=True), -held / radius[:, None], atol=1e-6, rtol=0)
    few = labelled.ball_minimiser(x[:, :2], y[:, :2, 0], torch.full((3,), 100.0).double())
    torch.testing.assert_close(few, (torch.linalg.pinv(x[:, :2]) @ y[:, :2])[..., 0])


def test_losses_of_tables_are_those_of_all_triples():
    generator = torch.Generator().manual_seed(0)
    phi = torch.randn(3, 2, 4, generator=generator, dtype=torch.float64)
    of_r, of_u = torch.tensor([0.5, 0.3, 0.2]).double(), torch.tensor([0.6, 0.4]).double()
    slow = sum(
        of_r[i] * of_u[u] * of_u[v] * of_r[j] * of_u[w] * torch.exp(-phi[i, u] @ (phi[i, v] - phi[j, w]))
        for i in range(3)
        for j in range(3)
        for u in range(2)
        for v in range(2)
        for w in range(2)
    )
    torch.testing.assert_close(tables.pair_loss(phi, of_r, of_u, lambda t: (-t).exp()), slow)


def test_tables_are_searched_on_one_device():
    streams = Streams(0, [0], "meta")  # whose numbers do not meet those of the CPU
    searched = tables.SearchedTables(steps=1).build(streams.at("start"))
    searched(streams.at("batch"))
    assert searched.get_buffer("distance").is_meta


PAIR, ALL, DESCENDED = tables.pair_loss, tables.sign_patterns, tables.descended
WITHIN, PAIRS, SUPERPOSED = pretraining.within, TaskFeatureSource.hidden_pairs, pretraining.superposed
ERRORS = labelled.LabelledFitted._errors
BALL, COMPLEXITY, SUMMED = labelled.ball_minimiser, labelled.LabelledFitted._complexity, labelled.summed
LOGISTIC, WEIGHTS, PRIVATE, NORM = (
    theory.logistic,
    theory.exponential_weights,
    theory.private_weight,
    theory.expected_norm,
)


def plain(phi, of_r, of_u, loss, pairs="augmented"):
    return PAIR(phi, of_r, of_u, loss, "plain")


def half(matrix, rank):
    return WITHIN(matrix, rank / 2)


def unturned(experiment):
    made = experiment.learner.matrix.detach().double()
    return made.mT @ made


def within_only(self, experiment, step):
    experiment.learner.matrix.copy_(WITHIN(experiment.learner.matrix, 7))


def alike(start, loss, steps):
    return start[..., ::2, :, :].repeat_interleave(2, -3)


def with_nothing(self, *drawn):
    return PAIRS(self, *drawn)[0], 0 * PAIRS(self, *drawn)[1]


def unmoved(start, loss, steps):
    return start


FAULTS = {
    "no augmentation": Fault(tables, "pair_loss", plain, "generalised-pca-identity", RANDOM),
    "no augmentation, linear": Fault(tables, "pair_loss", plain, "linear-pca-identity", RANDOM),
    "no augmentation, searched": Fault(tables, "pair_loss", plain, "invariance-at-optimum", SEARCHED),
    "a concave loss": Fault(
        tables,
        "softplus_of_minus",
        lambda t: -torch.nn.functional.softplus(t),
        "averages-have-no-larger-loss",
        RANDOM,
    ),
    "a loss that knows directions": Fault(
        tables, "pair_loss", lambda phi, *a: PAIR(phi.abs(), *a), "rotations-are-equally-good", RANDOM
    ),
    "thresholds that grow": Fault(
        theory, "encoding_threshold", lambda alone, others: 5 * alone, "theorem-7-2-threshold", SEARCHED
    ),
    "gains of the other sign of T_1": Fault(
        theory,
        "encoding_gain",
        lambda norm, alone, others: alone - others,
        "construction-gains-from-the-threshold-on",
        SEARCHED,
    ),
    "a one-hot part of another size": Fault(tables, "sqrt", lambda x: 0.5, "proof-lifts-margins-to-one-half", RANDOM),
    "values alike": Fault(tables, "descended", alike, "kept-at-every-norm", SEARCHED),
    "no search": Fault(tables, "descended", lambda start, *_: start, "kept-at-every-norm", SEARCHED),
    "no search above the threshold": Fault(
        tables, "descended", lambda start, *_: start, "encoded-above-the-threshold", SEARCHED
    ),
    "values alike above the threshold": Fault(tables, "descended", alike, "encoded-above-the-threshold", SEARCHED),
    "no descent": Fault(tables, "descended", unmoved, "xor-is-optimal", FOUR),
    "no descent on a sphere": Fault(
        tables,
        "descended",
        unmoved,
        "tetrahedron-is-better",
        SPHERE,
    ),
    "another example": Fault(tables, "XOR", ((-1.0, 0.0), (1.0, 0.0)) * 2, "xor-loss", FOUR),
    "a separable example": Fault(tables, "XOR", tables.APART, "xor-probe-at-chance", FOUR),
    "a separable example, intercepts": Fault(tables, "XOR", tables.APART, "intercept-is-right-in-three-of-four", FOUR),
    "one example for both": Fault(tables, "APART", tables.XOR, "separable-optimum-is-as-good", FOUR),
    "a label left out": Fault(tables, "sign_patterns", lambda n: ALL(n)[1:], "random-labels-are-at-chance", RANDOM),
    "half of the budget": Fault(pretraining, "within", half, "shared-one-private-1-over-t", JOINT),
    "half of it, one task": Fault(pretraining, "within", half, "task-specific-all-ones", SPECIFIC),
    "half of it, uneven": Fault(pretraining, "within", half, "uneven-weights", UNEVEN),
    "half of it, no augmentation": Fault(
        pretraining, "within", half, "without-augmentation-they-count-as-shared", KEPT
    ),
    "half of it, similarity": Fault(pretraining, "within", half, "cka-of-trained-representations", JOINT),
    "half of it, bounds": Fault(pretraining, "within", half, "the-budget-is-used-up", JOINT),
    "pairs that are equal": Fault(
        TaskFeatureSource, "hidden_pairs", lambda *a: (PAIRS(*a)[0],) * 2, "spurious-are-dropped", JOINT
    ),
    "pairs of something and nothing": Fault(
        TaskFeatureSource, "hidden_pairs", with_nothing, "pairs-without-relation-leave-nothing", JOINT, (UNRELATED,)
    ),
    "inputs for features": Fault(pretraining, "gram", unturned, "kinds-do-not-mix", SPECIFIC),
    "inputs for features of a kind": Fault(pretraining, "gram", unturned, "features-of-a-kind-are-equal", JOINT),
    "a loss that rises": Fault(theory, "logistic", lambda t: -LOGISTIC(t), "shared-weight-is-one", JOINT),
    "a budget that pays for less": Fault(
        theory, "private_weight", lambda a, *b: (2 - a) * PRIVATE(a, *b), "dominance-in-the-proof", JOINT
    ),
    "another power": Fault(
        theory, "exponential_weights", lambda w, s, r: WEIGHTS(w, s, r + 2), "exponential-loss-closed-form", UNEVEN
    ),
    "half of the superposed weights": Fault(
        labelled, "superposed", lambda o: SUPERPOSED(o) / 2, "superposed-solution-equal-loss", TWO
    ),
    "weights above the bound": Fault(
        labelled, "superposed", lambda o: 1.1 * SUPERPOSED(o), "superposed-is-in-the-class", TWO
    ),
    "nothing superposed": Fault(labelled, "superposed", pretraining.diagonal, "r-outputs-are-enough", TWO),
    "weights left out of B": Fault(
        theory, "least_norm", lambda v1, v2, a, b: (v1 + v2) ** 0.5, "least-norm-of-the-label", TWO
    ),
    "nothing represented": Fault(
        labelled, "diagonal", lambda o: 0 * SUPERPOSED(o), "free-vector-has-k-less-r-entries", TWO
    ),
    "fine-tuning without a ball": Fault(
        pretraining.NearStartRule, "forward", within_only, "finetune-near-wstar", TUNED
    ),
    "fine-tuning within the budget": Fault(
        pretraining.NearStartRule, "forward", within_only, "finetuning-leaves-the-class", TUNED
    ),
    "the other optimum": Fault(pretraining, "superposed", pretraining.diagonal, "superposed-is-turned", TURNED),
    "the other optimum, other tasks": Fault(pretraining, "superposed", pretraining.diagonal, "other-tasks-pay", TURNED),
    "norms that are too large": Fault(theory, "expected_norm", lambda v: 1.1 * NORM(v), "rademacher", LABELS),
    "norms above the root of the mean": Fault(
        theory, "expected_norm", lambda v: 1.1 * NORM(v), "leading-term-is-close", LABELS
    ),
    "a ratio without shared features": Fault(
        theory, "complexity_ratio", lambda beta: beta**-0.5, "complexity-ratio", LABELS
    ),
    "weights squared": Fault(
        theory, "least_norm", lambda v1, v2, a, b: (v1 / a + v2 / b**2) ** 0.5, "at-most-root-t-worse", LABELS
    ),
    "per feature": Fault(
        labelled.LabelledFitted,
        "_complexity",
        lambda self, draws, s, r, b: COMPLEXITY(self, draws, s, r, b) / sqrt(r),
        "bound-grows-with-root-r",
        LABELS,
    ),
    "sums doubled": Fault(labelled, "summed", lambda *a: 2 * SUMMED(*a), "mended-variance", LABELS),
    "a bound of a hundredth": Fault(
        theory, "risk_bound", lambda leading, m: 0.01 * leading, "risk-bound-holds", LABELS
    ),
    "one representation for all": Fault(labelled, "betas", lambda: [1.0] * 5, "few-labels-show-the-gap", LABELS),
    "noise everywhere": Fault(labelled, "NOISE", (0.1, 0.5), "noiseless-gap-vanishes", LABELS),
    "a ball that is too small": Fault(
        labelled, "ball_minimiser", lambda x, y, b: BALL(x, y, 0.2 * b), "many-labels-close-the-gap", LABELS
    ),
    "noise that is squared": Fault(
        labelled.LabelledFitted,
        "_errors",
        lambda self, draws, noise, m: ERRORS(self, draws, noise**2, m),
        "noise-costs-what-least-squares-have",
        LABELS,
    ),
    "bounds that are equal": Fault(
        theory, "complexity_ratio", lambda beta: 0 * beta + 1.0, "gap-is-milder-than-the-bounds", LABELS
    ),
    "no fine-tuning": Fault(theory, "finetuned_weight", lambda *a: 1 / 16, "finetuning-helps-the-probe", LABELS),
    "nothing fitted": Fault(labelled, "ball_minimiser", lambda *a: 0 * BALL(*a), "floor-on-other-tasks", LABELS),
    "fits that are too small": Fault(
        labelled, "ball_minimiser", lambda *a: 0.9 * BALL(*a), "joint-is-right-on-every-task", LABELS
    ),
    "similarity of shared features": Fault(theory, "cka", lambda s, r, a, b: s / r, "cka-closed-form", LABELS),
    "similarity that is one": Fault(
        labelled, "similarity", lambda x, y: x.new_ones(len(x)), "similarity-falls-along-the-row", LABELS
    ),
}
LONGER = Trial(Universality(steps=500, batch=512, table_steps=250, repeats=20))
"""For claims that the smallest study does not come to."""


def test_every_expected_claim_has_a_fault():
    assert {fault.claim for fault in FAULTS.values()} == {s.id for s in STUDY.statements() if s.expected}


@pytest.mark.parametrize("fault", [f for f in FAULTS.values() if f.claim not in SHORT], ids=lambda f: f.claim)
def test_a_fault_takes_holds_from_an_expected_claim(monkeypatch, fault):
    TRIAL.require_noticed(fault, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("fault", [f for f in FAULTS.values() if f.claim in SHORT], ids=lambda f: f.claim)
def test_a_fault_of_training_takes_holds_from_an_expected_claim(monkeypatch, fault):
    LONGER.require_noticed(fault, monkeypatch)


def test_the_superposed_start_is_an_optimum_with_fewer_outputs():
    source = TaskFeatures().build(Streams(0, range(2)).at("dictionary"))
    learner = pretraining.LinearRepresentation("superposed").build(source, Streams(0, range(2)).at("weights"))
    values = torch.linalg.svdvals(learner.matrix)
    torch.testing.assert_close(values[:, :8], torch.ones(2, 8))
    assert values[:, 8:].amax() < 1e-5
