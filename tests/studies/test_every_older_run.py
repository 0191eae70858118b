"""A run of an older version has not measured all that claims ask for today: those that ask for more are left out."""

from collections.abc import Collection

import pytest
from one_step import EACH, one_step

from featscope.claims.newer import newer_left_out
from featscope.studies.base import ABOUT_THE_RUN


def left_out_without(name: str, missing: Collection[str], everywhere: bool) -> set[str]:
    """Claims that are left out where series are ``missing``, ``everywhere`` or on the last arm that has them; all
    others are as with them."""
    study, runs = one_step(name)
    without = [arm for arm, run in runs.items() if set(missing) & set(run.data_vars)]
    without = without if everywhere else without[-1:]
    before = {(claim.id, claim.arm): repr(claim) for claim in study.claims(runs)}
    older = {arm: run.drop_vars(missing) if arm in without else run for arm, run in runs.items()}
    with newer_left_out((), lambda: True) as newer:
        after = {(claim.id, claim.arm): repr(claim) for claim in study.claims(older)}
    vanished = {str(dim) for arm, run in runs.items() for dim in run.dims if dim not in older[arm].dims}
    assert set(newer.values()) <= {*missing} | vanished
    assert after == {key: before[key] for key in after}
    assert {id for id, _ in before.keys() - after.keys()} <= newer.keys()
    return {*newer}


def series(name: str) -> set[str]:
    """All that is measured of it."""
    _, runs = one_step(name)
    return {str(v) for run in runs.values() for v in run.data_vars} - {*ABOUT_THE_RUN}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # after one step much is missing
@pytest.mark.parametrize("name", EACH)
def test_without_one_series_all_other_claims_are_as_before(name: str, request: pytest.FixtureRequest) -> None:
    """Of one series in 25; of each with --long."""
    every = 1 if request.config.getoption("--long") else 25
    found = [left_out_without(name, [one], turn % 2 == 0) for turn, one in enumerate(sorted(series(name))[::every])]
    assert every > 1 or any(found)
