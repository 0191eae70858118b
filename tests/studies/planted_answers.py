"""What tests of studies whose answers are planted have in common: all is judged as it should be, and can fail."""

from collections.abc import Iterable

from featscope.testing import Fault, Trial


def require_judged(trial: Trial, fails: Iterable[tuple[str, str]]) -> None:
    """All that the study states is judged, what is expected to hold does, and the claims ``fails`` (id, arm) do not."""
    claims = trial.healthy
    assert {claim.id for claim in claims.values()} == {statement.id for statement in trial.study.statements()}
    for key, claim in claims.items():
        if claim.expected:
            assert claim.verdict == "holds", key
    assert all(claims[key].verdict == "fails" for key in fails)


def require_a_fault_each(trial: Trial, faults: Iterable[Fault]) -> None:
    """Every expected claim has a fault, on each of its arms."""
    expected = {key for key, claim in trial.healthy.items() if claim.expected}
    assert expected == {(fault.claim, fault.arm) for fault in faults}
