"""What is tried, part by part, each in a process of its own: kvpress changes attention where it is imported."""

import logging
from dataclasses import dataclass, field
from typing import Any, Literal

from benchmarks.long_prompt import Bench

CHECKS = ("methods", "presses", "models", "padding", "beams", "sampling", "turns", "kernels", "quantised")
Part = Literal[
    "methods", "presses", "models", "padding", "beams", "sampling", "turns", "kernels", "quantised", "costs", "accuracy"
]


@dataclass(frozen=True)
class Against:
    """What is tried.

    Attributes:
        only: parts that are run anew; all of them if none is named.
        prompts: that the small model is asked.
        length: tokens of each.
        keeps: tokens kept of them.
        seed: of these prompts.
        timed: what is timed; its ``layer`` chooses.
        write: put the tables into docs/kvpress.md.
    """

    only: tuple[Part, ...] = ()
    prompts: int = 96
    length: int = 512
    keeps: tuple[int, ...] = (64, 128)
    seed: int = 0
    timed: Bench = field(default_factory=lambda: Bench(threads=1))
    write: bool = False


def tried(part: str, library: str) -> Any:
    """One part, of one library."""
    from benchmarks.against_kvpress import checks, methods, turns

    _settle(1)
    found = {"methods": methods.methods, "presses": methods.presses, "turns": turns.turns}
    return (found.get(part) or getattr(checks, part))(library)


def measured(part: str, asked: Against) -> Any:
    """Times or answers, of both libraries in turns."""
    from benchmarks.against_kvpress import accuracy, costs

    _settle(asked.timed.threads)
    if part == "costs":
        return costs.costs(asked.timed)
    return accuracy.accuracy(asked.prompts, asked.length, asked.keeps, asked.seed)


def _settle(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)
    logging.getLogger("kvpress").setLevel(logging.ERROR)  # it warns at each prompt
