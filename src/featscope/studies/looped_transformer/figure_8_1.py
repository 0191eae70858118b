"""Figure 8.1: how the error falls with loops for prompts of different lengths, and how far it is from the bound."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import xarray as xr

from featscope.claims import POSITIVE, STATED, Found, bound, identity, ordering
from featscope.studies.base import Runs
from featscope.studies.looped_transformer.arms import LoopedTransformerArms
from featscope.studies.looped_transformer.figures import ROUNDED
from featscope.studies.reductions import largest, mean
from featscope.theory import looped_transformer as theory

PRINTED = {"n=16": (4.57, 1.03), "n=32": (3.13, 0.4), "n=64": (2.07, 0.19), "n=128": (1.62, 0.11)}
"""Mean condition numbers that the figure prints, of ten prompts, and half of the range in which 90 % of such means lie.
"""
LONG = "The longest prompts less the shortest."


def printed(study: LoopedTransformerArms) -> list[str]:
    """Arms of which the figure gives a condition number."""
    return [name for name in study.lengths if name in PRINTED]


@dataclass(frozen=True)
class FigureEightOne(LoopedTransformerArms):
    """Claims of Figure 8.1 and of the text about it."""

    @identity(
        "Figure 8.1",
        on=printed,
        relation="=",
        because="Tolerance: half the range in which 90 % of means of ten prompts lie.",
        given=lambda study: study.dimension == 4,
        range=POSITIVE,
    )
    def figure_8_1_kappa(self, run: xr.Dataset, arm: str) -> Found:
        r"""Condition numbers are those of the figure.

        Measured: mean $\kappa$ of a thousand prompts.
        """
        printed, half = PRINTED[arm]
        return Found(run.mean_kappa, predicted=printed, tolerance=half)

    @bound(
        "Theorem 8.25",
        on=lambda study: study.lengths,
        at_most=0.0,
        law="extreme",
        things=lambda study: study.prompts,
        note="Prompt by prompt. The figure has the log of a mean beside the mean κ, where 10 prompts may cross.",
    )
    def below_the_line(self, run: xr.Dataset) -> xr.DataArray:
        r"""The squared error of every prompt falls below the figure's dashed line.

        $\log\|\theta_t-\theta^*\|^2/\|\theta_0-\theta^*\|^2 \le -t/\kappa$ with the prompt's own $\kappa$. Measured:
        the left less the right, a loop; the largest over prompts and loops, until rounding ends the fall.
        """
        fallen = (run["step"] == 0) | (run.log_error <= ROUNDED)
        excess = (run.log_error + run["step"] / run.kappa) / run["step"]
        return largest(excess.where(~fallen, -np.inf))

    @identity(
        "derived, for Theorem 8.25",
        on=lambda study: study.lengths,
        equals=1.0,
        within=0.05,
        because=f"Tolerance: 5 %, for faster directions that are not yet gone; {STATED}",
        note="The theorem contracts the square where descent contracts the error: it is loose by two and more.",
        range=POSITIVE,
    )
    def slope_is_2log(self, run: xr.Dataset) -> xr.DataArray:
        r"""The log of the squared error falls twice as fast as printed, and more.

        By $2\log(1-1/\kappa)$ a loop, where the theorem has $-1/\kappa$. Measured: the slope over the last half of the
        fall before rounding ends it, over this, mean over prompts.
        """
        return mean(self.measured_slope(run) / xr.apply_ufunc(theory.slope, run.kappa))

    @ordering("Section 8.6", on=lambda study: study.lengths[-1], less_than=0.0, note=LONG)
    def longer_prompts_are_faster(self, runs: Runs) -> xr.DataArray:
        """The more examples, the faster the error falls.

        Measured: slope of the log squared error at one length less that at the next shorter one, mean over prompts; the
        largest over lengths.
        """
        slopes = [mean(self.measured_slope(runs[name])) for name in self.lengths]
        return largest(xr.concat([b - a for a, b in pairwise(slopes)], "pair"))

    @ordering(
        "Section 8.6",
        not_on=lambda study: study.lengths[-1],
        less_than=0.0,
        note=f"{LONG} In a plot it can look so, as rounding ends the fall of long prompts first.",
    )
    def gap_narrows_with_n(self, runs: Runs) -> xr.DataArray:
        r"""The distance to the printed bound narrows as there are more examples.

        Measured: how much faster a loop the log squared error falls than $1/\kappa$, mean over prompts.
        """
        return self._gap(runs)

    @ordering(
        "derived, for Section 8.6",
        on=lambda study: study.lengths[-1],
        more_than=0.0,
        note=LONG,
        corrects="gap-narrows-with-n",
    )
    def gap_widens_with_n(self, runs: Runs) -> xr.DataArray:
        r"""The distance to the printed bound widens as there are more examples.

        $-2\log(1-1/\kappa) - 1/\kappa$ grows as $\kappa$ falls to 1. Measured: how much faster a loop the log squared
        error falls than $1/\kappa$, mean over prompts.
        """
        return self._gap(runs)

    def _gap(self, runs: Runs) -> xr.DataArray:
        first, *_, last = (-mean(self.measured_slope(runs[name]) + 1 / runs[name].kappa) for name in self.lengths)
        return last - first

    @identity(
        "derived, for Figure 8.1",
        on=lambda study: study.lengths,
        equals=1.0,
        within=0.1,
        because=f"Tolerance: 10 %; {STATED}",
        note="Judged where the crossing is within the loops. The figure's curves cannot go where they seem to.",
        range=POSITIVE,
    )
    def rounding_floor_crossing(self, run: xr.Dataset) -> xr.DataArray | None:
        r"""In float64 the figure's curve crosses above its dashed line at a loop that follows from κ.

        Coordinates rounded to float64 leave a squared error of $\epsilon^2/22$, where the line $-t/\kappa$ arrives at
        $t = 75\kappa$. Measured: the first loop at which the log of the prompts' mean is beyond the line of their mean
        $\kappa$, over this.
        """
        kappa = mean(run.kappa)
        if float(1.1 * theory.FLOOR * kappa.max()) > self.loops:
            return None
        curve = np.log(np.exp(run.log_error).mean("prompt", skipna=False))
        beyond = (curve > -run["step"] / kappa) & (run["step"] > 0)
        first = run["step"].where(beyond).min("step", skipna=True)  # never beyond: NaN
        return first.where(curve.notnull().all("step")) / (theory.FLOOR * kappa)

    def measured_slope(self, run: xr.Dataset) -> xr.DataArray:
        """Fall of the log squared error a loop, over the last half of the loops before it is at the floor."""
        falling = run.log_error > ROUNDED
        last = run["step"].where(falling).max("step", skipna=True)  # others are at the floor
        middle = (last / 2).round()
        ends = [run.log_error.where(run["step"] == at).max("step", skipna=True) for at in (middle, last)]
        return ((ends[1] - ends[0]) / (last - middle)).where(run.log_error.notnull().all("step"))
