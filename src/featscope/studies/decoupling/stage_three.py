"""Claims about the end of training (Wen & Li 2021, Theorems 3.4 and E.1, Appendix E).

Symbols: α_ij = <w_i, M_j>; F_j is the sum of α_ij² over neurons that hold j alone; N_i are the features of neuron i.
"""

from dataclasses import dataclass
from functools import partial
from math import exp, log, sqrt

import xarray as xr

from featscope.claims import (
    COSINE,
    POSITIVE,
    SHARE,
    Found,
    bound,
    identity,
    ordering,
)
from featscope.probes import stored
from featscope.studies import Runs, last
from featscope.studies.decoupling.at_start import is_spread
from featscope.studies.decoupling.probes import NEARLY_ALL
from featscope.studies.decoupling.stage_one import energy_at_the_end
from featscope.studies.decoupling.stage_two import ONE_IN_FIFTY, StageTwo, lucky_alone, most
from featscope.studies.reductions import known, mean, mean_of
from featscope.studies.summaries import in_words, percent
from featscope.theory import decoupling as theory
from featscope.theory.ideal_network import fires

TREND = (
    "For the trend in size: half as many features, input dimensions and neurons, after as long by the clock η t = d^c."
)
WITHOUT = {"augmented": "plain", "louder": "louder-unmasked", "tau-1": "thresholds-only"}
"""Arms with augmentation, and what each is compared with."""
WITH_AND_WITHOUT = {
    "augmented": "The other network has thresholds at 0 and is linear: they are a part of the difference.",
    "louder": "The mask alone sets the other network apart.",
}
nine_in_ten = partial(bound, at_least=0.9)  # of means over many neurons or inputs, which are not skewed
features_of = partial(bound, at_least=0.9, law="share", things=lambda study: study.data.features)


def own(run: xr.Dataset) -> xr.DataArray:
    """Which neurons hold which features alone in the end: ``[replica, neuron, feature]``."""
    return last(run, run.alignment) ** 2 > 0.5


def of_singletons(run: xr.Dataset, values: xr.DataArray) -> xr.DataArray:
    """Mean of ``values`` over neurons that hold a feature alone: ``[replica]``; NaN where there is none.

    Neurons that never fire, of which there is nothing to say, are left out.
    """
    of_neurons = values.where(own(run).any("feature")).mean("neuron", skipna=True)
    return known(of_neurons, last(run, run.alignment))


def ratio_of(run: xr.Dataset) -> float:
    """Threshold over norm in the end, mean over neurons and over replicas that did not diverge."""
    return float(mean(last(run, run.bias) / last(run, run.norm)).mean("replica", skipna=True))


