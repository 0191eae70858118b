"""Claims about when: Corollary 3.5's window, and Theorem E.1 to its own horizon (Wen & Li 2021)."""

from dataclasses import dataclass
from math import ceil, isfinite, log, nan

import xarray as xr

from featscope.claims import POSITIVE, SHARE, Found, bound, identity, ordering
from featscope.studies import last, looked
from featscope.studies.decoupling.arms import HORIZON
from featscope.studies.decoupling.at_start import is_spread
from featscope.studies.decoupling.corollaries import Corollaries
from featscope.studies.decoupling.stage_three import features_of, own, ratio_of
from featscope.studies.reductions import known, mean, mean_of
from featscope.studies.summaries import in_words

HELD = 0.3
"""Cosine from which on a neuron holds a feature, alone or with others; that of `imbalance`."""
TOO_EARLY = (
    "The window opens before Stage II is over: d^1.01 is less than d log d/log log d until log log d exceeds "
    "log d/d^.01, at d beyond all that a computer reaches."
)


@dataclass(frozen=True)
class Horizon(Corollaries):
    """What is said of all steps of a window."""

    # --- When features are there, and heads read them (Theorem E.1, Corollary 3.5) ------------------------------------

    @features_of(
        "Theorem E.1",
        not_on={"augmented": TOO_EARLY},
        because="Bound: nine features in ten, a stated choice.",
    )
    def features_when_the_window_opens(self, run: xr.Dataset) -> xr.DataArray:
        r"""Every feature has a neuron of its own by the first step of the theorem.

        It is about $t \in [\Omega(d^{1.01}/\eta), O(d^{1.99}/\eta)]$. Measured: share of features that a neuron holds
        alone at $d^{1.01}/\eta$.
        """
        return run.coverage_then.isel(moment=0)

    @features_of(
        "Theorem E.1",
        on="augmented",
        because="Bound: nine features in ten, a stated choice.",
        corrects="features-when-the-window-opens",
        given=is_spread,
    )
    def features_when_heads_are_due(self, run: xr.Dataset) -> xr.DataArray:
        r"""Every feature has a neuron of its own by the last step at which the paper reads features.

        Stage II is over then. Measured: share of features that a neuron holds alone at $d^{1.49}/\eta$.
        """
        return run.coverage_then.isel(moment=1)

    @ordering(
        "Corollary 3.5",
        not_on={"augmented": TOO_EARLY},
        less_than=0.8,
        because="Bound: that of downstream-regression, where the corollary has o(1).",
        range=POSITIVE,
    )
    def heads_when_the_window_opens(self, run: xr.Dataset) -> xr.DataArray:
        r"""A linear head does far better than one on the raw input as soon as the corollary says.

        It has $f_t$ at $t \in [d^{1.01}/\eta, d^{1.49}/\eta]$. Measured: error of $\langle w^{*}, z\rangle$ at the
        first of these steps over that on the raw input.
        """
        return run.error_then.isel(moment=0) / run.raw_error

    @ordering(
        "Corollary 3.5",
        on="augmented",
        less_than=0.8,
        because="Bound: that of downstream-regression, where the corollary has o(1).",
        note="It was known that heads read a little better here than on the plateau.",
        range=POSITIVE,
        corrects="heads-when-the-window-opens",
        given=is_spread,
    )
    def heads_when_the_window_closes(self, run: xr.Dataset) -> Found:
        r"""A linear head does far better than one on the raw input by the last step of the corollary.

        Measured: error of $\langle w^{*}, z\rangle$ at $d^{1.49}/\eta$ over that on the raw input.
        """
        errors = (run.error_then.isel(moment=1), run.representation_error)
        then, later = (in_words(one, "{:.3f}") for one in errors)
        return Found(run.error_then.isel(moment=1) / run.raw_error, f"It misses {then}, in the end {later}.")

    @bound(
        "Corollary 3.5",
        on="augmented",
        at_least=0.8,
        because="Bound: four in five, that of classification-is-right.",
        range=SHARE,
        given=is_spread,
    )
    def heads_classify_when_the_window_closes(self, run: xr.Dataset) -> xr.DataArray:
        r"""A linear head classifies well by the last step of the corollary. Measured: accuracy at $d^{1.49}/\eta$."""
        return run.accuracy_then.isel(moment=1)

    # --- To the last step of Theorem E.1 ------------------------------------------------------------------------------

    def _reached(self, measured: xr.DataArray, why: str = "", predicted: float | None = None) -> Found:
        """``measured``, if training goes on to the last step of the theorem; NaN if ``steps`` ends it before."""
        theirs = self.at_power(HORIZON)
        if self.horizon == theirs:
            return Found(measured, why, predicted)
        cure = f"take --steps {ceil(theirs / 4)} or more."
        early = f"Training ends at step {self.horizon:,}, the theorem at {theirs:,}: {cure}"
        return Found(nan * measured, early, predicted)

    @features_of("Theorem E.1", on="horizon", because="Bound: nine features in ten, a stated choice.", given=is_spread)
    def features_at_the_horizon(self, run: xr.Dataset) -> Found:
        r"""Every feature has a neuron of its own at the last step of the theorem.

        Measured: share of features that a neuron holds alone at $d^{1.99}/\eta$.
        """
        return self._reached(last(run, run.coverage))

    @bound(
        "Theorem E.1",
        on="horizon",
        at_least=0.98,
        because="Bound: all but one pair in fifty; finitely many cannot show that it is all.",
        law="share",
        given=is_spread,
    )
    def singletons_stay(self, run: xr.Dataset) -> Found:
        """Who holds a feature alone keeps it to the horizon.

        Measured: share of the pairs of a singleton and its feature, when the other arms end or after two thirds of the
        steps if that is earlier, that are one in the end.
        """
        earlier = min(self.steps, 2 * int(run["step"].max()) // 3)
        before = run.alignment.sel(step=earlier, method="nearest", drop=True) ** 2 > 0.5
        return self._reached(known(own(run), last(run, run.alignment)).where(before))

    @bound(
        "Theorem E.1(d)",
        not_on={"horizon": "O(1/log d) needs features to be read without noise."},
        relation="<=",
        because="Bound: τ/log d, with constant 1.",
        range=POSITIVE,
    )
    def loss_over_the_window(self, run: xr.Dataset) -> Found:
        r"""Over the theorem's window the loss is next to nothing on average.

        $\frac{1}{T} \sum_t L(f_t) \le O(1/\log d)$. Measured: mean over looks from $d^{1.01}/\eta$ to the horizon.
        """
        late = (run["step"] >= self.moments[0]) & looked(run)
        return self._reached(mean_of(run.loss, late, "step"), predicted=1 / log(self.data.features))

    @identity(
        "Theorem E.1(d); derived",
        on="horizon",
        equals=1.0,
        within=0.1,
        because="Tolerance: 10 %, that of average-loss.",
        range=POSITIVE,
        given=is_spread,
        corrects="loss-over-the-window",
    )
    def loss_to_the_horizon(self, run: xr.Dataset, arm: str) -> Found:
        """Once training has settled the loss stays at that of the ideal network.

        Measured: mean over looks from where the other arms end to the horizon, over the loss of the network w_i = M_i
        with thresholds in the same ratio to the norms.
        """
        recipe, ratio = self.arm(arm).recipe, round(ratio_of(run), 3)
        objective = recipe.objective
        sizes = objective.anchors, objective.negatives
        decay = self.optimizer.weight_decay
        ideal = self.ideal(recipe.data, ratio).saturation(1.0, decay, *sizes)[1] if isfinite(ratio) else nan
        settled = (run["step"] >= min(self.steps, float(run["step"].max()))) & looked(run)
        return self._reached(mean_of(run.loss, settled, "step") / ideal, f"The ideal one is {ideal:.2f} τ.")

    @bound(
        "Theorem E.1",
        not_on={"augmented": "Where every neuron holds a feature the mean over features is m/d at least."},
        at_most=1.0,
        because="Bound: m/d with constant 1, where the theorem has o(m/d).",
        range=POSITIVE,
    )
    def neurons_of_a_feature(self, run: xr.Dataset) -> xr.DataArray:
        r"""Few neurons share a feature.

        $|\{i : j \in N_i\}| \le o(m/d)$. Measured: neurons of cosine $\ge 0.3$ in the end, mean over features, over
        $m/d$.
        """
        cosines = abs(last(run, run.alignment))
        return mean(known(cosines >= HELD, cosines).sum("feature", skipna=False))
