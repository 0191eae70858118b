"""Loss and gradient of a whole contrastive step in one call, replica by replica, whose numbers caches hold."""

from collections.abc import Sequence
from functools import lru_cache

from jaxtyping import Float, Int
from torch import Tensor

from featscope.kernels import LossAndGradient, rows
from featscope.kernels.draws import WRITERS
from featscope.kernels.loops import Array, Code, Number, W, Whole, Words, function, parts
from featscope.kernels.machine import floats
from featscope.kernels.products import product, room


def gradient(
    weight: Float[Tensor, "replica neuron input"],
    threshold: Float[Tensor, "replica neuron"],
    anchor: Float[Tensor, "replica batch input"],
    positive: Float[Tensor, "replica batch input"],
    negatives: Float[Tensor, "replica key input"],
) -> LossAndGradient:
    """InfoNCE at τ = 1 of a layer of symmetrised ReLU neurons, and its gradient through the anchors.

    For tensors that `featscope.kernels.suits` says yes to, whose rows lie one after the other within a replica.
    """
    (replicas, batch, inputs), keys, neurons = anchor.shape, negatives.shape[1], weight.shape[1]
    loss, slope = floats(replicas), floats(*weight.shape)
    way = floats(length(batch, keys, inputs, neurons))
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
) -> LossAndGradient:
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
    loss, slope, neurons = floats(replicas), floats(*weight.shape), weight.shape[1]
    way = floats(length(batch, keys, inputs, neurons, features))
    arrays = weight, threshold, dictionary, numbers, loss, slope, way
    counts = replicas, batch, keys, inputs, neurons, features
    bounds = chance / 2, 1 - chance / 2
    function(_step)(*(array.data_ptr() for array in arrays), *counts, *address, *bounds, std)
    return loss, slope


def blocks(batch: W, keys: W, inputs: W, features: W) -> tuple[W, W, W]:
    """How many blocks of random words signals, noise and halves take, one after the other in the stream."""
    samples = batch + keys
    return parts(samples * features, 4), parts(samples * inputs, 4), parts(batch * parts(inputs, 8), 16)


def drawn(batch: W, keys: W, inputs: W, features: W) -> list[W]:
    """Sizes of signals, inputs, coins, anchors and positives of a replica."""
    signals, noise, coins = blocks(batch, keys, inputs, features)
    return [signals * 4, noise * 4, coins * 4, batch * inputs, batch * inputs]


def made(batch: W, keys: W, inputs: W, neurons: W) -> list[W]:
    """Sizes of panels, of what neurons say of anchors, positives and negatives, of pulls and of similarities."""
    panels, said = room(batch + keys + inputs + neurons), batch * neurons
    return [panels, said, said, keys * neurons, said, batch * keys]


@lru_cache
def length(batch: int, keys: int, inputs: int, neurons: int, features: int | None = None) -> int:
    """Of all that is made of a replica on the way, and drawn where there are ``features``."""
    of_draws = 0 if features is None else sum(drawn(batch, keys, inputs, features))
    return of_draws + sum(made(batch, keys, inputs, neurons))


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
    samples, address = batch + keys, (step, step_above, key, key_above)
    of_signals, of_noise, _ = blocks(batch, keys, inputs, features)
    of_noise, of_coins = first + of_signals, first + of_signals + of_noise
    signals, x, coins, anchor, positive, rest = laid_out(way, drawn(batch, keys, inputs, features))
    with code.loop(replicas) as r:
        number, w, b = numbers + r, r * neurons * inputs, r * neurons
        mixing = dictionary + r * inputs * features
        sizes = samples, inputs, features
        code.call(mix, mixing, number, signals, x, rest, *sizes, first, of_noise, *address, low, high, std)
        code.call(halve, number, x, coins, anchor, positive, batch, inputs, of_coins, *address)
        seen = anchor, positive, x + batch * inputs
        layer = weight + w, threshold + b
        code.call(_of_replica, *layer, *seen, loss + r, slope + w, rest, batch, keys, inputs, neurons)


