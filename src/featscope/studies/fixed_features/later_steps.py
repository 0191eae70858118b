"""Claims of `fixed-features` about descent after the first two steps (Theorem A.20, Lemma A.18)."""

from dataclasses import dataclass

import xarray as xr

from featscope.claims import STATED, bound, ordering
from featscope.studies.base import last
from featscope.studies.fixed_features.arms import LITERAL, WIDTHS
from featscope.studies.fixed_features.mixtures import MixtureClaims
from featscope.theory import dictionary_learning as theory


def _largest_after_start(values: xr.DataArray) -> xr.DataArray:
    """Over all looks but that at step 0, where nothing has moved."""
    return values.isel(step=slice(1, None)).max("step", skipna=False)


@dataclass(frozen=True)
class LaterStepsClaims(MixtureClaims):
    """Where the theorem's step sizes lead, and how far layers drift."""

    @bound(
        "Theorem A.20",
        on=LITERAL,
        at_most=0.9,
        law="share",
        things=lambda self: self.test,
        because=f"Bound: {STATED} The linear ceiling is 0.84.",
        note="With the step size of the theorem and as many steps as the experiments have, not its m^(4/3). The "
        "bounds of drift are true of a network that stands still, too.",
    )
    def literal_sgd_stalls(self, run: xr.Dataset) -> xr.DataArray:
        """Gradient descent as the theorem has it does not get past a linear rule in the steps of the experiments.

        Measured: test accuracy at the end.
        """
        return last(run, run.accuracy)

    @bound(
        "Theorem A.20",
        on=LITERAL,
        at_least=0.8,
        law="share",
        things=lambda self: self.test,
        because="Bound: nearly the linear ceiling, 0.84; settled when 0.841 had been seen.",
        note="A network that stands still after two steps has a half.",
    )
    def literal_sgd_finds_a_linear_rule(self, run: xr.Dataset) -> xr.DataArray:
        """It does get as far as a linear rule.

        Measured: test accuracy at the end.
        """
        return last(run, run.accuracy)

    @bound("derived, for Lemma A.18", on=LITERAL, at_most=1.001, because="Bound: rounding, float32.", law="exact")
    def second_layer_drift_bound(self, run: xr.Dataset) -> xr.DataArray:
        r"""The second layer grows by no more than a step size a step: $|a^{(t)}|\le|a^{(2)}|+\eta(t-2)$.

        Measured: the most that a neuron has grown over $\eta(t-2)$, largest over all looks.
        """
        return _largest_after_start(run.outer_grown / (self._late * run.step))

    @bound("derived, for Lemma A.18", on=LITERAL, at_most=1.001, because="Bound: rounding, float32.", law="exact")
    def first_layer_drift_bound(self, run: xr.Dataset) -> xr.DataArray:
        r"""The first layer moves by no more than $\|x\|(\eta t|a^{(2)}|+\eta^2t^2/2)$ in t steps.

        Measured: the most that a neuron has moved over it, largest over all looks.
        """
        return _largest_after_start(run.weights_moved / (run.longest * self._drift(run)))

    @bound("derived, for Lemma A.18", on=LITERAL, at_most=1.001, because="Bound: rounding, float32.", law="exact")
    def threshold_drift_bound(self, run: xr.Dataset) -> xr.DataArray:
        r"""Thresholds move by no more than $\eta t|a^{(2)}|+\eta^2t^2/2$ in t steps.

        Measured: the most that one has moved over it, largest over all looks.
        """
        return _largest_after_start(run.biases_moved / self._drift(run))

    def _drift(self, run: xr.Dataset) -> xr.DataArray:
        """How far a threshold may have moved at each look."""
        way = self._late * run.step
        return way * run.outer_at_two + way**2 / 2

    @property
    def _late(self) -> float:
        return theory.late_step_size(self.relevant, self.neurons, 2 * self.steps)

    @ordering("Theorem A.20", on=WIDTHS, less_than=0.0, note="The bound itself says nothing at sizes that can be run.")
    def wider_is_lower_loss(self, run: xr.Dataset) -> xr.DataArray:
        """Wider networks have less loss after as many steps.

        Measured: hinge loss on the test set, the widest less the narrowest.
        """
        loss = last(run, run.test_hinge)
        return loss.isel(neurons=-1) - loss.isel(neurons=0)
