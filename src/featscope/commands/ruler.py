"""`featscope ruler`: prompts of RULER's tasks."""

from featscope.commands.parsing import as_typed, parse
from featscope.language.ruler_prompts import Ruler, write_prompts


def ruler(words: list[str]) -> int:
    """Write prompts."""
    chosen = parse(Ruler, words, "ruler")
    with as_typed(Ruler):
        write_prompts(chosen)
    return 0
