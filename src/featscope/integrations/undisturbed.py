"""What a look leaves as it was: random numbers, and buffers of the model; and the random numbers that it sees."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from featscope.modules import every_part

_GENERATORS = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)
_DEPTH = 4  # of attributes of attributes: such as a generator of a transform of a data set of a subset of a loader


@contextmanager
def undisturbed(model: nn.Module | None = None, loader: object = None) -> Iterator[None]:
    """Afterwards all is as it would have been without what is done within: random numbers, and buffers of ``model``.

    Random numbers are those of torch on the CPU, the current CUDA device and those of ``model``, of NumPy's global
    generator and of ``random``, and of generators that are attributes of parts of ``model``, of ``loader``, or of what
    it has as attributes, such as its samplers, its data set and its collator; one that was made within is taken away.
    Buffers get their values back in place; those that a checkpoint has also where forward put another tensor there.
    """
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng(_devices(model)), _generators_kept(model, loader), _buffers_kept(model):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


def same_draws(model: nn.Module) -> None:
    """Let torch's generators, which `undisturbed` puts back, begin anew, so that each look sees the same draws."""
    torch.default_generator.manual_seed(0)
    for device in _devices(model):
        with torch.cuda.device(device):
            torch.cuda.manual_seed(0)


def _devices(model: nn.Module | None) -> set[int]:
    """CUDA devices whose random numbers may be drawn: the current one, and those of ``model``."""
    if not torch.cuda.is_initialized():
        return set()
    parts = every_part(model) if model is not None else []
    places = [parameter.device for part in parts for parameter in part.parameters(recurse=False)]
    return {torch.cuda.current_device(), *(place.index for place in places if place.type == "cuda")}


@contextmanager
def _generators_kept(model: nn.Module | None, loader: object) -> Iterator[None]:
    """Generators that are attributes are afterwards the ones that were there before, in the state that they had."""
    owners = [*(every_part(model) if model is not None else ()), *_reached(loader)]
    before = [(vars(owner), dict(vars(owner))) for owner in owners]
    states = [(one, _state(one)) for _, held in before for one in held.values() if isinstance(one, _GENERATORS)]
    try:
        yield
    finally:
        for now, held in before:
            for name in [name for name, one in now.items() if isinstance(one, _GENERATORS)]:
                if name not in held:
                    del now[name]
                elif now[name] is not held[name]:
                    now[name] = held[name]
        for generator, state in states:
            _set_state(generator, state)


def _reached(loader: object) -> list[object]:
    """``loader`` and what it has as attributes, as deep as these may hold generators; networks are left out."""
    found: dict[int, object] = {}
    ring = [loader, getattr(loader, "loader", None)]  # as deep in what another wraps
    for _ in range(_DEPTH):
        new = {id(one): one for one in ring if hasattr(one, "__dict__") and id(one) not in found}
        found |= new
        ring = []
        for owner in new.values():
            inner = [*vars(owner).values()]
            for one in inner:
                if isinstance(one, MethodType):
                    inner.append(one.__self__)
                elif isinstance(one, partial):
                    inner.extend([one.func, *one.args, *one.keywords.values()])
                elif isinstance(one, list | tuple) and len(one) <= 1000:
                    inner.extend(one)
            ring.extend(one for one in inner if not isinstance(one, type | ModuleType | nn.Module | Tensor))
    return [one for one in found.values() if not isinstance(one, partial | MethodType)]


def _state(generator: Any) -> Any:
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    return generator.getstate() if isinstance(generator, random.Random) else generator.get_state()


def _set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    else:
        generator.set_state(state)


@contextmanager
def _buffers_kept(model: nn.Module | None) -> Iterator[None]:
    """Buffers afterwards are those before, where forward has written into them or put others there.

    Others in place of those that no checkpoint has stay: such a table is made anew, longer, together with a number that
    says how long it is.
    """
    held = [
        (part, name, buffer, buffer.detach().clone())
        for part in (every_part(model) if model is not None else ())
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
