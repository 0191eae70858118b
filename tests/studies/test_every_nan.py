"""NaN is no measurement: a claim holds by nothing that is missing, on each study around one step of every arm.

A part of a series is missing in all replicas: half of it by lot, or all of it. A claim that is another when this part
has other values came from it, and has nothing to say without it; or, where things are counted, counts fewer.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import xarray as xr
from jaxtyping import Bool
from one_step import NAMES, one_step

from featscope.claims import Claim
from featscope.claims.statement import Test
from featscope.studies import Study
from featscope.studies.base import ABOUT_THE_RUN

_OF_HEADS = ("share", "waves", "wave", "share_of_embeddings")
LEFT_OUT = {
    **{("attention-circuits", name): "NaN for heads that decayed to nothing" for name in _OF_HEADS},
    ("fourier-circuits", "blocks"): "NaN for neurons that are not active",
    ("learned-filters", "picked"): "NaN for groups of blocks without a cluster of five, which the claim leaves out",
    ("longbench", "task_of"): "no measurement: which task a question is of",
    ("prediction-head", "time"): "NaN for flows that have arrived",
    ("prediction-head", "top_share"): "NaN for heads that decayed to nothing",
}
"""What is missing for a reason."""

Change = Callable[[np.ndarray], np.ndarray]


class _Watched(dict[str, xr.Dataset]):
    """Runs that remember which arms they were asked for."""

    def __init__(self, runs: Mapping[str, xr.Dataset]) -> None:
        super().__init__(runs)
        self.arms: set[str] = set()

    def __getitem__(self, arm: str) -> xr.Dataset:
        self.arms.add(arm)
        return super().__getitem__(arm)

    def get(self, arm: str, otherwise: Any = None) -> Any:
        self.arms.update({arm} & self.keys())
        return super().get(arm, otherwise)

    def items(self) -> Any:
        self.arms.update(self)
        return super().items()

    def values(self) -> Any:
        self.arms.update(self)
        return super().values()


def _read(test: Test, study: Study, arm: str, runs: Mapping[str, xr.Dataset]) -> Iterator[tuple[str, str]]:
    """Arms and series that the claim on ``arm`` may come from: those that it asks for."""
    watched, names = _Watched(runs), set()

    def remembered(run: xr.Dataset, key: Any) -> Any:
        names.update([key] if isinstance(key, str) else key if isinstance(key, list) else [])
        return looked_up(run, key)

    looked_up = xr.Dataset.__getitem__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(xr.Dataset, "__getitem__", remembered)
        test.judge(study, arm, watched)
    for asked in sorted(watched.arms & runs.keys() | {arm}):
        for name in sorted(names - {*ABOUT_THE_RUN} & set(map(str, runs[asked].data_vars))):
            if "replica" in runs[asked][name].dims and runs[asked][name].dtype.kind in "fbiu":
                yield asked, name


def _part(series: xr.DataArray, missing: str) -> Bool[np.ndarray, "replica ..."]:
    """All of it, or half of it; all of what is one number a replica."""
    shape = series.transpose("replica", ...).shape
    if missing == "all" or (size := int(np.prod(shape[1:]))) < 2:
        return np.full(shape, True)
    half = np.random.default_rng(0).permutation(size) % 2 == 1
    return np.broadcast_to(half.reshape(shape[1:]), shape)


def _changed(series: xr.DataArray, part: Bool[np.ndarray, "replica ..."], change: Change) -> xr.DataArray:
    series = series.transpose("replica", ...).astype(float)
    values = series.values.copy()
    values[part] = change(values[part])
    return series.copy(data=values)


def _numbers(claim: Claim | None) -> np.ndarray:
    return np.full(1, np.nan) if claim is None else np.array(claim.values or [claim.measured])


def _says_nothing(claim: Claim | None, before: Claim) -> bool:
    if claim is None or not np.isfinite(claim.predicted) or not np.isfinite(_numbers(claim)).any():
        return True
    return claim.verdict != "holds" and claim.law in ("share", "draws") and sum(claim.trials) < sum(before.trials)


def _said(test: Test, study: Study, runs: Mapping[str, xr.Dataset]) -> Iterator[tuple[str, Claim]]:
    """Arms on which it says something, with what it says."""
    for arm in sorted(test.arms(study).keys() & runs.keys()) if test.of_runs else ():
        if (claim := test.judge(study, arm, runs)) is not None:
            yield arm, claim


def _missed(name: str, study: Study, runs: Mapping[str, xr.Dataset], missing: str) -> Iterator[str]:
    """Claims that are told although what they came from is missing."""
    for test in study.tests:
        for arm, before in _said(test, study, runs):
            for asked, series in _read(test, study, arm, runs):
                if (name, series) in LEFT_OUT:
                    continue
                part = _part(runs[asked][series], missing)

                def judged(change: Change, asked: str = asked, series: str = series, part: Any = part) -> Claim | None:
                    run = runs[asked].assign({series: _changed(runs[asked][series], part, change)})
                    return test.judge(study, arm, {**runs, asked: run})  # noqa: B023

                if _says_nothing(judged(lambda values: np.nan * values), before):
                    continue
                numbers = _numbers(judged(lambda values: values))
                for change in (lambda values: 2 * values + 1, lambda values: -2 * values - 1):
                    try:
                        others = _numbers(judged(change))
                    except (ValueError, IndexError):  # these are no values that can be
                        continue
                    if others.shape != numbers.shape or not np.allclose(others, numbers, 1e-6, 0, equal_nan=True):
                        yield f"{test.statement.id}@{arm}: {missing} of {series} of {asked} is missing"
                        break


@pytest.mark.long
@pytest.mark.parametrize("missing", ["half", "all"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # after one step much is missing
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_told_by_what_is_missing(name: str, missing: str) -> None:
    study, runs = one_step(name)
    missed = list(_missed(name, study, runs, missing))
    assert not missed, "\n".join(missed)
