"""Loss and gradient of a contrastive step on pairs of noisy sparse signals in one call, without the inputs themselves.

Of inputs x = M c + σ n a layer wants W x = (W M) c + σ W n, and of their gradient pᵀ x = (pᵀ c) Mᵀ + σ pᵀ n. So the
noise is read where it lies, also by several replicas, and no array of inputs is written for each.
"""

from functools import lru_cache

from jaxtyping import Float, Int
from torch import Tensor

from featscope.kernels import LossAndGradient, rows
from featscope.kernels.contrastive import laid_out
from featscope.kernels.loops import Array, Code, Number, W, Whole, Words, Write, function
from featscope.kernels.machine import floats
from featscope.kernels.products import product, room


def gradient(
    weight: Float[Tensor, "replica neuron input"],
    threshold: Float[Tensor, "replica neuron"],
    dictionary: Float[Tensor, "replica input feature"],
    codes: Float[Tensor, "replica sample feature"],
    std: Float[Tensor, "replica"],
    noise: Float[Tensor, "number sample input"],
    places: Int[Tensor, " replica"],
    kept: Float[Tensor, "replica neuron"] | None = None,
) -> LossAndGradient:
    """InfoNCE at τ = 1 of a layer of symmetrised ReLU neurons on pairs, and its gradient through the first members.

    For contiguous tensors that `featscope.kernels.suits` says yes to.

    Args:
        weight: W.
        threshold: b.
        dictionary: M.
        codes: c of first members, then of second ones.
        std: σ.
        noise: n, standard normals.
        places: which of them a replica has, int32.
        kept: 1 for neurons that similarities see, 0 for those that are hidden from them; None for all.
    """
    (replicas, samples, features), (neurons, inputs) = codes.shape, weight.shape[1:]
    batch = samples // 2
    loss, slope = floats(replicas), floats(*weight.shape)
    way = floats(sum(_made(batch, inputs, neurons, features)))
    arrays = (
        weight,
        threshold,
        weight if kept is None else kept,
        dictionary,
        codes,
        std,
        noise,
        places,
        loss,
        slope,
        way,
    )
    function(_gradient(kept is not None))(
        *(array.data_ptr() for array in arrays), replicas, batch, inputs, neurons, features
    )
    return loss, slope


def _made(batch: W, inputs: W, neurons: W, features: W) -> list[W]:
    """Sizes of panels, of W M, of what neurons say of first and of second members, of similarities, of pulls and
    of their codes."""
    panels, said, mixed = room(batch + inputs + neurons + features), batch * neurons, neurons * features
    return [panels, mixed, said, said, batch * batch, said, mixed]


@lru_cache
def _gradient(some_hidden: bool) -> Write:
    def gradient(
        code: Code,
        weight: Array,
        threshold: Array,
        kept: Array,
        dictionary: Array,
        codes: Array,
        std: Array,
        noise: Array,
        places: Words,
        loss: Array,
        slope: Array,
        way: Array,
        replicas: Whole,
        batch: Whole,
        inputs: Whole,
        neurons: Whole,
        features: Whole,
    ) -> None:
        with code.loop(replicas) as r:
            w, b, m = weight + r * neurons * inputs, threshold + r * neurons, dictionary + r * inputs * features
            c, n = codes + r * batch * features * 2, noise + places[r].lane() * batch * inputs * 2
            found, counts = (loss + r, slope + r * neurons * inputs), (batch, inputs, neurons, features)
            code.call(_of_replica(some_hidden), w, b, kept + r * neurons, m, c, n, *found, way, *counts, std[r])

    return gradient


@lru_cache
def _of_replica(some_hidden: bool) -> Write:
    def of_replica(
        code: Code,
        weight: Array,
        threshold: Array,
        kept: Array,
        dictionary: Array,
        codes: Array,
        noise: Array,
        loss: Array,
        slope: Array,
        way: Array,
        batch: Whole,
        inputs: Whole,
        neurons: Whole,
        features: Whole,
        std: Number,
    ) -> None:
        one, nothing = code.whole(1), code.number(0.0)
        by_rows, plain, onto = product(turned=True, onto=False), product(turned=False, onto=False), product(True, True)
        panels, mixed, f, g, similarity, pull, pulled, _ = laid_out(way, _made(batch, inputs, neurons, features))
        both = batch * 2  # what is said of second members stands behind what is said of first ones

        code.call(
            plain,
            weight,
            inputs,
            one,
            dictionary,
            features,
            mixed,
            features,
            panels,
            neurons,
            inputs,
            features,
            nothing,
        )
        code.call(by_rows, noise, inputs, one, weight, inputs, f, neurons, panels, both, inputs, neurons, nothing)
        code.call(onto, codes, features, one, mixed, features, f, neurons, panels, both, features, neurons, std)
        code.call(rows.shrunk, f, threshold, one, both, neurons)
        seen = f
        if some_hidden:
            seen = pull  # whose place is still free
            code.call(rows.scaled, f, kept, seen, batch, neurons)
        code.call(by_rows, seen, neurons, one, g, neurons, similarity, batch, panels, batch, neurons, batch, nothing)
        code.call(rows.contrasted_within, similarity, loss, one, batch)
        code.call(plain, similarity, batch, one, g, neurons, pull, neurons, panels, batch, batch, neurons, nothing)
        code.call(rows.fired, pull, f, batch * neurons)
        code.call(
            plain, pull, one, neurons, codes, features, pulled, features, panels, neurons, batch, features, nothing
        )
        code.call(plain, pull, one, neurons, noise, inputs, slope, inputs, panels, neurons, batch, inputs, nothing)
        code.call(
            onto, pulled, features, one, dictionary, features, slope, inputs, panels, neurons, features, inputs, std
        )

    return of_replica
