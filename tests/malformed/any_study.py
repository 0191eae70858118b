"""Every study in the catalogue, and the words that run it at its smallest size."""

from wrong_values import typed

from featscope.registry import entries, find

STUDIES = {name: find(name)[1] for name in entries()}
BEYOND = ("--memory-limit", "--steps")
"""May be named instead, where an option asks for too much."""


def words_of(name: str, *but: str) -> list[str]:
    """Words that run a study at its smallest size, but for options that are given otherwise."""
    usual = STUDIES[name]()
    chosen = typed(usual.smallest(), usual)
    return ["run", name, "--out", "out", *(w for key, its in chosen.items() if key not in but for w in (key, *its))]
