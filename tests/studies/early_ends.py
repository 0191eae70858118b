"""A run whose first replica was alone in a shard that stopped early, between two looks of the others."""

import numpy as np
import xarray as xr

from featscope.studies import last
from featscope.testing import Trial


def with_an_early_end(run: xr.Dataset) -> xr.Dataset:
    """The first replica ended after its third-last look, as it ended; nobody else was looked at then."""
    steps = run["step"].values
    at = (steps[-3] + steps[-2]) / 2
    wide = run.reindex(step=np.sort([*steps, at]))
    first = wide["replica"] == wide["replica"][0]
    series = {name: one for name, one in run.items() if {"replica", "step"} <= {*one.dims}}
    for name, one in series.items():
        ended = wide[name].where(~first | (wide["step"] < at))
        wide[name] = ended.where(~first | (wide["step"] != at), last(run, one))
    return wide.assign(last_step=run["last_step"].where(run["replica"] != run["replica"][0], at))


def require_claims_stay(trial: Trial) -> None:
    """Nothing is missing of a claim about arms that may stop early because one shard of them did.

    Raises:
        AssertionError: no arm may stop early and was looked at three times, or a claim lost a replica's number.
    """
    early = {arm.name for arm in trial.study.arms() if arm.stop_at and trial.run(arm.name).sizes.get("step", 0) > 3}
    assert early
    runs = {arm: with_an_early_end(run) if arm in early else run for arm, run in trial.runs.items()}
    before, after = ({(c.id, c.arm): c for c in trial.study.claims(found)} for found in (trial.runs, runs))
    assert before.keys() == after.keys()
    lost = [
        key for key, claim in before.items() if np.isfinite(claim.values).sum() > np.isfinite(after[key].values).sum()
    ]
    assert lost == []
