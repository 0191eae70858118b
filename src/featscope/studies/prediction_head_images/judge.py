"""From measurements to verdicts. All differences are paired: a replica's arms share network, images and batches."""

from collections.abc import Iterator, Sequence

import numpy as np
import xarray as xr
from jaxtyping import Float

from featscope.claims import Claim
from featscope.studies.base import Runs, last
from featscope.studies.prediction_head_images.statements import STATEMENTS

THE = {statement.id: statement for statement in STATEMENTS}

PerReplica = Float[np.ndarray, " replica"]
PAIRED = "Bound: 0, the sign of a difference paired by replica."
GAIN = 0.01
GAINED = "Bound: one point in a hundred, a stated choice that a network which learns nothing cannot reach."
CLOSE = 0.02
CLOSENESS = "Bound: at most two points in a hundred worse, a stated choice."
CORRELATED = 0.9
NEAR_ONE = "Bound: a stated choice for 'extremely close to ±1', of which the paper shows a histogram without numbers."
ASYMMETRIC = 2**0.5 / 2
HALFWAY = "Bound: halfway between a symmetric head, 0, and independent entries, √2; an antisymmetric one has 2."
FALLEN = 0.1
A_TENTH = "Bound: a tenth, a stated choice: any noise takes the last value below the highest."
POINT = 0.01
ONE_POINT = "Bound: a hundredth of the sphere's variance, a stated choice for 'collapsed to a point'."
CONTROL = "Control: the untrained network takes the place of the trained one."
AVERAGED = "Both with a moving average; this pair was added after a first run had been seen."
WITH_HEAD = "Control: this arm has a head."


def asymmetry(run: xr.Dataset) -> xr.DataArray:
    """||E - Eᵀ||_F/||offdiag(E)||_F ``[replica, step]``: 0 for a symmetric head, also for E = I; at most 2."""
    off = run["head_off_diagonal"]
    return (run["head_difference"] / off.where(off > 0, 1.0)).where(off > 0, 0.0)


def lost(run: xr.Dataset) -> PerReplica:
    """Share of the highest ||offdiag(E)||_F that is lost by the end; 0 where it never rose."""
    off = run["head_off_diagonal"]
    highest = off.max("step").values
    return 1 - np.divide(last(run, off).values, highest, out=np.ones_like(highest), where=highest > 0)


def early(run: xr.Dataset) -> int:
    """The first step of measurement after a tenth of the training."""
    steps = run["step"].values
    return int(steps[np.searchsorted(steps, steps[-1] / 10)])


def claims(runs: Runs) -> Iterator[Claim]:
    """What the comparison rests on, then accuracy, collapse and the head's course."""
    yield from _parts(runs)
    yield from _accuracy(runs)
    yield from _collapse(runs)
    for arm in ("identity", "untrained"):
        run, expected = runs[arm], None if arm == "identity" else False
        why = "" if arm == "identity" else f" {CONTROL}"
        yield THE["rise-and-fall-on-images"].at_least(
            lost(run), FALLEN, arm=arm, expected=expected, why=f"{A_TENTH}{why}"
        )
        yield THE["head-asymmetric-early"].at_least(
            asymmetry(run).sel(step=early(run)).values, ASYMMETRIC, arm=arm, expected=expected, why=f"{HALFWAY}{why}"
        )
        yield THE["head-not-symmetric"].at_least(
            last(run, asymmetry(run)).values, ASYMMETRIC, arm=arm, expected=expected, why=f"{HALFWAY}{why}"
        )


def _parts(runs: Runs) -> Iterator[Claim]:
    yield THE["targets-are-constant"].equals(
        runs["identity"]["target_gradient"].values,
        0.0,
        0.0,
        arm="identity",
        why="Tolerance: none.",
    )
    for arm in ("identity", "linear"):
        yield THE["diagonal-frozen"].equals(
            runs[arm]["head_diagonal_error"].values,
            0.0,
            1e-5,
            arm=arm,
            expected=arm == "identity",
            why="Tolerance: float32 rounding. " + ("" if arm == "identity" else "Control: this head is all trained."),
        )
    yield THE["target-follows"].at_most(
        runs["identity-ema"]["target_lag"].values, 0.9, arm="identity-ema", why="Bound: a stated choice below 1."
    )


