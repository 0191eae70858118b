"""From measurements to verdicts."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from featscope.claims import Claim
from featscope.studies.base import Runs, last
from featscope.studies.pruning.statements import STATEMENTS
from featscope.theory.imbalance import activities, pair_correlation
from featscope.theory.pruning import logit_gap, stationary_energies

if TYPE_CHECKING:
    from featscope.studies.pruning.study import Pruning

THE = {statement.id: statement for statement in STATEMENTS}

JUDGED, LITTLE = 0.125, 0.05  # pruning ratios that claims are made of
MATTERS = 0.05
TWENTIETH = "Bound: a twentieth, so that a difference that no one would care for does not count."
SMALL_PART = "Tolerance: 2 % of what minority samples or neurons gain, a stated choice."


def claims(study: "Pruning", runs: Runs) -> Iterator[Claim]:
    """All claims, in the order of the story."""
    yield from _one_step(study, runs)
    yield from _stationary(study, runs)
    yield from _random(runs)


def predicted_growth(study: "Pruning") -> tuple[float, float, float]:
    """Growth of a minority neuron over η in the noiseless step, and the share of samples with its feature.

    The growth with all neurons seen, and with the feature hidden.
    """
    arm = next(arm.config for arm in study.arms() if arm.name == "one-step-noiseless")
    data, start, loss = arm.data, arm.planted, arm.objective.loss
    p = activities(data.features, data.minority, data.eps_min, data.activity)
    squares = np.full(data.features, start.amplitude**2)
    squares[-data.minority :] = start.minority_amplitude**2
    strength = start.neurons * data.tokens**2 * squares / loss.temperature
    hidden = strength.copy()
    hidden[-data.minority :] = 0.0
    pull = pair_correlation(p, data.tokens, data.token_activity)[-1]
    pull *= 1.0 if loss.scale == "tau" else 1 / loss.temperature
    whole, pruned = (pull * logit_gap(seen, p, arm.objective.pairs)[-1] for seen in (strength, hidden))
    return float(whole), float(pruned), float(p[-1])


def _one_step(study: "Pruning", runs: Runs) -> Iterator[Claim]:
    run, clean = runs["one-step"], runs["one-step-noiseless"]
    before, one, both = (run[f"growth_minority_{name}"] for name in ("whole", "one", "pruned"))
    gain = both - before
    yield THE["planted-minority-growth"].at_least(gain / before, MATTERS, arm="one-step", why=TWENTIETH)
    change = run["growth_majority_pruned"] - run["growth_majority_whole"]
    yield THE["planted-majority-unchanged"].equals(change / gain.mean(), 0.0, 0.02, arm="one-step", why=SMALL_PART)
    whole, pruned, share = predicted_growth(study)
    drawn = clean["presence"] / share
    errors = [clean["growth_minority_whole"] / (whole * drawn), clean["growth_minority_pruned"] / (pruned * drawn)]
    yield THE["growth-is-the-gap"].equals(
        sum(errors) / 2,
        1.0,
        0.05,
        arm="one-step-noiseless",
        why=f"Tolerance: 5 %, a stated choice. Closed forms are {whole:.3f} without and {pruned:.3f} with pruning, "
        f"measured {float(clean['growth_minority_whole'].mean()):.3f} and "
        f"{float(clean['growth_minority_pruned'].mean()):.3f}.",
    )
    yield THE["monotone-in-ratio"].at_least(
        np.minimum(one - before, both - one) / before, MATTERS, arm="one-step", why=TWENTIETH
    )
    yield THE["straight-through-kills"].equals(
        run["pruned_growth"],
        0.0,
        1e-12,
        arm="one-step",
        why="Tolerance: none but rounding; the gradient is exactly 0.",
    )
    yield THE["logit-first-order"].equals(
        run["first_order_small"],
        1.0,
        0.02,
        arm="one-step",
        why="Tolerance: second order in what is pruned. With whole neurons the ratio is "
        f"{float(run['first_order_whole'].mean()):.2f}.",
    )
    rise, elsewhere = (run[f"hardness_{on}_pruned"] - run[f"hardness_{on}_whole"] for on in ("minority", "other"))
    yield THE["hardness-rises-on-minority"].at_least(rise, MATTERS, arm="one-step", why=TWENTIETH)
    yield THE["hardness-rises-only-on-minority"].equals(
        elsewhere / rise.mean(), 0.0, 0.02, arm="one-step", why=SMALL_PART
    )
    updated = runs["stationary"]
    yield THE["update-is-algorithm-1"].equals(
        updated["update_error"].max("ratio"),
        0.0,
        1e-3,
        arm="stationary",
        why="Tolerance: float32, relative to an update that is small where training has settled. Of all ratios the "
        "largest error.",
    )


def final_ratio(run: xr.Dataset) -> xr.DataArray:
    """F_min/F_maj at the end."""
    return last(run, run["energy_ratio"])


def at(values: xr.DataArray, ratio: float) -> xr.DataArray:
    """``values`` at one pruning ratio."""
    return values.sel(ratio=ratio, drop=True)


def _listed(values: xr.DataArray) -> str:
    return ", ".join(f"{float(at(values, a).mean()):.3f} at α = {a:g}" for a in values["ratio"].values)


def _overlap(run: xr.Dataset, ratio: float, step: int) -> xr.DataArray:
    """At the first look from ``step`` on; at the last one if there is none."""
    overlap = at(run["overlap"], ratio)
    before = int((overlap["step"] < step).sum())
    return overlap.isel(step=min(before, overlap.sizes["step"] - 1))


def _stationary(study: "Pruning", runs: Runs) -> Iterator[Claim]:
    run, data = runs["stationary"], study.data
    p = activities(data.features, data.minority, data.eps_min, data.activity)
    settled = stationary_energies(
        p,
        data.tokens,
        study.optimizer.weight_decay,
        study.bias.last,
        study.objective.pairs,
        temperature=study.objective.loss.temperature,
        loss_scale=study.objective.loss.scale,
        noise_variance=data.noise_std**2 / data.tokens,
    )
    ratio = final_ratio(run)
    without = at(ratio, 0.0)
    closed = float(settled[-1] / settled[0])
    yield THE["stationary-amplitude"].equals(
        without / closed if closed else without * np.nan,
        1.0,
        0.05,
        arm="stationary",
        why=f"Tolerance: 5 %, for noise beyond first order and fluctuations of order η. Closed form {closed:.3f}; "
        f"(ε_min)² is {data.eps_min**2:.3f}.",
    )
    yield THE["stationary-rebalance"].at_least(
        at(ratio, JUDGED) - without, MATTERS, arm="stationary", why=f"{TWENTIETH} F_min/F_maj is {_listed(ratio)}."
    )
    yield THE["stationary-rebalance"].at_least(
        final_ratio(runs["straight-through"]) - without,
        MATTERS,
        arm="straight-through",
        why=f"The gradient of the pruned network instead, at α = {study.pruning.ratio:g}.",
        expected=False,
    )
    control = final_ratio(runs["balanced"])
    yield THE["stationary-rebalance"].at_least(
        at(control, JUDGED) - at(control, 0.0), MATTERS, arm="balanced", why=TWENTIETH, expected=False
    )
    steps = [
        at(ratio, b) - at(ratio, a) for a, b in zip(ratio["ratio"].values, ratio["ratio"].values[1:], strict=False)
    ]
    yield THE["monotone-in-ratio"].at_least(
        np.min(steps, axis=0), 0.0, arm="stationary", why="Only while rare features are behind.", expected=False
    )
    yield THE["pruned-are-minority"].at_least(
        _overlap(run, JUDGED, 100),
        0.9,
        arm="stationary",
        why=f"Bound: a stated choice; at step 100, α = {JUDGED:g}.",
    )
    much = runs["too-much"]
    _, stable, most = much["ratio"].values
    largest = last(much, much["largest_energy"])
    seen = (largest > 100 * at(largest, 0.0)) | (much["diverged"] >= 0)
    yield THE["divergence-when-all-pruned"].at_least(
        at(seen, most).astype(float),
        1.0,
        arm="too-much",
        why=f"At α = {most:g}, where {float(at(last(much, much['hidden_features']), most).mean()):.1f} features are "
        f"hidden in the end. At α = {stable:g} it can be one neuron of each feature: there the share is "
        f"{float(at(seen, stable).mean()):.2f}.",
    )


def _random(runs: Runs) -> Iterator[Claim]:
    by_norm, by_direction = runs["random-start"], runs["random-start-direction"]
    ratio, other = final_ratio(by_norm), final_ratio(by_direction)
    without = at(ratio, 0.0)
    begins = int(by_norm["pruning_began"].max())
    singletons = [
        float(at(last(by_norm, by_norm[f"{kind}_singletons"]), 0.0).mean()) for kind in ("minority", "majority")
    ]
    overlap = last(by_norm, by_norm["overlap"])
    yield THE["random-start-rebalance"].at_least(
        at(ratio, JUDGED) - without,
        MATTERS,
        arm="random-start",
        why=f"{TWENTIETH} F_min/F_maj is {_listed(ratio)}. Of the pruned neurons a share of "
        f"{_listed(overlap.sel(ratio=overlap['ratio'] > 0))} belongs to minority features. Singletons of a feature: "
        f"{singletons[0]:.1f} of minority, {singletons[1]:.1f} of majority features.",
    )
    yield THE["random-start-direction"].at_least(
        at(other, LITTLE) - without,
        MATTERS,
        arm="random-start-direction",
        why=f"{TWENTIETH} F_min/F_maj is {_listed(other)}.",
    )
    for run, arm in ((by_norm, "random-start"), (by_direction, "random-start-direction")):
        yield THE["pruned-are-minority"].at_least(
            _overlap(run, LITTLE, begins),
            0.9,
            arm=arm,
            why=f"Bound: a stated choice; α = {LITTLE:g}, as pruning begins.",
            expected=arm != "random-start",
        )


def headline(runs: Runs, claims: Sequence[Claim]) -> str:
    """What was found, in one sentence."""
    planted, by_norm, by_direction = (
        final_ratio(runs[arm]) for arm in ("stationary", "random-start", "random-start-direction")
    )
    held = sum(claim.verdict == "holds" for claim in claims if claim.expected)

    def mean(ratio: xr.DataArray, a: float) -> str:
        return f"{float(at(ratio, a).mean()):.2f}"

    return (
        f"From a planted start rare features end with {mean(planted, 0.0)} of common ones' energy without pruning and "
        f"with {mean(planted, JUDGED)} at α = {JUDGED:g}; from random weights with {mean(by_norm, 0.0)} and "
        f"{mean(by_norm, JUDGED)}, or with {mean(by_direction, LITTLE)} where neurons are ranked by the energy along "
        f"them, at α = {LITTLE:g}. {held} of the {sum(claim.expected for claim in claims)} claims expected to hold do."
    )
