"""The average gradient outer product of any module, and how far weights agree with it.

Radhakrishnan, Beaglehole, Pandit & Belkin 2024: the Gram matrix of a trained layer's weights is like the average outer
product of the gradient of the output by the layer's input.
"""

from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.probes.of_module import Entry, batch_input, evaluating


def average_gradient_outer_product(
    module: nn.Module, batches: Iterable[Any], *, entry: Entry = 0
) -> Float[Tensor, "input input"]:
    """E[JᵀJ], J the derivative of a module's outputs by its input, flattened; on the CPU.

    The module is called in evaluation mode; the modes of all its parts are restored, and gradients of its parameters
    stay as they are. Samples of a batch must not see one another.

    Args:
        module: called as ``module(x)``, with x moved to where its first parameter is.
        batches: such as a `torch.utils.data.DataLoader`. A batch is a tensor, or holds one.
        entry: where in a batch the input is.

    Raises:
        ValueError: no batches, or an output that is neither ``[sample]`` nor ``[sample, ...]``.
    """
    parameter = next(module.parameters(), None)
    total, count = torch.zeros(()), 0
    with evaluating(module), torch.enable_grad():
        for batch in batches:
            x = batch_input(batch, entry)
            x = x.detach().to(parameter.device if parameter is not None else None).requires_grad_()
            out = module(x)
            if not isinstance(out, Tensor) or out.shape[:1] != x.shape[:1]:
                raise ValueError(f"the module puts out a {type(out).__name__}: expected a tensor [sample, ...]")
            outputs = out.reshape(len(x), -1).sum(0)
            for place in range(len(outputs)):
                (slope,) = torch.autograd.grad(outputs[place], x, retain_graph=place + 1 < len(outputs))
                rows = slope.flatten(1).cpu()
                total = total + rows.mT @ rows
            count += len(x)
    if not count:
        raise ValueError("there are no batches; an iterator that has been used up is empty, a DataLoader is not")
    return total / count


def matrix_agreement(
    one: Float[Tensor, "*replica a b"], other: Float[Tensor, "*replica a b"]
) -> Float[Tensor, "*replica"]:
    """Cosine of two matrices as vectors; 1 where they differ by a positive factor."""
    return torch.nn.functional.cosine_similarity(one.flatten(-2), other.flatten(-2), dim=-1)
