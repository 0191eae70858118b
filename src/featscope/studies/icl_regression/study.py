"""Larger models do in-context learning differently: rank-r linear self-attention on linear regression.

The chapter is the dissertation's Chapter 5, Sections 5.3, 5.4 and Appendix D.2; closed forms and what is mended are in
`featscope.theory.icl_regression`. The rank r of the block U stands for the size of a model.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr

from featscope.claims import POSITIVE, SHARE, STATED, Claim, bound, identity, ordering
from featscope.figures import Figure
from featscope.studies.base import Runs, Story, last, looked
from featscope.studies.icl_regression import figures
from featscope.studies.icl_regression.arms import (
    BLOCK,
    BLOCK_SAMPLES,
    COVERED,
    DESCENT,
    EVALUATION,
    FREE,
    LOSS,
    OF_USE,
    ONLINE,
    OTHERS,
    SQUARES,
    TIED,
    UNRELATED,
)
from featscope.studies.icl_regression.evaluation import EvaluationClaims
from featscope.studies.reductions import known, largest, mean
from featscope.studies.summaries import in_case, in_words, verdict

SHUFFLED = "Labels of another task teach nothing."
OTHER_SIZE = "It has other sizes, too: fewer dimensions, more examples, fewer prompts, more steps."
AGREES = "Tolerance: 2 % for Monte Carlo; a stated choice."
to_rounding = partial(bound, because="Bound: rounding and what is left of the slowest direction.", law="exact")


@dataclass(frozen=True)
class IclRegression(EvaluationClaims):
    """Models of every rank that learn linear regression from their prompt (dissertation, Chapter 5).

    Options and arms are `IclRegressionArms`'.
    """

    asks = "Which rank of linear self-attention learns a linear rule in its prompt best, and what does noise change?"

    # --- The loss of pretraining (Lemma 5.1, Lemma D.1) ---------------------------------------------------------------

    @identity(
        "Lemma 5.1",
        on=LOSS,
        not_on={OTHERS: "The constant is one only while the other blocks are zero."},
        equals=1.0,
        within=0.02,
        because=AGREES,
        range=POSITIVE,
    )
    def loss_of_pretraining(self, run: xr.Dataset) -> xr.DataArray:
        r"""The loss of pretraining depends on u U alone, as the lemma says.

        $\mathrm{tr}(\frac{u^2}2\Gamma\Lambda U\Lambda U^\top - u\Lambda^2U^\top) + \frac12\mathrm{tr}\Lambda$.
        Measured: loss of the layer as printed over it, mean over a random model, a diagonal one, the best, and none.
        """
        return self._over_the_lemma(run)

    def _over_the_lemma(self, run: xr.Dataset) -> xr.DataArray:
        spectrum = self.arm(LOSS).recipe.learner.data.spectrum
        return mean(run.loss / (run.lemma + sum(spectrum) / 2))

    @identity("Lemma 5.1", on=LOSS, equals=1.0, within=0.02, because=AGREES, range=POSITIVE)
    def gain_of_pretraining(self, run: xr.Dataset) -> xr.DataArray:
        r"""What a model gains over none is what the lemma says.

        Measured: loss of the layer as printed less that of no model on the same prompts, over
        $\mathrm{tr}(\frac{u^2}2\Gamma\Lambda U\Lambda U^\top - u\Lambda^2U^\top)$; of a random model, a diagonal one
        and the best, weighted by the size of the latter.
        """
        models, none = slice(3), run.loss.isel(model=3)
        lemma, gain = run.lemma.isel(model=models), (run.loss - none).isel(model=models)
        return (gain * np.sign(lemma)).sum("model", skipna=False) / abs(lemma).sum("model", skipna=False)

    @bound("derived, for Lemma 5.1", on=OTHERS, at_least=0.5, law="yes/no", because=f"Bound: most; {STATED}")
    def other_blocks_change_the_loss(self, run: xr.Dataset) -> xr.DataArray:
        """With random blocks beside u and U the loss is not the lemma's.

        Their answers are noise to it. Measured: in how many replicas the loss is off by more than a tenth, five times
        what `loss-of-pretraining` allows, mean over the same four models.
        """
        over = self._over_the_lemma(run)
        return known(abs(over - 1) > 0.1, over)

    @identity("Theorem 5.4.1, proof sketch", not_on=LOSS, equals=1.0, within=0.05, because=STATED, range=POSITIVE)
    def excess_as_printed(self, run: xr.Dataset) -> xr.DataArray:
        r"""A diagonal model is worse than the best by the sum that the sketch prints.

        $\sum_i T_i\lambda_i^2(v_i-1/T_i)^2$. Measured: difference of the losses on the same prompts over it.
        """
        return run.excess / run.printed_excess

    @identity(
        "derived, for Theorem 5.4.1",
        on=LOSS,
        equals=1.0,
        within=0.05,
        because=f"Tolerance: 5 % for Monte Carlo; {STATED}",
        range=POSITIVE,
        corrects="excess-as-printed",
    )
    def excess_is_half_the_sum(self, run: xr.Dataset) -> xr.DataArray:
        r"""A diagonal model is worse than the best by half the printed sum.

        $\frac12\sum_i T_i\lambda_i^2(v_i-1/T_i)^2$. Measured: difference of the losses on the same prompts over it.
        """
        return 2 * run.excess / run.printed_excess

    @to_rounding("Lemma D.1, Equation D.4", on=(SQUARES, DESCENT, ONLINE), at_most=1e-10)
    def excess_is_a_square(self, run: xr.Dataset) -> xr.DataArray:
        r"""Every model is worse than the best of full rank by half a squared norm.

        $\frac12\|\Gamma^{1/2}(u\Lambda^{1/2}U\Lambda^{1/2}-\Lambda\Gamma^{-1})\|_F^2$, and the least loss is
        $-\frac12\mathrm{tr}(\Lambda^2\Gamma^{-1})$. Measured: largest difference over ranks and looks.
        """
        off = run.off_d4
        return largest(off.where(looked(run), 0.0)) if "step" in off.dims else off

    # --- The best model of each rank (Theorem 5.4.1) ------------------------------------------------------------------

    @to_rounding("Theorem 5.4.1", on=(SQUARES, DESCENT, TIED), at_most=1e-9)
    def least_loss_of_each_rank(self, run: xr.Dataset) -> xr.DataArray:
        r"""The least loss of each rank is that of the theorem.

        $-\frac12\sum_{i\le r}\lambda_i^2/T_i$. Measured: loss at the end above it, without sign, the largest over
        ranks.
        """
        return largest(abs(last(run, run.above)))

    @to_rounding(
        "Theorem 5.4.1",
        on=(SQUARES, DESCENT),
        not_on={TIED: "With equal eigenvalues any directions will do; the theorem does not say so."},
        at_most=1e-5,
    )
    def best_of_each_rank(self, run: xr.Dataset) -> xr.DataArray:
        r"""The best model of each rank keeps the directions of most variance, each with its own coefficient.

        $uU = QV^*Q^\top$, $v_i^* = N/((N+1)\lambda_i+\mathrm{tr}D)$ for $i \le r$, else 0. Measured: distance at the
        end over its norm, the largest over ranks.
        """
        return largest(last(run, run.off))

    @bound(
        "Theorem 5.4.1",
        on=ONLINE,
        not_on={UNRELATED: SHUFFLED},
        at_most=0.15,
        because=f"Bound: 15 % of noise of batches; {STATED}",
        note="Higher ranks choose among directions of nearly the same variance, so they are judged by their losses.",
        range=POSITIVE,
    )
    def trained_models_are_the_best(self, run: xr.Dataset) -> xr.DataArray:
        """Models trained on fresh prompts end as the best of their rank.

        Measured: distance of u U to the theorem's over its norm, mean over ranks from 1 to the option
        `covered`.
        """
        return mean(run.off.isel(rank=slice(1, self.covered + 1)))

    @bound(
        "Theorem 5.4.1",
        on=ONLINE,
        not_on={UNRELATED: SHUFFLED},
        at_most=0.005,
        because=f"Bound: half a per cent of tr Λ or less; {STATED}",
        range=POSITIVE,
    )
    def trained_losses_are_least(self, run: xr.Dataset) -> xr.DataArray:
        """Models trained on fresh prompts have the least loss of their rank.

        Measured: loss on all prompts above the theorem's, mean over ranks from 1 on.
        """
        return mean(run.above.isel(rank=slice(1, None)))

    @bound(
        "Theorem 5.4.2",
        on=ONLINE,
        not_on={UNRELATED: SHUFFLED},
        at_most=0.1,
        because=f"Bound: 10 % for noise of batches and Monte Carlo; {STATED}",
        range=POSITIVE,
    )
    def trained_models_err_as_predicted(self, run: xr.Dataset) -> xr.DataArray:
        """Trained models have the errors of the formula on noisy prompts.

        Measured: difference over it without sign, mean over ranks and noises.
        """
        return mean(abs(run.evaluation_loss / self.formula(EVALUATION) - 1))

    @identity(
        "from the seeds of replicas",
        on=ONLINE,
        equals=1.0,
        within=0.0,
        because="Tolerance: none. Other prompts have another mean; the same ones, drawn again, leave it where it is.",
        law="exact",
    )
    def judged_by_fresh_prompts(self, run: xr.Dataset) -> xr.DataArray:
        """Trained models are judged by other prompts in every draw.

        Measured: share of draws that moved the mean error, over ranks from 1 on and noises.
        """
        return run.judged_afresh

    # --- Other blocks -------------------------------------------------------------------------------------------------

    @bound(
        "Equation 5.2",
        on=(FREE, BLOCK),
        at_most=1e-12,
        because="Bound: a rounding of float64 for each of the (N+1)(d+1)² terms, some thousands.",
        law="exact",
    )
    def answers_are_the_layers(self, run: xr.Dataset) -> xr.DataArray:
        """The rows that are trained answer as the whole layer does, and u U as the layer with no other blocks.

        Measured: largest difference to the answers of the layer as printed, over the largest.
        """
        return run.off_printed

    @bound(
        "Section 5.4",
        on=FREE,
        not_on={BLOCK: f"There they hold a direction more. {OTHER_SIZE}"},
        at_most=0.01,
        because=f"Bound: one per cent; {STATED}",
        range=POSITIVE,
    )
    def free_blocks(self, run: xr.Dataset) -> xr.DataArray:
        """Where all blocks are trained, those that the theory sets to zero end there.

        Measured: share of the squared answers that they make.
        """
        return run.others

    @bound(
        "Theorem 5.4.1",
        on=FREE,
        not_on={BLOCK: f"The limit is on the block, and other blocks are not of it. {OTHER_SIZE}"},
        at_least=-0.01,
        because=f"Bound: one per cent for the prompts; {STATED}",
    )
    def nothing_better_with_all_blocks(self, run: xr.Dataset) -> xr.DataArray:
        """With all blocks trained no loss is below the theorem's for that rank.

        Measured: loss on fresh prompts over that of the theorem's model on the same prompts, less 1.
        """
        return run.over_best

    @ordering(
        "derived here",
        on=BLOCK,
        not_on=FREE,
        less_than=0.0,
        note=f"From some number of examples on (`examples_for_a_rank`), here {OF_USE}; prompts of pretraining have "
        f"{BLOCK_SAMPLES}.",
    )
    def better_with_all_blocks(self, run: xr.Dataset) -> xr.DataArray:
        """Where the rank of U alone is limited, training all blocks goes below the least loss of the theorem.

        Measured: loss on fresh prompts over that of the theorem's model on the same prompts, less 1.
        """
        return run.over_best

    @bound("derived here", on=BLOCK, not_on=FREE, at_least=0.1, because=f"Bound: a tenth; {STATED}", range=SHARE)
    def other_blocks_add_a_rank(self, run: xr.Dataset) -> xr.DataArray:
        r"""Where the rank of U alone is limited, the other blocks are a direction more.

        Answers depend on examples by $u\,U + w_{21}^{PV}(w_{21}^{KQ})^\top$, of rank $r+1$. Measured: singular value
        number $r+1$ of it over the largest.
        """
        return run.beyond

    # --- What is shown ------------------------------------------------------------------------------------------------

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """Errors over rank, their parts, and the ways down."""
        yield figures.errors(self, runs)
        yield figures.parts(self, runs)
        yield figures.ways(runs)

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """Which rank is best, and for what noise."""
        best = runs[EVALUATION].loss.argmin("rank")
        least, most = (in_words(best.isel(noise=at).astype(float), "{:.1f}") for at in (0, -1))
        fell = verdict(claims, f"best-rank-falls-with-noise@{EVALUATION}")
        falls = {"holds": "falls", "fails": "does not fall"}.get(fell, "may fall")
        clean = self.noises[0] == 0
        quiet, loud = ("clean labels", "the noisiest") if clean else ("the least noise", "the most")
        leave = "Clean labels leave" if clean else "The least noise leaves"
        same = verdict(claims, f"evaluation-loss@{EVALUATION}")
        gap, free = f"gap-needs-label-noise@{COVERED}", f"free-blocks@{BLOCK}"
        words = {"holds": "as the formula says", "fails": "not as the formula says"}.get(same, "and more is not known")
        return Story(
            f"The best rank {falls} from {least} with {quiet} to {most} with {loud}, {words}.",
            "A model sees examples of a linear rule and answers for one more. Lines are the formula for its error over "
            "its rank, one for each noise of the labels; points are models set by hand or trained.",
            {
                f"evaluation-loss@{EVALUATION}": "",
                f"best-rank-falls-with-noise@{EVALUATION}": "",
                gap: in_case(claims, gap, f"{leave} next to no gap.", "Few examples are noise enough."),
                free: in_case(
                    claims,
                    free,
                    "Blocks that the theory leaves at zero stay there.",
                    "Blocks that the theory leaves at zero are used.",
                ),
            },
        )
