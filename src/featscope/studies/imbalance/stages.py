"""What `imbalance` claims of the end of Stage 1 and of Stage 2, where thresholds rise and lucky neurons win.

All of it is measured on the arm "lottery", where there are lucky neurons.
"""

from dataclasses import dataclass
from functools import partial
from math import log, sqrt

import numpy as np
import xarray as xr

from featscope.claims import COSINE, POSITIVE, Found, bound, identity, ordering
from featscope.probes.stored import event_in_words
from featscope.studies import farthest, last
from featscope.studies.imbalance.assumed import Assumed, shows_evenly
from featscope.studies.reductions import at_all, known, largest, mean, mean_of, smallest
from featscope.studies.summaries import in_words
from featscope.theory.imbalance import Census

GAMMA = 0.01
NEARLY_ALL = "Bound: nine in ten, a stated choice for a bound that the papers state of all."
of_lucky = partial(bound, on="lottery", at_least=0.5, because="Bound: of most, a stated choice.", law="share")
of_nearly_all = partial(bound, on="lottery", at_least=0.9, because=NEARLY_ALL, law="share")
by_rule = partial(bound, on="lottery", law="exact")


@dataclass(frozen=True)
class Stages(Assumed):
    """Claims of Theorem C.1, Lemma 3.2 and Theorem D.1, and of the rule that moves thresholds."""

    # --- T1 (P Theorem C.1) -------------------------------------------------------------------------------------------

    @bound(
        "Theorem C.1(b)",
        not_on="lottery",
        at_least=0.9,
        because=NEARLY_ALL,
        note="The proof (46) delivers it without a factor √2.",
        law="share",
    )
    def lucky_at_t1(self, run: xr.Dataset) -> xr.DataArray:
        r"""At the end of Stage 1 lucky neurons have much of their feature.

        At $T_1$ a lucky neuron has $|A_{ij}| \geq \sqrt{1 + \gamma} \sqrt{2 \log d/d} \|w_i\|$. Measured: share of
        lucky pairs of neuron and feature for which it is so.
        """
        at_t1 = at_event(run, abs(run.alignment), run.stage1_end)
        return known(at_t1 >= self._needed(1 + GAMMA), at_t1).where(self._lucky(run))

    @of_lucky("Equation (46)", corrects="lucky-at-t1")
    def lucky_at_t1_as_proved(self, run: xr.Dataset) -> xr.DataArray:
        r"""At the end of Stage 1 lucky neurons have what the proof gives them of their feature.

        At $T_1$ a lucky neuron has $|A_{ij}| \geq \sqrt{1 + \gamma} \sqrt{\log d/d} \|w_i\|$. Measured: share of
        lucky pairs of neuron and feature for which it is so.
        """
        at_t1 = at_event(run, abs(run.alignment), run.stage1_end)
        return known(at_t1 >= self._needed((1 + GAMMA) / 2), at_t1).where(self._lucky(run))

    @of_nearly_all("Theorem C.1(c)", note="At ε_min = 0.9 it cannot be otherwise, but by what batches add by chance.")
    def others_at_t1(self, run: xr.Dataset) -> xr.DataArray:
        r"""At the end of Stage 1 no neuron has much of a feature of which it had little.

        At $T_1$ a neuron that was not ordinary for $j$ has $|A_{ij}| \leq \sqrt{1 - \gamma} \sqrt{2 \log d/d} \|w_i\|$.
        Measured: share of such pairs for which it is so.
        """
        at_t1 = at_event(run, abs(run.alignment), run.stage1_end)
        return known(at_t1 <= self._needed(1 - GAMMA), at_t1).where(self._neither(run))

    @bound(
        "Theorem C.1(d)",
        on="lottery",
        relation="<=",
        because="Bound: with constant 1, as in Lemma C.2; the theorem's (38) prints d/(2√log d).",
        range=POSITIVE,
    )
    def few_features_at_t1(self, run: xr.Dataset) -> Found:
        r"""At the end of Stage 1 a neuron has more than its share of few features.

        At $T_1$ at most $O(2^{-\sqrt{\log d}} d)$ features have $|A_{ij}| \geq \log^{1/4}(d)/\sqrt{d} \, \|w_i\|$.
        Measured: how many, mean over neurons.
        """
        d = run.sizes["feature"]
        at_t1 = at_event(run, abs(run.alignment), run.stage1_end)
        many = known(at_t1 >= log(d) ** 0.25 / sqrt(d), at_t1).sum("feature", skipna=False)
        return Found(mean(many), predicted=d * 2 ** -sqrt(log(d)))

    @of_nearly_all(
        "Theorem C.1(e); workshop version, Theorem 3.1",
        note="Constant √2: the largest of as many Gaussian coefficients. Directions off the features are the parts of "
        "the coordinate axes there.",
    )
    def off_features_at_t1(self, run: xr.Dataset) -> xr.DataArray:
        r"""At the end of Stage 1 no neuron has much of a direction that is no feature.

        At $T_1$ $|\langle w_i, M_j^\perp \rangle| \leq O(\sqrt{\log d_1/d_1}) \|w_i\|$. Measured: share of neurons for
        which the largest is below $\sqrt{2 \log d_1/d_1}$.
        """
        d1, at_t1 = self._recipe.data.input_dim, at_event(run, run.off_cosine, run.stage1_end)
        return known(at_t1 <= sqrt(2 * log(d1) / d1), at_t1)

    # --- thresholds (V (70); P (84), (93)) ----------------------------------------------------------------------------

    @identity(
        "workshop version, equation (70)",
        on="lottery",
        equals=1.0,
        within=1e-4,
        because="Tolerance: float32.",
        note="The papers do not say what to; √(2 log d/d) ||w_i|| follows from bounds of Stage 2. We take 0.6 of it.",
        law="exact",
    )
    def thresholds_set(self, run: xr.Dataset) -> xr.DataArray:
        r"""At the end of Stage 1 thresholds are set to a share of neurons' norms.

        At $T_1$ $b_i = c \sqrt{2 \log d/d} \, \|w_i\|$. Measured: $b_i/\|w_i\|$ as it was set, over
        $c \sqrt{2 \log d/d}$, of the neuron for which it is farthest from 1.
        """
        over = run.reset_ratio.where(run.stage1_end >= 0) / (self._schedule.reset * self._needed(1.0))
        return known(farthest(over, "neuron"), over)

    @by_rule("workshop version, equation (70)", at_least=0.0, because="Bound: with a thousandth for rounding.")
    def thresholds_rise(self, run: xr.Dataset) -> xr.DataArray:
        r"""In Stage 2 thresholds grow with the norm, and by $\eta/d$ a step at least.

        $b_i \leftarrow \max\{b_i (1 + \eta/d), b_i \|w_i(t+1)\|/\|w_i(t)\|\}$. Measured: by how much the logarithm of
        $b_i$ has grown from $T_1$ to $T_2$ above the larger of both, the smallest over neurons below the cap, plus
        0.001.
        """
        bias, norm = np.log(run.bias.where(run.bias > 0)), np.log(run.norm)
        first, second = (event_look(run, event) for event in (run.stage1_end, run.stage2_end))
        steps = run["step"].isel(step=second) - run["step"].isel(step=first)
        minimum = steps * np.log1p(self._schedule.growth * self._recipe.optimizer.lr / run.sizes["feature"])
        grown = bias.isel(step=second) - bias.isel(step=first)
        needed = np.maximum(minimum, norm.isel(step=second) - norm.isel(step=first))
        above = (run.bias >= 0.95 * self._cap * run.norm).isel(step=second)
        return smallest((grown - needed).where(~above, np.inf)).where(run.stage2_end >= 0) + 1e-3

    @by_rule(
        "found here",
        relation="<=",
        because="Bound: the cap and 2 %, for the steps in which it is passed.",
        corrects="thresholds-large",
    )
    def thresholds_capped(self, run: xr.Dataset) -> Found:
        r"""Thresholds stop where neurons would die.

        As printed, thresholds grow without bound; here to a share of $\|w_i\|$. Measured: largest $b_i/\|w_i\|$ at the
        end.
        """
        return Found(largest(last(run, run.bias / run.norm)), predicted=1.02 * self._cap)

    # --- Stage 2 (P Lemma 3.2, Theorem D.1, Lemma D.1; V Lemma E.1) ---------------------------------------------------

    @identity(
        "Equation (61); workshop version, equation (67)",
        on="lottery",
        equals=1.0,
        within=0.5,
        because="Tolerance: half, as Θ has no constant; the papers have d log d/(ε_max η log log d), which is this "
        "with C_z log log d/d for p0, but for the factor 1/2.",
        range=POSITIVE,
        given=shows_evenly,
    )
    def stage2_duration(self, run: xr.Dataset) -> Found:
        r"""The second stage takes as long as a lucky neuron needs to grow $d$-fold.

        Stage 2 ends at $T_2$, when some $\|w_i\|^2$ is $d \|w_i(T_1)\|^2$. A lucky neuron has half of its energy on its
        feature at $T_1$. That part, $A$, grows by $1 - \eta\lambda + \eta(1 - b/A) a$ a step, where $b = c\|w\|$ and
        $a$ is over $\tau$ if the loss is, and the other half stays. Measured: $T_2 - T_1$ over the steps that this
        takes at the $c$ of the reset.
        """
        recipe, d = self._recipe, run.sizes["feature"]
        below = self._schedule.reset * self._needed(1.0)  # c
        size = np.geomspace(0.5, d - 0.5, 1000)  # A²/‖w(T₁)‖²
        pull = self._pull.max() * (1 - below * np.sqrt(1 + 1 / (2 * size)))
        growth = np.log1p(recipe.optimizer.lr * (pull - recipe.optimizer.weight_decay)).clip(min=0)
        with np.errstate(divide="ignore"):  # what does not grow takes for ever
            alone = np.trapezoid(1 / (2 * growth), np.log(size))
        took = (run.stage2_end - run.stage1_end).where(run.stage2_end >= 0)
        return Found(took / alone, f"Measured: {event_in_words(took)}; predicted {alone:.0f}.")

    @identity(
        "workshop version, equation (69)",
        on="lottery",
        equals=1.0,
        within=0.1,
        because="Tolerance: 10 %, a stated choice for what noise, other features and the first departure of logits do.",
        note="As printed, a step takes b from A besides; b belongs to the growth term alone.",
        given=shows_evenly,
    )
    def stage2_growth(self, run: xr.Dataset) -> Found:
        r"""In Stage 2 a lucky neuron grows by what of its feature passes the threshold.

        $A_{ij} \leftarrow (1 - \eta\lambda) A_{ij} + \eta (1 - 1/K) a_j (A_{ij} - \mathrm{sign}(A_{ij}) b_i)$.
        Measured: growth of $\log |A_{ij}|$ of lucky pairs from $T_1$ until half-way to $T_2$, over its prediction
        from $b_i$ and $A_{ij}$ at every look.
        """
        recipe, theory = self._recipe, self.stage1_of("lottery")
        size, lucky = abs(run.alignment) * run.norm, self._lucky(run)
        until = (run.stage1_end + run.stage2_end) / 2
        among = (run["step"] >= run.stage1_end) & (run["step"] < until) & (run.stage1_end >= 0)
        rate = xr.DataArray(theory.growth - theory.non_feature_factor, dims="feature")
        decay = recipe.optimizer.lr * recipe.optimizer.weight_decay
        passing = (1 - run.bias / size).clip(min=0)
        steps = run["step"].diff("step", label="lower")
        # The share that passes is looked at on both ends of an interval between looks.
        foretold = steps * np.log1p(rate * (passing + passing.shift(step=-1)) / 2 - decay)
        grown = np.log(size).diff("step", label="lower")
        where, over = (lucky & among).isel(step=slice(-1)), ("step", "neuron", "feature")
        as_printed = steps * np.log((1 - run.bias / size).clip(min=1e-3) * (1 + rate))
        each = (one.sel(step=where["step"]).where(where, 0.0) for one in (grown, foretold, as_printed))
        total, predicted, printed = (one.sum(over, skipna=False) for one in each)
        ratio = in_words(printed / total, "{:.0f} times")
        return Found(total / predicted.where(predicted != 0), f"As printed it would be {ratio} what was seen.")

    @of_nearly_all("Lemma D.1; workshop version, Lemma E.1")
    def lucky_above_thresholds(self, run: xr.Dataset) -> xr.DataArray:
        r"""In Stage 2 lucky neurons stay above their thresholds.

        From $T_1$ to $T_2$ a lucky neuron has $|A_{ij}| \geq \sqrt{1 + \gamma} b_i$. Measured: share of lucky pairs
        for which it is so at every look.
        """
        size, least = abs(run.alignment) * run.norm, sqrt(1 + GAMMA) * run.bias
        return at_all(known(size >= least, size, least), self._lucky(run) & in_stage2(run))

    @of_nearly_all("Lemma D.1; workshop version, Lemma E.1")
    def others_below_thresholds(self, run: xr.Dataset) -> xr.DataArray:
        r"""In Stage 2 neurons stay silent for features of which they had little.

        From $T_1$ to $T_2$ a neuron that was not ordinary for $j$ has $|A_{ij}| \leq \sqrt{1 - \gamma} b_i$. Measured:
        share of such pairs for which it is so at every look.
        """
        size, most = abs(run.alignment) * run.norm, sqrt(1 - GAMMA) * run.bias
        return at_all(known(size <= most, size, most), self._neither(run) & in_stage2(run))

    @bound(
        "Lemma D.1; workshop version, Lemma E.1",
        on="lottery",
        relation="<=",
        because="Bound: with constant 1.",
        range=POSITIVE,
    )
    def few_features_at_t2(self, run: xr.Dataset) -> Found:
        r"""In Stage 2 a neuron comes near its threshold for few features.

        At $T_2$ at most $O(2^{-\sqrt{\log d}} d)$ features have $A_{ij}^2 \geq b_i^2/\sqrt{\log d}$. Measured: how
        many, mean over neurons.
        """
        d = run.sizes["feature"]
        size = abs(run.alignment) * run.norm
        near = known(size >= run.bias / log(d) ** 0.25, size, run.bias)
        many = at_event(run, near.sum("feature", skipna=False), run.stage2_end)
        return Found(mean(many), predicted=d * 2 ** -sqrt(log(d)))

    @bound(
        "Theorem D.1(b), Lemma D.1",
        not_on="lottery",
        at_least=0.9,
        because=NEARLY_ALL,
        note="Hardly possible: set to 0.85 of it, as at all of it neurons die, they have not risen to it by T2.",
        law="share",
    )
    def thresholds_large(self, run: xr.Dataset) -> xr.DataArray:
        r"""At the end of Stage 2 thresholds are large.

        At $T_2$ $\|w_i\|^2 \leq d b_i^2/\log d$. Measured: share of neurons for which it is so.
        """
        ratio = at_event(run, run.bias / run.norm, run.stage2_end)
        return known(ratio >= sqrt(log(run.sizes["feature"]) / run.sizes["feature"]), ratio)

    @of_lucky("Lemma 3.2(a)", note="Of nine in ten a first look left it undecided: 0.91.")
    def lucky_at_t2(self, run: xr.Dataset) -> xr.DataArray:
        r"""At the end of Stage 2 lucky neurons have grown along their feature.

        At $T_2$ a lucky neuron has $A_{ij}^2 \geq 2 (\epsilon_j/\epsilon_{\max}) \|w_i(T_1)\|^2$. Measured: share of
        lucky pairs for which it is so.
        """
        grown = at_event(run, (run.alignment * run.norm) ** 2, run.stage2_end)
        before = at_event(run, run.norm**2, run.stage1_end)
        p = xr.DataArray(self._pull / self._pull.max(), dims="feature")
        return known(grown >= 2 * p * before, grown, before).where(self._lucky(run))

    @of_nearly_all(
        "Theorem D.1(a)",
        note="With constant 1/√2, which Ω leaves open; at 1 it is so of half of them, a first look said.",
    )
    def lucky_share_at_t2(self, run: xr.Dataset) -> xr.DataArray:
        r"""At the end of Stage 2 lucky neurons are mostly their feature.

        At $T_2$ a lucky neuron has $|A_{ij}| \geq \Omega(\epsilon_{\min}/\epsilon_{\max}) \|w_i\|$; the workshop
        version has $\Omega(1) \|w_i\|$. Measured: share of lucky pairs for which it is so.
        """
        p = self._pull
        at_t2 = at_event(run, abs(run.alignment), run.stage2_end)
        return known(at_t2 >= sqrt(0.5) * p.min() / p.max(), at_t2).where(self._lucky(run))

    @of_nearly_all("Lemma 3.2(b), Theorem D.1(c)", note="With constant 2, which O leaves open.")
    def lucky_lead(self, run: xr.Dataset) -> xr.DataArray:
        r"""At the end of Stage 2 no ordinary neuron has much more of a feature than the lucky ones.

        At $T_2$ $|A_{i'j}| \leq O(|A_{ij}|)$ for $i'$ ordinary and $i$ lucky for $j$. Measured: share of features with
        lucky neurons of which the best has half or more of what any neuron has.
        """
        size = at_event(run, abs(run.alignment) * run.norm, run.stage2_end)
        lucky = self._lucky(run)
        best = size.where(lucky).max("neuron", skipna=True)  # NaN for features without
        return known(best >= size.max("neuron") / 2, size).where(best.notnull())

    # --- who wins -----------------------------------------------------------------------------------------------------

    @of_nearly_all("Theorem E.1(a); workshop version, Lemma F.1(a)", note="With constant 1/√2.")
    def lucky_win(self, run: xr.Dataset) -> xr.DataArray:
        r"""Neurons that are lucky at the start end as neurons of that feature alone.

        In the end a lucky neuron has $|A_{ij}| \geq \Omega(1) \|w_i\|$. Measured: share of lucky pairs with a squared
        cosine above 1/2 in the end.
        """
        end = last(run, run.alignment)
        return known(end**2 > 0.5, end).where(self._lucky(run))

    @ordering("Theorem E.1(a), (e)", on="lottery", more_than=0.5, because="Bound: half, a choice.", range=COSINE)
    def luck_decides(self, run: xr.Dataset) -> xr.DataArray:
        """Luck at the start decides which feature a neuron ends with.

        Measured: share of lucky pairs that end with a squared cosine above 1/2, minus that of pairs that were not even
        ordinary.
        """
        end, places = last(run, run.alignment), ("neuron", "feature")
        single = known(end**2 > 0.5, end)
        return mean_of(single, self._lucky(run), places) - mean_of(single, self._neither(run), places)

    def luck(self, run: xr.Dataset) -> dict[str, xr.DataArray]:
        """Pairs of a neuron and a feature by what it had of the feature at the start, by name."""
        lucky, ordinary = self._lucky(run), self._ordinary(run)
        return {"lucky": lucky, "ordinary": ordinary & ~lucky, "neither": self._neither(run)}

    @property
    def _recipe(self):  # type: ignore[no-untyped-def]
        return self.arm("lottery").recipe

    @property
    def _schedule(self):  # type: ignore[no-untyped-def]
        return self._recipe.rules["bias"]

    @property
    def _cap(self) -> float:
        return float(self._schedule.cap_ratio)

    @property
    def _pull(self) -> np.ndarray:
        theory = self.stage1_of("lottery")
        return theory.correlation / (theory.temperature if theory.loss_scale == "1" else 1.0)

    def _needed(self, factor: float) -> float:
        """√(factor 2 log d/d)."""
        d = self._recipe.data.features
        return sqrt(factor * 2 * log(d) / d)

    def _ordinary(self, run: xr.Dataset) -> xr.DataArray:
        """Whether neuron i was ordinary for feature j at the start: ``[replica, neuron, feature]``."""
        return self._share(run) >= self._census.ordinary_share

    def _neither(self, run: xr.Dataset) -> xr.DataArray:
        """Whether neuron i was not even ordinary for feature j at the start: ``[replica, neuron, feature]``."""
        return self._share(run) < self._census.ordinary_share

    def _lucky(self, run: xr.Dataset) -> xr.DataArray:
        """Whether neuron i was lucky for feature j at the start: ``[replica, neuron, feature]``."""
        alone = self._ordinary(run).sum("feature") == 1
        return (self._share(run) >= self._census.lucky_share) & alone

    @property
    def _census(self) -> Census:
        data = self._recipe.data
        return Census(data.features, data.eps_min, GAMMA)

    def _share(self, run: xr.Dataset) -> xr.DataArray:
        squared = run.alignment.isel(step=0) ** 2
        return squared / squared.sum("feature", skipna=False)


def event_look(run: xr.Dataset, event: xr.DataArray) -> xr.DataArray:
    """Place of the first look from an event on, of the last if there is none: ``[replica]``."""
    steps = run["step"].values
    return xr.apply_ufunc(lambda step: steps.searchsorted(step).clip(max=len(steps) - 1), event)


def at_event(run: xr.Dataset, values: xr.DataArray, event: xr.DataArray) -> xr.DataArray:
    """``values`` at the first look from an event on; NaN where it has not happened."""
    return values.isel(step=event_look(run, event)).where(event >= 0)


def in_stage2(run: xr.Dataset) -> xr.DataArray:
    """Whether a look is in Stage 2: ``[replica, step]``."""
    return (run["step"] >= run.stage1_end) & (run["step"] <= run.stage2_end) & (run.stage1_end >= 0)
