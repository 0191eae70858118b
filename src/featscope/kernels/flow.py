"""A step of a stiff differential equation as machine code, for eight trajectories at a time.

The code is written from the equation's one statement in torch, see `featscope.kernels.trace`: its rate, its Jacobian
and the factors of the matrix of a step, operation by operation, each on `LANES` trajectories, which a processor does in
one or two instructions. `featscope.training.rosenbrock` is what it stands in for, and what it is tested against.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from featscope.kernels import Attempt, Tableau
from featscope.kernels.machine import machine_code
from featscope.kernels.trace import ZERO, Expressions, NotTraceableError, Traced

LANES = 8
_NUMBERS = f"<{LANES} x double>"
_SQRT = f"@llvm.sqrt.v{LANES}f64"
_NAMES = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}

Velocity = Callable[[Tensor, Tensor], Tensor]
"""(states [state, trajectory], constants [constant, trajectory]) -> dy/dt."""


def compiled(velocity: Velocity, states: int, constants: int, tableau: Tableau) -> Attempt:
    """A step of ``velocity`` in machine code.

    Raises:
        NotTraceableError: the equation does what cannot be traced.
    """
    layout = _Layout(states, constants, len(tableau.c))
    step = machine_code(_written(velocity, layout, tableau), "step")

    def attempt(
        y: Float[Tensor, "state trajectory"], of: Float[Tensor, "constant trajectory"], h: Float[Tensor, " trajectory"]
    ) -> tuple[Float[Tensor, "state trajectory"], Float[Tensor, "state trajectory"]]:
        count, given = y.shape[1], layout.given
        blocks = -(-count // LANES)
        passed = torch.ones(given, blocks * LANES, dtype=torch.float64, device="cpu")  # where there is no trajectory
        torch.cat([y, of, h[None]], out=passed[:, :count])
        memory = torch.empty(blocks, given + 2 * states, LANES, dtype=torch.float64, device="cpu")
        memory[:, :given] = passed.view(given, blocks, LANES).transpose(0, 1)
        step(memory.data_ptr(), blocks)
        ends = memory[:, given:].transpose(0, 1).reshape(2 * states, -1)[:, :count]
        error = ends[states:]  # the last stage corrects the one before, and its own size is the error
        return ends[:states] + error, error

    return attempt


@dataclass
class _Layout:
    """Where numbers stand in the memory of a block: states, constants and h, given; then what is made of them.

    The solution of a system stands in place of its right-hand side, after the point of the stage: they are what a step
    ends with.
    """

    states: int
    constants: int
    stages: int

    def __post_init__(self) -> None:
        self.h = self.states + self.constants
        self.given = self.h + 1
        self.at = self.given
        self.right = self.at + self.states
        self.stage = self.right + self.states
        self.matrix = self.stage + self.states * self.stages
        self.size = self.matrix + self.states**2


@dataclass
class _Function:
    """A function of the memory of a block that is being written."""

    name: str
    lines: list[str] = field(default_factory=list)

    def load(self, place: int) -> str:
        """The numbers at a place."""
        return self._new(f"load {_NUMBERS}, ptr {self._pointer(place)}, align {8 * LANES}")

    def store(self, value: str, place: int) -> None:
        """Put numbers at a place."""
        self.lines.append(f"store {_NUMBERS} {value}, ptr {self._pointer(place)}, align {8 * LANES}")

    def do(self, operation: str, a: str, b: str) -> str:
        """a + b, say."""
        return self._new(f"{_NAMES[operation]} {_NUMBERS} {a}, {b}")

    def root(self, a: str) -> str:
        """The square root."""
        return self._new(f"call {_NUMBERS} {_SQRT}({_NUMBERS} {a})")

    def total(self, weights: Sequence[float], places: Sequence[int]) -> str:
        """A weighted sum of what is at some places."""
        terms = [self.do("*", constant(w), self.load(at)) for w, at in zip(weights, places, strict=True)]
        total = terms[0]
        for term in terms[1:]:
            total = self.do("+", total, term)
        return total

    def text(self) -> str:
        """Its definition."""
        body = "\n".join(f"  {line}" for line in self.lines)
        return f"define internal void @{self.name}(ptr %w) noinline {{\n{body}\n  ret void\n}}"

    def _pointer(self, place: int) -> str:
        return self._new(f"getelementptr double, ptr %w, i64 {place * LANES}")

    def _new(self, value: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {value}")
        return name


def constant(value: float) -> str:
    """The same number in all lanes."""
    bits = struct.pack(">d", value).hex()
    return "<" + ", ".join([f"double 0x{bits}"] * LANES) + ">"


def _written(velocity: Velocity, layout: _Layout, tableau: Tableau) -> str:
    """The module whose function ``step`` takes the memory of blocks, and their number."""
    of = Expressions()
    inputs = torch.tensor([[of.input(place)] for place in range(layout.h)])
    with torch.no_grad():
        moved = velocity(*(Traced(part, of) for part in inputs.split([layout.states, layout.constants])))
    numbers: Tensor = moved.numbers  # type: ignore[attr-defined]
    if numbers.shape != (layout.states, 1):
        raise NotTraceableError(f"the rate of one trajectory has shape {tuple(numbers.shape)}: it knows of others")
    rates = numbers[:, 0].tolist()
    slopes = of.derivatives()
    jacobian = [[slopes[rate].get(by, ZERO) for by in range(layout.states)] for rate in rates]
    factors, there = _factors(of, jacobian, layout, tableau.gamma)
    functions = [_rate(of, rates, layout), factors, _solution(there, layout)]
    calls = []
    for stage in range(layout.stages):
        point, side = _stage(stage, layout, tableau)
        functions += [point, side]
        calls += [point.name, *(["factors"] if stage == 0 else []), "rate", side.name, "solution"]
    return "\n".join([f"declare {_NUMBERS} {_SQRT}({_NUMBERS})", *(f.text() for f in functions), _loop(calls, layout)])


def _expressions(of: Expressions, wanted: Sequence[int], into: _Function, layout: _Layout) -> dict[int, str]:
    """What is ``wanted`` and all that it is made of: number -> its name in the function."""
    needed: set[int] = set()
    todo = list(wanted)
    while todo:
        if (one := todo.pop()) not in needed:
            needed.add(one)
            kind, a, b = of.all[one]
            todo += [int(a), int(b)] if kind not in ("constant", "input") else []
    names: dict[int, str] = {}
    for one in sorted(needed):
        kind, a, b = of.all[one]
        if kind == "constant":
            names[one] = constant(a)
        elif kind == "input":
            names[one] = into.load(layout.at + int(a) if a < layout.states else int(a))
        elif kind == "sqrt":
            names[one] = into.root(names[int(a)])
        else:
            names[one] = into.do(kind, names[int(a)], names[int(b)])
    return names


def _rate(of: Expressions, rates: Sequence[int], layout: _Layout) -> _Function:
    made = _Function("rate")
    names = _expressions(of, rates, made, layout)
    for i, rate in enumerate(rates):
        made.store(names[rate], layout.right + i)
    return made


def _factors(
    of: Expressions, jacobian: Sequence[Sequence[int]], layout: _Layout, gamma: float
) -> tuple[_Function, set[tuple[int, int]]]:
    """L and U of I/(γh) - J, and which of their entries are not 0; U's diagonal is inverted.

    Without pivoting: a matrix that wants it makes the step fail, and the next one is shorter, which needs none.
    """
    made, n = _Function("factors"), layout.states
    names = _expressions(of, [one for row in jacobian for one in row], made, layout)
    identity = made.do("/", constant(1 / gamma), made.load(layout.h))
    m = {
        (i, j): made.do("-", identity if i == j else constant(0.0), names[one])
        for i, row in enumerate(jacobian)
        for j, one in enumerate(row)
        if i == j or one != ZERO
    }
    for k in range(n):
        m[k, k] = made.do("/", constant(1.0), m[k, k])
        for i in (i for i in range(k + 1, n) if (i, k) in m):
            m[i, k] = made.do("*", m[i, k], m[k, k])
            for j in (j for j in range(k + 1, n) if (k, j) in m):
                m[i, j] = made.do("-", m.get((i, j), constant(0.0)), made.do("*", m[i, k], m[k, j]))
    for (i, j), name in m.items():
        made.store(name, layout.matrix + i * n + j)
    return made, set(m)


def _solution(there: set[tuple[int, int]], layout: _Layout) -> _Function:
    """Solves L U x = right, in place."""
    made, n = _Function("solution"), layout.states
    x = [made.load(layout.right + i) for i in range(n)]

    def less(i: int, others: range) -> None:
        for j in others:
            if (i, j) in there:
                x[i] = made.do("-", x[i], made.do("*", made.load(layout.matrix + i * n + j), x[j]))

    for i in range(n):
        less(i, range(i))
    for i in reversed(range(n)):
        less(i, range(i + 1, n))
        x[i] = made.do("*", x[i], made.load(layout.matrix + i * n + i))
        made.store(x[i], layout.right + i)
    return made


def _stage(stage: int, layout: _Layout, tableau: Tableau) -> tuple[_Function, _Function]:
    """What puts the solution before a stage and then its point in place, and what makes the right-hand side."""
    point, side = _Function(f"point{stage}"), _Function(f"side{stage}")
    h = side.load(layout.h)
    for i in range(layout.states):
        before = [layout.stage + j * layout.states + i for j in range(stage)]
        if stage:
            point.store(point.load(layout.right + i), before[-1])
        now = point.load(i)
        if stage == layout.stages - 1:
            now = point.do("+", point.load(layout.at + i), point.load(before[-1]))
        elif stage:
            now = point.do("+", now, point.total(tableau.a[stage], before))
        point.store(now, layout.at + i)
        if stage:
            made_before = side.do("/", side.total(tableau.c[stage], before), h)
            side.store(side.do("+", side.load(layout.right + i), made_before), layout.right + i)
    return point, side


def _loop(calls: Sequence[str], layout: _Layout) -> str:
    """For each block: takes what is given into memory that stays in the processor's cache, calls functions on it, and
    puts the point and the solution of the last stage behind what is given."""
    size = 8 * LANES  # of one number in all lanes, in bytes
    given, ends = size * layout.given, size * 2 * layout.states
    body = "\n".join(f"  call void @{name}(ptr %w)" for name in calls)
    return f"""
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define void @step(ptr %memory, i64 %blocks) {{
start:
  %w = alloca [{size * layout.size} x i8], align {size}
  %end = getelementptr i8, ptr %w, i64 {size * layout.at}
  br label %next
next:
  %block = phi i64 [ 0, %start ], [ %after, %next ]
  %place = mul i64 %block, {given + ends}
  %in = getelementptr i8, ptr %memory, i64 %place
  %out = getelementptr i8, ptr %in, i64 {given}
  call void @llvm.memcpy.p0.p0.i64(ptr %w, ptr %in, i64 {given}, i1 false)
{body}
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %end, i64 {ends}, i1 false)
  %after = add i64 %block, 1
  %more = icmp slt i64 %after, %blocks
  br i1 %more, label %next, label %done
done:
  ret void
}}"""
