"""How LongBench v2 and InfiniteBench score an answer: a letter that was picked, a number, a word.

Rules are those of their public repositories (THUDM/LongBench, ``pred.py``; OpenBMB/InfiniteBench,
``src/compute_scores.py`` as of 2024-06 and since: before, names had to be whole words, and a letter the first one): 1
or 0.
"""

import re
from collections.abc import Sequence


def stated_letter(answer: str, right: str, classes: Sequence[str] = ()) -> float:
    """Whether "The correct answer is (B)", also without brackets, has the right letter; asterisks do not count."""
    plain = answer.replace("*", "")
    found = re.search(r"The correct answer is \(([A-D])\)", plain) or re.search(r"The correct answer is ([A-D])", plain)
    return float(found is not None and found[1] == right)


def chosen(answer: str, right: str, classes: Sequence[str] = ()) -> float:
    """Whether an answer chooses the right letter of A to D, or the right option in its words.

    It chooses the last letter that stands alone on the first line that has one. Where this is a wrong one, it may still
    begin with the right one ("Because" begins with B, as published), be the right option and nothing else, or have
    either after "answer is"; where it has none of these, the first word that is a letter counts.
    """
    answer = answer.strip()
    if _last_letter("A-D", answer) == right:
        return 1.0
    if answer[:1] and answer[0] in "ABCD":
        return float(answer[0] == right)
    if answer == right:
        return 1.0
    text = _spaced(answer, "\n\"'.,?!{}")
    for before in ("answer is:", "answer:", "answer is", "option is"):
        _, found, after = text.partition(before)
        if found:
            return float(after[1:].startswith(right))
    letters = [word for word in text.split() if word in "ABCD"]
    return float(letters[:1] == [right])


def chosen_function(answer: str, right: str, classes: Sequence[str] = ()) -> float:
    """The same of functions, letters up to J: right is also who begins with the name, or has it after "is:"."""
    answer = answer.strip()
    if _last_letter("A-J", answer) == right:
        return 1.0
    text = re.sub("Option|option", " ", _spaced(answer, "\n`'\"-*"))
    text = re.sub(" +", " ", text)
    if text.startswith(right):
        return 1.0
    for before in ("answer is:", "is:", "answer:", "correct option is:"):
        _, found, after = text.partition(before)
        if found:
            return float(after[1:].startswith(right))
    return 0.0


def _last_letter(among: str, answer: str) -> str:
    """The last one that stands alone on the first line that has one; "" if there is none."""
    found = re.search(rf"\b[{among}]\b(?!.*\b[{among}]\b)", answer)
    return found[0] if found else ""


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
    """Whether the right name is anywhere in an answer, also as a part of a word; capitals do not count."""
    return float(right.upper() in answer.upper())


METRICS = (
    stated_letter,
    chosen,
    chosen_function,
    first_digits,
    first_number,
    last_number,
    word_among,
    name_among,
)
"""All of them: 1 for an answer that says what is right, whatever else it says."""


def _spaced(text: str, marks: str) -> str:
    """One blank in the place of any of ``marks``, and of several blanks."""
    return re.sub(" +", " ", text.translate({ord(mark): " " for mark in marks}))
