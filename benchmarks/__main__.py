"""`make bench`: ratios measured in one run, as a table and as JSON.

Programs that are compared take turns, and medians are taken, so that other work on the machine meets both.
"""

from featscope.threads import cores, wait_without_spinning

wait_without_spinning()

import json  # noqa: E402
import platform  # noqa: E402
import resource  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402
from statistics import median  # noqa: E402

import torch  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from benchmarks.floor import Rates, StepCost  # noqa: E402
from benchmarks.step import engine, jax_program, plain_loop  # noqa: E402
from featscope.data import SparseCoding  # noqa: E402
from featscope.models import SymmetricReLU  # noqa: E402
from featscope.runs.folder import environment  # noqa: E402
from featscope.studies.decoupling import Decoupling  # noqa: E402
from featscope.training import Contrastive  # noqa: E402

ROUNDS = 5
DEFAULT = Decoupling(bias=None)
SMALL = Decoupling(
    data=SparseCoding(features=9, input_dim=50, dictionary="qr"),
    learner=SymmetricReLU(width=30),
    objective=Contrastive(anchors=128, negatives=128),
    bias=None,
)


def turns(programs: dict[str, Callable[[], float]]) -> dict[str, float]:
    """Median seconds a step of each program, run in turns."""
    found: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(ROUNDS):
        for name, program in programs.items():
            found[name].append(program())
    return {name: median(times) for name, times in found.items()}


def compare(study: Decoupling, replicas: int, steps: int, peers: bool, loop: bool) -> dict[str, float]:
    """One line of the table."""
    rates: list[Rates] = []

    def floor() -> float:
        rates.append(Rates.measure(cores()))
        return replicas * StepCost.of(study).floor(rates[-1])

    programs: dict[str, Callable[[], float]] = {
        "floor": floor,
        "featscope": engine(study, replicas, cores(), steps),
    }
    programs["featscope"]()  # warm up
    if peers:
        programs["jax"] = jax_program(study, replicas, steps)
    if loop:
        programs["loop"] = plain_loop(study, replicas, cores(), max(2, steps // 10))
    return turns(programs)


def commands() -> dict[str, float]:
    """Wall seconds of commands, and the peak memory of a default run in GiB."""
    found = {}
    for name in ("--help", "list"):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "featscope.cli", name], capture_output=True, check=True)
        found[f"featscope {name} (s)"] = time.perf_counter() - began
    with tempfile.TemporaryDirectory() as scratch:
        began = time.perf_counter()
        run = [sys.executable, "-m", "featscope.cli", "run", "decoupling", "--out", str(Path(scratch) / "run")]
        subprocess.run(run, capture_output=True, check=True)
        found["featscope run decoupling (s)"] = time.perf_counter() - began
    found["its peak memory (GiB)"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    return found


def main() -> None:
    """Measure everything, print, write ``benchmarks/results.json``."""
    rows = []
    for name, study, replicas, steps, loop in (
        ("default size", DEFAULT, 1, 40, False),
        ("default size", DEFAULT, 8, 20, False),
        ("default size", DEFAULT, 32, 8, False),
        ("default size", DEFAULT, 128, 2, False),
        ("small nets", SMALL, 1, 300, False),
        ("small nets", SMALL, 8, 200, False),
        ("small nets", SMALL, 32, 100, False),
        ("small nets", SMALL, 64, 60, True),
        ("small nets", SMALL, 128, 40, False),
    ):
        rows.append({"size": name, "replicas": replicas} | compare(study, replicas, steps, True, loop))
        print(rows[-1], file=sys.stderr, flush=True)
    ends = commands()

    table = Table("size", "replicas", "ms a step", "over the floor", "speed against JAX", "against a loop over seeds")
    for row in rows:
        table.add_row(
            row["size"],
            str(row["replicas"]),
            f"{1e3 * row['featscope']:.2f}",
            f"{row['featscope'] / row['floor']:.2f}",
            f"{row['jax'] / row['featscope']:.2f}",
            f"{row['loop'] / row['featscope']:.2f}" if "loop" in row else "",
        )
    Console().print(table)
    for name, value in ends.items():
        print(f"{name}: {value:.2f}")
    about = environment("cpu") | {"torch_threads": torch.get_num_threads(), "machine": platform.machine()}
    results = {"environment": about, "seconds_a_step": rows, "commands": ends}
    Path("benchmarks/results.json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
