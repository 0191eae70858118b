"""What tests of the retriever train on and judge by."""

from featscope.language.haystack import read_texts
from featscope.language.retriever.data import Task
from featscope.language.retriever.texts import split_words
from featscope.language.retriever.wordings import HELD_OUT, TRAINED

TEXTS = read_texts("built-in")
WORDS = split_words(TEXTS)


def task(tokenizer, wordings=TRAINED):
    """Prompts about the texts that ship, with words of which one in five is for those held out."""
    return Task(tokenizer, TEXTS * 3, WORDS[wordings is HELD_OUT], wordings)
