"""A callback for the `Trainer` of Hugging Face's transformers."""

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any

from torch import nn

from featscope.integrations.watch import Watch
from featscope.options import ConfigError, MissingExtraError
from featscope.training import MagnitudePruning

if TYPE_CHECKING:
    from transformers import TrainerCallback
else:
    try:
        from transformers import TrainerCallback
    except ModuleNotFoundError:
        raise MissingExtraError("A callback for the Trainer", "language") from None


class FeatScopeCallback(TrainerCallback):
    """Watch what a `Trainer` trains, see `Monitor`; and hide its smallest weights from the loss, if wanted.

    ``trainer.add_callback(FeatScopeCallback(trainer))``. What is seen goes through ``trainer.log``, so to TensorBoard,
    W&B or whatever reports there. A look waits until the trainer has logged the loss of its step; the last one is at
    the model that the trainer leaves, its best where it loads that at the end. Weights are hidden within the trainer's
    ``training_step``, which is wrapped: where one breaks off, they are shown again.

    Args:
        trainer: the trainer that it is added to.
        held_out: a loader or batches, see `Monitor`; the trainer's evaluation set, of several the first, if None.
        at: see `Monitor`; the model without its head if None, where it has one.
        pruning: by the gradient "straight-through". Statistics of BatchNorm are taken anew from the last batches before
            a look, an evaluation that the trainer's arguments ask for and a checkpoint, and from the training set when
            training ends.
        options: others of `Monitor`.
    """

    def __init__(
        self,
        trainer: Any,
        held_out: Iterable[Any] | None = None,
        *,
        at: str | None = None,
        pruning: MagnitudePruning | None = None,
        **options: Any,
    ) -> None:
        self._trainer, self._held_out, self._at, self._pruning = trainer, held_out, at, pruning
        self._options = options
        self._loss: float | None = None
        self._stepped = False
        self.watch: Watch | None = None
        if pruning is not None:
            trainer.training_step = self._hiding(trainer.training_step)

    def _hiding(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """``step``, loss and backward, with hidden weights while this is one of the trainer's callbacks.

        Callbacks hear nothing of a step that ends by an error, or by Ctrl-C.
        """

        @wraps(step)
        def hiding(*given: Any, **named: Any) -> Any:
            if self.watch is None or self not in self._trainer.callback_handler.callbacks:
                return step(*given, **named)
            try:
                self.watch.before_loss(named["inputs"] if "inputs" in named else given[1])
                return step(*given, **named)
            finally:
                self.watch.before_update()

        return hiding

    def on_train_begin(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        """Look for the first time."""
        model, held_out = named["model"], self._held_out
        if held_out is None:
            sets = self._trainer.eval_dataset
            if sets is None:
                raise ConfigError("FeatScopeCallback.held_out = None needs an evaluation set: give one, or held_out")
            first = [*sets][:1] if isinstance(sets, dict) else []
            held_out = self._trainer.get_eval_dataloader(*first)
        at = self._at if self._at is not None else _below_the_head(model)

        def log(found: Mapping[str, float], _: int) -> None:
            self._trainer.log(dict(found))

        self._loss, self._stepped = None, False  # a training before may have broken off
        if self.watch is not None:
            self.watch.monitor.leave()
        self.watch = Watch(model, held_out, log, self._pruning, state.global_step, at=at, **self._options)

    def on_step_begin(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        """Finish the step before."""
        if self.watch is not None:
            self._finish_step(self.watch)

    def on_step_end(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        """Wait for the step's loss: only after this does the trainer log it, and a log of ours now would prevent that.

        ``CallbackHandler.on_log`` takes any log for the one that is due.
        """
        self._stepped = True
        self._refresh_if_due(control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        """Take statistics of BatchNorm anew where weights are pruned and the model is to be measured or saved now."""
        self._refresh_if_due(control)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **named: Any) -> None:
        """Keep the loss that the trainer tells; it tells of one at its own intervals."""
        self._loss = (logs or {}).get("loss", self._loss)

    def on_train_end(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        """Take statistics of BatchNorm anew where weights were pruned, and look for the last time."""
        if self.watch is not None:
            self._finish_step(self.watch)
            self.watch.finish(named["train_dataloader"])

    def _refresh_if_due(self, control: Any) -> None:
        if self.watch is not None and self._pruning is not None and (control.should_evaluate or control.should_save):
            self.watch.refresh()

    def _finish_step(self, watch: Watch) -> None:
        """Choose anew what is pruned, and look if it is time."""
        if self._stepped:
            loss, self._loss, self._stepped = self._loss, None, False
            watch.after_step(loss)


def _below_the_head(model: nn.Module) -> str:
    """The part of a model that its head reads, by its name; "" for the model itself, where it has no head.

    An adapter of PEFT holds the model as a part of its own.
    """
    of_adapter: Any = getattr(model, "get_base_model", None)
    inner: nn.Module = of_adapter() if of_adapter is not None else model
    prefix = getattr(type(inner), "base_model_prefix", None)
    if prefix not in inner._modules:
        return ""
    within = next(name for name, part in model.named_modules() if part is inner)
    return f"{within}.{prefix}".removeprefix(".")
