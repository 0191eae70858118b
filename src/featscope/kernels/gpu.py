"""The same loops on a GPU of NVIDIA's: random words in its machine code, to the bit those of the processor.

What is written for the processor as a loop over replicas and one over blocks of numbers is shared out here: replicas
among rows of the grid, blocks among all threads of a row. LLVM writes it in PTX, which the driver compiles; neither
needs a toolkit.
"""

import ctypes
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm
import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from featscope.kernels import philox
from featscope.kernels.draws import WRITERS
from featscope.kernels.loops import Code, Write, written

_OLDEST = 7, 5
"""Compute capability that is compiled for; what is later runs it, too (Turing, 2018)."""
_THREADS = 256
_ROWS = 65535  # that a grid has at most
PLACES = "tid.x", "ntid.x", "ctaid.x", "nctaid.x", "ctaid.y", "nctaid.y"
"""What a thread knows of where it is: its place and how many there are, in its block, in its row, among rows."""


class DriverError(RuntimeError):
    """The driver of the GPU refuses what it is asked for."""


def suits(device: torch.device) -> bool:
    """Whether a device is such a GPU."""
    return device.type == "cuda" and torch.version.hip is None and torch.cuda.get_device_capability(device) >= _OLDEST


def fill(
    kind: philox.Kind, out: Shaped[Tensor, "replica ..."], replicas: Int[Tensor, " replica"], address: Sequence[int]
) -> None:
    """Draw a multiple of four numbers for each replica, as `featscope.kernels.draws.fill` does, on the GPU of ``out``.

    Args:
        kind: of numbers.
        out: receives them, 32 bits each; contiguous, on the GPU.
        replicas: their numbers, int32, there.
        address: number of the first block, then two words of the step and two of the key.

    Raises:
        DriverError: the driver has no room, say.
    """
    rows, device = len(replicas), out.device
    blocks = out.numel() // (4 * max(1, rows))
    if not rows * blocks:
        return
    with torch.cuda.device(device):
        call = _loaded(kind, device)
        numbers = (out.data_ptr(), replicas.data_ptr(), rows, blocks, *address)
        given = [ctypes.c_int64(number) for number in numbers]
        places = (ctypes.c_void_p * len(given))(*(ctypes.addressof(one) for one in given))
        grid = -(-blocks // _THREADS), min(rows, _ROWS), 1
        stream = ctypes.c_void_p(torch.cuda.current_stream(device).cuda_stream)
        _asked("cuLaunchKernel", call, *grid, _THREADS, 1, 1, 0, stream, places, None)


class Shared(Code):
    """A body whose outermost loop is shared out among rows of the grid, and the next one among threads of a row."""

    def __init__(self, module: dict[Write, tuple[str, str]]) -> None:
        super().__init__(module)
        self._loops = 0

    def _span(self) -> tuple[str, str]:
        self._loops += 1
        if self._loops == 1:
            return self._place("ctaid.y"), self._place("nctaid.y")
        if self._loops == 2:
            size, thread = self._place("ntid.x"), self._place("tid.x")
            block, blocks = self._place("ctaid.x"), self._place("nctaid.x")
            first = self.new(f"mul nsw i64 {block}, {size}")
            return self.new(f"add nsw i64 {first}, {thread}"), self.new(f"mul nsw i64 {blocks}, {size}")
        return super()._span()

    def _place(self, name: str) -> str:
        return self.new(f"zext i32 {self.new(f'call i32 @llvm.nvvm.read.ptx.sreg.{name}()')} to i64")


def language(write: Write) -> str:
    """What ``write`` writes, in LLVM's language for a GPU: two loops, one in the other, around arithmetic.

    Each of them begins where the thread is, and the function is called ``shared``.
    """
    code = Shared({})
    arguments = written(code, write)
    declared = [f"declare i32 @llvm.nvvm.read.ptx.sreg.{place}()" for place in PLACES]
    declared.append("declare float @llvm.sqrt.f32(float)")
    return "\n".join([*declared, f"define ptx_kernel void @shared({arguments}) {{", code.body(), "  ret void", "}"])


@lru_cache
def assembly(kind: philox.Kind) -> str:
    """PTX of what draws numbers of a kind."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
    machine = target.create_target_machine(cpu=f"sm_{_OLDEST[0]}{_OLDEST[1]}", opt=3)
    module = llvm.parse_assembly(f'target triple = "nvptx64-nvidia-cuda"\n{language(WRITERS[kind])}')
    module.data_layout = str(machine.target_data)
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    made: str = machine.emit_assembly(module)
    return made


@lru_cache
def _loaded(kind: philox.Kind, device: torch.device) -> ctypes.c_void_p:
    """The function on a device, whose context is the current one."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    _asked("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(assembly(kind).encode()))
    _asked("cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(b"shared"))
    return function


def _asked(name: str, *arguments: Any) -> None:
    """Ask the driver."""
    if failed := getattr(_driver(), name)(*arguments):
        text = ctypes.c_char_p()
        _driver().cuGetErrorString(failed, ctypes.byref(text))
        raise DriverError(f"{name}: {(text.value or b'error').decode()} ({failed})")


@lru_cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
