"""What one loop does: a step of gradient descent (dissertation, Lemma 8.13, Theorem 8.14, Definition 8.6)."""

from dataclasses import dataclass
from functools import partial

import xarray as xr

from featscope.claims import STATED, bound, identity, ordering
from featscope.studies.base import Runs
from featscope.studies.looped_transformer.arms import ANY, CAUSAL, FEW, ITSELF, REAL, SIZES, LoopedTransformerArms
from featscope.studies.looped_transformer.figure_8_1 import FigureEightOne
from featscope.studies.reductions import known, largest, mean

EXACT = 1e-12
WRONG = (ITSELF, CAUSAL)
of_every_prompt = partial(bound, law="extreme", things=lambda study: study.prompts)
APART = f"Bound: a hundredth of the estimate; {STATED}"


def exactly(study: LoopedTransformerArms) -> list[str]:
    """Arms whose loops are steps of gradient descent."""
    return [*study.lengths, ANY, SIZES, FEW, REAL]


@dataclass(frozen=True)
class OneLoop(FigureEightOne):
    """Claims of a single loop."""

    @of_every_prompt(
        "Lemma 8.13, Theorem 8.14",
        on=exactly,
        not_on=WRONG,
        at_most=EXACT,
        because="Bound: rounding of float64.",
        note="At every loop, for any α, query and step sizes (`any-start`). The text counts loops from 2; read 1.",
    )
    def equals_gradient_descent(self, run: xr.Dataset) -> xr.DataArray:
        r"""A loop of the transformer is a step of gradient descent.

        With the hand-set $Q$, $P$ and mask the answer over $\alpha$ after $t$ loops is $\theta^{(t)}$ of gradient
        descent on $\|y - X\theta\|^2/2$ from $-q_0/\alpha$. Measured: largest difference over loops and prompts,
        relative to the larger of 1 and the estimate.
        """
        return largest(run.gap)

    @of_every_prompt(
        "derived, for Theorem 8.14",
        on=exactly,
        not_on=WRONG,
        at_most=1e-11,
        because="Bound: rounding of an eigendecomposition, a hundred times that of the loops.",
        note="Independent of gradient descent: it knows eigenvalues and directions only.",
    )
    def closed_form_error(self, run: xr.Dataset) -> xr.DataArray:
        r"""The error after any number of loops has a closed form.

        $\langle\mathrm{TF}, \theta^*\rangle/\alpha - 1 = \sum_i a_i b_i \prod_s (1 - \eta_s\lambda_i)$, $a$ and $b$
        the coordinates of $\theta^{(0)} - \theta^*$ and of $\theta^*$ in the eigenvectors of $X^\top X$. Measured:
        largest difference over loops and prompts.
        """
        return largest(run.off_closed_form)

    @identity(
        "derived, for Theorem 8.14",
        on=ANY,
        equals=0.0,
        within=0.1,
        because="Tolerance: three standard deviations of the mean of a thousand fair signs, 3/√1000.",
    )
    def targets_of_either_sign(self, run: xr.Dataset) -> xr.DataArray:
        r"""Prompts ask for numbers of either sign.

        What is said of any $\alpha$ is tried where it is below 0, too. Measured: mean sign of $\alpha$ of a thousand
        prompts.
        """
        return run.mean_sign

    @bound(
        "derived, for Theorem 8.14",
        on=ANY,
        at_least=0.1,
        because=f"Bound: a tenth of the target; {STATED}",
        note="From q_0 = 0 it is 0.",
    )
    def queries_are_random(self, run: xr.Dataset) -> xr.DataArray:
        r"""Prompts begin at any query.

        Measured: how far the error is from 1 before the first loop, $|\langle q_0, \theta^*\rangle/\alpha|$, mean over
        prompts.
        """
        return mean(abs(run.error.isel(step=0) - 1))

    @bound(
        "derived, for Theorem 8.14",
        on=ANY,
        at_least=0.5,
        because=f"Bound: half of the prompts; {STATED}",
        given=lambda study: study.loops >= 4,
        law="share",
        note="With one step size for all loops it is none: sums of powers are convex in logarithms.",
    )
    def steps_differ_from_loop_to_loop(self, run: xr.Dataset) -> xr.DataArray:
        r"""Each loop has a step size of its own.

        Measured: share of prompts whose log squared error bends down somewhere, by more than a millionth.
        """
        bend = run.log_closed.diff("step").diff("step")
        return known((bend < -1e-6).any("step"), run.log_closed)

    @ordering("Definition 8.6", on=lambda study: study.lengths[0], more_than=0.01, because=APART)
    def full_mask_breaks_it(self, runs: Runs, arm: str) -> xr.DataArray:
        """A query that attends to itself, too, does something else.

        Measured: largest difference to gradient descent over 20 loops where the mask's last row is all ones, less that
        with the mask as it should be, mean over prompts.
        """
        return self._more_off(runs, ITSELF, arm)

    @ordering("Definition 8.6", on=lambda study: study.lengths[0], more_than=0.01, because=APART)
    def causal_mask_breaks_it(self, runs: Runs, arm: str) -> xr.DataArray:
        """Tokens that attend to all before them, as language models' do, do something else.

        Measured: largest difference to gradient descent over 20 loops with a causal mask, less that with the mask as it
        should be, mean over prompts.
        """
        return self._more_off(runs, CAUSAL, arm)

    def _more_off(self, runs: Runs, wrong: str, arm: str) -> xr.DataArray:
        loops = runs[wrong].step[-1].item()
        right = runs[arm].gap.sel(step=slice(loops))
        return mean(runs[wrong].gap.max("step", skipna=False)) - mean(right.max("step", skipna=False))
