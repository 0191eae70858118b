"""A callback for Lightning."""

from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn

from featscope.integrations.monitor import Monitor
from featscope.training import MagnitudePruning, Pruner

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ModuleNotFoundError:
    from pytorch_lightning import Callback, LightningModule, Trainer


class FeatScopeCallback(Callback):
    """Watch what a `LightningModule` trains, see `Monitor`; and hide its smallest weights from the loss, if wanted.

    What is seen goes to the trainer's loggers, whatever these are, and to ``trainer.callback_metrics``, by which early
    stopping and checkpoints may choose.

    Args:
        held_out: a loader or batches, see `Monitor`. None for the trainer's first validation loader.
        of: name of the part that is watched and pruned; "" for the module itself.
        pruning: by the gradient "straight-through". After training, statistics of BatchNorm are taken anew from the
            trainer's first training loader.
        options: others of `Monitor`.
    """

    def __init__(
        self,
        held_out: Iterable[Any] | None = None,
        *,
        of: str = "",
        pruning: MagnitudePruning | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self._held_out, self._of, self._pruning, self._options = held_out, of, pruning, options
        self.monitor: Monitor | None = None
        self.pruner: Pruner | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Look for the first time."""
        part = pl_module.get_submodule(self._of)

        def log(found: Mapping[str, float], step: int) -> None:
            for logger in trainer.loggers:
                logger.log_metrics(dict(found), step=trainer.global_step)
            trainer.callback_metrics.update({name: as_tensor(value) for name, value in found.items()})

        held_out = self._held_out if self._held_out is not None else first_loader(trainer.val_dataloaders)
        self.monitor = Monitor(part, held_out, log=log, **self._options)
        if self._pruning is not None:
            self.pruner = self._pruning.on(part)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Hide what is pruned."""
        if self.pruner is not None:
            self.pruner.hide()

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Any) -> None:
        """Show all weights to the optimizer."""
        if self.pruner is not None:
            self.pruner.show()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Choose anew what is pruned, and look if it is time."""
        if self.pruner is not None:
            self.pruner.show()
            self.pruner.update()
        if self.monitor is not None:
            self.monitor.step(outputs["loss"] if isinstance(outputs, Mapping) and "loss" in outputs else None)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Take statistics of BatchNorm anew where weights were pruned, and look for the last time."""
        if self.pruner is not None:
            loader = first_loader(trainer.train_dataloader)
            self.pruner.refresh(loader, call=self._options.get("run") or run_model)
        self._close()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Show all weights and keep what was seen."""
        if self.pruner is not None:
            self.pruner.show()
        self._close()

    def _close(self) -> None:
        if self.monitor is not None:
            self.monitor.close()
