"""Claims of the nuclear norm on numbers by chance, and what single steps find, against slow computation."""

from itertools import combinations

import numpy as np
import pytest
import torch
import xarray as xr

from featscope.claims import Claim
from featscope.data import SpuriousSource
from featscope.losses import NuclearNorm
from featscope.streams import Streams
from featscope.studies.nuclear_norm import NuclearNormStudy, exact, solved
from featscope.studies.nuclear_norm.arms import PLANE, RANK, SINGULAR
from featscope.theory import nuclear_norm as theory

STUDY = NuclearNormStudy()
SOLVED = {
    "r=50": solved.SumsSolved,
    "dimensions": solved.DimensionsSolved,
    RANK: solved.RanksSolved,
    PLANE: solved.PlaneSolved,
    SINGULAR: exact.SingularValuesSolved,
}


def by_chance(arm: str) -> xr.Dataset:
    """All that ``arm`` finds in three replicas, with numbers between 0 and 1."""
    draws = np.random.default_rng(0)
    return xr.Dataset(
        {name: (("replica", *one.dims), draws.random((3, *one.shape))) for name, one in SOLVED[arm].quantities.items()}
    )


def judged(id: str, arm: str, run: xr.Dataset) -> Claim:
    """A claim on what ``arm`` found."""
    test = next(test for test in NuclearNormStudy.tests if test.statement.id == id)
    return test.judge(STUDY, arm, {arm: run})


def of_sums(run: xr.Dataset) -> dict[str, np.ndarray]:
    """Of r = 50, γ = 0.45, d - r = 260; λ = 10⁻⁶, 0.05, 2 and 100."""
    a, b, right, outside = (run[name].values for name in ("alpha", "beta", "id_accuracy", "ood_accuracy"))
    return {
        "erm-l2-structure": np.stack([b / a, 1 - b / a, 1 - a * 50**0.5]).min((0, 2)),
        "printed-ratio": (a / b).max(1) / (3 / 1.8),
        "ratio-limit": 0.9 * a[:, 3] / b[:, 3],
        "ratio-falls-with-strength": a[:, 0] / b[:, 0] - a[:, 3] / b[:, 3],
        "quadrature-gives-the-weights": (a + b)[:, 1] / sum(theory.decay_optimum(50, 260, 0.45, 0.05)),
        "proof-term-is-positive": run.same_sign.values[:, 1],
        "proof-term-is-negative-at-times": 1 - run.same_sign.values[:, 1],
        "ood-collapse-bound": outside[:, 2],
        "in-domain-all-is-right": right[:, 2],
        "lambda-condition-not-needed": a[:, 0] * 50**0.5,
        "collapse-without-the-condition": outside[:, 0],
    }


def of_dimensions(run: xr.Dataset) -> dict[str, np.ndarray]:
    """Of r = 20, γ = 0.2: d - r is 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2 and 4 times 125; two weight decays, two norms."""
    a, b, outside = (run[name].values for name in ("alpha", "beta", "ood_accuracy"))
    counts = np.array([31, 62, 94, 125, 156, 188, 250, 500])[:, None]
    formula = theory.ood_accuracy(a[..., :2], b[..., :2], 20, counts, 0.2)
    return {
        "gaussian-formula": abs(outside[..., :2] - formula).max((1, 2)),
        "collapse-at-half-the-dimension": outside[:, 6, 0],
        "environmental-sum-is-positive": run.low_b.values[:, 0],
        "invariant-sum-is-large": run.low_a.values[:, 0],
        "nuclear-norm-beats-weight-decay": outside[:, 4, 3] - outside[:, 4, 0],
    }


