"""Write the cards that `featscope show` prints: `make cards`, after statements or options of a study have changed."""

import json
from pathlib import Path

from featscope.commands.show import card_of
from featscope.registry import entries

FOLDER = Path(__file__).parents[1] / "src/featscope/cards"


def main() -> None:
    """A file for every study of this package; others are removed."""
    own = [name for name, entry in entries().items() if entry.target.startswith("featscope.")]
    for stale in FOLDER.glob("*.json"):
        stale.unlink()
    for name in own:
        text = json.dumps(card_of(name), indent=1, ensure_ascii=False)
        (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
