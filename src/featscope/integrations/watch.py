"""What callbacks of all frameworks do at the moments that these have."""

import warnings
from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from featscope.integrations.batches import run_model
from featscope.integrations.monitor import Log, Monitor
from featscope.training import MagnitudePruning, Pruner
from featscope.training.batch_norm import batch_statistics

_BATCH_NORM = (
    "pruning leaves statistics of BatchNorm as they are when it begins, until the training ends and they are taken "
    "anew: before that, what is validated and what the monitor sees is of the old ones"
)


class Watch:
    """A `Monitor`, and a `Pruner` where weights are to be hidden from the loss.

    Args:
        model: what is trained.
        held_out: see `Monitor`.
        log: see `Monitor`.
        pruning: what to hide; None for nothing. The run folder tells it with what its author says of the training.
        done: steps after which training goes on, see `Pruner.resume`.
        options: others of `Monitor`.
    """

    def __init__(
        self,
        model: nn.Module,
        held_out: Iterable[Any],
        log: Log,
        pruning: MagnitudePruning | None,
        done: int = 0,
        **options: Any,
    ) -> None:
        self.run = options.get("run") or run_model
        if pruning is not None:
            options["about"] = {**(options.get("about") or {}), "pruning": pruning}
        self.pruner: Pruner | None = pruning.on(model) if pruning is not None else None
        if self.pruner is not None:
            with self.pruner.hidden():  # says now what cannot be done
                pass
            if next(batch_statistics(model), None) is not None:
                warnings.warn(_BATCH_NORM, stacklevel=3)
        self.monitor = Monitor(model, held_out, log=log, done=done, **options)
        if self.pruner is not None and done:
            self.pruner.resume(done)

    def before_loss(self) -> None:
        """Hide what is pruned."""
        if self.pruner is not None:
            self.pruner.hide()

    def before_update(self) -> None:
        """Show all weights to the optimizer."""
        if self.pruner is not None:
            self.pruner.show()

    def after_step(self, loss: Tensor | float | None) -> None:
        """Choose anew what is pruned, and look if it is time."""
        if self.pruner is not None:
            self.pruner.show()
            self.pruner.update()
        self.monitor.step(loss)

    def after_part(self, loss: Tensor | float | None) -> None:
        """After a batch whose gradient waits for those of others: show all weights, and keep its loss."""
        if self.pruner is not None:
            self.pruner.show()
        self.monitor.part(loss)

    def finish(self, training: Iterable[Any] | None) -> None:
        """Take statistics of BatchNorm anew from ``training`` where weights were pruned, and look for the last time.

        Of a training that broke off there is nothing to take them from: None. A look at the last step is taken again
        where statistics are others now.
        """
        anew = False
        if self.pruner is not None:
            self.pruner.show()
            if training is not None:
                anew = self.pruner.refresh(training, call=self.run)
        self.monitor.close(anew)
