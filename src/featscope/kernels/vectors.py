"""Vectors of float32s as wide as the processor's registers, for code that says itself what stands in which.

`featscope.kernels.loops` leaves that to LLVM, which does not find tiles of a matrix product.
"""

from dataclasses import dataclass

from featscope.kernels.loops import Array, Code, Number, Whole
from featscope.kernels.machine import lanes


@dataclass(frozen=True)
class Vector:
    """As many float32s as a register holds."""

    code: Code
    name: str

    def plus(self, a: "Vector", b: "Vector") -> "Vector":
        """Itself and the products of two, rounded once where the processor can."""
        product = self.code.new(f"fmul contract {_kind()} {a.name}, {b.name}")
        return Vector(self.code, self.code.new(f"fadd contract {_kind()} {self.name}, {product}"))

    def interleaved(self, other: "Vector") -> "tuple[Vector, Vector]":
        """Numbers of both in turns: those of the lower halves, and those of the upper ones."""
        n = lanes()
        low = [place for i in range(n // 2) for place in (i, n + i)]
        return self._chosen(other, low), self._chosen(other, [place + n // 2 for place in low])

    def _chosen(self, other: "Vector", places: list[int]) -> "Vector":
        mask = ", ".join(f"i32 {place}" for place in places)
        both = f"{_kind()} {self.name}, {_kind()} {other.name}"
        return Vector(self.code, self.code.new(f"shufflevector {both}, <{lanes()} x i32> <{mask}>"))


@dataclass(frozen=True)
class Sum:
    """A vector that grows, from zeros on."""

    code: Code
    slot: str

    @property
    def now(self) -> Vector:
        """Its value."""
        return Vector(self.code, self.code.new(f"load {_kind()}, ptr {self.slot}"))

    def add(self, a: Vector, b: Vector) -> None:
        """The products of two."""
        self.code.do(f"store {_kind()} {self.now.plus(a, b).name}, ptr {self.slot}")


@dataclass(frozen=True)
class First:
    """The first lanes of a vector, as many as are left of a row.

    Attributes:
        left: how many; from the number of lanes on all, below 1 none.
    """

    left: Whole

    def read(self, place: Array) -> Vector:
        """What stands there; 0 in the other lanes."""
        arguments = f"ptr {place.name}, {self._lanes(place.code)}, {_kind()} zeroinitializer"
        return Vector(place.code, place.code.new(f"call {_kind()} @llvm.masked.load.{_suffix()}({arguments})"))

    def write(self, place: Array, value: Vector) -> None:
        """Put them there, and leave what stands behind them."""
        arguments = f"{_kind()} {value.name}, ptr {place.name}, {self._lanes(place.code)}"
        place.code.do(f"call void @llvm.masked.store.{_suffix()}({arguments})")

    def _lanes(self, code: Code) -> str:
        """Alignment, and which lanes."""
        left = _spread(code, f"i64 {self.left.name}", f"<{lanes()} x i64>")
        places = ", ".join(f"i64 {place}" for place in range(lanes()))
        return f"i32 4, <{lanes()} x i1> {code.new(f'icmp slt <{lanes()} x i64> <{places}>, {left}')}"


def read(place: Array) -> Vector:
    """What stands there, in all lanes."""
    return Vector(place.code, place.code.new(f"load {_kind()}, ptr {place.name}, align 4"))


def write(place: Array, value: Vector) -> None:
    """Put it there."""
    place.code.do(f"store {_kind()} {value.name}, ptr {place.name}, align 4")


def spread(number: Number) -> Vector:
    """A number in all lanes."""
    return Vector(number.code, _spread(number.code, f"float {number.name}", _kind()))


def zeros(code: Code) -> Sum:
    """A sum of nothing."""
    made = Sum(code, code.slot(_kind()))
    code.do(f"store {_kind()} zeroinitializer, ptr {made.slot}")
    return made


def transposed(rows: list[Vector]) -> list[Vector]:
    """The columns of a square of as many rows as there are lanes.

    Interleaving the rows of both halves turns the bits of a place, row and column, by one: as often as a row has bits,
    and the column has become the row.
    """
    half = len(rows) // 2
    for _ in range(half.bit_length()):
        rows = [part for one, other in zip(rows[:half], rows[half:], strict=True) for part in one.interleaved(other)]
    return rows


def _kind() -> str:
    return f"<{lanes()} x float>"


def _suffix() -> str:
    return f"v{lanes()}f32.p0"


def _spread(code: Code, one: str, kind: str) -> str:
    first = code.new(f"insertelement {kind} poison, {one}, i64 0")
    return code.new(f"shufflevector {kind} {first}, {kind} poison, <{lanes()} x i32> zeroinitializer")
