"""What `longbench` asks of whom: options, and a method for each arm."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from featscope.language.load import RETRIEVER
from featscope.language.longbench import MADE_UP, SUITES, Benchmark, SuiteName
from featscope.language.methods import Reading, layer_of, listed, pooling_of
from featscope.language.selection import Pool
from featscope.options import require
from featscope.studies import Arm, Study

TableName = Literal["llama-3.1-8b", "mistral-nemo-12b", "phi-3.5-mini", "llama-3.1-8b-layers", "llama-3.1-8b-chat"]
Compared = Literal[
    "gemfilter", "question-kept", "snapkv", "h2o", "full", "middle-row", "fastkv", "promptdistill", "adakv"
]
COMPARED: tuple[Compared, ...] = get_args(Compared)
_DEFAULT: tuple[Compared, ...] = ("gemfilter", "question-kept", "snapkv", "h2o", "full", "middle-row")
_WINDOW = 32  # recent tokens that all keep but GemFilter by the paper's rule: dissertation, Section G.4.2


@dataclass(frozen=True)
class LongBenchArms(Study):
    """GemFilter, SnapKV, H2O and the full cache on LongBench's English tasks (dissertation, Section 9.4.2).

    GemFilter chooses by the paper's rule; beside it stands the same with the last tokens kept, the library's default.
    Without `data` the examples are made up, and scores on them say nothing about LongBench. A step answers one example.

    Attributes:
        model: "retriever" for the small model of the package featscope-retriever, a folder, or a model of the Hub.
        data: "made-up"; a folder with the benchmark's files (TASK.jsonl, for LongBench also data/TASK.jsonl or
            data.zip, for LongBench v2 data.json); or its name on the Hub: THUDM/LongBench, THUDM/LongBench-v2,
            xinrongzhang2022/InfiniteBench.
        suite: the benchmark; what the paper says is of the first, which alone has made-up data.
        tasks: the benchmark's names of the tasks; all of them if none is named.
        examples: first examples of each task that are used; 0 for all.
        methods: what is compared. H2O forms the attention of all tokens, which takes long at long prompts. FastKV,
            PromptDistill and AdaKV came after the paper, and are compared where they are named.
        layer: r, the layer that chooses for GemFilter, FastKV and PromptDistill, from 0; None for the retriever's own.
        keep: k, tokens (for SnapKV, H2O and FastKV: entries of each layer and key head; for AdaKV so many on average)
            that are kept of a prompt.
        kernel: neighbours whose scores are pooled, an odd number; None for the retriever's own, or the papers' 5.
        pool: how they are pooled; None for the retriever's own, or the average as in the papers' code.
        context: tokens that a prompt may have, longer ones are cut in the middle; 0 for what the model has room for.
        chat: whether prompts are put into the model's chat template (Table G.1), where LongBench does.
        redact: whether answers are not stored; else `featscope export DIR` writes them beside their scores.
        published: the paper's table that figures show.
    """

    name = "longbench"
    default_replicas = 1

    model: str = RETRIEVER
    data: str = MADE_UP
    suite: SuiteName = "longbench"
    tasks: tuple[str, ...] = ()
    examples: int = 0
    methods: tuple[Compared, ...] = _DEFAULT
    layer: int | None = None
    keep: int = 96
    kernel: int | None = None
    pool: Pool | None = None
    context: int = 0
    chat: bool = False
    redact: bool = False
    published: TableName = "llama-3.1-8b"

    def __post_init__(self) -> None:
        suite = SUITES[self.suite]
        has_made_up = self.suite == "longbench"
        allowed = f"{f'{MADE_UP!r}, ' if has_made_up else ''}a folder, or {suite.hub!r}"
        require(self, "data", self.data != "" and (has_made_up or self.data != MADE_UP), allowed)
        known = all(task in suite.tasks for task in self.tasks) and len(set(self.tasks)) == len(self.tasks)
        require(self, "tasks", known, f"some of {', '.join(suite.tasks)}, each once")
        require(self, "examples", self.examples >= 0, ">= 0")
        named = {*self.methods}.intersection(COMPARED)
        require(self, "methods", 0 < len(named) == len(self.methods), f"some of {', '.join(COMPARED)}")
        window = self.reading.window
        require(
            self,
            "keep",
            self.keep > window,
            f"> {window}",
            "All but GemFilter by the paper's rule keep so many recent ones alone.",
        )
        require(self, "context", self.context == 0 or self.context >= 2, ">= 2, or 0")

    @property
    def names(self) -> tuple[str, ...]:
        """The tasks, in the order of the tables' columns."""
        return tuple(task for task in SUITES[self.suite].tasks if not self.tasks or task in self.tasks)

    @property
    def is_made_up(self) -> bool:
        """Whether the data are made up, so that scores say nothing about LongBench."""
        return self.data == MADE_UP

    @property
    def of_paper(self) -> bool:
        """Whether the paper says something of the data."""
        return self.suite == "longbench" and not self.is_made_up

    @property
    def reading(self) -> Reading:
        """Filter layer, kept tokens and window."""
        layer = layer_of(self, needs_layer=any(listed(name).by_layer for name in self.methods))
        return Reading(layer, self.keep, _WINDOW, *pooling_of(self))

    def smallest(self) -> "LongBenchArms":
        """One example of one task."""
        return replace(self, data=MADE_UP, suite="longbench", tasks=("triviaqa",), examples=1)

    def arms(self) -> Sequence[Arm[Benchmark]]:
        """One for each method. That of the middle row keeps as many tokens as GemFilter, and others."""
        reading = self.reading
        asked = (self.model, self.data, self.suite, self.names, self.examples, self.context, self.chat, self.redact)
        return [
            Arm(name, Benchmark(name, reading, *asked), reading.about(name), listed(name).label)
            for name in self.methods
        ]
