"""A callback for Lightning, of the package lightning or of pytorch_lightning."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

from featscope.integrations.batches import run_model
from featscope.integrations.watch import Watch
from featscope.modules import evaluating
from featscope.options import ConfigError, MissingExtraError
from featscope.training import MagnitudePruning, Pruner

if TYPE_CHECKING:
    from lightning.pytorch import Callback
else:
    try:
        from lightning.pytorch import Callback
    except ModuleNotFoundError:
        try:
            from pytorch_lightning import Callback
        except ModuleNotFoundError:
            raise MissingExtraError("A callback for Lightning", "lightning") from None

_STEPS = "featscope_pruning_steps"  # they once were pruning's alone
"""Where a checkpoint of Lightning's has them, by the name of the part."""
_AVERAGING = ("WeightAveraging", "EMAWeightAveraging", "StochasticWeightAveraging")
"""Callbacks that put other weights into the model when training ends, after the last step was looked at."""
_ONE_LOSS = (
    "FeatScopeCallback.pruning hides weights until the first step of a batch, and a loss of them is differentiated "
    "after it: allowed is to differentiate all losses of a batch before its first step. Or leave pruning out here, "
    "make pruner = MagnitudePruning(...).on(part), put `with pruner.hidden():` around each loss and its backward, and "
    "call pruner.update() after steps. LBFGS and others that ask for the loss several times in a step need that, too."
)


class FeatScopeCallback(Callback):
    """Watch what a `LightningModule` trains, see `Monitor`; and hide its smallest weights from the loss, if wanted.

    What is seen goes to the trainer's loggers, whatever these are, and to ``trainer.callback_metrics``, where
    `EarlyStopping` and `ModelCheckpoint` find it where one process trains: of several the first alone has it. A step is
    one of the optimizer, however many batches it sums. In manual optimization each batch counts until an optimizer of
    Lightning's, one of ``self.optimizers()``, has stepped. A training that is resumed goes on from the steps that
    it had counted, which are in Lightning's checkpoints.

    Weights are hidden until the first step of a batch, and all are there after it: a loss that is differentiated later
    in the same batch is refused. So it is with LBFGS, which asks for the loss several times in a step.

    Args:
        held_out: a loader or batches, see `Monitor`, as the part takes them; the trainer's first validation loader if
            None, whose batches go through Lightning's precision and the module's hooks first.
        of: name of the part that is watched and pruned; "" for the module itself.
        pruning: by the gradient "straight-through". Statistics of BatchNorm are taken anew from the last batches before
            a look, validation and a checkpoint (but one of weights alone, of which Lightning does not tell), and from
            the trainer's first training loader when training ends.
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
        self._stepped, self._told, self._shown = False, False, False
        self._steps: int | None = None  # that a checkpoint has
        self._hooks = ExitStack()
        self.watch: Watch | None = None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Forget the checkpoint of a training or test before; Lightning loads this one's afterwards."""
        self._steps = None

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Come after all others, which may change the model when training ends, but before those that save it."""
        saving = trainer.checkpoint_callbacks
        others = [one for one in trainer.callbacks if one is not self and one not in saving]
        trainer.callbacks = [*others, self, *saving]

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Look for the first time."""

        def log(found: Mapping[str, float], _: int) -> None:
            for logger in trainer.loggers:
                logger.log_metrics(dict(found), step=trainer.global_step)
            trainer.callback_metrics.update({name: torch.tensor(value) for name, value in found.items()})

        held_out = self._held_out
        if held_out is None:
            held_out = _of_validation(_first(trainer.val_dataloaders), trainer, pl_module)
        if held_out is None:
            raise ConfigError("FeatScopeCallback.held_out = None needs a validation loader: give one, or held_out")
        given = self._options.get("run") or run_model

        def run(model: nn.Module, batch: Any) -> Any:
            with trainer.precision_plugin.forward_context():  # as in Lightning's own steps
                return given(model, batch)

        self._stepped, self._told, self._shown = False, False, False  # a training before may have broken off
        part = pl_module.get_submodule(self._of)
        # In manual optimization Lightning counts each step of each of its optimizers, and none of another's.
        done = trainer.global_step if self._steps is None else self._steps
        self.watch = Watch(part, held_out, log, self._pruning, done, **{**self._options, "run": run})
        self._hooks.close()
        if self.watch.pruner is not None:
            self._hook(trainer, self.watch.pruner)

    def _hook(self, trainer: Any, pruner: Pruner) -> None:
        """Show all weights to optimizers of which Lightning does not tell, and refuse losses that see them all."""

        pruned = [pruner.module.get_parameter(name) for name in pruner.mask.pruned_parameters(pruner.module)]

        def before_step(optimizer: Optimizer, given: Any, named: Any) -> None:
            if any(optimizer is one for one in trainer.optimizers) or not _steps(optimizer, pruned):
                return
            if self.watch is not None:
                self._shown = True
                self.watch.before_update()

        def after_gradient(_: Tensor) -> None:
            if self._shown:
                raise ConfigError(_ONE_LOSS)

        self._hooks.callback(register_optimizer_step_pre_hook(before_step).remove)
        for weight in pruned:
            if weight.requires_grad:
                self._hooks.callback(weight.register_post_accumulate_grad_hook(after_gradient).remove)

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Keep how many steps there were. (A ``state_dict`` would forbid two such callbacks in a trainer.)

        The model's own state, which is in the checkpoint by now, has the statistics that are taken here: it has the
        module's tensors themselves.
        """
        if self.watch is not None:
            self.watch.refresh()
            checkpoint.setdefault(_STEPS, {})[self._of] = self.watch.monitor.steps

    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Go on from there."""
        self._steps = checkpoint.get(_STEPS, {}).get(self._of)

    def on_validation_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Take statistics of BatchNorm anew where weights are pruned."""
        if self.watch is not None:
            self.watch.refresh()

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Hide what is pruned."""
        self._shown = False
        if self.watch is not None:
            self.watch.before_loss(_of_first(getattr(trainer, "train_dataloader", None), batch))

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Show all weights to the optimizer, and note that it steps."""
        self._stepped = self._told = self._shown = True
        if self.watch is not None:
            self.watch.before_update()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """After a step choose anew what is pruned, and look if it is time; keep the loss of a batch that made none."""
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        if isinstance(outputs, Mapping) and loss is not None and pl_module.automatic_optimization:
            loss = loss * trainer.accumulate_grad_batches  # by which Lightning has divided it
        stepped = self._stepped or not (pl_module.automatic_optimization or self._told)
        self._stepped = self._shown = False
        if self.watch is not None:
            if stepped:
                self.watch.after_step(loss)
            else:
                self.watch.after_part(loss)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Show all weights where the module's ``on_train_batch_start`` left out the rest of the epoch by -1.

        Of the batch that this came with, and for which weights were hidden, nothing else is told.
        """
        if self.watch is not None:
            self.watch.before_update()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Take statistics of BatchNorm anew where weights were pruned, and look for the last time."""
        self._hooks.close()
        if self.watch is not None:
            averaged = any(kind.__name__ in _AVERAGING for one in trainer.callbacks for kind in type(one).__mro__)
            self.watch.finish(_of_training(_first(trainer.train_dataloader), trainer), anew=averaged)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Show all weights and keep what was seen."""
        self._hooks.close()
        if self.watch is not None:
            self.watch.finish(None)


