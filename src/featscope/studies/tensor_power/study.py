"""The tensor power method: how fast sequences grow by their own powers, and what they leave to a rival.

The paper is Wen & Li 2022, Appendix G and Claim E.8; what is derived is in `featscope.theory.tensor_power`. The time
that x takes to A is Σ η C_t over the steps with x_t <= A.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import exp, inf, log
from typing import ClassVar

import numpy as np
import xarray as xr
from xarray import apply_ufunc

from featscope.claims import POSITIVE, ROUNDING, Claim, Found, bound, fitted_exponent, identity, scaling
from featscope.figures import Figure
from featscope.models.power_sequences import LEVEL
from featscope.studies import Runs, Story
from featscope.studies.reductions import largest, smallest
from featscope.studies.summaries import in_words, percent, verdict
from featscope.studies.tensor_power import figures
from featscope.studies.tensor_power.arms import DIMENSION, LITTLE_LEAD
from featscope.studies.tensor_power.assumed import FAST, SLOW, Assumed
from featscope.studies.tensor_power.sums import DELTAS, clearest, mean, rival_growth
from featscope.theory import tensor_power as theory

APPLY = ("step-sizes", "starts", "steep", "large-factors")
WHICH = f"δ in {DELTAS}."
in_small_steps = partial(identity, on="step-sizes", not_on=FAST, equals=1.0, range=POSITIVE)
always = partial(bound, law="extreme", things=lambda study: study.sequences)  # of every sequence
adds_up = partial(bound, not_on="starts", at_most=1.0, because="Bound: constants 1.", range=POSITIVE)
LEAST_WEIGHT = 3  # q' that Lemma G.3 asks for
OUTSIDE = f"Outside of Lemma G.3, which asks for q' >= {LEAST_WEIGHT}; derived here, as its proof makes no use of that."
CHANCE = "Tolerance: chance in the last step, and second order in η; a stated choice."


def weighted(*arms: str) -> Callable[[Assumed], Mapping[str, str]]:
    """``arms``, and of those whose q' is less than Lemma G.3 asks for that it says nothing of them."""
    return lambda study: {arm: "" if study.arm(arm).recipe.learner.weight >= LEAST_WEIGHT else OUTSIDE for arm in arms}


