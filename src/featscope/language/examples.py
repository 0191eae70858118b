"""Prompts with what an answer must have, in a file of JSON lines."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from featscope.files import atomic_write
from featscope.options import ConfigError

_ALLOWED = '{"prompt": …, "answer": …}, where the answer is a text or a list of texts; with "task": … if you like'


class Example(NamedTuple):
    """A prompt, what must be in what is generated, and the task that it is of.

    Attributes:
        prompt: the text.
        answers: all of these.
        task: its name; empty for none.
    """

    prompt: str
    answers: tuple[str, ...]
    task: str = ""

    def is_right(self, said: str) -> bool:
        """Whether all answers are in ``said``; capitals and blanks do not count."""
        return all(" ".join(answer.lower().split()) in " ".join(said.lower().split()) for answer in self.answers)


def read_examples(path: Path) -> list[Example]:
    """The examples of a file.

    Raises:
        ConfigError: a line is none, or there is none.
    """
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        where = f"data = {str(path)!r}, line {number}"
        try:
            given = json.loads(line)
            prompt, answer, task = given["prompt"], given["answer"], given.get("task", "")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"{where}, is no example ({error}): allowed is {_ALLOWED}") from error
        answers = tuple(answer) if isinstance(answer, list) else (answer,)
        if not answers or not all(isinstance(text, str) and text.strip() for text in (prompt, *answers)):
            raise ConfigError(f"{where}: allowed are a prompt and an answer with text, as in {_ALLOWED}")
        if not isinstance(task, str):
            raise ConfigError(f"{where}: task = {str(task)[:60]}: allowed is a text")
        found.append(Example(prompt, answers, task))
    if not found:
        raise ConfigError(f"data = {str(path)!r} is empty: allowed is one example or more")
    return found


def write_examples(path: Path, examples: Iterable[Example]) -> None:
    """A file that `read_examples` reads, whole or not at all."""
    lines = (
        json.dumps({"task": one.task, "prompt": one.prompt, "answer": list(one.answers)}, ensure_ascii=False)
        for one in examples
    )
    atomic_write(path, "".join(f"{line}\n" for line in lines).encode())
