"""Print the claims of a run as the Markdown table that the pages below `studies/` show.

python docs/verdict_table.py RUN_DIR
"""

import json
import sys
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


if __name__ == "__main__":
    print(table(Path(sys.argv[1])))
