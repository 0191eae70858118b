"""Replicas that are equal where chance should make them differ, and what all have in common."""

from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b

import numpy as np
from jaxtyping import Shaped, UInt8

from featscope.axes import points
from featscope.runs.shard import Shard, ShardResult
from featscope.streams import Streams
from featscope.studies.at_point import AtPoint

_LOOK = 16  # numbers that are drawn to compare two streams


class EqualReplicasError(RuntimeError):
    """Replicas are equal where chance should make them differ, so that no interval means anything (exit code 3)."""


def in_common(results: Sequence[tuple[Shard, ShardResult]]) -> frozenset[str]:
    """Names of what all replicas of an arm have in common, though it has as many rows as a shard has replicas.

    What is trained is never shared. Of the rest, that is shared which is the same in every shard; whether it is so by
    chance tells another number of replicas, of which an experiment is built only where it matters.

    Replicas of an arm with axes are equal if they are so at every point: at one, chance may play no part. Where it has
    one alone, and in a judged sweep, whose points lie in several arms, that they draw the same must be seen, too.

    Args:
        results: all shards of the arm.

    Raises:
        EqualReplicasError: see `require_different`; nobody writes what such replicas measured.
    """
    shard = results[0][0]
    drawn = {purpose for _, result in results for purpose in result.purposes}
    ends, lost = _ends(results), _lost(results)
    stored_apart = len({s.replicas for s, _ in results}) > 1 and not shard.arm.over
    trained = {name for _, result in results for name in result.trained}
    doubtful = {
        name
        for (_, name), parts in ends.items()
        if shard.arm.recipe.replica_axis and name not in trained and _repeated(parts)
    }
    found: frozenset[str] = frozenset()
    if doubtful and (stored_apart or _twins(_joined(ends, but=doubtful) | lost)):
        found = frozenset(doubtful & _without_a_row_for_each(shard))
    if compared := _joined(ends, but=found):
        seen = len({place for place, _ in ends}) > 1 or not shard.arm.over
        seen = seen and not isinstance(shard.arm.recipe, AtPoint)
        require_different(compared | lost, drawn, shard.seed, shard.arm.name, or_draws=not seen)
    return found


def _ends(results: Sequence[tuple[Shard, ShardResult]]) -> dict[tuple[int, str], list[UInt8[np.ndarray, "row byte"]]]:
    """(point, name) -> a digest of each replica, a part for each shard; of what all shards have a row for each of."""
    axes = results[0][0].arm.over
    by_point: dict[tuple[float, ...], list[Mapping[str, UInt8[np.ndarray, "row byte"]]]] = {}
    for _, result in results:
        for data, ends in zip(result.data, result.ends, strict=True):
            at = tuple(data[axis.name].item() for axis in axes)
            by_point.setdefault(at, []).append(ends)
    return {
        (place, name): [ends[name] for ends in several]
        for place, several in enumerate(by_point.values())
        for name in set.intersection(*map(set, several))
    }


def _joined(
    ends: Mapping[tuple[int, str], Sequence[UInt8[np.ndarray, "row byte"]]], but: Collection[str]
) -> dict[str, UInt8[np.ndarray, "replica byte"]]:
    return {f"{name} at {place}": np.concatenate(of) for (place, name), of in ends.items() if name not in but}


def _repeated(parts: Sequence[UInt8[np.ndarray, "row byte"]]) -> bool:
    """Whether rows differ, and are the same in every shard."""
    first = parts[0]
    return bool((first != first[0]).any()) and all(np.array_equal(part, first) for part in parts)


def _lost(results: Sequence[tuple[Shard, ShardResult]]) -> dict[str, Shaped[np.ndarray, "replica"]]:
    """A number of its own for each replica that diverged at every point: nothing is left that would tell it apart."""
    lost: dict[int, bool] = {}
    for shard, result in results:
        for data in result.data:
            given_up = data["diverged"].values >= 0 if "diverged" in data else [False] * len(shard.replicas)
            for replica, is_so in zip(shard.replicas, given_up, strict=True):
                lost[replica] = lost.get(replica, True) and bool(is_so)
    return {"lost": np.array([replica + 1 if lost[replica] else 0 for replica in sorted(lost)])}


def _without_a_row_for_each(shard: Shard) -> set[str]:
    """Names of what is not longer where there are more replicas."""
    replicas = range(1 if len(shard.replicas) > 1 else 2)
    _, recipe = next(points(shard.arm.recipe, shard.arm.over, shard.points))
    kept = recipe.build(Streams(shard.seed, replicas, shard.device)).kept()
    return {name for name, values in kept.items() if values.shape[:1] != (len(replicas),)}


def require_different(
    weights: Mapping[str, Shaped[np.ndarray, "replica *shape"]],
    purposes: Collection[str],
    seed: int,
    arm: str,
    *,
    or_draws: bool = False,
) -> None:
    """See that no two replicas of an arm end with the same weights.

    Args:
        weights: of all replicas, or digests of them.
        purposes: what was drawn for while they were trained.
        seed: of the streams.
        arm: its name.
        or_draws: whether it is enough that they draw something else.

    Raises:
        EqualReplicasError: two do. It names them, and the streams that are equal, if any is.
    """
    if not purposes or (twins := _twins(weights)) is None:
        return
    equal = sorted(filter(lambda purpose: _same(seed, *twins, purpose), purposes))
    if or_draws and not equal:
        return
    drawn = ", ".join(map(repr, equal or sorted(purposes)))
    why = f"they draw the same from the streams {drawn}" if equal else f"nothing drawn from {drawn} tells in them"
    raise EqualReplicasError(f"replicas {twins[0]} and {twins[1]} of the arm {arm!r} end with the same weights: {why}")


def _twins(weights: Mapping[str, Shaped[np.ndarray, "replica *shape"]]) -> tuple[int, int] | None:
    """Two replicas all of whose weights are equal."""
    first: dict[bytes, int] = {}
    for replica in range(min(map(len, weights.values()), default=0)):
        state = blake2b()
        for values in weights.values():
            state.update(np.ascontiguousarray(values[replica]).tobytes())
        twin = first.setdefault(state.digest(), replica)
        if twin != replica:
            return twin, replica
    return None


def _same(seed: int, one: int, other: int, purpose: str) -> bool:
    drawn = [Streams(seed, [replica]).at(purpose).uniform(_LOOK) for replica in (one, other)]
    return bool((drawn[0] == drawn[1]).all())
