"""Which entry of a batch is the labels, and what is said where that is not sure, or they are of little use."""

import warnings
from collections.abc import Mapping, Sequence
from math import lgamma, log
from typing import Any

import numpy as np
import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from featscope.integrations.batches import LABELS, size_of


def labels_of_all(batches: Sequence[Any], more: bool, neighbours: int) -> Int[Tensor, " sample"] | None:
    """The class of each sample, on the CPU; None where there are none, with a warning if some entry could be labels.

    It warns, too, where not only the second entry of a batch could be labels, but another one; where they come class by
    class and more would follow; and where a class has so few samples that others may outvote them however well it is
    told apart.

    Args:
        batches: what is held out.
        more: whether more would follow.
        neighbours: that vote on a sample's class; 0 where none do.
    """
    labels = [labels_of(batch) for batch in batches]
    found = [one for one in labels if one is not None]
    others = _other_labels(batches[0])
    if len(found) < len(labels):
        if why := _why_none(batches, others):
            tell(f"held_out has no labels, and there are no accuracies: {why}")
        return None
    every = torch.cat(found).cpu()
    if len(every.unique()) == len(every):
        cure = _could_be(others) if others else "If these are classes, give more samples."
        tell(
            f"held_out has no labels, and there are no accuracies: {_entry(batches[0])} holds another number for each "
            f"of the {len(every)} samples, as numbers of samples do. {cure}"
        )
        return None
    if others:
        tell(
            f"held_out: batch[1] is taken for the labels, and {' and '.join(others)} could be labels, too: each holds "
            "a whole number from 0 on for each sample. Give pairs of inputs and the right ones, ((batch[0], batch[1]) "
            f"for batch in loader) or ((batch[0], {others[-1]}) for batch in loader), or mappings with "
            '"labels" beside what the model is called with.'
        )
    if more and _class_by_class(every):
        classes = len(every.unique())
        tell(
            f"held_out comes class by class, as far as it was read: its first {len(every)} samples are of "
            f"{classes} class{'es' if classes > 1 else ''}, and accuracy and rank are among these alone. Give "
            "a shuffled loader."
        )
    if neighbours and (few := _few(every, neighbours)):
        tell(few)
    return every


def labels_of(batch: Any) -> Int[Tensor, " sample"] | None:
    """The class of each sample; None where there is no whole number from 0 on for each."""
    found = _whole_numbers(_labels_in(batch), batch)
    return found.long() if found is not None and bool((found >= 0).all()) else None


def _labels_in(batch: Any) -> Any:
    """What a batch has where labels are looked for."""
    if isinstance(batch, Mapping):
        return next((batch[name] for name in LABELS if name in batch), None)
    return batch[1] if isinstance(batch, list | tuple) and len(batch) > 1 else None


def _entry(batch: Any) -> str:
    """What that is called."""
    return next(f'batch["{name}"]' for name in LABELS if name in batch) if isinstance(batch, Mapping) else "batch[1]"


def _whole_numbers(found: Any, batch: Any) -> Shaped[Tensor, " sample"] | None:
    """What holds a whole number, or a truth, for each sample, ``[sample]``, ``[sample, 1]`` or a list; else None.

    Arrays of NumPy are as tensors; so are their numbers, and tensors of one number, in a list.
    """
    if isinstance(found, list | tuple):
        found = [one.item() if isinstance(one, Tensor | np.bool_) and one.ndim == 0 else one for one in found]
        if all(isinstance(one, int | np.integer) and abs(int(one)) < 2**63 for one in found):
            found = torch.tensor(found)
    if isinstance(found, np.ndarray) and found.dtype.kind in "iub":
        truths = found.dtype.kind == "b" and not np.ma.is_masked(found)
        found = np.ma.filled(found.astype(bool if truths else np.int64), -1)  # no class where a masked array has none
        found = torch.from_numpy(found)
    if not isinstance(found, Tensor) or found.is_floating_point():
        return None
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.ndim != 1 or len(found) != _size(batch):
        return None
    return found if found.dtype == torch.bool else found.long()  # torch compares no unsigned ones of two bytes


def _size(batch: Any) -> int:
    """How many samples a batch has; -1 where it is not known."""
    try:
        return size_of(batch)
    except ValueError:
        return -1


