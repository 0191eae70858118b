"""Seconds a step of several programs that take turns, so that other work on the machine meets all of them."""

from collections.abc import Callable
from statistics import median

from benchmarks.floor import Rates, StepCost
from benchmarks.step import engine, jax_program, plain_loop
from featscope.threads import cores
from featscope.training import Training

ROUNDS = 5


def turns(programs: dict[str, Callable[[], float]], rounds: int = ROUNDS) -> dict[str, float]:
    """Median of what each program returns, seconds a step or in all, run in turns."""
    found: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            found[name].append(program())
    return {name: median(times) for name, times in found.items()}


def compare(recipe: Training, replicas: int, steps: int, loop: bool) -> dict[str, float]:
    """One line of the table."""

    def floor() -> float:
        return replicas * StepCost.of(recipe).floor(Rates.measure(cores()))

    programs = {"featscope": engine(recipe, replicas, cores(), steps), "floor": floor}  # workers fork first
    programs["featscope"]()  # warm up
    programs["jax"] = jax_program(recipe, replicas, steps)
    if loop:
        programs["loop"] = plain_loop(recipe, replicas, cores(), max(2, steps // 10))
    return turns(programs)
