"""Claims of Section 7.2.2 on what is learned from linear data, and on fine-tuning it (Appendix F.2.1 to F.2.4)."""

from dataclasses import dataclass
from itertools import product

import numpy as np
import xarray as xr
from scipy.optimize import minimize

from featscope.claims import POSITIVE, SHARE, STATED, Found, bound, identity, ordering
from featscope.studies.base import Runs, last
from featscope.studies.reductions import largest, mean
from featscope.studies.universality.arms import (
    EIGHT,
    FAR,
    FEW,
    JOINT,
    KEPT,
    MIXTURE,
    SPECIFIC,
    TUNED,
    TUNED_EIGHT,
    TURNED,
    TWO,
    UNEVEN,
    UNRELATED,
)
from featscope.studies.universality.hidden import INDEPENDENT, HiddenClaims, exactly
from featscope.theory import universality as theory

SIZES = ((1, 2), (1, 11), (2, 4), (5, 10), (9, 10), (20, 22), (10, 60))
"""s and r."""
DESCENT = f"Bound: descent on drawn batches has an end; {STATED}"
EVEN = (JOINT, EIGHT, FEW)


@dataclass(frozen=True)
class LinearClaims(HiddenClaims):
    """Propositions 7.3 and 7.4, Lemma F.3, Propositions F.8 and F.9."""

    # --- Weights of features ------------------------------------------------------------------------------------------

    @bound(
        "Proposition F.8",
        on=EVEN,
        not_on={UNRELATED: INDEPENDENT, KEPT: "Spurious features are shared by all tasks."},
        at_most=0.02,
        because=DESCENT,
        range=POSITIVE,
    )
    def shared_one_private_1_over_t(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""Joint pre-training keeps shared features in full, and those of each of T tasks with a weight of 1/T.

        Squared weights; for every $s<r$. Measured: largest distance of a kind's mean weight from it.
        """
        return self._off(run, 1 / self.data(arm).tasks)

    def _off(self, run: xr.Dataset, private: float | np.ndarray) -> xr.DataArray:
        """Largest distance of mean weights from 1 and ``private``."""
        wanted = xr.DataArray(np.broadcast_to(private, run.sizes["task"]), dims="task")
        shared = abs(last(run, run.shared) - 1)
        return largest(xr.concat([shared, largest(abs(last(run, run.private) - wanted))], "which"))

    @bound(
        "Proposition 7.3",
        on=(SPECIFIC, *EVEN, UNEVEN),
        not_on={KEPT: "Nothing tells them from shared ones."},
        at_most=0.02,
        because=DESCENT,
        range=SHARE,
    )
    def spurious_are_dropped(self, run: xr.Dataset) -> xr.DataArray:
        """Spurious features are left out.

        Measured: their mean squared weight.
        """
        return last(run, run.spurious)

    @bound("derived, for Proposition 7.3", on=JOINT, at_most=0.02, because=DESCENT, range=SHARE)
    def pairs_without_relation_leave_nothing(self, runs: Runs) -> xr.DataArray | None:
        """Pairs that have nothing in common, which are a control, leave no feature.

        Measured: mean squared weight of shared or of spurious features there, the larger.
        """
        if UNRELATED not in runs:
            return None
        run = runs[UNRELATED]
        return largest(xr.concat([last(run, run.shared), last(run, run.spurious)], "which"))

    @identity(
        "derived, for Proposition 7.3",
        on=KEPT,
        relation="=",
        range=POSITIVE,
        because=f"Tolerance: 0.02 for descent; {STATED}",
    )
    def without_augmentation_they_count_as_shared(self, run: xr.Dataset, arm: str) -> Found:
        r"""Without augmentation spurious features count as shared, and leave nothing to private ones.

        All of them have $r/(s+|U|)$. Measured: mean squared weight of spurious features.
        """
        data = self.data(arm)
        wanted = data.rank / (data.shared + data.spurious)
        return Found(last(run, run.spurious), predicted=wanted, tolerance=0.02)

    @bound(
        "Proposition 7.4",
        on=SPECIFIC,
        not_on={JOINT: "Its private features have 1/T."},
        at_most=0.02,
        because=DESCENT,
        range=POSITIVE,
    )
    def task_specific_all_ones(self, run: xr.Dataset) -> xr.DataArray:
        """Pre-training on one task keeps all its features in full, and nothing of other tasks.

        Measured: largest distance of a kind's mean weight from 1, on the task, and from 0, on others.
        """
        return self._off(run, np.array([1.0, 0.0, 0.0, 0.0]))

    @bound("Lemma F.3", on=(SPECIFIC, *EVEN, UNEVEN), at_most=0.15, because=DESCENT, range=POSITIVE)
    def kinds_do_not_mix(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""Shared, private and spurious features do not mix: blocks of the Gram matrix between them are 0.

        Measured: largest entry of $G[S,P_t]$ and $G[U,R]$.
        """
        data, gram = self.data(arm), abs(run.gram)
        invariant, shared = slice(0, data.invariant), slice(0, data.shared)
        blocks = [
            gram.isel(feature=shared, other=slice(data.shared, data.invariant)),
            gram.isel(feature=slice(data.invariant, None), other=invariant),
        ]
        return largest(xr.concat([largest(block) for block in blocks], "which"))

    @bound("Claim F.4", on=(*EVEN, UNEVEN), at_most=0.1, because=DESCENT, range=POSITIVE)
    def features_of_a_kind_are_equal(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""Features of a kind have equal weights and do not mix: $G[P_t,P_t]$ is a multiple of the identity.

        Measured: largest entry of $G[S,S]$ and $G[P_t,P_t]$ less the kind's mean weight times the identity.
        """
        data = self.data(arm)
        found = []
        for kind in [slice(0, data.shared), *(data.own(task) for task in range(data.tasks))]:
            block = run.gram.isel(feature=kind, other=kind).transpose("replica", "feature", "other").values
            size = block.shape[-1]
            mean = np.trace(block, axis1=1, axis2=2) / size
            found.append(abs(block - mean[:, None, None] * np.eye(size)).max((1, 2)))
        return xr.DataArray(np.max(found, axis=0), dims="replica")

    @bound("Section 7.2.2", on=EVEN, at_most=0.01, because="Bound: bisection and rounding in float32.", range=POSITIVE)
    def the_budget_is_used_up(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""Both bounds on norms are met: $\|W\|=1$ and $\|W\|_F^2=r$.

        Measured: the larger distance from them, that from r over r.
        """
        off = [abs(run.spectral - 1), abs(run.frobenius / self.data(arm).rank - 1)]
        return largest(xr.concat(off, "which"))

    # --- α = 1, and other losses --------------------------------------------------------------------------------------

    @exactly("derived, for Proposition 7.3", on=JOINT, note="The text has r = 2s, and 'some α' for all others.")
    def shared_weight_is_one(self) -> float:
        """Shared features are kept in full for every number of them and of tasks.

        Measured: largest distance of the best α from 1, seven pairs of s and r, T = 2, 4, 16, both losses; quadrature
        on a grid of 101.
        """
        losses = (theory.logistic, theory.exponential)
        found = [theory.shared_optimum(loss, s, r, t) for loss, (s, r), t in product(losses, SIZES, (2, 4, 16))]
        return 1 - min(found)

    @exactly(
        "Proposition F.8, proof",
        on=JOINT,
        note="Of r = 2s and T = 2, 4, 16, as the proof has it; α from 0.05 on.",
    )
    def dominance_in_the_proof(self) -> float:
        r"""With $\alpha=1$ the sum $\alpha Z+\beta Z_1$ stochastically dominates that with any smaller one.

        Measured: largest probability of less than x at $\alpha=1$, less that at a smaller $\alpha$.
        """
        return max(theory.dominance_violation(s, 2 * s, t) for s, t in product((1, 2, 5), (2, 4, 16)))

    @bound(
        "derived, for Lemma F.3",
        on=UNEVEN,
        at_most=1e-5,
        law="exact",
        because="Bound: where the solver stops.",
        note="α = 1, α_t = ((λ w_t^(2/(p+2)) - 1)/2 in [0, 1].",
    )
    def exponential_loss_closed_form(self) -> float:
        """With an exponential loss every weight has a closed form, for uneven mixtures, too.

        Measured: largest distance from what a general solver finds, three mixtures.
        """
        cases = ((MIXTURE, 2, 6), ((0.4, 0.35, 0.25), 3, 5), ((0.25,) * 4, 4, 8))
        off = []
        for weights, s, r in cases:
            p, w = r - s, np.array(weights)
            solved = minimize(
                lambda a, w=w, s=s, p=p: 100 * (1 + 2 * a[0]) ** (-s / 2) * (w * (1 + 2 * a[1:]) ** (-p / 2)).sum(),
                np.full(len(w) + 1, 0.3),
                method="SLSQP",
                bounds=[(0, 1)] * (len(w) + 1),
                constraints={"type": "ineq", "fun": lambda a, s=s, r=r, p=p: r - s * a[0] - p * a[1:].sum()},
                options={"ftol": 1e-15, "maxiter": 500},
            )
            off.append(abs(solved.x - [1.0, *theory.exponential_weights(weights, s, r)]).max())
        return float(max(off))

    @bound("derived, for Lemma F.3", on=UNEVEN, at_most=0.02, because=DESCENT, range=POSITIVE)
    def uneven_weights(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        """Training on an uneven mixture finds them: the rarest task's features are left out.

        Measured: largest distance of a kind's mean weight from the closed form.
        """
        data = self.data(arm)
        return self._off(run, theory.exponential_weights(data.mixture, data.shared, data.rank))

    @ordering(
        "Proposition 7.3",
        not_on=TWO,
        more_than=0.0,
        law="exact",
        note="ℓ(t) = -t is convex and decreasing, and the loss is linear in the weights.",
    )
    def linear_loss_wants_an_even_split(self) -> float:
        """With any convex decreasing loss, private features of all tasks have equal weights.

        Measured: loss for ℓ(t) = -t with all private weight on one task, less that with 1/T on each; s = p = T = 4.
        """

        def loss(alphas: np.ndarray) -> float:
            return -float(4 + 4 * alphas.mean())

        return loss(np.array([1.0, 0, 0, 0])) - loss(np.full(4, 0.25))

    # --- The optimum is not unique ------------------------------------------------------------------------------------

    @exactly("derived, for Lemma F.3", on=TWO, corrects="optimum-is-unique-up-to-rotation")
    def superposed_solution_equal_loss(self, run: xr.Dataset) -> xr.DataArray:
        """Private features of all tasks may share outputs: the loss is the same, pair by pair.

        As they never occur together. Measured: largest difference of the logistic loss of a pair to that of the text's
        optimum.
        """
        return run.loss_difference

    @exactly("derived, for Lemma F.3", on=TWO)
    def superposed_is_in_the_class(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""This representation is within the same bounds, $\|W\|\le1$ and $\|W\|_F^2\le r$.

        Measured: the larger excess, at least 0.
        """
        excess = largest(xr.concat([run.spectral - 1, run.frobenius - self._rank(arm)], "which"))
        return excess.clip(min=0.0)

    def _rank(self, arm: str) -> int:
        rank: int = self.arm(arm).recipe.learner.data.rank
        return rank

    @exactly("Lemma F.3", not_on=TWO)
    def optimum_is_unique_up_to_rotation(self, run: xr.Dataset) -> xr.DataArray:
        r"""Every optimum is a rotation of weighted features.

        Measured: largest entry of the superposed optimum's Gram matrix between private features of two tasks, which is
        0 in a rotation.
        """
        return run.across_tasks

    @identity("derived, for Lemma F.3", on=TWO, relation="=", law="exact", because="Whole numbers.", range=POSITIVE)
    def r_outputs_are_enough(self, run: xr.Dataset, arm: str) -> Found:
        """As many outputs as one task has features serve all tasks.

        Measured: rank of the superposed optimum; the text's has k.
        """
        return Found(run.outputs, predicted=float(self._rank(arm)), tolerance=0.0)

    @exactly("Lemma F.5", on=TWO)
    def least_norm_of_the_label(self, run: xr.Dataset) -> xr.DataArray:
        r"""The least predictor of a task's label has the norm $\sqrt{v_1/\alpha+v_2/\alpha_t}$, on both optima.

        Measured: largest distance, by pseudoinverse.
        """
        off = [abs(run[name] - run.formula_norm) for name in ("diagonal_norm", "superposed_norm")]
        return largest(xr.concat(off, "which"))

    @identity("(F.67)", not_on=TWO, relation="=", law="exact", because="Whole numbers.", range=POSITIVE)
    def free_vector_has_r_entries(self, run: xr.Dataset, arm: str) -> Found:
        """What a predictor is free to add without an effect has r dimensions.

        Measured: these dimensions.
        """
        return Found(run.free, predicted=float(self._rank(arm)), tolerance=0.0)

    @identity(
        "derived, for (F.67)",
        on=TWO,
        relation="=",
        law="exact",
        because="Whole numbers.",
        range=POSITIVE,
        corrects="free-vector-has-r-entries",
    )
    def free_vector_has_k_less_r_entries(self, run: xr.Dataset, arm: str) -> Found:
        """It has k - r.

        Measured: these dimensions.
        """
        data = self.arm(arm).recipe.learner.data
        return Found(run.free, predicted=float(data.invariant - data.rank), tolerance=0.0)

    # --- Fine-tuning (Proposition F.9) --------------------------------------------------------------------------------

    @bound(
        "Proposition F.9",
        on=(TUNED, TUNED_EIGHT, FAR),
        not_on={TURNED: "‖W‖ <= 1 is tight in directions that tasks share; the proof takes W* for diagonal."},
        at_most=0.02,
        because=DESCENT,
        range=POSITIVE,
    )
    def finetune_near_wstar(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""Fine-tuning on a task lifts its features by $\gamma/\sqrt s$, up to 1, and leaves other tasks' alone.

        $\sqrt\beta=\min(1,\sqrt{1/T}+\gamma/\sqrt s)$. Measured: largest distance of a kind's mean squared weight from
        it.
        """
        data = self.data(arm)
        return self._off(run, self._tuned_weights(arm, theory.finetuned_weight(data.tasks, self._gamma(arm), 4)))

    def _gamma(self, arm: str) -> float:
        gamma: float = self.arm(arm).recipe.rules["bounds"].gamma
        return gamma

    def _tuned_weights(self, arm: str, own: float, other: float | None = None) -> np.ndarray:
        tasks = self.data(arm).tasks
        return np.array([own, *[1 / tasks if other is None else other] * (tasks - 1)])

    @bound("derived, for Proposition F.9", on=TURNED, at_most=0.02, because=DESCENT, range=POSITIVE)
    def superposed_is_turned(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""From the superposed optimum it lifts them less, and other tasks pay.

        A row of $\sqrt{1/T}$ is turned by a chord of $\gamma/\sqrt s$. Measured: largest distance of a kind's mean
        squared weight from what this gives.
        """
        data = self.data(arm)
        own, other = theory.superposed_finetuned(data.tasks, self._gamma(arm), data.private)
        return self._off(run, self._tuned_weights(arm, own, other))

    @ordering("derived, for Proposition F.9", on=TURNED, less_than=0.0)
    def other_tasks_pay(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        """There, other tasks lose weight.

        Measured: mean squared weight of their features less 1/T.
        """
        return mean(last(run, run.private).isel(task=slice(1, None))) - 1 / self.data(arm).tasks

    @ordering("derived, for Proposition F.9", on=(TUNED, TUNED_EIGHT, FAR), more_than=0.0)
    def finetuning_leaves_the_class(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""What is gained is beyond the bound of pre-training, which fine-tuning drops.

        Measured: $\|W\|_F^2-r$.
        """
        return run.frobenius - self.data(arm).rank