@dataclass(frozen=True)
class TensorPower(Assumed):
    """How fast x_{t+1} = x_t + η C_t x_t^q grows, and what it leaves to a rival (Wen & Li 2022, Appendix G).

    Options are `Powers`', arms `TensorPowerArms`'.
    """

    asks: ClassVar[str] = "Where growth feeds on size, how long does it take, and what is left to a rival?"

    # --- The time to grow (P Lemma G.1) -------------------------------------------------------------------------------

    @always(
        "Lemma G.1",
        on=APPLY,
        not_on=FAST,
        at_least=0.0,
        because=WHICH,
        note="The error term is not needed: limit-is-a-floor is stronger.",
    )
    def lower_bound(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""A sequence takes at least the printed time to grow.

        $\sum \eta C_t$ over steps with $x_t \le A$ is at least the printed lower bound without its error term.
        Measured: the sum less the bound, over the limit; the smallest over sequences and $\delta$.
        """
        return smallest(self.sums(run, arm).over(theory.sum_lower_bound, 0.0))

    @always("Lemma G.1", on=APPLY, not_on=SLOW, at_most=0.0, because=WHICH)
    def upper_bound(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""A sequence takes at most the printed time to grow.

        $\sum \eta C_t$ is at most the printed upper bound, where $O(\eta A^q)$ is $\eta A^q \max C_t$. Measured: the
        sum less the bound, over the limit; the largest over sequences and $\delta$.
        """
        sums = self.sums(run, arm)
        return largest(sums.over(theory.sum_upper_bound, sums.step_size * run.factor))

    @always(
        "Lemma G.1",
        on=("step-sizes", "starts", "steep"),
        not_on="large-factors",
        at_most=0.0,
        because=WHICH,
        note="The paper says C_t > 0 and no more; the bound needs C_t = O(1), which it has where it is used.",
    )
    def upper_bound_any_factor(self, run: xr.Dataset, arm: str) -> Found:
        r"""A sequence takes at most the printed time to grow, however large its factors.

        The printed upper bound with $O(\eta A^q)$ read as $\eta A^q$, for any $C_t > 0$ as printed. Measured: the sum
        less the bound, over the limit; the largest over sequences and $\delta$.
        """
        sums = self.sums(run, arm)
        excess = largest(sums.over(theory.sum_upper_bound, sums.step_size))
        return Found(excess, f"C_t is up to {float(run.factor.max()):.3g}.")

    @always("derived, for Lemma G.1", on=APPLY, not_on=FAST, at_least=0.0, range=(-1.0, inf))
    def limit_is_a_floor(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""A sequence never takes less time to grow than in the limit of small steps.

        $\sum \eta C_t \ge (x_0^{-(q-1)} - A^{-(q-1)})/(q-1)$ for every $\eta$ and $C_t > 0$. Measured: time over its
        limit, less 1; the smallest over sequences.
        """
        return smallest(run.total / self.sums(run, arm).limit() - 1)

    @always("derived, for Lemma G.1", on=APPLY, not_on=SLOW, at_most=0.0, range=(-1.0, inf))
    def limit_has_a_ceiling(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""The largest relative step bounds the time from above.

        $\sum \eta C_t \le r^q (x_0^{-(q-1)} - x_T^{-(q-1)})/(q-1)$, $r$ the largest $x_{t+1}/x_t$ and $x_T$ the first
        beyond $A$. Measured: time over the bound, less 1; the largest over sequences.
        """
        passed, power = (run.leader_start, run.leader_end), self.sums(run, arm).power
        return largest(run.total / apply_ufunc(theory.sum_ceiling, *passed, power, run.ratio) - 1)

    @in_small_steps("derived, for Lemma G.1")
    def small_step_limit(self, run: xr.Dataset, arm: str) -> Found:
        r"""With small steps the time has a closed form.

        As $\eta$ goes to 0, $\sum \eta C_t$ goes to $(x_0^{-(q-1)} - A^{-(q-1)})/(q-1)$. Measured: time over its closed
        form at the smallest $\eta$, mean over sequences.
        """
        sums = self.sums(clearest(run), arm)
        eta = float(sums.step_size)
        why = f"Tolerance: η = {eta:g}; by first-order-term the error is less."
        return Found(mean(sums.run.total / sums.limit()), why, tolerance=eta)

    @scaling("derived, for Lemma G.1", on="step-sizes", equals=1.0, within=0.1, because=CHANCE)
    def error_is_first_order(self, run: xr.Dataset, arm: str) -> np.ndarray:
        r"""Small steps add to the time in proportion to their size.

        What $\sum \eta C_t$ exceeds its limit by goes as $\eta$. Measured: exponent in $\eta$ of the mean over
        sequences.
        """
        excess = mean(run.total - self.sums(run, arm).limit()).transpose("replica", "step_size")
        return fitted_exponent(run["step_size"].values, excess.values)

    @identity(
        "derived, for Lemma G.1",
        on="step-sizes",
        equals=1.0,
        within=0.1,
        because=CHANCE,
        note="The paper's error term is larger by a factor of order (A/x_0)^q.",
        range=POSITIVE,
    )
    def first_order_term(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""What small steps add to the time has a closed form.

        The excess of $\sum \eta C_t$ over its limit is $\eta (q \log(A/x_0) + 1)/2 \cdot
        \mathbb{E}[C^2]/\mathbb{E}[C]$. Measured: what is added over its closed form at the smallest $\eta$, means over
        sequences.
        """
        sums = self.sums(clearest(run), arm)
        start, size_biased = sums.run.leader_start, self.scale * exp(self.spread**2)
        predicted = apply_ufunc(theory.sum_excess, start, LEVEL, sums.power, sums.step_size, size_biased)
        return mean(sums.run.total - sums.limit()) / mean(predicted)

    @scaling("Lemma G.1", on="starts", not_on=FAST, relation="=")
    def time_goes_as_power(self, run: xr.Dataset, arm: str) -> Found:
        r"""The time goes as a power of where a sequence starts.

        Time to reach $A$ goes as $x_0^{-(q-1)}$. Measured: exponent of $\sum \eta C_t$ in $x_0$, with
        $A^{-(q-1)}/(q-1)$ added for what is beyond $A$.
        """
        return self.exponent(run, arm)

    # --- The rival (P Corollary G.2) ----------------------------------------------------------------------------------

    @identity("derived, for Corollary G.2", on="step-sizes", equals=0.0)
    def rival_follows_law(self, run: xr.Dataset) -> Found:
        r"""A rival's path follows from the leader's by a closed form.

        With constant $S$, $y^{-(q-1)} = y_0^{-(q-1)} - S (x_0^{-(q-1)} - x^{-(q-1)})$ as $\eta$ goes to 0. Measured:
        left less right side over $y_0^{-(q-1)}$ when $x$ passes $A$, smallest $\eta$, mean over sequences.
        """
        finest, k = clearest(run), self.power - 1
        start, eta = finest.rival_start, float(finest["step_size"])
        passed = finest.leader_start, finest.leader_end
        exact = apply_ufunc(theory.rival_inverse_power, start, *passed, self.strongest, self.power)
        why = f"Tolerance: η = {eta:g}; the error is of order η x_0^(q-1)."
        return Found(mean((finest.rival_end**-k - exact) * start**k), why, tolerance=eta)

    @always(
        "Corollary G.2",
        on=("rivals", "step-sizes"),
        not_on=("overtaken", FAST),
        relation="<=",
        note="Bound: (1 - 1.1^-(q-1))^(-1/(q-1)), the paper's polylogarithm in closed form. A rival that overtakes is "
        "followed up to 10⁶ only.",
        range=(1.0, inf),
    )
    def rival_stays_small(self, run: xr.Dataset, arm: str) -> Found:
        r"""A rival that is a tenth behind stays within a factor of its start.

        If $x_0 \ge 1.1 y_0 (\max S)^{1/(q-1)}$, then $y$ stays within a factor of $y_0$ while $x_t \le A$. Measured:
        largest growth $y/y_0$ of a rival over sequences.
        """
        sums = self.sums(run.sel(lead=LITTLE_LEAD) if arm == "rivals" else run, arm)
        room = 1 + float(np.max(sums.step_size))
        ceiling = float(theory.rival_ceiling(LITTLE_LEAD, sums.power))
        why = f"1 + η = {room:g} times that, as it is the limit of small η."
        return Found(largest(rival_growth(sums.run)), why, predicted=ceiling * room)

    @always(
        "Corollary G.2",
        on="rivals",
        not_on="overtaken",
        relation="<=",
        note="Bound: (log d)^-(q-1), a stated reading of the paper's 1/polylog(d); as derived here it is this over "
        "q - 1 for large d. A rival that overtakes is followed up to 10⁶ only.",
        range=POSITIVE,
    )
    def rival_stands_still(self, run: xr.Dataset, arm: str) -> Found:
        r"""A rival that is far behind stays where it is.

        If $x_0 \ge y_0 (\max S)^{1/(q-1)} \log d$, then $y$ stays where it is. Measured: largest $(y - y_0)/y_0$ over
        sequences, $d = 100$.
        """
        far = run.sel(lead=log(DIMENSION)) if arm == "rivals" else run
        return Found(largest(rival_growth(far) - 1), predicted=log(DIMENSION) ** -(self.power - 1))

    # --- Weighted sums (P Lemma G.3) ----------------------------------------------------------------------------------

    @in_small_steps(
        "Lemma G.3", on=weighted("step-sizes"), note="The constant in the paper's Θ(x_0^-k) is derived here."
    )
    def weighted_limit(self, run: xr.Dataset, arm: str) -> Found:
        r"""With small steps a weighted time has a closed form.

        As $\eta$ goes to 0, $\sum \eta C_t x_t^{q'}$ goes to $(x_0^{-k} - A^{-k})/k$, $k = q - q' - 1$. Measured:
        weighted time over its closed form at the smallest $\eta$, mean over sequences.
        """
        sums = self.sums(clearest(run), arm)
        room = float(sums.step_size) * sums.power
        why = f"Tolerance: q η = {room:g}; a step is up to η C_t."
        return Found(mean(sums.run["weighted"] / sums.limit(sums.weight)), why, tolerance=room)

    @scaling("derived, for Lemma G.3", on=weighted("starts"), not_on=FAST, relation="=")
    def weighted_goes_as_power(self, run: xr.Dataset, arm: str) -> Found:
        r"""A weighted time goes as a power of where a sequence starts.

        $\sum \eta C_t x_t^{q'} = \Theta(x_0^{-k})$, $k = q - q' - 1$. Measured: exponent in $x_0$, with $A^{-k}/k$
        added for what is beyond $A$.
        """
        return self.exponent(run, arm, self.arm(arm).recipe.learner.weight)

    @always("Lemma G.3", on=weighted("step-sizes", "starts", "steep"), not_on=SLOW, at_most=0.0, because=WHICH)
    def weighted_upper_bound(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""A weighted time is at most the printed bound.

        $\sum \eta C_t x_t^{q'}$ is at most the printed upper bound, where $O(1)$ is $1/(q-q'-1)$, from the proof.
        Measured: the sum less the bound, over the limit; the largest over sequences and $\delta$.
        """
        sums = self.sums(run, arm)
        return largest(sums.over(theory.weighted_upper_bound, sums.step_size, sums.weight))

    @always(
        "Lemma G.3",
        on=weighted("step-sizes", "starts"),
        not_on="steep",
        at_least=0.0,
        note="The last line of the paper's proof loses a factor (1+δ)^-(q-q'-1); for q' = 3 that shows from about q = "
        "12 on.",
    )
    def weighted_lower_bound(self, run: xr.Dataset, arm: str) -> Found:
        r"""A weighted time is at least the printed bound.

        $\sum \eta C_t x_t^{q'}$ is at least the printed lower bound. Measured: the sum less the bound, over the limit;
        the smallest over sequences and $\delta$.
        """
        sums = self.sums(run, arm)
        excess = smallest(sums.over(theory.weighted_lower_bound, sums.step_size, sums.weight, mended=False))
        return Found(excess, sums.which)

    @always("derived, for Lemma G.3", on=("step-sizes", "starts", "steep"), at_least=0.0)
    def weighted_lower_bound_mended(self, run: xr.Dataset, arm: str) -> Found:
        r"""A weighted time is at least the printed bound with a lost factor put back.

        The printed lower bound of $\sum \eta C_t x_t^{q'}$ holds with the factor $(1+\delta)^{-(q-q'-1)}$ put back.
        Measured: the sum less the bound, over the limit; the smallest over sequences and $\delta$.
        """
        sums = self.sums(run, arm)
        step = sums.step_size * run.factor
        excess = smallest(sums.over(theory.weighted_lower_bound, step, sums.weight, mended=True))
        return Found(excess, sums.which)

    # --- What steps add up to (P Claim E.8) ---------------------------------------------------------------------------

    @adds_up("proof of Claim E.8", note="The proof's sum over levels, Σ δ(1+δ)^(2g-1), is half of what it says.")
    def sum_is_square(self, run: xr.Dataset) -> Found:
        r"""Steps weighted by size add up to the square of the end.

        If $\sum x_t (x_{t+1} - x_t) = C$, then $|x_T^2 - C| \le \delta^2 + x_0^2 + \log(d)/d$. Measured: left over
        right side, $d = x_0^{-2}$ and $\delta = x_0$, mean over sequences at the smallest start.
        """
        least = run.isel(start=0)
        apart = least.leader_end**2 - least.area
        found = f"x_T² - C is {in_words(apart, '{:.3f}')}, and 1/2 in the limit x_T = 1, x_0 = 0."
        return Found(mean(abs(apart) / apply_ufunc(theory.e8_allowance, least.leader_start)), found)

    @adds_up("Claim E.8", note="Statement and proof of the paper differ.")
    def sum_is_end(self, run: xr.Dataset) -> xr.DataArray:
        r"""Steps weighted by size add up to the end.

        If $\sum x_t (x_{t+1} - x_t) = C$, then $|x_T - C| \le \delta^2 + x_0^2 + \log(d)/d$, as the claim itself is
        printed. Measured: left over right side, $d = x_0^{-2}$ and $\delta = x_0$, mean over sequences at the smallest
        start.
        """
        least = run.isel(start=0)
        return mean(abs(least.leader_end - least.area) / apply_ufunc(theory.e8_allowance, least.leader_start))

    @identity("Claim E.8", on="d=2500", equals=2.0, within=1e-9, because=ROUNDING, law="exact")
    def allowance_is_as_printed(self, arm: str) -> float:
        r"""What the claim allows is $\delta^2+x_0^2+\log(d)/d$.

        Measured: $d$ times it less $\log d$, at $x_0=\delta=d^{-1/2}$.
        """
        d = float(arm.removeprefix("d="))
        return float(theory.e8_allowance(d**-0.5)) * d - log(d)

    @identity(
        "derived, for Claim E.8",
        on=("starts", "step-sizes"),
        not_on="large-factors",
        equals=0.0,
        corrects=("sum-is-square", "sum-is-end"),
    )
    def sum_is_half_the_square(self, run: xr.Dataset, arm: str) -> Found:
        r"""Steps weighted by size add up to half the square of the end.

        $x_T^2 = 2C + x_0^2 + O(\eta)$, $C = \sum x_t (x_{t+1} - x_t)$. Measured: $1 - (x_0^2 + 2C)/x_T^2$, mean over
        sequences.
        """
        run = clearest(run)
        eta = float(self.sums(run, arm).step_size)
        why = f"Tolerance: η A^(q-1) = {eta:g}; squared steps add up to about η A^(q+1)/(q+1)."
        return Found(mean(1 - (run.leader_start**2 + 2 * run.area) / run.leader_end**2), why, tolerance=eta)

    def exponent(self, run: xr.Dataset, arm: str, weight: int = 0) -> Found:
        """Exponent of a sum in x_0, and what it is to be."""
        sums = self.sums(run, arm)
        total, k, eta = run["weighted" if weight else "total"], sums.power - weight - 1, float(sums.step_size)
        whole = mean(total + LEVEL**-k / k).transpose("replica", "start")
        found = fitted_exponent(run["start"].values, whole.values)
        return Found(found, f"Tolerance: η = {eta:g}.", predicted=-k, tolerance=eta)

    # --- What is shown ------------------------------------------------------------------------------------------------

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """Paths, sums over step sizes, and what needs mending."""
        yield figures.paths(runs, self.arm("step-sizes").recipe.learner, (LITTLE_LEAD, log(DIMENSION)))
        yield figures.step_sizes(self.sums(runs["step-sizes"], "step-sizes"), self.scale * exp(self.spread**2))
        yield figures.mended(runs, self.sums(runs["steep"], "steep"), self.power)

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """What becomes of a rival, and how long growth takes."""
        rivals = runs["rivals"]
        near, far = (rival_growth(rivals.sel(lead=lead)).max(skipna=False) for lead in (LITTLE_LEAD, log(DIMENSION)))
        highest = max(float(near), float(rival_growth(runs["step-sizes"]).max(skipna=False)))
        most, grown = in_words(near, "{:.2f} times"), in_words(rivals.leader_end / rivals.leader_start, "{:.1f} times")
        words = {"holds": "is left behind", "fails": "is not left behind", "undecided": "may be left behind"}
        verdicts = {verdict(claims, f"rival-stays-small@{arm}") for arm in ("rivals", "step-sizes")}
        behind = words[next(one for one in ("fails", "undecided", "holds") if one in verdicts)]
        sums = self.sums(runs["step-sizes"], "step-sizes")
        fine, coarse = (
            f"{in_words(100 * part, '{:.1g} %')} at η = {float(part['step_size']):g}"
            for part in (sums.run.total / sums.limit() - 1).isel(step_size=[0, -1]).transpose("step_size", ...)
        )
        too_large = verdict(claims, "weighted-lower-bound@steep") == "fails"
        return Story(
            f"A rival {percent(LITTLE_LEAD - 1)} short of the threshold {behind}: it grows "
            f"{in_words(highest, '{:.2f} times')} at most, the leader {grown}.",
            f"Sequences grow by the power {self.power} of their own size, so that the larger one pulls away; a rival "
            "whose factor is larger must begin above a threshold to win. Left, a leader and a rival over time, with "
            "closed forms dashed; right, rival against leader, where a flat line is a rival that stays what it was. "
            f"The time that growth takes is above its closed form by {fine} and {coarse}.",
            {
                "rival-stays-small@rivals": f"{most} at most where growth varies by chance; the leader {grown}.",
                "rival-stands-still@rivals": f"Where the leader begins at {log(DIMENSION):.1f} times the threshold, a "
                f"rival grows by at most {in_words(100 * (far - 1), '{:.1g} %')}.",
                "small-step-limit@step-sizes": f"It is above by {fine}.",
                "weighted-lower-bound@steep": "At power 20 it is larger than what it bounds." if too_large else "",
                "sum-is-square@starts": "",
            },
        )
