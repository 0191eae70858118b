"""Statistics of BatchNorm, which belong to the weights that they were taken with."""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from sys import modules
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

MOST_BATCHES = 32
"""Batches that `estimate_statistics` takes: of 128 images each, means are then known to a hundredth of a deviation."""


def _norms(module: nn.Module) -> Iterator[tuple[str, _BatchNorm]]:
    for name, part in module.named_modules():
        if isinstance(part, _BatchNorm) and part.track_running_stats:
            yield name, part


def batch_statistics(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Running statistics within a module by their names, as ``module.named_buffers()`` has them."""
    for name, part in _norms(module):
        for own, buffer in part.named_buffers(recurse=False):
            yield f"{name}.{own}" if name else own, buffer


def _as_written() -> AbstractContextManager[Any]:
    """Compiled modules run as they are written: another momentum for each batch would compile them anew each time."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in modules else nullcontext()


@torch.no_grad()
def estimate_statistics(
    module: nn.Module,
    batches: Iterable[Any],
    *,
    call: Callable[[nn.Module, Any], Any] | None = None,
    only: Collection[str] | None = None,
) -> None:
    """Take the statistics of BatchNorm within a module anew: means over batches, by its weights as they are.

    A batch counts by how many values of a channel it has, so that a last one that is small says little. All other parts
    are in evaluation mode meanwhile; modes are restored, and after an error the statistics, too.

    Args:
        module: what is measured; left alone where it has no such BatchNorm that keeps statistics.
        batches: of training data, as training sees them; the first `MOST_BATCHES` are taken.
        call: ``call(module, batch)`` runs the module; by default ``module(x)``, x the batch or its first entry.
        only: names of the parts that are BatchNorm and whose statistics are taken; None for all.

    Raises:
        ValueError: there are no batches.
    """
    norms = [part for name, part in _norms(module) if only is None or name in only]
    if not norms:
        return
    modes = [(part, part.training) for part in module.modules()]
    momenta = [(part, part.momentum) for part in norms]
    before = [(buffer, buffer.clone()) for part in norms for buffer in part.buffers(recurse=False)]
    device = next(module.parameters()).device
    values = dict.fromkeys(norms, 0)
    seen = 0

    def weigh(norm: _BatchNorm, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        x = next(iter((*inputs, *named.values())), None)
        if isinstance(x, Tensor) and x.numel():
            count = x.numel() // x.shape[1]
            values[norm] += count
            norm.momentum = count / values[norm]

    hooks = [norm.register_forward_pre_hook(weigh, with_kwargs=True) for norm in norms]
    try:
        module.eval()
        for norm in norms:
            norm.train()
            norm.reset_running_stats()
            norm.momentum = None  # the plain mean, where a part of somebody's own is given something else
        with _as_written():
            for batch in islice(batches, MOST_BATCHES):
                if call is not None:
                    call(module, batch)
                else:
                    module((batch if isinstance(batch, Tensor) else batch[0]).to(device))
                seen += 1
        if not seen:
            raise ValueError("there are no batches; an iterator that has been used up is empty, a DataLoader is not")
    except BaseException:
        for buffer, kept in before:
            buffer.copy_(kept)
        raise
    finally:
        for hook in hooks:
            hook.remove()
        for part, training in modes:
            if part.training != training:
                part.train(training)  # which may drop what it has kept in the other mode
        for part, training in modes:  # which calls of ``train`` above may have changed
            part.training = training
        for norm, momentum in momenta:
            norm.momentum = momentum
