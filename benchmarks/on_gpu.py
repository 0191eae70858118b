"""`python -m benchmarks.on_gpu --out FILE`: milliseconds of a training step on a GPU, beside what bounds them.

The same sizes as on the processor and larger ones. Programs take turns within a size; the processor's own step, on all
of its cores, is measured first, before CUDA is in use, as its workers are forked.
"""

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # as in a run

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import torch
import tyro

from benchmarks.compare import turns
from benchmarks.floor import StepCost, seconds
from benchmarks.sizes import DEFAULT, SMALL
from benchmarks.step import engine, jax_program
from featscope.kernels import gpu
from featscope.runs.environment import environment
from featscope.runs.repeatable import repeatable
from featscope.streams import Streams
from featscope.threads import cores
from featscope.training import GradientTraining, Training, gradient

SIZES: tuple[tuple[str, Training, int, int, bool], ...] = (  # name, recipe, replicas, steps, also on the processor
    ("small nets", SMALL, 1, 100, True),
    ("small nets", SMALL, 64, 100, True),
    ("small nets", SMALL, 1024, 40, True),
    ("default", DEFAULT, 128, 10, True),
    ("default", DEFAULT, 8, 60, True),
    ("default", DEFAULT, 1, 60, True),
    ("default", DEFAULT, 32, 30, True),
    ("default", DEFAULT, 512, 5, False),
    ("small nets", SMALL, 8192, 10, False),
)


@dataclass(frozen=True)
class Bench:
    """What is measured.

    Attributes:
        out: file of JSON that receives all.
        device: the GPU; "cpu" to try the program.
        rounds: turns that each program takes; the median counts.
        seconds: after so many no further size is begun.
    """

    out: Path
    device: str = "cuda"
    rounds: int = 5
    seconds: float = 120


def steps_of(
    recipe: Training, replicas: int, steps: int, device: str, *, drawn_there: bool = True
) -> Callable[[], float]:
    """A program that trains on for some steps, with numbers drawn on the GPU or on the processor; seconds a step."""
    drawn = patch.object(gpu, "suits", lambda _: drawn_there)
    with drawn:
        experiment = recipe.build(Streams(0, range(replicas), device))
    done = 0

    def run() -> float:
        nonlocal done
        with drawn:
            began = _now(device)
            for step in range(done, done + steps):
                experiment.advance(step)
            took = (_now(device) - began) / steps
        done += steps
        return took

    run()
    return run


def replayed(recipe: Training, replicas: int, steps: int, device: str) -> Callable[[], float]:
    """What a step takes where a CUDA graph launches it, with the numbers of one step and no look at the loss."""
    experiment = recipe.build(Streams(0, range(replicas), device))
    assert isinstance(experiment, GradientTraining)

    def step() -> None:
        draws = experiment.streams.at("batch", 3)
        gradient.gradient(experiment.seen(), experiment.source, experiment.objective, draws)
        experiment.optimizer.step()

    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def run() -> float:
        began = _now(device)
        for _ in range(steps):
            graph.replay()
        return (_now(device) - began) / steps

    run()
    return run


def rates(device: str) -> dict[str, float]:
    """Floating-point operations of float32 products a second (square, 8192), normals a second, and bytes copied."""
    side = 8192 if device != "cpu" else 1024
    a, b = torch.randn(2, side, side, device=device)
    streams, shape = Streams(0, range(256), device), (512, 512) if device != "cpu" else (32, 32)
    large = torch.empty(2**30 if device != "cpu" else 2**20, dtype=torch.uint8, device=device)

    def waited(compute: Callable[[], Any]) -> float:
        return seconds(lambda: (compute(), _now(device)))

    normals = {
        "counter": lambda: streams.at("floor").normal(*shape),
        "torch": lambda: torch.randn(256, *shape, device=device),
    }
    drawn = {name: 256 * shape[0] * shape[1] / waited(draw) for name, draw in normals.items()}
    return {
        "flops": 2 * side**3 / waited(lambda: a @ b),
        "normals": max(drawn.values()),
        **{f"normals by {name}": rate for name, rate in drawn.items()},
        "bytes": 2 * large.numel() / waited(lambda: large.clone()),
    }


def kernels_of(recipe: Training, device: str) -> int:
    """Kernels that a step launches."""
    experiment = recipe.build(Streams(0, range(8), device))
    experiment.advance(0)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        experiment.advance(1)
    return sum(event.count for event in seen.key_averages())


def _now(device: str) -> float:
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter()


def compare(
    size: tuple[str, Training, int, int, bool], bench: Bench, on_cores: float | None, at: dict[str, float]
) -> dict:
    """One line of the table."""
    name, recipe, replicas, steps, _ = size
    cost = StepCost.of(recipe)
    floor = replicas * (cost.flops / at["flops"] + cost.normals / at["normals"])
    programs = {"featscope": steps_of(recipe, replicas, steps, bench.device)}
    failed = {}

    def tried(of: str, make: Callable[[], Callable[[], float]]) -> None:
        try:
            programs[of] = make()
        except Exception as error:  # what cannot run here is said, and the others go on
            failed[of] = f"{type(error).__name__}: {str(error).splitlines()[0][:160]}"

    tried("drawn on the processor", lambda: steps_of(recipe, replicas, steps, bench.device, drawn_there=False))
    if bench.device != "cpu":
        tried("graph", lambda: replayed(recipe, replicas, steps, bench.device))
    if find_spec("jax"):
        import jax

        jax.config.update("jax_default_matmul_precision", "highest")  # float32 as here, not TF32
        tried("jax", lambda: jax_program(recipe, replicas, steps))
    found = turns(programs, bench.rounds)
    there = {} if on_cores is None else {"processor": on_cores}
    return {"size": name, "replicas": replicas, "floor": floor} | found | there | {"failed": failed}


def main() -> None:
    """Measure everything, print, and write."""
    bench, began = tyro.cli(Bench), time.monotonic()
    by_size = {}
    for size in SIZES:
        if size[-1]:
            program = engine(size[1], size[2], cores(), max(2, size[3] // 10))
            program()
            by_size[size[0], size[2]] = median(program() for _ in range(3))
    print(f"{time.monotonic() - began:.0f} s for the processor's", flush=True)
    with repeatable(bench.device):
        at, rows = rates(bench.device), []
        print({name: f"{rate:.3g}" for name, rate in at.items()}, flush=True)
        about = environment(bench.device) | {"rates": at}
        if bench.device != "cpu":
            about["kernels a step"] = {
                name: kernels_of(recipe, bench.device) for name, recipe in (("default", DEFAULT), ("small nets", SMALL))
            }
            print(about["kernels a step"], flush=True)
        for size in SIZES:
            if time.monotonic() - began > bench.seconds:
                break
            rows.append(compare(size, bench, by_size.get((size[0], size[2])), at))
            print({k: f"{1e3 * v:.3f} ms" if isinstance(v, float) else v for k, v in rows[-1].items()}, flush=True)
            bench.out.write_text(json.dumps({"environment": about, "seconds_a_step": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