@dataclass(frozen=True)
class StageThree(StageTwo):
    """What is said of the end of training."""

    # --- What neurons hold (Theorems 3.2, 3.4 and E.1) ----------------------------------------------------------------

    @identity(
        "Theorem E.1",
        on="augmented",
        equals=1.0,
        within=0.05,
        because="Tolerance: 5 %, a stated choice.",
        note="Claims about the end are judged on a plateau: without a cap in units of the norm thresholds grow on "
        "until neurons die.",
        range=POSITIVE,
    )
    def training_has_settled(self, run: xr.Dataset) -> xr.DataArray:
        """Training has come to an end. Measured: mean firing in the end over that a tenth of the steps before."""
        rate = run.firing_rate.mean("neuron", skipna=False)
        before = rate.sel(step=0.9 * float(run["step"].max()), method="nearest")
        return last(run, rate) / before

    @features_of(
        "Theorem 3.4",
        on={"augmented": "Bound: nine features in ten, a stated choice."},
        not_on={
            "canonical": "Control: the mask destroys features on single coordinates.",
            "literal-bias": "The paper's own schedule kills every neuron at this size: thresholds grow at η/d, "
            "lucky weights at η(p(1 - b/α) - λ), which is not faster.",
        },
        given=is_spread,
    )
    def singletons_emerge(self, run: xr.Dataset) -> xr.DataArray:
        r"""Every feature gets a neuron of its own.

        With RandomMask each true feature $M_j$ ends in at least one neuron that holds it alone. Measured: the share of
        features with a neuron whose squared cosine to them exceeds $\frac{1}{2}$.
        """
        return last(run, run.coverage)

    @bound(
        "derived, for Theorem 3.4",
        on="literal-bias",
        not_on={"augmented": "Thresholds stop growing against the norm."},
        at_least=0.95,
        because="Bound: nearly all, as finitely many cannot show that all are; settled when all had been seen to be.",
        law="share",
    )
    def literal_schedule_silences(self, run: xr.Dataset) -> xr.DataArray:
        """The paper's own schedule silences every neuron at this size.

        Measured: share of neurons that fire on none of 4,096 inputs at the end.
        """
        return known(run.census_firing == 0, run.census_firing)

    @bound(
        "Theorem 3.2",
        on={"plain": ""},
        not_on={
            "thresholds-only": "At reachable size features outgrow noise without a mask, too, by a factor 1 + p/s², "
            "and thresholds then sort them out."
        },
        at_most=0.02,
        because="Bound: one neuron in fifty; finitely many cannot show that there is none.",
        note="With thresholds at 0, as on `plain`, the network is linear and picks no feature with masking either.",
        law="share",
    )
    def no_singletons_without_augmentation(self, run: xr.Dataset) -> xr.DataArray:
        """Without augmentation no neuron holds a single feature. Measured: share of neurons that do."""
        return known(own(run).any("feature"), last(run, run.alignment))

    @ordering(
        "Theorems 3.2, 3.4",
        on="louder",
        more_than=0.5,
        because="Bound: half of the features, a stated choice. Paired by replica.",
        note="Both arms have the same thresholds and noise of twice the variance; the mask alone sets them apart.",
        range=COSINE,
        given=is_spread,
    )
    def masking_finds_what_noise_hides(self, run: xr.Dataset, runs: Runs) -> xr.DataArray:
        """In loud noise features get neurons of their own with masking, and do not without.

        Measured: share of features that a neuron holds alone with masking, less that without.
        """
        return last(run, run.coverage) - last(runs["louder-unmasked"], runs["louder-unmasked"].coverage)

    @nine_in_ten(
        "Theorem 3.4",
        on="augmented",
        not_on="canonical",
        because="Bound: a stated choice; batches of this size allow no more than the energy ceiling.",
        range=SHARE,
        given=is_spread,
    )
    def sparse_energy(self, run: xr.Dataset) -> xr.DataArray:
        r"""What neurons learn is made of features, not of noise.

        With RandomMask the weights end in the span of the features. Measured: the share of
        $\lVert w_i\rVert^2$ that is $\lVert M^{\top} w_i\rVert^2$, mean over neurons.
        """
        return energy_at_the_end(run)

    @bound(
        "Theorem 3.4, Hypothesis D.1",
        on="augmented",
        at_least=0.9,
        because="Bound: nine in ten, a stated choice; the theorem has all.",
        law="share",
        given=is_spread,
    )
    def lucky_become_singletons(self, run: xr.Dataset) -> xr.DataArray:
        r"""The lottery: who is lucky for one feature alone at the start ends with that feature.

        Measured: share of the pairs of a neuron and a feature in $\mathrm{Set}^{*}_j$ that end as singleton and its
        feature.
        """
        return known(own(run), last(run, run.alignment)).where(lucky_alone(run))

    @bound(
        "Theorem 3.4, E.1",
        on="augmented",
        at_least=0.9,
        because="Bound: nine in ten, a stated choice; the theorem has all.",
        law="share",
        given=is_spread,
    )
    def lucky_features_emerge(self, run: xr.Dataset) -> xr.DataArray:
        r"""A feature for which a neuron was lucky at the start ends with such a neuron.

        Measured: share of the features with some neuron in $\mathrm{Set}^{*}_j$ that one of these neurons holds alone
        in the end.
        """
        lucky = lucky_alone(run)
        emerged = known((own(run) & lucky).any("neuron"), last(run, run.alignment))
        return emerged.where(lucky.any("neuron"))

    @ordering(
        "Theorem 3.4, Hypothesis D.1",
        on="augmented",
        more_than=0.0,
        because="Paired by replica.",
        given=is_spread,
    )
    def the_lottery_pays(self, run: xr.Dataset) -> xr.DataArray:
        r"""A lucky start makes it more likely to end with a feature.

        Measured: share of pairs in $\mathrm{Set}^{*}_j$ that end as singleton and its feature, minus that share of
        neurons that were lucky for none and the feature that they had most of at the start.
        """
        start = run.alignment.isel(step=0, drop=True) ** 2
        unlucky = ~stored.lucky(run, theory.lucky_constant()).any("feature") & (start == start.max("feature"))
        end = last(run, run.alignment)
        won = [mean_of(known(own(run), end), who, ("neuron", "feature")) for who in (lucky_alone(run), unlucky)]
        return known(won[0] - won[1], start)

    @bound(
        "Theorem E.1",
        not_on={"augmented": "Of 8 neurons a feature half lost the lottery and hold on to mixtures."},
        at_least=0.98,
        because="Bound: all but one neuron in fifty; O(1) is read as log d.",
        note="The paper has about one neuron a feature, at which most features would go without a lucky one here.",
        law="share",
    )
    def few_features_a_neuron(self, run: xr.Dataset) -> xr.DataArray:
        r"""A neuron holds few features.

        $|N_i| = O(1)$. Measured: share of neurons with at most $\log d$ features, counting those of which they have at
        least half as much as of their first.
        """
        return known(run.members <= log(self.data.features), run.members)

    @bound(
        "Theorem E.1",
        not_on={
            "augmented": "Two singletons in five have cosines below .9 and keep parts of what they mixed; of their "
            "pairs 8 % are larger, of the others' .4 %, as two replicas have shown."
        },
        at_least=0.98,
        because=ONE_IN_FIFTY,
        note="The theorem bounds every one. Their root mean square, which was judged at first, is below 1/√d whatever "
        "they are, as a singleton has less than half of its squared norm to spare.",
        law="share",
    )
    def off_feature_part(self, run: xr.Dataset) -> xr.DataArray:
        r"""A neuron with a feature of its own has little of the others.

        $|\alpha_{ij'}| \le o(1/\sqrt{d}) \lVert w_i\rVert$ for $j' \notin N_i$. Measured: share of pairs of a
        singleton and a feature that is not its own of which this is true, with constant 1.
        """
        cosines, held = abs(last(run, run.alignment)), own(run)
        small = known(cosines <= 1 / sqrt(self.data.features), cosines)
        return small.where(held.any("feature") & ~held)

    @most("Theorem E.1")
    def no_dense_feature_in_the_end(self, run: xr.Dataset) -> xr.DataArray:
        r"""No neuron holds a dense direction.

        $|\langle w_i, M^{\perp}_j\rangle| \le o(1/\sqrt{d_1}) \lVert w_i\rVert$. Measured: share of neurons of which
        this is true of all $j$, with constant 1.
        """
        return known(run.dense_peak <= 1 / sqrt(self.data.input_dim), run.dense_peak)

    # --- When neurons fire (Fact E.3, Lemma B.6) ----------------------------------------------------------------------

    @identity(
        "Fact E.3",
        on="augmented",
        equals=1.0,
        within=0.1,
        because="Tolerance: 10 %, a stated choice for signals of other features, which count as Gaussian here.",
        range=POSITIVE,
        given=is_spread,
    )
    def firing_rate_of_singletons(self, run: xr.Dataset) -> Found:
        r"""A neuron with one feature fires about as often as that feature is there.

        $\Pr(h_i \ne 0) = O(\log\log d / d)$; with constants, $p \Pr(|\alpha_i + n| > b_i) + (1 - p) \Pr(|n| >
        b_i)$ with $n$ Gaussian of variance $s^2 \lVert w_i\rVert^2 + p \sum_{j'} \alpha_{ij'}^2$. Measured: firing over
        that, mean over singletons.
        """
        p, s2 = self.stage1.p, self.stage1.s2
        cosines, ratio = last(run, run.alignment), last(run, run.bias) / last(run, run.norm)
        first = abs(cosines).max("feature")
        spread = (s2 + p * ((cosines**2).sum("feature") - first**2)) ** 0.5
        predicted = p * fires(first, spread, ratio) + (1 - p) * fires(0.0, spread, ratio)
        rate = in_words(of_singletons(run, run.census_firing) / p)
        return Found(
            of_singletons(run, run.census_firing / first.copy(data=predicted)),
            f"Singletons fire {rate} p of the time.",
        )

    @bound(
        "Fact E.3",
        on="augmented",
        not_on={"smaller": TREND},
        at_most=0.5,
        because="Bound: right more often than wrong, a stated choice.",
        range=SHARE,
        given=is_spread,
    )
    def firing_matches_feature(self, run: xr.Dataset, arm: str) -> Found:
        """A neuron that holds a feature alone fires where it is present, and nowhere else.

        Measured: probability that it does one without the other, where it does either; mean over singletons.
        """
        ideal = self.ideal(self.arm(arm).recipe.data, ratio_of(run)).wrong_firing
        missed, false = (percent(of_singletons(run, run[name])) for name in ("missed_firing", "false_firing"))
        why = f"It misses {missed} of its inputs, and {false} of what it fires on is not its feature"
        return Found(of_singletons(run, run.wrong_firing), f"{why}; the ideal network is wrong in {100 * ideal:.0f} %.")

    @bound(
        "Lemmas B.5, B.6",
        on="augmented",
        relation="<=",
        because="Bound: exp(-log^(1/4) d), the lemma for Stage II with constant 1.",
        note="The lemma for Stage III has exp(-Ω(log² d)): thresholds a power of log d above the noise, which at this "
        "size would be above features too.",
        range=POSITIVE,
        given=is_spread,
    )
    def silent_without_its_feature(self, run: xr.Dataset) -> Found:
        r"""A neuron with one feature hardly ever fires on anything else.

        $\Pr(|\langle w_i, x \rangle| \ge b_i \mid z_j = 0) \le e^{-\Omega(\log^{1/4} d)}$. Measured: that probability,
        mean over singletons.
        """
        absent = (1 - self.stage1.p) ** run.members
        power = log(self.data.features)
        why = f"exp(-log² d) is {exp(-(power**2)):.0e}."
        fired = run.false_firing.fillna(0.0) * run.census_firing / absent
        return Found(of_singletons(run, fired), why, predicted=exp(-(power**0.25)))

    @bound(
        "Lemma B.5",
        on="augmented",
        relation="<=",
        because="Bound: exp(-log^(1/4) d), with constant 1.",
        note="At λ = 1, where the lemma has any λ ≥ .0001: at that noise alone would be above λ b nearly always.",
        range=(0.0, 1.0),
        given=is_spread,
    )
    def masked_views_leave_neurons_silent(self, run: xr.Dataset) -> Found:
        r"""Neurons are silent on most masked inputs, too.

        $\Pr(|\langle w_i, x^{+}\rangle| \ge \lambda b_i) \le e^{-\Omega(\log^{1/4} d)}$. Measured: that probability in
        the end, mean over all neurons.
        """
        small = float((fires(0.0, run.others_spread, 1e-4 * ratio_of(run))).mean())
        why = f"At λ = .0001 noise and other features alone make it {small:.3f}."
        return Found(mean(run.masked_firing), why, predicted=exp(-(log(self.data.features) ** 0.25)))

    @bound(
        "Lemma B.6",
        not_on={
            "augmented": "Noise in a masked view has the standard deviation √2 s‖w‖, which is .34‖w‖ at d = 32: no "
            "threshold below the feature is far above it."
        },
        relation="<=",
        because="Bound: exp(-log² d), with constant 1, at λ = .99, where it is easiest.",
        range=(0.0, 1.0),
    )
    def others_below_threshold(self, run: xr.Dataset) -> Found:
        r"""All that is not of a neuron's own feature stays below its threshold.

        $\Pr(|\sum_{j \notin N_i} \langle w_i, 2D M_j\rangle z_j + \langle w_i, 2D\xi\rangle| \ge \lambda b_i) \le
        e^{-\Omega(\log^2 d)}$. Measured: that probability in the end, mean over singletons.
        """
        return Found(of_singletons(run, run.others_firing), predicted=exp(-(log(self.data.features) ** 2)))

    @identity(
        "Lemma B.6; derived",
        on="augmented",
        equals=1.0,
        within=0.1,
        because="Tolerance: 10 %, a stated choice for signals of other features, which count as Gaussian here.",
        range=POSITIVE,
        corrects="others-below-threshold",
        given=is_spread,
    )
    def others_as_gaussian(self, run: xr.Dataset) -> Found:
        r"""What is not of its own feature passes a neuron's threshold as often as a Gaussian of its variance.

        The variance is $2 s^2 \lVert w_i\rVert^2 + p \sum_{j \notin N_i} (\alpha_{ij}^2 + \sum_s w_{is}^2 M_{sj}^2)$.
        Measured: the probability of Lemma B.6 at $\lambda = .99$ over the Gaussian's, mean over singletons.
        """
        ratio = last(run, run.bias) / last(run, run.norm)
        predicted = run.others_spread.copy(data=fires(0.0, run.others_spread, NEARLY_ALL * ratio))
        why = f"The Gaussian's is {in_words(of_singletons(run, predicted), '{:.3f}')}."
        return Found(of_singletons(run, run.others_firing) / of_singletons(run, predicted), why)
