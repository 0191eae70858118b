"""`python -m benchmarks.one_core`: processor time of a training step on one core, which other work changes little.

For machines that are never quiet, where seconds by the clock say more of the others than of the program. A step in
closed form with machine code, in closed form in torch, by autograd, in JAX, and the floor, in turns.
"""

import os

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from unittest.mock import patch

import torch

from benchmarks.floor import Rates, StepCost
from benchmarks.sizes import DEFAULT, SMALL
from benchmarks.step import jax_program
from featscope.allocator import keep_freed_memory
from featscope.streams import Streams
from featscope.studies.imbalance import Imbalance
from featscope.studies.pruning import Pruning
from featscope.training import Training, gradient

ROUNDS, OF_THE_FLOOR = 9, 2  # whose measurement takes longer than all else
RESULTS = Path("benchmarks/results.json")


def steps_of(recipe: Training, replicas: int, steps: int, kernels: str, closed: bool) -> Callable[[], object]:
    """A program that trains on for some steps."""
    experiment = recipe.build(Streams(0, range(replicas)))

    def run() -> None:
        form = gradient.gradient if closed else lambda *_: None
        with patch.dict(os.environ, FEATSCOPE_KERNELS=kernels), patch.object(gradient, "gradient", form):
            for step in range(steps):
                experiment.advance(step)

    return run


def compare(recipe: Training, replicas: int, steps: int, outside: bool) -> dict[str, float]:
    """Seconds of processor time a step of all programs; with JAX and the floor where ``outside``."""
    programs = {
        "featscope": steps_of(recipe, replicas, steps, "llvm", closed=True),
        "torch": steps_of(recipe, replicas, steps, "torch", closed=True),
        "autograd": steps_of(recipe, replicas, steps, "torch", closed=False),
    }
    if outside:
        programs["jax"] = jax_program(recipe, replicas, steps)
    found: dict[str, list[float]] = {name: [] for name in (*programs, *(["floor"] if outside else []))}
    for turn in range(ROUNDS):
        for name, program in programs.items():
            began = time.process_time()
            program()
            found[name].append((time.process_time() - began) / steps)
        if outside and turn < OF_THE_FLOOR:
            rates = Rates.measure(1, time.process_time)
            torch.set_num_threads(1)
            found["floor"].append(replicas * StepCost.of(recipe).floor(rates))
    return {name: median(times) for name, times in found.items()}


def main(name: str = "one_core_processor_seconds_a_step") -> None:
    """Measure everything, print, and put it into ``benchmarks/results.json`` under ``name``."""
    torch.set_num_threads(1)
    keep_freed_memory()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    pruning = {arm.name: arm.recipe for arm in Pruning().arms()}
    rows = []
    for size, recipe, replicas, steps, outside in (
        ("default", DEFAULT, 1, 8, True),
        ("default", DEFAULT, 4, 2, True),
        ("default", DEFAULT, 16, 1, True),
        ("small nets", SMALL, 1, 100, True),
        ("small nets", SMALL, 4, 40, True),
        ("small nets", SMALL, 16, 10, True),
        ("small nets", SMALL, 32, 5, True),
        ("imbalance", Imbalance().arm("imbalanced").recipe, 4, 4, False),
        ("pruning", pruning["stationary"], 4, 4, False),
    ):
        rows.append({"size": size, "replicas": replicas} | compare(recipe, replicas, steps, outside))
        shown = {of: f"{1e3 * value:.3f} ms" for of, value in rows[-1].items() if isinstance(value, float)}
        print(size, replicas, shown, flush=True)
    results = json.loads(RESULTS.read_text())
    RESULTS.write_text(json.dumps(results | {name: rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
