"""`make faults`: plant faults in studies; docs/faults.json and docs/faults.md get what claims noticed.

What was tried is kept in runs/faults/, so that a run that was ended goes on. ``--write`` tries nothing more, and writes
what stands there.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import torch

from featscope.testing.faults import Bench, Fate, Report, read, try_faults

ROOT = Path(__file__).parents[1]
DOCS, KEPT = ROOT / "docs", ROOT / "runs" / "faults"
MARK = "<!-- faults -->"
SEED = 0


class Wanted(NamedTuple):
    """What is tried.

    Attributes:
        study: the study.
        target: what `find_trial` knows it by.
        faults: how many that change something.
        size: the size of the trial, in words.
    """

    study: str
    target: str
    faults: int
    size: str


WANTED = (
    Wanted("tensor-power", "small_tensor_power:TRIAL", 20, "4 to 8 replicas, large steps"),
    Wanted("imbalance", "small_imbalance:TRIAL", 15, "8 replicas, 12 features, 24 neurons, up to 200 steps"),
    Wanted("decoupling", "small_decoupling:TRIAL", 10, "4 to 8 replicas, 12 features, 96 neurons, up to 500 steps"),
    Wanted("pruning", "small_pruning:TRIAL", 10, "6 to 16 replicas, 8 features, up to 600 steps"),
    Wanted("prediction-head", "small_prediction_head:TRIAL", 10, "2 to 8 replicas, 16 starts, some arms cut"),
    Wanted("fourier-circuits", "small_fourier_circuits:TRIAL", 10, "4 to 8 replicas, p = 5, most training cut"),
    Wanted("attention-circuits", "small_attention_circuits:TRIAL", 10, "4 replicas, p = 13, 300 steps of one arm"),
    Wanted("looped-transformer", "small_looped_transformer:TRIAL", 10, "8 replicas of 6 prompts, 60 steps of training"),
    Wanted("icl-regression", "small_icl_regression:TRIAL", 10, "6 replicas, 4 dimensions, up to 800 steps"),
    Wanted("icl-parity", "icl-parity", 10, "8 replicas, its smallest"),
    Wanted("gradient-features", "gradient-features", 10, "8 replicas, its smallest"),
    Wanted("uniform-parity", "small_uniform_parity:TRIAL", 10, "8 replicas, its smallest, four signs shorter"),
    Wanted("multi-index", "small_multi_index:TRIAL", 10, "8 replicas, its smallest, 10,000 samples"),
    Wanted("fixed-features", "small_fixed_features:TRIAL", 10, "8 replicas, its smallest, some arms cut"),
    Wanted("nuclear-norm", "nuclear-norm", 10, "8 replicas, its smallest"),
    Wanted("universality", "universality", 10, "8 replicas, its smallest"),
)


def same_in_law(study: str) -> Mapping[str, str]:
    """Faults that were judged by hand to change numbers but no law, or to be no faults: "module: - + lines" -> why."""
    known: dict[str, dict[str, str]] = json.loads((DOCS / "faults-judged.json").read_text(encoding="utf-8"))
    return known.get(study, {})


def named(fault: Fate) -> str:
    """What a fault is known by in `same_in_law`: its module and lines, not where these stand."""
    return f"{fault.module}: {fault.before} -> {fault.after}"


def share(part: int, whole: int) -> str:
    """A share in words."""
    return f"{part} of {whole} ({part / whole:.0%})" if whole else "none"


def missing(reports: Mapping[Wanted, Report]) -> Iterator[str]:
    """What was wanted and has not been tried."""
    for wanted in WANTED:
        report = reports.get(wanted)
        judged = report.count("noticed") + report.count("unnoticed") if report else 0
        if judged < wanted.faults:
            yield f"\nNot complete: `{wanted.study}` has {judged} of the {wanted.faults} wanted."


def table(reports: Iterable[tuple[Wanted, Report]]) -> Iterator[str]:
    """A row a study, and one of all."""
    everywhere = Counter[str]()
    yield "| study | trial | claims that hold | noticed | noticed, without those equal in law | stopped | equal |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for wanted, report in reports:
        noticed, missed = report.count("noticed"), report.count("unnoticed")
        known = same_in_law(wanted.study)
        same = sum(fault.outcome == "unnoticed" and named(fault) in known for fault in report.faults)
        shares = f"{share(noticed, noticed + missed)} | {share(noticed, noticed + missed - same)}"
        rest = f"{report.count('stopped')} | {report.count('equal')}"
        held = f"{report.held} of {report.expected}"
        yield f"| `{wanted.study}` | {wanted.size}; {report.seconds:.0f} s | {held} | {shares} | {rest} |"
        everywhere.update(noticed=noticed, missed=missed, same=same)
        everywhere.update(stopped=report.count("stopped"), equal=report.count("equal"))
    noticed, tried = everywhere["noticed"], everywhere["noticed"] + everywhere["missed"]
    shares = f"{share(noticed, tried)} | {share(noticed, tried - everywhere['same'])}"
    yield f"| all | | | {shares} | {everywhere['stopped']} | {everywhere['equal']} |"


def lists(reports: Iterable[tuple[Wanted, Report]]) -> Iterator[str]:
    """The faults that no claim noticed."""
    for wanted, report in reports:
        missed = [fault for fault in report.faults if fault.outcome == "unnoticed"]
        if missed:
            yield f"\n### `{wanted.study}`: not noticed\n"
        for fault in missed:
            where = fault.module.removeprefix("featscope.").replace(".", "/")
            yield f"- `{where}.py`, {fault.kind}: `{fault.before}` became `{fault.after}`."
            if why := same_in_law(wanted.study).get(named(fault)):
                yield f"  Equal in law, judged by hand: {why}"
            if fault.controls:
                yield f"  A control began to hold: {', '.join(fault.controls)}."


def main() -> None:
    """Try what is wanted, and write what was found."""
    files = {wanted: KEPT / f"{wanted.study}.jsonl" for wanted in WANTED}
    for wanted, out in files.items():
        if "--write" in sys.argv:
            break
        print(f"{wanted.study}: {wanted.faults} faults", flush=True)
        bench = Bench(wanted.target)
        try_faults(bench, wanted.faults, SEED, out, lambda one: print(f"  {one.outcome}: {one.key}", flush=True))
    reports = [(wanted, read(out)) for wanted, out in files.items() if out.exists()]
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    about = {"date": date, "command": "make faults", "seed": SEED, "torch": torch.__version__}
    stored = about | {"studies": {w.study: asdict(report) for w, report in reports}}
    text = json.dumps(stored, indent=1, ensure_ascii=False)
    (DOCS / "faults.json").write_text(text + "\n", encoding="utf-8")
    page = DOCS / "faults.md"
    head = page.read_text(encoding="utf-8").partition(MARK)[0]
    said = (
        f"{date}, `make faults`, seed {SEED} of the choice of faults, seed 0 of the trials, torch {torch.__version__}."
    )
    lines = [f"{head}{MARK}", "## Last run", "", said, *missing(dict(reports)), "", *table(reports), *lists(reports)]
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
