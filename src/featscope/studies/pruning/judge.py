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

ZERO = "Bound: no difference."


def claims(study: "Pruning", runs: Runs) -> Iterator[Claim]:
    """All claims, in the order of the story."""
    yield from _one_step(study, runs)
    yield from _stationary(study, runs)
    yield from _random(runs)


def predicted_growth(study: "Pruning") -> tuple[float, float]:
    """Growth of a minority neuron over η in the noiseless step: with all neurons seen, and with its feature hidden."""
    arm = next(arm.config for arm in study.arms() if arm.name == "one-step-noiseless")
    data, start = arm.data, arm.planted
    p = activities(data.features, data.minority, data.eps_min, data.activity)
    squares = np.full(data.features, start.amplitude**2)
    squares[-data.minority :] = start.minority_amplitude**2
    strength = start.neurons * data.tokens**2 * squares / arm.objective.loss.temperature
    hidden = strength.copy()
    hidden[-data.minority :] = 0.0
    pull = pair_correlation(p, data.tokens, data.token_activity)[-1]
    whole, pruned = (pull * logit_gap(seen, p, arm.objective.pairs)[-1] for seen in (strength, hidden))
    return float(whole), float(pruned)


def _one_step(study: "Pruning", runs: Runs) -> Iterator[Claim]:
    run, clean = runs["one-step"], runs["one-step-noiseless"]
    gain = run["growth_minority_pruned"] - run["growth_minority_whole"]
    yield THE["planted-minority-growth"].at_least(gain, 0.0, arm="one-step", why=ZERO)
    change = run["growth_majority_pruned"] - run["growth_majority_whole"]
    yield THE["planted-majority-unchanged"].equals(
        change / gain.mean(), 0.0, 0.02, arm="one-step", why="Tolerance: 2 % of the minority's gain, a stated choice."
    )
    whole, pruned = predicted_growth(study)
    errors = [clean["growth_minority_whole"] / whole, clean["growth_minority_pruned"] / pruned]
    yield THE["growth-is-the-gap"].equals(
        sum(errors) / 2,
        1.0,
        0.05,
        arm="one-step-noiseless",
        why=f"Tolerance: 5 %, a stated choice. Mean of both: closed forms {whole:.3f} without and {pruned:.3f} with "
        f"pruning, measured {float(clean['growth_minority_whole'].mean()):.3f} and "
        f"{float(clean['growth_minority_pruned'].mean()):.3f}.",
    )
    first = run["growth_minority_one"] - run["growth_minority_whole"]
    second = run["growth_minority_pruned"] - run["growth_minority_one"]
    yield THE["monotone-in-ratio"].at_least(np.minimum(first, second), 0.0, arm="one-step", why=ZERO)
    yield THE["straight-through-kills"].equals(
        run["pruned_gradient"],
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
        f"{float(run['first_order_whole'].mean()):.3f}.",
    )
    rise, elsewhere = (run[f"hardness_{on}_pruned"] - run[f"hardness_{on}_whole"] for on in ("minority", "other"))
    yield THE["hardness-rises-on-minority"].at_least(rise, 0.0, arm="one-step", why=ZERO)
    yield THE["hardness-rises-only-on-minority"].equals(
        elsewhere / rise.mean(), 0.0, 0.02, arm="one-step", why="Tolerance: 2 % of the rise, a stated choice."
    )


def final_ratio(run: xr.Dataset) -> xr.DataArray:
    """F_min/F_maj at the end."""
    return last(run, run["energy_ratio"])


def at(values: xr.DataArray, ratio: float) -> xr.DataArray:
    """``values`` at one pruning ratio."""
    return values.sel(ratio=ratio, drop=True)


