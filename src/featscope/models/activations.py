"""Reading the activations inside any PyTorch module."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from featscope.modules import evaluating, uncompiled, unwrapped


def activations(
    module: nn.Module,
    names: Sequence[str],
    x: Tensor,
    batch: int = 256,
    reduce: Callable[[Tensor], Tensor] = lambda output: output,
) -> dict[str, Tensor]:
    """What the submodules called ``names`` put out while ``module`` maps ``x``, without gradients.

    A submodule that runs several times in one pass (a shared ReLU) is read at its last time.

    Args:
        module: any module that maps a batch; it is called as ``module(x)`` in evaluation mode, and back in its own
            afterwards.
        names: names of submodules as `nn.Module.named_modules` has them; "" is ``module`` itself.
        x: inputs, the first axis the batch.
        batch: most inputs in one pass.
        reduce: what is kept of the activations of a pass, such as means of feature maps, which may be too large.

    Returns:
        name -> activations, the first axis as in ``x``.

    Raises:
        AttributeError: no submodule has that name.
        KeyError: a submodule did not run.
    """
    seen: dict[str, list[Tensor]] = {name: [] for name in names}
    latest: dict[str, Tensor] = {}

    def keep(name: str, _module: nn.Module, _inputs: Any, output: Tensor) -> None:
        latest[name] = output.detach().clone()  # what comes after may work in place

    module, plain = unwrapped(module, *names)
    with ExitStack() as hooks, evaluating(module), uncompiled(module), torch.no_grad():
        for name, at in zip(names, plain, strict=True):
            hooks.enter_context(module.get_submodule(at).register_forward_hook(partial(keep, name)))
        for part in x.split(batch):
            latest.clear()
            module(part)
            for name in names:
                seen[name].append(reduce(latest[name]))
    return {name: torch.cat(parts) for name, parts in seen.items()}
