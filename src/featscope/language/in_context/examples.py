"""Labelled texts of binary tasks: from a local table or file of sentences, from GLUE on the Hub, or made up."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from featscope.data.sentence_files import SENTENCE_FILES, TREC_TEST, labelled_lines, table_rows
from featscope.hub import asking_hub
from featscope.language.in_context.made_up import made_up_irrelevant, made_up_sentiment
from featscope.options import ConfigError, MissingExtraError
from featscope.streams import Draws, Streams

MADE_UP, HUB = "made-up", "hub"
_GLUE = "nyu-mll/glue"


class Example(NamedTuple):
    """One labelled input.

    Attributes:
        texts: one text for each field of its task, without line breaks.
        label: 0 or 1.
    """

    texts: tuple[str, ...]
    label: int


@dataclass(frozen=True)
class Task:
    """How a binary task is put into words. Columns and labels are GLUE's; titles and words are choices made here.

    Attributes:
        name: what it is called, in GLUE too if it is one of its tasks.
        columns: names of its texts in a table.
        titles: what stands before each text in a prompt.
        words: of label 0 and of label 1.
    """

    name: str
    columns: tuple[str, ...]
    titles: tuple[str, ...]
    words: tuple[str, str]

    def shown(self, texts: Sequence[str]) -> str:
        """An input as it stands in a prompt, a line for each text."""
        return "\n".join(f"{title}: {text}" for title, text in zip(self.titles, texts, strict=True))


TASKS: Mapping[str, Task] = {
    task.name: task
    for task in (
        Task("sst2", ("sentence",), ("sentence",), ("negative", "positive")),
        Task("subj", ("sentence",), ("sentence",), ("objective", "subjective")),
        Task("mr", ("sentence",), ("sentence",), ("negative", "positive")),
        Task("cr", ("sentence",), ("sentence",), ("negative", "positive")),
        Task("trec", ("sentence",), ("question",), ("person", "place")),
        Task("cola", ("sentence",), ("sentence",), ("unacceptable", "acceptable")),
        Task("mrpc", ("sentence1", "sentence2"), ("sentence 1", "sentence 2"), ("different", "equivalent")),
        Task("qqp", ("question1", "question2"), ("question 1", "question 2"), ("different", "equivalent")),
        Task("rte", ("sentence1", "sentence2"), ("premise", "hypothesis"), ("yes", "no")),
        Task("qnli", ("question", "sentence"), ("question", "sentence"), ("yes", "no")),
        Task("wnli", ("sentence1", "sentence2"), ("premise", "hypothesis"), ("no", "yes")),
    )
}
"""Tasks by name. In rte and qnli label 0 means that the second text follows from, or answers, the first. Of TREC's six
kinds of questions there are two: those whose answer is a person or a group of people, and those whose answer is a
place."""

_IN_FILES: Mapping[str, Mapping[str, int | None]] = {
    "subj": {"0": 1, "1": 0},
    "mr": {"0": 0, "1": 1},
    "cr": {"0": 0, "1": 1},
    "trec": {"0": None, "1": None, "2": None, "3": 0, "4": 1, "5": None},
}
"""Task -> label in its file of sentences -> label here; None is left out. In the file of Subj 0 is subjective."""


@dataclass(frozen=True)
class Examples:
    """What exemplars and queries are taken from. No text is in it twice.

    Attributes:
        task: how they are put into words.
        pool: exemplars.
        items: queries, with the truth.
    """

    task: Task
    pool: tuple[Example, ...]
    items: tuple[Example, ...]

    @property
    def truth(self) -> Mapping[tuple[str, ...], int]:
        """The label of every input."""
        return {example.texts: example.label for example in (*self.pool, *self.items)}


def load_examples(task: str, source: str, streams: Streams) -> Examples:
    """The examples of ``task``.

    Args:
        task: a key of `TASKS`.
        source: "made-up" (sst2 only); "hub" for GLUE's train and validation split; a folder with ``train.tsv`` and
            ``dev.tsv``; a folder with the task's file of sentences (subj, mr, cr, trec; see `SENTENCE_FILES`); or one
            ``.tsv`` file. Of one table, and of one file of sentences (TREC has a second), a random half gives exemplars
            and the rest queries. Tables have a line of column names: those of the task, and "label" (0 or 1).
        streams: of the replica.

    Raises:
        ConfigError: no such data, or data of another form.
        MissingExtraError: "hub" without the extra 'language'.
    """
    chosen = TASKS[task]
    if source == MADE_UP:
        if task != "sst2":
            raise ConfigError(
                f"data = {MADE_UP!r} has no task {task!r}: allowed is task sst2. Give a folder, a .tsv file or {HUB!r}."
            )
        drawn = [Example((text,), label) for text, label in made_up_sentiment(streams.at("made-up"), 2000)]
        return _split(chosen, drawn, 1000, source)
    if source == HUB:
        splits = [_from_hub(chosen, split) for split in ("train", "validation")]
    elif os.path.isdir(source):
        splits = _from_folder(chosen, Path(source))
    elif Path(source).suffix == ".tsv":
        splits = [_from_table(chosen, Path(source))]
    else:
        raise ConfigError(
            f"data = {source!r} is no folder: allowed is {MADE_UP!r}, {HUB!r}, a folder with train.tsv and "
            f"dev.tsv{_or_sentence_files(task)}, or a .tsv file"
        )
    if len(splits) == 1:
        read = _unique(splits[0])
        order = streams.at("halves").choice(len(read), len(read))[0].tolist()
        return _split(chosen, [read[i] for i in order], len(read) // 2, source)
    first, second = list(splits[0]), list(splits[1])
    everything = _unique([*second, *first])  # a text of both is a query
    queries = {example.texts for example in second}
    items = [example for example in everything if example.texts in queries]
    return _checked(chosen, [e for e in everything if e.texts not in queries], items, source)


def load_irrelevant(source: str, draws: Draws, count: int) -> list[str]:
    """``count`` different sentences that have nothing to do with any task, in random order.

    Args:
        source: "made-up" for those of a small grammar, or a text file with one a line.
        draws: of one replica.
        count: how many.

    Raises:
        ConfigError: the file cannot be read, or has too few.
    """
    if source == MADE_UP:
        return made_up_irrelevant(draws, count)
    try:
        lines = Path(source).read_text(encoding="utf-8-sig").split("\n")  # other ends of lines may stand in a text
    except (OSError, ValueError) as error:  # no such file, no UTF-8, or no path
        reason = error.strerror if isinstance(error, OSError) else str(error)[:100]
        raise ConfigError(
            f"irrelevant = {source[:300]!r} cannot be read ({reason}): allowed is {MADE_UP!r} or a text file with "
            "one sentence a line"
        ) from None
    sentences = list(dict.fromkeys(" ".join(line.split()) for line in lines if line.strip()))
    if len(sentences) < count:
        raise ConfigError(
            f"irrelevant = {source!r} is out of range: allowed is a file of at least {count} different lines. It has "
            f"{len(sentences)}."
        )
    return [sentences[i] for i in draws.choice(len(sentences), count)[0].tolist()]


def _split(task: Task, examples: Sequence[Example], first: int, source: str) -> Examples:
    return _checked(task, examples[:first], examples[first:], source)


def _checked(task: Task, pool: Sequence[Example], items: Sequence[Example], source: str) -> Examples:
    if not pool or not items:
        raise ConfigError(
            f"data = {source!r} has nothing for task {task.name!r}, as its tables are empty: allowed are tables with "
            "exemplars and queries"
        )
    if len({example.label for example in (*pool, *items)}) < 2:
        raise ConfigError(
            f"data = {source!r} have one label only, {items[0].label}: allowed are tables for task {task.name!r} with "
            f"both, 0 ({task.words[0]}) and 1 ({task.words[1]})"
        )
    return Examples(task, tuple(pool), tuple(items))


def _unique(examples: Iterable[Example]) -> list[Example]:
    """Each input once, as it is first seen."""
    return list({example.texts: example for example in reversed(list(examples))}.values())[::-1]


def _example(task: Task, row: Mapping[str, Any], source: str) -> Example:
    needed = (*task.columns, "label")
    if missing := [name for name in needed if row.get(name) is None]:
        raise ConfigError(
            f"{source} has no column {missing[0]!r}: allowed are columns {', '.join(needed)} for task {task.name!r}"
        )
    if str(row["label"]) not in ("0", "1"):
        raise ConfigError(f"{source} has the label {row['label']!r}: allowed is 0 ({task.words[0]}) or 1")
    return Example(tuple(" ".join(str(row[name]).split()) for name in task.columns), int(row["label"]))


def _from_folder(task: Task, folder: Path) -> list[Iterator[Example]]:
    """The task's files of sentences, if they are there; else its tables."""
    own = SENTENCE_FILES.get(task.name)
    if own is None or not (folder / own).is_file():
        return [_from_table(task, folder / name) for name in ("train.tsv", "dev.tsv")]
    return [_from_lines(task, folder / name) for name in (own, *([TREC_TEST] if task.name == "trec" else []))]


