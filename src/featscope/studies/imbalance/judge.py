"""From measurements to verdicts."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf, isfinite, log, nan, sqrt
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from featscope.claims import Claim
from featscope.studies.base import Runs, last
from featscope.studies.imbalance.measures import CENSUS_RATIO, CROWD, HELD
from featscope.studies.imbalance.statements import STATEMENTS
from featscope.theory.imbalance import Census, Stage1, activities, pair_correlation, stated_feature_energy

if TYPE_CHECKING:
    from featscope.studies.imbalance.study import Imbalance

THE = {statement.id: statement for statement in STATEMENTS}

CHOICE = "Tolerance: {}, a stated choice."
ROUNDING = "Tolerance: rounding of float64 sums."
NO_DIFFERENCE = "Bound: no difference."


def claims(study: "Imbalance", runs: Runs) -> Iterator[Claim]:
    """All claims, in the order of the story."""
    yield from _growth_identity(study, runs)
    yield from _stage_one(study, runs)
    yield from _census(study, runs)
    yield from _curves(runs)
    yield from _heat_map(study, runs)
    yield from _stage_three(study, runs)
    yield from _pseudo_loss(runs)


def growth(run: xr.Dataset) -> xr.DataArray:
    """A_j(t) along A_j(0) over neurons: ``[replica, step, feature]``, 1 at the start."""
    along = run["alignment"] * run["norm"]
    start = along.isel(step=0)
    return (along * start).sum("neuron") / (start**2).sum("neuron")


def growth_ratio(study: "Imbalance", run: xr.Dataset) -> xr.DataArray:
    """By how much majority features have outgrown minority ones: ``[replica, step]``."""
    grown, split = growth(run), study.data.features - study.data.minority
    return grown.isel(feature=slice(0, split)).mean("feature") / grown.isel(feature=slice(split, None)).mean("feature")


def linear_ratio(theory: Stage1, steps: np.ndarray) -> np.ndarray:
    """The same if growth were linear in time: (1 + x_max t)/(1 + x_min t) (P (47))."""
    rates = theory.growth - 1
    return (1 + rates.max() * steps) / (1 + rates.min() * steps)


def ordinary_pairs(study: "Imbalance", run: xr.Dataset) -> xr.DataArray:
    """Whether neuron i is in M_j at the start (P (26)): ``[replica, neuron, feature]``."""
    share = run["alignment"].isel(step=0) ** 2
    return share / share.sum("feature") >= Census(study.data.features, study.data.eps_min).ordinary_share


def _equals_closed_form(
    study: "Imbalance", name: str, measured: ArrayLike, tolerance: float, why: str, predicted: float = 1.0
) -> Claim:
    """Closed forms of Stage 1 are those of uniform attention, and not expected to hold under another."""
    expected = None if study.learner.attention == "uniform" else False
    return THE[name].equals(measured, predicted, tolerance, arm="stage-one", why=why, expected=expected)


def _growth_identity(study: "Imbalance", runs: Runs) -> Iterator[Claim]:
    run, data = runs["stage-one"], study.arm("stage-one").data
    p = activities(data.features, data.minority, data.eps_min, data.activity)
    a = pair_correlation(p, data.tokens, data.token_activity)
    why = CHOICE.format("2 %, several standard errors of 100,000 pairs")
    off = CHOICE.format("2 % of what the identity excludes")
    for name, measured, predicted, reason in (
        ("stage1-identity", (run["pull"] / a).mean("feature"), 1.0, why),
        ("stage1-identity-off-features", run["pull_off_features"], 0.0, off),
        ("stage1-identity-negatives", run["pull_of_negatives"] / a.max(), 0.0, off),
        ("mean-token-noise", run["noise_variance"], 1.0, CHOICE.format("2 %")),
    ):
        yield _equals_closed_form(study, name, measured, 0.02, reason, predicted)


def _stage_one(study: "Imbalance", runs: Runs) -> Iterator[Claim]:
    run, arm = runs["stage-one"], study.arm("stage-one")
    data, theory = arm.data, arm.stage1
    t1 = theory.duration()
    steps = run["step"].values
    at = int(steps[steps <= t1][-1])
    split = data.features - data.minority
    when = f"At step {at}, the last look before T1."
    chance = "Batches add to projections in random directions, which does not change them along their start on average."
    grown = growth(run).sel(step=at)
    for name, which in (("majority", slice(0, split)), ("minority", slice(split, None))):
        yield _equals_closed_form(
            study,
            f"stage1-growth-{name}",
            np.log(grown.isel(feature=which).mean("feature")) / _or_nan(at * log(theory.growth[which][0])),
            0.03,
            f"{CHOICE.format('3 %')} {when} {chance}",
        )
    outside, decay = theory.energies(at)[:, -1], at * log(theory.non_feature_factor)
    by_chance = 100 * (1 - log(outside[-1] / outside[0]) / 2 / _or_nan(decay))
    yield _equals_closed_form(
        study,
        "nonfeature-decay",
        np.log(_outside(run).sel(step=at)) / _or_nan(decay),
        0.05,
        f"{CHOICE.format('5 %')} {when} What batches add by chance hides {by_chance:.1f} % of the decay.",
    )
    population = replace(theory, anchors=inf).duration()
    yield _equals_closed_form(
        study,
        "stage1-duration",
        _reached(run["t1"]) / _or_nan(t1),
        0.1,
        f"{CHOICE.format('10 %, two or three steps')} Closed form {t1:.0f} steps; {population:.0f} without what "
        "batches add by chance. Half of every neuron's own squared norm, as P asks: "
        f"{_in_words(run['t1_of_every_neuron'])}.",
    )
    narrow, other = runs["stage-one-narrow"], study.arm("stage-one-narrow").data.input_dim
    yield THE["stage1-duration-in-d1"].equals(
        np.log(_reached(run["t1"]) / _reached(narrow["t1"])) / log(data.input_dim / other),
        1.0,
        0.1,
        arm="stage-one",
        why=f"{CHOICE.format('0.1')} T1: {_in_words(narrow['t1'])} at d1 = {other}, {_in_words(run['t1'])} at "
        f"d1 = {data.input_dim}.",
    )
    ratio = growth_ratio(arm, run).sel(step=at)
    yield _equals_closed_form(
        study,
        "growth-ratio-exponential",
        np.log(ratio) / _or_nan(log(theory.growth_ratio(at))),
        0.03,
        f"{CHOICE.format('3 %')} {when}",
    )
    (linear,) = linear_ratio(theory, np.array([at]))
    yield THE["growth-ratio-linear"].equals(
        ratio / linear,
        1.0,
        0.1,
        arm="stage-one",
        why=f"{CHOICE.format('10 %')} {when} The linear law has {linear:.2f}, the exponential one "
        f"{theory.growth_ratio(at):.2f}.",
    )
    yield THE["growth-ratio-bounded"].at_most(
        ratio / theory.stated_growth_ratio,
        1.0,
        arm="stage-one",
        why=f"{when} ε_max/ε_min is {theory.stated_growth_ratio:.2f}. By the closed forms: {_over_eps(arm)}.",
    )


def _over_eps(arm: "Imbalance") -> str:
    """The closed form of the growth ratio at T1, over ε_max/ε_min, at other frequencies."""
    found = []
    for eps in (0.05, 0.1, 0.2, 0.4, 0.8):
        theory = replace(arm, data=replace(arm.data, eps_min=eps)).stage1
        t1 = theory.duration()
        if isfinite(t1):
            found.append(f"{theory.growth_ratio(int(t1)) / theory.stated_growth_ratio:.2f} times it at ε_min = {eps:g}")
    return ", ".join(found) or "T1 is not reached"


def _or_nan(number: float) -> float:
    """NaN in place of 0 and infinity, in units of which nothing can be measured."""
    return number if number and isfinite(number) else nan


def _reached(event: xr.DataArray) -> xr.DataArray:
    return event.where(event > 0)


def _in_words(event: xr.DataArray) -> str:
    return f"{float(event.mean()):.0f} steps" if (event >= 0).all() else "not reached in all networks"


def _outside(run: xr.Dataset) -> xr.DataArray:
    """Root mean square over neurons of the norm off the features, over its start: ``[replica, step]``."""
    off = (run["norm"] ** 2 * (1 - (run["alignment"] ** 2).sum("feature"))).sum("neuron") ** 0.5
    return off / off.isel(step=0)


def _census(study: "Imbalance", runs: Runs) -> Iterator[Claim]:
    run, features = runs["stage-one"], study.data.features
    own = Census(features, study.data.eps_min)
    crowds = [Census(CROWD**power * features, CENSUS_RATIO) for power in range(3)]
    lucky = [census.lucky_probability for census in crowds]
    yield THE["features-per-neuron"].equals(
        run["features_per_neuron"] / own.features_per_neuron,
        1.0,
        0.01,
        arm="stage-one",
        why=f"{CHOICE.format('1 %')} Exact {own.features_per_neuron:.2f} features; the papers' order "
        f"{own.stated_features_per_neuron:.1f}.",
    )
    yield THE["lucky-census"].equals(
        run["lucky_probability"] / _or_nan(lucky[0]),
        1.0,
        0.05,
        arm="stage-one",
        why=f"{CHOICE.format('5 %')} Exact {lucky[0]:.2e}.",
    )
    falls = ", ".join(
        f"{exact / census.stated_lucky_probability:.3f} at d = {census.features}"
        for exact, census in zip(lucky, crowds, strict=True)
    )
    yield THE["lucky-lower-bound"].at_least(
        run["lucky_probability"],
        crowds[0].stated_lucky_probability,
        arm="stage-one",
        why=f"Bound: with constant 1, which Ω leaves open. Exact probability over the bound: {falls}.",
    )
    yield THE["strong-neurons-are-lucky"].equals(
        run["alone_among_strong"],
        1.0,
        0.1,
        arm="stage-one",
        why=f"{CHOICE.format('0.1')} Exact {lucky[1] / _or_nan(crowds[1].strong_probability):.3f}.",
    )


def _curves(runs: Runs) -> Iterator[Claim]:
    def rise(arm: str, name: str, noise: Sequence[float]) -> xr.DataArray:
        run = runs[arm]
        values = run[name] if "step" not in run[name].dims else last(run, run[name])
        chosen = values.sel(noise_std=list(noise)).mean("noise_std")
        return chosen.sel(eps_min=chosen["eps_min"].max()) - chosen.sel(eps_min=chosen["eps_min"].min())

    low, high = (0.01, 0.03, 0.05), (0.05, 0.075, 0.1)
    yield THE["minority-count-rises"].at_least(
        rise("figures-1-2", "minority_count", low), 1.0, arm="figures-1-2", why="Bound: one neuron; none is no rise."
    )
    for name, sign, arm, measure, noise in (
        ("minority-alignment-rises", 1, "figures-1-2", "minority_cosine", low),
        ("cosine-rises", 1, "figures-3-4", "cosine", high),
        ("mse-falls", -1, "figures-3-4", "mse", (0.03, 0.05, 0.075)),
        ("minority-mse-falls", -1, "figures-3-4", "mse_minority", (0.03, 0.05, 0.075)),
    ):
        yield THE[name].at_least(sign * rise(arm, measure, noise), 0.0, arm=arm, why=NO_DIFFERENCE)


def majority_lead(run: xr.Dataset, minority: int) -> xr.DataArray:
    """Mean squared cosine with majority features minus that with minority ones, at the end."""
    squared = last(run, run["alignment"]) ** 2
    split = squared.sizes["feature"] - minority
    common, rare = squared.isel(feature=slice(0, split)), squared.isel(feature=slice(split, None))
    return common.mean(("neuron", "feature")) - rare.mean(("neuron", "feature"))


def _heat_map(study: "Imbalance", runs: Runs) -> Iterator[Claim]:
    minority = study.arm("heat-map").data.minority
    for arm, expected in (("heat-map", True), ("heat-map-unbiased", False), ("heat-map-balanced", False)):
        yield THE["heatmap-majority-first"].at_least(
            majority_lead(runs[arm], minority), 0.0, arm=arm, why=NO_DIFFERENCE, expected=expected
        )
    cosines = abs(last(runs["heat-map"], runs["heat-map"]["alignment"]))
    majority = cosines.isel(feature=slice(0, cosines.sizes["feature"] - minority))
    yield THE["heatmap-dominating-neuron"].at_least(
        (majority.max("neuron") ** 2 > 0.5).mean("feature"), 0.9, arm="heat-map", why="Bound: a stated choice."
    )
    yield THE["heatmap-every-neuron"].at_least(
        (majority.max("feature") >= HELD).mean("neuron"), 0.9, arm="heat-map", why="Bound: a stated choice."
    )


def _stage_three(study: "Imbalance", runs: Runs) -> Iterator[Claim]:
    for arm, expected in (("heat-map", True), ("heat-map-unbiased", False)):
        run, config = runs[arm], study.arm(arm)
        p = activities(config.data.features, config.data.minority, config.data.eps_min, config.data.activity)
        bound = xr.DataArray(p / p.max() / sqrt(config.data.features), dims="feature")
        over = (last(run, run["alignment"]) / bound) ** 2
        yield THE["stage3-offfeature-small"].at_most(
            over.where(~ordinary_pairs(config, run)).mean(("neuron", "feature")) ** 0.5,
            1.0,
            arm=arm,
            why="Bound: with constant 1 and without Ξ2.",
            expected=expected,
        )
    for arm in ("late", "heat-map"):
        run, data = runs[arm], study.arm(arm).data
        stated = stated_feature_energy(activities(data.features, data.minority, data.eps_min, data.activity))
        path = run["minority_energy"] / run["majority_energy"]
        ratio = last(run, path)
        early = path.sel(step=int(run["step"][-1]) // 5, method="nearest")
        yield THE["amplitude-law"].equals(
            ratio / float(stated[-1] / stated[0]),
            1.0,
            0.5,
            arm=arm,
            why=f"Tolerance: a factor, as the law has no constant. F_min/F_maj is {float(ratio.mean()):.3f} at the end "
            f"and {float(early.mean()):.3f} at step {int(early['step'])}; the law has {stated[-1] / stated[0]:.3f}.",
        )


def _pseudo_loss(runs: Runs) -> Iterator[Claim]:
    run = runs["heat-map"]
    for statement, measure in (
        ("gradient-formula", "gradient_error"),
        ("pseudo-loss-gradient", "pseudo_gradient_error"),
        ("pseudo-loss-value", "pseudo_value_error"),
    ):
        yield THE[statement].equals(run[measure], 0.0, 1e-9, arm="heat-map", why=ROUNDING)
    yield THE["pseudo-loss-convex"].at_least(
        run["above_tangent"], 0.0, arm="heat-map", why="Bound: touching it, as at θ = w."
    )
    yield THE["optimal-learner-loss"].at_most(
        run["optimal_loss"],
        1 / log(run.sizes["feature"]),
        arm="heat-map",
        why=f"Bound: 1/log d, with constant 1. Keys that show an anchor's own signals alone cost "
        f"{float(run['loss_floor'].mean()):.2f}; training ended at {float(last(run, run['loss']).mean()):.2f}.",
    )


def headline(study: "Imbalance", runs: Runs, claims: Sequence[Claim]) -> str:
    """What was found, in one sentence."""
    late, biased = (
        float(last(run, run["minority_energy"] / run["majority_energy"]).mean())
        for run in (runs["late"], runs["heat-map"])
    )
    arm = study.arm("stage-one")
    ratio = float(growth_ratio(arm, runs["stage-one"]).isel(step=-1).mean())
    verdicts = [claim.verdict for claim in claims if claim.expected]
    return (
        f"Features grow exponentially, each at a rate set by its frequency: after {arm.steps} steps common ones have "
        f"outgrown those of ε = {arm.data.eps_min:g} by a factor of {ratio:.0f}. Without biases rare features then "
        f"catch up (their energy ends at {late:.2f} of a common one's), with growing biases they do not "
        f"({biased:.2f}). {verdicts.count('holds')} of the {len(verdicts)} claims expected to hold at this size do."
    )
