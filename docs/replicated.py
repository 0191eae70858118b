"""Compare runs with the verdict tables that the pages below `studies/` had at a revision, as a Markdown table.

python docs/replicated.py REVISION RUNS_DIR       (RUNS_DIR has a run folder of each study, by its name)

Where only the random numbers differ, two intervals at 99 % say how far apart their measurements may be: a difference
beyond the root of the sum of squares of both half widths is to be expected for one claim in a hundred.
"""

import re
import subprocess
import sys
from math import hypot
from pathlib import Path
from typing import NamedTuple

from verdict_table import table

_ROW = re.compile(r"\| .*?`([\w.-]+)`.*? \| (\S+) \| .* \| (.*?)<br>(.*?) \| (.*?) \|$")
_EXPONENT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")


class Row(NamedTuple):
    """Of a verdict table."""

    verdict: str
    at: tuple[float, float, float] | None
    """Lower end, measurement and upper end; None where chance does not enter."""


def rows(text: str) -> dict[tuple[str, str], Row]:
    """The rows of a verdict table by claim and arm."""
    found = {}
    for claim, arm, measured, interval, verdict in (m.groups() for m in map(_ROW.match, text.splitlines()) if m):
        low, _, high = interval.partition(" to ")
        said = verdict.replace("*", "").partition(" (")[0]
        try:
            at = _number(low), _number(measured), _number(high)
        except ValueError:  # no interval
            at = None
        found[claim, arm] = Row(said, at if at and at[0] < at[2] else None)
    return found


def _number(text: str) -> float:
    digits, _, power = text.replace("−", "-").replace(",", "").partition("×10")
    return float(digits) * 10.0 ** int(power.translate(_EXPONENT) or 0)


def distance(one: Row, other: Row) -> float | None:
    """How far apart two measurements are, in units of what their intervals allow; None where one has no interval."""
    if not (one.at and other.at):
        return None
    below, above = sorted((one.at, other.at), key=lambda at: at[1])
    allowed = hypot(below[2] - below[1], above[1] - above[0])
    return (above[1] - below[1]) / allowed if allowed else None


def counts(before: dict[tuple[str, str], Row], after: dict[tuple[str, str], Row]) -> list[int]:
    """How many: claims in both, the same verdict, decided once, opposite; intervals, of which too far apart."""
    both = [(before[key], after[key]) for key in before.keys() & after.keys()]
    same = sum(old.verdict == new.verdict for old, new in both)
    once = sum(old.verdict != new.verdict and "undecided" in (old.verdict, new.verdict) for old, new in both)
    apart = [far for far in (distance(*pair) for pair in both) if far is not None]
    return [len(both), same, once, len(both) - same - once, len(apart), sum(far > 1 for far in apart)]


def main(revision: str, runs: Path) -> None:
    """Print the table, with a line for all."""
    print("| study | claims | same verdict | decided once | opposite | intervals | too far apart |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    each = []
    for run in sorted(path.parent for path in runs.glob("*/claims.json")):
        page = f"{revision}:docs/studies/{run.name}.md"
        old = subprocess.run(["git", "show", page], capture_output=True, text=True, check=True).stdout
        each.append(counts(rows(old), rows(table(run))))
        print("| " + " | ".join([f"`{run.name}`", *map(str, each[-1])]) + " |")
    print("| " + " | ".join(["all", *map(str, map(sum, zip(*each, strict=True)))]) + " |")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
