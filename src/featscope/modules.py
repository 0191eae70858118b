"""Any PyTorch module: its parts and modes, and what is wrapped around it."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

_COMPILED = "_orig_mod"
"""Where what `torch.compile` gives has the module that it was given."""


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """In evaluation mode, and back by ``train``: a part may keep what it computes in that mode until it is called."""
    modes = [(part, part.training) for part in every_part(module)]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            if part.training != training:
                part.train(training)
        for part, training in modes:  # which calls of ``train`` above may have changed
            part.training = training


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
def uncompiled(model: nn.Module) -> Iterator[None]:
    """Run parts that `torch.compile` has wrapped as they were written: Dynamo sees no hook that comes later."""
    compiled = any(isinstance(getattr(part, _COMPILED, None), nn.Module) for part in model.modules())
    with torch.compiler.set_stance("force_eager") if compiled else nullcontext():
        yield


def every_part(module: nn.Module) -> list[nn.Module]:
    """All parts of a module, and what one has beside it, not in it, as a Pruner what it prunes."""
    parts = dict.fromkeys(module.modules())
    beside = [held for part in parts if isinstance(held := getattr(part, "module", None), nn.Module)]
    for held in beside:
        if held not in parts:
            parts |= dict.fromkeys(every_part(held))
    return list(parts)


def kept(output: Any) -> Any:
    """A copy of what a part puts out: what comes next may work in place."""
    return tree_map(lambda one: one.clone() if isinstance(one, Tensor) else one, output)
