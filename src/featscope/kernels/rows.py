"""What lies between the matrix products of a training step, each in one pass over memory instead of three to eight.

For tensors that `featscope.kernels.suits` says yes to; `shrink`, `signs`, `halves` and `descend` also where it does so
with ``gpu``. The same in torch stands where these are called from.
"""

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from featscope.kernels.loops import Array, Bits, Code, Number, Whole, Write, function
from featscope.kernels.machine import floats


def _run(write: Write, sizes: tuple[int, ...], *arguments: Tensor | int | float) -> None:
    """What ``write`` writes, loops of these ``sizes``, where the first argument is."""
    if isinstance(arguments[0], Tensor) and arguments[0].is_cuda:
        from featscope.kernels.gpu import launch

        launch(write, sizes, *arguments)
    else:
        function(write)(*(one.data_ptr() if isinstance(one, Tensor) else one for one in arguments))


def shrink(u: Float[Tensor, "replica batch neuron"], threshold: Float[Tensor, "replica neuron"]) -> None:
    """u - clamp(u, -b, b), in place."""
    _run(shrunk, u.shape, u, threshold, *u.shape)


def shrunk(code: Code, u: Array, threshold: Array, replicas: Whole, rows: Whole, neurons: Whole) -> None:
    with code.loop(replicas) as r:
        b = threshold + r * neurons
        with code.loop(rows) as k:
            row = u + (r * rows + k) * neurons
            with code.loop(neurons) as i:
                above = code.either(row[i] < -b[i], -b[i], row[i])
                row[i] = row[i] - code.either(above > b[i], b[i], above)


def scaled(code: Code, u: Array, factor: Array, out: Array, rows: Whole, neurons: Whole) -> None:
    """The code of: each neuron times a factor of its own."""
    with code.loop(rows) as k, code.loop(neurons) as i:
        place = k * neurons + i
        out[place] = u[place] * factor[i]


def fired(code: Code, pull: Array, anchor: Array, count: Whole) -> None:
    """The code of: only neurons that fire are pulled."""
    with code.loop(count) as i:
        pull[i] = code.either(code.new(f"fcmp une float {anchor[i].name}, 0.0"), pull[i], 0.0)


def signs(uniform: Float[Tensor, "..."], chance: float) -> None:
    """1 below half the chance, -1 from 1 less half the chance on, else 0; in place of contiguous uniforms."""
    _run(signed, (uniform.numel(),), uniform, uniform.numel(), chance / 2, 1 - chance / 2)


def signed(code: Code, uniform: Array, count: Whole, low: Number, high: Number) -> None:
    """The code of `signs`, from its two bounds."""
    with code.loop(count) as i:
        u = uniform[i]
        uniform[i] = code.either(u < low, 1.0, code.either(u < high, 0.0, -1.0))


