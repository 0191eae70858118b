"""What the paper says of infinite batches, and what follows from its system: without the head, and with it."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import xarray as xr

from featscope.claims import COSINE, POSITIVE, SHARE, STATED, Found, bound, fitted_exponent, identity, ordering, scaling
from featscope.studies import Runs
from featscope.studies.prediction_head.arms import PredictionHeadArms
from featscope.studies.prediction_head.probes import among, diverse, median, rescued, share
from featscope.theory import prediction_head as theory
from featscope.training.infinite_batches import moments
from featscope.training.phases import LEARNED

CHOICE = f"Bound: {STATED}"
MOST, FEW = 0.95, 0.05
as_predicted = partial(identity, equals=1.0, within=0.05, range=POSITIVE)  # a measurement over its closed form


@dataclass(frozen=True)
class InfiniteBatchesClaims(PredictionHeadArms):
    """Claims of the arms that follow gradient flow. Options and arms are `PredictionHeadArms`'."""

    @identity(
        "App. A, (A.1), (A.2)",
        on="head",
        equals=1.0,
        within=0.05,
        because="Tolerance: batches of 16,384 samples, heavy tails.",
        note="(A.2) as printed lacks factors 3 and 1/2, Phi has a wrong exponent, and C2 is twice too large.",
    )
    def ode_gradient_exact(self, run: xr.Dataset) -> xr.DataArray:
        r"""With infinite batches, training follows a differential equation in a few numbers.

        With infinite batches the learner is a closed system in $B$, $R$ and $E$. Measured: the gradient of Algorithm
        1's loss on a large batch, three neurons and a random head, along the equation's.
        """
        return run.gradient_along

    @identity(
        "Lemma B.8a; derived",
        on=dict.fromkeys(("head", "no-head"), "Tolerance: of the integration, 1e-6 a step."),
        not_on={"no-normalization": "Outputs are not normalised."},
        equals=0.0,
        within=1e-3,
        law="exact",
        range=POSITIVE,
    )
    def norm_head_invariant(self, run: xr.Dataset) -> xr.DataArray:
        r"""What a neuron gains in length it takes from the head.

        $\|w_k\|^2 - 3\frac{\eta}{\eta_E}(\sum_j E_{jk}^2 - \sum_r E_{kr}^2)$ does not change, as outputs are
        normalised. Measured: largest change of that difference in any trajectory.
        """
        return run.drift.max("start")

    @as_predicted("Lemma B.13; derived", on="sizes", because="Tolerance: signal in the variance while it is learned.")
    def phase1_time(self, run: xr.Dataset) -> xr.DataArray:
        r"""When the strong feature is learned, a closed form says.

        $T_1 = C_2 \cdot 15 s^6 R_1^3/(12 C_0 \alpha_1^6 B_{11}(0)^4)$. Measured: $T_1$ over that, median at $d = 1000$
        and above.
        """
        large = run.sel(weak=2.0, drop=True).where(run["input_dim"] >= 1000, drop=True)
        law = theory.phase_one_time(
            large.start_overlap, large.start_noise, moments(self.data), self.data.noise_std, LEARNED
        )
        ratio = (large.time_strong_learned / law).where(np.isfinite(large.time_strong_learned))
        return ratio.where(large.predicted_collapse > 0).median(("start", "input_dim"))

    @as_predicted(
        "Theorem E.2b; derived",
        on="no-head",
        because="Tolerance: the law is for small R, R_0 and the moment from which it holds hardly matter in the end.",
    )
    def noise_decays(self, run: xr.Dataset) -> xr.DataArray:
        r"""A neuron that has learned a feature loses its noise by a power law.

        $R = (R_0^{-2} + ct)^{-1/2}$. Measured: $R_1$ in the end over that, where both neurons collapsed.
        """
        settled = run.collapsed * (run.mixed == 0) * (run.end_noise < 0.5 * run.start_noise)
        passed = (self.duration - run.time_strong_learned).where(settled > 0)
        law = theory.noise_decay(passed, run.start_noise, run.end_overlap, 0, moments(self.data), self.data.noise_std)
        return median(run.end_noise / law, settled)

    # --- Without the head ---------------------------------------------------------------------------------------------

    @identity(
        "App. F; derived",
        on="no-head",
        not_on="head",
        at_least=MOST,
        because=CHOICE,
        law="share",
        things=lambda study: study.starts,
    )
    def no_head_selection_rule(self, run: xr.Dataset) -> xr.DataArray:
        r"""Without head, where a neuron ends is decided by where it starts.

        A neuron ends on the strong feature if and only if $\alpha_1^{1.5} |B_{j1}| > \alpha_2^{1.5} |B_{j2}|$ at the
        start. Measured: share of neurons for which it is so.
        """
        return run.rule_followed.mean("start")

    @identity(
        "Theorem 4.3; derived",
        on="ratios",
        equals=0.0,
        within=0.1,
        note="The theorem has 1 - o(1), which is the limit of ever stronger features: 0.61 at α_1/α_2 = 2, 0.85 at 4.",
        range=(-1, 1),
    )
    def collapse_probability(self, run: xr.Dataset) -> Found:
        r"""How often both neurons are bound for the strong feature, a closed form says.

        Both neurons end on the strong feature with probability $(1 - \frac{2}{\pi}
        \arctan((\alpha_2/\alpha_1)^{1.5}))^2$. Measured: share of starts that the rule sends there, minus that.
        """
        alike = (moments(replace(self.data, weak=float(weak))) for weak in run["weak"].values)
        law = xr.DataArray([theory.strong_probability(data) ** 2 for data in alike], {"weak": run["weak"]})
        apart = (run.predicted_collapse.mean("start") - law).mean("weak")
        starts = f"Tolerance: {run.sizes['start']} starts a replica."
        return Found(apart, f"{starts} Predicted by α_1/α_2: {self._by_ratio(law)}.")

    def _by_ratio(self, values: xr.DataArray) -> str:
        return ", ".join(f"{self.data.strong / float(one['weak']):.3g}: {float(one):.2f}" for one in values)

    @bound(
        "Theorem 4.3, Cor. 4.4",
        on={
            "no-head": "Bound: a stated choice; some have not settled.",
            "ratios": "Bound: a stated choice; the least over α_2.",
        },
        not_on={"equal-no-head": "Of all starts, as theory says of features of unequal strength."},
        at_least=0.9,
        law="share",
    )
    def collapse_without_head(self, run: xr.Dataset, arm: str) -> Found:
        """Where the rule says so, both neurons end on the strong feature without head.

        Measured: share of starts that the rule sends there in which both do.
        """
        every, bound_for = run.collapsed, among(run.collapsed, run.predicted_collapse)
        if arm == "equal-no-head":
            return Found(every)
        if arm == "no-head":
            return Found(bound_for, f"Of all starts {float(every.mean()):.2f}.")
        means = every.mean(("replica", "start"))
        least = int(bound_for.mean(("replica", "start")).values.argmin())
        return Found(bound_for.isel(weak=least), f"Of all starts both do, by α_1/α_2: {self._by_ratio(means)}.")

    @bound(
        "Cor. 4.4",
        on="no-head",
        not_on="head",
        at_least=0.9,
        because=f"{CHOICE} Where the rule says that both collapse.",
        range=SHARE,
    )
    def neurons_correlate(self, run: xr.Dataset) -> xr.DataArray:
        r"""Collapsed neurons are one and the same.

        Without head $|\mathrm{Corr}(f_1, f_2)|$ is near 1. Measured: mean correlation $|\mathrm{Corr}(f_1, f_2)|$ where
        both have collapsed.
        """
        return share(run.correlation, run.predicted_collapse)

    @bound(
        "Theorem 4.3",
        not_on="widths",
        at_least=MOST,
        because=CHOICE,
        note="At a finite ratio of strengths each neuron may end on the weak feature, so wide networks never collapse "
        "as a whole.",
        law="share",
        things=lambda study: study.starts,
    )
    def any_width_collapses(self, run: xr.Dataset) -> Found:
        """Any number of neurons collapses on the strong feature. Measured: share of starts in which all 64 do."""
        widest, means = run.collapsed_up_to.isel(doubling=-1), run.collapsed_up_to.mean("replica")
        return Found(widest, f"The share is {by_width(means)}.")

    @identity("Theorem 4.3; derived", on="widths", equals=0.0, within=0.1, range=COSINE)
    def width_law(self, run: xr.Dataset) -> Found:
        r"""How often networks collapse falls with their width as a closed form says.

        $m$ neurons without head all collapse with the $m$-th power of one neuron's probability. Measured: share of
        starts that do, minus that, mean over $m = 1, 2, 4, 8$.
        """
        law = theory.strong_probability(moments(self.data)) ** 2.0 ** np.arange(4)
        apart = run.collapsed_up_to.isel(doubling=slice(4)) - xr.DataArray(law, dims="doubling")
        why = f"Tolerance: starts that have not settled count as not collapsed. By the law {by_width(law)}."
        largest = float(abs(apart.mean("replica")).max())
        return Found(apart.mean("doubling"), f"{why} The largest difference is {largest:.3f}.")

    # --- With the head ------------------------------------------------------------------------------------------------

    @ordering(
        "Theorem 4.1",
        on=("head", "rare-weak", "both-features"),
        not_on="no-head",
        more_than=0.5,
        note="The theorem has probability 1 - o(1) in d.",
        law="share",
    )
    def head_rescues(self, run: xr.Dataset, arm: str) -> Found:
        """With the head, neurons learn different features instead of both the strong one.

        Measured: share of starts that end so, of those from which both would learn the strong one without head.
        """
        if arm in ("rare-weak", "both-features"):
            return Found(among(run.diverse, run.predicted_collapse), f"Remark 3.2. {CHOICE}")
        every, collapsed = float(run.diverse.mean()), float(share(run.collapsed, run.predicted_collapse).mean())
        of_all = f"Of all starts {every:.2f} end diverse, {collapsed:.2f} of these collapse."
        return Found(among(run.diverse, run.predicted_collapse), f"Bound: most, {STATED} {of_all}")

    @ordering("Theorem 4.1", on="sizes", more_than=0.0, range=(-1, 1))
    def rescue_grows_with_dimension(self, run: xr.Dataset) -> Found:
        r"""The more dimensions inputs have, the more networks the head rescues.

        The share rescued tends to 1 with $d$. Measured: the share at $d = 10000$ minus that at 100.
        """
        shares = diverse(run)
        trends = []
        for at_weak in shares.mean("replica").transpose("weak", "input_dim"):
            each = ", ".join(f"{float(one):.2f} at {float(one['input_dim']):g}" for one in at_weak)
            trends.append(f"{each} with α_2 = {float(at_weak['weak']):g}")
        both = shares.mean("weak")
        grown = both.isel(input_dim=-1) - both.sel(input_dim=100, drop=True)
        return Found(grown, f"Mean over α_2. The share is {'; '.join(trends)}.")

    @bound("Cor. 4.2", on="head", relation="<=", because="Bound: d^-1/2, with constant 1.", range=SHARE)
    def diverse_neurons_decorrelate(self, run: xr.Dataset) -> Found:
        r"""Neurons that learned different features hardly correlate.

        Then $|\mathrm{Corr}(f_1, f_2)| = O(d^{-1/2})$. Measured: mean correlation $|\mathrm{Corr}(f_1, f_2)|$ of
        rescued starts.
        """
        return Found(share(run.correlation, rescued(run)), predicted=self.data.input_dim**-0.5)

    @identity(
        "Cor. E.3",
        on="head",
        relation="=",
        within=0.02,
        because="Tolerance: a stated choice; noise decays slowly.",
        range=POSITIVE,
    )
    def optimum_value(self, run: xr.Dataset) -> Found:
        r"""The loss ends at the least that there is.

        The loss tends to $2(1 - C_0/C_1)$. Measured: median loss of rescued starts in the end.
        """
        return Found(median(run.final_loss, rescued(run)), predicted=theory.optimum(moments(self.data)))

    @identity(
        "Theorems 4.1, 4.3",
        on="head",
        equals=0.0,
        within=0.02,
        because="Tolerance: a stated choice; the loss begins at about 2.",
    )
    def loss_cannot_see_collapse(self, run: xr.Dataset, runs: Runs) -> xr.DataArray:
        """Collapsed and diverse networks reach the same loss.

        Measured: median loss where both neurons collapsed minus that where they are diverse.
        """
        alone = runs["no-head"]
        return median(alone.final_loss, alone.collapsed) - median(run.final_loss, rescued(run))

    # --- The phases ---------------------------------------------------------------------------------------------------

    @ordering("Section 5", on="head", more_than=0.9, because=CHOICE, law="share")
    def four_phases(self, run: xr.Dataset) -> Found:
        """Networks that the head rescues go through four phases.

        The fast neuron learns the strong feature, the slow one borrows it, the slow one learns the weak feature, the
        head returns. Measured: share of rescued trajectories that pass these in this order.
        """
        names = ("strong_learned", "substituted", "weak_learned", "returned")
        one, two, three, four = times = [run[f"time_{name}"] for name in names]
        in_order = (one < two) & (two < three) & (three < four) & np.isfinite(four)
        medians = ", ".join(f"{float(median(time, rescued(run)).median()):.3g}" for time in times)
        return Found(among(in_order, rescued(run)), f"Median times are {medians} (units of 1/η).")

    @ordering(
        "(C.1), App. C and D",
        not_on="head",
        more_than=0.9,
        because=f"{CHOICE} The two phases overlap.",
        note="(C.1) prints E_12 for E_21. The marker takes log d for large.",
        law="share",
    )
    def noise_falls_before_weak_is_learned(self, run: xr.Dataset) -> xr.DataArray:
        r"""The slow neuron has lost its noise before it learns the weak feature.

        The second phase ends when $R_2 < |E_{21}|/\log d$, before the weak feature is learned. Measured: share of
        rescued trajectories in which it happens, and in this order.
        """
        fallen = (run.time_noise_fallen < run.time_weak_learned) & np.isfinite(run.time_weak_learned)
        return among(fallen, rescued(run))

    @ordering("Lemma 5.2 / C.8", on="head", more_than=0.9, because=CHOICE, law="share")
    def substitution(self, run: xr.Dataset) -> Found:
        r"""The slow neuron borrows the strong feature before it learns the weak one.

        $|E_{21} B_{11}^3|$ is far above $|B_{21}^3|$. Measured: share of rescued trajectories in which it is ten times
        larger at the peak of $E_{21}$.
        """
        middle = float(median(run.borrowed, rescued(run)).median())
        return Found(among(run.borrowed > 10, rescued(run)), f"The median is {middle:.3g}.")

    @ordering("Lemma C.8", on="head", more_than=MOST, because=CHOICE, law="share")
    def head_has_the_sign(self, run: xr.Dataset) -> xr.DataArray:
        """What the slow neuron borrows has the sign of what it has.

        $E_{21}$ takes the sign of $B_{11} B_{21}$. Measured: share of rescued trajectories where it has it at its peak.
        """
        return among(run.head_sign, rescued(run))

    @bound("Lemma C.8", on="head", at_most=0.2, because=CHOICE, range=POSITIVE)
    def others_stand_still(self, run: xr.Dataset) -> xr.DataArray:
        """While the head rises, nothing else moves.

        From $T_1$ to substitution all other overlaps stay. Measured: median over rescued trajectories of the largest
        relative change.
        """
        return median(run.others_moved, rescued(run))

    @bound("Lemma 5.3 / D.8", on="head", at_least=1.0, because=f"Bound: tenfold, {STATED}")
    def acceleration(self, run: xr.Dataset) -> xr.DataArray:
        """Having borrowed the strong feature, the slow neuron learns the weak one faster.

        $H_{21}/H_{22}$ is large. Measured: median over rescued trajectories of its log10 at the peak of $E_{21}$.
        """
        return median(np.log10(run.acceleration), rescued(run))

    @bound(
        "Lemma E.7; derived",
        on="head",
        at_most=1.001,
        because="Bound: 1, and a thousandth for what E_12 gives.",
        note="The paper's √2 takes the norm of a random neuron for √2; it is 1.",
        law="extreme",
        things=lambda study: study.starts,
        range=POSITIVE,
    )
    def peak_of_the_head(self, run: xr.Dataset) -> Found:
        r"""The head never grows beyond what a closed form says.

        $|E_{21}|$ never exceeds $\|w_2(0)\| \sqrt{\eta_E/3\eta}$. Measured: largest $|E_{21}|$ over the closed form, in
        any trajectory.
        """
        ratio = run.head_peak / theory.head_peak_bound(np.sqrt(run.slow_norm), self.head.rate)
        middle = float(median(ratio, rescued(run)).median())
        return Found(ratio.max("start"), f"The median over rescued trajectories is {middle:.2f}.")

    @bound("Proposition 5.4", on="head", at_most=0.1, because=CHOICE, range=SHARE)
    def rise_and_fall(self, run: xr.Dataset) -> xr.DataArray:
        r"""The head leaves the identity, and comes back.

        $\|E - I\|$ rises and falls. Measured: $|E_{21}|$ in the end over its peak, median over rescued trajectories.
        """
        return median(run.head_end / run.head_peak, rescued(run))

    @identity("App. E.1; derived", on="head", equals=1.0, within=0.05, because="Tolerance: noise that is left.")
    def head_returns_to_identity(self, run: xr.Dataset) -> xr.DataArray:
        r"""In the end the head returns to the identity, at a rate that a closed form gives.

        $E_{21}$ decays at the rate $\eta_E (C_0/C_1)(\alpha_1/\alpha_2)^6(B_{11}/B_{22})^6$. Measured: the rate over
        that, median over rescued trajectories.
        """
        law = theory.head_decay_rate(run.end_overlap, run.other_weak, moments(self.data), self.head.rate)
        return median(run.head_decay / law, rescued(run))

    @scaling(
        "Lemma B.13", on="sizes", equals=2.0, within=0.1, because="Tolerance: signal at the smaller d; from d = 100 on."
    )
    def phase1_scaling(self, run: xr.Dataset) -> np.ndarray:
        """The first phase takes as long as the dimension squared.

        $T_1$ grows as $d^2$. Measured: exponent of its median over $d$.
        """
        large = run.sel(weak=2.0, drop=True).where(run["input_dim"] >= 100, drop=True)
        times = median(large.time_strong_learned, np.isfinite(large.time_strong_learned))
        return fitted_exponent(large["input_dim"].values.astype(float), times.transpose("replica", "input_dim").values)


def by_width(shares: xr.DataArray | np.ndarray) -> str:
    """Shares of networks of 1, 2, 4, ... neurons, in words."""
    return ", ".join(f"{float(one):.2f} at {2**k}" for k, one in enumerate(shares))
