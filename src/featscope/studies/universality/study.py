"""Universality against label efficiency of contrastive representations: the theory.

The chapter is the dissertation's Chapter 7, Section 7.2, and Appendix F.1 and F.2; closed forms and what is mended are
in `featscope.theory.universality`. Claims of hidden representations are in `hidden`, of linear ones in `linear`; here
is what labels teach.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from featscope.claims import POSITIVE, SHARE, STATED, Claim, Found, bound, fitted_exponent, identity, ordering, scaling
from featscope.figures import Figure
from featscope.studies.base import Runs, Story, last
from featscope.studies.reductions import largest, mean, smallest
from featscope.studies.summaries import in_case, in_words, of_all, percent, verdict
from featscope.studies.universality import figures
from featscope.studies.universality.arms import JOINT, LABELS, SPECIFIC, TUNED, TURNED, TWO
from featscope.studies.universality.hidden import ZERO
from featscope.studies.universality.labelled import NOISE, RANK, RANKS, ROW, SAMPLES, SHARED, TASKS, betas
from featscope.studies.universality.linear import EVEN, LinearClaims
from featscope.theory import universality as theory

FEW, MANY = SAMPLES.index(10), SAMPLES.index(160)
ENOUGH = [m >= RANK for m in SAMPLES]
TUNED_AT = len(TASKS)
DRAWN = f"Tolerance: drawn samples; {STATED}"


@dataclass(frozen=True)
class Universality(LinearClaims):
    """What joint and specific contrastive pre-training keep, and what labels it takes (dissertation, Section 7.2).

    Options and arms are `UniversalityArms`'.
    """

    asks = "Which features does pre-training on many tasks keep, and what does that cost one of them?"

    # --- Complexity (Lemma F.5, Proposition F.8) ----------------------------------------------------------------------

    @identity("Lemma F.5", on=LABELS, equals=1.0, within=0.02, because=DRAWN, range=POSITIVE)
    def rademacher(self, run: xr.Dataset) -> xr.DataArray:
        r"""Rademacher complexity is that of normal features.

        $\sqrt m R_m=B\,E\|(\sqrt\alpha g_S,\sqrt{\alpha_t}g_P)\|$.

        Measured: over this, mean of signs and inputs, mean of T = 1, 4, 16, 64 and of fine-tuning.
        """
        wanted = [theory.rademacher(SHARED, RANK, beta) for beta in betas()]
        return mean(run.complexity / xr.DataArray(wanted, dims="weight"))

    @bound("Lemma F.5", on=LABELS, at_most=0.05, law="exact", because=f"Bound: {STATED}", range=POSITIVE)
    def leading_term_is_close(self) -> float:
        """The leading term is above it, by little.

        Measured: largest of leading term over complexity less 1; 1 if it is below. r = 20, T = 1, 4, 16, 64.
        """
        ratios = [theory.rademacher_leading(SHARED, RANK, b) / theory.rademacher(SHARED, RANK, b) for b in betas()]
        return max(ratios) - 1 if min(ratios) >= 1 else 1.0

    @identity("derived, for Proposition F.8", on=LABELS, equals=1.0, within=0.03, because=DRAWN, range=POSITIVE)
    def complexity_ratio(self, run: xr.Dataset) -> xr.DataArray:
        r"""Joint pre-training on T tasks multiplies it by $(T+1)/(2\sqrt T)$, fine-tuning by less.

        $\sqrt{2+\beta+1/\beta}/2$. Measured: complexity over that of T = 1, over this; mean of T = 4, 16, 64 and of
        fine-tuning.
        """
        ratio = (run.complexity / run.complexity.isel(weight=0)).isel(weight=slice(1, None))
        return mean(ratio / xr.DataArray(theory.complexity_ratio(np.array(betas()[1:])), dims="weight"))

    @bound("Section 7.2.2", on=LABELS, at_most=1.0, because="Bound: the text's.", range=POSITIVE)
    def at_most_root_t_worse(self, run: xr.Dataset) -> xr.DataArray:
        r"""It is at most $\sqrt T$ times that of one task.

        Measured: the largest ratio over $\sqrt T$, T = 4, 16, 64.
        """
        ratio = (run.complexity / run.complexity.isel(weight=0)).isel(weight=slice(1, TUNED_AT))
        return largest(ratio / xr.DataArray(np.sqrt(TASKS[1:]), dims="weight"))

    @scaling(
        "Section 7.2.2",
        not_on=LABELS,
        equals=0.0,
        within=0.03,
        because=DRAWN,
        note="The main text has O(L√(T/m)‖u‖) where Proposition F.8 has O(L√(rT/m)‖u‖).",
    )
    def text_sqrt_r(self, run: xr.Dataset) -> xr.DataArray:
        """The joint representation's bound does not depend on the number of features.

        Measured: exponent of the complexity over r = 10, 20, 40, 80 for T = 4.
        """
        return self._exponent(run)

    @scaling(
        "Proposition F.8",
        on=LABELS,
        equals=0.5,
        within=0.04,
        because="Tolerance: a norm of few normals is below its root mean square.",
        corrects="text-sqrt-r",
    )
    def bound_grows_with_root_r(self, run: xr.Dataset) -> xr.DataArray:
        """It grows as the root of their number.

        Measured: exponent of the complexity over r = 10, 20, 40, 80 for T = 4.
        """
        return self._exponent(run)

    def _exponent(self, run: xr.Dataset) -> xr.DataArray:
        values = run.complexity_of_rank.transpose("replica", "rank").values
        return xr.DataArray(fitted_exponent(np.array(RANKS, float), values), dims="replica")

    @identity(
        "Lemma F.5, proof", not_on=LABELS, equals=1.0, within=0.05, because=DRAWN, range=POSITIVE, note="T = 4, P_t."
    )
    def printed_variance(self, run: xr.Dataset) -> xr.DataArray:
        r"""$X_{t,j}=\alpha_t\sum_iz_j^{(i)}$ has the variance $m\alpha_t$.

        Measured: variance over this.
        """
        return run.printed_variance

    @identity(
        "derived, for Lemma F.5",
        on=LABELS,
        equals=1.0,
        within=0.05,
        because=DRAWN,
        range=POSITIVE,
        note="T = 4, P_t.",
        corrects="printed-variance",
    )
    def mended_variance(self, run: xr.Dataset) -> xr.DataArray:
        r"""$\sqrt{\alpha_t}\sum_iz_j^{(i)}$ has.

        Measured: variance over this.
        """
        return run.mended_variance

    # --- Errors -------------------------------------------------------------------------------------------------------

    @bound(
        "Proposition 7.3",
        on=LABELS,
        at_most=1.0,
        range=POSITIVE,
        because="Bound: the text's, without its O-term, δ = 0.05.",
        note="What it rests on takes bounded losses, and this one is not. With 5 to 160 labels it is far from tight.",
    )
    def risk_bound_holds(self, run: xr.Dataset) -> xr.DataArray:
        """Errors are within the bound.

        Measured: largest absolute error over $4R_m+8\\sqrt{2\\ln(4/δ)/m}$, without noise.
        """
        leading = [theory.rademacher_leading(SHARED, RANK, b) for b in betas()]
        bounds = [[theory.risk_bound(one, m) for one in leading] for m in SAMPLES]
        return largest(run.error.isel(noise=0) / xr.DataArray(bounds, dims=("samples", "weight")))

    @ordering("Section 7.2.2", on=LABELS, more_than=0.0)
    def few_labels_show_the_gap(self, run: xr.Dataset) -> xr.DataArray:
        """With fewer labels than features, errors grow with the tasks of pre-training.

        Measured: least rise from one T to the next of 1, 4, 16, 64; 10 labels, with and without noise.
        """
        error = run.error.isel(samples=FEW, weight=slice(0, TUNED_AT))
        return smallest(error.diff("weight"))

    @bound("derived, for Section 7.2.2", on=LABELS, at_most=ZERO, because="Bound: rounding.", range=POSITIVE)
    def noiseless_gap_vanishes(self, run: xr.Dataset) -> xr.DataArray:
        """Without noise, as many labels as features leave no error, whatever the tasks of pre-training.

        Measured: largest error from 25 labels on.
        """
        return largest(run.error.isel(noise=0, samples=ENOUGH))

    @identity(
        "derived, for Section 7.2.2",
        on=LABELS,
        equals=1.0,
        within=0.03,
        because=f"Tolerance: {STATED}",
        range=POSITIVE,
    )
    def many_labels_close_the_gap(self, run: xr.Dataset) -> xr.DataArray:
        """With noise and eight times as many labels as features nothing is left of the gap.

        Measured: error for T = 64 over that for T = 1, 160 labels, noise of 0.5.
        """
        error = run.error.isel(noise=NOISE.index(0.5), samples=MANY)
        return error.isel(weight=TASKS.index(64)) / error.isel(weight=0)

    @identity(
        "derived, for Section 7.2.2",
        on=LABELS,
        equals=1.0,
        within=0.12,
        because="Tolerance: 12 %; the ball takes half of one of 20 directions, some 3 %, and 60 draws of samples.",
        range=POSITIVE,
    )
    def noise_costs_what_least_squares_have(self, run: xr.Dataset) -> xr.DataArray:
        r"""With many labels noise costs what it costs least squares.

        Of noise $\sigma$ an error of $\sqrt{2/\pi}\,\sigma\sqrt{r/(m-r-1)}$. Measured: error for T = 1 over this, 160
        labels, noise of 0.5.
        """
        noise, labels = NOISE[-1], SAMPLES[MANY]
        wanted = (2 / np.pi) ** 0.5 * noise * (RANK / (labels - RANK - 1)) ** 0.5
        return run.error.isel(noise=-1, samples=MANY, weight=0) / wanted

    @ordering(
        "derived, for Section 7.2.2", on=LABELS, less_than=1.0, range=POSITIVE, corrects="errors-are-root-t-apart"
    )
    def gap_is_milder_than_the_bounds(self, run: xr.Dataset) -> xr.DataArray:
        r"""Errors are less far apart than the bounds on them.

        Measured: largest ratio of errors to those for T = 1, over $(T+1)/(2\sqrt T)$; T = 16 and 64, 5 to 15 labels.
        """
        return self._over_bounds(run)

    @bound(
        "Section 7.2.2",
        not_on=LABELS,
        at_least=1.0,
        range=POSITIVE,
        because="Bound: the ratio of bounds.",
        note="Upper bounds that are √T apart say nothing of errors.",
    )
    def errors_are_root_t_apart(self, run: xr.Dataset) -> xr.DataArray:
        r"""The error of the joint representation is worse by as much as its bound.

        Measured: largest ratio of errors to those for T = 1, over $(T+1)/(2\sqrt T)$; T = 16 and 64, 5 to 15 labels.
        """
        return self._over_bounds(run)

    def _over_bounds(self, run: xr.Dataset) -> xr.DataArray:
        error = run.error.isel(samples=[not enough for enough in ENOUGH])
        ratio = (error / error.isel(weight=0)).isel(weight=[TASKS.index(16), TASKS.index(64)])
        bounds = xr.DataArray([theory.complexity_ratio(1 / t) for t in (16, 64)], dims="weight")
        return largest(ratio / bounds)

    @ordering("Section F.2.4", on=LABELS, more_than=0.0)
    def finetuning_helps_the_probe(self, run: xr.Dataset) -> xr.DataArray:
        """Fine-tuning without labels makes errors smaller where labels are few.

        Measured: error for T = 16 less that after fine-tuning by 0.5, 10 labels, the least over noise.
        """
        error = run.error.isel(samples=FEW)
        return smallest(error.isel(weight=TASKS.index(16)) - error.isel(weight=TUNED_AT))

    @identity(
        "Proposition 7.4",
        on=LABELS,
        equals=theory.absolute_floor(0.5),
        within=0.015,
        because="Tolerance: 500 labels for 10 features are not without end, which adds 1 %.",
        range=POSITIVE,
    )
    def floor_on_other_tasks(self, run: xr.Dataset) -> xr.DataArray:
        r"""On another task a specific representation stays at an error of $\sqrt{2v_2/\pi}$.

        Measured: mean absolute error with 500 labels, $v_2=1/2$.
        """
        return run.other_specific

    @bound("Proposition 7.3", on=LABELS, at_most=ZERO, because="Bound: rounding.", range=POSITIVE)
    def joint_is_right_on_every_task(self, run: xr.Dataset) -> xr.DataArray:
        """The joint representation has no error there.

        Measured: mean absolute error with 500 labels, T = 4.
        """
        return run.other_joint

    # --- Similarity of representations (Section 7.3.2) ----------------------------------------------------------------

    @bound(
        "derived, for Figure 7.5",
        on=LABELS,
        at_most=0.02,
        because=f"Bound: 4000 inputs; {STATED}",
        range=POSITIVE,
        note="Two single tasks have √(s/r).",
    )
    def cka_closed_form(self, run: xr.Dataset) -> xr.DataArray:
        r"""On a task's data, linear CKA of two representations follows from their weights.

        $(s+p\beta_1\beta_2)/\sqrt{(s+p\beta_1^2)(s+p\beta_2^2)}$. Measured: largest distance to it of 1 and T, of 4 and
        16, and of two single tasks.
        """
        row = xr.DataArray([theory.cka(SHARED, RANK, 1.0, 1 / t) for t in ROW], dims="tasks")
        off = [
            largest(abs(run.row - row)),
            abs(run.between - theory.cka(SHARED, RANK, 0.25, 1 / 16)),
            abs(run.specifics - theory.cka(SHARED, RANK, 1.0, 0.0)),
        ]
        return largest(xr.concat(off, "which"))

    @ordering("Figure 7.5, right", on=LABELS, less_than=0.0, range=(-1.0, 1.0))
    def similarity_falls_along_the_row(self, run: xr.Dataset) -> xr.DataArray:
        """It falls as tasks are added.

        Measured: largest rise from one of T = 1, 2, 4, 8, 16 to the next, of CKA with that of one task.
        """
        return largest(run.row.diff("tasks"))

    @identity(
        "derived, for Figure 7.5", on=JOINT, relation="=", range=SHARE, because=f"Tolerance: 0.02 for descent; {STATED}"
    )
    def cka_of_trained_representations(self, runs: Runs, arm: str) -> Found | None:
        """This is so of trained representations.

        Measured: CKA of those of one and of four tasks on all data of the one, by their Gram matrices.
        """
        if SPECIFIC not in runs:
            return None
        data = self.data(arm)
        own = slice(0, data.rank)
        one, other = (
            runs[name].gram.isel(feature=own, other=own).transpose("replica", "feature", "other").values
            for name in (SPECIFIC, arm)
        )
        norms = [np.linalg.norm(k, axis=(1, 2)) for k in (one, other)]
        found = (one * other).sum((1, 2)) / (norms[0] * norms[1])
        wanted = theory.cka(data.shared, data.rank, 1.0, 1 / data.tasks)
        return Found(xr.DataArray(found, dims="replica"), predicted=wanted, tolerance=0.02)

    # --- What is shown ------------------------------------------------------------------------------------------------

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """Which features are kept, what it costs in labels, Gram matrices, on the way, similarity."""
        yield figures.kept(runs)
        yield figures.errors(runs)
        yield figures.matrices(self, runs)
        yield figures.on_the_way(self, runs)
        yield figures.complexity(runs)
        yield figures.norms(runs)

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """What is kept, what it costs, and what fine-tuning gets back."""
        joint, error = runs[JOINT], runs[LABELS].error.isel(samples=FEW, noise=0)
        shared, own = percent(last(joint, joint.shared)), percent(last(joint, joint.private).mean("task"))
        law = "shared-one-private-1-over-t"
        kept, always = f"{law}@{JOINT}", of_all(verdict(claims, f"{law}@{arm}") for arm in EVEN) == "holds"
        few, turned, room = (
            f"noiseless-gap-vanishes@{LABELS}",
            f"finetune-near-wstar@{TURNED}",
            f"superposed-solution-equal-loss@{TWO}",
        )
        costs = (error.isel(weight=TASKS.index(4)) / error.isel(weight=0)).mean()
        return Story(
            f"Pre-training on four tasks keeps {shared} of shared features' weight and {own} of each task's own"
            f"{in_case(claims, kept, ', as the proposition has it', ', not as the proposition has it')}. "
            f"With half as many labels as features, errors are {in_words(costs)} times as large.",
            "Each of four tasks has 4 features that all share and 4 of its own; 8 more are changed by augmentation. A "
            "representation has room for 8. Bars are squared weights of features: of one that is pre-trained on one "
            "task, of one on all four, and of this after fine-tuning on the one, without labels."
            + in_case(
                claims,
                f"many-labels-close-the-gap@{LABELS}",
                " With many labels the difference in errors is gone.",
                " With many labels some difference in errors is left.",
            ),
            {
                kept: "For any number of shared features, not only half." if always else "",
                few: in_case(claims, few, "The cost is one of few labels.", "Some error is left with many labels."),
                room: in_case(claims, room, "As many outputs as one task has features are enough.", ""),
                turned: in_case(
                    claims,
                    turned,
                    "From that optimum, too.",
                    "From that optimum other tasks pay for fine-tuning.",
                ),
                f"finetune-near-wstar@{TUNED}": "",
            },
        )
