"""`featscope tune-prompt`: which method, layer and keep answer one's own prompts, and how fast."""

from featscope.commands.parsing import as_typed, parse
from featscope.language.tune import TunePrompt
from featscope.language.tune import tune_prompt as tune


def tune_prompt(words: list[str]) -> int:
    """Try methods on one's own prompts."""
    chosen = parse(TunePrompt, words, "tune-prompt")
    with as_typed(TunePrompt):
        tune(chosen)
    return 0