def of_ranks(run: xr.Dataset) -> dict[str, np.ndarray]:
    best, least = run.best_is_invariant.values.round(), run.least_weight.values - 0.5
    run["best_is_invariant"][:], run["least_weight"][:] = best, least
    return {
        "erm-rank-support": ((best == 1) & (least > 0)).mean(1),
        "any-invariant-support-is-better": run.gap.values.min(1),
        "erm-rank-is-right-out-of-domain": run.ood_accuracy.values.min(1),
        "erm-rank-weights-grow": run.norm.values[:, 1] / run.norm.values[:, 0],
        "erm-rank-has-an-optimum": run.norm.values[:, 1] / run.norm.values[:, 0],
        "erm-rank-loss-goes-to-zero": run.loss.values[:, 1] / run.loss.values[:, 0],
    }


def of_plane(run: xr.Dataset) -> dict[str, np.ndarray]:
    outside, inside = (
        run[f"l2_{name}"].values.sum(1) + run[f"nu_{name}"].values.sum(1) for name in ("ood_error", "id_error")
    )
    away = run.nu_matched.values - run.l2_matched.values
    return {
        "errors-stand-3-to-7": outside / inside,
        "toy-as-printed": run.printed_id.values[:, 0],
        "toy-corrected": run.printed_id.values[:, 0],
        "matched-loss-ordering": away.max(1),
        "little-is-gained-by-weak-penalties": away[:, 0] - away[:, -1],
        "lda-limit": run.nu_tilt.values[:, -1] / run.lda_tilt.values,
        "lda-tilt": run.nu_tilt.values[:, -1],
        "mean-limit": run.l2_tilt.values[:, -1] / run.mean_tilt.values,
    }


@pytest.mark.parametrize(
    ("arm", "expected"), [("r=50", of_sums), ("dimensions", of_dimensions), (RANK, of_ranks), (PLANE, of_plane)]
)
def test_claims_are_arithmetic_on_what_was_found(arm, expected):
    run = by_chance(arm)
    wanted = {id: values.mean() for id, values in expected(run).items()}
    assert {id: judged(id, arm, run).measured for id in wanted} == pytest.approx(wanted)


def test_one_environmental_weight_at_any_dimension_and_strength_counts():
    run = by_chance("dimensions")
    run["beta"][..., 2:] = 0.0
    assert judged("nuclear-norm-drops-the-environment", "dimensions", run).measured == 1
    run["beta"][1, 5, 3] = 1e-6
    assert judged("nuclear-norm-drops-the-environment", "dimensions", run).measured == pytest.approx(2 / 3)


def test_the_crossing_is_on_the_line_between_two_points_for_each_strength():
    run = by_chance("dimensions")
    falling = np.array([0.9, 0.8, 0.7, 0.6, 0.3, 0.2, 0.1, 0.0])  # passes 1/2 a third of the way from 1 to 1.25
    run["ood_accuracy"][..., 0], run["ood_accuracy"][..., 1] = falling, np.roll(falling, -1)
    assert judged("ood-crossing", "dimensions", run).measured == pytest.approx(1 + 0.25 / 3)
    assert judged("crossing-comes-nearer", "dimensions", run).measured == pytest.approx(0.25)


def remembered(monkeypatch: pytest.MonkeyPatch, name: str) -> list[torch.Tensor]:
    """What the source draws from now on, one after the other."""
    drawn: list[torch.Tensor] = []
    before = getattr(SpuriousSource, name)
    monkeypatch.setattr(SpuriousSource, name, lambda *a, **k: drawn.append(before(*a, **k)) or drawn[-1])
    return drawn


def test_accuracies_are_of_fresh_samples_of_either_domain(monkeypatch):
    monkeypatch.setattr(solved, "SIGNS", 100)
    drawn = remembered(monkeypatch, "sums")
    draws = Streams(0, range(2)).at("sums")
    found = solved.Sums(solved.SpuriousFeatures(2, 3), 30, 60).build(draws)
    found(draws)
    train, inside, outside = drawn
    assert train.shape[1] == 30
    w = torch.stack([found.alpha, found.beta], -1)
    for accuracy, z in ((found.id_accuracy, inside), (found.ood_accuracy, outside)):
        torch.testing.assert_close(accuracy, ((w @ z.mT) >= 0).double().mean(-1))


