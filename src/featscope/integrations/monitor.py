"""`Monitor`: what happens to the features of any model while it trains, in any loop."""

import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from numbers import Integral, Real
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, distributed, nn

from featscope.evaluation import accuracy_by_class, leave_one_out_labels
from featscope.integrations.batches import first_batches
from featscope.integrations.first_layer import begun, first_layer
from featscope.integrations.held_out import HeldOut, Reduce, Run
from featscope.integrations.mean_loss import MeanLoss
from featscope.integrations.pace import Pace
from featscope.integrations.rows import tensor_of
from featscope.integrations.undisturbed import same_draws, undisturbed
from featscope.modules import unwrapped
from featscope.options import ConfigError
from featscope.probes import collapse, layer_agreement
from featscope.runs.environment import environment, with_history
from featscope.runs.folder import RunFolder, holds_run
from featscope.runs.plain import to_plain
from featscope.runs.progress import tell_watchers
from featscope.studies.own_training import ARM, MOST_CLASSES, OwnTraining
from featscope.training.record import Measurement, Record

Log = Callable[[Mapping[str, float], int], object]

_MOST_NUMBERS = 10_000  # of classes; larger labels, such as hashes, number none
_ABOUT = {
    "loss": "Training loss, mean since the look before",
    "effective_rank": "Effective rank of the features of held-out samples",
    "constant_dimensions": "Dimensions with one value for all held-out samples",
    "mean_correlation": "Mean |correlation| of pairs of dimensions",
    "spread": "Variance of directions; 0 if all features point one way",
    "accuracy": "Share of held-out samples that the nearest of the others name rightly",
    "worst_class_accuracy": "Share named rightly in the class that has least",
    "gradient_agreement": "Cosine of the first layer's WᵀW and the average gradient outer product at its input",
}


