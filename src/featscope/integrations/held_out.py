"""Held-out samples of a loader, and how a model that was not built here is run on them."""

import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from copy import copy
from math import lgamma, log
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_map

from featscope.probes.of_module import evaluating, kept

Run = Callable[[nn.Module, Any], Any]
Reduce = Callable[[Any], Tensor]

_LABELS = ("labels", "label")
_NAMED = ("last_hidden_state", "logits")
_COMPILED = "_orig_mod"
"""Where what `torch.compile` gives has the module that it was given."""
_ALONG = (nn.Conv1d, nn.ConvTranspose1d)
_OF_MAPS = (nn.Conv2d, nn.ConvTranspose2d, nn.Linear, nn.LayerNorm)


class HeldOut:
    """Copies of the first samples of a loader, so that every look is at the same ones, whatever is done to a batch.

    It warns where they come class by class and more would follow: what is measured is of the first classes alone;
    where a class has so few samples that others may outvote them however well it is told apart; and where not only the
    second entry of a batch could be labels, but another one, too.

    Args:
        batches: tensors; tuples or lists of inputs and labels; or mappings, as tokenizers make them.
        samples: about how many to keep; whole batches are.
        run: ``run(model, batch)`` where `run_model` does not do.
        neighbours: that vote on a sample's class; 0 where none do.

    Raises:
        ValueError: there are fewer than two samples, or a batch is a mapping without a tensor.
    """

    def __init__(self, batches: Iterable[Any], samples: int, run: Run | None = None, neighbours: int = 0) -> None:
        self._run = run or run_model
        self.batches, more = first_batches(batches, samples)
        self.samples = sum(map(_size, self.batches))
        if self.samples < 2:
            raise ValueError(f"held_out has {self.samples} samples: allowed are two or more")
        labels = [labels_of(batch) for batch in self.batches]
        found = [label for label in labels if label is not None]
        self.labels: Int[Tensor, " sample"] | None = torch.cat(found).cpu() if len(found) == len(labels) else None
        if self.labels is not None and (others := _other_labels(self.batches[0])):
            entries = " and ".join(f"batch[{place}]" for place in others)
            warnings.warn(
                f"held_out: batch[1] is taken for the labels, and {entries} could be labels, too: each holds a whole "
                "number from 0 on for each sample. Give pairs of inputs and the right ones, ((batch[0], batch[1]) for "
                f"batch in loader) or ((batch[0], batch[{others[-1]}]) for batch in loader), or mappings with "
                '"labels" beside what the model is called with.',
                stacklevel=3,
            )
        if more and self.labels is not None and _class_by_class(self.labels):
            classes = len(self.labels.unique())
            warnings.warn(
                f"held_out comes class by class, as far as it was read: its first {self.samples} samples are of "
                f"{classes} class{'es' if classes > 1 else ''}, and accuracy and rank are among these alone. Give "
                "a shuffled loader.",
                stacklevel=3,
            )
        if neighbours and self.labels is not None:
            classes, counts = self.labels.unique(return_counts=True)
            few = (counts > 1) & (2 * (counts - 1) < min(neighbours, self.samples - 1))  # one alone has no accuracy
            if few.any():
                some, least = classes[few].tolist(), 2 * (int(counts[few].min()) - 1)
                named = f"class {some[0]}" if len(some) == 1 else f"{len(some)} classes (class {some[0]}, say)"
                warnings.warn(
                    f"neighbours = {neighbours}: held_out has so few samples of {named} that others may outvote them "
                    f"however well they are told apart. Give {least} neighbours or fewer, or more samples.",
                    stacklevel=3,
                )

    def run(self, model: nn.Module, batch: Any) -> Any:
        """What a model puts out on a copy of a batch, in which it may work in place."""
        with _as_written(model):
            return self._run(model, copied(batch))

    @torch.no_grad()
    def features(self, model: nn.Module, at: str, reduce: Reduce | None) -> Float[Tensor, "sample dimension"]:
        """What the submodule ``at`` puts out, one row a sample, on the CPU.

        Raises:
            AttributeError: there is no submodule of that name.
            ValueError: it did not run, or what it puts out is no row a sample; or, without `reduce`, maps of one axis,
                maps that may have channels first or last, or tokens that a mask is not of.
        """
        rows, seen = [], []
        part = model.get_submodule(at)
        hook = part.register_forward_hook(lambda _part, _inputs, out: seen.append(kept(out)))
        try:
            with evaluating(model):
                for batch in self.batches:
                    seen.clear()
                    self.run(model, batch)
                    if not seen:
                        raise ValueError(f"at = {at!r} is out of range: this submodule did not run")
                    output = seen[-1]
                    if reduce is None:
                        _refuse_maps(part, at, output)
                    row = one_row_a_sample(output, batch, part, at) if reduce is None else reduce(output)
                    rows.append(row.float().cpu().clone())  # a view would keep all that it is of
        finally:
            hook.remove()
        found = torch.cat(rows)
        if found.ndim != 2 or len(found) != self.samples:
            raise ValueError(
                f"at = {at!r} is out of range: features have shape {list(found.shape)} for {self.samples} samples, "
                "allowed is [sample, dimension]. Say with `reduce` how to make one row a sample of what is put out."
            )
        return found


