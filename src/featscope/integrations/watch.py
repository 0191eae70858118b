"""What callbacks of all frameworks do at the moments that these have."""

import warnings
from collections import deque
from collections.abc import Iterable
from typing import Any

from torch import Tensor, distributed, nn

from featscope.integrations.batches import copied, run_model, size_of
from featscope.integrations.monitor import Log, Monitor
from featscope.integrations.undisturbed import undisturbed
from featscope.training import MagnitudePruning, Pruner
from featscope.training.batch_norm import batch_statistics, estimate_statistics

_RECENT = 8  # batches: of 128 images each, means are known to three hundredths of a deviation
_OF_SEVERAL = (
    "SyncBatchNorm takes statistics of all processes together, and not all of them look or save: pruning leaves these "
    "as they are when it begins, until the training ends and they are taken anew. Before that, what is validated, "
    "saved and seen by the monitor is of the old ones"
)
_NOT_RUN = (
    "the model cannot be run on batches of training, so pruning leaves statistics of BatchNorm as they are until the "
    "training ends: say by run= how"
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
        self._prepare = options.pop("prepare", None)
        if pruning is not None:
            options["about"] = {**(options.get("about") or {}), "pruning": pruning}
        self.pruner: Pruner | None = pruning.on(model) if pruning is not None else None
        self._hidden = False
        self._recent = deque[Any](maxlen=0)  # what training saw last, where statistics have to be taken of it
        if self.pruner is not None:
            with self.pruner.hidden():  # says now what cannot be done
                pass
            if _synchronised(model):
                warnings.warn(_OF_SEVERAL, stacklevel=3)
            elif next(batch_statistics(model), None) is not None:
                self._recent = deque(maxlen=_RECENT)
        self.monitor = Monitor(model, held_out, log=log, done=done, prepare=self._before_look, **options)
        if self.pruner is not None and done:
            self.pruner.resume(done)

    def before_loss(self, batch: Any = None) -> None:
        """Hide what is pruned; ``batch`` is what the loss is of."""
        if self.pruner is not None:
            self.pruner.hide()
            self._hidden = True
            if self.pruner.began and batch is not None and self._recent.maxlen:
                self._recent.append(copied(batch))  # a step may take parts, or work in place

    def before_update(self) -> None:
        """Show all weights to the optimizer."""
        if self.pruner is not None:
            self.pruner.show()
            self._hidden = False

    def after_step(self, loss: Tensor | float | None) -> None:
        """Choose anew what is pruned, and look if it is time."""
        self.before_update()
        if self.pruner is not None:
            self.pruner.update()
        self.monitor.step(loss)

    def after_part(self, loss: Tensor | float | None) -> None:
        """After a batch whose gradient waits for those of others: show all weights, and keep its loss."""
        self.before_update()
        self.monitor.part(loss)

    def refresh(self) -> None:
        """Take statistics of BatchNorm anew from the last batches, before the whole network is measured or saved.

        All else is as it was: other buffers, random numbers, and norms in evaluation mode throughout. Where the model
        cannot be run on what training gave it, a warning says so and they stay.
        """
        if self.pruner is None or self._hidden or not self._recent:
            return
        module = self.pruner.module
        try:
            sizes = [size_of(batch) for batch in self._recent]
            large = [one for one, size in zip(self._recent, sizes, strict=True) if size >= max(sizes) / 2]
            with undisturbed(module):
                estimate_statistics(module, large, call=lambda m, b: self.run(m, copied(b)), only=self.pruner.moved())
                found = {name: one.clone() for name, one in batch_statistics(module)}
        except Exception as error:
            warnings.warn(f"{_NOT_RUN} ({type(error).__name__}: {error})", stacklevel=2)
            self._recent = deque(maxlen=0)
            return
        for name, one in batch_statistics(module):
            one.copy_(found[name])

    def _before_look(self) -> None:
        self.refresh()
        if self._prepare is not None:
            self._prepare()

    def finish(self, training: Iterable[Any] | None, anew: bool = False) -> None:
        """Take statistics of BatchNorm anew from ``training`` where weights were pruned, and look for the last time.

        Of a training that broke off there is nothing to take them from: None. A look at the last step is taken again
        where statistics are others now, or where it is to be ``anew``, as weights are. All but statistics is left as
        it was: other buffers, random numbers, what the loader draws.
        """
        self.before_update()
        self._recent.clear()
        if self.pruner is not None and training is not None:
            module, found = self.pruner.module, {}
            with undisturbed(module, training):
                if self.pruner.refresh(training, call=lambda m, b: self.run(m, copied(b))):
                    found = {name: one.clone() for name, one in batch_statistics(module)}
            for name, one in batch_statistics(module) if found else ():
                one.copy_(found[name])
            anew = anew or bool(found)
        self.monitor.close(anew)


def _synchronised(model: nn.Module) -> bool:
    """Whether statistics are taken of several processes together."""
    if not (distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1):
        return False
    return any(isinstance(part, nn.SyncBatchNorm) for part in model.modules())
