"""What `pruning` claims of several tiers of frequency: Theorem 3.2's Remark 1, one tier after the other."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr

from featscope.claims import COSINE, POSITIVE, Found, identity, ordering
from featscope.studies import farthest, last
from featscope.studies.pruning.arms import JUDGED, follows_theory
from featscope.studies.pruning.assumed import Assumed
from featscope.studies.reductions import known, smallest
from featscope.studies.summaries import in_words

MATTERS = 0.05
TWENTIETH = "Bound: a twentieth, so that a difference that no one would care for does not count."
visibly = partial(ordering, more_than=MATTERS, because=TWENTIETH)
as_predicted = partial(identity, equals=1.0, within=0.05, range=POSITIVE)  # a measurement over its closed form
REMARK = "Theorem 3.2, Remark 1"
ENERGIES = ["rarest_energy", "next_energy", "majority_energy"]


@dataclass(frozen=True)
class Tiers(Assumed):
    """Claims of three tiers of frequency, of how far each is below the next more frequent one."""

    @as_predicted(
        "from equation (5)",
        on="tiers",
        because="Tolerance: 5 %, for noise beyond first order and fluctuations of order η.",
    )
    def tiers_settle(self, run: xr.Dataset) -> Found:
        r"""Without pruning, each of three tiers settles where a closed form says.

        Measured: energy of a tier over that of the most frequent one, over its closed form, mean over looks in the last
        quarter of training; of both rare tiers the one that is farther off.
        """
        settled, tier = self._settled("tiers"), self.arm("tiers").recipe.data.minority // 2
        closed = settled[[-1, -1 - tier]] / settled[0]  # of the rarest, of the next
        end = run["step"].values > 0.75 * run["step"].values[-1]
        late = run[ENERGIES].sel(ratio=0.0, drop=True).isel(step=end).mean("step", skipna=False)
        each = xr.concat([late.rarest_energy, late.next_energy], "tier") / late.majority_energy
        over = each / xr.DataArray(np.where(closed > 0, closed, np.nan), dims="tier")
        words = " and ".join(f"{one:.3f}" for one in closed)
        return Found(known(farthest(over, "tier"), over), f"Closed forms are {words}.")

    @visibly(REMARK, on="tiers", range=COSINE)
    def tiers_stay_apart(self, run: xr.Dataset) -> xr.DataArray:
        """Without pruning, each of three tiers ends with less energy than the next more frequent one.

        Measured: 1 minus a tier's energy over the next one's at the end, the smaller of two.
        """
        return smallest(1 - xr.concat(self._shares(run, 0.0), "tier"))

    @ordering(
        REMARK,
        on="tiers",
        more_than=0.25,
        because="Bound: half of what it is where the next one stays; where both at once make the same share of their "
        "ways to the most frequent, it is 0.2.",
        given=follows_theory,
    )
    def rarest_tier_is_first(self, run: xr.Dataset) -> xr.DataArray:
        r"""With pruning, the rarest tier grows towards the next one while that stays where it is.

        Measured: of a tier's distance to the next one without pruning, the share that it has made with $\alpha =
        0.125$; that of the rarest minus that of the next, at the first look at which the rarest has made half (at the
        end, if it never has).
        """
        begun = run["step"] >= self.arm("tiers").recipe.rules["pruning"].start
        with_it, without = (run[ENERGIES].sel(ratio=ratio, drop=True) for ratio in (JUDGED, 0.0))
        way = (with_it - without).rarest_energy / (without.next_energy - without.rarest_energy)
        of_next = (with_it - without).next_energy / (without.majority_energy - without.next_energy)
        half, ahead = begun & (way >= 0.5), way - of_next
        found = ahead.isel(step=half.argmax("step")).where(half.any("step"), ahead.isel(step=-1))
        return known(found, ahead.where(begun, 0.0))

    @visibly(
        REMARK,
        on="tiers",
        given=follows_theory,
        note="Hiding must suffice for both: a tier is level for as long as the gap that logits leave of it, hidden and "
        "seen in turns, is λ over its pull.",
    )
    def tiers_join(self, run: xr.Dataset) -> Found:
        r"""With pruning, the rarest tier joins the next one, and both the most frequent.

        Measured: a tier's energy over the next one's at the end, with $\alpha = 0.125$ minus without pruning, the
        smaller of two.
        """
        with_it, without = self._shares(run, JUDGED), self._shares(run, 0.0)
        gains = xr.concat(with_it, "tier") - xr.concat(without, "tier")
        words = " and ".join(in_words(share, "{:.3f}") for share in with_it)
        return Found(smallest(gains), f"With pruning the shares are {words}.")

    def _shares(self, run: xr.Dataset, ratio: float) -> tuple[xr.DataArray, xr.DataArray]:
        """Energy of the rarest tier over the next one's, and of that over the most frequent one's, at the end."""
        rarest, following, most = (
            last(run, run[f"{tier}_energy"]).sel(ratio=ratio, drop=True) for tier in ("rarest", "next", "majority")
        )
        return rarest / following, following / most