def first_batches(batches: Iterable[Any], samples: int) -> tuple[list[Any], bool]:
    """Copies of the first batches with a sample, which hold so many or all there are, and whether there is one more.

    That one is always asked for: processes that read a loader together must all ask it as often.
    """
    found: list[Any] = []
    count = 0
    for batch in batches:
        if count >= samples:
            return found, True
        if size := _size(batch):
            found.append(copied(batch))
            count += size
    return found, False


def copied(batch: Any) -> Any:
    """A batch with its tensors copied, in tuples, lists and mappings of any depth."""

    def other(held: Any) -> Any:
        if isinstance(held, Tensor):
            return held.detach().clone()
        if isinstance(held, Mapping):  # which tree_map does not know, as a tokenizer's
            new: Any = copy(held)
            for name, value in held.items():
                new[name] = copied(value)
            return new
        return held

    return tree_map(other, batch)


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


def one_row_a_sample(output: Any, batch: Any, part: nn.Module, at: str = "") -> Tensor:
    """Means over places of an image, and over tokens where the batch's attention mask has them; in float32 at least.

    Args:
        output: of ``part``.
        batch: what the model was given.
        part: tells by its layers where in maps of images the channels are.
        at: its name, for errors.

    Raises:
        ValueError: channels may be first or last, or the mask is not of these tokens.
    """
    found = tensor_of(output)
    found = found.to(torch.promote_types(found.dtype, torch.float32))
    if found.ndim == 4:
        return found.mean((1, 2) if _channels_last(part, at, found) else (2, 3))
    if found.ndim == 3:
        mask = batch.get("attention_mask") if isinstance(batch, Mapping) else None
        if isinstance(mask, Tensor) and mask.shape == found.shape[:2]:
            weight = mask.to(found).unsqueeze(-1)
            return (found * weight).sum(1) / weight.sum(1).clamp_min(1)
        if isinstance(mask, Tensor) and mask.ndim == 2 and not mask.all():
            raise ValueError(
                f"at = {at!r} puts out {list(found.shape)}, and the attention mask has the shape {list(mask.shape)} "
                "and leaves some out: which of the places are padding is not known. Allowed is a mask of the shape "
                f"{list(found.shape[:2])}. Say with `reduce` how to make one row a sample, or leave padding out."
            )
        return found.mean(1)
    return found


def labels_of(batch: Any) -> Int[Tensor, " sample"] | None:
    """The class of each sample; None where there is no whole number for each."""
    if isinstance(batch, Mapping):
        found = next((batch[name] for name in _LABELS if name in batch), None)
    else:
        found = batch[1] if isinstance(batch, list | tuple) and len(batch) > 1 else None
    return _as_labels(found, batch)


def _other_labels(batch: Any) -> list[int]:
    """Places in a batch that could be labels, beside the second entry, which is taken for them.

    Numbers that all differ are those of samples, and truths are a mask.
    """
    found = []
    for place in range(2, len(batch) if isinstance(batch, list | tuple) else 0):
        could = _as_labels(batch[place], batch)
        if could is not None and batch[place].dtype != torch.bool and len(could.unique()) < len(could):
            found.append(place)
    return found


def _as_labels(found: Any, batch: Any) -> Int[Tensor, " sample"] | None:
    """``found`` if it is a whole number from 0 on for each sample of ``batch``, else None."""
    if not isinstance(found, Tensor) or found.ndim != 1 or found.is_floating_point() or len(found) != _size(batch):
        return None
    return found.long() if bool((found >= 0).all()) else None


def _class_by_class(labels: Int[Tensor, " sample"]) -> bool:
    """Whether all samples of a class come together, which shuffled ones do less than once in a thousand times."""
    counts = labels.unique(return_counts=True)[1].tolist()
    if int((labels.diff() != 0).sum()) + 1 > len(counts):
        return False
    orders = lgamma(len(labels) + 1) - sum(lgamma(count + 1) for count in counts) - lgamma(len(counts) + 1)
    return len(counts) == 1 or orders > log(1000)


def _channels_last(part: nn.Module, at: str, maps: Float[Tensor, "sample a b c"]) -> bool:
    """Whether maps of an image are [sample, row, column, channel]: the last layer that mixes channels tells."""
    last = next((layer for layer in reversed(list(part.modules())) if isinstance(layer, _OF_MAPS)), None)
    if isinstance(last, nn.Linear):
        width = last.out_features
    elif isinstance(last, nn.LayerNorm) and len(last.normalized_shape) == 1:
        (width,) = last.normalized_shape
    else:
        return False
    if width == maps.shape[1] == maps.shape[-1]:
        raise ValueError(
            f"at = {at!r} puts out {list(maps.shape)}, whose channels may be first or last: allowed without `reduce` "
            "are maps whose shape tells. Give reduce=lambda maps: maps.mean((2, 3)) for channels first, and "
            "maps.mean((1, 2)) for channels last."
        )
    return width == maps.shape[-1]


