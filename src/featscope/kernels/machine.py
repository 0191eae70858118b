"""Code for the processor at hand, from LLVM's language."""

import ctypes
import platform
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import torch
from torch import Tensor

from featscope.kernels.code_cache import remembered


@lru_cache
def machine_code(
    text: str, name: str, arguments: tuple[type, ...] = (ctypes.c_int64, ctypes.c_int64), *, vectors: bool = False
) -> Callable[..., None]:
    """The function ``name`` of a module of LLVM's language, which returns nothing.

    Args:
        text: the module.
        name: of the function.
        arguments: kinds of what it takes; addresses and counts are whole numbers.
        vectors: whether its loops are to take as many numbers at a time as the processor's registers hold.
    """
    machine, how = _machine(), Path(__file__).read_text(encoding="utf-8")
    key = version("llvmlite"), llvm.llvm_version_info, machine.triple, *_processor(), how, vectors, text
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    made = remembered("\n".join(map(str, key)), lambda: _compiled(text, vectors))
    engine.add_object_file(llvm.ObjectFileRef.from_data(made))
    engine.finalize_object()
    call: Any = ctypes.CFUNCTYPE(None, *arguments)(engine.get_function_address(name))
    call.engine = engine  # which owns the code
    return call


def _compiled(text: str, vectors: bool) -> bytes:
    """The object file of a module."""
    machine = _machine()
    module = llvm.parse_assembly(text)
    module.verify()
    if vectors:
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
    found: bytes = machine.emit_object(module)
    return found


@lru_cache
def lanes() -> int:
    """How many float32s a register holds."""
    features = llvm.get_host_cpu_features()
    return 16 if features.get("avx512f") else 8 if features.get("avx2") else 4


def floats(*shape: int) -> Tensor:
    """Room for what machine code writes: float32s on the processor, whatever torch makes by default."""
    return torch.empty(shape, dtype=torch.float32, device="cpu")


def intrinsics() -> str:
    """Declarations of what LLVM knows by name and code of float32s uses."""
    numbers, tests = f"<{lanes()} x float>", f"<{lanes()} x i1>"
    waiting = f"declare void {pause}\n" if (pause := waits()) else ""
    return f"""{waiting}declare float @llvm.log.f32(float)
declare float @llvm.sqrt.f32(float)
declare {numbers} @llvm.masked.load.v{lanes()}f32.p0(ptr, i32, {tests}, {numbers})
declare void @llvm.masked.store.v{lanes()}f32.p0({numbers}, ptr, i32, {tests})"""


def waits() -> str:
    """What tells the processor that a loop waits, to be called or declared; empty where LLVM knows nothing of it."""
    return "@llvm.x86.sse2.pause()" if platform.machine().lower() in ("x86_64", "amd64") else ""


def _processor() -> tuple[str, str]:
    """Its name, and what it can do."""
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def _machine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    cpu, features = _processor()
    return llvm.Target.from_default_triple().create_target_machine(cpu=cpu, features=features, opt=2)
