"""What the pages say of the small model that ships, made anew; what is said around the tables is not.

    python -m benchmarks.retriever ESSAYS [--only shares needle ...] [--out runs/retriever]

ESSAYS is the folder of texts it was trained on. Each part fills its tables in the pages, and pictures of runs are
copied, as soon as it is done. On two cores all of it takes about half an hour. The README's transcript and what stands
in `benchmarks.against_kvpress` have commands of their own.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import tyro

from benchmarks.marked import DOCS, LONG_PROMPTS, fill
from benchmarks.retriever import prompts, runs, shares
from featscope.options import ConfigError, require

Tables = dict[str, dict[str, str]]
"""By page below docs/, by what they are called there."""


@dataclass(frozen=True)
class Asked:
    """What is made.

    Attributes:
        essays: folder of the .txt files that the model was trained on.
        only: parts; none for all.
        out: folder that receives the runs, which replace those that are there.
    """

    essays: tyro.conf.Positional[Path]
    only: tuple[str, ...] = ()
    out: Path = Path("runs/retriever")

    def __post_init__(self) -> None:
        require(self, "essays", self.essays.is_dir(), "a folder with .txt files")
        require(self, "only", {*self.only} <= {*PARTS}, f"some of {', '.join(PARTS)}")


def of_runs(name: str) -> Callable[[Asked], Tables]:
    """A study, run anew."""
    return lambda asked: runs.made(name, asked.out)


PARTS: dict[str, Callable[[Asked], Tables]] = {
    "shares": lambda asked: {"studies/needle.md": {"shares": shares.table_of(asked.essays)}},
    **{name: of_runs(name) for name in runs.STUDIES},
    "side by side": lambda asked: {LONG_PROMPTS: {"side by side": prompts.side_by_side()}},
    "ruler": lambda asked: {LONG_PROMPTS: {"ruler": prompts.ruler()}},
    "documents": lambda asked: {LONG_PROMPTS: {"documents": prompts.documents()}},
}


def main() -> None:
    """Make what is asked for."""
    asked = tyro.cli(Asked)
    torch.set_num_threads(1)
    for name in asked.only or PARTS:
        for page, tables in PARTS[name](asked).items():
            fill(DOCS / page, tables)
            print(f"{name}: {page}\n\n" + "\n\n".join(tables.values()), flush=True)


if __name__ == "__main__":
    try:
        main()
    except ConfigError as error:
        sys.exit(str(error))
