"""How LongBench scores an answer.

A metric takes an answer, one right answer, and the classes of the task (none for most), and returns a score in [0, 1].
Definitions are those of LongBench's public repository (``metrics.py``, ``eval.py``).
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

from featscope.options import ConfigError, require_extra

with require_extra("featscope.language.longbench", "language"):
    from rouge import Rouge

Metric = Callable[[str, str, Sequence[str]], float]
"""(answer, right answer, classes) -> score in [0, 1]."""

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_NUMBER = re.compile(r"\d+")
_ROUGE = Rouge(metrics=["rouge-l"])


def normalised(text: str) -> list[str]:
    """The words of ``text`` in lower case, without ASCII punctuation and the articles a, an and the."""
    return _ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def qa_f1(answer: str, right: str, classes: Sequence[str] = ()) -> float:
    """Harmonic mean of precision and recall over `normalised` words, repetitions counted; 0 where none is shared."""
    given, wanted = normalised(answer), normalised(right)
    shared = (Counter(given) & Counter(wanted)).total()
    return 2 * shared / (len(given) + len(wanted)) if shared else 0.0


def rouge_l(answer: str, right: str, classes: Sequence[str] = ()) -> float:
    """ROUGE-L's F-score, by the package `rouge`, which LongBench uses: words are split at blanks, sentences at dots.

    0 where the package gives up, as in LongBench: on a text without words, and on sentences of many hundred words.
    """
    try:
        return float(_ROUGE.get_scores(answer, right)[0]["rouge-l"]["f"])
    except (ValueError, RecursionError):
        return 0.0


def classification_score(answer: str, right: str, classes: Sequence[str]) -> float:
    """One over the number of classes that ``answer`` names, if the right one is among them.

    Classes whose name is a part of the right one's are not counted. (LongBench's loop skips the class after one that
    it strikes out; this matters only where two such classes are named.)
    """
    named = [name for name in classes if name in answer and (name == right or name not in right)]
    return 1 / len(named) if right in named else 0.0


def count_score(answer: str, right: str, classes: Sequence[str] = ()) -> float:
    """Share of the numbers in ``answer`` that are ``right``; 0 if there is none."""
    numbers = _NUMBER.findall(answer)
    return numbers.count(right) / len(numbers) if numbers else 0.0


def retrieval_score(answer: str, right: str, classes: Sequence[str] = ()) -> float:
    """`count_score` for the number in ``right``, which reads "Paragraph 7".

    Raises:
        ConfigError: it does not.
    """
    found = re.search(r"Paragraph (\d+)", right)
    if found is None:
        raise ConfigError(
            f"answers holds {right!r}: allowed for passage_retrieval_en is 'Paragraph' and a number, as in "
            "'Paragraph 7'. Correct the file."
        )
    return count_score(answer, found[1])


def points(
    metric: Metric, answer: str, right: Sequence[str], classes: Sequence[str] = (), *, first_line: bool = False
) -> float:
    """The best score against any right answer, in points from 0 to 100.

    Args:
        metric: of the task.
        answer: what was generated.
        right: all right answers.
        classes: of the task.
        first_line: whether what follows the first line (after empty ones) does not count.
    """
    given = _counting(answer, first_line=first_line)
    return 100 * max((metric(given, one, classes) for one in right), default=0.0)


def exact(answer: str, right: Sequence[str], *, first_line: bool = False) -> bool:
    """Whether an answer is a right one and nothing else, by `normalised` words; the letter "A" alone is no article.

    Args:
        answer: what was generated.
        right: all right answers.
        first_line: as of `points`.
    """
    given = _words(_counting(answer, first_line=first_line))
    return any(given == _words(one) for one in right)


def _counting(answer: str, *, first_line: bool) -> str:
    return answer.lstrip("\n").split("\n")[0] if first_line else answer


def _words(text: str) -> list[str]:
    return normalised(text) or text.lower().translate(_PUNCTUATION).split()
