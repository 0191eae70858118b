"""FeatScope beside kvpress: methods, models, padding, beams, turns, kernels, speed, memory, accuracy.

    python -m benchmarks.against_kvpress [--only accuracy] [--write]

`make .venv-kvpress/ready` makes an environment in which both run; in one without kvpress FeatScope is tried alone. What
was found goes into ``results.json`` beside this file, where parts that are not run anew stay, and comes out as tables;
``--write`` puts them into docs/kvpress.md.
"""

import json
import os
import platform
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import tyro

from benchmarks.against_kvpress.parts import CHECKS, Against, measured, tried
from benchmarks.marked import fill

RESULTS = Path(__file__).with_name("results.json")


def main() -> None:
    """Run what is asked for, store it, print tables."""
    asked = tyro.cli(Against)
    os.environ["HF_HUB_OFFLINE"] = "1"  # what has to be fetched was trained for a model by name
    from benchmarks.against_kvpress.page import PAGE, tables
    from benchmarks.against_kvpress.ways import LIBRARIES

    results: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    parts = asked.only or (*CHECKS, *(("costs", "accuracy") if len(LIBRARIES) > 1 else ()))
    for part in parts:
        runs = [(tried, part, library) for library in LIBRARIES] if part in CHECKS else [(measured, part, asked)]
        for work, *given in runs:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                found = pool.submit(work, *given).result()
            where = f"{given[1]}, transformers {version('transformers')}" if part in CHECKS else "both"
            results.setdefault(part, {})[where] = {"about": _about(part, asked), "found": found}
            RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if asked.write:
        fill(PAGE, tables(results))
    print("\n\n".join(tables(results).values()))


def _about(part: str, asked: Against) -> dict[str, Any]:
    """Where and when, and with which options."""
    packages = {}
    for package in ("torch", "transformers", "kvpress"):
        try:
            packages[package] = version(package)
        except ModuleNotFoundError:
            packages[package] = "not installed"
    options = {
        "costs": {"layers": asked.timed.layers, "layer": asked.timed.layer, "keep": asked.timed.keep}
        | {"new": asked.timed.new, "rounds": asked.timed.rounds, "threads": asked.timed.threads},
        "accuracy": {"prompts": asked.prompts, "length": asked.length, "seed": asked.seed},
    }
    when = datetime.now(UTC).date().isoformat()
    return {"date": when, "machine": platform.machine(), **packages, **options.get(part, {})}


if __name__ == "__main__":
    main()
