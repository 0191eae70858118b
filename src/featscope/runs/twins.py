"""Replicas that are equal where chance should make them differ."""

from collections.abc import Collection, Mapping
from hashlib import blake2b

import numpy as np
from jaxtyping import Shaped

from featscope.streams import Streams

_LOOK = 16  # numbers that are drawn to compare two streams


class EqualReplicasError(RuntimeError):
    """Replicas are equal where chance should make them differ, so that no interval means anything (exit code 3)."""


def require_different(
    weights: Mapping[str, Shaped[np.ndarray, "replica *shape"]], purposes: Collection[str], seed: int, arm: str
) -> None:
    """See that no two replicas of an arm end with the same weights.

    Args:
        weights: of all replicas.
        purposes: what was drawn for while they were trained.
        seed: of the streams.
        arm: its name.

    Raises:
        EqualReplicasError: two do. It names them, and the streams that are equal, if any is.
    """
    if not weights or not purposes:
        return
    first: dict[bytes, int] = {}
    for replica in range(min(map(len, weights.values()))):
        state = blake2b()
        for values in weights.values():
            state.update(np.ascontiguousarray(values[replica]).tobytes())
        twin = first.setdefault(state.digest(), replica)
        if twin != replica:
            equal = sorted(filter(lambda purpose: _same(seed, twin, replica, purpose), purposes))
            drawn = ", ".join(map(repr, equal or sorted(purposes)))
            why = (
                f"they draw the same from the streams {drawn}" if equal else f"nothing drawn from {drawn} tells in them"
            )
            raise EqualReplicasError(
                f"replicas {twin} and {replica} of the arm {arm!r} end with the same weights: {why}"
            )


def _same(seed: int, one: int, other: int, purpose: str) -> bool:
    drawn = [Streams(seed, [replica]).at(purpose).uniform(_LOOK) for replica in (one, other)]
    return bool((drawn[0] == drawn[1]).all())
