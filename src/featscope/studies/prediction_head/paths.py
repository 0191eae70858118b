"""What is told of starts against the paths that they take."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from featscope.claims import POSITIVE, identity
from featscope.studies.prediction_head.phases import PhasesClaims
from featscope.studies.prediction_head.probes import at, ends, rescued
from featscope.studies.reductions import known, largest


@dataclass(frozen=True)
class PathsClaims(PhasesClaims):
    """A claim of numbers that are told of a start. Options and arms are `PredictionHeadArms`'."""

    @identity(
        "derived here",
        on="head",
        equals=0.0,
        within=1e-6,
        because="Tolerance: rounding.",
        law="exact",
        range=POSITIVE,
        note="Other claims bound these numbers from one side only.",
    )
    def starts_are_told_by_their_paths(self, run: xr.Dataset) -> xr.DataArray:
        r"""What is told of a start is what its path has: the head's peak and end, the slow neuron's norm, what moved.

        The largest $|E_{21}|$ of all phases and that of the end; $\|w_2\|^2 = B_{21}^2 + B_{22}^2 + R_2$ at the start;
        the largest relative change of the overlaps but $B_{11}$ from $T_1$ to $T_2$. Measured: what is told over this,
        off 1, the largest over the four and over rescued starts.
        """
        passed = [abs(end) for phase in range(run.sizes["phase"]) for end in ends(run, phase, "E_21")]
        peak = xr.concat([one.where(np.isfinite(one), 0.0) for one in passed], "of").max("of", skipna=False)
        begun = [at(run, "start", name) for name in ("B_21", "B_22", "R_2")]
        others = [abs(at(run, "T2", name) / at(run, "T1", name) - 1) for name in ("B_12", "B_21", "B_22")]
        moved = xr.concat(others, "of").max("of", skipna=False)
        ratios = [
            run.head_peak / peak,
            run.head_end / abs(at(run, "end", "E_21")),
            run.slow_norm / (begun[0] ** 2 + begun[1] ** 2 + begun[2]),
            (run.others_moved / moved).where(run.time_substituted < np.inf, 1.0),
        ]
        apart = abs(xr.concat(ratios, "which") - 1)
        chosen = rescued(run)
        return known(largest(apart.where(chosen > 0, 0.0)).where((chosen > 0).any("start")), chosen)
