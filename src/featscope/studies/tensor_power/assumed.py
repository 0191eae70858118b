"""What `tensor-power` claims of what the lemmas assume, and of its own sums: draws, paths, and where bounds meet."""

from dataclasses import dataclass
from functools import partial
from math import exp, expm1

import numpy as np
import xarray as xr
from scipy import special
from xarray import apply_ufunc

from featscope.claims import POSITIVE, ROUNDING, SHARE, Found, identity
from featscope.models.power_sequences import BLOCK, LEVEL
from featscope.studies.base import Runs, last
from featscope.studies.reductions import largest
from featscope.studies.tensor_power.arms import CUBIC, LITTLE_LEAD, TensorPowerArms
from featscope.studies.tensor_power.replay import REPLAYED
from featscope.studies.tensor_power.sums import DELTAS, Sums, clearest, mean
from featscope.theory import tensor_power as theory

SLOW, FAST = "wrong-power", "linear"  # controls that are judged by another power: sums are too large, too small
exactly = partial(identity, equals=0.0, within=1e-9, because=ROUNDING, law="exact", range=POSITIVE)
shares = partial(
    identity,
    within=0.3,
    because="Tolerance: 0.3, a stated choice.",
    law="draws",
    range=SHARE,
    given=lambda study: study.spread > 0,
)
OF_DRAWS = "Not in the paper: it assumes no law of C_t."
WITHIN_STREAMS = "from the seeds of replicas"


