"""Code for the processor at hand, from LLVM's language."""

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm


@lru_cache
def machine_code(text: str, name: str, arguments: int = 2) -> Callable[..., None]:
    """The function ``name`` of a module of LLVM's language, which takes addresses and counts and returns nothing."""
    machine = _machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    module = llvm.parse_assembly(text)
    module.verify()
    engine.add_module(module)
    engine.finalize_object()
    call: Any = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * arguments)(engine.get_function_address(name))
    call.engine = engine  # which owns the code
    return call


@lru_cache
def vectorized(text: str) -> str:
    """The same module with its loops on as many numbers at a time as the processor's registers hold."""
    machine = _machine()
    module = llvm.parse_assembly(text)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return str(module)


def _machine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=2
    )
