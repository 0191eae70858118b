"""Seconds and peak memory of a program on a GPU or a CPU, where running out of memory is an answer, too."""

import gc
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from featscope.options import ConfigError
from featscope.training.memory import peak_bytes

Program = Callable[[], Any]


@dataclass(frozen=True)
class Cell:
    """What came of a program.

    Attributes:
        said: "measured", or what came in between.
        seconds: of each round; of none if something came in between.
        peak: bytes of tensors in the first round, beyond those that were there before.
        output: what it returned last.
    """

    said: str
    seconds: tuple[float, ...] = ()
    peak: int = 0
    output: Any = None


def tried(make: Callable[[], Program], device: str, rounds: int, patience: float) -> Cell:
    """Make a program and run it, as often as ``rounds`` until ``patience`` seconds are spent, and once in any case.

    What it cannot do here is said, and nothing is raised: a refusal, too little memory, or an error.
    """
    try:
        return _measured(make(), device, rounds, patience)
    except ConfigError as error:
        said = f"not tried: {error}"
    except torch.OutOfMemoryError:
        said = "out of memory"
    except Exception as error:
        traceback.print_exc()
        said = f"error: {type(error).__name__}: {str(error)[:160]}"
    gc.collect()  # the traceback is gone, and with it what it held
    if device != "cpu":
        torch.cuda.empty_cache()
    return Cell(" ".join(said.split()))


def _measured(program: Program, device: str, rounds: int, patience: float) -> Cell:
    seconds: list[float] = []
    gc.collect()
    before = 0
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    output, took = _timed(program, device)
    peak = peak_bytes(program) if device == "cpu" else torch.cuda.max_memory_allocated() - before
    seconds.append(took)
    while len(seconds) < rounds and sum(seconds) < patience:
        del output
        gc.collect()
        output, took = _timed(program, device)
        seconds.append(took)
    return Cell("measured", tuple(seconds), peak, output)


def _timed(program: Program, device: str) -> tuple[Any, float]:
    gc.disable()  # a collection takes longer than a short prompt
    try:
        began = _now(device)
        output = program()
        return output, _now(device) - began
    finally:
        gc.enable()


def _now(device: str) -> float:
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter()
