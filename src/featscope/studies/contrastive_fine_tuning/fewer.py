"""What fewer stored views and fewer classes do to the same training."""

from dataclasses import dataclass

import xarray as xr

from featscope.claims import ordering
from featscope.studies.contrastive_fine_tuning.arms import APART, DRAWN_APART, OF_CLASSES, OF_VIEWS, SIGN, accuracy
from featscope.studies.contrastive_fine_tuning.recipe import ONE, ONE_TERM, WEIGHTS
from featscope.studies.contrastive_fine_tuning.trade_off import TradeOff


@dataclass(frozen=True)
class Fewer(TradeOff):
    """Claims on the arms `few-views` and `few-classes`."""

    @ordering("derived here", on=OF_VIEWS, more_than=0.0, because=SIGN)
    def few_views_are_learned_by_heart(self, run: xr.Dataset) -> xr.DataArray:
        r"""The fewer views are stored, the nearer training brings two of them.

        Of two stored views each step has both, of five one pair in ten. Measured: NT-Xent at $\tau = 0.5$ of the first
        two views of a batch, after training on one view with the term, at $\lambda = 1$; of five stored views less of
        two, in nats.
        """
        last = run.last_term.isel(labels=0, classes=0, viewed=ONE_TERM + len(WEIGHTS) - 1 - ONE, drop=True)
        return last.isel(views=-1, drop=True) - last.isel(views=0, drop=True)

    @ordering("derived here", on=OF_CLASSES, more_than=0.0, because=DRAWN_APART, range=APART)
    def few_classes_are_told_apart(self, run: xr.Dataset) -> xr.DataArray:
        """Fewer classes are told apart more often.

        What is the likeliest of five classes is the likelier of any two of these. Measured: accuracy of the adapter
        without the term, of two classes less of five, in points.
        """
        found = accuracy(run, ONE).isel(labels=0, views=0, drop=True)
        return found.isel(classes=0, drop=True) - found.isel(classes=-1, drop=True)