@dataclass(frozen=True)
class Assumed(TensorPowerArms):
    """Claims of draws, paths and sums."""

    def sums(self, run: xr.Dataset, arm: str) -> Sums:
        """The sums of an arm, and the powers by which they are judged."""
        method = self.arm(arm).recipe.learner
        power = CUBIC if arm in (SLOW, FAST) else method.power
        return Sums(run, run.coords.get("step_size", method.step_size), power, method.weight)

    # --- What is drawn ------------------------------------------------------------------------------------------------

    @identity(
        "from the options",
        on="step-sizes",
        equals=1.0,
        within=0.01,
        because="Tolerance: 1 %, a stated choice.",
        note=OF_DRAWS,
        range=POSITIVE,
    )
    def factors_have_their_mean(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""Factors are as large as they are said to be.

        By Wald's first identity $\sum C_t$ over the $T$ steps with $x_t \le A$ is $T\,\mathbb{E}[C]$ in the mean.
        Measured: one over the other at the smallest $\eta$, mean over sequences.
        """
        finest = clearest(run)
        return mean(self._factors(finest, arm) / (self.arm(arm).recipe.learner.scale * finest.taken))

    @shares("from the options", on="step-sizes", equals=0.6827, note=OF_DRAWS)
    def factors_are_independent(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""Factors of different steps are independent.

        $\sum C_t$ over $T$ steps is off its mean by about $\sigma\sqrt T$, by Wald's second identity; factors that
        repeated would take it much farther. Measured: share of sequences within that, smallest $\eta$; 68 % by a
        Gaussian law.
        """
        off = abs(self._off(run, arm))
        return (off < 1).where(off.notnull())

    @shares("from the options", on="step-sizes", equals=0.5, note=OF_DRAWS)
    def factors_have_their_tail(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""The largest factor is that of a log-normal law.

        The largest of $T$ factors is below its median, $\Phi^{-1}(2^{-1/T})$ standard deviations of the logarithm,
        half of the time. Measured: share of sequences where it is, smallest $\eta$.
        """
        finest, method = clearest(run), self.arm(arm).recipe.learner
        median = method.spread * special.ndtri(0.5 ** (1 / finest.taken)) - method.spread**2 / 2
        above = np.log(finest.factor / method.scale) - median
        return (above < 0).where(above.notnull())

    @shares(
        WITHIN_STREAMS,
        on="step-sizes",
        equals=0.5,
        law="share",
        note="Intervals are those of independent replicas.",
    )
    def replicas_independent(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""One replica's draws say nothing of another's.

        Measured: share of sequences whose start, or whose $\sum C_t$, is on the same side of its mean as in the next
        replica; draws in common would give 1.
        """
        start = clearest(run).leader_start
        sides = xr.concat([start - start.mean(), self._off(run, arm)], "of").transpose("replica", ...)
        alike = sides * np.roll(sides.values, 1, axis=0)
        return (alike > 0).where(alike.notnull())

    def _factors(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        """Σ C_t."""
        return run.total / self.sums(run, arm).step_size

    def _off(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        """Σ C_t off its mean, in standard deviations, at the smallest η."""
        finest, method = clearest(run), self.arm(arm).recipe.learner
        off = self._factors(finest, arm) - method.scale * finest.taken
        return off / (method.scale * np.sqrt(expm1(method.spread**2) * finest.taken))

    # --- A plain loop over the same draws -----------------------------------------------------------------------------

    @exactly(WITHIN_STREAMS, on=("step-sizes", "starts"))
    def starts_are_as_drawn(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        """Sequences begin where their draws say.

        They begin uniformly between the smallest start and a quarter more. Measured: start over that of the draw, off
        1; the farthest.
        """
        smallest = run.coords.get("start", self.arm(arm).recipe.learner.start)
        return largest(abs(run.leader_start / (smallest * run.drawn_start) - 1))

    @exactly("the recursion", on=("step-sizes", "rivals"))
    def paths_are_as_drawn(self, run: xr.Dataset) -> xr.DataArray:
        r"""Leaders and rivals go where their draws take them.

        $x_{t+1} = x_t + \eta C_t x_t^q$ and $y_{t+1} = y_t + \eta S_t C_t y_t^q$. Measured: what stands after 200 steps
        over what a plain loop over the same draws gives, off 1; the farthest.
        """
        there = run[["leader", "rival"]].reindex(step=[REPLAYED]).isel(step=0, drop=True)
        x, y = abs(there.leader / run.replayed_leader - 1), abs(there.rival / run.replayed_rival - 1)
        return largest(x + y)

    @exactly("the recursion", on="large-factors")
    def sums_are_of_the_path(self, run: xr.Dataset) -> xr.DataArray:
        r"""Sums and maxima are those of the path.

        Measured: $\sum \eta C_t$, $\sum \eta C_t x_t^{q'}$, $\sum x_t (x_{t+1} - x_t)$, the number of steps, the
        largest factor and steps, and the last $y$, over what a plain loop gives, off 1; the farthest.
        """
        return largest(run.replayed_apart)

    @exactly("the recursion", on=("step-sizes", "large-factors"))
    def paths_end_where_sums_do(self, run: xr.Dataset) -> xr.DataArray:
        """The last look is where sums end, and the first where they begin.

        Measured: leaders and rivals there, off the starts and ends that sums are judged by; the farthest.
        """
        path = run[["leader", "rival"]].to_dataarray("of")
        begin, end = (xr.concat([run[f"leader_{at}"], run[f"rival_{at}"]], "of") for at in ("start", "end"))
        return largest(abs(path.isel(step=0, drop=True) / begin - 1) + abs(last(run, path).drop_vars("step") / end - 1))

    @exactly("the recursion", on=("step-sizes", "large-factors"))
    def runs_end_when_all_have_passed(self, run: xr.Dataset) -> xr.DataArray:
        """A replica has passed with the slowest of its sequences.

        Measured: training steps until all had passed, off the most steps that a sequence took over 100, rounded up.
        """
        return largest(abs(run.passed - np.ceil(run.taken.max("sequence", skipna=False) / BLOCK)))

    @exactly("what sweeps show", on=("step-sizes", "rivals"))
    def summaries_are_of_sequences(self, run: xr.Dataset) -> xr.DataArray:
        r"""What sweeps show of a replica is what claims judge.

        Measured: the mean of $\sum \eta C_t$ and the largest $y/y_0$, over those of the sequences, off 1; the farthest.
        """
        growth = (run.rival_before / run.rival_start).max("sequence", skipna=False)
        return largest(abs(run.mean_total / mean(run.total) - 1) + abs(run.largest_growth / growth - 1))

    @identity(
        "derived here",
        on="starts",
        equals=1.0,
        within=0.03,
        because="Tolerance: 3 %; η is 1 %, and squared steps take half of it.",
        range=POSITIVE,
    )
    def linear_growth_is_geometric(self, runs: Runs) -> xr.DataArray:
        r"""Of power 1, which is a control, growth is geometric.

        $\sum \eta C_t$ is the logarithm of what a sequence has grown by, whatever its start. Measured: one over the
        other, mean over starts and sequences of the control.
        """
        run = runs[FAST]
        return mean(run.total / np.log(run.leader_end / run.leader_start)).mean("start", skipna=False)

    # --- Closed forms from both sides ---------------------------------------------------------------------------------

    @identity("derived, for Corollary G.2", on=("step-sizes", "rivals"), equals=1.0, range=POSITIVE)
    def rival_growth_has_closed_form(self, run: xr.Dataset, arm: str) -> Found:
        r"""How much a rival that is a tenth behind grows has a closed form.

        As $\eta$ goes to 0, $y/y_0$ goes to $(1 - s \lambda^{-(q-1)}(1 - (x_0/A)^{q-1}))^{-1/(q-1)}$, $\lambda$ the
        lead and $s$ the mean of $S_t$ over its largest value. Measured: growth over that at the smallest $\eta$, mean
        over sequences.
        """
        run = clearest(run.sel(lead=LITTLE_LEAD) if arm == "rivals" else run)
        sums, share = self.sums(run, arm), 0.5 if arm == "rivals" else 1.0
        k, eta = sums.power - 1, float(sums.step_size)
        lead = LITTLE_LEAD * (share * (1 - (run.leader_start / LEVEL) ** k)) ** (-1 / k)
        grown = run.rival_before / run.rival_start / apply_ufunc(theory.rival_ceiling, lead, sums.power)
        return Found(mean(grown), f"Tolerance: η = {eta:g}; the error is of that order.", tolerance=eta)

    @identity(
        "derived, for Lemma G.3",
        on="step-sizes",
        equals=1.0,
        within=0.1,
        because="Tolerance: second order in η; a stated choice.",
        range=POSITIVE,
    )
    def weighted_first_order_term(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""What small steps add to a weighted time has a closed form.

        $\sum \eta C_t x_t^{q'}$ is above its limit up to $x_T$ by $\eta (q - q')/2 \int x^{q'-1} dx \cdot
        \mathbb{E}[C^2]/\mathbb{E}[C]$. Measured: one over the other at the smallest $\eta$, means over sequences.
        """
        sums = self.sums(clearest(run), arm)
        passed = sums.run.leader_start, sums.run.leader_end
        limit = apply_ufunc(theory.sum_limit, *passed, sums.power, sums.weight)
        size_biased = self.scale * exp(self.spread**2)
        added = apply_ufunc(theory.weighted_excess, *passed, sums.power, sums.weight, sums.step_size, size_biased)
        return mean(sums.run["weighted"] - limit) / mean(added)

    @identity(
        "Lemma G.1",
        on="step-sizes",
        equals=1.0,
        within=0.1,
        because="Tolerance: second order in δ; a stated choice.",
        law="exact",
        range=POSITIVE,
    )
    def bounds_meet(self, run: xr.Dataset, arm: str) -> Found:
        r"""The printed bounds of the time meet as their levels close up.

        Without their errors they are $((3q - 2)\delta/2 + (x_0/A)^{q-1})$ apart, over the limit times $1 -
        (x_0/A)^{q-1}$, to first order in $\delta$. Measured: one over the other at the smallest $\delta$, mean over
        sequences.
        """
        sums = self.sums(run, arm)
        apart = sums.over(theory.sum_lower_bound, 0.0) - sums.over(theory.sum_upper_bound, 0.0)
        return self._closing(sums, apart, 0, (3 * sums.power - 2) / 2)

    @identity(
        "derived, for Lemma G.3",
        on="steep",
        equals=1.0,
        within=0.1,
        because="Tolerance: second order in δ; a stated choice.",
        law="exact",
        range=POSITIVE,
    )
    def weighted_bounds_meet(self, run: xr.Dataset, arm: str) -> Found:
        r"""The bounds of a weighted time, with the lost factor put back, meet as their levels close up.

        Without their errors they are $(2q' + (q - q')/2)\delta + (x_0/A)^k$ apart, $k = q - q' - 1$, over the limit
        times $1 - (x_0/A)^k$, to first order in $\delta$. Measured: one over the other at the smallest $\delta$, mean
        over sequences.
        """
        sums = self.sums(run, arm)
        lower = sums.over(theory.weighted_lower_bound, 0.0, sums.weight, mended=True)
        apart = lower - sums.over(theory.weighted_upper_bound, 0.0, sums.weight)
        return self._closing(sums, apart, sums.weight, 2 * sums.weight + (sums.power - sums.weight) / 2)

    def _closing(self, sums: Sums, apart: xr.DataArray, weight: int, slope: float) -> Found:
        """How far bounds are ``apart`` at the smallest δ, over what first order in δ gives."""
        beyond = (sums.run.leader_start / LEVEL) ** (sums.power - weight - 1)
        first_order = (slope * DELTAS[0] + beyond) / (1 - beyond)
        found = mean(apart.isel(delta=0) / first_order)
        return Found(largest(found), f"δ = {DELTAS[0]:g}.")
