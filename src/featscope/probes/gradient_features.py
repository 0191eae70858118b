"""Where the gradients of single neurons point: gradient features (dissertation, Definitions 3.5 and 3.7 to 3.9).

The simplified gradient of a neuron is G(w, b) = E[y x 1[<w, x> > b]]: what its first step is made of when the network
says 0 still. Directions in which G of many random neurons points are features of the law, whatever the loss.
"""

from collections.abc import Callable, Iterable
from math import pi, sqrt
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from featscope.modules import evaluating, uncompiled, unwrapped
from featscope.numbers import as_written, in_double, unit_vectors
from featscope.probes.of_module import Entry, batch_input

_CHUNK = 2**24  # activations at a time
_MOST = 20  # directions of a gradient-feature set


def simplified_gradient(
    weight: Float[Tensor, "*replica neuron input"],
    bias: Float[Tensor, "*replica neuron"],
    x: Float[Tensor, "*replica sample input"],
    y: Float[Tensor, "*replica sample"],
) -> Float[Tensor, "*replica neuron input"]:
    """G(w, b) of each neuron on a sample: the mean of y x over inputs with <w, x> > b.

    Args:
        weight: w.
        bias: b, which is taken off; that of `torch.nn.Linear` is -b.
        x: inputs.
        y: labels, -1 or 1.
    """
    total = torch.zeros_like(weight, dtype=torch.promote_types(weight.dtype, torch.float32))
    step = max(1, _CHUNK // max(1, weight[..., 0].numel()))
    with as_written(weight.device):
        for start in range(0, x.shape[-2], step):
            part, signs = x[..., start : start + step, :], y[..., start : start + step]
            active = (weight @ part.mT > bias[..., None]).to(x.dtype)
            total += active * signs[..., None, :] @ part
    return total / x.shape[-2]


def simplified_gradient_of_mixture(
    weight: Float[Tensor, "*replica neuron input"],
    bias: Float[Tensor, "*replica neuron"],
    means: Float[Tensor, "*replica component input"],
    deviations: Float[Tensor, " component"],
    weights: Float[Tensor, " component"],
    labels: Float[Tensor, " component"],
) -> Float[Tensor, "*replica neuron input"]:
    """G(w, b) in closed form where x is from a mixture of Gaussians N(μ_l, s_l² I) with labels y_l.

    Σ p_l y_l (μ_l Φ(t_l) + s_l w/‖w‖ φ(t_l)), t_l = (<w, μ_l> - b)/(s_l ‖w‖)
    """
    norm = weight.norm(dim=-1, keepdim=True)
    t = (weight @ means.mT - bias[..., None]) / (deviations * norm)
    density = (-t.square() / 2).exp() / sqrt(2 * pi)
    along = (weights * labels * deviations * density).sum(-1, keepdim=True)
    return (weights * labels * torch.special.ndtr(t)) @ means + along * weight / norm


@torch.no_grad()
def simplified_gradient_of_layer(
    module: nn.Module,
    batches: Iterable[Any],
    *,
    at: str,
    entry: Entry = 0,
    label: Entry = 1,
    signs: Callable[[Tensor], Tensor] | None = None,
) -> Float[Tensor, "neuron input"]:
    """G of each neuron of a linear layer of any module, at its weights as they are; on the CPU.

    The module is called in evaluation mode and without gradients; the modes of all its parts are restored. The input
    of G is the layer's.

    Args:
        module: called as ``module(x)``, with x moved to where its first parameter is.
        batches: such as a `torch.utils.data.DataLoader`; a batch holds inputs and labels.
        at: name of a `torch.nn.Linear` within it, as `nn.Module.named_modules` has it.
        entry: where in a batch the input is.
        label: where in a batch the label is.
        signs: makes -1 and 1 of labels; None where they are these.

    Raises:
        AttributeError: there is no submodule of that name.
        ValueError: no batches, or none with labels, or others than -1 and 1, also by ``signs``, or not one a sample;
            the submodule is no linear layer, did not run, or got anything but ``[sample, input]``.
    """
    module, (at,) = unwrapped(module, at)
    layer = module.get_submodule(at)
    if not isinstance(layer, nn.Linear):
        raise ValueError(f"at = {at!r} is a {type(layer).__name__}: allowed is the name of a torch.nn.Linear")
    seen: list[Tensor] = []
    hook = layer.register_forward_pre_hook(lambda _layer, inputs: seen.append(inputs[0].clone()))
    try:
        with evaluating(module), uncompiled(module):  # in training mode some weights change as they are read
            bias = torch.zeros_like(layer.weight[:, 0]) if layer.bias is None else -layer.bias
            total, count = in_double(torch.zeros_like(layer.weight)), 0
            for batch in batches:
                seen.clear()
                module(batch_input(batch, entry).to(layer.weight.device, copy=True))
                y = batch_input(batch, label, "label")
                if signs is None and (others := y[(y != 1) & (y != -1)]).numel():
                    raise ValueError(
                        f"a label is {others[0].item():g}: allowed without `signs` are -1 and 1. For classes 0 and 1 "
                        "give signs=lambda y: 2.0 * y - 1."
                    )
                y = (y if signs is None else signs(y)).to(layer.weight)
                y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
                if (others := y[(y != 1) & (y != -1)]).numel():
                    raise ValueError(
                        f"signs gives {others[0].item():g}: allowed are -1 and 1. For one class and all others give "
                        "signs=lambda y: 2.0 * (y == 3) - 1."
                    )
                if not seen or seen[-1].ndim != 2 or len(seen[-1]) != len(y):
                    got = f"an input of shape {tuple(seen[-1].shape)}" if seen else "nothing"
                    raise ValueError(f"at = {at!r} is out of range: it got {got}, allowed is [sample, input]")
                if y.ndim != 1:
                    raise ValueError(f"labels have shape {list(y.shape)}: allowed is one a sample, [sample]")
                total += in_double(len(y) * simplified_gradient(layer.weight, bias, seen[-1], y))
                count += len(y)
    finally:
        hook.remove()
    if not count:
        raise ValueError("there are no batches; an iterator that has been used up is empty, a DataLoader is not")
    return (total / count).to(torch.promote_types(layer.weight.dtype, torch.float32)).cpu()


def _require_cone(cone: float) -> None:
    if not 0 < cone < 1:
        raise ValueError(f"cone = {cone} is out of range: allowed is > 0 and < 1")


class GradientFeatureSet(NamedTuple):
    """Directions in which gradients of neurons point, the most frequent first.

    Attributes:
        directions: centres of cones, of norm 1.
        shares: of all neurons, those whose gradient is within the cone (on either side) and long enough, and within
            none of those before.
        owner: the cone of each neuron; -1 where it is in none.
    """

    directions: Float[Tensor, "feature input"]
    shares: Float[Tensor, " feature"]
    owner: Int[Tensor, " neuron"]


def gradient_features(
    gradients: Float[Tensor, "neuron input"], cone: float, shortest: float = 0.0, least: float = 0.01
) -> GradientFeatureSet:
    """The gradient-feature set by greedy cones: again and again the cone that holds most of what is left, up to 20.

    A cone has |<G, D>|/‖G‖ > 1 - γ (Definition 3.7). Centres are gradients, or once the mean of what they hold where
    that holds as many.

    Args:
        gradients: G of random neurons.
        cone: γ, > 0 and < 1.
        shortest: B_G, the norm from which on a gradient counts.
        least: p, the share of neurons from which on a direction counts.

    Raises:
        ValueError: the cone is out of its range: one of 1 holds all gradients, and one of 0 none.
    """
    _require_cone(cone)
    unit = unit_vectors(gradients).to(gradients)
    norms = gradients.norm(dim=-1)
    left = (norms >= shortest) & (norms > 0)
    owner = torch.full_like(norms, -1, dtype=torch.long)
    found: list[Tensor] = []
    while len(found) < _MOST and left.any():
        candidates = unit[left]
        inside = (candidates @ candidates.mT).abs() > 1 - cone
        centre = candidates[inside.sum(1).argmax()]
        near = candidates[(candidates @ centre).abs() > 1 - cone]
        mean = (near * (near @ centre).sign()[:, None]).sum(0)
        centres = torch.stack([torch.nn.functional.normalize(mean, dim=0), centre])
        both = left & ((centres @ unit.mT).abs() > 1 - cone)
        better = int(both.sum(1).argmax())  # of the mean, unless it holds fewer
        held = both[better]
        if held.sum() < max(1, least * len(gradients)):
            break
        owner[held] = len(found)
        found.append(centres[better])
        left &= ~held
    directions = torch.stack(found) if found else gradients[:0]
    counts = torch.bincount(owner[owner >= 0], minlength=len(found)).to(gradients.dtype)
    order = counts.argsort(descending=True, stable=True)
    owner[owner >= 0] = order.argsort()[owner[owner >= 0]]
    return GradientFeatureSet(directions[order], counts[order] / len(gradients), owner)


def nice_neurons(
    weight: Float[Tensor, "*replica neuron input"],
    directions: Float[Tensor, "*replica feature input"],
    cone: float,
    shortest: Float[Tensor, "*replica neuron"] | float = 0.0,
) -> Bool[Tensor, "*replica feature neuron"]:
    """Which neurons are nice for which direction after a step (Section 3.3.2): <w, D> > (1 - γ) ‖w‖ >= shortest.

    Args:
        weight: w after the step.
        directions: D, of norm 1.
        cone: γ, > 0 and < 1.
        shortest: the norm from which on a neuron counts, |η ℓ'(0) a_i| B_G.

    Raises:
        ValueError: the cone is out of its range, as in `gradient_features`.
    """
    _require_cone(cone)
    norm = weight.norm(dim=-1)
    along = directions @ weight.mT
    return (along > (1 - cone) * norm[..., None, :]) & (norm >= shortest)[..., None, :]
