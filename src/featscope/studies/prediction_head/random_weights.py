"""What Algorithm 1 does on batches from random weights, with the head and without."""

from dataclasses import dataclass

import xarray as xr

from featscope.claims import POSITIVE, STATED, bound, ordering
from featscope.models.population import PURE
from featscope.studies import last
from featscope.studies.prediction_head.paths import PathsClaims
from featscope.studies.reductions import known
from featscope.training.phases import LEARNED

WITH_HEAD, WITHOUT = "random-batches", "random-batches-no-head"


@dataclass(frozen=True)
class RandomWeightsClaims(PathsClaims):
    """Claims of the two arms on batches that begin at random. Options and arms are `PredictionHeadArms`'."""

    @bound(
        "Theorem 4.1",
        on=WITH_HEAD,
        not_on={WITHOUT: "Both neurons learn the strong one."},
        at_least=LEARNED,
        because="Bound: where a feature counts as learned.",
        note="The weights are those that infinite batches rescue by time 60. Added when ends were known.",
        range=POSITIVE,
    )
    def sgd_head_learns_both_features(self, run: xr.Dataset) -> xr.DataArray:
        r"""On batches, from random weights, both features are learned if there is a head.

        Measured: $\min_l \max_j |B_{jl}|$ in the end: of either feature the most that a neuron has, of the two the
        smaller.
        """
        return last(run, sizes(run)).max("neuron", skipna=False).min("feature", skipna=False)

    @ordering(
        "Theorem 4.3",
        on=WITHOUT,
        more_than=0.3,
        because=f"Bound: {STATED}, that of sgd-without-head-collapses.",
        note="The rule of no-head-selection-rule has both neurons of these weights there. Added when ends were known.",
    )
    def sgd_without_head_learns_the_strong(self, run: xr.Dataset) -> xr.DataArray:
        """On batches, from random weights, neurons learn the strong feature if there is no head.

        Measured: $|B_{j1}| - |B_{j2}|$ in the end less that at the start, mean over both neurons.
        """
        size = sizes(run)
        ahead = (size.isel(feature=0) - size.isel(feature=1)).mean("neuron", skipna=False)
        return last(run, ahead) - ahead.isel(step=0)


def sizes(run: xr.Dataset) -> xr.DataArray:
    """|B_jl| over training; NaN of what was not trained."""
    return abs(run.overlap).isel(path=0).where(unrescued(run) < 0)


def different(run: xr.Dataset) -> xr.DataArray:
    """Whether the neurons have each learned a feature in the end, and not the same; NaN of what was not trained."""
    size = last(run, sizes(run))
    feature, most = size.fillna(0.0).argmax("feature"), size.max("feature")
    has_one = (size.min("feature") < PURE * most) & (most >= LEARNED)
    return known(has_one.all("neuron") & (feature.isel(neuron=0) != feature.isel(neuron=1)), size)


def unrescued(run: xr.Dataset) -> xr.DataArray:
    """0 of replicas without a start that the flow rescues early, else -1; runs before 2026-11-28 had none of them."""
    return run["unrescued"] if "unrescued" in run else xr.full_like(run["last_step"], -1)