def halves(
    x: Float[Tensor, "replica batch input"], coins: UInt8[Tensor, "replica byte"]
) -> tuple[Float[Tensor, "replica batch input"], Float[Tensor, "replica batch input"]]:
    """2 x where a coin is 1, and 2 x where it is 0; zeros elsewhere.

    Args:
        x: rows one after the other within a replica.
        coins: eight in a byte, the lowest bit first; a row begins with a byte.
    """
    ones, zeros = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for _ in range(2))
    _run(_halves, x.shape, x, coins, ones, zeros, *x.shape, x.stride(0), coins.shape[1], -(-x.shape[2] // 8))
    return ones, zeros


def _halves(
    code: Code,
    x: Array,
    coins: Bits,
    ones: Array,
    zeros: Array,
    replicas: Whole,
    rows: Whole,
    inputs: Whole,
    apart: Whole,
    coins_apart: Whole,
    width: Whole,
) -> None:
    with code.loop(replicas) as r:
        here = r * rows * inputs
        code.call(halved, x + r * apart, coins + r * coins_apart, ones + here, zeros + here, rows, inputs, width)


def halved(
    code: Code, x: Array, coins: Bits, ones: Array, zeros: Array, rows: Whole, inputs: Whole, width: Whole
) -> None:
    """The code of `halves` of one replica, whose rows of coins have a ``width`` in bytes."""
    with code.loop(rows) as k:
        given, coin, one, zero = x + k * inputs, coins + k * width, ones + k * inputs, zeros + k * inputs
        with code.loop(inputs) as i:
            twice, heads = given[i] * 2.0, coin[i]
            one[i] = code.either(heads, twice, 0.0)
            zero[i] = code.either(heads, 0.0, twice)


def choose(chance: Float[Tensor, "replica place batch"], wanted: Float[Tensor, "replica batch"]) -> None:
    """1 at as many places as are wanted, at random, and 0 elsewhere; in place of contiguous uniforms."""
    function(_choose)(chance.data_ptr(), wanted.data_ptr(), *chance.shape)


def _choose(code: Code, chance: Array, wanted: Array, replicas: Whole, places: Whole, batch: Whole) -> None:
    with code.loop(replicas) as r:
        still = wanted + r * batch
        with code.loop(places) as place:
            row, left = chance + (r * places + place) * batch, (places - place).number()
            with code.loop(batch) as k:
                taken = code.either(row[k] * left < still[k], 1.0, 0.0)
                row[k] = taken
                still[k] = still[k] - taken


def descend(weight: Float[Tensor, "..."], slope: Float[Tensor, "..."], keep: float, rate: float) -> None:
    """keep · weight - rate · slope, in place of contiguous weights; to the bit what torch makes of it, in one pass."""
    _run(_descend, (weight.numel(),), weight, slope, weight.numel(), keep, rate)


def _descend(code: Code, weight: Array, slope: Array, count: Whole, keep: Number, rate: Number) -> None:
    with code.loop(count) as i:
        kept = Number(code, weight[i].name, exact=True) * keep  # rounded by itself, unlike the difference
        weight[i] = -(slope[i] * rate - kept)


def contrast(
    similarity: Float[Tensor, "replica batch key"],
    anchor: Float[Tensor, "replica batch neuron"],
    positive: Float[Tensor, "replica batch neuron"],
) -> tuple[Float[Tensor, "replica"], Float[Tensor, "replica batch neuron"]]:
    """InfoNCE of anchors with negatives: its mean, and -(1 - ℓ_p) f(x⁺⁺)/K, the pull of positives.

    What is in ``similarity`` becomes ℓ_s/K.
    """
    loss, pull = floats(len(anchor)), torch.empty_like(anchor)
    addresses = (tensor.data_ptr() for tensor in (similarity, anchor, positive, pull, loss))
    function(contrasted)(*addresses, *similarity.shape, anchor.shape[-1], similarity.shape[1])
    return loss, pull


def contrasted(
    code: Code,
    similarity: Array,
    anchor: Array,
    positive: Array,
    pull: Array,
    loss: Array,
    replicas: Whole,
    batch: Whole,
    keys: Whole,
    neurons: Whole,
    of: Whole,
) -> None:
    """The code of `contrast`, where the mean is that ``of`` so many anchors, of which these may be a part."""
    with code.loop(replicas) as r:
        total = code.variable(0.0)
        with code.loop(batch) as k:
            at = r * batch + k
            f, g, pulled = (rows + at * neurons for rows in (anchor, positive, pull))
            product = code.variable(0.0)
            with code.loop(neurons) as i:
                product.add(f[i] * g[i])
            own = product.now
            row = similarity + at * keys
            top, others = _powers(code, row, keys, own)
            its = (own - top).exp()
            sum_of_all = others + its
            total.add((top - own) + sum_of_all.log())
            _divide(code, row, keys, sum_of_all * of.number())
            doubt = others / (sum_of_all * of.number())
            with code.loop(neurons) as i:
                pulled[i] = -(doubt * g[i])
        loss[r] = total.now / of.number()


def within_batch(similarity: Float[Tensor, "replica batch batch"]) -> Float[Tensor, "replica"]:
    """InfoNCE of anchors whose positives are on the diagonal: its mean.

    What is in ``similarity`` becomes ℓ_s/K, less 1/K on the diagonal.
    """
    loss = floats(len(similarity))
    function(contrasted_within)(similarity.data_ptr(), loss.data_ptr(), *similarity.shape[:2])
    return loss


def contrasted_within(code: Code, similarity: Array, loss: Array, replicas: Whole, batch: Whole) -> None:
    """The code of `within_batch`."""
    with code.loop(replicas) as r:
        total = code.variable(0.0)
        with code.loop(batch) as k:
            row = similarity + (r * batch + k) * batch
            own = row[k]
            top, sum_of_all = _powers(code, row, batch, own)
            total.add((top - own) + sum_of_all.log())
            _divide(code, row, batch, sum_of_all * batch.number())
            row[k] = row[k] - code.number(1.0) / batch.number()
        loss[r] = total.now / batch.number()


def _powers(code: Code, row: Array, keys: Whole, own: Number) -> tuple[Number, Number]:
    """e to the similarities less the largest, in place; the largest, and their sum."""
    largest = code.variable(own)
    with code.loop(keys) as s:
        largest.raise_to(row[s])
    top, total = largest.now, code.variable(0.0)
    with code.loop(keys) as s:
        power = (row[s] - top).exp()
        row[s] = power
        total.add(power)
    return top, total.now


def _divide(code: Code, row: Array, keys: Whole, by: Number) -> None:
    factor = code.number(1.0) / by
    with code.loop(keys) as s:
        row[s] = row[s] * factor
