"""How LongBench v2 and InfiniteBench score an answer: a letter that was picked, a number, a word.

Rules are those of their public repositories (THUDM/LongBench, ``pred.py``; OpenBMB/InfiniteBench,
``src/compute_scores.py``): 1 or 0.
"""

import re
from collections.abc import Sequence

_BEFORE_CHOICE = ("answer is:", "answer:", "answer is", "option is")
_BEFORE_ERROR = ("answer is:", "is:", "answer:")


def stated_letter(answer: str, right: str, classes: Sequence[str] = ()) -> float:
    """Whether "The correct answer is (B)", also without brackets, has the right letter; asterisks do not count."""
    plain = answer.replace("*", "")
    found = re.search(r"The correct answer is \(([A-D])\)", plain) or re.search(r"The correct answer is ([A-D])", plain)
    return float(found is not None and found[1] == right)


def first_letter(answer: str, right: str, classes: Sequence[str] = ()) -> float:
    """Whether an answer begins with the right letter of A to D, or has it after "answer is", or as its first letter."""
    if answer[:1] and answer[0] in "ABCD":
        return float(answer[0] == right)
    text = _spaced(answer, "\n\"'.,?!{}")
    for before in _BEFORE_CHOICE:
        _, found, after = text.partition(before)
        if found:
            return float(after[1:].startswith(right))
    letters = [word for word in text.split() if word in "ABCD"]
    return float(bool(letters) and right in letters[0])


def option_or_name(answer: str, right: str, classes: Sequence[str] = ()) -> float:
    """Whether an answer begins with "B." or "B:", or has the right letter or name after "answer is:"."""
    if len(right) == 1 and answer[:2] in (f"{right}.", f"{right}:"):
        return 1.0
    text = answer.strip()
    for mark in ("\n", "`", "'", '"', "-", "*", "Option", "option"):
        text = text.replace(mark, " ")
    text = re.sub(" +", " ", text)
    for before in _BEFORE_ERROR:
        _, found, after = text.partition(before)
        if found:
            return float(after[1:].startswith(right))
    return 0.0


def first_digits(answer: str, right: str, classes: Sequence[str] = ()) -> float:
    """Whether the first digits in a row are the right ones."""
    found = re.search(r"[0-9]+", answer)
    return float(found is not None and found[0] == right)


def first_number(answer: str, right: str, classes: Sequence[str] = ()) -> float:
    """Whether the first number, whole or with a point, is the right one."""
    found = re.search(r"\d+\.\d+|\d+", answer)
    return float(found is not None and float(found[0]) == float(right))


def last_number(answer: str, right: str, classes: Sequence[str] = ()) -> float:
    """Whether the last word is the right whole number."""
    words = _spaced(answer.strip(), "\n.`'\":").split()
    return float(bool(words) and re.fullmatch(r"[+-]?\d+", words[-1]) is not None and int(words[-1]) == int(right))


def word_among(answer: str, right: str, classes: Sequence[str] = ()) -> float:
    """Whether the right word is among those of an answer."""
    return float(right in _spaced(answer, "\n:\"'.,?!{}").split())


def name_among(answer: str, right: str, classes: Sequence[str] = ()) -> float:
    """The same in capitals."""
    return word_among(answer.upper(), right)


def _spaced(text: str, marks: str) -> str:
    """One blank in the place of any of ``marks``, and of several blanks."""
    return re.sub(" +", " ", text.translate({ord(mark): " " for mark in marks}))
