"""The average gradient outer product of any module, and how far weights agree with it.

Radhakrishnan, Beaglehole, Pandit & Belkin 2024: the Gram matrix of a trained layer's weights is like the average outer
product of the gradient of the output by the layer's input.
"""

from collections.abc import Callable, Iterable
from math import sqrt
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.modules import evaluating, uncompiled, unwrapped
from featscope.numbers import as_written, in_double
from featscope.probes.of_module import Entry, batch_input

_ROWS = 4096  # gradients that are brought to float64 at once
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


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
            out = module(x.clone())  # which it may work on in place
            if not isinstance(out, Tensor) or out.shape[:1] != x.shape[:1]:
                raise ValueError(f"the module puts out a {type(out).__name__}: expected a tensor [sample, ...]")
            outputs = out.reshape(len(x), -1).sum(0)
            for place in range(len(outputs)):
                (slope,) = torch.autograd.grad(outputs[place], x, retain_graph=place + 1 < len(outputs))
                rows = slope.flatten(1).to("cpu", torch.promote_types(slope.dtype, torch.float32))
                with as_written(rows.device):
                    total = total + rows.mT @ rows
            count += len(x)
    if not count:
        raise ValueError("there are no batches; an iterator that has been used up is empty, a DataLoader is not")
    return total / count


