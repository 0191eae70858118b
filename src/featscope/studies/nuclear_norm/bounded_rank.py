"""Claims of the nuclear norm over many features, and of a bounded rank (Lemma 6.2)."""

from dataclasses import dataclass

import xarray as xr

from featscope.claims import POSITIVE, STATED, bound, ordering
from featscope.studies.nuclear_norm.arms import RANK
from featscope.studies.nuclear_norm.linear import OVER, LinearClaims, paired
from featscope.studies.nuclear_norm.solved import DECAYS, RATIOS
from featscope.studies.reductions import known

MOST = f"Bound: most; {STATED}"
_NORM = len(DECAYS)
_OPTIMUM = "erm-rank-has-an-optimum"


@dataclass(frozen=True)
class RankClaims(LinearClaims):
    """Claims of (6.3) with the nuclear norm, and with a bounded rank in its place."""

    @bound(
        "derived here, for (6.3)",
        on=OVER,
        at_least=0.5,
        law="yes/no",
        because="Bound: on most samples, a stated choice: a sample counts once, and eight said no more.",
        note="The theory has a bounded rank in its place.",
    )
    def nuclear_norm_drops_the_environment(self, run: xr.Dataset) -> xr.DataArray:
        r"""The nuclear norm puts no weight at all on environmental features.

        Measured: share of samples on which $\beta=0$ for all $d-r$ and $\lambda$.
        """
        most = run.beta.isel(penalty=slice(_NORM, None)).max(["ratio", "penalty"], skipna=False)
        return (most == 0).where(most.notnull())

    @paired("Proposition 6.3, read for (6.3)", on=OVER, note="On the same samples.", range=(-1.0, 1.0))
    def nuclear_norm_beats_weight_decay(self, run: xr.Dataset) -> xr.DataArray:
        r"""The nuclear norm is right out of domain where weight decay fails.

        Measured: accuracy at $d-r=1.25\,r/(4\gamma^2)$, nuclear norm of $\lambda=0.01$ less weight decay of
        $\lambda=0.05$.
        """
        at = run.ood_accuracy.isel(ratio=RATIOS.index(1.25))
        return at.isel(penalty=-1) - at.isel(penalty=0)

    @bound("Lemma 6.2", on=RANK, at_least=0.5, law="share", because=MOST, note="With a ridge of 0.001.")
    def erm_rank_support(self, run: xr.Dataset) -> xr.DataArray:
        """With few features allowed the best ones are invariant, with positive weights.

        Measured: share of samples and ranks where they are, every support tried.
        """
        best = known((run.best_is_invariant == 1) & (run.least_weight > 0), run.best_is_invariant, run.least_weight)
        return best.where(run.gap.notnull()).transpose("replica", ...)

    @paired(
        "Lemma 6.2", on=RANK, note="It says of any invariant support that it is best; on samples they differ a bit."
    )
    def any_invariant_support_is_better(self, run: xr.Dataset) -> xr.DataArray:
        """The worst choice of invariant features beats the best one with an environmental feature.

        Measured: loss and ridge of the second less the first, least over ranks.
        """
        return run.gap.min("rank", skipna=False)

    @bound(
        "Proposition 6.3",
        on=RANK,
        at_least=0.99,
        law="share",
        things=lambda study: min(2000, study.samples),
        because="Bound: all but one in a hundred; one in a thousand, asked at first, would take hundreds.",
    )
    def erm_rank_is_right_out_of_domain(self, run: xr.Dataset) -> xr.DataArray:
        """Out of domain a bounded rank is always right.

        Measured: accuracy, least over ranks.
        """
        return run.ood_accuracy.min("rank", skipna=False)

    @bound(
        "Lemma 6.2",
        not_on=RANK,
        at_most=1.01,
        because=f"Bound: 1 %; {STATED}",
        range=POSITIVE,
    )
    def erm_rank_has_an_optimum(self, run: xr.Dataset) -> xr.DataArray:
        """There are best weights of a bounded rank: they stay where they are as the ridge vanishes.

        Measured: norm at a ridge of 10⁻⁶ over that at 10⁻³.
        """
        return run.norm.isel(ridge=1) / run.norm.isel(ridge=0)

    @ordering(
        "derived, for Lemma 6.2", on=RANK, more_than=2.0, because=f"Bound: {STATED}", range=POSITIVE, corrects=_OPTIMUM
    )
    def erm_rank_weights_grow(self, run: xr.Dataset) -> xr.DataArray:
        """There are none: weights grow without bound as the ridge vanishes.

        Measured: norm at a ridge of 10⁻⁶ over that at 10⁻³.
        """
        return run.norm.isel(ridge=1) / run.norm.isel(ridge=0)

    @ordering("derived, for Lemma 6.2", on=RANK, less_than=0.1, because=f"Bound: {STATED}", range=POSITIVE)
    def erm_rank_loss_goes_to_zero(self, run: xr.Dataset) -> xr.DataArray:
        """The loss of a bounded rank goes to zero, which no weights have.

        Measured: logistic loss at a ridge of 10⁻⁶ over that at 10⁻³.
        """
        return run.loss.isel(ridge=1) / run.loss.isel(ridge=0)
