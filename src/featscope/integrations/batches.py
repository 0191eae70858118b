"""Batches as loaders give them: which are kept, how many samples they have, and how a model is run on one."""

from collections.abc import Iterable, Mapping, MutableMapping
from copy import copy
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.utils._pytree import tree_map

LABELS = ("labels", "label")
"""What labels are called in a mapping."""


def first_batches(batches: Iterable[Any], samples: int) -> tuple[list[Any], bool]:
    """Copies of the first batches with a sample, which hold so many or all there are, and whether there is one more.

    That one is always asked for: processes that read a loader together must all ask it as often.

    Raises:
        ValueError: it is a single batch: a tensor, a mapping, or inputs and labels in a tuple.
    """
    _refuse_single(batches)
    found: list[Any] = []
    count = 0
    idle = getattr(batches, "_iterator", batches) is None  # a loader with persistent workers that none has read yet
    try:
        for batch in batches:
            if count >= samples:
                return found, True
            if size := size_of(batch):
                found.append(copied(batch))
                count += size
        return found, False
    finally:
        if idle:
            batches._iterator = None  # type: ignore[attr-defined]  # or it draws no seed when it is first read


def _refuse_single(batches: Any) -> None:
    """Refuse a batch in place of batches, of which rows, or inputs and labels, would be taken for batches."""
    kind = ""
    if isinstance(batches, Tensor | np.ndarray):
        kind, cure = f"one tensor of shape {list(batches.shape)}", "[held_out], or [(held_out, labels)]"
    elif isinstance(batches, Mapping):
        kind, cure = "one mapping", "[held_out]"
    elif isinstance(batches, list | tuple) and len(batches) > 1:
        first, *others = batches
        arrays = [one for one in others if isinstance(one, Tensor | np.ndarray)]
        if isinstance(first, Tensor | np.ndarray) and any(one.ndim != first.ndim for one in arrays):
            shapes = ", ".join(str(list(one.shape)) for one in (first, *arrays))
            kind, cure = f"tensors of different axes, {shapes}, as of one batch", "[held_out]"
    if kind:
        raise ValueError(f"held_out is {kind}: allowed is a loader, or a list of batches. Give {cure}.")


def copied(batch: Any) -> Any:
    """A batch with its tensors and arrays copied, in tuples, lists and mappings of any depth."""

    def other(held: Any) -> Any:
        if isinstance(held, Tensor):
            return held.detach().clone()
        if isinstance(held, np.ndarray):
            return held.copy()
        if isinstance(held, MutableMapping):  # which tree_map does not know, as a tokenizer's
            new: Any = copy(held)
            for name, value in held.items():
                new[name] = copied(value)
            return new
        return held

    return tree_map(other, batch)


def run_model(model: nn.Module, batch: Any) -> Any:
    """``model(**batch)`` of a mapping without its labels, ``model(x)`` of all else; of several views the first."""
    device = next((p.device for p in model.parameters()), None)
    while isinstance(batch, list | tuple):
        batch = batch[0]
    if isinstance(batch, Mapping):
        given = {name: value for name, value in batch.items() if name not in LABELS}
        return model(
            **{name: value.to(device) if isinstance(value, Tensor) else value for name, value in given.items()}
        )
    if not isinstance(batch, Tensor):
        kind = type(batch).__name__
        raise ValueError(f"held_out has a batch that is a {kind}: allowed are tensors. Give these, or `run`")
    return model(batch.to(device))


def size_of(batch: Any) -> int:
    """How many samples a batch has.

    Raises:
        ValueError: it is a mapping without a tensor.
    """
    while isinstance(batch, list | tuple) and batch:
        batch = batch[0]
    if isinstance(batch, Mapping):
        tensor = next((value for value in batch.values() if isinstance(value, Tensor) and value.ndim), None)
        if tensor is None:
            held = ", ".join(f"{name}: {type(value).__name__}" for name, value in batch.items())
            raise ValueError(
                f"held_out has a batch without a tensor of samples ({held}): allowed are mappings that hold one"
            )
        batch = tensor
    return len(batch)
