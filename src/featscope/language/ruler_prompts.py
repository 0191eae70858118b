"""`featscope ruler`: a file of RULER's tasks, which `featscope tune-prompt` reads."""

import shlex
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import track
from transformers import PreTrainedTokenizerBase

from featscope.language.chat import prompt_tokens
from featscope.language.examples import Example, write_examples
from featscope.language.haystack import BUILT_IN, MOST_TOKENS, read_texts
from featscope.language.load import RETRIEVER, load_tokenizer, require_folder
from featscope.language.ruler import QUESTIONS, TASKS, Drawn, Retrieval, fitted, sentences
from featscope.options import require
from featscope.streams import Streams


@dataclass(frozen=True)
class Ruler:
    """Write prompts of RULER's tasks, as long as you like, for `featscope tune-prompt --data`.

    Attributes:
        out: file of JSON lines that is written.
        model: whose tokenizer counts: "retriever" for that of the package featscope-retriever, a folder, or a model
            of the Hub.
        length: tokens that a prompt has at most; it is as long as fits.
        tasks: RULER's names; none for all that need no data set and fit into the length.
        examples: texts of each task.
        haystack: "built-in", or a folder with .txt files: what some tasks hide something in.
        questions: that are asked of each text, one example each: several for a task whose text has several keys.
        seed: of everything that is drawn.
        overwrite: whether a file that is there may be replaced.
    """

    out: Path = Path("ruler.jsonl")
    model: str = RETRIEVER
    length: int = 1024
    tasks: tuple[str, ...] = ()
    examples: int = 20
    haystack: str = BUILT_IN
    questions: int = 1
    seed: int = 0
    overwrite: bool = False

    def __post_init__(self) -> None:
        require(self, "out", self.out.absolute().parent.is_dir(), "a file in a folder that is there")
        new = not self.out.exists() or (self.overwrite and self.out.is_file())
        require(self, "out", new, "a file that is not there yet", "Choose another, or add --overwrite.")
        require_folder(self.model)
        require(self, "length", 1 <= self.length <= MOST_TOKENS, f"1 to {MOST_TOKENS}")
        known = all(task in TASKS for task in self.tasks) and len(set(self.tasks)) == len(self.tasks)
        require(self, "tasks", known, f"some of {', '.join(TASKS)}, each once")
        require(self, "examples", 1 <= self.examples <= 100_000, "1 to 100000")
        most = min((QUESTIONS.get(task, 1) for task in self.tasks), default=1)
        several = ", ".join(f"2 to {count} with --tasks {task}" for task, count in QUESTIONS.items())
        require(self, "questions", 1 <= self.questions <= most, f"1, or {several} alone")
        require(self, "seed", 0 <= self.seed < 2**63, f"0 to {2**63 - 1}")


def prompts(options: Ruler, tokenizer: PreTrainedTokenizerBase) -> list[Example]:
    """The examples, task by task. Tasks that do not fit are left out, with a word, where none were named.

    Raises:
        ConfigError: there is no such haystack, or a task that was named, or every task, does not fit into the length.
    """
    essay, streams = sentences(read_texts(options.haystack)), Streams(options.seed, [0])

    def tokens(text: str) -> int:
        return len(prompt_tokens(tokenizer, text))

    def longest(one: Drawn, document: str) -> int:
        if len(one.questions) == 1:
            return tokens(document + one.questions[0].text)
        apart = (prompt_tokens(tokenizer, question.text, special=False) for question in one.questions)
        return tokens(document) + max(map(len, apart))

    tasks = [TASKS[name] for name in options.tasks or TASKS]
    hidden_in_essays = any(isinstance(task, Retrieval) and task.hay == "essay" for task in tasks)
    if hidden_in_essays and (known := tokens(" ".join(essay))) < options.length:
        print(f"The haystack has {known} tokens, and comes over again. A folder with more: --haystack FOLDER")
    made, least = list[Example](), dict[str, int]()
    for name in track(options.tasks or list(TASKS), "Writing prompts", transient=True, console=Console(stderr=True)):
        draws = (streams.at(f"ruler {name}", number) for number in range(options.examples))
        drawn = [TASKS[name].drawn(one, essay) for one in draws]
        drawn = [one._replace(questions=one.questions[: options.questions]) for one in drawn]
        least[name] = max(longest(one, one.document(one.least)) for one in drawn)
        if least[name] <= options.length:
            for one in drawn:
                made += _examples(one, fitted(one, options.length, partial(longest, one)), name)
        else:
            require(options, "length", not options.tasks, f">= {least[name]} for {name}")
            print(f"Left out: {name}, whose prompts need --length {least[name]}")
    require(options, "length", bool(made), f">= {min(least.values())} for the shortest task")
    return made


def _examples(drawn: Drawn, document: str, task: str) -> list[Example]:
    """One for each question; of several it is told where the document ends."""
    shared = document if len(drawn.questions) > 1 else ""
    return [Example(document + question.text, question.answers, task, shared) for question in drawn.questions]


def write_prompts(options: Ruler) -> None:
    """Write the file, and print how to go on.

    Raises:
        ConfigError: see `prompts`; or there is no such tokenizer.
    """
    made = prompts(options, load_tokenizer(options.model))
    write_examples(options.out, made)
    print(f"{len(made)} prompts of at most {options.length} tokens: {options.out}")
    data, model = shlex.quote(str(options.out)), shlex.quote(options.model)
    print(f"featscope tune-prompt --data {data} --model {model} --max-new-tokens 128")
