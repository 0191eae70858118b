"""Files of labelled sentences, one a line, as those of TREC, MR, Subj and CR are passed on."""

from pathlib import Path

SENTENCE_FILES = {"trec": "TREC.train.all", "mr": "rt-polarity.all", "subj": "subj.all", "cr": "custrev.all"}
"""Files of a label, a blank and a sentence a line."""
TREC_TEST = "TREC.test.all"
"""The other file of TREC, whose split is its own."""


def labelled_lines(file: Path) -> list[tuple[str, str]]:
    """Labels and sentences of a file of a label, a blank and a sentence a line.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no UTF-8, or a line has no blank.
    """
    pairs = [line.partition(" ") for line in filled_lines(file, " ")]
    return [(label, text.strip()) for label, _, text in pairs]


def filled_lines(file: Path, between: str, header: bool = False) -> list[str]:
    """Lines that are not blank, without the first if it is a ``header``.

    Raises:
        ValueError: one has nothing ``between`` a label and a sentence.
    """
    # Not splitlines: sentences hold other characters that it takes for ends of lines.
    lines = [*enumerate(file.read_text("utf-8-sig").split("\n"), 1)][header:]
    filled = [(number, line) for number, line in lines if line.strip()]
    for number, line in filled:
        if between not in line:
            raise ValueError(f"line {number} of {file.name} is no label with a sentence: {line[:60]!r}")
    return [line for _, line in filled]