class Monitor:
    """Look at held-out samples while a model trains; log what is seen, and keep it in a run folder.

    ::

        monitor = Monitor(model, held_out, out="runs/mine")
        for images, labels in loader:
            ...  # backward, optimizer.step()
            monitor.step(loss)
        monitor.close()

    It looks when it is made, then at intervals, and when it is closed. A look changes nothing: not the modes of the
    model's parts, no gradient, no buffer, no random number, no held-out batch. Where torch.distributed runs,
    the first process looks; the others read the first held-out batches as it does, as a loader may be one for all of
    them, and do nothing after that: `latest` is empty there. A model whose parts are spread over processes cannot be
    watched so.

    Args:
        model: where it will be trained, on its device. Of what `torch.compile` or DistributedDataParallel gives, the
            model behind it is looked at, with its names of parts; theirs are understood, too.
        held_out: a loader, or batches: tensors, tuples of inputs and labels, or mappings of what the model is called
            with. Accuracies are where there are labels, the second entry of a tuple or "labels" or "label" of a
            mapping; that of a class needs two samples of it, and a label below 10,000. It warns where another entry
            could be labels. Copies of the first samples are kept: a loader that comes class by class has some classes
            alone, of which it warns.
        at: name of the submodule whose output is measured, as ``model.named_modules()`` has it; "" for the model's own.
        out: a new folder, which `featscope report` and `featscope compare` read; None for none.
        log: ``log({"featscope/effective_rank": 17.2, ...}, step)``, such as a logger's method or `print`.
        layer: where the gradient outer product is compared; the first layer to run if None, and none, of which it
            warns, where that is neither linear nor a convolution of one group; "" for not.
        samples: about how many held-out samples to look at. Of n no more than n - 1 dimensions can be seen.
        neighbours: that vote on a sample's class; it warns where those of a class are fewer than half of these.
        share: of the time that looks may take, see `Pace`.
        every: steps from look to look instead of what ``share`` gives.
        reduce: makes one row a sample of what ``at`` puts out; by default means over places or tokens. It is needed for
            maps [sample, channel, place], for maps of images that may have channels first or last, for states of layers
            with batch_first=False, and where tokens are not those of an attention mask that leaves some out.
        run: ``run(model, batch)``, where ``model(x)`` or ``model(**batch)`` does not do.
        prepare: called before each look, as a part of it, with no arguments: such as what takes statistics of BatchNorm
            anew where weights are pruned.
        about: what to say of this training, such as ``{"lr": 0.1}``; `featscope compare` tells what differs. Callbacks
            add their pruning.
        overwrite: replace the run in ``out``, once the first look has been taken.
        done: steps of a training that is resumed, from which `steps` goes on; looks are as many steps apart as without.

    Raises:
        ConfigError: an option is out of its range, or ``out`` cannot be used.
        AttributeError: no submodule is called ``at``, or ``layer``.
        ValueError: held-out samples are too few, or what ``at`` puts out is no row a sample and needs ``reduce``.
    """

    def __init__(
        self,
        model: nn.Module,
        held_out: Iterable[Any],
        *,
        at: str = "",
        out: Path | str | None = None,
        log: Log | None = None,
        layer: str | None = None,
        samples: int = 512,
        neighbours: int = 20,
        share: float = 0.02,
        every: int | None = None,
        reduce: Reduce | None = None,
        run: Run | None = None,
        prepare: Callable[[], object] | None = None,
        about: Mapping[str, object] | None = None,
        overwrite: bool = False,
        done: int = 0,
    ) -> None:
        for name, value, right, allowed in (
            ("samples", samples, _is_whole(samples, 2), "a whole number >= 2"),
            ("neighbours", neighbours, _is_whole(neighbours, 1), "a whole number >= 1"),
            ("share", share, isinstance(share, Real) and 0 < float(share) <= 1, "> 0 and <= 1"),
            ("every", every, every is None or _is_whole(every, 1), "a whole number >= 1"),
            ("done", done, _is_whole(done, 0), "a whole number >= 0"),
        ):
            if not right:
                raise ConfigError(f"Monitor.{name} = {value!r} is out of range: allowed is {allowed}")
        self.steps = self._done = done
        self.latest: dict[str, float] = {}
        self._too_large = False  # are gradients at the layer, for the memory there is
        self._told = False  # that there are none
        self._unwritten = False  # is what was measured last, for the folder
        self._idle = distributed.is_available() and distributed.is_initialized() and distributed.get_rank() > 0
        self._folder: RunFolder | None = None
        self._closing, self._record, self._losses, self._pace = ExitStack(), Record(), MeanLoss(), Pace(share, every)
        if self._idle:
            with undisturbed(model, held_out):
                first_batches(held_out, samples)
            return
        model, (at, named) = unwrapped(model, at, layer or "")
        self._model, self._at, self._log, self._reduce, self._neighbours = model, at, log, reduce, neighbours
        self._prepare = prepare
        model.get_submodule(at)
        model.get_submodule(named)
        with undisturbed(model, held_out):
            self._held = held = HeldOut(held_out, samples, run, neighbours)
            begun(model, run_once := lambda: held.run(model, held.batches[0]))
            self._layer = first_layer(model, run_once) if layer is None else named
        if out is None:
            self._look()
        else:
            described = tuple(f"{name}={value}" for name, value in (about or {}).items())
            self._study = OwnTraining(type(model).__name__, at, self._held.samples, described)
            self._look_from(Path(out), overwrite)

    def step(self, loss: Tensor | float | None = None) -> None:
        """Say that a step of training is done, and look if it is time.

        Args:
            loss: of this step, for the record.

        Raises:
            ValueError: it is more than one number.
        """
        self.steps += 1
        self.part(loss)
        if not self._idle and self._pace.due(self.steps - self._done):
            self._look()

    def part(self, loss: Tensor | float | None = None) -> None:
        """Say that a part of a step is done, where gradients of several batches are summed before the step.

        Args:
            loss: of this part, for the record.

        Raises:
            ValueError: it is more than one number.
        """
        if not self._idle and loss is not None:
            self._losses.add(loss)

    def close(self, anew: bool = False) -> None:
        """Look for the last time and finish the run folder; once, whatever is called after.

        Args:
            anew: whether the model has changed since its last step, such as by `Pruner.refresh`: where that step was
                looked at, this look takes the place of that one.
        """
        if self._idle:
            return
        self._idle = True
        with self._closing:
            looked = self._record.steps[-1] == self.steps
            if looked and anew:
                self._losses.add(self.latest["loss"])
                self._record.take_back()
            if anew or not looked:
                self._look()
            self._write_environment()

    def leave(self) -> None:
        """Let go of the run folder as it is, where training broke off; nothing is looked at."""
        if not self._idle:
            self._idle = True
            with self._closing:
                self._write_environment()

    @property
    def overhead(self) -> float:
        """The share of the time since the start that looks took."""
        return self._pace.spent / max(self._pace.elapsed, 1e-9)

    def __len__(self) -> int:
        """How many looks there were."""
        return len(self._record.steps)

    def __enter__(self) -> "Monitor":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _look_from(self, out: Path, overwrite: bool) -> None:
        """Hold the folder and look for the first time; where that is refused, the folder is as it was."""
        with ExitStack() as refused:
            with undisturbed():
                self._folder = refused.enter_context(RunFolder.held(out, overwrite=True))
                if holds_run(out) and not overwrite:
                    raise ConfigError(f"out = {str(out)!r} holds a run: pass overwrite=True, or another folder")
                self._device = str(next((p.device for p in self._model.parameters()), "cpu"))
                self._environment = with_history(environment(self._device), None)
            try:
                self._look()
            except BaseException:
                self._folder.remove_unless_begun()
                raise
            self._closing = refused.pop_all()
        weakref.finalize(self, self._closing.close)  # where it is not closed before the process ends

    def _look(self) -> None:
        _wait_for_training(self._model)
        began = perf_counter()
        if self._prepare is not None:
            self._prepare()
        with undisturbed(self._model):  # a logger or a file may draw, too
            found = self._measured()
            self._record.append(self.steps, found)
            self.latest = {name: float(one.values[0]) for name, one in found.items() if one.values.ndim == 1}
            if self._log is not None:
                told = {name: value for name, value in self.latest.items() if name != "loss" or value == value}
                told |= _of_classes(found)
                self._log({f"featscope/{name}": value for name, value in told.items()}, self.steps)
            if self._folder is not None:
                if len(self) == 1:
                    self._begin(self._folder)
                    self._store(self._folder)
                else:
                    self._try(self._store)
        self._pace.looked(perf_counter() - began)

    def _measured(self) -> dict[str, Measurement]:
        same_draws(self._model)
        features = self._held.features(self._model, self._at, self._reduce)
        finite = bool(torch.isfinite(features).all())
        safe = features if finite else torch.zeros_like(features)  # a training that diverged is not ended by its watch
        found = {
            "loss": self._losses.take(),
            "effective_rank": float(collapse.effective_rank(safe)),
            "constant_dimensions": float(collapse.constant_dimensions(safe).sum()),
            "mean_correlation": float(collapse.mean_correlation(safe)),
            "spread": float(collapse.spread(safe)),
        }
        each: dict[str, Measurement] = {}
        if (labels := self._held.labels) is not None:
            classes, places = labels.unique(return_inverse=True)
            named = leave_one_out_labels(safe, places, self._neighbours)
            every = accuracy_by_class(named, places, len(classes))
            known = [finite and one.samples > 1 for one in every]  # alone, nobody names it
            values = [one.value if told else float("nan") for one, told in zip(every, known, strict=True)]
            found["accuracy"] = float((named == places).double().mean())
            found["worst_class_accuracy"] = min((value for value in values if value == value), default=float("nan"))
            if int(classes[-1]) < _MOST_NUMBERS:
                by_class = torch.full((1, int(classes[-1]) + 1), float("nan"), dtype=torch.float32)
                by_class[0, classes] = torch.tensor(values, dtype=torch.float32)
                each["accuracy_by_class"] = Measurement(by_class, "Accuracy of each class", ("class",))
        if self._layer:
            found["gradient_agreement"] = self._agreement()
        if not finite:
            found = {name: value if name == "loss" else float("nan") for name, value in found.items()}
        if not self.latest:  # the first look, even if it is taken back
            self._record.put(
                {"dimensions": Measurement(torch.tensor([features.shape[1]]), "Dimensions of the features")}
            )
        return {
            n: Measurement(torch.tensor([value], dtype=torch.float32), _ABOUT[n]) for n, value in found.items()
        } | each

    def _agreement(self) -> float:
        if self._too_large:
            return float("nan")
        same_draws(self._model)
        try:
            return layer_agreement(
                self._model,
                self._held.batches,
                at=self._layer,
                output=lambda batch: tensor_of(self._held.run(self._model, batch)),
            )
        except torch.OutOfMemoryError:
            self._too_large = True
            warnings.warn(
                f"layer = {self._layer!r}: memory does not suffice for its gradients, and gradient_agreement is NaN "
                'from here on. Give another layer, or layer="" for none.',
                stacklevel=2,
            )
        except (ValueError, RuntimeError) as error:  # frozen, not run in this pass, or where no gradient is kept
            if not self._told:
                self._told = True
                warnings.warn(
                    f"layer = {self._layer!r}: gradient_agreement is NaN, as it cannot be had there ({error}). Give "
                    'another layer, or layer="" for none.',
                    stacklevel=2,
                )
        return float("nan")

    def _begin(self, folder: RunFolder) -> None:
        folder.clear()
        plan = {"study": self._study.name, "seed": 0, "replicas": 1, "device": self._device}
        folder.write_json("config.json", plan | {"config": to_plain(self._study), "shard_size": 1})
        folder.write_json("environment.json", self._environment)
        folder.write_claims(self._study.name, 0, 1, to_plain(self._study), [], {})

    def _store(self, folder: RunFolder) -> None:
        folder.write_trajectory({ARM: self._record.to_dataset([0])})
        self._tell_watchers(folder.path)

    def _try(self, write: Callable[[RunFolder], None]) -> None:
        """``write`` into the folder: training goes on where that cannot be, and the next look writes all anew."""
        if self._folder is None:
            return
        try:
            write(self._folder)
        except OSError as error:
            if not self._unwritten:
                warnings.warn(
                    f"out = {str(self._folder.path)!r} can no longer be written ({error}). Training goes on, and each "
                    "look tries to write all of it again: make room, or give the folder back",
                    stacklevel=2,
                )
            self._unwritten = True
        else:
            self._unwritten = False

    def _tell_watchers(self, folder: Path) -> None:
        """How far it is, for `featscope watch`; how many steps there will be is not known."""
        rank, loss = self.latest["effective_rank"], self.latest["loss"]
        status = f"effective rank {rank:.1f}" + (f", loss {loss:.4g}" if loss == loss else "")
        place = {"arm": ARM, "label": self._study.model, "place": 1, "of": 1}
        steps = {"done": self.steps, "steps": 0, "whole": 0, "status": status}
        said = {"state": "running", "can_pause": False, "seconds": self._pace.elapsed, "seconds_left": None}
        tell_watchers(folder, said | {"arms": [place | steps], "events": []})

    def _write_environment(self) -> None:
        self._try(
            lambda folder: folder.write_json("environment.json", {**self._environment, "seconds": self._pace.elapsed})
        )


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def _wait_for_training(model: nn.Module) -> None:
    """Until its devices have done what they still have to do, which is training's."""
    for device in {parameter.device for parameter in model.parameters()}:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        elif device.type == "mps":  # Apple's; there is one
            torch.mps.synchronize()


def _of_classes(found: Mapping[str, Measurement]) -> dict[str, float]:
    """The accuracy of each class that is held out, where they are not too many to be read."""
    by_class = found["accuracy_by_class"].values[0].tolist() if "accuracy_by_class" in found else []
    shown = by_class if len(by_class) <= MOST_CLASSES else []
    return {f"accuracy_of_class/{name}": value for name, value in enumerate(shown) if value == value}
