"""Print the claims of a run as the Markdown table that the pages below `studies/` show.

python docs/verdict_table.py RUN_DIR
"""

import json
import sys
from pathlib import Path

from featscope.claims import Claim
from featscope.report.verdicts import rows, unexpected


def table(run_folder: Path) -> str:
    """One line a claim, with the numbers as the report prints them."""
    stored = json.loads((run_folder / "claims.json").read_text())
    claims = [Claim.from_json(claim) for claim in stored["claims"]]
    lines = [
        f"Seed {stored['seed']}, {stored['replicas']} replicas, intervals at {100 * stored['level']:g} %. "
        "Bold: against expectation.",
        "",
        "| claim | arm | predicted | measured, interval | verdict |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in rows(claims, controls=()):
        claim = row.claim
        verdict = claim.verdict if claim.expected else f"{claim.verdict} (not expected to hold)"
        if unexpected(claim):
            verdict = f"**{verdict}**"
        name = f"{claim.id}<br>{claim.source}"
        cells = [name, claim.arm, row.predicted, f"{row.measured}<br>{row.interval}", verdict]
        lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(Path(sys.argv[1])))
