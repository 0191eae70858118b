"""A whole contrastive step of one replica by several threads: samples, then anchors, then neurons are shared out.

After the first and the second all wait for each other. Draws are the same bits, and so is the gradient; of losses the
sum is taken in another order.
"""

from collections.abc import Callable, Sequence
from ctypes import addressof, c_int32
from functools import partial
from itertools import pairwise

from jaxtyping import Float, Int
from torch import Tensor

from featscope.kernels import LossAndGradient, contrastive
from featscope.kernels.contrastive import (
    attract,
    blocks,
    drawn,
    halve,
    laid_out,
    made,
    mix,
    slope_of,
    speak,
)
from featscope.kernels.loops import Array, Code, Number, W, Whole, Words, function, parts
from featscope.kernels.machine import floats
from featscope.kernels.products import room
from featscope.kernels.teams import arrive_and_wait, at_once, other_threads_first

_TOGETHER = 16  # samples whose draws begin with a block, of signals, noise and coins alike; neurons in a vector


def is_divisible(batch: int) -> bool:
    """Whether negatives begin with a block of random words, too."""
    return batch % _TOGETHER == 0


def step(
    weight: Float[Tensor, "1 neuron input"],
    threshold: Float[Tensor, "1 neuron"],
    dictionary: Float[Tensor, "1 input feature"],
    sizes: tuple[int, int],
    law: tuple[float, float],
    numbers: Int[Tensor, " 1"],
    address: Sequence[int],
    threads: int,
) -> LossAndGradient:
    """What `featscope.kernels.contrastive.step` gives of one replica, for a batch that `is_divisible`."""
    (batch, keys), (chance, std), (_, inputs, features) = sizes, law, dictionary.shape
    neurons = weight.shape[1]
    losses, slope, counts = floats(threads), floats(*weight.shape), (batch, keys, inputs, neurons, features)
    barrier = c_int32(0)
    way, panels = floats(sum(_sizes(*counts))), floats(threads, room(sum(counts)))
    anchors, negatives, by_neuron = (_shares(of, threads) for of in (batch, keys, neurons))
    layer, law_of = (weight, threshold, dictionary, numbers), (chance / 2, 1 - chance / 2, std)
    share = function(_share)  # compiled once, before threads begin

    def of_thread(i: int) -> Callable[[], None]:
        arrays = *layer, panels[i], losses[i:], slope, way
        shared_out = *anchors[i], *negatives[i], *by_neuron[i]
        return partial(
            _call,
            share,
            arrays,
            addressof(barrier),
            *counts,
            *shared_out,
            *address,
            threads,
            other_threads_first(),
            *law_of,
        )

    if not at_once([of_thread(i) for i in range(threads)], barrier):
        return contrastive.step(weight, threshold, dictionary, sizes, law, numbers, address)
    return losses.sum(0, keepdim=True), slope


def _call(code: Callable[..., None], arrays: Sequence[Tensor], *numbers: float) -> None:
    """Machine code on arrays, which stay as long as it runs."""
    code(*(array.data_ptr() for array in arrays), *numbers)