def _from_lines(task: Task, file: Path) -> Iterator[Example]:
    labels = _IN_FILES[task.name]
    try:
        lines = labelled_lines(file)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"data: {file} cannot be read ({error}): allowed is UTF-8 text, a label, a blank and a sentence a line. "
            "Correct the file."
        ) from None
    for label, text in lines:
        if label not in labels:
            raise ConfigError(f"{file.name} has the label {label[:60]!r}: allowed is {', '.join(sorted(labels))}")
        if (found := labels[label]) is not None:
            yield Example((" ".join(text.split()),), found)


def _or_sentence_files(task: str) -> str:
    own = f", or with {SENTENCE_FILES[task]}" if task in SENTENCE_FILES else ""
    return own + (f" and {TREC_TEST}" if task == "trec" else "")


def _from_table(task: Task, file: Path) -> Iterator[Example]:
    if not os.path.isfile(file):
        own = _or_sentence_files(task.name)
        raise ConfigError(
            f"data: {file} is not there: allowed is a folder with train.tsv and dev.tsv{own}, or a .tsv file"
        )
    try:
        for row in table_rows(file):
            yield _example(task, row, file.name)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"data: {file} cannot be read ({error}): allowed is a table in UTF-8, with tabs between columns, as many "
            "in each line. Correct the file."
        ) from None


def _from_hub(task: Task, split: str) -> Iterator[Example]:
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise MissingExtraError("data 'hub'", "language") from error
    if own := SENTENCE_FILES.get(task.name):
        raise ConfigError(
            f"data = 'hub' has no task {task.name!r}, which is not in GLUE: give a folder with {own}, or a .tsv file"
        )
    try:
        with asking_hub():
            rows = load_dataset(_GLUE, task.name, split=split)
    except Exception as error:  # of many kinds, from the network to the disk
        reason = " ".join(str(error).split())[:300]
        raise ConfigError(
            f"data = 'hub': {task.name} of {_GLUE} cannot be loaded ({reason}): allowed is {MADE_UP!r}, a folder with "
            "train.tsv and dev.tsv, or a .tsv file where there is no network"
        ) from None
    for row in rows:
        yield _example(task, row, _GLUE)
