"""LongBench v2: 503 questions of four choices on texts of 8,000 to two million words, in six domains.

Bai et al. 2024, arXiv 2412.15204; prompt (``prompts/0shot.txt``) and rule are those of its public repository.
"""

import json
from collections.abc import Mapping
from typing import Any

from featscope.files import each_once, kept_while_unchanged
from featscope.language.examples import is_text
from featscope.language.longbench.data import LongBenchExample, one_file
from featscope.language.longbench.picked import stated_letter
from featscope.language.longbench.tasks import LongBenchTask
from featscope.options import ConfigError

HUB = "THUDM/LongBench-v2"
"""Its name on the Hub."""
_FILE = "data.json"
_PROMPT = (
    "Please read the following text and answer the question below.\n\n<text>\n{context}\n</text>\n\n"
    "What is the correct answer to this question: {input}\n\n"
    'Format your response as follows: "The correct answer is (insert answer here)".'
)
_DOMAINS: Mapping[str, tuple[str, str]] = {
    "single-document-qa": ("Single-Document QA", "Single"),
    "multi-document-qa": ("Multi-Document QA", "Multi"),
    "in-context-learning": ("Long In-context Learning", "In-context"),
    "dialogue-history": ("Long-dialogue History Understanding", "Dialogue"),
    "code-repository": ("Code Repository Understanding", "Code"),
    "structured-data": ("Long Structured Data Understanding", "Tables"),
}
TASKS: Mapping[str, LongBenchTask] = {
    name: LongBenchTask(name, column, _PROMPT, 128, stated_letter) for name, (_, column) in _DOMAINS.items()
}
"""Its domains, each a task."""
_FIELDS = ("question", "choice_A", "choice_B", "choice_C", "choice_D", "answer", "context", "domain")


@kept_while_unchanged(1)
def _all(source: str) -> tuple[tuple[str, LongBenchExample], ...]:
    where, text = one_file(source, _FILE, HUB)
    try:
        given: Any = json.loads(text, object_pairs_hook=each_once)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{where} is no JSON ({str(error)[:100]}): allowed is LongBench v2's own. Get it again."
        ) from None
    if not isinstance(given, list) or not given:
        raise ConfigError(f"{where} holds no list of examples: allowed is LongBench v2's own. Get it again.")
    return tuple(_example(f"{where}, example {number}", one) for number, one in enumerate(given, 1))


def read_task(source: str, task: str) -> tuple[LongBenchExample, ...]:
    """All examples of a domain, in the order of the file.

    Args:
        source: a folder with ``data.json``, or a data set of the Hub that has it, such as "THUDM/LongBench-v2".
        task: one of `TASKS`.

    Raises:
        ConfigError: no such source or file, an example that is not as LongBench v2's, or none of the domain.
    """
    found = tuple(example for domain, example in _all(source) if domain == _DOMAINS[task][0])
    if not found:
        known = ", ".join(sorted({domain for domain, _ in _all(source)}))[:200]
        raise ConfigError(f"data = {source!r} has no example of {task}: allowed is one or more. It has {known}.")
    return found


def _example(where: str, given: Any) -> tuple[str, LongBenchExample]:
    if not isinstance(given, dict):
        raise ConfigError(f"{where} is {str(given)[:60]!r}: allowed is a JSON object. Correct the file.")
    for field in _FIELDS:
        if not is_text(given.get(field)):
            raise ConfigError(f"{where}: {field} = {given.get(field)!r:.60}: allowed is a text. Correct the file.")
    if given["answer"] not in ("A", "B", "C", "D"):
        raise ConfigError(f"{where}: answer = {given['answer']!r:.60}: allowed is A, B, C or D. Correct the file.")
    choices = "\n".join(f"({letter}) {given[f'choice_{letter}'].strip()}" for letter in "ABCD")
    asked = f"{given['question'].strip()}\nChoices:\n{choices}"
    return given["domain"], LongBenchExample(asked, given["context"].strip(), (given["answer"],))
