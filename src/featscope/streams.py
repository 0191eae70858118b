"""Random draws that are addressed, not consumed.

A draw is a function of (seed, replica, purpose, step). Replica 3 sees the same numbers alone, among 8 or
among 64, in one program or in shards, and after a resume; no draw shifts another.

On the CPU the address is hashed to the 32-bit seed that torch's Mersenne Twister takes: among n addresses
about n²/2³³ pairs share a batch (0.1 pairs in a run of 30,000). On CUDA all 64 bits are used. The two devices
draw different numbers from one address.
"""

import struct
from collections.abc import Callable, Sequence
from hashlib import blake2b

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from featscope.kernels import suits

_COINS = (torch.arange(256)[:, None] >> torch.arange(8) & 1).float()  # the eight bits of each byte


class EqualReplicasError(RuntimeError):
    """Replicas are equal where chance should make them differ, so that no interval means anything (exit code 3)."""


def _key(seed: int, replica: int, purpose: bytes, step: int) -> int:
    address = struct.pack("<qqq", seed, replica, step) + purpose
    return int.from_bytes(blake2b(address, digest_size=8).digest(), "little")


class Draws:
    """The draws at one address: one generator a replica; successive calls go on along the same stream.

    Replicas of the same number (in a stack of experiments) share an address, and its numbers are made once.
    """

    def __init__(self, keys: Sequence[int], device: torch.device) -> None:
        self.device = device
        self.replicas = len(keys)
        places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
        self._places: Tensor | None = None
        if len(places) < len(keys):
            self._places = torch.tensor([places[key] for key in keys], device=device)
        self._generators = []
        for key in places:
            generator = torch.Generator(device)
            generator.manual_seed(key if device.type != "cpu" else key & 0xFFFFFFFF)
            self._generators.append(generator)

    def _fill(self, out: Tensor, fill: Callable[[Tensor, torch.Generator], object]) -> Tensor:
        for replica, generator in zip(out, self._generators, strict=True):
            fill(replica, generator)
        return self._shared(out)

    def _shared(self, made: Tensor) -> Tensor:
        return made if self._places is None else made[self._places]

    def _empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        return torch.empty(len(self._generators), *shape, dtype=dtype, device=self.device)

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> Float[Tensor, "replica ..."]:
        """Standard normals of shape ``[replica, *shape]``."""
        return self._fill(self._empty(shape, dtype), lambda out, g: out.normal_(generator=g))

    def uniform(self, *shape: int, dtype: torch.dtype = torch.float32) -> Float[Tensor, "replica ..."]:
        """Uniforms on [0, 1) of shape ``[replica, *shape]``."""
        return self._fill(self._empty(shape, dtype), lambda out, g: out.uniform_(generator=g))

    def coins(self, *shape: int, dtype: torch.dtype = torch.float32) -> Float[Tensor, "replica ..."]:
        """Independent fair coins, 0 or 1, of shape ``[replica, *shape]``; one random byte gives eight."""
        table = _COINS.to(self.device, dtype)
        return torch.nn.functional.embedding(self._packed(*shape).int(), table).flatten(-2)[..., : shape[-1]]

    def _packed(self, *shape: int) -> UInt8[Tensor, "replica ..."]:
        """Eight coins in a byte, the lowest bit first; a row begins with a byte."""
        *rows, last = shape
        empty = self._empty((*rows, -(-last // 8)), torch.uint8)
        return self._fill(empty, lambda out, g: out.random_(0, 256, generator=g))

    def halves(self, x: Float[Tensor, "replica *shape"]) -> tuple[Tensor, Tensor]:
        """2 x where one of `coins` is 1 and 0 elsewhere, and 2 x where it is 0: two halves whose mean is x."""
        if x.ndim == 3 and x.stride()[1:] == (x.shape[-1], 1) and suits(x):
            from featscope.kernels.rows import halves

            return halves(x, self._packed(*x.shape[1:]))
        twice = 2 * x
        ones = twice * self.coins(*x.shape[1:], dtype=x.dtype)
        return ones, twice.sub_(ones)

    def signs(
        self, *shape: int, chance: float | Float[Tensor, "replica ..."], dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "replica ..."]:
        """1 and -1, each with half the ``chance``, else 0; of shape ``[replica, *shape]``.

        Args:
            shape: of what is drawn.
            chance: that it is not 0; if it is a tensor, of as many axes as what is drawn.
            dtype: of what is drawn.
        """
        uniform = self.uniform(*shape, dtype=dtype)
        return (uniform < chance / 2).to(dtype) - (uniform >= 1 - chance / 2).to(dtype)

    def choice(self, population: int, count: int) -> Tensor:
        """``count`` distinct indices below ``population`` in random order, int64 ``[replica, count]``."""
        picks = [torch.randperm(population, generator=g, device=self.device)[:count] for g in self._generators]
        return self._shared(torch.stack(picks))


class Streams:
    """All random draws of some replicas of one experiment.

    Args:
        seed: the experiment's seed, any integer below 2⁶³.
        replicas: the replicas' own numbers; shard [4..7] of 8 replicas passes ``range(4, 8)``.
        device: where the draws are made.
    """

    def __init__(self, seed: int, replicas: Sequence[int], device: torch.device | str = "cpu") -> None:
        self.seed = seed
        self.replicas = tuple(replicas)
        self.device = torch.device(device)
        self.purposes: set[str] = set()

    def at(self, purpose: str, step: int = 0) -> Draws:
        """The draws for ``purpose`` at ``step``: the same numbers at every call.

        Raises:
            EqualReplicasError: two replicas would draw the same.
        """
        name = purpose.encode()
        keys = [_key(self.seed, r, name, step) for r in self.replicas]
        if purpose not in self.purposes:
            if len(set(keys)) < len(set(self.replicas)):
                raise EqualReplicasError(f"replicas draw the same numbers from the stream {purpose!r}")
            self.purposes.add(purpose)
        return Draws(keys, self.device)
