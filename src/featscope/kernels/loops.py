"""Loops over arrays of float32 as machine code: arithmetic written on `Number`s becomes LLVM's language.

A function is written once, number by number, as a plain loop in C would be; LLVM makes vectors of it, as wide as the
processor has them.
"""

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_float, c_int64
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

from featscope.kernels.machine import intrinsics, machine_code

R = TypeVar("R", bound="_Row")
_SUM = "reassoc nsz contract"  # sums may be taken in any order, which is what lets LLVM take several at a time
_MAGIC = 1.5 * 2**23  # added to a float32, it leaves the nearest whole number in the last bits


@dataclass(frozen=True)
class Whole:
    """A whole number: a count or a place."""

    code: "Code"
    name: str

    def __add__(self, other: "Whole | int") -> "Whole":
        return self._with("add", other)

    def __sub__(self, other: "Whole | int") -> "Whole":
        return self._with("sub", other)

    def __mul__(self, other: "Whole | int") -> "Whole":
        return self._with("mul", other)

    def __floordiv__(self, other: "Whole | int") -> "Whole":
        return self._with("sdiv", other)

    def at_most(self, other: "Whole") -> "Whole":
        """The smaller of the two."""
        less = self.code.new(f"icmp slt i64 {self.name}, {other.name}")
        return Whole(self.code, self.code.new(f"select i1 {less}, i64 {self.name}, i64 {other.name}"))

    def number(self) -> "Number":
        """It as a float32."""
        return Number(self.code, self.code.new(f"sitofp i64 {self.name} to float"))

    def __xor__(self, other: "Whole") -> "Whole":
        return Whole(self.code, self.code.new(f"xor i64 {self.name}, {other.name}"))

    def wide_product(self, factor: int) -> "tuple[Whole, Whole]":
        """The upper and the lower word of its lower word's product; of the second its own upper half means nothing."""
        low = self.code.new(f"and i64 {self.name}, {2**32 - 1}")
        product = self.code.new(f"mul i64 {low}, {factor}")
        return Whole(self.code, self.code.new(f"lshr i64 {product}, 32")), Whole(self.code, product)

    def word(self) -> "Word":
        """Its lower 32 bits."""
        return Word(self.code, self.code.new(f"trunc i64 {self.name} to i32"))

    def _with(self, operation: str, other: "Whole | int") -> "Whole":
        value = other.name if isinstance(other, Whole) else other
        how = "" if operation == "sdiv" else " nsw"
        return Whole(self.code, self.code.new(f"{operation}{how} i64 {self.name}, {value}"))


@dataclass(frozen=True)
class Number:
    """A float32.

    Attributes:
        code: that makes it.
        name: there.
        exact: every operation is rounded by itself, so that all machines have the same bits; else a product and a sum
            may become one operation.
    """

    code: "Code"
    name: str
    exact: bool = False

    def __add__(self, other: "Number | float") -> "Number":
        return self._with("fadd", other)

    def __sub__(self, other: "Number | float") -> "Number":
        return self._with("fsub", other)

    def __mul__(self, other: "Number | float") -> "Number":
        return self._with("fmul", other)

    def __truediv__(self, other: "Number | float") -> "Number":
        return Number(self.code, self.code.new(f"fdiv float {self.name}, {self.code.number(other).name}"), self.exact)

    def __neg__(self) -> "Number":
        return Number(self.code, self.code.new(f"fneg float {self.name}"), self.exact)

    def __lt__(self, other: "Number | float") -> str:
        return self.code.new(f"fcmp olt float {self.name}, {self.code.number(other).name}")

    def __gt__(self, other: "Number | float") -> str:
        return self.code.new(f"fcmp ogt float {self.name}, {self.code.number(other).name}")

    def bits(self) -> "Word":
        """Its 32 bits."""
        return Word(self.code, self.code.new(f"bitcast float {self.name} to i32"))

    def sqrt(self) -> "Number":
        """Its root, rounded correctly."""
        return Number(self.code, self.code.new(f"call float @llvm.sqrt.f32(float {self.name})"), self.exact)

    def exp(self) -> "Number":
        """e to a power of at most 88, within 2 units of the last place; 0 to rounding below -87, NaN of NaN."""
        x = self.code.either(self < -87.0, -87.0, self)
        near = self._strictly("fadd", self._strictly("fmul", x, 1.4426950408889634), _MAGIC)
        n = self._strictly("fsub", near, _MAGIC)
        r = x - n * 0.693359375 - n * -2.12194440e-4
        p = self.code.number(1.9875691500e-4)
        for c in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
            p = p * r + c
        bits = self.code.new(f"bitcast float {near.name} to i32")
        power = self.code.new(f"add i32 {self.code.new(f'shl i32 {bits}, 23')}, {0x3F800000}")
        return (p * r * r + r + 1.0) * Number(self.code, self.code.new(f"bitcast i32 {power} to float"))

    def log(self) -> "Number":
        """The natural logarithm, by the C library: not for inner loops."""
        return Number(self.code, self.code.new(f"call float @llvm.log.f32(float {self.name})"))

    def _with(self, operation: str, other: "Number | float") -> "Number":
        how = "" if self.exact else " contract"
        result = self.code.new(f"{operation}{how} float {self.name}, {self.code.number(other).name}")
        return Number(self.code, result, self.exact)

    def _strictly(self, operation: str, a: "Number", b: float) -> "Number":
        return Number(self.code, self.code.new(f"{operation} float {a.name}, {self.code.number(b).name}"))


