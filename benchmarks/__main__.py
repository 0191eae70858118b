"""`make bench`: ratios measured in one run, as a table and as JSON."""

from featscope.threads import wait_without_spinning

wait_without_spinning()

import json  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from concurrent.futures import ProcessPoolExecutor  # noqa: E402
from contextlib import suppress  # noqa: E402
from datetime import UTC, datetime  # noqa: E402
from multiprocessing import get_context  # noqa: E402
from pathlib import Path  # noqa: E402

import psutil  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from benchmarks import cluster, history, pairs, sweep  # noqa: E402
from benchmarks.compare import compare  # noqa: E402
from benchmarks.sizes import DEFAULT, SMALL  # noqa: E402
from featscope.runs.environment import environment  # noqa: E402
from featscope.threads import cores  # noqa: E402


def commands() -> dict[str, float]:
    """Wall seconds of commands, and the peak memory of a default run with its workers in GiB."""
    command = str(Path(sys.executable).with_name("featscope"))
    found = {}
    for name in ("--help", "list"):
        began = time.perf_counter()
        subprocess.run([command, name], capture_output=True, check=True)
        found[f"featscope {name} (s)"] = time.perf_counter() - began
    with tempfile.TemporaryDirectory() as scratch:
        began, peak = time.perf_counter(), 0
        out = str(Path(scratch) / "run")
        run = psutil.Popen(
            [command, "run", "decoupling", "--replicas", "8", "--out", out],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while run.poll() is None:
            with suppress(psutil.Error):
                peak = max(peak, sum(p.memory_full_info().pss for p in (run, *run.children(recursive=True))))
            time.sleep(0.5)
        if run.returncode:
            raise RuntimeError(f"featscope run decoupling ended with {run.returncode}")
        found["featscope run decoupling (s)"] = time.perf_counter() - began
    found["its peak memory (GiB)"] = peak / 2**30
    return found


def main() -> None:
    """Measure everything, print, write ``benchmarks/results.json`` and a line of the history."""
    rows = []
    for name, recipe, replicas, steps, loop in (
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
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:  # JAX leaves threads behind
            row = fresh.submit(compare, recipe, replicas, steps, loop).result()
        rows.append({"size": name, "replicas": replicas} | row)
        print(rows[-1], file=sys.stderr, flush=True)
    for name, replicas, steps in (("imbalance", 8, 20), ("imbalance", 32, 8), ("pruning", 8, 20), ("pruning", 32, 8)):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
            row = fresh.submit(pairs.compare, name, replicas, steps).result()
        rows.append({"size": f"`{name}`", "replicas": replicas} | row)
        print(rows[-1], file=sys.stderr, flush=True)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        row = fresh.submit(sweep.compare, cores(), 3).result()
    runs = cores() * sweep.POINTS * sweep.REPLICAS
    rows.append({"size": "sweep of imbalance", "replicas": runs} | row)
    ends = commands()
    engines = cluster.compare()

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
    print(f"sweep of imbalance with projected noise, over the floor: {row['projected'] / row['floor']:.2f}")
    for name, value in ends.items():
        print(f"{name}: {value:.2f}")
    print(f"a sweep by Ray workers, speed against the local engine: {engines['local'] / engines['ray']:.2f}")
    about = environment("cpu")
    results = {"environment": about, "seconds_a_step": rows, "commands": ends, "sweep_seconds": engines}
    stored = Path("benchmarks/results.json")
    stored.write_text(json.dumps(json.loads(stored.read_text()) | results, indent=2) + "\n")
    history.keep(results, f"{datetime.now(UTC):%Y-%m-%d}")


if __name__ == "__main__":
    main()
