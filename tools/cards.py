"""Write what is made from the studies: `make cards`, after one is added or its statements or options have changed.

These are the cards that `featscope show` prints, and the lists of studies in the README, the navigation and the index.
"""

import json
import re
from pathlib import Path

from featscope.catalogue import Entry
from featscope.commands.show import card_of
from featscope.registry import entries

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "src/featscope/cards"


def main() -> None:
    """A file for every study of this package, others are removed; and every list."""
    own = {name: entry for name, entry in entries().items() if entry.target.startswith("featscope.")}
    for stale in FOLDER.glob("*.json"):
        stale.unlink()
    for name in own:
        text = json.dumps(card_of(name), indent=1, ensure_ascii=False)
        (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    for file, text in lists([own[name] for name in sorted(own)]).items():
        file.write_text(text, encoding="utf-8")


def lists(studies: list[Entry]) -> dict[Path, str]:
    """File -> its text with the list of ``studies`` made anew."""
    rows = "".join(f"| {s.name} | {s.source} | {s.summary} | {s.minutes:g} |\n" for s in studies)
    nav = "".join(f"      - {s.name}: studies/{s.name}.md\n" for s in studies)
    links = ", ".join(f"[{s.name}](studies/{s.name}.md)" for s in studies)
    where = {
        "README.md": (
            r"(?<=\| study \| source \| what it is about \| minutes \|\n\| --- \| --- \| --- \| --- \|\n)(?:\|.*\n)+",
            rows,
        ),
        "mkdocs.yml": (r"(?<=  - Studies:\n)(?: {6}.*\n)+", nav),
        "docs/index.md": (r"(?<=\| see what was found \| ).*(?= \|)", links),
    }
    found = {}
    for name, (pattern, new) in where.items():
        text, times = re.subn(pattern, lambda _, new=new: new, (ROOT / name).read_text(encoding="utf-8"))
        assert times == 1, f"{name} has {times} lists of studies"
        found[ROOT / name] = text
    return found


if __name__ == "__main__":
    main()