def _accuracy(runs: Runs) -> Iterator[Claim]:
    accuracy = {arm: run["linear_probe"].values for arm, run in runs.items()}
    for arm in ("identity", "identity-ema", "untrained"):
        yield THE["training-helps"].at_least(
            accuracy[arm] - accuracy["untrained"],
            GAIN,
            arm=arm,
            expected=arm != "untrained",
            why=GAINED if arm != "untrained" else CONTROL,
        )
    for rival in ("linear", "mlp"):
        yield THE["identity-head-competitive"].at_least(
            accuracy["identity"] - accuracy[rival], -CLOSE, arm=rival, why=f"{CLOSENESS} The arm is the rival."
        )
    best = np.maximum(accuracy["linear"], accuracy["mlp"])
    yield THE["identity-head-competitive"].at_least(
        accuracy["untrained"] - best, -CLOSE, arm="untrained", expected=False, why=f"{CLOSENESS} {CONTROL}"
    )
    yield THE["head-beats-none"].at_least(accuracy["identity"] - accuracy["none"], GAIN, arm="identity", why=GAINED)
    yield THE["head-beats-none"].at_least(
        accuracy["identity-ema"] - accuracy["none-ema"], GAIN, arm="identity-ema", why=f"{GAINED} {AVERAGED}"
    )
    yield THE["l2-gap"].at_least(accuracy["identity"] - accuracy["identity-l2"], 0.0, arm="identity-l2", why=PAIRED)


def _collapse(runs: Runs) -> Iterator[Claim]:
    def final(arm: str, name: str) -> PerReplica:
        return runs[arm][name].values

    for arm, why in (("none", ""), ("identity", WITH_HEAD), ("untrained", CONTROL)):
        yield THE["no-head-correlation"].at_least(
            final(arm, "projection_mean_correlation"),
            CORRELATED,
            arm=arm,
            expected=arm == "none",
            why=f"{NEAR_ONE} {why}",
        )
    for arm, without in {"identity": "none", "linear": "none", "mlp": "none", "identity-ema": "none-ema"}.items():
        why = PAIRED if without == "none" else f"{PAIRED} {AVERAGED}"
        yield THE["head-decorrelates"].at_least(
            final(without, "projection_mean_correlation") - final(arm, "projection_mean_correlation"),
            0.0,
            arm=arm,
            why=why,
        )
        yield THE["head-keeps-rank"].at_least(
            final(arm, "projection_effective_rank") - final(without, "projection_effective_rank"),
            0.0,
            arm=arm,
            why=why,
        )
    yield THE["milder-in-encoder"].at_least(
        final("none", "projection_mean_correlation") - final("none", "encoder_mean_correlation"),
        0.0,
        arm="none",
        why=PAIRED,
    )
    for arm, why in (("none-l2", ""), ("identity-l2", WITH_HEAD), ("untrained", CONTROL)):
        yield THE["l2-no-head-collapses"].at_most(
            final(arm, "projection_final_spread"), POINT, arm=arm, expected=arm == "none-l2", why=f"{ONE_POINT} {why}"
        )


def headline(runs: Runs, claims: Sequence[Claim]) -> str:
    """What was found, in one sentence."""

    def percent(arm: str) -> str:
        return f"{100 * runs[arm]['linear_probe'].mean().item():.1f} %"

    def correlation(arm: str) -> str:
        return f"{runs[arm]['projection_mean_correlation'].mean().item():.2f}"

    expected = [claim.verdict for claim in claims if claim.expected]
    return (
        f"A linear probe names {percent('identity')} of the test images after training with the identity-initialised "
        f"head, {percent('mlp')} with the usual one, {percent('none')} without and {percent('untrained')} before "
        f"training; two outputs of the projection correlate by {correlation('identity')}, {correlation('mlp')}, "
        f"{correlation('none')} and {correlation('untrained')}; {expected.count('holds')} of the {len(expected)} "
        "statements expected to hold at this size do."
    )
