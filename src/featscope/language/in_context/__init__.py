"""In-context learning: labelled examples as prompts, exemplar labels that are inverted, and who reads the prompts."""

from featscope.language.in_context.examples import TASKS, Example, Examples, Task, load_examples, load_irrelevant
from featscope.language.in_context.flipped_labels import FlippedLabels
from featscope.language.in_context.made_up import made_up_irrelevant, made_up_sentiment
from featscope.language.in_context.prompt import LEAD, ask, flipped, flips, labelled_pair, parse
from featscope.language.in_context.readers import Follower, Frequency, Ignorer, ModelReader, Reader, log_likelihoods
from featscope.language.in_context.sentence_pairs import SentencePairs
from featscope.language.in_context.spans import AttentionRow, FocusedRow, ModelRow, RowReader, span_norms

__all__ = [
    "LEAD",
    "TASKS",
    "AttentionRow",
    "Example",
    "Examples",
    "FlippedLabels",
    "FocusedRow",
    "Follower",
    "Frequency",
    "Ignorer",
    "ModelReader",
    "ModelRow",
    "Reader",
    "RowReader",
    "SentencePairs",
    "Task",
    "ask",
    "flipped",
    "flips",
    "labelled_pair",
    "load_examples",
    "load_irrelevant",
    "log_likelihoods",
    "made_up_irrelevant",
    "made_up_sentiment",
    "parse",
    "span_norms",
]
