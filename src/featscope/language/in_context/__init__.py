"""In-context learning: labelled examples as prompts, exemplar labels that are inverted, and who reads the prompts."""

from featscope.language.in_context.examples import TASKS, Example, Examples, Task, load_examples
from featscope.language.in_context.made_up import made_up_irrelevant, made_up_sentiment
from featscope.language.in_context.prompt import LEAD, ask, flipped, flips, parse
from featscope.language.in_context.readers import Follower, Frequency, Ignorer, ModelReader, Reader, log_likelihoods
from featscope.language.in_context.spans import FocusedRow, ModelRow, Row, RowReader, span_norms

__all__ = [
    "LEAD",
    "TASKS",
    "Example",
    "Examples",
    "FocusedRow",
    "Follower",
    "Frequency",
    "Ignorer",
    "ModelReader",
    "ModelRow",
    "Reader",
    "Row",
    "RowReader",
    "Task",
    "ask",
    "flipped",
    "flips",
    "load_examples",
    "log_likelihoods",
    "made_up_irrelevant",
    "made_up_sentiment",
    "parse",
    "span_norms",
]