def _other_labels(batch: Any) -> list[str]:
    """Entries of a batch that could be labels, beside the one that is taken for them.

    Numbers that all differ are those of samples, and truths are a mask.
    """
    entries: list[tuple[str, Any]] = []
    if isinstance(batch, list | tuple):
        entries = [(f"batch[{place}]", batch[place]) for place in range(2, len(batch))]
    elif isinstance(batch, Mapping) and not any(name in batch for name in LABELS):
        entries = [(f'batch["{name}"]', value) for name, value in batch.items()]
    found = []
    for name, value in entries:
        could = _whole_numbers(value, batch)
        if could is None or could.dtype == torch.bool or bool((could < 0).any()):
            continue
        if len(could.unique()) < len(could):
            found.append(name)
    return found


def _why_none(batches: Sequence[Any], others: list[str]) -> str:
    """What could be labels where none are taken; "" where nothing could."""
    whole = [_whole_numbers(_labels_in(batch), batch) for batch in batches]
    if all(one is not None for one in whole):
        least = min(int(one.min()) for one in whole if one is not None)
        return (
            f"{_entry(batches[0])} holds {least}, allowed are whole numbers from 0 on. Leave samples without a class "
            "out, or give classes other numbers."
        )
    if others:
        return _could_be(others)
    held = _in_another_form(_labels_in(batches[0]), batches[0])
    return f"{_entry(batches[0])} holds {held}" if held else ""


def _in_another_form(found: Any, batch: Any) -> str:
    """How classes are written that are no whole numbers, with the cure; "" where these are none.

    Names and numbers are taken for classes where they recur, each twice on average, and are not all alike.
    """
    if isinstance(found, np.ndarray) and found.dtype.kind in "UO":
        found = found.tolist()
    if isinstance(found, list | tuple) and len(found) == _size(batch) and all(isinstance(one, str) for one in found):
        some = 1 < len(set(found)) <= len(found) / 2
        return f"text, {found[0][:40]!r} for one. Give the number of each class." if some else ""
    if isinstance(found, np.ndarray) and found.dtype.kind in "iuf":
        found = torch.from_numpy(found.astype(np.float64))
    if not isinstance(found, Tensor) or found.is_complex() or found.ndim not in (1, 2) or len(found) != _size(batch):
        return ""
    if found.ndim == 2 and found.shape[1] > 1:
        if ((found == 0) | (found == 1)).all() and (found.sum(1) == 1).all():
            return "a row with a single 1 for each sample. Give the number of each class, such as by argmax(1)."
        return ""
    found = found.flatten().double()
    whole = bool((found >= 0).all() and (found == found.round()).all())
    if whole and 1 < len(found.unique()) <= len(found) / 2:
        return (
            f"floats that are whole, {float(found[0])} for one. Where these are classes, give whole numbers: .long()."
        )
    return ""


def _could_be(others: list[str]) -> str:
    cure = f"Give pairs, ((batch[0], {others[-1]}) for batch in loader)."
    if others[0].startswith('batch["'):
        cure = f'Call {others[-1]} "labels".'
    return f"{' and '.join(others)} could be labels, which are looked for elsewhere. {cure}"


def _few(labels: Int[Tensor, " sample"], neighbours: int) -> str:
    """Which classes have so few samples that others may outvote them however well they are told apart; "" if none."""
    classes, counts = labels.unique(return_counts=True)
    few = (counts > 1) & (2 * (counts - 1) < min(neighbours, len(labels) - 1))  # one alone has no accuracy
    if not few.any():
        return ""
    some, least = classes[few].tolist(), 2 * (int(counts[few].min()) - 1)
    named = f"class {some[0]}" if len(some) == 1 else f"{len(some)} classes (class {some[0]}, say)"
    return (
        f"neighbours = {neighbours}: held_out has so few samples of {named} that others may outvote them "
        f"however well they are told apart. Give {least} neighbours or fewer, or more samples."
    )


def _class_by_class(labels: Int[Tensor, " sample"]) -> bool:
    """Whether all samples of a class come together, which shuffled ones do less than once in a thousand times."""
    counts = labels.unique(return_counts=True)[1].tolist()
    if int((labels.diff() != 0).sum()) + 1 > len(counts):
        return False
    orders = lgamma(len(labels) + 1) - sum(lgamma(count + 1) for count in counts) - lgamma(len(counts) + 1)
    return len(counts) == 1 or orders > log(1000)


def tell(what: str) -> None:
    """Warn whoever made a `Monitor`."""
    warnings.warn(what, stacklevel=5)
