"""Prompts of labelled exemplars and a query, and labels that are inverted (dissertation, Section 5.6)."""

from collections.abc import Sequence
from typing import NamedTuple

from featscope.language.in_context.examples import Example, Task

LEAD = "The answer is"
_BETWEEN = "\n\n"


class Parsed(NamedTuple):
    """What a prompt says.

    Attributes:
        exemplars: inputs as they are shown, with the word of their label.
        query: the last input.
    """

    exemplars: tuple[tuple[str, str], ...]
    query: str


def flips(rate: float, shots: int) -> int:
    """How many of ``shots`` labels are inverted at ``rate``: ``rate * shots`` rounded, halves upwards."""
    return int(round(rate * shots, 9) + 0.5)  # 0.58 · 25 is 14.499999999999998


def flipped(exemplars: Sequence[Example], order: Sequence[int], rate: float) -> list[Example]:
    """``exemplars`` with the labels of the first `flips` of ``order`` inverted.

    Args:
        exemplars: with their true labels.
        order: their places in random order; one order for all rates, so that a label that is inverted stays so at
            higher rates.
        rate: share to invert, in [0, 1].
    """
    inverted = set(order[: flips(rate, len(exemplars))])
    return [
        example._replace(label=1 - example.label) if place in inverted else example
        for place, example in enumerate(exemplars)
    ]


def ask(task: Task, exemplars: Sequence[Example], query: Example) -> str:
    """The prompt. It ends in "The answer is"; a label is a space and its word. The query's label is not read."""
    shown = [f"{task.shown(example.texts)}\n{LEAD} {task.words[example.label]}." for example in exemplars]
    return _BETWEEN.join([*shown, f"{task.shown(query.texts)}\n{LEAD}"])


def labelled_pair(task: Task, first: str, second: str, label: int) -> tuple[str, list[tuple[int, int]]]:
    """Two sentences in one input, and a label that ends the text; and where the sentences are.

    Args:
        task: one whose inputs are one text.
        first: the sentence that comes first.
        second: the sentence that comes after it.
        label: 0 or 1.

    Returns:
        The text; and of each sentence its first character and the first one after it.
    """
    shown = task.shown([f"{first} {second}"])
    begin, middle = len(shown) - len(first) - 1 - len(second), len(shown) - len(second)
    return f"{shown}\n{LEAD} {task.words[label]}", [(begin, begin + len(first)), (middle, len(shown))]


def parse(prompt: str) -> Parsed:
    """What `ask` put into a prompt, from its text alone."""
    *shown, last = prompt.split(_BETWEEN)
    exemplars = []
    for block in shown:
        text, _, answer = block.rpartition(f"\n{LEAD} ")
        exemplars.append((text, answer.removesuffix(".")))
    return Parsed(tuple(exemplars), last.removesuffix(f"\n{LEAD}"))
