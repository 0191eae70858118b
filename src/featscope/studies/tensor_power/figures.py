"""The figures of the study, described for the report to draw."""

from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from xarray import apply_ufunc

from featscope.claims import POSITIVE, SHARE
from featscope.figures import Curve, Curves, Panel
from featscope.models import PowerMethod
from featscope.models.power_sequences import BLOCK, LEVEL
from featscope.studies import Runs
from featscope.studies.summaries import chart, curve
from featscope.studies.tensor_power.sums import Sums, mean, rival_growth
from featscope.theory import tensor_power as theory

DELTAS = np.geomspace(0.003, 1, 60)


def paths(runs: Runs, method: PowerMethod, leads: tuple[float, float]) -> Curves:
    """Single sequences; ``method`` is that of the arm over step sizes, ``leads`` are of the arm of rivals."""
    power, eta = method.power, float(np.median(runs["step-sizes"]["step_size"]))
    steps, x, y = _one(runs["step-sizes"].sel(step_size=eta))
    time = np.linspace(0, steps[-1] * eta, 400)
    leader = np.asarray(theory.leader(x[0], method.scale * time, power))
    time, leader = time[leader < LEVEL], leader[leader < LEVEL]
    rival = theory.rival_inverse_power(y[0], x[0], leader, method.strongest, power) ** (-1 / (power - 1))
    others = {
        **{f"lead {lead:.3g}": runs["rivals"].sel(lead=lead) for lead in leads},
        "behind: lead 0.9": runs["overtaken"],
        "power 1": runs["linear"].isel(start=-1),
    }
    one_each = {label: _one(run)[1:] for label, run in others.items()}
    against = [Curve(label, x / x[0], np.minimum(y, LEVEL) / y[0]) for label, (x, y) in one_each.items()]
    over_time = [
        Curve("leader x", steps * eta, x),
        Curve("rival y", steps * eta, y),
        Curve("x, closed form", time, leader, dashed=True),
        Curve("y, closed form", time, np.asarray(rival), dashed=True),
    ]
    return Curves(
        "paths",
        "Does the leader take off, and is the rival left where it is?",
        f"One sequence each. Left, a leader and a rival whose factor is {method.strongest:g} times as large, 10 % "
        f"behind the threshold, at η = {eta:g}; dashed, the closed forms of small η. Right, rival against leader: by a "
        f"power of {power} a rival stays, unless it was ahead of the threshold (until it passes A); "
        "by a power of 1 both grow alike.",
        [
            Panel("Over time", "time (η t)", "size (x, y)", over_time),
            Panel("Against each other", "leader (x / x_0)", "rival (y / y_0)", against, log_x=True, log_y=True),
        ],
        claims=("rival-follows-law", "rival-stays-small", "rival-stands-still"),
    )


def _one(run: xr.Dataset) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Steps of the recursion, x and y of the first sequence until either has passed."""
    first = run.isel(replica=0, sequence=0)
    x, y = first["leader"].values, first["rival"].values
    until = 1 + int(((x <= LEVEL) & (y <= LEVEL)).sum())
    return run["step"].values[:until] * BLOCK, x[:until], y[:until]


def step_sizes(sums: Sums, size_biased: float) -> Curves:
    """Lemma G.1 over step sizes; ``size_biased`` is E[C²]/E[C]."""
    eta, start, limit = sums.run["step_size"].values, sums.run["leader_start"], sums.limit()
    excess = mean(sums.run["total"] / limit - 1)
    first = apply_ufunc(theory.sum_excess, start, LEVEL, sums.power, 1.0, size_biased) / limit
    middle = float(start.mean()), LEVEL, sums.power
    ends = {size: size * float(sums.run["factor"].sel(step_size=size).mean()) for size in (eta[0], eta[-1])}
    bounds = {
        **{f"upper, η = {size:g}": theory.sum_upper_bound(*middle, DELTAS, step) for size, step in ends.items()},
        "lower": theory.sum_lower_bound(*middle, DELTAS, 0.0),
    }
    measured = [
        curve(excess, "measured", "step_size"),
        Curve("first order", eta, eta * float(first.isel(step_size=0).mean()), dashed=True),
    ]
    printed = _over_delta(bounds, middle)
    return chart(
        "step-sizes",
        "Lemma G.1's sum and its bounds",
        "The sum of η C_t until x passes A, over its limit of small η. Left, what is left to 1; dashed, first order. "
        "Right, the printed bounds over δ, with C's largest value in the error of the upper one and no error in the "
        f"lower one; means of measured sums lie within {float(excess.max()):.1%} above the line at 1.",
        Panel("Excess over the limit", "step size (η)", "sum over its limit, less 1", measured, log_x=True, log_y=True),
        Panel("Printed bounds", "spacing of levels (δ)", "bound over the limit", printed, log_x=True, log_y=True),
        claims=("lower-bound", "upper-bound", "limit-is-a-floor", "error-is-first-order", "first-order-term"),
    )


def mended(runs: Runs, steep: Sums, power: int) -> Curves:
    """Corollary G.2 for sequences of ``power``, Lemma G.3 on the arm ``steep``, Claim E.8."""
    rivals, starts = runs["rivals"], runs["starts"]
    lead, x_0 = rivals["lead"].values, starts["leader_start"].mean(["replica", "sequence"]).values
    ceiling = np.asarray(theory.rival_ceiling(lead, power) - 1)
    gain = [
        curve(rival_growth(rivals).max("sequence", skipna=False) - 1, "measured", "lead", within=POSITIVE),
        Curve("ceiling", lead, ceiling, dashed=True),
    ]
    where = float(steep.run["leader_start"].mean()), LEVEL, steep.power, steep.weight
    lower = partial(theory.weighted_lower_bound, *where, DELTAS, 0.0)
    share = [
        curve(mean(starts["area"] / starts["leader_end"] ** 2), "measured", "start", x=x_0, within=SHARE),
        Curve("printed", x_0, np.ones_like(x_0), dashed=True),
        Curve("closed form", x_0, (1 - (x_0 / LEVEL) ** 2) / 2, dashed=True),
    ]
    bounds = _over_delta({"printed": lower(mended=False), "mended": lower(mended=True)}, where)
    return chart(
        "mended",
        "A corollary in numbers, and two statements that need mending",
        f"Left, Corollary G.2: the most that a rival grows in {rivals.sizes['sequence']} sequences, S_t random; "
        "dashed, the closed form for S_t at its largest. Middle, Lemma G.3's lower bound at q = 20, q' = 3 without its "
        "error, over the limit that it must not exceed: as printed, and with the lost factor. Right, Claim E.8: the "
        "sum C over the square of the last x; the paper has 1.",
        Panel("What the rival gains", "lead over the threshold", "growth (y / y_0 - 1)", gain, log_x=True, log_y=True),
        Panel("Lower bound of Lemma G.3", "spacing of levels (δ)", "bound over the limit", bounds, log_x=True),
        Panel("Claim E.8", "start (x_0)", "sum over the square of the end (C / x_T²)", share, log_x=True),
        claims=("rival-stands-still", "weighted-lower-bound", "weighted-lower-bound-mended", "sum-is-square"),
    )


def _over_delta(bounds: dict[str, Any], at: tuple[Any, ...]) -> list[Curve]:
    """Bounds over the limit ``at`` some start, level and powers, and a line at 1."""
    lines = [Curve(label, DELTAS, np.asarray(values / theory.sum_limit(*at))) for label, values in bounds.items()]
    return [*lines, Curve("limit", DELTAS, np.ones_like(DELTAS), dashed=True)]