class _OfTrainer:
    """A loader whose batches come as Lightning hands them to a step.

    Args:
        loader: which.
        as_given: makes of a batch of the loader what a step gets.
    """

    def __init__(self, loader: Iterable[Any], as_given: Callable[[Any], Any]) -> None:
        self.loader, self._as_given = loader, as_given

    def __iter__(self) -> Iterator[Any]:
        return map(self._as_given, self.loader)

    @property
    def _iterator(self) -> Any:  # of a loader with persistent workers
        return self.loader._iterator  # type: ignore[attr-defined]

    @_iterator.setter
    def _iterator(self, value: Any) -> None:
        self.loader._iterator = value  # type: ignore[attr-defined]


def _handed(batch: Any, trainer: Any) -> Any:
    """A batch in the trainer's precision, on its device, after the module's hooks for batches."""
    return trainer.strategy.batch_to_device(trainer.precision_plugin.convert_input(batch), dataloader_idx=0)


def _of_training(loader: Iterable[Any] | None, trainer: Any) -> Iterable[Any] | None:
    return None if loader is None else _OfTrainer(loader, lambda batch: _handed(batch, trainer))


def _of_validation(loader: Iterable[Any] | None, trainer: Any, module: nn.Module) -> Iterable[Any] | None:
    """The same while the trainer validates, as hooks may augment what is trained on."""

    def as_given(batch: Any) -> Any:
        stage = trainer.state.stage
        trainer.validating = True
        try:
            with evaluating(module):
                return _handed(batch, trainer)
        finally:
            trainer.state.stage = stage

    return None if loader is None else _OfTrainer(loader, as_given)


def _steps(optimizer: Optimizer, parameters: Sequence[Tensor]) -> bool:
    """Whether it steps on one of them; that of a probe beside the model does not."""
    own = {id(one) for group in optimizer.param_groups for one in group["params"]}
    return any(id(one) in own for one in parameters)


def _of_first(loaders: Any, batch: Any) -> Any:
    """What the first of the trainer's loaders gave of a batch of all."""
    if isinstance(loaders, Mapping):
        return next(iter(batch.values()))
    return batch[0] if isinstance(loaders, list | tuple) and loaders and batch is not None else batch


def _first(loaders: Any) -> Any:
    """The first of the trainer's loaders, which are one, several or none."""
    if isinstance(loaders, Mapping):
        loaders = list(loaders.values())
    return loaders[0] if isinstance(loaders, list | tuple) and loaders else loaders
