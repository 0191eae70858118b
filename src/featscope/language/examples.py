"""Prompts with what an answer must have, in a file of JSON lines."""

import json
import re
import unicodedata
from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from featscope.files import atomic_write, each_once
from featscope.options import ConfigError

_ALLOWED = (
    '{"prompt": …, "answer": …}, or {"document": …, "question": …, "answer": …}, where the answer is a text or a list '
    'of texts; with "task": … if you like'
)

_STRAIGHT = str.maketrans("\u2018\u2019\u02bc\u201c\u201d", "'''\"\"")
_OTHER_FORMS = ("<wide>", "<narrow>", "<compat>", "<noBreak>")
_ENDS_SHORT = re.compile(r"\.[^\W\d]\.")  # read backwards: an abbreviation, which goes on as U.S. does in U.S.A.
_LOOK = 16  # characters that may tell whether a word or number goes on
_GROUP = 3  # digits between commas
_TIME = re.compile(r"(?<!\w)\d{1,2}:(?!00)\d\d(?!\w)")
_UNPARTED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")


class Example(NamedTuple):
    """A prompt, what must be in what is generated, and the task that it is of.

    Attributes:
        prompt: the text.
        answers: all of these.
        task: its name; empty for none.
        document: what the prompt begins with, if a question follows it; empty for none.
    """

    prompt: str
    answers: tuple[str, ...]
    task: str = ""
    document: str = ""

    @property
    def question(self) -> str:
        """What stands behind the document."""
        return self.prompt[len(self.document) :]

    @property
    def forms(self) -> list[str]:
        """Ways to write no more than the answers: capitals, blanks and how accents are coded do not count."""
        said = " ".join(unicodedata.normalize("NFC", " ".join(self.answers)).split())
        return [said, f" {said}", said.lower(), f" {said.lower()}"]

    def share(self, said: str) -> float:
        """Share of the answers that are in ``said``, as whole words and numbers.

        Capitals, blanks, shapes of quotes and how characters are coded (full-width ones, ligatures) do not count. In
        scripts that do not part words by blanks (Chinese, Japanese, Korean, Thai and their like) parts of a text count,
        too.
        """
        text = _plain(said)
        return sum(_stands_in(text, _plain(answer)) for answer in self.answers) / len(self.answers)

    def is_right(self, said: str) -> bool:
        """Whether all answers are in ``said``."""
        return self.share(said) == 1


def _plain(text: str) -> str:
    """Without capitals, with single blanks and straight quotes, and each character coded in one way."""
    one_way = "".join(map(_usual, unicodedata.normalize("NFC", text).translate(_STRAIGHT))).casefold()
    return " ".join(unicodedata.normalize("NFC", one_way).replace("i\u0307", "i").split())  # the Turkish capital I


def _usual(character: str) -> str:
    """The usual form of a wide or narrow character or a ligature; 2² is not 22, nor ½ 1."""
    tag = unicodedata.decomposition(character).partition(" ")[0]
    return unicodedata.normalize("NFKC", character) if tag in _OTHER_FORMS else character


def _stands_in(text: str, answer: str) -> bool:
    """Whether ``answer`` is somewhere in ``text`` where no word or number goes on before or behind it.

    The number .5 is in 0.5, and not in 10.5; 10 is not in 10:30, and 3 is in 3:00; U.S. is not in U.S.A. A comma is
    within a number where at most three digits stand on either side: 500 is not in 1,500, and 1234 is in 1234,5678.
    """
    times = [found.span() for found in _TIME.finditer(text)]
    starts = (found.start() for found in re.finditer(f"(?={re.escape(answer)})", text))
    zero = "0" if re.match(r"\.\d", answer) else ""
    for start in starts:
        before, behind = text[max(0, start - _LOOK) : start][::-1], text[start + len(answer) :][:_LOOK]
        alone = not _goes_on(before, answer) or (before[:1] == zero and not _goes_on(before[1:], zero))
        ends_short = bool(_ENDS_SHORT.match(answer[::-1])) and behind[:1].isalpha()
        end = start + len(answer)
        of_a_time = any(first <= start and end <= last and (start, end) != (first, last) for first, last in times)
        if alone and not (_goes_on(behind, answer[::-1]) or ends_short or of_a_time):
            return True
    return False


def _goes_on(beyond: str, inside: str) -> bool:
    """Whether a word or number that ends with ``inside[0]`` goes on with ``beyond[0]``, both read away from there."""
    if not beyond or not inside:
        return False
    if beyond[0] == "_" and not any(map(_of_word, beyond.lstrip("_")[:1])):
        return False  # Markdown's _emphasis_
    parted = ((inside, beyond), (beyond, inside))
    return (_of_word(inside[0]) and _of_word(beyond[0])) or any(_parts_a_number(*sides) for sides in parted)


def _parts_a_number(one: str, other: str) -> bool:
    """Whether ``other`` begins with the point or comma of a number of which ``one`` has digits."""
    digits = _digits(one), _digits(other[1:])
    return min(digits) > 0 and (other[0] == "." or (other[0] == "," and max(digits) <= _GROUP))


def _digits(text: str) -> int:
    """How many digits it begins with."""
    return sum(1 for _ in takewhile(str.isdigit, text))


def _of_word(character: str) -> bool:
    """Whether it may be within a word: letters, digits, vowel signs and accents, and hyphens."""
    kind = unicodedata.category(character)
    return (kind[0] in "LNM" or character in "-_") and not _UNPARTED.match(character)


def read_examples(path: Path) -> list[Example]:
    """The examples of a file.

    Raises:
        ConfigError: it cannot be read, a line is no example, or there is none.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")  # other ends of lines may stand in a text
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"data = {str(path)!r} cannot be read ({error}): allowed is a file of JSON lines") from None
    found = [_example(f"data = {str(path)!r}, line {i}", line) for i, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise ConfigError(f"data = {str(path)!r} is empty: allowed is one example or more")
    return found


def _example(where: str, line: str) -> Example:
    try:
        given = json.loads(line, object_pairs_hook=each_once)
        asks = "document" in given or "question" in given
        if asks and "prompt" in given:
            raise ValueError("a prompt beside a document or a question")
        document, prompt = (given["document"], given["question"]) if asks else ("", given["prompt"])
        answer, task = given["answer"], given.get("task", "")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{where}, is no example ({str(error)[:100]}): allowed is {_ALLOWED}") from None
    answers = tuple(answer) if isinstance(answer, list) else (answer,)
    texts = (prompt, *answers, *([document] if asks else []))
    if not answers or not all(is_text(text) and text.strip() for text in texts):
        raise ConfigError(f"{where}: allowed are a prompt and an answer with text, as in {_ALLOWED}")
    if not is_text(task):
        raise ConfigError(f"{where}: task = {task!r:.60}: allowed is a text")
    return Example(document + prompt, answers, task, document)


def write_examples(path: Path, examples: Iterable[Example]) -> None:
    """A file that `read_examples` reads, whole or not at all."""
    lines = (
        json.dumps(
            {"task": one.task}
            | ({"document": one.document, "question": one.question} if one.document else {"prompt": one.prompt})
            | {"answer": list(one.answers)},
            ensure_ascii=False,
        )
        for one in examples
    )
    atomic_write(path, "".join(f"{line}\n" for line in lines).encode())


def is_text(value: object) -> bool:
    """Whether ``value`` is a text that can be written and read by a tokenizer: JSON may have halves of characters."""
    try:
        return isinstance(value, str) and bool(value.encode() or True)
    except UnicodeEncodeError:
        return False
