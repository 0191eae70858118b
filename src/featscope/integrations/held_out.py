"""Held-out samples of a loader, and how a model that was not built here is run on them."""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featscope.probes.of_module import evaluating, kept

Run = Callable[[nn.Module, Any], Any]
Reduce = Callable[[Any], Tensor]

_LABELS = ("labels", "label")
_NAMED = ("last_hidden_state", "logits")


class HeldOut:
    """The first samples of a loader, kept as they are, so that every look is at the same ones.

    Args:
        batches: tensors; tuples or lists of inputs and labels; or mappings, as tokenizers make them.
        samples: about how many to keep; whole batches are.
        run: ``run(model, batch)`` where `run_model` does not do.

    Raises:
        ValueError: there are fewer than two samples.
    """

    def __init__(self, batches: Iterable[Any], samples: int, run: Run | None = None) -> None:
        self.batches: list[Any] = []
        self.run = run or run_model
        sizes = []
        with undisturbed():
            for batch in batches:
                self.batches.append(batch)
                sizes.append(_size(batch))
                if sum(sizes) >= samples:
                    break
        self.samples = sum(sizes)
        if self.samples < 2:
            raise ValueError(f"held_out has {self.samples} samples: allowed are two or more")
        labels = [labels_of(batch) for batch in self.batches]
        found = [label for label in labels if label is not None]
        self.labels: Int[Tensor, " sample"] | None = torch.cat(found).cpu() if len(found) == len(labels) else None

    @torch.no_grad()
    def features(self, model: nn.Module, at: str, reduce: Reduce | None) -> Float[Tensor, "sample dimension"]:
        """What the submodule ``at`` puts out, one row a sample, on the CPU.

        Raises:
            AttributeError: there is no submodule of that name.
            ValueError: it did not run, or what it puts out is no row a sample.
        """
        rows, seen = [], []
        hook = model.get_submodule(at).register_forward_hook(lambda _part, _inputs, out: seen.append(kept(out)))
        try:
            with evaluating(model):
                for batch in self.batches:
                    seen.clear()
                    self.run(model, batch)
                    if not seen:
                        raise ValueError(f"at = {at!r} is out of range: this submodule did not run")
                    output = seen[-1]
                    row = one_row_a_sample(output, batch) if reduce is None else reduce(output)
                    rows.append(row.float().cpu())
        finally:
            hook.remove()
        found = torch.cat(rows)
        if found.ndim != 2 or len(found) != self.samples:
            raise ValueError(
                f"at = {at!r} is out of range: features have shape {list(found.shape)} for {self.samples} samples, "
                "allowed is [sample, dimension]. Say with `reduce` how to make one row a sample of what is put out."
            )
        return found


def run_model(model: nn.Module, batch: Any) -> Any:
    """``model(**batch)`` of a mapping without its labels, ``model(x)`` of all else; of several views the first."""
    device = next((p.device for p in model.parameters()), None)
    if isinstance(batch, Mapping):
        given = {name: value for name, value in batch.items() if name not in _LABELS}
        return model(
            **{name: value.to(device) if isinstance(value, Tensor) else value for name, value in given.items()}
        )
    while isinstance(batch, list | tuple):
        batch = batch[0]
    return model(batch.to(device))


def tensor_of(output: Any) -> Tensor:
    """The tensor in what a model puts out.

    Raises:
        ValueError: there is none where one would look for it.
    """
    if isinstance(output, Tensor):
        return output
    for name in _NAMED:
        held = output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)
        if isinstance(held, Tensor):
            return held
    if isinstance(output, list | tuple) and output:
        return tensor_of(output[0])
    raise ValueError(
        f"an output is a {type(output).__name__} without a tensor: say with `reduce` how to make one of it"
    )


def one_row_a_sample(output: Any, batch: Any) -> Tensor:
    """Means over places of an image, and over tokens where the batch's attention mask has them."""
    found = tensor_of(output)
    if found.ndim == 4:
        return found.mean((-2, -1))
    if found.ndim == 3:
        mask = batch.get("attention_mask") if isinstance(batch, Mapping) else None
        if isinstance(mask, Tensor) and mask.shape == found.shape[:2]:
            weight = mask.to(found).unsqueeze(-1)
            return (found * weight).sum(1) / weight.sum(1).clamp_min(1)
        return found.mean(1)
    return found


def labels_of(batch: Any) -> Int[Tensor, " sample"] | None:
    """The class of each sample; None where there is no whole number for each."""
    if isinstance(batch, Mapping):
        found = next((batch[name] for name in _LABELS if name in batch), None)
    else:
        found = batch[1] if isinstance(batch, list | tuple) and len(batch) > 1 else None
    if not isinstance(found, Tensor) or found.ndim != 1 or found.is_floating_point() or len(found) != _size(batch):
        return None
    return found.long() if int(found.min()) >= 0 else None


def _size(batch: Any) -> int:
    if isinstance(batch, Mapping):
        batch = next(value for value in batch.values() if isinstance(value, Tensor))
    while isinstance(batch, list | tuple):
        batch = batch[0]
    return len(batch)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Random numbers afterwards are those that would have come without what is done within: of torch on the CPU and the
    current CUDA device, of NumPy's global generator and of ``random``."""
    devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
