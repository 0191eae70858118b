"""`featscope ruler`: a file of RULER's tasks, which `featscope tune-prompt` reads."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import track
from transformers import PreTrainedTokenizerBase

from featscope.language.examples import Example, write_examples
from featscope.language.haystack import BUILT_IN, MOST_TOKENS, read_texts
from featscope.language.load import RETRIEVER, load_tokenizer, require_folder
from featscope.language.ruler import TASKS, TooShortError, fitted
from featscope.options import require
from featscope.streams import Streams


@dataclass(frozen=True)
class Ruler:
    """Write prompts of RULER's tasks, as long as you like, for `featscope tune-prompt --data`.

    Attributes:
        out: file of JSON lines that is written.
        model: whose tokenizer counts: "retriever" for the small model that ships with FeatScope, a folder, or a model
            of the Hub.
        length: tokens that a prompt has at most; it is as long as fits.
        tasks: RULER's names; none for all that need no data set and fit into the length.
        examples: of each task.
        haystack: "built-in", or a folder with .txt files: what some tasks hide something in.
        seed: of everything that is drawn.
        overwrite: whether a file that is there may be replaced.
    """

    out: Path = Path("ruler.jsonl")
    model: str = RETRIEVER
    length: int = 1024
    tasks: tuple[str, ...] = ()
    examples: int = 20
    haystack: str = BUILT_IN
    seed: int = 0
    overwrite: bool = False

    def __post_init__(self) -> None:
        there = self.out.exists() and not self.overwrite
        require(self, "out", not there, "a file that is not there yet", "Choose another, or add --overwrite.")
        require(self, "out", self.out.absolute().parent.is_dir(), "a file in a folder that is there")
        require_folder(self.model)
        require(self, "length", 1 <= self.length <= MOST_TOKENS, f"1 to {MOST_TOKENS}")
        known = all(task in TASKS for task in self.tasks) and len(set(self.tasks)) == len(self.tasks)
        require(self, "tasks", known, f"some of {', '.join(TASKS)}, each once")
        require(self, "examples", 1 <= self.examples <= 100_000, "1 to 100000")
        require(self, "seed", self.seed >= 0, ">= 0")


def prompts(options: Ruler, tokenizer: PreTrainedTokenizerBase) -> list[Example]:
    """The examples, task by task. Tasks that do not fit are left out, with a word, where none were named.

    Raises:
        ConfigError: there is no such haystack, or a task that was named does not fit into the length.
    """
    texts, streams = read_texts(options.haystack), Streams(options.seed, [0])

    def tokens(text: str) -> int:
        return len(tokenizer(text)["input_ids"])

    made = list[Example]()
    for name in track(options.tasks or list(TASKS), "Writing prompts", transient=True, console=Console(stderr=True)):
        try:
            made += [
                fitted(name, streams.at(f"ruler {name}", number), options.length, tokens, texts)
                for number in range(options.examples)
            ]
        except TooShortError as error:
            if options.tasks:
                raise
            print(f"left out: {error}")
    return made


def write_prompts(options: Ruler) -> None:
    """Write the file, and print how to go on.

    Raises:
        ConfigError: see `prompts`; or there is no such tokenizer.
    """
    made = prompts(options, load_tokenizer(options.model))
    write_examples(options.out, made)
    print(f"{len(made)} prompts of at most {options.length} tokens: {options.out}")
    print(f"featscope tune-prompt --data {options.out} --model {options.model} --max-new-tokens 128")
