"""Compare the verdicts of runs with those that the pages below `studies/` had at a revision, as a Markdown table.

python docs/replicated.py REVISION RUNS_DIR       (RUNS_DIR has a run folder of each study, by its name)
"""

import re
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from verdict_table import table

_ROW = re.compile(r"\| .*?`([\w.-]+)`.*? \| (\S+) \| .* \| (\S.*?)<br>(.*?) \| (.*?) \|$")


class Row(NamedTuple):
    """Of a verdict table."""

    verdict: str
    interval: tuple[float, float] | None


def rows(text: str) -> dict[tuple[str, str], Row]:
    """The rows of a verdict table by claim and arm."""
    matches = filter(None, map(_ROW.match, text.splitlines()))
    return {(m[1], m[2]): Row(m[5].replace("*", "").partition(" (")[0], _ends(m[4])) for m in matches}


def _ends(interval: str) -> tuple[float, float] | None:
    low, _, high = interval.replace("−", "-").replace(",", "").partition(" to ")
    try:
        return float(low), float(high)
    except ValueError:
        return None


def counts(before: dict[tuple[str, str], Row], after: dict[tuple[str, str], Row]) -> list[int]:
    """How many: claims in both, the same verdict, decided once, opposite; intervals, of which without overlap."""
    both = [(before[key], after[key]) for key in before.keys() & after.keys()]
    same = sum(old.verdict == new.verdict for old, new in both)
    once = sum(old.verdict != new.verdict and "undecided" in (old.verdict, new.verdict) for old, new in both)
    ends = [(old.interval, new.interval) for old, new in both if old.interval and new.interval]
    ends = [(old, new) for old, new in ends if old[0] < old[1] and new[0] < new[1]]
    apart = sum(old[1] < new[0] or new[1] < old[0] for old, new in ends)
    return [len(both), same, once, len(both) - same - once, len(ends), apart]


def main(revision: str, runs: Path) -> None:
    """Print the table, with a line for all."""
    print("| study | claims | same verdict | decided once | opposite | intervals | without overlap |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    each = []
    for run in sorted(path.parent for path in runs.glob("*/claims.json")):
        page = f"{revision}:docs/studies/{run.name}.md"
        old = subprocess.run(["git", "show", page], capture_output=True, text=True, check=True).stdout
        each.append(counts(rows(old), rows(table(run))))
        print("| " + " | ".join(map(str, chain([f"`{run.name}`"], each[-1]))) + " |")
    print("| " + " | ".join(map(str, chain(["all"], map(sum, zip(*each, strict=True))))) + " |")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