def test_the_gap_is_between_the_best_with_an_environmental_feature_and_the_worst_without(monkeypatch):
    drawn = remembered(monkeypatch, "sample")
    draws = Streams(0, range(2)).at("ranks")
    found = solved.Ranks(solved.SpuriousFeatures(3, 2), 80).build(draws)
    found(draws)
    z, outside = drawn
    for place, rank in enumerate(solved.RANKS):
        fits = {}
        for support in combinations(range(5), rank):
            some = z[..., support]
            w = solved.minimiser(some, solved.decay(1e-3, some))
            margins = (some @ w[..., None])[..., 0]
            fits[support] = (torch.nn.functional.softplus(-margins).mean(1) + 5e-4 * w.square().sum(1), w)
        for one in range(2):
            value = {support: float(objective[one]) for support, (objective, _) in fits.items()}
            without = [support for support in value if max(support) < 3]
            best = min((support for support in value if support not in without), key=value.get)
            assert float(found.gap[one, place]) == pytest.approx(value[best] - max(map(value.get, without)), abs=1e-9)
            first = min(value, key=value.get)
            assert float(found.best_is_invariant[one, place]) == (first in without)
            assert float(found.least_weight[one, place]) == pytest.approx(float(fits[first][1][one].min()))
            for accuracy, support in ((found.ood_accuracy, first), (found.other_accuracy, best)):
                right = (outside[one][:, support] @ fits[support][1][one] >= 0).double().mean()
                assert float(accuracy[one, place]) == pytest.approx(float(right))


def single(monkeypatch, slope) -> exact.SingularValuesSolved:
    """What is found of singular values where ``slope`` stands for the gradient of a norm."""
    monkeypatch.setattr(exact, "_slope", slope)
    draws = Streams(0, range(2)).at("values")
    found = exact.SingularValues().build(draws)
    found(draws)
    return found


def test_one_wrong_entry_of_a_gradient_and_one_scale_of_features_are_enough(monkeypatch):
    slope = exact._slope

    def wrong(norm, features):
        right = slope(norm, features)
        if features.abs().max() < 0.1:
            return right + 0.25  # of small features alone
        right[:, 0, 0] += 1 if isinstance(norm, NuclearNorm) else 0
        return right

    found = single(monkeypatch, wrong)
    assert (found.off_difference > 0.05).all(), "20 directions, whose entries are about 1/24"
    assert (found.off_repeated > 0.5).all()
    monkeypatch.setattr(exact, "_slope", slope)
    small = single(monkeypatch, lambda norm, f: slope(norm, f) + (f.abs().max() < 0.1) * 0.25)
    assert (small.off_single > 0.2).all()
    assert (small.off_difference < 1e-6).all()


def test_the_least_norm_of_those_that_are_tried_is_near_the_bound():
    draws = Streams(0, range(2)).at("values")
    found = exact.SingularValues().build(draws)
    found(draws)
    assert ((found.least_tried >= 1) & (found.least_tried < 1.01)).all()


def test_the_slope_of_the_logistic_loss_is_judged_by_the_worst_of_both():
    """The first part alone is -4.5e-7 or so, at z + c = 20; the second's is at z = 10."""
    (value,) = {claim.measured for claim in [judged("logistic-slope-lemma", SINGULAR, by_chance(SINGULAR))]}
    z = np.linspace(0.01, 10, 200)
    bend = np.exp(z) * (1 - np.exp(z)) / (1 + np.exp(z)) ** 3
    assert value >= bend.max()
    strengths = [theory.sufficient_strength(*one) / theory.printed_strength(one[0]) for one in ((37, 163, 0.496),)]
    assert judged("sharper-strength", SINGULAR, by_chance(SINGULAR)).measured >= strengths[0]
