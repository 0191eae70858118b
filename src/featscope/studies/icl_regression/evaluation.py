"""Claims of Theorems 5.4.2 and 5.4.3: errors of evaluation, their parts, and what each direction adds."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from featscope.claims import POSITIVE, STATED, bound, identity, ordering, scaling
from featscope.studies.icl_regression.arms import (
    COVERED,
    EVALUATION,
    FEW,
    LARGE,
    LAST,
    LENGTHS,
    IclRegressionArms,
)
from featscope.studies.icl_regression.sampling import Evaluated
from featscope.studies.reductions import known, largest, mean, smallest
from featscope.theory import icl_regression as theory

CLOSE = 0.02
MONTE_CARLO = f"Tolerance: 2 % for Monte Carlo; {STATED}"
MOST = f"Bound: most replicas; {STATED}"
WRONG = "These models keep other directions."
_GRID = ("rank", "noise")


@dataclass(frozen=True)
class EvaluationClaims(IclRegressionArms):
    """Claims about models that are set by hand, on noisy prompts."""

    def options(self, arm: str) -> Evaluated:
        """Of the evaluation on ``arm``."""
        return self.arm(arm).recipe.learner

    def coefficients(self, arm: str) -> np.ndarray:
        """v of every rank ``[rank, d]``."""
        data = self.options(arm).data
        return theory.coefficients(data.spectrum, data.samples)

    def formula(self, arm: str, examples: int | None = None) -> xr.DataArray:
        """Theorem 5.4.2 for every rank and noise."""
        o = self.options(arm)
        rows = [
            theory.evaluation_loss(self.coefficients(arm), o.data.spectrum, o.task, examples or o.examples, noise)
            for noise in o.noises
        ]
        return xr.DataArray(np.stack(rows, -1), dims=_GRID)

    # --- Theorem 5.4.2 ------------------------------------------------------------------------------------------------

    @bound(
        "Theorem 5.4.2",
        on=(EVALUATION, COVERED, LARGE),
        not_on={LAST: WRONG},
        at_most=0.03,
        because=f"Bound: 3 % for Monte Carlo; {STATED}",
        range=POSITIVE,
    )
    def evaluation_loss(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""The error of every rank at every noise is that of the formula.

        $\frac1M\|s\|^2_{V^2D^3} + \frac1M(\|w\|_D^2+\sigma^2)\mathrm{tr}(V^2D^2) + \|\xi\|_D^2
        + \sum_{i\le r} s_i^2\lambda_i(\lambda_iv_i-1)^2$. Measured: difference over it without sign, the largest over
        ranks and noises.
        """
        return largest(abs(run.loss / self.formula(arm) - 1))

    @identity(
        "Theorem 5.4.2, proof",
        on=(EVALUATION, COVERED, LARGE),
        not_on={LAST: WRONG},
        equals=1.0,
        within=CLOSE,
        because=MONTE_CARLO,
        range=POSITIVE,
        corrects="input-noise-as-printed",
    )
    def input_noise(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""What few examples add to the error is the formula's input noise.

        $\frac1M(\|s\|^2_{V^2D^3} + \|w\|_D^2\,\mathrm{tr}(V^2D^2))$. Measured: variance of the answers without label
        noise, over it, mean over ranks.
        """
        return self._of_input(run, arm, 3)

    @identity(
        "proof of Theorem 5.4.3",
        not_on=(EVALUATION, COVERED),
        equals=1.0,
        within=CLOSE,
        because=MONTE_CARLO,
        note="The proof prints D² where Theorem 5.4.2 has D³; it cancels there.",
        range=POSITIVE,
    )
    def input_noise_as_printed(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""What few examples add to the error is what the proof of Theorem 5.4.3 prints.

        With $\|s\|^2_{V^2D^2}$. Measured: variance of the answers without label noise, over it, mean over ranks.
        """
        return self._of_input(run, arm, 2)

    def _of_input(self, run: xr.Dataset, arm: str, power: int) -> xr.DataArray:
        o = self.options(arm)
        wanted = theory.input_noise(self.coefficients(arm), o.data.spectrum, o.task, o.examples, power)
        return mean((run.input_noise / xr.DataArray(wanted, dims="rank")).isel(rank=slice(1, None)))

    @identity(
        "Theorem 5.4.2, proof",
        on=(EVALUATION, COVERED, LARGE),
        not_on={LAST: WRONG},
        equals=1.0,
        within=CLOSE,
        because=MONTE_CARLO,
        note="Term (II) of the proof prints x_iᵀ U x_i, where x_iᵀ U x_q belongs.",
        range=POSITIVE,
    )
    def label_noise(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""What noisy labels add to the error is the formula's label noise.

        $\frac{\sigma^2}{M}\mathrm{tr}(V^2D^2)$. Measured: variance of the answers to noise alone, over it, mean over
        ranks.
        """
        o = self.options(arm)
        wanted = theory.label_noise(self.coefficients(arm), o.data.spectrum, o.examples, 1.0)
        return mean((run.label_noise / xr.DataArray(wanted, dims="rank")).isel(rank=slice(1, None)))

    @identity(
        "Theorem 5.4.2, proof",
        on=(EVALUATION, COVERED),
        not_on={LAST: WRONG},
        equals=0.0,
        within=0.01,
        because=f"Tolerance: 1 % of the error of no model; {STATED}",
    )
    def residual_bias(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""Directions beyond the rank leave all of the task that is in them.

        $\|\xi\|_D^2$. Measured: squared bias of the mean answer in them less it, over the error of rank 0; of all ranks
        the largest without sign.
        """
        o = self.options(arm)
        wanted = xr.DataArray(theory.residual_bias(self.coefficients(arm), o.data.spectrum, o.task), dims="rank")
        return largest(abs(run.residual_bias - wanted)) / wanted[0]

    @identity(
        "Theorem 5.4.2, proof",
        on=(EVALUATION, COVERED),
        not_on={LAST: WRONG},
        equals=1.0,
        within=0.05,
        because=f"Tolerance: 5 % for Monte Carlo, of what is the square of a small mean; {STATED}",
        range=POSITIVE,
    )
    def shrinkage_bias(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""Directions within the rank are shrunk as the formula says.

        $\sum_{i\le r}s_i^2\lambda_i(\lambda_iv_i-1)^2$. Measured: squared bias of the mean answer in them over it, mean
        over ranks.
        """
        o = self.options(arm)
        wanted = theory.shrinkage_bias(self.coefficients(arm), o.data.spectrum, o.task)
        return mean((run.shrinkage_bias / xr.DataArray(wanted, dims="rank")).isel(rank=slice(1, None)))

    @bound(
        "after Theorem 5.4.2",
        on=LARGE,
        not_on={EVALUATION: "There N λ_r is no more than a few times tr D."},
        at_most=0.03,
        because=f"Bound: 3 % for Monte Carlo; {STATED}",
        note="The text asks for N λ_r >> tr D.",
        range=POSITIVE,
    )
    def approximation(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""After long pretraining the error needs no eigenvalues but in norms.

        $\|\xi\|_D^2 + \frac1M((r+1)\|s\|_D^2 + r\|\xi\|_D^2 + r\sigma^2)$. Measured: difference over it without sign,
        the largest over ranks of 1 and more and noises.
        """
        o = self.options(arm)
        rows = [theory.approximate_loss(o.data.spectrum, o.task, o.examples, noise) for noise in o.noises]
        off = abs(run.loss / xr.DataArray(np.stack(rows, -1), dims=_GRID) - 1)
        return largest(off.isel(rank=slice(1, None)))

    # --- What each direction adds -------------------------------------------------------------------------------------

    @identity(
        "derived, for Theorem 5.4.2",
        on=(EVALUATION, COVERED, LARGE),
        not_on={LAST: WRONG},
        equals=1.0,
        within=CLOSE,
        because=MONTE_CARLO,
    )
    def marginal_value(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""What one direction more adds to the error, or takes from it, follows from its own numbers.

        $p_i^2(\|w\|_D^2+\sigma^2)/M + w_i^2\lambda_i(p_i^2/M + (p_i-1)^2 - 1)$, $p_i = \lambda_iv_i$. Measured: slope
        of the measured differences of neighbouring ranks against it, over all ranks and noises.
        """
        o = self.options(arm)
        rows = [
            theory.marginal_values(o.data.spectrum, o.task, o.data.samples, o.examples, noise) for noise in o.noises
        ]
        wanted = xr.DataArray(np.stack(rows, -1), dims=_GRID)
        return (run.loss.diff("rank") * wanted).sum(_GRID, skipna=False) / (wanted**2).sum(_GRID)

    @bound("derived, for Theorem 5.4.2", on=EVALUATION, at_least=0.5, because=MOST, law="yes/no")
    def best_rank_falls_with_noise(self, run: xr.Dataset) -> xr.DataArray:
        """The noisier the labels, the smaller the best rank.

        Measured: whether the rank of least error is smaller at the most noise than at the least.
        """
        best = run.loss.fillna(np.inf).argmin("rank")
        return known(best.isel(noise=-1) < best.isel(noise=0), run.loss)

    @bound(
        "derived, for Theorem 5.4.2",
        on=(EVALUATION, COVERED, LARGE),
        not_on={LAST: WRONG},
        at_least=0.5,
        because=MOST,
        law="yes/no",
    )
    def best_rank_is_predicted(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        """The formula names the best rank for every noise.

        Measured: whether the error at the predicted rank is within 1 % of the least measured, at all noises, as
        neighbouring ranks may be as good.
        """
        chosen = run.loss.isel(rank=self.formula(arm).argmin("rank"))
        return known(largest(chosen / run.loss.min("rank") - 1) <= 0.01, run.loss)

    # --- Theorem 5.4.3 ------------------------------------------------------------------------------------------------

    @identity("Theorem 5.4.3", on=COVERED, equals=1.0, within=CLOSE, because=MONTE_CARLO, range=POSITIVE)
    def gap_of_ranks(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""A larger model is worse by what its further directions let in.

        Where rank $r$ covers the task, $\frac1M(\|s\|_D^2+\sigma^2)\sum_{i>r}p_i^2$ to full rank. Measured: error of
        full rank less that of the rank that covers the task, over it, mean over noises.
        """
        return mean(self._gap(run) / xr.DataArray(self._predicted_gap(arm), dims="noise"))

    @identity("Theorem 5.4.3", on=COVERED, equals=1.0, within=CLOSE, because=MONTE_CARLO)
    def gap_is_affine_in_noise(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""The gap grows in proportion to the variance of label noise.

        At a slope of $\frac1M\sum_{i>r}p_i^2$. Measured: slope from the least to the most noise over it.
        """
        gap, noises = self._gap(run), self.options(arm).noises
        wanted = np.diff(self._predicted_gap(arm)[[0, -1]])[0] / (noises[-1] - noises[0])
        return (gap.isel(noise=-1) - gap.isel(noise=0)) / (noises[-1] - noises[0]) / wanted

    @ordering("Theorem 5.4.3", on=COVERED, more_than=0.0)
    def larger_models_are_worse(self, run: xr.Dataset) -> xr.DataArray:
        """Beyond what covers the task, each rank is worse than the one before.

        Measured: error of a rank less that of the rank before, the least over ranks and noises.
        """
        return smallest(run.loss.isel(rank=slice(self.covered, None)).diff("rank"))

    @scaling("Theorem 5.4.3", on=LENGTHS, equals=-1.0, within=CLOSE, because=MONTE_CARLO)
    def gap_falls_with_examples(self, run: xr.Dataset) -> xr.DataArray:
        r"""The gap falls as one over the number of examples.

        Measured: slope of its log over $\log M$, mean over noises.
        """
        gap = xr.apply_ufunc(np.log, self._gap(run)).mean("noise", skipna=False)
        at = np.log(run.examples)
        return ((at - at.mean()) * gap).sum("examples", skipna=False) / ((at - at.mean()) ** 2).sum()

    @identity(
        "Section 5.7",
        on=FEW,
        not_on={COVERED: "Inputs vary in every direction there."},
        equals=0.0,
        within=1e-9,
        because="Tolerance: rounding.",
        law="exact",
        note="The text calls such directions noise of pretraining, whose labels have none. A check of the arithmetic: "
        "inputs and weights are 0 there.",
    )
    def no_gap_without_further_directions(self, run: xr.Dataset) -> xr.DataArray:
        """There is no gap where inputs do not vary beyond the directions of the task.

        Measured: error of full rank less that of the rank that covers the task, the largest over noises.
        """
        return largest(abs(self._gap(run)))

    @bound(
        "Section 5.7",
        not_on={COVERED: "Few examples let input noise in with clean labels, too."},
        at_most=0.1,
        because=f"Bound: a tenth of the gap at the least noise but one; {STATED}",
        given=lambda study: study.noises[0] == 0,
        range=POSITIVE,
    )
    def gap_needs_label_noise(self, run: xr.Dataset) -> xr.DataArray:
        """A gap appears only if labels are noisy.

        Measured: the gap with the least noise over that with the second least.
        """
        gap = self._gap(run)
        return gap.isel(noise=0) / gap.isel(noise=1)

    @ordering(
        "derived, for Section 5.7",
        on=COVERED,
        more_than=0.0,
        given=lambda study: study.noises[0] == 0,
        corrects="gap-needs-label-noise",
    )
    def gap_without_label_noise(self, run: xr.Dataset) -> xr.DataArray:
        """A gap remains where labels are clean.

        Measured: error of full rank less that of the rank that covers the task, with the least noise.
        """
        return self._gap(run).isel(noise=0)

    def _gap(self, run: xr.Dataset) -> xr.DataArray:
        return run.loss.isel(rank=-1) - run.loss.isel(rank=self.covered)

    def _predicted_gap(self, arm: str) -> np.ndarray:
        o = self.options(arm)
        return theory.gap(self.covered, o.data.spectrum, o.task, o.data.samples, o.examples, np.asarray(o.noises))

    # --- Lemma D.2 ----------------------------------------------------------------------------------------------------

    @identity(
        "Lemma D.2, mended",
        on=(EVALUATION, COVERED),
        equals=1.0,
        within=CLOSE,
        because=MONTE_CARLO,
        corrects="second-moment-as-printed",
    )
    def second_moment(self, run: xr.Dataset) -> xr.DataArray:
        r"""The second moment of an example is that of the lemma with its transpose put right.

        $E[y^2xx^\top] = (\sigma^2+\|w\|^2_\Lambda)\Lambda + 2\Lambda ww^\top\Lambda$. Measured: least-squares
        coefficient of the last matrix over 2.
        """
        return run.second_mended.isel(term=1)

    @identity("Lemma D.2, mended", on=(EVALUATION, COVERED), equals=1.0, within=CLOSE, because=MONTE_CARLO)
    def covariance_of_examples(self, run: xr.Dataset) -> xr.DataArray:
        r"""The covariance of an example is that of the lemma with its transpose put right.

        $\mathrm{Cov}(yx) = (\sigma^2+\|w\|^2_\Lambda)\Lambda + \Lambda ww^\top\Lambda$. Measured: mean of the
        least-squares coefficients of both matrices, each over its own.
        """
        return mean(run.covariance_mended)

    @identity(
        "Lemma D.2",
        not_on=EVALUATION,
        equals=1.0,
        within=CLOSE,
        because=MONTE_CARLO,
        note="Printed: wᵀw, a number, between two Λ.",
    )
    def second_moment_as_printed(self, run: xr.Dataset) -> xr.DataArray:
        r"""The second moment of an example is that of the lemma as printed.

        With $2\Lambda w^\top w\Lambda$. Measured: least-squares coefficient of that matrix over 2.
        """
        return run.second_printed.isel(term=1)
