"""Matrix products in machine code: a tile of the result stays in registers while the whole depth passes by.

Columns of the right matrix are packed panel by panel, each of two registers' width, and stay in the cache while all
rows pass; the left matrix is read where it lies (after Goto & van de Geijn 2008, "Anatomy of high-performance matrix
multiplication"). A tile of 6 x 2 registers and what it is made of fit into 16 of them; where these have 512 bits there
are 32.
"""

from functools import lru_cache

from jaxtyping import Float
from torch import Tensor

from featscope.kernels.loops import Array, Code, Number, W, Whole, Write, function, parts
from featscope.kernels.machine import floats, lanes
from featscope.kernels.vectors import First, read, spread, transposed, write, zeros

_ACROSS = 2  # vectors in a row of a tile, but for a last panel that one covers
_KEPT = 2**14  # float32s of packed panels that are kept at a time, and pass by each row: 64 KiB


def multiplied(
    a: Float[Tensor, "replica row depth"],
    b: Float[Tensor, "replica depth column"],
    onto: Float[Tensor, "replica row column"] | None = None,
    times: float = 1.0,
) -> Float[Tensor, "replica row column"]:
    """a b; or a b + times · onto, in place of ``onto``.

    For tensors that `featscope.kernels.suits` says yes to. The rows of ``onto`` and the rows or columns of b are
    contiguous.
    """
    (replicas, rows, depth), columns = a.shape, b.shape[2]
    out = floats(replicas, rows, columns) if onto is None else onto
    turned, panels = b.stride(2) != 1, floats(room(depth))
    function(_batched(turned, onto is not None))(
        *(a.data_ptr(), *a.stride(), b.data_ptr(), b.stride(0), b.stride(2 if turned else 1)),
        *(out.data_ptr(), *out.stride()[:2], panels.data_ptr(), replicas, rows, depth, columns, times),
    )
    return out


def _height() -> int:
    """Rows of a tile."""
    return 8 if lanes() == 16 else 6


def room(depth: W) -> W:
    """How many float32s the packed panels of products take, of at most some ``depth``."""
    return parts(depth, lanes()) * (lanes() * _ACROSS * lanes()) + _KEPT


@lru_cache
def _batched(turned: bool, onto: bool) -> Write:
    def products(
        code: Code,
        a: Array,
        a_replica: Whole,
        a_down: Whole,
        a_along: Whole,
        b: Array,
        b_replica: Whole,
        b_apart: Whole,
        c: Array,
        c_replica: Whole,
        c_apart: Whole,
        panels: Array,
        replicas: Whole,
        rows: Whole,
        depth: Whole,
        columns: Whole,
        times: Number,
    ) -> None:
        with code.loop(replicas) as r:
            left, right, out = a + r * a_replica, b + r * b_replica, c + r * c_replica
            code.call(
                product(turned, onto),
                *(left, a_down, a_along, right, b_apart, out, c_apart, panels, rows, depth, columns, times),
            )

    return products


@lru_cache
def product(turned: bool, onto: bool) -> Write:
    """The code of one product.

    Args:
        turned: of the right matrix the depth is contiguous, not the columns.
        onto: the result is added to a multiple of what stands in its place.
    """

    def product(
        code: Code,
        a: Array,
        a_down: Whole,
        a_along: Whole,
        b: Array,
        b_apart: Whole,
        c: Array,
        c_apart: Whole,
        panels: Array,
        rows: Whole,
        depth: Whole,
        columns: Whole,
        times: Number,
    ) -> None:
        width, apart_in_b = _ACROSS * lanes(), b_apart if turned else code.whole(1)
        count, size = parts(columns, width), parts(depth, lanes()) * (lanes() * width)
        at_once = parts(code.whole(_KEPT), size)
        with code.loop(parts(count, at_once)) as block:
            before = block * at_once
            here = (count - before).at_most(at_once)
            wide = ((columns + (lanes() - 1)) // width - before).at_most(here)  # but a last one that one vector covers
            with code.loop(here) as j:
                first = (before + j) * width
                pack = _pack_turned if turned else _pack
                code.call(pack, b + first * apart_in_b, b_apart, panels + j * size, depth, columns - first)
            with code.loop(parts(rows, _height())) as i:
                row = i * _height()
                for across, start, number in ((_ACROSS, code.whole(0), wide), (1, wide, here - wide)):
                    with code.loop(number) as j:
                        panel = start + j
                        first = (before + panel) * width
                        there = c + (row * c_apart + first)
                        code.call(
                            _tile(onto, across),
                            *(a + row * a_down, a_down, a_along, panels + panel * size),
                            *(there, c_apart, rows - row - 1, depth, columns - first, times),
                        )

    return product


@lru_cache
def _tile(onto: bool, across: int) -> Write:
    def tile(
        code: Code,
        a: Array,
        down: Whole,
        along: Whole,
        panel: Array,
        c: Array,
        apart: Whole,
        last: Whole,
        depth: Whole,
        columns: Whole,
        times: Number,
    ) -> None:
        places = [
            code.whole(row).at_most(last) for row in range(_height())
        ]  # the last row again where there is no other
        rows = [a + place * down for place in places]
        sums = [[zeros(code) for _ in range(across)] for _ in places]
        with code.loop(depth) as p:
            right = [read(panel + (p * _ACROSS + j) * lanes()) for j in range(across)]
            for row, of_row in zip(rows, sums, strict=True):
                factor = spread(row[p * along])
                for total, one in zip(of_row, right, strict=True):
                    total.add(factor, one)
        found = []
        for place, of_row in zip(places, sums, strict=True):
            for j, total in enumerate(of_row):
                there, seen = c + (place * apart + j * lanes()), First(columns - j * lanes())
                found.append((there, seen, total.now.plus(seen.read(there), spread(times)) if onto else total.now))
        for there, seen, value in found:  # after all are read, as a row may be there twice
            seen.write(there, value)

    return tile


def _pack(code: Code, b: Array, apart: Whole, panel: Array, depth: Whole, columns: Whole) -> None:
    with code.loop(depth) as p:
        for j in range(_ACROSS):
            value = First(columns - j * lanes()).read(b + (p * apart + j * lanes()))
            write(panel + (p * _ACROSS + j) * lanes(), value)


def _pack_turned(code: Code, b: Array, apart: Whole, panel: Array, depth: Whole, columns: Whole) -> None:
    with code.loop(parts(depth, lanes())) as block:
        first = block * lanes()
        seen = First(depth - first)
        for j in range(_ACROSS):
            places = [code.whole(j * lanes() + i).at_most(columns - 1) for i in range(lanes())]
            rows = [seen.read(b + (place * apart + first)) for place in places]
            for i, column in enumerate(transposed(rows)):
                write(panel + ((first + i) * _ACROSS + j) * lanes(), column)