def _shares(count: int, threads: int) -> list[tuple[int, int]]:
    """Where the share of each thread begins, and how many it has."""
    blocks_of = -(-count // _TOGETHER)
    ends = [min(count, blocks_of * i // threads * _TOGETHER) for i in range(threads + 1)]
    return [(begin, end - begin) for begin, end in pairwise(ends)]


def _sizes(batch: W, keys: W, inputs: W, neurons: W, features: W) -> list[W]:
    """Of what is drawn, then of what is made of it without panels, which each thread has for itself."""
    return drawn(batch, keys, inputs, features) + made(batch, keys, inputs, neurons)[1:]


def _share(
    code: Code,
    weight: Array,
    threshold: Array,
    dictionary: Array,
    numbers: Words,
    panels: Array,
    loss: Array,
    slope: Array,
    shared: Whole,
    barrier: Whole,
    batch: Whole,
    keys: Whole,
    inputs: Whole,
    neurons: Whole,
    features: Whole,
    begin: Whole,
    anchors: Whole,
    behind: Whole,
    negatives: Whole,
    first_neuron: Whole,
    of_neurons: Whole,
    first: Whole,
    step: Whole,
    step_above: Whole,
    key: Whole,
    key_above: Whole,
    threads: Whole,
    let_others: Whole,
    low: Number,
    high: Number,
    std: Number,
) -> None:
    """All that one thread does. Two addresses are whole numbers, as an array would be one that nobody else writes."""
    way = Array(code, code.new(f"inttoptr i64 {shared.name} to ptr"))
    counts, samples = (batch, keys, inputs, neurons, features), (begin, anchors, behind, negatives)
    drawing = first, step, step_above, key, key_above, low, high, std
    code.call(_draw, weight, threshold, dictionary, numbers, way, panels, *counts, *samples, *drawing)
    code.call(arrive_and_wait, barrier, threads, let_others)
    code.call(_pull, way, panels, loss, *counts, begin, anchors)
    code.call(arrive_and_wait, barrier, threads * 2, let_others)
    code.call(_sum_up, way, panels, slope, *counts, first_neuron, of_neurons)


def _draw(
    code: Code,
    weight: Array,
    threshold: Array,
    dictionary: Array,
    number: Words,
    way: Array,
    panels: Array,
    batch: Whole,
    keys: Whole,
    inputs: Whole,
    neurons: Whole,
    features: Whole,
    begin: Whole,
    anchors: Whole,
    behind: Whole,
    negatives: Whole,
    first: Whole,
    step: Whole,
    step_above: Whole,
    key: Whole,
    key_above: Whole,
    low: Number,
    high: Number,
    std: Number,
) -> None:
    """Anchors and negatives from some places on, and what neurons say of them."""
    address, law = (step, step_above, key, key_above), (low, high, std)
    signals, x, coins, anchor, positive, f, g, h, _, _, _ = laid_out(
        way, _sizes(batch, keys, inputs, neurons, features)
    )
    of_signals, of_noise, _ = blocks(batch, keys, inputs, features)
    noise, halves = first + of_signals, first + of_signals + of_noise
    for at, count in ((begin, anchors), (batch + behind, negatives)):
        fresh = signals + at * features, x + at * inputs, panels, count, inputs, features
        at_blocks = first + at * features // 4, noise + at * inputs // 4
        code.call(mix, dictionary, number, *fresh, *at_blocks, *address, *law)
    here, width = begin * inputs, parts(inputs, 8)
    seen = x + here, coins + begin * width // 4, anchor + here, positive + here, anchors, inputs
    code.call(halve, number, *seen, halves + begin * width // 16, *address)
    negative = x + batch * inputs
    for given, at, count, said in (
        (anchor, begin, anchors, f),
        (positive, begin, anchors, g),
        (negative, behind, negatives, h),
    ):
        to = said + at * neurons
        code.call(speak, weight, threshold, given + at * inputs, to, panels, count, inputs, neurons)


def _pull(
    code: Code,
    way: Array,
    panels: Array,
    loss: Array,
    batch: Whole,
    keys: Whole,
    inputs: Whole,
    neurons: Whole,
    features: Whole,
    begin: Whole,
    anchors: Whole,
) -> None:
    """The loss of anchors from some place on, and the pull on them."""
    *_, f, g, h, pull, similarity, _ = laid_out(way, _sizes(batch, keys, inputs, neurons, features))
    at = begin * neurons
    own = f + at, g + at, h, pull + at, similarity + begin * keys
    code.call(attract, *own, loss, panels, anchors, batch, keys, neurons)


def _sum_up(
    code: Code,
    way: Array,
    panels: Array,
    slope: Array,
    batch: Whole,
    keys: Whole,
    inputs: Whole,
    neurons: Whole,
    features: Whole,
    begin: Whole,
    count: Whole,
) -> None:
    """The gradient of neurons from some place on."""
    _, _, _, anchor, _, _, _, _, pull, _, _ = laid_out(way, _sizes(batch, keys, inputs, neurons, features))
    code.call(slope_of, pull + begin, anchor, slope + begin * inputs, panels, count, batch, inputs, neurons)
