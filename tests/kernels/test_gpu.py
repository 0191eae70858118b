"""Random words on a GPU: what its machine code says, and that its threads draw what a loop draws."""

import ctypes
import re
from itertools import product
from typing import get_args

import pytest
import torch

from featscope.kernels import draws, gpu, philox
from featscope.kernels.machine import machine_code

KINDS = get_args(philox.Kind)
ADDRESS = 5, 7, 1, 0x9ABCDEF0, 0x12345678


@pytest.mark.parametrize("kind", KINDS)
def test_every_operation_on_floats_is_rounded_by_itself(kind):
    said = re.findall(r"^\s+((?:add|sub|mul|fma|mad|div|sqrt|cvt\S*)\.\S*f32\S*)", gpu.assembly(kind), re.MULTILINE)
    assert bool(said) == (kind != "word")
    assert not [operation for operation in said if operation.split(".")[1] != "rn"]
    assert not re.search(r"fma|mad\.f|\.ftz|approx", gpu.assembly(kind))


class Grid:
    """What `gpu.language` writes, run by the processor one thread of the grid after the other."""

    def __init__(self, kind: philox.Kind) -> None:
        self.places = (ctypes.c_int32 * len(gpu.PLACES))()
        text = gpu.language(draws.WRITERS[kind]).replace("ptx_kernel ", "")
        text = re.sub(r"declare i32 @llvm\.nvvm.*\n", "", text)
        for at, place in enumerate(gpu.PLACES):
            address = ctypes.addressof(self.places) + 4 * at
            text = text.replace(
                f"call i32 @llvm.nvvm.read.ptx.sreg.{place}()",
                f"load volatile i32, ptr inttoptr (i64 {address} to ptr)",
            )
        self.call = machine_code(text, "shared", (ctypes.c_int64,) * 9)

    def run(self, threads: int, columns: int, rows: int, *given: int) -> None:
        for thread, column, row in product(range(threads), range(columns), range(rows)):
            self.places[:] = [thread, threads, column, columns, row, rows]
            self.call(*given)


@pytest.mark.parametrize("grid", [(4, 3, 2), (1, 1, 1), (8, 8, 8)])
@pytest.mark.parametrize("kind", KINDS)
def test_threads_of_a_grid_of_any_size_draw_what_a_loop_draws(kind, grid):
    replicas, blocks = torch.tensor([3, 0, 2**31 - 1, 17, 9], dtype=torch.int32), 26
    wanted, found = torch.empty(2, 5, 4 * blocks, dtype=torch.int32).fill_(-1)
    draws.fill(kind, wanted, replicas, ADDRESS)
    Grid(kind).run(*grid, found.data_ptr(), replicas.data_ptr(), 5, blocks, *ADDRESS)
    assert torch.equal(found, wanted)
    assert len(wanted.unique()) > 0.9 * wanted.numel()