def _refuse_maps(part: nn.Module, at: str, output: Any) -> None:
    """Refuse [sample, channel, place], as one-dimensional convolutions put it out: token states have channels last.

    The last layer that mixes channels says which it is, and where in the shape they are: a transformer may begin with
    convolutions, or turn what one puts out.
    """
    layers = [layer for layer in part.modules() if _width(layer)]
    channels = [_width(layer) for layer in layers if isinstance(layer, _ALONG)]
    if not channels or not isinstance(output, Tensor) or output.ndim != 3:
        return
    last, (_, middle, end) = layers[-1], output.shape
    if isinstance(last, _ALONG):
        maps = end != _width(last) or middle == end
    else:
        maps = end != _width(last) and middle in channels
    if maps:
        raise ValueError(
            f"at = {at!r} puts out {list(output.shape)}, [sample, channel, place] of a Conv1d: allowed without "
            "`reduce` is [sample, place, channel]. Give reduce=lambda maps: maps.mean(-1)."
        )


def _width(layer: nn.Module) -> int:
    """How many channels a layer that mixes them puts out; 0 for any other layer."""
    if isinstance(layer, _ALONG):
        return layer.out_channels
    if isinstance(layer, nn.Linear):
        return layer.out_features
    if isinstance(layer, nn.RNNBase):
        return (layer.proj_size or layer.hidden_size) * (1 + layer.bidirectional)
    return 0


def _size(batch: Any) -> int:
    if isinstance(batch, Mapping):
        tensor = next((value for value in batch.values() if isinstance(value, Tensor)), None)
        if tensor is None:
            held = ", ".join(f"{name}: {type(value).__name__}" for name, value in batch.items())
            raise ValueError(f"held_out has a batch without a tensor ({held}): allowed are mappings that hold one")
        batch = tensor
    while isinstance(batch, list | tuple) and batch:
        batch = batch[0]
    return len(batch)


def unwrapped(model: nn.Module, *names: str) -> tuple[nn.Module, list[str]]:
    """The model behind `torch.compile` and DistributedDataParallel, and names of parts as that one has them.

    Its forward waits for no other processes, and is not compiled without the hooks of a look.
    """
    plain = [".".join(one for one in name.split(".") if one != _COMPILED) for name in names]
    while True:
        behind = getattr(model, _COMPILED, None)
        if isinstance(behind, nn.Module):
            model = behind
        elif isinstance(model, nn.parallel.DistributedDataParallel):
            model = model.module
            plain = [f"{name}.".removeprefix("module.").removesuffix(".") for name in plain]
        else:
            return model, plain


@contextmanager
def _as_written(model: nn.Module) -> Iterator[None]:
    """Run parts that `torch.compile` has wrapped as they were written: Dynamo sees no hook that comes later."""
    compiled = any(isinstance(getattr(part, _COMPILED, None), nn.Module) for part in model.modules())
    with torch.compiler.set_stance("force_eager") if compiled else nullcontext():
        yield


@contextmanager
def undisturbed(model: nn.Module | None = None, loader: object = None) -> Iterator[None]:
    """Afterwards all is as it would have been without what is done within: random numbers, and buffers of ``model``.

    Random numbers are those of torch on the CPU, the current CUDA device and those of ``model``, of NumPy's global
    generator and of ``random``, and of the generators of ``loader``, its sampler and its batch sampler. Buffers get
    their values back in place; those that a checkpoint has also where forward put another tensor there.
    """
    devices = set[int]()
    if torch.cuda.is_initialized():
        places = [parameter.device for parameter in model.parameters()] if model is not None else []
        devices = {torch.cuda.current_device(), *(place.index for place in places if place.type == "cuda")}
    batch_sampler = getattr(loader, "batch_sampler", None)
    samplers = getattr(loader, "sampler", None), batch_sampler, getattr(batch_sampler, "sampler", None)
    held = [getattr(one, "generator", None) for one in (loader, *samplers)]
    generators = [(one, one.get_state()) for one in held if isinstance(one, torch.Generator)]
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices), _buffers_kept(model):
            yield
    finally:
        for generator, state in generators:
            generator.set_state(state)
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


@contextmanager
def _buffers_kept(model: nn.Module | None) -> Iterator[None]:
    """Buffers afterwards are those before, where forward has written into them or put others there.

    Others in place of those that no checkpoint has stay: such a table is made anew, longer, together with a number that
    says how long it is.
    """
    held = [
        (part, name, buffer, buffer.detach().clone())
        for part in (model.modules() if model is not None else ())
        for name, buffer in part._buffers.items()
        if buffer is not None and not is_lazy(buffer)
    ]
    try:
        yield
    finally:
        for part, name, buffer, before in held:
            if not _equal(buffer, before):  # or autograd would take for changed what a graph may still need
                with torch.inference_mode() if buffer.is_inference() else torch.no_grad():
                    buffer.copy_(before)
            if name not in part._non_persistent_buffers_set:
                part._buffers[name] = buffer


def _equal(one: Tensor, other: Tensor) -> bool:
    try:
        return torch.equal(one, other)
    except RuntimeError:  # of kinds that torch does not compare, such as sparse ones
        return False
