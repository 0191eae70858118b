"""The study: options, arms, and what is done in a step."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, ClassVar, Literal

import torch
from transformers import PreTrainedModel
from tyro.conf import Suppress

from featscope.claims import Claim, Statement
from featscope.figures import Figure
from featscope.language import H2O, FullCache, GemFilter, Method, SnapKV
from featscope.language.load import RETRIEVER, load_once
from featscope.language.longbench import MADE_UP, TASKS, Example, answer, made_up, read_task
from featscope.language.longbench.made_up import made_up_count
from featscope.options import ConfigError, require
from featscope.streams import Streams
from featscope.studies.base import Arm, Runs, Study
from featscope.studies.longbench import figures, judge
from featscope.studies.longbench.statements import STATEMENTS
from featscope.training import Experiment, Measurement
from featscope.training.evaluation import Evaluation

MethodName = Literal["full", "snapkv", "h2o", "gemfilter", "middle-row"]
TableName = Literal["llama-3.1-8b", "mistral-nemo-12b", "phi-3.5-mini", "llama-3.1-8b-layers", "llama-3.1-8b-chat"]

COLUMNS = ("score", "task_of", "tokens", "kept", "cut")
_WINDOW = 32  # recent tokens that SnapKV and H2O keep: dissertation, Section G.4.2


@dataclass(frozen=True)
class LongBench(Study):
    """GemFilter, SnapKV, H2O and the full cache on LongBench's English tasks (dissertation, Section 9.4.2).

    Without `data` the examples are made up, and scores on them say nothing about LongBench. A step answers one example.

    Attributes:
        model: "retriever" for the small model that ships with FeatScope, a folder, or a model of the Hub.
        data: "made-up"; a folder with LongBench's files (TASK.jsonl, data/TASK.jsonl or data.zip); or its name on the
            Hub, THUDM/LongBench.
        tasks: LongBench's names of the tasks; all 14 if none is named.
        examples: first examples of each task that are used; 0 for all.
        layer: r, the layer that chooses for GemFilter, from 0.
        keep: k, tokens (for SnapKV and H2O: entries of each layer and key head) that are kept of a prompt.
        context: tokens that a prompt may have, longer ones are cut in the middle; 0 for what the model has room for.
        chat: whether prompts are put into the model's chat template (Table G.1), where LongBench does.
        published: the paper's table that figures show.
        probe_every: steps between measurements of the mean (not an option of the command line).
        method: the arm's own (set by the study).
    """

    model: str = RETRIEVER
    data: str = MADE_UP
    tasks: tuple[str, ...] = ()
    examples: int = 0
    layer: int = 2
    keep: int = 96
    context: int = 0
    chat: bool = False
    published: TableName = "llama-3.1-8b"
    probe_every: Annotated[int, Suppress] = 100
    method: Annotated[MethodName, Suppress] = "full"

    name: ClassVar[str] = "longbench"
    statements: ClassVar[Sequence[Statement]] = STATEMENTS
    default_replicas: ClassVar[int] = 1
    replica_axis: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require(self, "model", self.model != "", f"{RETRIEVER!r}, a folder, or a model of the Hub")
        require(self, "data", self.data != "", f"{MADE_UP!r}, a folder, or 'THUDM/LongBench'")
        known = all(task in TASKS for task in self.tasks) and len(set(self.tasks)) == len(self.tasks)
        require(self, "tasks", known, f"some of {', '.join(TASKS)}, each once")
        require(self, "examples", self.examples >= 0, ">= 0")
        require(self, "layer", self.layer >= 0, ">= 0", "Layers count from 0.")
        require(self, "keep", self.keep > _WINDOW, f"> {_WINDOW}", "SnapKV and H2O keep so many recent ones alone.")
        require(self, "context", self.context == 0 or self.context >= 2, ">= 2, or 0")
        require(self, "probe_every", self.probe_every >= 1, ">= 1")

    @property
    def names(self) -> tuple[str, ...]:
        """The tasks, in the order of the tables' columns."""
        return tuple(task for task in TASKS if not self.tasks or task in self.tasks)

    @property
    def is_made_up(self) -> bool:
        """Whether the data are made up, so that scores say nothing about LongBench."""
        return self.data == MADE_UP

    @property
    def is_whole(self) -> bool:
        """Whether all examples of all tasks are used, cut only where the model has no room for them."""
        return not (self.tasks or self.examples or self.context)

    @property
    def steps(self) -> int:  # type: ignore[override]
        """Examples of all tasks; real data are read for it."""
        return sum(
            self._count(made_up_count(t) if self.is_made_up else len(read_task(self.data, t))) for t in self.names
        )

    def _count(self, available: int) -> int:
        return min(self.examples, available) if self.examples else available

    def arms(self) -> Sequence[Arm["LongBench"]]:
        """One for each method."""

        def arm(method: MethodName, about: str, *, control: bool = False) -> Arm["LongBench"]:
            config = replace(self, method=method)
            return Arm(method, config, about, control=control, at_end=(config.outcomes,))

        return [
            arm("gemfilter", f"layer {self.layer} chooses {self.keep} tokens, and the model reads only those"),
            arm(
                "snapkv",
                f"{self.keep} entries stay in each layer and key head: what the last {_WINDOW} tokens attend to",
            ),
            arm("h2o", f"{self.keep} entries stay in each layer and key head: what all tokens attend to"),
            arm("full", "every key and value stays"),
            arm("middle-row", "GemFilter, but the prompt's middle token chooses (Section 9.4.4)", control=True),
        ]

    def build(self, streams: Streams) -> Experiment:
        """The examples, not answered yet.

        Raises:
            ConfigError: model or data cannot be read, or do not go with the options.
        """
        model, tokenizer = load_once(self.model, str(streams.device))
        method = self._method(model)
        if self.chat and not tokenizer.chat_template:
            raise ConfigError(
                f"LongBench.chat = True, but the tokenizer of {self.model!r} has no chat template: allowed is a model "
                "that was tuned to chat. Leave --chat out, or load an 'Instruct' model."
            )

        def done(place: int, name: str, example: Example) -> tuple[float, ...]:
            found = answer(method, tokenizer, TASKS[name], example, self.context, chat=self.chat)
            return found.score, float(place), float(found.tokens), float(found.kept), float(found.cut)

        tasks = [
            partial(done, place, name, example)
            for place, name in enumerate(self.names)
            for example in self._examples(name, streams)
        ]
        return Evaluation(tasks, COLUMNS, streams)

    def _examples(self, name: str, streams: Streams) -> Sequence[Example]:
        found = made_up(name, streams.at(f"made-up {name}")) if self.is_made_up else read_task(self.data, name)
        return found[: self._count(len(found))]

    def _method(self, model: PreTrainedModel) -> Method:
        if self.method == "full":
            return FullCache(model)
        if self.method == "snapkv":
            return SnapKV(model, self.keep, window=_WINDOW)
        if self.method == "h2o":
            return H2O(model, self.keep, recent=_WINDOW)
        return GemFilter(model, self.layer, self.keep, row="middle" if self.method == "middle-row" else "last")

    def watch(self, experiment: Experiment) -> Mapping[str, Measurement]:
        """Nothing: the loss is the mean score so far."""
        return {}

    def outcomes(self, experiment: Experiment) -> Mapping[str, Measurement]:
        """What was found of each example, and the means of each task."""
        assert isinstance(experiment, Evaluation)
        count = len(experiment.tasks)
        about = {
            "score": ("points", "score of an answer, from 0 to 100"),
            "task_of": ("1", "number of the example's task in the study's order"),
            "tokens": ("token", "n, tokens of the prompt"),
            "kept": ("token", "k, tokens kept of the prompt"),
            "cut": ("token", "tokens cut out of the prompt's middle to fit the context"),
        }
        found = {name: experiment.of(name, (count,), ("example",), *about[name]) for name in COLUMNS}
        values = {name: measurement.values for name, measurement in found.items()}
        score = self._by_task(values["score"], values["task_of"])
        share = self._by_task(values["kept"] / values["tokens"], values["task_of"])
        return found | {
            "task_score": Measurement(score, ("task",), "points", "mean score of a task"),
            "task_share": Measurement(share, ("task",), "1", "mean k/n of a task"),
            "mean_score": Measurement(score.mean(1), (), "points", "mean over tasks of their mean scores"),
            "compression": Measurement(
                values["kept"].mean(1) / values["tokens"].mean(1), (), "1", "mean k over mean n"
            ),
        }

    def _by_task(self, values: torch.Tensor, task_of: torch.Tensor) -> torch.Tensor:
        """Means of ``values`` ``[replica, example]`` over each task's examples: ``[replica, task]``."""
        of = [task_of[0] == place for place in range(len(self.names))]
        return torch.stack([values[:, chosen].mean(1) for chosen in of], 1)

    def claims(self, runs: Runs) -> Iterable[Claim]:
        """See `judge`."""
        return judge.claims(self, runs)

    def figures(self, runs: Runs, claims: Sequence[Claim]) -> Iterable[Figure]:
        """Scores, differences, what the paper reports, compression."""
        return figures.figures(self, runs)

    def headline(self, runs: Runs, claims: Sequence[Claim]) -> str:
        """Mean scores of the methods, and what data they are of."""
        scores = ", ".join(f"{arm} {float(run['mean_score'].mean()):.1f}" for arm, run in runs.items())
        kept = float(runs["gemfilter"]["compression"].mean())
        if self.is_made_up:
            return (
                f"MADE-UP DATA: mean scores {scores} with k/n = {kept:.0%}. They show that everything works, and say "
                "nothing about LongBench; for that, give --data and --model."
            )
        count = runs["full"].sizes["example"]
        return f"Mean scores on {count} examples of {len(self.names)} tasks: {scores}, with k/n = {kept:.0%}."
