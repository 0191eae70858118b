"""Loss and gradient of a whole contrastive step in one call, replica by replica, whose numbers caches hold."""

from collections.abc import Sequence
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featscope.kernels import rows
from featscope.kernels.draws import WRITERS
from featscope.kernels.loops import Array, Code, Number, W, Whole, Words, function, parts
from featscope.kernels.products import product, room

Found = tuple[Float[Tensor, "replica"], Float[Tensor, "replica neuron input"]]
"""The loss of each replica, and its gradient by the weights."""


def gradient(
    weight: Float[Tensor, "replica neuron input"],
    threshold: Float[Tensor, "replica neuron"],
    anchor: Float[Tensor, "replica batch input"],
    positive: Float[Tensor, "replica batch input"],
    negatives: Float[Tensor, "replica key input"],
) -> Found:
    """InfoNCE at τ = 1 of a layer of symmetrised ReLU neurons, and its gradient through the anchors.

    For tensors that `featscope.kernels.suits` says yes to, whose rows lie one after the other within a replica.
    """
    (replicas, batch, inputs), keys, neurons = anchor.shape, negatives.shape[1], weight.shape[1]
    loss, slope = torch.empty(replicas), torch.empty(weight.shape)
    way = torch.empty(_length(batch, keys, inputs, neurons))
    apart = anchor.stride(0), positive.stride(0), negatives.stride(0)
    arrays = weight, threshold, anchor, positive, negatives, loss, slope, way
    function(_gradient)(*(array.data_ptr() for array in arrays), *apart, replicas, batch, keys, inputs, neurons)
    return loss, slope


def step(
    weight: Float[Tensor, "replica neuron input"],
    threshold: Float[Tensor, "replica neuron"],
    dictionary: Float[Tensor, "replica input feature"],
    sizes: tuple[int, int],
    law: tuple[float, float],
    numbers: Int[Tensor, " replica"],
    address: Sequence[int],
) -> Found:
    """The same of fresh samples of sparse coding, anchors and positives being random halves of the first ones.

    For contiguous tensors that `featscope.kernels.suits` says yes to.

    Args:
        weight: of the layer.
        threshold: b.
        dictionary: mixes hidden signals.
        sizes: anchors and negatives.
        law: chance that a hidden signal is not 0, and standard deviation of the noise.
        numbers: of the replicas, int32.
        address: number of the first of `blocks`, then two words of the step and two of the key.
    """
    (batch, keys), (chance, std), (replicas, inputs, features) = sizes, law, dictionary.shape
    loss, slope, neurons = torch.empty(replicas), torch.empty(weight.shape), weight.shape[1]
    way = torch.empty(_length(batch, keys, inputs, neurons, features))
    arrays = weight, threshold, dictionary, numbers, loss, slope, way
    counts = replicas, batch, keys, inputs, neurons, features
    bounds = chance / 2, 1 - chance / 2
    function(_step)(*(array.data_ptr() for array in arrays), *counts, *address, *bounds, std)
    return loss, slope


def blocks(batch: W, keys: W, inputs: W, features: W) -> tuple[W, W, W]:
    """How many blocks of random words signals, noise and halves take, one after the other in the stream."""
    samples = batch + keys
    return parts(samples * features, 4), parts(samples * inputs, 4), parts(batch * parts(inputs, 8), 16)


def _drawn(batch: W, keys: W, inputs: W, features: W) -> list[W]:
    """Sizes of signals, inputs, coins, anchors and positives of a replica."""
    signals, noise, coins = blocks(batch, keys, inputs, features)
    return [signals * 4, noise * 4, coins * 4, batch * inputs, batch * inputs]


def _made(batch: W, keys: W, inputs: W, neurons: W) -> list[W]:
    """Sizes of panels, of what neurons say of anchors, positives and negatives, of pulls and of similarities."""
    panels, said = room(batch + keys + inputs + neurons), batch * neurons
    return [panels, said, said, keys * neurons, said, batch * keys]


@lru_cache
def _length(batch: int, keys: int, inputs: int, neurons: int, features: int | None = None) -> int:
    """Of all that is made of a replica on the way, and drawn where there are ``features``."""
    drawn = 0 if features is None else sum(_drawn(batch, keys, inputs, features))
    return drawn + sum(_made(batch, keys, inputs, neurons))


