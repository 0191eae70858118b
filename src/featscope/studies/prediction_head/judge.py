"""From measurements to verdicts."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from featscope.claims import Claim
from featscope.claims.scaling import fitted_exponent
from featscope.studies.base import Runs, last
from featscope.studies.prediction_head.measures import PURE
from featscope.studies.prediction_head.phases import LEARNED
from featscope.studies.prediction_head.statements import STATEMENTS
from featscope.theory.prediction_head import (
    head_decay_rate,
    head_peak_bound,
    noise_decay,
    optimum,
    phase_one_time,
    strong_probability,
)

if TYPE_CHECKING:
    from featscope.studies.prediction_head.study import PredictionHead

THE = {statement.id: statement for statement in STATEMENTS}

CHOICE = "a stated choice"
MOST, FEW = 0.95, 0.05


def share(flag: xr.DataArray, given: xr.DataArray) -> xr.DataArray:
    """Of the starts of each replica where ``given``, the share with ``flag``."""
    return (flag * given).sum("start") / given.sum("start")


def median(values: xr.DataArray, given: xr.DataArray) -> xr.DataArray:
    """Median over the starts of each replica where ``given``."""
    return values.where(given > 0).median("start")


def rescued(run: xr.Dataset) -> xr.DataArray:
    """Starts that end diverse though both neurons would end on the strong feature without head."""
    return run["diverse"] * run["predicted_collapse"]


def claims(study: "PredictionHead", runs: Runs) -> Iterator[Claim]:
    """All claims, in the order of the story."""
    yield from _exact(study, runs)
    yield from _without(study, runs)
    yield from _with(study, runs)
    yield from _phases(study, runs)
    yield from _ablations(runs)
    yield from _batches(study, runs)
    yield from _random_batches(runs)
    yield from _hand_set(runs)


def _exact(study: "PredictionHead", runs: Runs) -> Iterator[Claim]:
    head, alone = runs["head"], runs["no-head"]
    yield THE["ode-gradient-exact"].equals(
        head["gradient_along"], 1.0, 0.05, arm="head", why="Tolerance: batches of 16,384 samples, heavy tails."
    )
    for arm, normalized in (("head", True), ("no-head", True), ("no-normalization", False)):
        yield THE["norm-head-invariant"].equals(
            runs[arm]["drift"].max("start"),
            0.0,
            1e-3,
            arm=arm,
            why="Tolerance: of the integration, 1e-6 a step." if normalized else "Outputs are not normalised.",
            expected=normalized,
        )
    settled = (alone["mixed"] == 0) & (alone["end_noise"] < 0.5 * alone["start_noise"])
    yield THE["phase1-time"].equals(
        median(*_phase_one(study, runs["sizes"])),
        1.0,
        0.05,
        arm="sizes",
        why="Tolerance: signal in the variance while it is learned.",
    )
    where = alone["collapsed"] * settled
    passed = study.duration - alone["time_strong_learned"]
    law = xr.apply_ufunc(
        lambda t, r, b: noise_decay(t, r, b, 0, study.moments, study.data.noise_std),
        passed.where(where > 0),
        alone["start_noise"],
        alone["end_overlap"],
    )
    yield THE["noise-decays"].equals(
        median(alone["end_noise"] / law, where),
        1.0,
        0.05,
        arm="no-head",
        why="Tolerance: the law is for small R, R_0 and the moment from which it holds hardly matter in the end.",
    )


def _phase_one(study: "PredictionHead", sizes: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray]:
    large = sizes.sel(weak=2.0, drop=True).where(sizes["input_dim"] >= 1000, drop=True)
    predicted = xr.apply_ufunc(
        lambda b, r: phase_one_time(b, r, study.moments, study.data.noise_std, LEARNED),
        large["start_overlap"],
        large["start_noise"],
    )
    ratio = (large["time_strong_learned"] / predicted).stack(every=("start", "input_dim"))
    seen = (large["predicted_collapse"] > 0) & np.isfinite(large["time_strong_learned"])
    return (
        ratio.drop_vars(["every", "start", "input_dim"], errors="ignore").rename(every="start"),
        seen.stack(every=("start", "input_dim"))
        .drop_vars(["every", "start", "input_dim"], errors="ignore")
        .rename(every="start")
        .astype(float),
    )


def _without(study: "PredictionHead", runs: Runs) -> Iterator[Claim]:
    alone, control = runs["no-head"], runs["equal-no-head"]
    for arm, expected in (("no-head", True), ("head", False)):
        yield THE["no-head-selection-rule"].at_least(
            runs[arm]["rule_followed"].mean("start"), MOST, arm=arm, why=f"Bound: {CHOICE}.", expected=expected
        )
    ratios = runs["ratios"]
    by_law = [
        strong_probability(replace(study, data=replace(study.data, weak=float(weak))).moments) ** 2
        for weak in ratios["weak"].values
    ]
    apart = ratios["predicted_collapse"].mean("start").transpose("replica", "weak") - np.array(by_law)
    yield THE["collapse-probability"].equals(
        apart.mean("weak"),
        0.0,
        0.1,
        arm="ratios",
        why=f"Tolerance: {ratios.sizes['start']} starts a replica. Predicted by α_1/α_2: "
        + ", ".join(f"{study.data.strong / w:.3g}: {p:.2f}" for w, p in zip(ratios["weak"].values, by_law, strict=True))
        + ".",
    )
    yield THE["collapse-without-head"].at_least(
        share(alone["collapsed"], alone["predicted_collapse"]),
        0.9,
        arm="no-head",
        why=f"Bound: {CHOICE}; some have not settled. Of all starts {float(alone['collapsed'].mean()):.2f}.",
    )
    settled = share(ratios["collapsed"], ratios["predicted_collapse"]).transpose("replica", "weak")
    every = ratios["collapsed"].mean("start")
    by_ratio = ", ".join(
        f"{study.data.strong / weak:.3g}: {float(share_of.mean()):.2f}"
        for weak, share_of in zip(settled["weak"].values, every.transpose("weak", "replica"), strict=True)
    )
    yield THE["collapse-without-head"].at_least(
        settled.min("weak"),
        0.9,
        arm="ratios",
        why=f"Bound: {CHOICE}; the least over α_2. Of all starts both do, by α_1/α_2: {by_ratio}.",
    )
    yield THE["collapse-without-head"].at_least(
        control["collapsed"].mean("start"),
        0.9,
        arm="equal-no-head",
        why="Of all starts, as theory says of features of unequal strength.",
        expected=False,
    )
    for arm, expected in (("no-head", True), ("head", False)):
        run = runs[arm]
        yield THE["neurons-correlate"].at_least(
            share(run["correlation"], run["predicted_collapse"]),
            0.9,
            arm=arm,
            why=f"Bound: {CHOICE}. Where the rule says that both collapse.",
            expected=expected,
        )
    wide = runs["widths"]["collapsed_up_to"]
    powers = np.array([strong_probability(study.moments) ** (2**k) for k in range(wide.sizes["doubling"])])
    measured = ", ".join(f"{float(wide.isel(doubling=k).mean()):.2f} at {2**k}" for k in range(wide.sizes["doubling"]))
    yield THE["any-width-collapses"].at_least(
        wide.isel(doubling=-1), MOST, arm="widths", why=f"Bound: {CHOICE}. The share is {measured}."
    )
    apart = (wide.mean("replica") - powers)[:4]
    yield THE["width-law"].equals(
        float(np.abs(apart).max()),
        0.0,
        0.1,
        arm="widths",
        why="Tolerance: starts that have not settled count as not collapsed. By the law "
        + ", ".join(f"{p:.2f} at {2**k}" for k, p in enumerate(powers[:4]))
        + ".",
    )


def _with(study: "PredictionHead", runs: Runs) -> Iterator[Claim]:
    for arm, expected in (("head", True), ("no-head", False)):
        run = runs[arm]
        yield THE["head-rescues"].at_least(
            share(run["diverse"], run["predicted_collapse"]),
            0.5,
            arm=arm,
            why=f"Bound: most, {CHOICE}. Of all starts {float(run['diverse'].mean()):.2f} end diverse, "
            f"{float(share(run['collapsed'], run['predicted_collapse']).mean()):.2f} of these collapse.",
            expected=expected,
        )
    for arm in ("rare-weak", "both-features"):
        run = runs[arm]
        yield THE["head-rescues"].at_least(
            share(run["diverse"], run["predicted_collapse"]), 0.5, arm=arm, why=f"Remark 3.2. Bound: {CHOICE}."
        )
    sizes = share(runs["sizes"]["diverse"], runs["sizes"]["predicted_collapse"])
    trends = []
    for weak in sizes["weak"].values:
        means = sizes.sel(weak=weak).mean("replica")
        each = zip(means.values, means["input_dim"].values, strict=True)
        trends.append(f"{', '.join(f'{m:.2f} at {d:g}' for m, d in each)} with α_2 = {weak:g}")
    both = sizes.mean("weak")
    yield THE["rescue-grows-with-dimension"].at_least(
        both.isel(input_dim=-1) - both.sel(input_dim=100, drop=True),
        0.0,
        arm="sizes",
        why=f"Mean over α_2. The share is {'; '.join(trends)}.",
    )
    head, alone = runs["head"], runs["no-head"]
    yield THE["diverse-neurons-decorrelate"].at_most(
        share(head["correlation"], rescued(head)),
        study.data.input_dim**-0.5,
        arm="head",
        why="Bound: d^-1/2, with constant 1.",
    )
    least = optimum(study.moments)
    yield THE["optimum-value"].equals(
        median(head["final_loss"], rescued(head)),
        least,
        0.02,
        arm="head",
        why=f"Tolerance: {CHOICE}; noise decays slowly.",
    )
    yield THE["loss-cannot-see-collapse"].equals(
        median(alone["final_loss"], alone["collapsed"]) - median(head["final_loss"], rescued(head)),
        0.0,
        0.02,
        arm="head",
        why=f"Tolerance: {CHOICE}; the loss begins at about 2.",
    )


def _phases(study: "PredictionHead", runs: Runs) -> Iterator[Claim]:
    run = runs["head"]
    given = rescued(run)
    order = [run[f"time_{name}"] for name in ("strong_learned", "substituted", "weak_learned", "returned")]
    in_order = (order[0] < order[1]) & (order[1] < order[2]) & (order[2] < order[3]) & np.isfinite(order[3])
    medians = ", ".join(f"{float(median(t, given).median()):.3g}" for t in order)
    yield THE["four-phases"].at_least(
        share(in_order, given), 0.9, arm="head", why=f"Bound: {CHOICE}. Median times are {medians} (units of 1/η)."
    )
    fallen = (run["time_noise_fallen"] < run["time_weak_learned"]) & np.isfinite(run["time_weak_learned"])
    yield THE["noise-falls-before-weak-is-learned"].at_least(
        share(fallen, given), 0.9, arm="head", why=f"Bound: {CHOICE}. The two phases overlap."
    )
    yield THE["substitution"].at_least(
        share(run["borrowed"] > 10, given),
        0.9,
        arm="head",
        why=f"Bound: {CHOICE}. The median is {float(median(run['borrowed'], given).median()):.3g}.",
    )
    yield THE["head-has-the-sign"].at_least(share(run["head_sign"], given), MOST, arm="head", why=f"Bound: {CHOICE}.")
    yield THE["others-stand-still"].at_most(
        median(run["others_moved"], given), 0.2, arm="head", why=f"Bound: {CHOICE}."
    )
    yield THE["acceleration"].at_least(
        median(xr.apply_ufunc(np.log10, run["acceleration"]), given), 1.0, arm="head", why=f"Bound: tenfold, {CHOICE}."
    )
    ratio = run["head_peak"] / head_peak_bound(np.sqrt(run["slow_norm"]), study.head.rate)
    yield THE["peak-of-the-head"].at_most(
        ratio.max("start"),
        1.001,
        arm="head",
        why="Bound: 1, and a thousandth for what E_12 gives. "
        f"The median over rescued trajectories is {float(median(ratio, given).median()):.2f}.",
    )
    yield THE["rise-and-fall"].at_most(
        median(run["head_end"] / run["head_peak"], given), 0.1, arm="head", why=f"Bound: {CHOICE}."
    )
    predicted = xr.apply_ufunc(
        lambda b, own: head_decay_rate(b, own, study.moments, study.head.rate), run["end_overlap"], run["other_weak"]
    )
    yield THE["head-returns-to-identity"].equals(
        median(run["head_decay"] / predicted, given), 1.0, 0.05, arm="head", why="Tolerance: noise that is left."
    )
    sizes = runs["sizes"].sel(weak=2.0, drop=True)
    times = sizes["time_strong_learned"].where(np.isfinite(sizes["time_strong_learned"])).median("start")
    wanted = sizes["input_dim"] >= 100
    yield THE["phase1-scaling"].equals(
        fitted_exponent(
            sizes["input_dim"].values[wanted].astype(float), times.transpose("replica", "input_dim").values[:, wanted]
        ),
        2.0,
        0.1,
        arm="sizes",
        why="Tolerance: signal at the smaller d; from d = 100 on.",
    )


def _ablations(runs: Runs) -> Iterator[Claim]:
    run = runs["no-stop-gradient"]
    yield THE["no-stop-gradient-collapses"].at_most(
        share(run["diverse"], run["predicted_collapse"]), FEW, arm="no-stop-gradient", why=f"Bound: {CHOICE}."
    )
    run = runs["no-normalization"]
    yield THE["no-normalisation-strong-leads"].at_least(
        share(run["strong_leads"], run["predicted_collapse"]), MOST, arm="no-normalization", why=f"Bound: {CHOICE}."
    )
    yield THE["no-normalisation-no-rescue"].at_most(
        share(run["diverse"], run["predicted_collapse"]), FEW, arm="no-normalization", why=f"Bound: {CHOICE}."
    )
    head, tied = (share(runs[arm]["diverse"], runs[arm]["predicted_collapse"]) for arm in ("head", "tied-head"))
    yield THE["asymmetry-rescues"].at_least(
        head - tied,
        0.1,
        arm="tied-head",
        why=f"Bound: {CHOICE}. {float(head.mean()):.2f} with the head, {float(tied.mean()):.2f} with a symmetric one.",
    )


def _batches(study: "PredictionHead", runs: Runs) -> Iterator[Claim]:
    trained, alone = runs["batches"], runs["batches-no-head"]
    yield THE["sgd-follows-ode"].at_most(
        distance_from_flow(trained, runs["batches-flow"], study.optimizer.lr),
        0.05,
        arm="batches",
        why=f"Bound: {CHOICE}; overlaps are up to 1.",
    )
    for arm, run, expected in (("batches", trained, True), ("batches-no-head", alone, False)):
        slow = abs(last(run, run["overlap"])).isel(path=0, neuron=1)
        yield THE["sgd-head-rescues"].at_least(
            slow.isel(feature=1) - slow.isel(feature=0),
            0.3,
            arm=arm,
            why=f"Bound: {CHOICE}.",
            expected=expected,
        )


def _random_batches(runs: Runs) -> Iterator[Claim]:
    for arm in ("random-batches", "random-batches-no-head"):
        size = abs(last(runs[arm], runs[arm]["overlap"])).isel(path=0)
        feature = size.argmax("feature")
        pure = (size.min("feature") < PURE * size.max("feature")).all("neuron")
        different = pure & (feature.isel(neuron=0) != feature.isel(neuron=1))
        yield THE["random-start-sgd"].at_least(
            different.astype(float), 0.5, arm=arm, why=f"Bound: most, {CHOICE}. {int(different.sum())} networks do."
        )


def _hand_set(runs: Runs) -> Iterator[Claim]:
    for arm, expected in (("hand-set-gap", True), ("hand-set-equal", False)):
        yield THE["symmetric-head-baseline"].at_least(
            runs[arm]["top_share"].mean("start"), 0.99, arm=arm, why=f"Bound: {CHOICE}.", expected=expected
        )


def distance_from_flow(run: xr.Dataset, flow: xr.Dataset, lr: float) -> np.ndarray:
    """Mean over training and the four overlaps of |B - B of the flow|, for each replica."""
    found = []
    for replica in run["replica"].values:
        path = flow.sel(replica=replica).isel(path=0)
        known = np.isfinite(path["time"].values)
        ours = run["overlap"].sel(replica=replica).isel(path=0).transpose("step", ...)
        flat = path["overlap"].transpose("step", ...).values[known].reshape(known.sum(), -1)
        at = [np.interp(ours["step"].values * lr, path["time"].values[known], b) for b in flat.T]
        found.append(np.abs(ours.values.reshape(len(ours), -1).T - at).mean())
    return np.array(found)


def headline(runs: Runs) -> str:
    """What was found, in one sentence."""
    head, alone = runs["head"], runs["no-head"]
    with_head, without = (float(share(r["diverse"], r["predicted_collapse"]).mean()) for r in (head, alone))
    stopped = runs["no-stop-gradient"]
    unstopped = float(share(stopped["diverse"], stopped["predicted_collapse"]).mean())
    return (
        f"Where both neurons would end on the strong feature, the head makes {with_head:.0%} of networks learn both "
        f"features ({without:.0%} without, {unstopped:.0%} without stop-gradient); the loss is the same."
    )
