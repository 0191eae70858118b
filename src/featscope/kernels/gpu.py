"""The same loops on a GPU of NVIDIA's: random words, to the bit the processor's, and what is done number by number.

What is written for the processor as loops, one in the other, is shared out here: the turns of the innermost among
threads, those of the others among rows of the grid. LLVM writes it in PTX, which the driver compiles; neither needs a
toolkit.
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
from featscope.kernels.loops import Argument, Code, Write, written

_OLDEST = 7, 5
"""Compute capability that is compiled for; what is later runs it, too (Turing, 2018)."""
_TRIPLE = "nvptx64-nvidia-cuda"
_THREADS = 256
_ROWS = 65535  # that a grid has at most
PLACES = "tid.x", "ntid.x", *(f"{of}.{axis}" for axis in "xyz" for of in ("ctaid", "nctaid"))
"""What a thread knows of where it is: its place and how many there are, in its block and along the axes of the grid."""


class DriverError(RuntimeError):
    """The driver of the GPU refuses what it is asked for."""


def suits(device: torch.device) -> bool:
    """Whether a device is such a GPU, and LLVM as it is installed writes code for one."""
    if device.type != "cuda" or torch.version.hip is not None or not _is_known():
        return False
    return torch.cuda.get_device_capability(device) >= _OLDEST


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
    rows = len(replicas)
    blocks = out.numel() // (4 * max(1, rows))
    launch(WRITERS[kind], (rows, blocks), out, replicas, rows, blocks, *address)


def launch(write: Write, sizes: tuple[int, ...], *arguments: Tensor | int | float) -> None:
    """Run what ``write`` writes, on the GPU of its first argument.

    Args:
        write: loops, one in the other, whose turns may be taken in any order.
        sizes: how many turns each loop has, the outermost first; one to three.
        arguments: what the function takes; tensors by their address.

    Raises:
        DriverError: the driver has no room, say.
    """
    if 0 in sizes:
        return
    device = next(one.device for one in arguments if isinstance(one, Tensor))
    with torch.cuda.device(device):
        call = _loaded(write, len(sizes), device)
        given = [_as_c(one) for one in arguments]
        places = (ctypes.c_void_p * len(given))(*(ctypes.addressof(one) for one in given))
        *outer, last = sizes
        grid = [-(-last // _THREADS), *(min(size, _ROWS) for size in reversed(outer)), 1, 1][:3]
        stream = ctypes.c_void_p(torch.cuda.current_stream(device).cuda_stream)
        _asked("cuLaunchKernel", call, *grid, _THREADS, 1, 1, 0, stream, places, None)


def _as_c(argument: Tensor | int | float) -> Any:
    if isinstance(argument, float):
        return ctypes.c_float(argument)
    return ctypes.c_int64(argument.data_ptr() if isinstance(argument, Tensor) else argument)


class Shared(Code):
    """A body of loops, one in the other, whose turns are shared out: the innermost loop's among threads.

    Args:
        loops: how many there are.
    """

    def __init__(self, loops: int) -> None:
        super().__init__({})
        self._loops = loops

    def call(self, write: Write, *arguments: Argument) -> None:
        """What another function does, in its place."""
        write(self, *arguments)

    def _span(self) -> tuple[str, str]:
        self._loops -= 1
        if self._loops:
            axis = "xyz"[self._loops]
            return self._place(f"ctaid.{axis}"), self._place(f"nctaid.{axis}")
        size, thread, block, blocks = (self._place(f"{of}.x") for of in ("ntid", "tid", "ctaid", "nctaid"))
        first = self.new(f"mul nsw i64 {block}, {size}")
        return self.new(f"add nsw i64 {first}, {thread}"), self.new(f"mul nsw i64 {blocks}, {size}")

    def _place(self, name: str) -> str:
        return self.new(f"zext i32 {self.new(f'call i32 @llvm.nvvm.read.ptx.sreg.{name}()')} to i64")


def language(write: Write, loops: int) -> str:
    """What ``write`` writes, in LLVM's language for a GPU: ``loops``, one in the other, around arithmetic.

    Each of them begins where the thread is, and the function is called ``shared``.
    """
    code = Shared(loops)
    arguments = written(code, write)
    declared = [f"declare i32 @llvm.nvvm.read.ptx.sreg.{place}()" for place in PLACES]
    declared.append("declare float @llvm.sqrt.f32(float)")
    return "\n".join([*declared, f"define ptx_kernel void @shared({arguments}) {{", code.body(), "  ret void", "}"])


@lru_cache
def assembly(write: Write, loops: int) -> str:
    """PTX of what ``write`` writes, see `language`."""
    machine = _target().create_target_machine(cpu=f"sm_{_OLDEST[0]}{_OLDEST[1]}", opt=3)
    module = llvm.parse_assembly(f'target triple = "{_TRIPLE}"\n{language(write, loops)}')
    module.data_layout = str(machine.target_data)
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    made: str = machine.emit_assembly(module)
    return made


def _target() -> Any:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(_TRIPLE)


@lru_cache
def _is_known() -> bool:
    try:
        return bool(_target())
    except RuntimeError:  # some builds of LLVM know their own processor alone
        return False


@lru_cache
def _loaded(write: Write, loops: int, device: torch.device) -> ctypes.c_void_p:
    """The function on a device, whose context is the current one."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    _asked("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(assembly(write, loops).encode()))
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
