"""Code for the processor at hand, from LLVM's language."""

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm


@lru_cache
def machine_code(text: str, name: str) -> Callable[..., None]:
    """The function ``name`` of a module of LLVM's language, which takes an address and a count and returns nothing."""
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
    module = llvm.parse_assembly(text)
    module.verify()
    engine.add_module(module)
    engine.finalize_object()
    call: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(engine.get_function_address(name))
    call.engine = engine  # which owns the code
    return call


def _machine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=2
    )