@dataclass(frozen=True)
class Word:
    """32 bits: a whole number from 0 below 2³², whose sums are modulo 2³²."""

    code: "Code"
    name: str

    def __add__(self, other: "Word | int") -> "Word":
        return self._with("add", other)

    def __sub__(self, other: "Word | int") -> "Word":
        return self._with("sub", other)

    def __xor__(self, other: "Word | int") -> "Word":
        return self._with("xor", other)

    def __and__(self, other: "Word | int") -> "Word":
        return self._with("and", other)

    def __lshift__(self, places: int) -> "Word":
        return self._with("shl", places)

    def __rshift__(self, places: int) -> "Word":
        return self._with("lshr", places)

    def lane(self) -> Whole:
        """It as a whole number."""
        return Whole(self.code, self.code.new(f"zext i32 {self.name} to i64"))

    def choose(self, then: Number, otherwise: Number) -> Number:
        """``then`` where its lowest bit is 1."""
        test = self.code.new(f"trunc i32 {self.name} to i1")
        chosen = self.code.new(f"select i1 {test}, float {then.name}, float {otherwise.name}")
        return Number(self.code, chosen, exact=True)

    def number(self) -> Number:
        """The nearest float32."""
        return Number(self.code, self.code.new(f"uitofp i32 {self.name} to float"), exact=True)

    def signed(self) -> Number:
        """The nearest float32 of a number from -2³¹ below 2³¹."""
        return Number(self.code, self.code.new(f"sitofp i32 {self.name} to float"), exact=True)

    def as_float(self) -> Number:
        """The float32 with these bits."""
        return Number(self.code, self.code.new(f"bitcast i32 {self.name} to float"), exact=True)

    def _with(self, operation: str, other: "Word | int") -> "Word":
        value = other.name if isinstance(other, Word) else other
        return Word(self.code, self.code.new(f"{operation} i32 {self.name}, {value}"))


@dataclass(frozen=True)
class _Row:
    """What lies in a row in memory, from the place with a name."""

    code: "Code"
    name: str
    kind: ClassVar[str]

    def __add__(self: R, place: Whole) -> R:
        return type(self)(self.code, self._at(place))

    def _at(self, place: Whole) -> str:
        return self.code.new(f"getelementptr {self.kind}, ptr {self.name}, i64 {place.name}")


class Array(_Row):
    """Float32 numbers in a row."""

    kind = "float"

    def __getitem__(self, place: Whole) -> Number:
        return Number(self.code, self.code.new(f"load float, ptr {self._at(place)}, align 4"))

    def __setitem__(self, place: Whole, value: Number | float) -> None:
        self.code.do(f"store float {self.code.number(value).name}, ptr {self._at(place)}, align 4")


class Words(_Row):
    """Words in a row."""

    kind = "i32"

    def __getitem__(self, place: Whole) -> Word:
        return Word(self.code, self.code.new(f"load i32, ptr {self._at(place)}, align 4"))

    def __setitem__(self, place: Whole, value: Word) -> None:
        self.code.do(f"store i32 {value.name}, ptr {self._at(place)}, align 4")


class Bits(_Row):
    """Bytes in a row, eight bits each, the lowest first."""

    kind = "i8"

    def __getitem__(self, place: Whole) -> str:
        """The bit at a place, as a test."""
        byte = self.code.new(f"load i8, ptr {self._at(Whole(self.code, self.code.new(f'lshr i64 {place.name}, 3')))}")
        within = self.code.new(f"trunc i64 {self.code.new(f'and i64 {place.name}, 7')} to i8")
        return self.code.new(f"trunc i8 {self.code.new(f'lshr i8 {byte}, {within}')} to i1")


@dataclass(frozen=True)
class Variable:
    """A number that loops change."""

    code: "Code"
    slot: str

    @property
    def now(self) -> Number:
        """Its value."""
        return Number(self.code, self.code.new(f"load float, ptr {self.slot}"))

    def set(self, value: Number | float) -> None:
        """Another value."""
        self.code.do(f"store float {self.code.number(value).name}, ptr {self.slot}")

    def raise_to(self, value: Number) -> None:
        """The larger of the two; that of numbers alone, as NaN may get lost."""
        more = self.code.new(f"fcmp nnan nsz ogt float {value.name}, {(now := self.now).name}")
        self.set(Number(self.code, self.code.new(f"select nnan nsz i1 {more}, float {value.name}, float {now.name}")))

    def add(self, value: Number) -> None:
        """A term of a sum, whose terms are added in any order."""
        self.set(Number(self.code, self.code.new(f"fadd {_SUM} float {self.now.name}, {value.name}")))


W = TypeVar("W", Whole, int)


