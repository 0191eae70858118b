"""Probes of any PyTorch module on any loader."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.modules import evaluating, kept, uncompiled, unwrapped
from featscope.probes.collapse import Collapse, collapse_of

Entry = int | str
"""Where in a batch the inputs are: the place in a tuple or list, or the key of a dictionary."""


def measure_collapse(
    module: nn.Module,
    batches: Iterable[Any],
    *,
    at: str = "",
    entry: Entry = 0,
    positive: Entry | None = None,
    reduce: Callable[[Any], Tensor] | None = None,
) -> Collapse:
    """How far the representations of any module have collapsed.

    Arguments and errors are those of `embeddings`; besides:

    Args:
        positive: where the other view of each input is, in the same batch; for the alignment.
    """
    entries = {"entry": entry} if positive is None else {"entry": entry, "positive": positive}
    return collapse_of(*_embed(module, batches, at, entries, reduce))


def embeddings(
    module: nn.Module,
    batches: Iterable[Any],
    *,
    at: str = "",
    entry: Entry = 0,
    reduce: Callable[[Any], Tensor] | None = None,
) -> Float[Tensor, "sample dimension"]:
    """What a module, or a submodule within it, puts out on all batches; on the CPU.

    The module is called in evaluation mode and without gradients; the modes of all its parts are restored.

    Args:
        module: called as ``module(x)``, with x moved to where its first parameter is.
        batches: such as a `torch.utils.data.DataLoader`. A batch is a tensor, whose ``entry`` is 0, or holds one.
        at: name of the submodule to measure, as `nn.Module.named_modules` has it; "" is ``module`` itself. Of one that
            runs several times in a pass, the last output counts.
        entry: where in a batch the input is.
        reduce: makes one row a sample of what is put out, where it has not that: ``lambda maps: maps.mean((-2, -1))``
            for feature maps, ``lambda states: states[:, 0]`` for the first token.

    Raises:
        AttributeError: there is no submodule of that name.
        ValueError: no batches, no tensor at ``entry``, or an output that is no matrix or, without ``reduce``, has
            another number of rows than the input.
    """
    return _embed(module, batches, at, {"entry": entry}, reduce)[0]


@torch.no_grad()
def _embed(
    module: nn.Module,
    batches: Iterable[Any],
    at: str,
    entries: Mapping[str, Entry],
    reduce: Callable[[Any], Tensor] | None,
) -> list[Float[Tensor, "sample dimension"]]:
    module, (at,) = unwrapped(module, at)
    parameter = next(module.parameters(), None)
    device = parameter.device if parameter is not None else None
    found: list[list[Tensor]] = [[] for _ in entries]
    with evaluating(module), uncompiled(module), _outputs_of(module.get_submodule(at)) as outputs:
        for batch in batches:
            for rows, (option, entry) in zip(found, entries.items(), strict=True):
                outputs.clear()
                x = batch_input(batch, entry, option)
                module(x.to(device, copy=True))  # which may work in place
                found_rows = _matrix(outputs, at, reduce)
                if reduce is None and found_rows.shape[:1] != x.shape[:1]:
                    raise ValueError(
                        f"at = {at!r} is out of range: it puts out {len(found_rows)} rows for an input of shape "
                        f"{list(x.shape)}, allowed is a row a sample. Say with `reduce` how to make one of its tokens "
                        "or places, or reduce=lambda rows: rows to measure these."
                    )
                rows.append(found_rows.cpu().clone())  # a view would keep all that it is of
    if not found[0]:
        raise ValueError("there are no batches; an iterator that has been used up is empty, a DataLoader is not")
    return [torch.cat(rows) for rows in found]


@contextmanager
def _outputs_of(part: nn.Module) -> Iterator[list[Any]]:
    outputs: list[Any] = []
    hook = part.register_forward_hook(lambda _part, _inputs, output: outputs.append(kept(output)))
    try:
        yield outputs
    finally:
        hook.remove()


def batch_input(batch: Any, entry: Entry, option: str = "entry") -> Tensor:
    """What a batch has at ``entry``, of which a plain tensor has 0 alone; ``option`` is what errors call it."""
    if isinstance(batch, Tensor):
        if entry != 0:
            raise ValueError(
                f"{option} = {entry!r} is out of range: a batch is a tensor: allowed is 0, which is all of it. For "
                "more let each batch be a tuple or dictionary."
            )
        return batch
    try:
        held = batch[entry]
    except (KeyError, IndexError, TypeError):
        held = None
    if not isinstance(held, Tensor):
        kind = type(batch).__name__
        raise ValueError(f"{option} = {entry!r} is out of range: a batch is a {kind} without a tensor there")
    return held


def _matrix(outputs: list[Any], at: str, reduce: Callable[[Any], Tensor] | None) -> Tensor:
    if not outputs:
        raise ValueError(f"at = {at!r} is out of range: this submodule did not run")
    output = outputs[-1] if reduce is None else reduce(outputs[-1])
    if not isinstance(output, Tensor) or output.ndim != 2:
        found = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else f"type {type(output).__name__}"
        raise ValueError(
            f"at = {at!r} is out of range: its output has {found}, allowed is [sample, dimension]. Say with `reduce` "
            "how to make one row a sample of it."
        )
    return output