def _overlap_at_begin(run: xr.Dataset, ratio: float, begins: int) -> xr.DataArray:
    overlap = at(run["overlap"], ratio)
    return overlap.sel(step=overlap["step"][overlap["step"] >= begins][0])


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
    closed = float(settled[-1] / settled[0])
    yield THE["stationary-amplitude"].equals(
        at(ratio, 0.0) / closed if closed else at(ratio, 0.0) * np.nan,
        1.0,
        0.05,
        arm="stationary",
        why=f"Tolerance: 5 %, for noise beyond first order and fluctuations of order η. Closed form {closed:.3f}; "
        f"(ε_min)² is {data.eps_min**2:.3f}.",
    )
    found = ", ".join(f"{float(at(ratio, a).mean()):.3f} at α = {a:g}" for a in ratio["ratio"].values)
    kept = float(final_ratio(runs["straight-through"]).mean())
    yield THE["stationary-rebalance"].at_least(
        at(ratio, 0.125) - at(ratio, 0.0),
        0.0,
        arm="stationary",
        why=f"{ZERO} F_min/F_maj is {found}; {kept:.3f} at α = 0.25 with the straight-through gradient.",
    )
    control = final_ratio(runs["balanced"])
    yield THE["stationary-rebalance"].at_least(
        at(control, 0.125) - at(control, 0.0), 0.0, arm="balanced", why=ZERO, expected=False
    )
    steps = [
        at(ratio, b) - at(ratio, a) for a, b in zip(ratio["ratio"].values, ratio["ratio"].values[1:], strict=False)
    ]
    yield THE["monotone-in-ratio"].at_least(
        np.min(steps, axis=0), 0.0, arm="stationary", why=f"{ZERO} Only while rare features are behind.", expected=False
    )
    yield THE["pruned-are-minority"].at_least(
        _overlap_at_begin(run, 0.125, 100),
        0.9,
        arm="stationary",
        why="Bound: a stated choice; at step 100.",
    )
    much = runs["too-much"]
    largest = last(much, much["largest_energy"])
    seen = (at(largest, 0.5) > 100 * at(largest, 0.0)) | (at(much["diverged"], 0.5) >= 0)
    yield THE["divergence-when-all-pruned"].at_least(
        seen.astype(float),
        1.0,
        arm="too-much",
        why=f"Largest F_j: {float(at(largest, 0.5).mean()):.3g} at α = 0.5, {float(at(largest, 0.0).mean()):.3g} without "
        "pruning.",
    )


def _random(runs: Runs) -> Iterator[Claim]:
    by_norm, by_direction = runs["random-start"], runs["random-start-direction"]
    ratio, other = final_ratio(by_norm), final_ratio(by_direction)
    without = at(ratio, 0.0)

    def listed(values: xr.DataArray) -> str:
        return ", ".join(f"{float(at(values, a).mean()):.3f} at α = {a:g}" for a in values["ratio"].values)

    singletons = [
        float(at(last(by_norm, by_norm[f"{kind}_singletons"]), 0.0).mean()) for kind in ("minority", "majority")
    ]
    yield THE["random-start-rebalance"].at_least(
        at(ratio, 0.125) - without,
        0.05,
        arm="random-start",
        why=f"F_min/F_maj is {listed(ratio)}. Singletons of a feature: {singletons[0]:.1f} of minority, "
        f"{singletons[1]:.1f} of majority features.",
    )
    yield THE["random-start-direction"].at_least(
        at(other, 0.05) - without, 0.05, arm="random-start-direction", why=f"F_min/F_maj is {listed(other)}."
    )
    for run, arm, a in ((by_norm, "random-start", 0.05), (by_direction, "random-start-direction", 0.02)):
        yield THE["pruned-are-minority"].at_least(
            _overlap_at_begin(run, a, 500),
            0.9,
            arm=arm,
            why=f"Bound: a stated choice; α = {a:g}, as pruning begins.",
            expected=arm != "random-start",
        )


def headline(runs: Runs, claims: Sequence[Claim]) -> str:
    """What was found, in one sentence."""
    ratio, by_norm = final_ratio(runs["stationary"]), final_ratio(runs["random-start"])
    other = final_ratio(runs["random-start-direction"])
    held = sum(claim.verdict == "holds" for claim in claims if claim.expected)
    return (
        f"From a planted start pruning brings the energy of rare features from {float(at(ratio, 0.0).mean()):.2f} to "
        f"{float(at(ratio, 0.125).mean()):.2f} of common ones'; from random weights it does not "
        f"({float(at(by_norm, 0.0).mean()):.2f} to {float(at(by_norm, 0.125).mean()):.2f}), unless neurons are ranked "
        f"by the energy along them ({float(at(other, 0.05).mean()):.2f}). "
        f"{held} of the {sum(claim.expected for claim in claims)} claims expected to hold do."
    )