def parts(count: W, size: W | int) -> W:
    """How many parts of a size a count has, the last of which may be smaller."""
    return (count + (size - 1)) // size


Write = Callable[..., None]
"""Writes a function's body, ``write(code, ...)``. Parameters after the first are annotated `Array`, `Words`, `Bits`,
`Whole` or `Number`: the function takes addresses, whole numbers and float32s. Arrays must not overlap."""


class Code:
    """The body of a function that is being written.

    Args:
        module: the functions written so far, by what writes them: name and definition of each.
    """

    def __init__(self, module: "dict[Write, tuple[str, str]]") -> None:
        self._module = module
        self._slots: list[str] = []
        self._lines: list[str] = []
        self._count = 0

    def new(self, value: str) -> str:
        """A line that makes something; its name."""
        name = self._name()
        self._lines.append(f"{name} = {value}")
        return name

    def do(self, line: str) -> None:
        """A line that makes nothing."""
        self._lines.append(line)

    def number(self, value: Number | float) -> Number:
        """A number, of a constant too."""
        if isinstance(value, Number):
            return value
        (rounded,) = struct.unpack("f", struct.pack("f", value))
        return Number(self, f"0x{struct.pack('>d', rounded).hex()}")

    def either(self, test: str, then: Number | float, otherwise: Number | float) -> Number:
        """``then`` where a test is true; a comparison with NaN is false."""
        yes, no = self.number(then).name, self.number(otherwise).name
        return Number(self, self.new(f"select i1 {test}, float {yes}, float {no}"))

    def whole(self, value: int) -> Whole:
        """A whole number that is known."""
        return Whole(self, str(value))

    def variable(self, value: Number | float) -> Variable:
        """One with a first value."""
        made = Variable(self, self.slot("float"))
        made.set(value)
        return made

    def call(self, write: Write, *arguments: "Argument") -> None:
        """What another function does, which stands once in the module."""
        if write not in self._module:
            _define(write, self._module, "internal", "noinline")
        given = ", ".join(f"{_KINDS[type(one)][0]} {one.name}" for one in arguments)
        self.do(f"call void @{self._module[write][0]}({given})")

    @contextmanager
    def loop(self, count: Whole) -> Iterator[Whole]:
        """What is written within is done for each number from 0 below ``count``."""
        slot, (first, step) = self.slot("i64"), self._span()
        head, body, done = (f"l{self._name()[2:]}" for _ in range(3))
        self._lines += [f"store i64 {first}, ptr {slot}", f"br label %{head}", f"{head}:"]
        at = Whole(self, self.new(f"load i64, ptr {slot}"))
        more = self.new(f"icmp slt i64 {at.name}, {count.name}")
        self._lines += [f"br i1 {more}, label %{body}, label %{done}", f"{body}:"]
        yield at
        after = self.new(f"add nsw i64 {at.name}, {step}")
        self._lines += [f"store i64 {after}, ptr {slot}", f"br label %{head}", f"{done}:"]

    def body(self) -> str:
        """All lines."""
        return "\n".join(f"  {line}" for line in [*self._slots, *self._lines])

    def slot(self, kind: str) -> str:
        """The name of a place for something that changes."""
        name = self._name()
        self._slots.append(f"{name} = alloca {kind}")
        return name

    def _span(self) -> tuple[str, str]:
        """Where the loop that is now begun starts, and how far it goes at a time."""
        return "0", "1"

    def _name(self) -> str:
        self._count += 1
        return f"%v{self._count}"


Argument = Array | Words | Bits | Whole | Number
_KINDS = {Whole: ("i64", c_int64), Number: ("float", c_float)} | dict.fromkeys((Array, Words, Bits), ("ptr", c_int64))


@lru_cache
def function(write: Write) -> Callable[..., None]:
    """The machine code of what ``write`` writes."""
    module: dict[Write, tuple[str, str]] = {}
    name = _define(write, module)
    text = "\n".join([intrinsics(), *(definition for _, definition in module.values())])
    arguments = tuple(_KINDS[kind][1] for kind in _parameters(write).values())
    return machine_code(text, name, arguments, vectors=True)


def _define(write: Write, module: dict[Write, tuple[str, str]], linkage: str = "", attribute: str = "") -> str:
    """Put a function into a module; its name. Vectors of 512 bits are a quarter faster where there are any."""
    code = Code(module)
    arguments = written(code, write)
    known: Any = write.__name__
    name = f"{known}{len(module)}"
    start = f'define {linkage} void @{name}({arguments}) {attribute} "prefer-vector-width"="512"'
    module[write] = name, f"{start} {{\n{code.body()}\n  ret void\n}}"
    return name


def written(code: Code, write: Write) -> str:
    """Write a function's body; its parameters, as LLVM's language has them."""
    kinds = _parameters(write)
    write(code, *(kind(code, f"%{name}") for name, kind in kinds.items()))
    return ", ".join(f"{_KINDS[k][0]}{' noalias' * (_KINDS[k][0] == 'ptr')} %{n}" for n, k in kinds.items())


def _parameters(write: Write) -> dict[str, Any]:
    return {name: kind for name, kind in write.__annotations__.items() if kind in _KINDS}
