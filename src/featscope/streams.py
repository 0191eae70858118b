"""Random draws that are addressed, not consumed.

A draw is a function of (seed, replica, purpose, step). Replica 3 sees the same numbers alone, among 8 or
among 64, in one program or in shards, on every device, and after a resume; no draw shifts another. A GPU of NVIDIA's
makes its own; those of another device are made on the processor, and copied.

Numbers come from a counter and a key (`featscope.kernels.philox`): seed and purpose are hashed to the key of 64 bits,
and block, replica and step are counted. So draws of one purpose cannot meet; two of n purposes do with chance n²/2⁶⁵.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from math import prod
from operator import index

import torch
from jaxtyping import Float, Int, Shaped, UInt8
from torch import Tensor

from featscope.kernels import backend, philox, suits

_WORD = 2**32 - 1

METHOD = "Philox4x32-10"
"""What runs store beside their options: with other draws none may go on."""


class Draws:
    """The draws at one address; successive calls go on along the same stream.

    Replicas of the same number (in a stack of experiments) share what is drawn, which is made once. Whatever is drawn
    with a negative size raises `ValueError`.
    """

    def __init__(self, key: int, replicas: Sequence[int], step: int, device: torch.device) -> None:
        self.device = device
        self.replicas = len(replicas)
        self._address = step & _WORD, step >> 32 & _WORD, key & _WORD, key >> 32
        self._block = 0
        self._made = _where_made(device)
        self._numbers, self._places = _shared(tuple(replicas), device, self._made)

    def _drawn(self, kind: philox.Kind, *shape: int) -> Shaped[Tensor, "replica ..."]:
        once = self._drawn_once(kind, *shape)
        return once if self._places is None else once[self._places]

    def _drawn_once(self, kind: philox.Kind, *shape: int) -> Shaped[Tensor, "number ..."]:
        _require_sizes(shape)
        count, replicas = prod(shape), self._numbers.shape[0]
        blocks = -(-count // 4)
        dtype = torch.int32 if kind == "word" else torch.float32
        sizes = replicas, *(shape if 4 * blocks == count else [4 * blocks])
        out = torch.empty(sizes, dtype=dtype, device=self._made)
        if self._made.type == "cuda":
            from featscope.kernels.gpu import fill
        elif backend() == "llvm":
            from featscope.kernels.draws import fill
        else:
            from featscope.kernels.torch_words import fill
        fill(kind, out, *self.skip(blocks))
        if 4 * blocks != count:
            out = out[:, :count].contiguous().view(replicas, *shape)  # machine code reads rows one after the other
        return out.to(self.device)

    @property
    def all_differ(self) -> bool:
        """Whether no two replicas have one number."""
        return self._places is None

    def require_axis(self, x: Tensor) -> None:
        """Raise `ValueError` unless ``x`` has the replica axis in front, so that no two samples share what is drawn."""
        if x.shape[:1] != (self.replicas,):
            raise ValueError(
                f"x has shape {list(x.shape)}: expected the draws' replica axis in front, [{self.replicas}, ...]. "
                "Give a plain batch as x[None], with draws of one replica."
            )

    def skip(self, blocks: int) -> tuple[Int[Tensor, " number"], tuple[int, ...]]:
        """The numbers of replicas, each once, and the address of the next blocks, for code that draws them itself."""
        address = self._block, *self._address
        self._block += blocks
        return self._numbers, address

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> Float[Tensor, "replica ..."]:
        """Standard normals of shape ``[replica, *shape]``, to the precision of float32."""
        return self._drawn("normal", *shape).to(dtype)

    def normal_once(self, *shape: int) -> tuple[Float[Tensor, "number ..."], Int[Tensor, " replica"]]:
        """What `normal` draws in float32, of each number once, and the place of each replica's there."""
        places = torch.arange(self.replicas, device=self.device) if self._places is None else self._places
        return self._drawn_once("normal", *shape), places

    def uniform(self, *shape: int, dtype: torch.dtype = torch.float32) -> Float[Tensor, "replica ..."]:
        """Uniforms on [0, 1) of shape ``[replica, *shape]``: multiples of 2⁻²⁴, or of 2⁻³² in float64.

        Raises:
            ValueError: another ``dtype``, in which some would be rounded to 1.
        """
        if dtype == torch.float64:
            return (self._drawn("word", *shape).long() & _WORD).to(dtype) * 2.0**-32
        if dtype != torch.float32:
            raise ValueError(f"dtype = {dtype}: allowed are torch.float32 and torch.float64")
        return self._drawn("uniform", *shape)

    def coins(self, *shape: int, dtype: torch.dtype = torch.float32) -> Float[Tensor, "replica ..."]:
        """Independent fair coins, 0 or 1, of shape ``[replica, *shape]``; one random byte gives eight."""
        table = _eight_coins(self.device, dtype)
        return torch.nn.functional.embedding(self._packed(*shape).int(), table).flatten(-2)[..., : shape[-1]]

    def _packed(self, *shape: int) -> UInt8[Tensor, "replica ..."]:
        """Eight coins in a byte, the lowest bit first; a row begins with a byte."""
        _require_sizes(shape)
        *rows, last = shape
        width = -(-last // 8)
        return self._bytes(prod(rows) * width)[:, : prod(rows) * width].unflatten(1, (*rows, width))

    def _bytes(self, count: int) -> UInt8[Tensor, "replica byte"]:
        """At least so many random bytes."""
        return self._drawn("word", -(-count // 4)).view(torch.uint8)

    def halves(self, x: Float[Tensor, "replica *shape"]) -> tuple[Tensor, Tensor]:
        """2 x where one of `coins` is 1 and 0 elsewhere, and 2 x where it is 0: two halves whose mean is x.

        Raises:
            ValueError: see `require_axis`.
        """
        self.require_axis(x)
        if x.ndim == 3 and x.stride()[1:] == (x.shape[-1], 1) and suits(x, gpu=True):
            from featscope.kernels.rows import halves

            return halves(x, self._bytes(x.shape[1] * -(-x.shape[2] // 8)))
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
        uniform = self.uniform(*shape, dtype=torch.promote_types(dtype, torch.float32))
        if isinstance(chance, float) and suits(uniform, gpu=True) and dtype == torch.float32:
            from featscope.kernels.rows import signs

            signs(uniform, chance)
            return uniform
        return (uniform < chance / 2).to(dtype) - (uniform >= 1 - chance / 2).to(dtype)

    def choice(self, population: int, count: int) -> Tensor:
        """``count`` distinct indices below ``population``, or all, in random order, int64 ``[replica, chosen]``."""
        _require_sizes((count,))
        words = self._drawn("word", population, 2).view(torch.int64)[..., 0]
        return words.topk(min(count, population), largest=False).indices


def _require_sizes(shape: Sequence[int]) -> None:
    if min(shape, default=0) < 0:
        raise ValueError(f"sizes = {[*shape]}: allowed are numbers from 0")


_CPU = torch.device("cpu")


def _where_made(device: torch.device) -> torch.device:
    """Where numbers for a device are drawn."""
    if device.type != "cuda" or backend() != "llvm":
        return _CPU
    from featscope.kernels import gpu

    return device if gpu.suits(device) else _CPU


@lru_cache(maxsize=64)
def _eight_coins(device: torch.device, dtype: torch.dtype) -> Float[Tensor, "byte coin"]:
    """The eight bits of each byte."""
    return (torch.arange(256)[:, None] >> torch.arange(8) & 1).to(device, dtype)


@lru_cache(maxsize=256)
def _shared(replicas: tuple[int, ...], device: torch.device, made: torch.device) -> tuple[Tensor, Tensor | None]:
    """Each number once, as int32, where numbers are ``made``, and where on ``device`` each replica's is; ``None`` where
    all differ."""
    numbers = [*dict.fromkeys(replicas)]
    once = torch.tensor(numbers, dtype=torch.int64).int().to(made)
    if len(numbers) == len(replicas):
        return once, None
    place = {number: place for place, number in enumerate(numbers)}
    return once, torch.tensor([place[number] for number in replicas], device=device)


class Streams:
    """All random draws of some replicas of one experiment.

    Args:
        seed: the experiment's seed, from -2⁶³ below 2⁶³.
        replicas: the replicas' own numbers, from 0 below 2³²; shard [4..7] of 8 replicas passes ``range(4, 8)``.
        device: where the draws are made.

    Raises:
        ValueError: the seed or a replica's number is out of range, or there are no replicas.
    """

    def __init__(self, seed: int, replicas: Sequence[int], device: torch.device | str = "cpu") -> None:
        self.seed = _signed("seed", seed)
        self.replicas = tuple(map(index, replicas))
        if not self.replicas:
            raise ValueError("replicas = []: allowed is one number or more")
        if any(not 0 <= replica <= _WORD for replica in self.replicas):
            raise ValueError(f"replicas = {[*replicas]}: allowed are numbers from 0 to 2³² - 1")
        self.device = torch.device(device)
        self.purposes: set[str] = set()

    def at(self, purpose: str, step: int = 0) -> Draws:
        """The draws for ``purpose`` at ``step``, from -2⁶³ below 2⁶³: the same numbers at every call."""
        self.purposes.add(purpose)
        return Draws(_key(self.seed, purpose), self.replicas, _signed("step", step), self.device)


def _signed(name: str, number: int) -> int:
    number = index(number)
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{name} = {number}: allowed are numbers from -2⁶³ below 2⁶³")
    return number


@lru_cache(maxsize=4096)
def _key(seed: int, purpose: str) -> int:
    return int.from_bytes(blake2b(struct.pack("<q", seed) + purpose.encode(), digest_size=8).digest(), "little")
