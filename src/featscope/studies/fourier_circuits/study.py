"""Addition modulo p by Fourier circuits (dissertation, Chapter 4 and Appendix C): what training finds.

Closed forms and what is mended are in `featscope.theory.fourier_circuits`. ``margin`` is the least normalised margin of
the points to train on over γ*, ``margin_everywhere`` that of all points.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from featscope.claims import POSITIVE, STATED, Claim, Found, bound, identity
from featscope.figures import Figure
from featscope.studies.base import Runs, Story, last
from featscope.studies.fourier_circuits import figures
from featscope.studies.fourier_circuits.arms import (
    DECAY,
    FIVE,
    FOUR,
    HALF,
    HALF_LARGE,
    LARGE_START,
    PENALTIES,
    SMALL_START,
    TIGHT,
    TRAINED,
    TWO,
)
from featscope.studies.fourier_circuits.constructed import ConstructedCircuits
from featscope.studies.reductions import largest, mean, smallest
from featscope.studies.summaries import in_case, in_words, verdict
from featscope.theory import fourier_circuits as theory

READ_AS_DECAY = (
    "λ read as weight decay, as a table of settings has it: at default steps and decay it shrinks weights by 2 % "
    "in all, and networks stay of many frequencies."
)
UNFINISHED = "In so few steps some neurons are still on their way to 0."
OF_HALF = "Of half of the points nothing is proved."
LAZY = "From large weights training fits the points without moving far."


@dataclass(frozen=True)
class FourierCircuits(ConstructedCircuits):
    """Addition modulo p by a network with activation x^k: the largest margin, and what training finds (Chapter 4).

    Options and arms are `FourierCircuitsArms`'.
    """

    asks = "Does training find the network of largest margin for addition modulo p, in which each neuron is a cosine?"

    def sizes(self, arm: str) -> tuple[int, int]:
        """(k, p) of a trained arm."""
        data = self.arm(arm).recipe.data
        return data.inputs, data.modulus

    def optimum(self, arm: str, penalty: float | None = None) -> theory.Optimum:
        """Where the penalised cross-entropy of a trained arm is smallest; where weights decay, for the study's λ."""
        lam = self.arm(arm).recipe.objective.penalty if penalty is None else penalty
        return theory.penalised_optimum(*self.sizes(arm), lam or self.penalty)

    def predicted(self, run: xr.Dataset, arm: str) -> xr.DataArray | float:
        """The cross-entropy at the optimum of an arm, for each λ if it has several."""
        if "penalty" not in run.dims:
            return self.optimum(arm).cross_entropy
        found = [self.optimum(arm, float(lam)).cross_entropy for lam in run.penalty.values]
        return xr.DataArray(found, {"penalty": run.penalty.values}, "penalty")

    @identity(
        "derived here",
        on=TRAINED,
        equals=0.2,
        law="exact",
        because="Tolerance: 2/steps², as the cosine is at its least a step after the last.",
    )
    def last_steps_are_a_fifth(self, run: xr.Dataset, arm: str) -> Found:
        """Training ends with steps of a fifth of the size that they began with.

        Measured: step size of the last step that was taken, over the largest.
        """
        recipe = self.arm(arm).recipe
        return Found(run.step_size / recipe.optimizer.lr, tolerance=2 / recipe.steps**2)

    # --- Margins and losses (Lemma 4.7, Theorem 4.9) ------------------------------------------------------------------

    @bound(
        "Theorem 4.9",
        on=[TRAINED, TWO, TIGHT, FOUR, FIVE, PENALTIES, DECAY, LARGE_START],
        not_on={HALF: "A margin on some of the points may be larger, and is."},
        at_most=1 + 1e-5,
        law="exact",
        because="Bound: rounding of float32.",
        note="At every look. Of every network, whatever its draws: one that exceeds it refutes it.",
    )
    def margin_never_exceeds(self, run: xr.Dataset) -> xr.DataArray:
        r"""No network has a larger margin on all points than the largest.

        Measured: least margin of the points to train on over $\gamma^*\|\theta\|^{k+1}$, the largest over steps.
        """
        return largest(run.margin)

    @identity(
        "derived, for Lemma 4.7",
        on=[TRAINED, TWO, FOUR, FIVE, PENALTIES],
        not_on={DECAY: READ_AS_DECAY, LARGE_START: LAZY},
        equals=1.0,
        within=0.01,
        because=f"Tolerance: 1 %; {STATED}",
        note="For every λ, where the lemma has a limit.",
        range=POSITIVE,
    )
    def trained_cross_entropy(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""The cross-entropy ends where a problem in one number says.

        $\log(1+(p-1)e^{-\gamma^*r^{k+1}})$ at the $r$ where this and $\lambda r$ together are least. Measured: final
        cross-entropy over this, mean over $\lambda$ where there are several.
        """
        return mean(last(run, run.cross_entropy) / self.predicted(run, arm))

    @bound(
        "Lemma 4.7, Theorem 4.9",
        on=[TRAINED, TWO, FOUR, FIVE, PENALTIES],
        not_on={DECAY: READ_AS_DECAY, LARGE_START: LAZY},
        at_least=0.95,
        because=f"Bound: {STATED}",
        range=POSITIVE,
    )
    def trained_margin(self, run: xr.Dataset) -> xr.DataArray:
        r"""Training ends near the largest margin.

        Measured: least margin of all points over $\gamma^*$ at the end, the smallest over $\lambda$.
        """
        return smallest(last(run, run.margin_everywhere).clip(min=0))

    # --- Neurons (Section 4.5) ----------------------------------------------------------------------------------------

    @bound(
        "Section 4.5, Figure 4.2c",
        on=[TRAINED, TWO, PENALTIES],
        not_on={HALF: OF_HALF, HALF_LARGE: OF_HALF, DECAY: READ_AS_DECAY},
        at_least=0.95,
        because=f"Bound: {STATED}",
        law="share",
        note="Share of its largest frequency above .9, constants left out.",
    )
    def neurons_single_frequency(self, run: xr.Dataset, arm: str) -> xr.DataArray | None:
        """Embeddings of trained neurons have one frequency.

        Measured: share of embeddings with nine tenths of their power at one frequency, of active neurons.
        """
        if self.sizes(arm)[1] < 5:  # modulo 3 there is one frequency only
            return None
        return (run.shares > 0.9).astype(float).where(run.shares.notnull())

    @bound(
        "Lemma C.15, Section 4.5",
        on=[TRAINED, TWO, PENALTIES],
        not_on={HALF: OF_HALF, DECAY: READ_AS_DECAY},
        at_least=0.95,
        because=f"Bound: {STATED}",
        law="share",
    )
    def neurons_share_their_frequency(self, run: xr.Dataset) -> xr.DataArray:
        """All vectors of a trained neuron have the same frequency.

        Measured: share of active neurons.
        """
        return run.same_frequency

    @bound(
        "Lemma C.15",
        on=[TRAINED, TWO, PENALTIES],
        not_on={FIVE: UNFINISHED, DECAY: READ_AS_DECAY, HALF: OF_HALF},
        at_least=0.95,
        because=f"Bound: {STATED}",
        law="share",
    )
    def trained_phase_rule(self, run: xr.Dataset) -> xr.DataArray:
        """The phases of a trained neuron's embeddings sum to that of its read-out.

        Measured: share of active neurons in which the cosine of the difference, at the neuron's frequency, is above
        .99.
        """
        return (run.phase_rule > 0.99).astype(float).where(run.phase_rule.notnull())

    @bound(
        "Lemma C.15",
        on=[TRAINED, TWO, PENALTIES],
        not_on={FIVE: UNFINISHED, LARGE_START: LAZY},
        at_most=0.05,
        because=f"Bound: {STATED}",
        range=POSITIVE,
    )
    def trained_blocks_are_equal(self, run: xr.Dataset) -> xr.DataArray:
        r"""Each of a trained neuron's k + 1 vectors has the same norm.

        Measured: $|(k+1)\|v\|^2/\|\theta_i\|^2 - 1|$, mean over vectors of active neurons.
        """
        off = abs(run.blocks - 1)  # NaN for neurons that are not active
        return off.mean([dim for dim in off.dims if dim != "replica"], skipna=True)

    @bound(
        "Theorem 4.9",
        on=[TRAINED, TWO, PENALTIES],
        at_least=0.95,
        because="Bound: nearly what each should have; settled when 0.9999 had been seen.",
        note="It was half of that, which random weights have of every frequency, too.",
        range=POSITIVE,
    )
    def all_frequencies_used(self, run: xr.Dataset) -> xr.DataArray:
        r"""Trained networks use every frequency.

        Measured: $\sum\|\theta_i\|^{k+1}$ of the neurons of the rarest frequency over the mean of frequencies.
        """
        return smallest(run.masses)

    @bound(
        "derived, for Lemma C.20",
        on=[TRAINED, TWO, PENALTIES],
        at_most=0.05,
        because=f"Bound: {STATED}",
        range=POSITIVE,
    )
    def equal_frequency_mass(self, run: xr.Dataset) -> xr.DataArray:
        r"""Every frequency has the same mass.

        $\sum\|\theta_i\|^{k+1} = 2/(p-1)$ of the total over the neurons of each. Measured: largest difference over
        frequencies, relative.
        """
        off = abs(run.masses - 1)
        return largest(off)

    # --- Starts, and half of the points -------------------------------------------------------------------------------

    @bound(
        "derived, for Definition 4.1",
        on=SMALL_START,
        not_on={TRAINED: "From weights of the usual size training leaves 0."},
        at_most=0.2,
        because=f"Bound: {STATED}",
        note="The penalty has a slope at 0 and the loss none: 0 is a minimum for every λ > 0.",
        range=POSITIVE,
    )
    def zero_is_a_local_minimum(self, run: xr.Dataset, arm: str) -> Found:
        r"""From small weights training ends at 0, where all labels are alike.

        Measured: $\|\theta\|$ at the end over that at the start.
        """
        loss = in_words(last(run, run.cross_entropy) / float(np.log(self.sizes(arm)[1])), "{:.4f}")
        return Found(last(run, run.norm) / run.norm.isel(step=0), f"Cross-entropy at the end over log p: {loss}.")

    @bound(
        "derived, for Section 4.6",
        on=[DECAY, LARGE_START],
        not_on={SMALL_START: "Weights of 0 give every label alike."},
        at_least=0.95,
        law="share",
        because="Bound: nearly all; settled when all had been seen to be right.",
        note="A small margin alone, which trained-margin and lazy-start-stays see, has a network that is not trained "
        "as well.",
    )
    def points_are_right_all_the_same(self, run: xr.Dataset, arm: str) -> Found:
        """Far from the largest margin nearly every point is right all the same.

        Measured: accuracy on all points at the end.
        """
        right = last(run, run.accuracy)
        return Found(right, trials=xr.full_like(right, self.arm(arm).recipe.data.count))

    @bound(
        "derived, for Section 4.6",
        on=LARGE_START,
        not_on={FIVE: "From smaller weights it comes near."},
        at_most=0.2,
        because=f"Bound: {STATED}",
        range=POSITIVE,
    )
    def lazy_start_stays(self, run: xr.Dataset) -> xr.DataArray:
        r"""From large weights training stays far from the largest margin.

        Measured: least margin of all points over $\gamma^*$ at the end.
        """
        return last(run, run.margin_everywhere).clip(min=0)

    @bound(
        "Section 4.5",
        on=HALF_LARGE,
        not_on={HALF: "Modulo 7 half of the points do not show the rule."},
        at_least=0.95,
        because=f"Bound: {STATED}",
        law="share",
    )
    def half_of_the_points_generalise(self, run: xr.Dataset, arm: str) -> Found:
        """Half of the points are enough for the others.

        Measured: accuracy on the others at the end.
        """
        data = self.arm(arm).recipe.data
        hidden = data.count - round(data.share * data.count)
        right = last(run, run.test_accuracy)
        return Found(right, trials=xr.full_like(right, hidden))

    # --- What is shown ------------------------------------------------------------------------------------------------

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """Margin and loss over time, neurons, spectra, the wheel of frequencies."""
        levels = {
            TRAINED: self.optimum(TRAINED).cross_entropy,
            DECAY: self.optimum(TRAINED).cross_entropy,
        }
        yield figures.over_time(self, runs, levels)
        yield figures.neurons(runs[TRAINED], self.sizes(TRAINED)[0])
        yield figures.spectra(runs[TRAINED], runs[DECAY], runs[HALF_LARGE])
        yield figures.wheel(runs[TWO])

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """Whether the largest margin is as printed, and whether training finds it."""
        k, p = self.sizes(TRAINED)
        words = {"holds": "ends at", "fails": "does not end at", "undecided": "may end at"}
        ends = words[verdict(claims, f"trained-margin@{TRAINED}")]
        decay, even = f"trained-margin@{DECAY}", "even-modulus-with-all@even-modulus"
        exact = {"holds": "has", "fails": "does not have", "undecided": "may have"}
        margin = in_words(100 * last(runs[TRAINED], runs[TRAINED].margin_everywhere), "{:.1f} %")
        return Story(
            f"The hand-set network {exact[verdict(claims, 'gamma-star@written-down')]} the margin of the theorem on "
            f"every point, and training {ends} it: {margin} of the largest.",
            f"A network adds {k} numbers modulo {p}. Theory says how sure of its answers the best network of a given "
            "size of weights can be, and that each of its neurons is a cosine. The first figure shows how near "
            "training comes.",
            {
                "gamma-star@written-down": "",
                f"trained-cross-entropy@{TRAINED}": "",
                f"neurons-single-frequency@{TRAINED}": "",
                decay: in_case(
                    claims,
                    decay,
                    "The strength of the penalty does it, read as weight decay, too.",
                    "The strength of the penalty, read as weight decay, does not do it.",
                ),
                even: in_case(
                    claims, even, "Modulo an even number there is a better network than the formula allows.", ""
                ),
            },
        )
