"""Print the claims of a run as the Markdown table that the pages below `studies/` show.

python docs/verdict_table.py RUN_DIR
python docs/verdict_table.py RUN_DIR --against docs/studies/STUDY.md

The second prints the verdicts that are not those of the page, and ends with 1 if there are any.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from featscope.claims import Claim
from featscope.report.claim_view import tone_of, views
from featscope.tex import in_unicode


def table(run_folder: Path) -> str:
    """One line a claim, with the numbers as the report prints them."""
    stored = json.loads((run_folder / "claims.json").read_text())
    claims = [Claim.from_json(claim) for claim in stored["claims"]]
    lines = [
        f"Seed {stored['seed']}, {stored['replicas']} replicas, intervals at {100 * stored['level']:g} %. "
        "Bold: against expectation.",
        "",
        "| claim | arm | wanted | measured, interval | verdict |",
        "| --- | --- | --- | --- | --- |",
    ]
    for view in views(claims, labels={}, controls=()):
        claim = view.claim
        verdict = claim.verdict if claim.expected else f"{claim.verdict} (not expected to hold)"
        if tone_of(claim, control=False) == "loud":
            verdict = f"**{verdict}**"
        name = f"{in_unicode(claim.title)}<br>`{claim.id}`, {claim.source}"
        cells = [name, claim.arm, view.wanted, f"{view.measured}<br>{view.interval}", verdict]
        lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return "\n".join(lines)


def verdicts(markdown: str) -> dict[tuple[str, str], str]:
    """What such tables say, by the claim's id and arm."""
    rows = (re.split(r"(?<!\\) *\| *", line) for line in markdown.splitlines() if line.startswith("| "))
    named = ((re.search(r"<br>`([^`]+)`", row[1]), row) for row in rows if len(row) == 7)
    return {(name[1], row[2]): row[5].replace("*", "") for name, row in named if name}


def differing(found: str, page: str) -> Iterator[str]:
    """A line for each claim whose verdict is not the page's, or that one of both tables does not have."""
    now, before = verdicts(found), verdicts(page)
    for claim in dict.fromkeys([*before, *now]):
        if now.get(claim) != before.get(claim):
            yield f"{'@'.join(claim)}: {now.get(claim, 'not there')}, on the page {before.get(claim, 'not there')}"


def main(run: str, *against: str) -> None:
    """What the module's docstring says."""
    found = table(Path(run))
    if not against:
        print(found)
        return
    if against[0] != "--against" or len(against) != 2:
        sys.exit("what is wanted is RUN_DIR, or RUN_DIR --against PAGE")
    _, page = against
    other = [*differing(found, Path(page).read_text(encoding="utf-8"))]
    print("\n".join([*other, f"{len(verdicts(found))} claims, {len(other)} verdicts that are not the page's."]))
    sys.exit(bool(other))


if __name__ == "__main__":
    main(*sys.argv[1:])
