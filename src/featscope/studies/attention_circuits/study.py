"""What is claimed of attention matrices, and what is shown."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from featscope.claims import COSINE, POSITIVE, SHARE, STATED, Claim, Found, bound, identity, ordering
from featscope.figures import Figure
from featscope.studies.addition import JUDGED
from featscope.studies.attention_circuits import figures, probes
from featscope.studies.attention_circuits.arms import (
    EQUALS,
    FIVE,
    FOUR,
    INPUTS,
    SHUFFLED,
    THREE,
    WIDE,
    AttentionCircuitsArms,
)
from featscope.studies.attention_circuits.probes import TOP
from featscope.studies.base import Runs, Story, last
from featscope.studies.reductions import mean
from featscope.studies.summaries import in_case, percent, verdict
from featscope.theory import attention_circuits as theory

NOT_LEARNED = "With labels of other points there is no sum to learn."
WHOLE = "Whole numbers."
FEW_BINS = "At the default size, modulo 5, there are eight bins in all."
HALF = 0.5
OF_TWO = 0.8
"""Share of two frequencies from which on there are no more to speak of, and of one from which on there is no second."""


def many_bins(study: "AttentionCircuits") -> list[str]:
    """Arms on which four bins have less than half of the power before training: there half is a finding."""
    return [arm for arm in (THREE, FOUR) if study.exponential(arm) < HALF]


def many_frequencies(study: "AttentionCircuits") -> list[str]:
    """The arm of three numbers, if two frequencies have less than the bound there with random weights."""
    learner = study.arm(THREE).recipe.learner
    at_random = probes.waves_at_random(study.modulus(THREE), learner.hidden, learner.head_dim)
    return [THREE] if at_random < OF_TWO else []


def its_control(told: Callable[["AttentionCircuits"], list[str]]) -> Callable[["AttentionCircuits"], Mapping[str, str]]:
    """Labels of other points, where the arm of three numbers is told of, as the modulus is the same."""
    return lambda study: {SHUFFLED: NOT_LEARNED} if THREE in told(study) else {}


@dataclass(frozen=True)
class AttentionCircuits(AttentionCircuitsArms):
    """One layer of attention, and nothing else, adds numbers modulo p (Section 4.5, Figures 4.3, C.5 and C.6).

    Options and arms are `AttentionCircuitsArms`'.
    """

    asks = "Does one layer of attention learn to add several numbers, and are its attention matrices waves then?"

    def modulus(self, arm: str) -> int:
        """p of an arm."""
        return self.arm(arm).recipe.data.modulus

    # --- Learning ---------------------------------------------------------------------------------------------------

    @bound(
        "Sections 4.5 and 4.6",
        on=[THREE, FOUR, FIVE, EQUALS],
        not_on={SHUFFLED: NOT_LEARNED},
        at_least=0.8,
        because=f"Bound: {STATED}",
        law="share",
    )
    def learns_the_sum(self, run: xr.Dataset, arm: str) -> Found:
        """One layer of attention learns to add three, four and five numbers.

        Trained on half of the points. Measured: accuracy on others at the end.
        """
        right = last(run, run.test_accuracy)
        found = Found(right, trials=xr.full_like(right, self._judged(arm)))
        return found._replace(why=f"Chance is {1 / self.modulus(arm):.2f}.")

    @bound(
        "derived, for Section 4.5",
        on=THREE,
        at_least=0.5,
        because="Bound: half, where chance is 1/p; settled when 0.75 had been seen.",
        law="share",
        note="Of the control. That nothing else becomes of it is so of a layer that is not trained, too.",
    )
    def labels_of_others_are_learned_by_heart(self, runs: Runs) -> Found:
        """Labels of other points are learned by heart.

        Measured: accuracy with labels of other points, on the points to train on at the end.
        """
        right, data = last(runs[SHUFFLED], runs[SHUFFLED].accuracy), self.arm(SHUFFLED).recipe.data
        return Found(right, trials=xr.full_like(right, min(JUDGED, max(1, round(data.share * data.count)))))

    @identity(
        "derived, for Section 4.5",
        on=EQUALS,
        not_on={THREE: "There a number asks, so the figure must have been read so."},
        equals=0.0,
        within=0.0,
        law="exact",
        range=POSITIVE,
        note="One layer, one column: scores between numbers are in other columns.",
    )
    def read_at_equals_pairs_do_not_count(self, run: xr.Dataset) -> xr.DataArray:
        """Read at a token after the numbers, answers do not depend on the attention matrices over numbers.

        Measured: largest change of a logit if their columns are turned around.
        """
        return run.moved

    @identity(
        "derived, for Figure 4.3", on=[THREE, FOUR, FIVE, WIDE], equals=0.0, within=0.0, law="exact", because=WHOLE
    )
    def bins_are_those_of_the_transform(self, run: xr.Dataset, arm: str) -> float:
        """Formulas count as many bins as a discrete Fourier transform has.

        Those of a half plane, but for what is constant along rows or columns. Measured: the formula's number less that
        of the transform of a matrix.
        """
        bins = np.fft.rfft2(run.start_matrices.values[0, 0])[1:, 1:].size
        return float(theory.half_plane(self.modulus(arm)) - bins)

    # --- Spectra ----------------------------------------------------------------------------------------------------

    @ordering(
        "Figures 4.3, C.5 and C.6",
        on=[THREE, FOUR, FIVE],
        not_on={SHUFFLED: NOT_LEARNED},
        more_than=0.1,
        because=f"Margin: a tenth of what is left; {STATED}",
        note="Heads with less than a tenth of the norm of the largest are left out.",
    )
    def attention_is_sparse_in_frequency(self, run: xr.Dataset) -> xr.DataArray:
        """Training moves the power of attention matrices into few bins of frequency.

        In the coordinates of numbers, E^T W^KQ E. Measured: share of the power in the four largest bins after training
        less that before, over what was left before, mean over heads.
        """
        return self._gained(run)

    @bound(
        "Figures 4.3 and C.5",
        on=many_bins,
        not_on=its_control(many_bins),
        at_least=HALF,
        because=f"Bound: {STATED}",
        range=SHARE,
        note="Judged where random weights have less than half there: modulo 7, the default for four numbers, there are "
        "18 bins, and they have more.",
    )
    def few_bins_hold_most(self, run: xr.Dataset, arm: str) -> Found:
        """Few bins of frequency hold most of the power of trained attention matrices.

        Measured: share of the power in the four largest bins, mean over heads.
        """
        return Found(of_heads(run.share), self._bins(run, arm))

    @bound(
        "Figure 4.3",
        on=many_frequencies,
        not_on=its_control(many_frequencies),
        at_least=OF_TWO,
        because=f"Bound: {STATED}",
        range=SHARE,
        note="Judged where random weights have less there: modulo 5 there are two frequencies in all.",
    )
    def two_frequencies_a_dimension(self, run: xr.Dataset) -> Found:
        """Each dimension of a trained attention matrix has two frequencies at most.

        Measured: share of the power at the two largest frequencies of a dimension, mean over both and heads.
        """
        return Found(of_heads(run.waves), f"Before training: {percent(run.start_waves)}.")

    @bound(
        "Figure 4.3",
        on=many_frequencies,
        at_most=OF_TWO,
        because=f"Bound: {STATED}",
        range=SHARE,
        note="The text has two cosines of different frequencies in each dimension.",
    )
    def one_frequency_is_not_enough(self, run: xr.Dataset) -> Found:
        """A dimension of a trained attention matrix needs a second frequency.

        Measured: share of the power at the largest frequency of a dimension, mean over both and heads. Nothing where
        the two largest have not gained half of what was left before training: in noise none is enough, either.
        """
        before = mean(run.start_waves)
        waves = (of_heads(run.waves) - before) / (1 - before) >= HALF
        why = f"In {int((~waves).sum())} of {waves.size} replicas two frequencies gained less than half."
        return Found(of_heads(run.wave).where(waves), "" if waves.all() else why)

    @ordering(
        "derived, for Figure 4.3",
        on=EQUALS,
        not_on={SHUFFLED: NOT_LEARNED},
        more_than=0.1,
        because=f"Margin: a tenth of what is left; {STATED}",
        note="Waves of embeddings make waves of any matrix between them, so such a figure does not show that attention "
        "computes with them.",
    )
    def sparse_without_use(self, run: xr.Dataset) -> xr.DataArray:
        """Training moves power into few bins in matrices that no answer depends on, too.

        Measured: share of the power in the four largest bins after training less that before, over what was left
        before, mean over heads.
        """
        return self._gained(run)

    @ordering(
        "derived, for Figure 4.3",
        on=THREE,
        not_on={SHUFFLED: NOT_LEARNED},
        more_than=0.05,
        because=f"Margin: {STATED}",
        range=COSINE,
    )
    def embeddings_alone_become_sparse(self, run: xr.Dataset) -> xr.DataArray:
        """Random heads on trained embeddings have more of their power in few bins than on random ones.

        Measured: share in the four largest bins less that before training, mean over as many random heads.
        """
        return of_heads(run.share_of_embeddings) - mean(run.start_share)

    @ordering(
        "derived, for Figure 4.3",
        on=[THREE, FOUR],
        not_on={FIVE: FEW_BINS, SHUFFLED: NOT_LEARNED},
        more_than=0.05,
        because=f"Margin: {STATED}",
        range=COSINE,
    )
    def sparser_than_its_embeddings(self, run: xr.Dataset) -> xr.DataArray:
        """Heads choose frequencies beyond what their embeddings have.

        Measured: share in the four largest bins less that of heads with random weights on the same trained embeddings,
        mean over heads.
        """
        return of_heads(run.share - run.share_of_embeddings)

    @ordering("derived, for Figure 4.3", on=THREE, more_than=0.0, range=COSINE)
    def sparser_than_learned_by_heart(self, runs: Runs) -> xr.DataArray:
        """Matrices are sparser where there is a sum to learn than where labels are those of other points.

        Measured: share in the four largest bins, mean over heads, of the one less that of the other.
        """
        return of_heads(runs[THREE].share) - of_heads(runs[SHUFFLED].share)

    def _gained(self, run: xr.Dataset) -> xr.DataArray:
        before = mean(run.start_share)
        return (of_heads(run.share) - before) / (1 - before)

    def _bins(self, run: xr.Dataset, arm: str) -> str:
        bins = theory.half_plane(self.modulus(arm))
        return f"There are {bins} bins; before training {percent(run.start_share)}."

    # --- Before training --------------------------------------------------------------------------------------------

    @identity(
        "derived here",
        on=WIDE,
        not_on={THREE: "With few dimensions the power of a bin is a product, with a heavier tail."},
        equals=1.0,
        within=0.05,
        because=f"Tolerance: 5 %; {STATED}",
        range=POSITIVE,
    )
    def initial_share_is_exponential(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""The share of the largest bins of a wide random head is that of exponential power.

        $\frac1n\sum_{i\le m}\sum_{j=i}^n\frac1j$ for the $m$ largest of $n$ bins. Measured: share before training over
        this, mean over heads.
        """
        return mean(run.start_share) / self.exponential(arm)

    @identity(
        "derived here",
        on=[THREE, FOUR, FIVE],
        equals=1.0,
        within=0.1,
        because=f"Tolerance: 10 %, as heads of a replica share embeddings; {STATED}",
        range=POSITIVE,
        note="4000 matrices by Monte Carlo, from the Fourier transform of E on: about half a percent of error.",
    )
    def initial_share_of_narrow_heads(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        """With few dimensions the share follows from those of embeddings and heads.

        Measured: share before training over its mean by Monte Carlo, mean over heads.
        """
        learner = self.arm(arm).recipe.learner
        predicted = theory.share_at_start(self.modulus(arm), learner.hidden, learner.head_dim, TOP)
        return mean(run.start_share) / predicted

    def exponential(self, arm: str) -> float:
        """What exponential power has in the largest bins, at the modulus of an arm."""
        return theory.exponential_share(theory.half_plane(self.modulus(arm)), TOP)

    def _judged(self, arm: str) -> int:
        data = self.arm(arm).recipe.data
        return min(JUDGED, data.count - max(1, round(data.share * data.count)))

    # --- What is shown ----------------------------------------------------------------------------------------------

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """Matrices and spectra before and after, accuracy over time, shares."""
        yield figures.heads(runs[THREE])
        yield figures.spectra(runs[THREE])
        yield figures.over_time(self, runs)
        yield figures.shares(self, runs, self.exponential(THREE))

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """Whether attention learns to add, and what its matrices become."""
        adds = {k: verdict(claims, f"learns-the-sum@{arm}") for arm, k in INPUTS.items()}
        ways = (("holds", "learns"), ("undecided", "may learn"), ("fails", "does not learn"))
        numbers = {found: " and ".join(str(k) for k in adds if adds[k] == found) for found, _ in ways}
        said = [f"{way} to add {numbers[found]} numbers" for found, way in ways if numbers[found]]
        before, after = (percent(runs[THREE][name].mean("head")) for name in ("start_share", "share"))
        unused, sparse = f"sparse-without-use@{EQUALS}", f"attention-is-sparse-in-frequency@{THREE}"
        waves = in_case(claims, sparse, " and waves after training", " and no waves after training either")
        return Story(
            f"One layer of attention {', '.join(said)}. With {INPUTS[THREE]} of them {after} of the power of an "
            f"attention matrix ends in four bins of frequency, from {before}.",
            "A layer of attention, and nothing else, is trained to add numbers modulo p. Seen as matrices over pairs "
            f"of numbers its heads are noise at first{waves}.",
            {
                sparse: "",
                f"learns-the-sum@{FIVE}": "Five numbers, one layer.",
                f"read-at-equals-pairs-do-not-count@{EQUALS}": "",
                unused: in_case(claims, unused, "They are waves there, too.", "They are no waves there."),
            },
        )


def of_heads(shares: xr.DataArray) -> xr.DataArray:
    """Mean over heads that have power; training may let one decay to nothing, whose spectrum has no shares."""
    return shares.mean("head", skipna=True)