def mix(
    code: Code,
    dictionary: Array,
    number: Words,
    signals: Array,
    x: Array,
    panels: Array,
    samples: Whole,
    inputs: Whole,
    features: Whole,
    first: Whole,
    first_of_noise: Whole,
    step: Whole,
    step_above: Whole,
    key: Whole,
    key_above: Whole,
    low: Number,
    high: Number,
    std: Number,
) -> None:
    """The code of fresh samples, whose signals and noise are drawn from two blocks on."""
    one, address = code.whole(1), (step, step_above, key, key_above)
    code.call(WRITERS["uniform"], signals, number, one, parts(samples * features, 4), first, *address)
    code.call(rows.signed, signals, samples * features, low, high)
    code.call(WRITERS["normal"], x, number, one, parts(samples * inputs, 4), first_of_noise, *address)
    mixing = dictionary, features, x, inputs, panels
    code.call(product(True, True), signals, features, one, *mixing, samples, features, inputs, std)


def halve(
    code: Code,
    number: Words,
    x: Array,
    coins: Words,
    anchor: Array,
    positive: Array,
    batch: Whole,
    inputs: Whole,
    first: Whole,
    step: Whole,
    step_above: Whole,
    key: Whole,
    key_above: Whole,
) -> None:
    """The code of random halves of samples, whose coins are drawn from a block on."""
    width = parts(inputs, 8)
    code.call(
        WRITERS["word"], coins, number, code.whole(1), parts(batch * width, 16), first, step, step_above, key, key_above
    )
    code.call(rows.halved, x, coins, anchor, positive, batch, inputs, width)


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
    panels, f, g, h, pull, similarity, _ = laid_out(way, made(batch, keys, inputs, neurons))
    for x, count, said in ((anchor, batch, f), (positive, batch, g), (negatives, keys, h)):
        code.call(speak, weight, threshold, x, said, panels, count, inputs, neurons)
    code.call(attract, f, g, h, pull, similarity, loss, panels, batch, batch, keys, neurons)
    code.call(slope_of, pull, anchor, slope, panels, neurons, batch, inputs, neurons)


def speak(
    code: Code,
    weight: Array,
    threshold: Array,
    x: Array,
    said: Array,
    panels: Array,
    count: Whole,
    inputs: Whole,
    neurons: Whole,
) -> None:
    """The code of what neurons say of some inputs."""
    one, nothing = code.whole(1), code.number(0.0)
    by_rows = product(turned=True, onto=False)
    code.call(by_rows, x, inputs, one, weight, inputs, said, neurons, panels, count, inputs, neurons, nothing)
    code.call(rows.shrunk, said, threshold, one, count, neurons)


def attract(
    code: Code,
    f: Array,
    g: Array,
    h: Array,
    pull: Array,
    similarity: Array,
    loss: Array,
    panels: Array,
    count: Whole,
    batch: Whole,
    keys: Whole,
    neurons: Whole,
) -> None:
    """The code of the loss of ``count`` anchors of a batch, and of the pull on what neurons say of each."""
    one, nothing, once = code.whole(1), code.number(0.0), code.number(1.0)
    by_rows, onto = product(turned=True, onto=False), product(turned=False, onto=True)
    code.call(by_rows, f, neurons, one, h, neurons, similarity, keys, panels, count, neurons, keys, nothing)
    code.call(rows.contrasted, similarity, f, g, pull, loss, one, count, keys, neurons, batch)
    code.call(onto, similarity, keys, one, h, neurons, pull, neurons, panels, count, keys, neurons, once)
    code.call(rows.fired, pull, f, count * neurons)


def slope_of(
    code: Code,
    pull: Array,
    anchor: Array,
    slope: Array,
    panels: Array,
    count: Whole,
    batch: Whole,
    inputs: Whole,
    neurons: Whole,
) -> None:
    """The code of the gradient of ``count`` of the neurons."""
    one, nothing, plain = code.whole(1), code.number(0.0), product(turned=False, onto=False)
    code.call(plain, pull, one, neurons, anchor, inputs, slope, inputs, panels, count, batch, inputs, nothing)
