"""InfiniteBench's English tasks on texts of 100,000 tokens and more: passkeys, books, dialogues, code, numbers.

Zhang et al. 2024, arXiv 2402.13718; prompts (those for open models, ``src/prompt.py``), numbers of tokens and rules are
those of its public repository. Left out are its Chinese task, and Math.Calc, whose answers have up to 30,000 tokens.
Summaries are scored by ROUGE-L as in LongBench, where InfiniteBench takes ROUGE-Lsum.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from featscope.files import each_once, kept_while_unchanged
from featscope.language.examples import is_text
from featscope.language.longbench import picked
from featscope.language.longbench.data import LongBenchExample, one_file
from featscope.language.longbench.metrics import qa_f1, rouge_l
from featscope.language.longbench.tasks import LongBenchTask
from featscope.options import ConfigError

HUB = "xinrongzhang2022/InfiniteBench"
"""Its name on the Hub."""
_HIDDEN = "There is an important info hidden inside a lot of irrelevant text. Find it"
ALL = (
    LongBenchTask(
        "passkey",
        "Retr.PassKey",
        f"{_HIDDEN} and memorize it. I will quiz you about the important information.\n\n{{context}}\n\n{{input}}\n\n"
        "The pass key is",
        6,
        picked.first_digits,
    ),
    LongBenchTask(
        "number_string",
        "Retr.Number",
        f"{_HIDDEN}. I will quiz you about the important information there.\n\n{{context}}\n\n{{input}}\n\n"
        "The sequence of digits is",
        12,
        picked.first_digits,
    ),
    LongBenchTask(
        "kv_retrieval",
        "Retr.KV",
        "Extract the value corresponding to the specified key in the JSON object below.\n\n{context}\n\n{input}",
        50,
        picked.word_among,
    ),
    LongBenchTask("longbook_sum_eng", "En.Sum", "Summarize the book below.\n\n{context}\n\nSummary:", 1200, rouge_l),
    LongBenchTask(
        "longbook_qa_eng",
        "En.QA",
        "Read the book and answer the question. Be very concise in your answer.\n\n{context}\n\nQuestion: {input}\n"
        "Answer:",
        40,
        qa_f1,
    ),
    LongBenchTask(
        "longbook_choice_eng",
        "En.MC",
        "Read the book and answer the question.\n\n{context}\n\nQuestion: {input}\n\n"
        "The letter of the correct answer is",
        40,
        picked.chosen,
    ),
    LongBenchTask(
        "longdialogue_qa_eng",
        "En.Dia",
        'Below is a dialogue script where one random occurrence of a character name is replaced with "$$MASK$$", and '
        "you should try to guess who that character is.\n\n{context}\n\nThe name that has been replaced with $$MASK$$ "
        "is likely",
        40,
        picked.name_among,
    ),
    LongBenchTask(
        "code_debug",
        "Code.Debug",
        "Following is a Python code where exactly one of the functions/methods has a deliberate error that makes it "
        "crash.\n\n{context}\n\nOptions:\n{input}\n\nThe correct option is:",
        5,
        picked.chosen_function,
    ),
    LongBenchTask("code_run", "Code.Run", "{context}\n\n{input}", 5, picked.last_number),
    LongBenchTask("math_find", "Math.Find", "{context}\n\n{input}", 3, picked.first_number),
)
TASKS: Mapping[str, LongBenchTask] = {task.name: task for task in ALL}
"""The tasks by name, which is that of their file."""
_CHOICES = ("longbook_choice_eng", "code_debug")
_NUMBERS = {
    **dict.fromkeys(("passkey", "number_string"), re.compile(r"\d+")),
    "code_run": re.compile(r"-?\d+"),
    "math_find": re.compile(r"-?\d+(\.\d+)?"),
}


@kept_while_unchanged(len(TASKS))
def read_task(source: str, task: str) -> tuple[LongBenchExample, ...]:
    """All examples of ``task``, in the order of the file.

    Args:
        source: a folder with ``TASK.jsonl``, or a data set of the Hub that has it: "xinrongzhang2022/InfiniteBench".
        task: one of `TASKS`.

    Raises:
        ConfigError: no such source or file, or a line that is not as InfiniteBench's.
    """
    where, text = one_file(source, f"{task}.jsonl", HUB)
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise ConfigError(f"{where} is empty: allowed is one example or more, a JSON object a line")
    return tuple(_example(f"{where}, line {number}", line, task) for number, line in lines)


def _example(where: str, line: str, task: str) -> LongBenchExample:
    try:
        given: Any = json.loads(line, object_pairs_hook=each_once)
        context, asked, answers = given["context"], given["input"], given["answer"]
        options = given.get("options") or []
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(
            f"{where} is no example ({str(error)[:100]}): allowed is a JSON object with context, input and answer. "
            "Correct the file."
        ) from None
    several = answers if isinstance(answers, list) else [answers]
    words = [str(one) for one in several if isinstance(one, str | int | float) and not isinstance(one, bool)]
    wanted = [one for one in words if is_text(one) and one.strip()]  # a blank is in whatever is said
    if not is_text(context) or not is_text(asked) or not wanted:
        raise ConfigError(f"{where}: allowed are a context and an input of text, and an answer. Correct the file.")
    if task in _CHOICES:
        asked, wanted = _choice(where, task, asked, options, wanted)
    elif task == "code_run":
        call = re.search(r"(\w+)\(-?\d+\)", asked)
        if call is None:
            raise ConfigError(f"{where}: input = {asked[:60]!r}: allowed is one with a call, as func_1(2).")
        context = f"There is a function called {call[1]} in the following Python code.\n\n{context}"
        asked = f"Please compute the exact value of {call[0]}. The value of {call[0]} is"
    elif task == "math_find":
        number = re.search("The (.+) of", asked)
        if number is None:
            raise ConfigError(f"{where}: input = {asked[:60]!r}: allowed is one as 'The largest number of the list'.")
        context = f"What is the {number[1].lower()} in the following list?\n\n{context}"
    if task in _NUMBERS and not all(map(_NUMBERS[task].fullmatch, wanted)):
        raise ConfigError(f"{where}: answer = {str(answers)[:60]}: allowed are numbers. Correct the file.")
    return LongBenchExample(asked, context, tuple(wanted))


def _choice(where: str, task: str, asked: str, options: Any, wanted: Sequence[str]) -> tuple[str, list[str]]:
    """The question with its options; letter and words of the right one."""
    named = isinstance(options, list) and len(options) == 4 and all(map(is_text, options))
    if not named or (wanted[0] not in options and wanted[-1] not in ("A", "B", "C", "D")):
        raise ConfigError(
            f"{where}: options = {str(options)[:60]}: allowed are four texts, one of which is the answer."
        )
    told = len(wanted) > 1 and wanted[-1] in ("A", "B", "C", "D")  # where two options are alike, or none is the text
    letter = wanted[-1] if told or wanted[0] not in options else "ABCD"[options.index(wanted[0])]
    listed = "\n".join(f"{name}. {text}" for name, text in zip("ABCD", options, strict=True))
    right = options["ABCD".index(letter)]
    if wanted[0] in options and right != wanted[0]:
        raise ConfigError(
            f"{where}: answer = {str(wanted)[:60]}: allowed are a text and the letter of the option that it is. "
            "Correct the file."
        )
    return (listed if task == "code_debug" else f"{asked}\n{listed}"), [letter, right]
