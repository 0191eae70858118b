"""Loss and gradient of a whole contrastive step in one call, replica by replica, whose numbers caches hold."""

import torch
from jaxtyping import Float
from torch import Tensor

from featscope.kernels import rows
from featscope.kernels.loops import Array, Code, Whole, function
from featscope.kernels.products import product, room


def gradient(
    weight: Float[Tensor, "replica neuron input"],
    threshold: Float[Tensor, "replica neuron"],
    anchor: Float[Tensor, "replica batch input"],
    positive: Float[Tensor, "replica batch input"],
    negatives: Float[Tensor, "replica key input"],
) -> tuple[Float[Tensor, "replica"], Float[Tensor, "replica neuron input"]]:
    """InfoNCE at τ = 1 of a layer of symmetrised ReLU neurons, and its gradient through the anchors.

    For tensors that `featscope.kernels.suits` says yes to, whose rows lie one after the other within a replica.
    """
    (replicas, batch, inputs), keys, neurons = anchor.shape, negatives.shape[1], weight.shape[1]
    loss, slope = torch.empty(replicas), torch.empty(weight.shape)
    panels = room(max(inputs, neurons, keys, batch))
    of_one = torch.empty((3 * batch + keys) * neurons + batch * keys)  # what is made of one replica on the way
    arrays = weight, threshold, anchor, positive, negatives, loss, slope, panels, of_one
    apart = anchor.stride(0), positive.stride(0), negatives.stride(0)
    function(_gradient)(*(array.data_ptr() for array in arrays), *apart, replicas, batch, keys, inputs, neurons)
    return loss, slope


def _gradient(
    code: Code,
    weight: Array,
    threshold: Array,
    anchor: Array,
    positive: Array,
    negatives: Array,
    loss: Array,
    slope: Array,
    panels: Array,
    of_one: Array,
    anchor_apart: Whole,
    positive_apart: Whole,
    negatives_apart: Whole,
    replicas: Whole,
    batch: Whole,
    keys: Whole,
    inputs: Whole,
    neurons: Whole,
) -> None:
    one, nothing, once = code.whole(1), code.number(0.0), code.number(1.0)
    by_rows, plain, onto = product(turned=True, onto=False), product(turned=False, onto=False), product(False, True)
    of_anchor, of_positive, pull, of_negatives = (of_one + batch * neurons * place for place in range(4))
    similarity = of_negatives + keys * neurons
    with code.loop(replicas) as r:
        w, b, w_slope = weight + r * neurons * inputs, threshold + r * neurons, slope + r * neurons * inputs
        x = anchor + r * anchor_apart
        for seen, count, h in (
            (x, batch, of_anchor),
            (positive + r * positive_apart, batch, of_positive),
            (negatives + r * negatives_apart, keys, of_negatives),
        ):
            code.call(by_rows, seen, inputs, one, w, inputs, h, neurons, panels, count, inputs, neurons, nothing)
            code.call(rows.shrunk, h, b, one, count, neurons)
        sizes = batch, neurons, keys
        code.call(by_rows, of_anchor, neurons, one, of_negatives, neurons, similarity, keys, panels, *sizes, nothing)
        code.call(rows.contrasted, similarity, of_anchor, of_positive, pull, loss + r, one, batch, keys, neurons)
        sizes = batch, keys, neurons
        code.call(onto, similarity, keys, one, of_negatives, neurons, pull, neurons, panels, *sizes, once)
        code.call(rows.fired, pull, of_anchor, batch * neurons)
        code.call(plain, pull, one, neurons, x, inputs, w_slope, inputs, panels, neurons, batch, inputs, nothing)
