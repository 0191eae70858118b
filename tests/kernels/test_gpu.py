"""Random words on a GPU: what its machine code says, and that its threads draw what a loop draws."""

import ctypes
import inspect
import re
from itertools import product
from typing import get_args

import pytest
import torch

from featscope.kernels import draws, gpu, philox, rows
from featscope.kernels.loops import Number, Write, function
from featscope.kernels.machine import machine_code
from featscope.runs.environment import _in_machine_code

KINDS = get_args(philox.Kind)
ADDRESS = 5, 7, 1, 0x9ABCDEF0, 0x12345678


@pytest.mark.parametrize("kind", KINDS)
def test_every_operation_on_floats_is_rounded_by_itself(kind):
    said = re.findall(
        r"^\s+((?:add|sub|mul|fma|mad|div|sqrt|cvt\S*)\.\S*f32\S*)", gpu.assembly(draws.WRITERS[kind], 2), re.MULTILINE
    )
    assert bool(said) == (kind != "word")
    assert not [operation for operation in said if operation.split(".")[1] != "rn"]
    assert not re.search(r"fma|mad\.f|\.ftz|approx", gpu.assembly(draws.WRITERS[kind], 2))


@pytest.fixture(autouse=True)
def _what_is_compiled_here_is_not_kept(tmp_path, monkeypatch):
    """It has addresses of this process in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


class Grid:
    """What `gpu.language` writes, run by the processor one thread of the grid after the other."""

    def __init__(self, write: Write, loops: int) -> None:
        self.places, self.loops = (ctypes.c_int32 * len(gpu.PLACES))(), loops
        text = gpu.language(write, loops).replace("ptx_kernel ", "")
        text = re.sub(r"declare i32 @llvm\.nvvm.*\n", "", text)
        for at, place in enumerate(gpu.PLACES):
            address = ctypes.addressof(self.places) + 4 * at
            known = f"load volatile i32, ptr inttoptr (i64 {address} to ptr)"
            text = text.replace(f"call i32 @llvm.nvvm.read.ptx.sreg.{place}()", known)
        kinds = [write.__annotations__[name] for name in inspect.signature(write).parameters if name != "code"]
        self.call = machine_code(
            text, "shared", tuple(ctypes.c_float if kind is Number else ctypes.c_int64 for kind in kinds)
        )

    def run(self, threads: int, grid: tuple[int, int, int], *arguments: torch.Tensor | float) -> None:
        grid = (*grid[: self.loops], 1, 1)[:3]
        given = [one.data_ptr() if isinstance(one, torch.Tensor) else one for one in arguments]
        for thread, *at in product(range(threads), *map(range, grid)):
            along = (number for pair in zip(at, grid, strict=True) for number in pair)
            self.places[:] = [thread, threads, *along]
            self.call(*given)


@pytest.mark.parametrize("grid", [(4, (3, 2, 1)), (1, (1, 1, 1)), (8, (8, 8, 1))])
@pytest.mark.parametrize("kind", KINDS)
def test_threads_of_a_grid_of_any_size_draw_what_a_loop_draws(kind, grid):
    replicas, blocks = torch.tensor([3, 0, 2**31 - 1, 17, 9], dtype=torch.int32), 26
    wanted, found = torch.empty(2, 5, 4 * blocks, dtype=torch.int32).fill_(-1)
    draws.fill(kind, wanted, replicas, ADDRESS)
    Grid(draws.WRITERS[kind], 2).run(*grid, found, replicas, 5, blocks, *ADDRESS)
    assert torch.equal(found, wanted)
    assert len(wanted.unique()) > 0.9 * wanted.numel()


def _arguments(name: str) -> tuple[Write, int, list[torch.Tensor | float]]:
    """A function of `rows`, its loops, and what it may be given."""
    x = torch.randn(3, 5, 20, generator=torch.Generator().manual_seed(0))
    some = {
        "shrunk": (rows.shrunk, 3, [x, x[:, 0].abs().contiguous(), *x.shape]),
        "signed": (rows.signed, 1, [x, x.numel(), -0.5, 0.25]),
        "descend": (rows._descend, 1, [x, x.flip(0), x.numel(), 0.99, 0.25]),
    }
    coins = torch.arange(3 * 5 * 3).mul(77).to(torch.uint8).view(3, -1)
    halves = torch.full((2, *x.shape), torch.nan)
    some["halves"] = (rows._halves, 3, [x, coins, *halves, *x.shape, x.stride(0), coins.shape[1], 3])
    return some[name]


@pytest.mark.parametrize("grid", [(4, (3, 2, 2)), (1, (1, 1, 1)), (8, (8, 8, 8))])
@pytest.mark.parametrize("name", ["shrunk", "signed", "descend", "halves"])
def test_threads_take_each_turn_of_the_loops_once(name, grid):
    (write, loops, here), (*_, there) = _arguments(name), _arguments(name)
    Grid(write, loops).run(*grid, *here)
    function(write)(*(one.data_ptr() if isinstance(one, torch.Tensor) else one for one in there))
    for one, other in zip(here, there, strict=True):
        if isinstance(one, torch.Tensor):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)
            assert not one.isnan().any() if one.is_floating_point() else True
    assert "ld.local" not in gpu.assembly(write, loops)


def test_an_llvm_that_knows_no_gpu_is_not_asked_for_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    assert gpu.suits(torch.device("cuda"))
    monkeypatch.setattr(gpu, "_is_known", lambda: False)
    assert not gpu.suits(torch.device("cuda"))


@pytest.mark.parametrize("capability", [(7, 0), (6, 1)])
def test_older_gpus_have_their_numbers_from_the_processor(monkeypatch, capability):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert not gpu.suits(torch.device("cuda"))


@pytest.mark.parametrize("able", [True, False])
def test_a_run_on_a_gpu_says_what_ran_its_code(monkeypatch, able):
    monkeypatch.setattr(gpu, "suits", lambda device: able)
    assert _in_machine_code("cuda:0") is able
    monkeypatch.setenv("FEATSCOPE_KERNELS", "torch")
    assert not _in_machine_code("cuda:0")
