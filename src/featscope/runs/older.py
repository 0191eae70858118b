"""How far a run of an older version can be judged."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from difflib import get_close_matches
from typing import Any

import xarray as xr

from featscope.claims import Claim
from featscope.claims.newer import newer_left_out
from featscope.runs.environment import by_other_code, module_of
from featscope.studies import Study


def as_far_as_measured(
    study: Study, before: Sequence[Claim], environment: Mapping[str, Any]
) -> AbstractContextManager[dict[str, str]]:
    """Within it, claims are left out that are newer than a run, see `newer_left_out`.

    Args:
        study: what was run.
        before: the verdicts that the run has; those of sweeps and ladders are on an arm at a point, ``arm@point``.
        environment: what computed it.
    """
    known = {(claim.id, arm) for claim in before for arm in (claim.arm, claim.arm.rpartition("@")[0])}
    return newer_left_out(known, lambda: by_other_code(environment, module_of(study)))


def in_words(newer: Mapping[str, str], runs: Mapping[str, xr.Dataset]) -> str:
    """Which claims were left out, and what each lacks; empty if none was. A name that is nearly another may be a slip.

    Args:
        newer: id -> what it lacks.
        runs: what was measured.
    """
    if not newer:
        return ""
    measured = sorted({str(name) for run in runs.values() for name in run.variables} | {*runs})
    near = {what: get_close_matches(what, measured, 1, 0.8) for what in newer.values()}
    told = {what: f"{what}; is {found[0]} meant?" if found else what for what, found in near.items()}
    each = ", ".join(f"{claim} ({told[what]})" for claim, what in newer.items())
    return f"Not judged, as this run has not measured what they ask for: {each}. A run of today's version has it."
