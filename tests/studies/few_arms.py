"""Planted faults where running all arms of a study would take too long: only those that a claim compares are run."""

from collections.abc import Sequence
from functools import cached_property

import pytest
import xarray as xr

from featscope.studies import Study
from featscope.testing import Fault, measure


class FewArms:
    """Some arms of a study, run once as they are, and the fault's again with the fault: same seed, same draws."""

    def __init__(self, study: Study, arms: Sequence[str], replicas: int) -> None:
        self.study, self.arms, self.replicas = study, arms, replicas

    def run(self, arm: str) -> xr.Dataset:
        """What ``arm`` measures now."""
        return measure(self.study, self.study.arm(arm), self.replicas)

    @cached_property
    def runs(self) -> dict[str, xr.Dataset]:
        """What the arms measure as they are."""
        return {arm: self.run(arm) for arm in self.arms}

    def require_noticed(self, fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
        """Plant ``fault``, and see its claim, which holds and is expected to, no longer hold.

        Where replicas are too few to decide it, what was measured is as it should be before, and not with the fault.
        """
        (test,) = (test for test in self.study.tests if test.statement.id == fault.claim)
        before = test.judge(self.study, fault.arm, self.runs)
        assert before.expected
        assert before.verdict == "holds" or (before.verdict == "undecided" and before.stands)
        monkeypatch.setattr(fault.where, fault.name, fault.line)
        after = test.judge(self.study, fault.arm, self.runs | {fault.arm: self.run(fault.arm)})
        assert after.verdict != "holds" if before.verdict == "holds" else not after.stands