def laid_out(start: Array, sizes: Sequence[Whole]) -> list[Array]:
    """Arrays of some sizes one after the other, and what comes behind them."""
    places = [start]
    for size in sizes:
        places.append(places[-1] + size)
    return places


def _gradient(
    code: Code,
    weight: Array,
    threshold: Array,
    anchor: Array,
    positive: Array,
    negatives: Array,
    loss: Array,
    slope: Array,
    way: Array,
    anchor_apart: Whole,
    positive_apart: Whole,
    negatives_apart: Whole,
    replicas: Whole,
    batch: Whole,
    keys: Whole,
    inputs: Whole,
    neurons: Whole,
) -> None:
    with code.loop(replicas) as r:
        w, b, x = r * neurons * inputs, r * neurons, anchor + r * anchor_apart
        others = positive + r * positive_apart, negatives + r * negatives_apart
        layer = weight + w, threshold + b
        code.call(_of_replica, *layer, x, *others, loss + r, slope + w, way, batch, keys, inputs, neurons)


def _step(
    code: Code,
    weight: Array,
    threshold: Array,
    dictionary: Array,
    numbers: Words,
    loss: Array,
    slope: Array,
    way: Array,
    replicas: Whole,
    batch: Whole,
    keys: Whole,
    inputs: Whole,
    neurons: Whole,
    features: Whole,
    first: Whole,
    step: Whole,
    step_above: Whole,
    key: Whole,
    key_above: Whole,
    low: Number,
    high: Number,
    std: Number,
) -> None:
    one, samples, address = code.whole(1), batch + keys, (step, step_above, key, key_above)
    of_signals, of_noise, of_coins = blocks(batch, keys, inputs, features)
    signals, x, coins, anchor, positive, rest = laid_out(way, _drawn(batch, keys, inputs, features))
    panels = rest
    with code.loop(replicas) as r:
        number, w, b = numbers + r, r * neurons * inputs, r * neurons
        code.call(WRITERS["uniform"], signals, number, one, of_signals, first, *address)
        code.call(rows.signed, signals, samples * features, low, high)
        code.call(WRITERS["normal"], x, number, one, of_noise, first + of_signals, *address)
        mixing = dictionary + r * inputs * features, features
        sizes = samples, features, inputs
        code.call(product(True, True), signals, features, one, *mixing, x, inputs, panels, *sizes, std)
        code.call(WRITERS["word"], coins, number, one, of_coins, first + of_signals + of_noise, *address)
        code.call(rows.halved, x, coins, anchor, positive, batch, inputs, parts(inputs, 8))
        seen = anchor, positive, x + batch * inputs
        layer = weight + w, threshold + b
        code.call(_of_replica, *layer, *seen, loss + r, slope + w, rest, batch, keys, inputs, neurons)


def _of_replica(
    code: Code,
    weight: Array,
    threshold: Array,
    anchor: Array,
    positive: Array,
    negatives: Array,
    loss: Array,
    slope: Array,
    way: Array,
    batch: Whole,
    keys: Whole,
    inputs: Whole,
    neurons: Whole,
) -> None:
    one, nothing, once = code.whole(1), code.number(0.0), code.number(1.0)
    by_rows, plain, onto = product(turned=True, onto=False), product(turned=False, onto=False), product(False, True)
    panels, f, g, h, pull, similarity, _ = laid_out(way, _made(batch, keys, inputs, neurons))
    for x, count, said in ((anchor, batch, f), (positive, batch, g), (negatives, keys, h)):
        code.call(by_rows, x, inputs, one, weight, inputs, said, neurons, panels, count, inputs, neurons, nothing)
        code.call(rows.shrunk, said, threshold, one, count, neurons)
    code.call(by_rows, f, neurons, one, h, neurons, similarity, keys, panels, batch, neurons, keys, nothing)
    code.call(rows.contrasted, similarity, f, g, pull, loss, one, batch, keys, neurons)
    code.call(onto, similarity, keys, one, h, neurons, pull, neurons, panels, batch, keys, neurons, once)
    code.call(rows.fired, pull, f, batch * neurons)
    code.call(plain, pull, one, neurons, anchor, inputs, slope, inputs, panels, neurons, batch, inputs, nothing)
