"""The figures of the study, described for the report to draw."""

from collections.abc import Iterator
from math import exp, log
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from featscope.claims import LEVEL
from featscope.figures import Curve, Curves, Figure, Panel
from featscope.studies.base import Runs
from featscope.studies.summaries import banded
from featscope.studies.tensor_power.judge import DIMENSION, LITTLE_LEAD, Judged, judged, mean, rival_growth
from featscope.theory import tensor_power as theory
from featscope.training.power_method import BLOCK

if TYPE_CHECKING:
    from featscope.studies.tensor_power.study import TensorPower

INTERVALS = f"Bands are {100 * LEVEL:.3g} % intervals over replicas."


def figures(study: "TensorPower", runs: Runs) -> Iterator[Figure]:
    """The figures, in the order of the story."""
    arms = judged(study, runs)
    yield _paths(study, runs)
    yield _step_sizes(study, arms["step-sizes"])
    yield _mended(study, runs, arms["steep"])


def _one(run: xr.Dataset, level: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Steps of the recursion, x and y of the first sequence until either has passed."""
    first = run.isel(replica=0, sequence=0)
    x, y = first["leader"].values, first["rival"].values
    until = 1 + int(((x <= level) & (y <= level)).sum())
    return run["step"].values[:until] * BLOCK, x[:until], y[:until]


def _paths(study: "TensorPower", runs: Runs) -> Curves:
    k, eta = study.power - 1, float(np.median(runs["step-sizes"]["step_size"]))
    steps, x, y = _one(runs["step-sizes"].sel(step_size=eta), study.level)
    time = np.linspace(0, steps[-1] * eta, 400)
    left = x[0] ** -k - k * study.scale * time
    time, leader = time[left > 1], left[left > 1] ** (-1 / k)
    rival = theory.rival_inverse_power(y[0], x[0], leader, study.strongest, study.power) ** (-1 / k)
    compared = {f"lead {lead:.3g}": runs["rivals"].sel(lead=lead) for lead in (LITTLE_LEAD, log(DIMENSION))}
    others = [("behind: lead 0.9", runs["overtaken"]), ("power 1", runs["linear"].isel(start=-1))]
    against = [
        Curve(label, x / x[0], np.minimum(y, study.level) / y[0])
        for label, (_, x, y) in ((label, _one(run, study.level)) for label, run in [*compared.items(), *others])
    ]
    return Curves(
        "paths",
        "The leader takes off, and the rival is left where it is",
        f"One sequence each. Left, a leader and a rival whose factor is {study.strongest:g} times as large, 10 % "
        f"behind the threshold, at η = {eta:g}; dashed, the closed forms of small η. Right, rival against leader: by a "
        f"power of {study.power} a rival stays, unless it was ahead of the threshold (until it passes A); "
        "by a power of 1 both grow alike.",
        [
            Panel(
                "Over time",
                "time η t",
                "x, y",
                [
                    Curve("leader x", steps * eta, x),
                    Curve("rival y", steps * eta, y),
                    Curve("x, closed form", time, leader, dashed=True),
                    Curve("y, closed form", time, np.asarray(rival), dashed=True),
                ],
            ),
            Panel("Rival against leader", "x / x_0", "y / y_0", against, log_x=True, log_y=True),
        ],
    )


def _step_sizes(study: "TensorPower", arm: Judged) -> Curves:
    eta, start = arm.run["step_size"].values, arm.run["leader_start"]
    limit = arm.limit()
    excess = mean(arm.run["total"] / limit - 1).transpose("replica", "step_size")
    first = theory.sum_excess(start.values[0], arm.level, arm.power, 1.0, study.scale * exp(study.spread**2))
    deltas = np.geomspace(0.003, 1, 60)
    middle = float(start.mean())
    of = float(theory.sum_limit(middle, arm.level, arm.power))
    lower = [float(theory.sum_lower_bound(middle, arm.level, arm.power, d, 0.0)) / of for d in deltas]

    def upper(step_size: float) -> np.ndarray:
        step = step_size * arm.level**arm.power * float(arm.run["factor"].sel(step_size=step_size).mean())
        return np.array([float(theory.sum_upper_bound(middle, arm.level, arm.power, d, step)) / of for d in deltas])

    bounds = [Curve(f"upper, η = {size:g}", deltas, upper(size)) for size in (eta[0], eta[-1])]
    return Curves(
        "step-sizes",
        "Lemma G.1's sum and its bounds",
        f"The sum of η C_t until x passes A, over its limit of small η. Left, what is left to 1; dashed, first order. "
        f"Right, the printed bounds over δ, with C's largest value in the error of the upper one and no error in the "
        f"lower one; measured sums lie within {float(excess.max()):.1%} above the line at 1. {INTERVALS}",
        [
            Panel(
                "Excess over the limit",
                "step size η",
                "sum / limit - 1",
                [
                    banded("measured", eta, excess),
                    Curve("first order", eta, eta * float((first / limit.values[0]).mean()), dashed=True),
                ],
                log_x=True,
                log_y=True,
            ),
            Panel(
                "Printed bounds",
                "δ",
                "bound / limit",
                [
                    *bounds,
                    Curve("lower", deltas, np.array(lower)),
                    Curve("limit", deltas, np.ones_like(deltas), dashed=True),
                ],
                log_x=True,
                log_y=True,
            ),
        ],
    )


def _mended(study: "TensorPower", runs: Runs, steep: Judged) -> Curves:
    rivals = runs["rivals"]
    lead = rivals["lead"].values
    deltas = np.geomspace(0.003, 1, 60)
    start = float(steep.run["leader_start"].mean())
    of = float(theory.sum_limit(start, steep.level, steep.power, steep.weight))

    def bound(*, mended: bool) -> np.ndarray:
        where = start, steep.level, steep.power, steep.weight
        return np.array([float(theory.weighted_lower_bound(*where, d, 0.0, mended=mended)) / of for d in deltas])

    found = runs["starts"]
    x_0 = found["leader_start"].mean(["replica", "sequence"]).values
    share = mean(found["area"] / found["leader_end"] ** 2).transpose("replica", "start")
    return Curves(
        "mended",
        "A corollary in numbers, and two statements that need mending",
        f"Left, Corollary G.2: the most that a rival grows in {rivals.sizes['sequence']} sequences, S_t random; "
        "dashed, the closed form for S_t at its largest. Middle, Lemma G.3's lower bound at q = 20, q' = 3 without its "
        "error, over the limit that it must not exceed: as printed, and with the lost factor. Right, Claim E.8: the "
        f"sum C over the square of the last x; P has 1. {INTERVALS}",
        [
            Panel(
                "What the rival gains",
                "lead over the threshold",
                "y / y_0 - 1",
                [
                    banded("measured", lead, largest_of(rival_growth(rivals) - 1)),
                    Curve("ceiling", lead, np.asarray(theory.rival_ceiling(lead, study.power) - 1), dashed=True),
                ],
                log_x=True,
                log_y=True,
            ),
            Panel(
                "Lower bound of Lemma G.3",
                "δ",
                "bound / limit",
                [
                    Curve("printed", deltas, bound(mended=False)),
                    Curve("mended", deltas, bound(mended=True)),
                    Curve("limit", deltas, np.ones_like(deltas), dashed=True),
                ],
                log_x=True,
            ),
            Panel(
                "Claim E.8",
                "x_0",
                "C / x_T²",
                [
                    banded("measured", x_0, share),
                    Curve("printed", x_0, np.ones_like(x_0), dashed=True),
                    Curve("closed form", x_0, (1 - (x_0 / study.level) ** 2) / 2, dashed=True),
                ],
                log_x=True,
            ),
        ],
    )


def largest_of(growth: xr.DataArray) -> xr.DataArray:
    """The largest over sequences ``[replica, lead]``."""
    return growth.max("sequence", skipna=False).transpose("replica", "lead")