def layer_agreement(
    module: nn.Module,
    batches: Iterable[Any],
    *,
    at: str,
    output: Callable[[Any], Tensor],
    samples: int = 64,
) -> float:
    """How far the Gram matrix of a layer's weights agrees with the average gradient outer product by the layer's input.

    W is the matrix of a linear layer, or filters by patches of a convolution. The gradient by the input, at each place,
    is Wᵀδ, δ that by the layer's output; E[Wᵀδδᵀ W] is taken for random signs of the module's outputs, which is right
    in the mean. Its squared norm is the mean product of two samples' matrices, which is, too: the norm of the
    mean would grow with what chance adds, the more the fewer samples there are. One pass forward and one back, and
    matrices as large as the smaller side of W. The module is in evaluation mode meanwhile; modes and gradients of its
    parameters stay as they are.

    Args:
        module: holds the layer.
        batches: what ``output`` is called with.
        at: name of the layer within ``module``; of one that runs several times in a pass, the last run counts.
        output: runs the module on a batch and gives a tensor ``[sample, ...]``.
        samples: as many are enough for an average; one alone gives NaN. Those of a batch must lie along one axis of
            what the layer puts out, or together where axes were joined.

    Raises:
        ValueError: no batches, or no linear layer and no convolution of one group at ``at``.

    Returns:
        the cosine of both matrices, see `matrix_agreement`; NaN where gradients are zero.
    """
    given = module
    module, (at,) = unwrapped(given, at)
    layer: Any = module.get_submodule(at)
    with evaluating(module):  # in training mode some weights change as they are read
        weight = getattr(layer, "weight", None)
    if not has_gram(layer) or not isinstance(weight, Tensor):
        raise ValueError(f"at = {at!r} is a {type(layer).__name__}: allowed is a linear layer, or a convolution")
    seen: list[Tensor] = []

    def keep(_layer: nn.Module, _inputs: Any, out: Tensor) -> Tensor:
        seen.append(out)
        return out.clone()  # what comes next may work in place

    hook = layer.register_forward_hook(keep)
    generator = torch.Generator().manual_seed(0)
    matrix, count, alone = _in_scale(in_double(weight.detach().flatten(1))), 0, 0.0
    narrow = matrix.shape[1] < len(matrix)  # fewer inputs than outputs
    gram = total = torch.zeros(0)
    try:
        with evaluating(module), uncompiled(given), torch.enable_grad():
            for batch in batches:
                seen.clear()
                out = output(batch)
                if not seen:
                    raise ValueError(f"at = {at!r} is out of range: this layer did not run")
                if torch.is_inference_mode_enabled():
                    raise ValueError("torch.inference_mode is on, and there are no gradients in it: leave it for this")
                if not seen[-1].requires_grad:
                    raise ValueError(f"at = {at!r} is out of range: this layer is frozen, and no gradient reaches it")
                if not total.numel():  # hooks of torch, as of weight_norm, make the weight anew at each pass
                    matrix = _in_scale(in_double(layer.weight.detach().flatten(1)))
                    gram = matrix.mT @ matrix if narrow else matrix @ matrix.mT
                    total = torch.zeros_like(gram)
                along = (2 * torch.randint(2, out.shape, generator=generator) - 1).to(out)
                (slope,) = torch.autograd.grad((out * along).sum(), seen[-1])
                if not len(out):
                    continue
                places = slope.movedim(1, -1) if isinstance(layer, _CONVOLUTIONS) else slope
                of_samples = _by_sample(places, len(out)).flatten(1, -2)
                for rows in of_samples.split(max(1, _ROWS // of_samples.shape[1])):
                    slopes = in_double(rows) @ matrix if narrow else in_double(rows)
                    total += (flat := slopes.flatten(0, 1)).mT @ flat
                    alone += _squares(slopes, None if narrow else gram)
                count += len(out)
                if count >= samples:
                    break
    finally:
        hook.remove()
    if not count:
        raise ValueError("there are no batches; an iterator that has been used up is empty, a DataLoader is not")
    largest = float(total.abs().max())
    if not largest > 0:
        return float("nan")
    total = total / largest
    if narrow:
        inner, square = (gram * total).sum(), (total**2).sum()
    else:  # the inner product of WᵀW and WᵀSW, and the norm of the second, are traces of GSG and of GSGS, G = WWᵀ
        turned = gram @ total
        inner, square = (turned * gram).sum(), (turned * turned.mT).sum()
    pairs = float(square) - alone / largest / largest
    if count < 2 or not pairs > 0:
        return float("nan")
    return min(1.0, float(inner / gram.norm()) * sqrt((count - 1) / count / pairs))


def _by_sample(places: Float[Tensor, "*shape side"], samples: int) -> Float[Tensor, "sample ... side"]:
    """With the axis of samples in front, and another behind it; a sample's rows lie together where axes were joined."""
    if places.shape[0] != samples:
        axes = [axis for axis, length in enumerate(places.shape[:-1]) if length == samples]
        if len(axes) == 1:  # sequences come first
            places = places.movedim(axes[0], 0)
        else:
            rows = places.flatten(0, -2)
            places = rows.unflatten(0, (samples, -1) if len(rows) % samples == 0 else (-1, 1))
    return places[:, None]


def _squares(slopes: Float[Tensor, "sample place side"], gram: Float[Tensor, "side side"] | None) -> float:
    """Squared norms of samples' matrices, summed: tr(SS), or tr(GSGS), S the sum of outer products over places.

    Args:
        slopes: D, with S = DᵀD.
        gram: G.
    """
    if slopes.shape[1] < slopes.shape[2]:
        between = (slopes if gram is None else slopes @ gram) @ slopes.mT
    else:
        between = slopes.mT @ slopes if gram is None else gram @ (slopes.mT @ slopes)
    return float((between * between.mT).sum())


def _in_scale(matrix: Float[Tensor, "*replica a b"]) -> Float[Tensor, "*replica a b"]:
    """Over its largest entry: the squares of very small ones would be lost."""
    return matrix / matrix.abs().amax((-2, -1), keepdim=True).clamp_min(torch.finfo(matrix.dtype).tiny)


def has_gram(layer: nn.Module) -> bool:
    """Whether `layer_agreement` can measure a layer."""
    return isinstance(layer, nn.Linear) or (isinstance(layer, _CONVOLUTIONS) and layer.groups == 1)


def matrix_agreement(
    one: Float[Tensor, "*replica a b"], other: Float[Tensor, "*replica a b"]
) -> Float[Tensor, "*replica"]:
    """Cosine of two matrices as vectors; 1 where they differ by a positive factor, 0 where one is 0."""
    return torch.nn.functional.cosine_similarity(_in_scale(one).flatten(-2), _in_scale(other).flatten(-2), dim=-1)
