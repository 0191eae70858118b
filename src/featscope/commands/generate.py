"""`featscope generate`: an answer to a long prompt from a few of its tokens."""

from featscope.commands.parsing import as_typed, parse
from featscope.language.command import Generate
from featscope.language.command import generate as answer


def generate(words: list[str]) -> int:
    """Answer a prompt."""
    chosen = parse(Generate, words, "generate")
    with as_typed(Generate):
        answer(chosen)
    return 0
