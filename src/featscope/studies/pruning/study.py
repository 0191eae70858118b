"""Forward magnitude pruning as a remedy for rare features.

The paper is Theoretical Analysis of Contrastive Learning under Imbalanced Data: From Training Dynamics to a Pruning
Solution, Algorithm 1, Theorem 3.2 and Appendix F.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import xarray as xr

from featscope.claims import COSINE, POSITIVE, Claim, Found, bound, identity, ordering
from featscope.figures import Figure
from featscope.studies import Runs, Story, last
from featscope.studies.pruning import figures
from featscope.studies.pruning.arms import JUDGED, LITTLE, follows_theory
from featscope.studies.pruning.tiers import MATTERS, TWENTIETH, Tiers, as_predicted, visibly
from featscope.studies.reductions import known, largest, smallest
from featscope.studies.summaries import in_words, percent, verdict
from featscope.theory.imbalance import activities
from featscope.theory.pruning import singleton_growth

SMALL_PART = "Tolerance: 2 % of what minority samples or neurons gain, a stated choice."


@dataclass(frozen=True)
class Pruning(Tiers):
    """Does hiding the smallest neurons from the logits give rare features their share?

    Options and arms are `PruningArms`'; what is claimed of assumptions and printed factors is in `Assumed`, of several
    tiers of frequency in `Tiers`.
    """

    asks: ClassVar[str] = "Does hiding the smallest neurons from the loss give rare features their share?"

    # --- One step (P Theorem 3.2, Lemma F.2) --------------------------------------------------------------------------

    @visibly("Theorem 3.2(a)", on="one-step")
    def planted_minority_growth(self, run: xr.Dataset) -> xr.DataArray:
        """Hiding the neurons of rare features from the logits makes them grow faster.

        Measured: growth of minority neurons by the data in a step, with pruning over without, minus 1.
        """
        gain = run.growth_minority_pruned - run.growth_minority_whole
        return gain / run.growth_minority_whole

    @identity("Theorem 3.2(b)", on="one-step", equals=0.0, within=0.02, because=SMALL_PART)
    def planted_majority_unchanged(self, run: xr.Dataset) -> xr.DataArray:
        """Other features' neurons grow as before. Measured: change of their growth over that of minority neurons."""
        gain = run.growth_minority_pruned - run.growth_minority_whole
        return (run.growth_majority_pruned - run.growth_majority_whole) / gain.mean()

    @as_predicted(
        "from equation (5), (184)",
        on="one-step-noiseless",
        because="Tolerance: 5 %, a stated choice.",
        note="The paper's (185) has E[1 - ℓ'_p | j] in place of the gap, which drops negatives that share the "
        "anchor's features.",
        corrects="growth-is-the-miss",
    )
    def growth_is_the_gap(self, run: xr.Dataset) -> Found:
        r"""A rare feature's neurons grow by what the logits leave open.

        A minority neuron's growth is $a_j$ times the gap that logits leave,
        $\mathbb{E}[1 - \sum_{\mathrm{keys}} \ell' s s' \mid j]$, with and without pruning. Measured: growth without
        noise over that closed form, at the frequency with which the feature was drawn; the mean of both.
        """
        recipe = self.arm("one-step-noiseless").recipe
        data, start, objective = recipe.data, recipe.learner, recipe.objective
        loss, p = objective.loss, activities(data.features, data.minority, data.eps_min, data.activity)
        rare = np.arange(data.features) >= data.features - data.minority
        amplitude = np.where(rare, start.minority_amplitude, start.amplitude)
        strength = start.neurons * data.tokens**2 * amplitude**2 / loss.temperature
        whole, pruned = (
            float(singleton_growth(seen, p, data.tokens, objective.pairs, loss.temperature, loss.scale)[-1])
            for seen in (strength, np.where(rare, 0.0, strength))
        )
        drawn = run.presence / float(p[-1])
        grown = run.growth_minority_whole, run.growth_minority_pruned
        return Found(
            (grown[0] / (whole * drawn) + grown[1] / (pruned * drawn)) / 2,
            f"Closed forms are {whole:.3f} without and {pruned:.3f} with pruning, measured "
            f"{in_words(grown[0], '{:.3f}')} and {in_words(grown[1], '{:.3f}')}.",
        )

    @ordering("Theorem 3.2", on="one-step", not_on="stationary", more_than=MATTERS)
    def monotone_in_ratio(self, run: xr.Dataset, arm: str) -> Found:
        r"""The more is pruned, the more rare features gain.

        Measured: the smaller of the gains from pruning one minority neuron
        and from pruning the second, over the growth without (one step); the smallest gain in
        $F_{\min}/F_{\mathrm{maj}}$ from one ratio to the next (stationary).
        """
        if arm == "stationary":
            gains = smallest(final_ratio(run).diff("ratio"))
            return Found(gains, "Only while rare features are behind.", predicted=0.0)
        before, one, both = (run[f"growth_minority_{name}"] for name in ("whole", "one", "pruned"))
        return Found(np.minimum(one - before, both - one) / before, TWENTIETH)

    @identity(
        "Equation (5) against (184)",
        on="one-step",
        equals=0.0,
        within=1e-12,
        because="Tolerance: none but rounding; the gradient is exactly 0.",
        note="The paper's prose suggests this gradient, its equations the other one.",
        law="exact",
    )
    def straight_through_kills(self, run: xr.Dataset) -> xr.DataArray:
        """Under the gradient of the pruned network hidden neurons only decay.

        Measured: the largest growth by the data of one.
        """
        return run.pruned_growth

    @identity(
        "Equation (5) against (184)",
        on="one-step",
        equals=1.0,
        within=1e-5,
        because="Tolerance: rounding of float32.",
        law="exact",
        range=POSITIVE,
    )
    def straight_through_spares_the_others(self, run: xr.Dataset) -> xr.DataArray:
        """Under the gradient of the pruned network neurons that are not hidden grow as under the other one.

        Measured: their growth by the data over that of the same neurons under the other gradient.
        """
        return run.growth_majority_straight_through / run.growth_majority_pruned

    @identity("Equation (207)-(211)", on="one-step", equals=1.0, within=0.02)
    def logit_first_order(self, run: xr.Dataset) -> Found:
        r"""What pruning does to the positive logit is known to first order.

        Pruning changes the positive logit by
        $\ell'_p(1 - \ell'_p)\Delta u_p - \ell'_p \sum_s \ell'_s \Delta u_s$ over $\tau$. Measured: its change over
        that, on samples with the minority feature, when what is pruned is small.
        """
        whole = float(run.first_order_whole.mean())
        return Found(
            run.first_order_small,
            f"Tolerance: second order in what is pruned. With whole neurons the ratio is {whole:.2f}.",
        )

    @visibly("Lemma F.2", on="one-step", range=COSINE)
    def hardness_rises_on_minority(self, run: xr.Dataset) -> xr.DataArray:
        r"""Samples with a rare feature become harder.

        $1 - \ell'_p$ rises on samples with the minority feature. Measured: rise of $\mathbb{E}[1 - \ell'_p]$ on samples
        with the rare feature.
        """
        return run.hardness_minority_pruned - run.hardness_minority_whole

    @identity("Lemma F.2", on="one-step", equals=0.0, within=0.02, because=SMALL_PART)
    def hardness_rises_only_on_minority(self, run: xr.Dataset) -> xr.DataArray:
        r"""Other samples stay as hard as they were.

        On other samples $1 - \ell'_p$ stays. Measured: rise of $\mathbb{E}[1 - \ell'_p]$ on other samples, over the
        rise on samples with the rare feature.
        """
        rise = run.hardness_minority_pruned - run.hardness_minority_whole
        return (run.hardness_other_pruned - run.hardness_other_whole) / rise.mean()

    @identity(
        "Algorithm 1, (5)",
        on="stationary",
        equals=0.0,
        within=1e-3,
        because="Tolerance: float32, relative to an update that is small where training has settled. Of all ratios the "
        "largest error.",
        note="A check of the code: only if it holds are the other claims about the paper's algorithm.",
        law="exact",
        given=follows_theory,
    )
    def update_is_algorithm_1(self, run: xr.Dataset) -> xr.DataArray:
        """A step of training is the paper's Algorithm 1.

        The mask is in the logits and nowhere else: activations, derivatives and decay are of all neurons. Measured:
        a step of training at the end against the printed update, relative.
        """
        return largest(run.update_error)

    # --- Where training settles ---------------------------------------------------------------------------------------

    @as_predicted("from equation (5)", on="stationary", note="Not the paper's (ε_j/ε_max)² of Theorem E.1.")
    def stationary_amplitude(self, run: xr.Dataset) -> Found:
        r"""Without pruning, rare features settle where a closed form says.

        Training settles where weight decay balances what the logits leave of the pull. Measured:
        $F_{\min}/F_{\mathrm{maj}}$ without pruning over its closed form.
        """
        settled = self._settled("stationary")
        closed, without = float(settled[-1] / settled[0]), at(final_ratio(run), 0.0)
        return Found(
            without / closed if closed else without * np.nan,
            f"Tolerance: 5 %, for noise beyond first order and fluctuations of order η. Closed form {closed:.3f}; "
            f"(ε_min)² is {self.data.eps_min**2:.3f}.",
        )

    @ordering(
        "Theorem 3.2",
        on="stationary",
        not_on=("straight-through", "balanced"),
        more_than=MATTERS,
        given=follows_theory,
    )
    def stationary_rebalance(self, run: xr.Dataset, runs: Runs, arm: str) -> Found:
        r"""Pruning brings rare features' energy near common ones'.

        Measured: $F_{\min}/F_{\mathrm{maj}}$ at the end with
        $\alpha = 0.125$ minus without pruning.
        """
        ratio = final_ratio(run)
        if arm == "straight-through":
            other = f"The gradient of the pruned network instead, at α = {self.pruning.ratio:g}."
            return Found(ratio - at(final_ratio(runs["stationary"]), 0.0), other)
        gain = at(ratio, JUDGED) - at(ratio, 0.0)
        return Found(gain, f"{TWENTIETH} F_min/F_maj is {listed(ratio)}." if arm == "stationary" else TWENTIETH)

    @bound(
        "Remark 1 to Theorem 3.2",
        on=("stationary", "random-start-direction"),
        not_on="random-start",
        at_least=0.8,
        because="Bound: a stated choice; 0.9 until shares had intervals, which 40 of 40 neurons do not reach;",
        law="share",
        given=follows_theory,
    )
    def pruned_are_minority(self, run: xr.Dataset, arm: str) -> Found:
        """What is pruned belongs to rare features.

        Measured: share of pruned neurons that belong to minority features, when pruning has just begun.
        """
        ratio, begins = (JUDGED, 100) if arm == "stationary" else (LITTLE, began(run))
        when = "at step 100" if arm == "stationary" else "as pruning begins"
        overlap, pruned = (look_from(values, ratio, begins) for values in (run.overlap, run.pruned))
        overlap = overlap if arm == "stationary" else known(overlap, run.pruning_began)
        return Found(overlap, f"{when}, α = {ratio:g}.", trials=pruned)

    @visibly(
        "Theorem 3.2",
        not_on="random-start",
        note="The smallest norms then belong to features with many neurons, not to rare ones.",
    )
    def random_start_rebalance(self, run: xr.Dataset) -> Found:
        r"""From random weights, too, pruning brings rare features' energy near common ones'.

        Measured: $F_{\min}/F_{\mathrm{maj}}$ at the end with $\alpha = 0.125$ minus
        without pruning.
        """
        ratio, overlap = final_ratio(run), last(run, run.overlap)
        rare, common = (float(at(last(run, run[f"{of}_singletons"]), 0.0).mean()) for of in ("minority", "majority"))
        return Found(
            at(ratio, JUDGED) - at(ratio, 0.0),
            f"F_min/F_maj is {listed(ratio)}. Of the pruned neurons a share of "
            f"{listed(overlap.sel(ratio=overlap['ratio'] > 0))} belongs to minority features. Singletons of a feature: "
            f"{rare:.1f} of minority, {common:.1f} of majority features.",
        )

    @visibly(
        "found here",
        on="random-start-direction",
        note="Not in the paper. Found by exploring with four replicas of seed 0 before the arm was written.",
        corrects="random-start-rebalance",
        given=follows_theory,
    )
    def random_start_direction(self, run: xr.Dataset, runs: Runs) -> Found:
        r"""Ranking neurons by the energy along them rebalances from random weights.

        From random weights, without labels, pruning rebalances if neurons are ranked by the energy that all neurons
        have along them instead of by norm. Measured: $F_{\min}/F_{\mathrm{maj}}$ at the end with $\alpha = 0.05$ minus
        without pruning.
        """
        ratio = final_ratio(run)
        gain = at(ratio, LITTLE) - at(final_ratio(runs["random-start"]), 0.0)
        return Found(gain, f"F_min/F_maj is {listed(ratio)}.")

    @bound(
        "from equation (5), for α > n/m",
        on="too-much",
        at_least=0.5,
        because="Bound: in most networks; 1 until yes and no had intervals, which no number of networks reaches.",
        law="yes/no",
        of_divergence=True,
        given=follows_theory,
    )
    def divergence_when_all_pruned(self, run: xr.Dataset) -> Found:
        r"""Prune too much, and weights grow without bound.

        Where every neuron of some feature is hidden, whichever they are, logits never saturate and weights grow
        without bound. Measured: share of replicas in which that is seen: a largest $F_j$ a hundred times that without
        pruning, or not finite.
        """
        _, stable, most = run["ratio"].values
        largest, hidden = last(run, run.largest_energy), last(run, run.hidden_features)
        seen = known((largest > 100 * at(largest, 0.0)) | (run.diverged >= 0), largest.where(run.diverged < 0, 0.0))
        elsewhere = in_words(at(seen, stable))
        return Found(
            at(seen, most),
            f"At α = {most:g}, where {in_words(at(hidden, most), '{:.1f} features')} are hidden in the end. At α = "
            f"{stable:g} it can be one neuron of each feature: there the share is {elsewhere}.",
        )

    # --- What is shown ------------------------------------------------------------------------------------------------

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """Balance over time and over the ratio, three tiers, a single step, and too much."""
        planted, random = self.arm("stationary"), self.arm("random-start").recipe
        neurons, begins = planted.recipe.learner.neurons, (random.rules["bias"].begins, random.rules["pruning"].start)
        yield figures.over_time(runs, self.pruning.ratio, neurons, *begins)
        yield figures.over_ratio(runs, planted.label)
        if "tiers" in runs:  # which runs of older versions have not
            yield figures.tiers(runs, self.arm("tiers").recipe.rules["pruning"].start)
        yield figures.one_step(runs, neurons)
        yield figures.too_much(runs)

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """Whether rare features catch up where neurons hold them from the start, and whether from random weights."""
        arms = ("stationary", "random-start", "random-start-direction")
        planted, norm, direction = (final_ratio(runs[arm]) for arm in arms)
        before, after, unpruned = percent(at(planted, 0.0)), percent(at(planted, JUDGED)), percent(at(norm, 0.0))
        lifts = {"holds": "lifts", "fails": "does not lift", "undecided": "may lift"}
        helps = {"holds": "helps", "fails": "does not help", "undecided": "may help"}
        word, too = (verdict(claims, f"{arm}-rebalance@{arm}") for arm in arms[:2])
        by_direction = verdict(claims, "random-start-direction@random-start-direction")
        begun, step, data = began(runs["random-start"]), runs["one-step"], self.data
        pruned, whole = step.growth_minority_pruned, step.growth_minority_whole
        faster = pruned.mean(skipna=False) / whole.mean(skipna=False)
        belong = percent(look_from(runs["random-start"].overlap, LITTLE, begun))
        ranked, rare = percent(at(direction, LITTLE)), percent(data.minority / data.features)
        elsewhere = percent(self.arm("random-start").recipe.data.eps_min)
        return Story(
            f"Hiding small neurons {lifts[word]} rare features, from {before} to {after} of common ones. From random "
            + (
                f"weights it {helps[too]}; by direction it {helps[by_direction]}."
                if begun >= 0
                else "weights it never began."
            ),
            f"Sequences show {data.features} features; {data.minority} are rare, {percent(data.eps_min)} as frequent "
            f"as the others (first panel) or {elsewhere}. At every step a share α of the neurons, the smallest, is "
            "left "
            "out of the loss. A curve shows how strong rare features are beside common ones (1 is balance): in the "
            "first "
            "panel neurons hold every feature from the start; in the others weights begin at random, and neurons are "
            "ranked by size, or by how much all neurons point their way.",
            {
                "stationary-rebalance@stationary": f"From {before} of common ones to {after}.",
                "planted-minority-growth@one-step": f"In a step they grow {in_words(faster, '{:.1f} times')} as fast.",
                "random-start-rebalance@random-start": f"{unpruned} without, {percent(at(norm, JUDGED))} with it. "
                f"At first {belong} of what is hidden belongs to rare features, which are {rare} of all.",
                "random-start-direction@random-start-direction": f"{unpruned} without, {ranked} with it.",
                "divergence-when-all-pruned@too-much": "",
            },
        )


def began(run: xr.Dataset) -> int:
    """The step at which the last replica began to prune; -1 if none did."""
    return int(run.pruning_began.max(skipna=True).fillna(-1))


def final_ratio(run: xr.Dataset) -> xr.DataArray:
    """F_min/F_maj at the end."""
    return last(run, run.energy_ratio)


def at(values: xr.DataArray, ratio: float) -> xr.DataArray:
    """``values`` at one pruning ratio."""
    return values.sel(ratio=ratio, drop=True)


def listed(values: xr.DataArray) -> str:
    """Means at all pruning ratios, in words."""
    return ", ".join(f"{in_words(at(values, a), '{:.3f}')} at α = {a:g}" for a in values["ratio"].values)


def look_from(values: xr.DataArray, ratio: float, step: int) -> xr.DataArray:
    """``values`` at one pruning ratio, at the first look from ``step`` on; at the last if there is none."""
    looks = at(values, ratio)
    return looks.isel(step=min(int((looks["step"] < step).sum()), looks.sizes["step"] - 1))
