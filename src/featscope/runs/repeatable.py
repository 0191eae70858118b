"""What a GPU is asked for while a run is on it: the same numbers every time, as far as torch has them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_WARN = 1  # that there is no deterministic kernel, and go on


@contextmanager
def repeatable(device: str) -> Iterator[None]:
    """Let a GPU of CUDA sum in one order every time, and take convolutions in whole float32, as products are.

    Else what is resumed could not be what an untouched run is. torch warns of kernels that it has in no such form. All
    settings are as before afterwards, but for the workspace of cuBLAS, which is read once. The CPU is left alone.

    Args:
        device: "cpu", "cuda" or "cuda:N".
    """
    if torch.device(device).type != "cuda":
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before the first product
    cudnn: Any = torch.backends.cudnn
    convolutions, name, whole = _precision(cudnn)
    mode, benchmark, precision = torch.get_deterministic_debug_mode(), cudnn.benchmark, getattr(convolutions, name)
    try:
        torch.set_deterministic_debug_mode(max(mode, _WARN))
        cudnn.benchmark = False  # which takes what is fastest at the moment
        setattr(convolutions, name, whole)
        yield
    finally:
        torch.set_deterministic_debug_mode(mode)
        cudnn.benchmark = benchmark
        setattr(convolutions, name, precision)


def _precision(cudnn: Any) -> tuple[Any, str, Any]:
    """Where torch keeps how precise convolutions are, under which name, and what is whole float32 there."""
    if hasattr(cudnn, "conv"):
        return cudnn.conv, "fp32_precision", "ieee"
    return cudnn, "allow_tf32", False  # before torch 2.9
