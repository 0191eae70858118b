"""The study `icl-flipped-labels`: its options, its arms, and what each item asks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, get_args

import torch
from tyro.conf import Suppress

from featscope.claims import Claim, Statement
from featscope.figures import Figure
from featscope.options import require
from featscope.streams import Streams
from featscope.studies.base import Arm, Runs, Study
from featscope.studies.icl_flipped_labels import figures, judge, measures
from featscope.studies.icl_flipped_labels.statements import STATEMENTS
from featscope.training import Evaluation, Experiment, Measurement

if TYPE_CHECKING:  # needs the extra 'language', which listing and showing studies does not
    from featscope.language.in_context import Examples, Reader

_KNOWN = 0.75  # share of items on which the learner that ignores exemplars is right

TaskName = Literal["sst2", "subj", "cola", "mrpc", "qqp", "rte", "qnli", "wnli"]


@dataclass(frozen=True)
class IclFlippedLabels(Study):
    """What inverted exemplar labels do to in-context learning (dissertation, Section 5.6, Figures 5.1 and 5.2).

    A replica is one of the paper's seeds: it has its own items and exemplars, the same for all models. An item draws
    its exemplars and the order in which their labels are inverted once, for all shares.

    Attributes:
        models: smallest first; "retriever" for the small model that ships with FeatScope, folders, or models of the
            Hub.
        data: "made-up" for sentences from a small grammar (sst2 only); "hub" for GLUE from the Hub; a folder with
            train.tsv (exemplars) and dev.tsv (items); or one .tsv file, which is halved at random.
        task: what is asked.
        shots: M, exemplars in a prompt.
        flips: shares of exemplar labels that are inverted, from 0 to 1.
        items: evaluation items of a replica; the paper's are 1000.
        chat: whether prompts are put as a user's message, by the chat template of the model.
        steps: one an item (set by the study).
        probe_every: steps between looks at the error (set by the study).
        learner: the arm's model (set by the study).
    """

    models: tuple[str, ...] = ("retriever",)
    data: str = "made-up"
    task: TaskName = "sst2"
    shots: int = 16
    flips: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    items: int = 50
    chat: bool = False
    steps: Annotated[int, Suppress] = 0
    probe_every: Annotated[int, Suppress] = 1
    learner: Annotated[str, Suppress] = ""

    name: ClassVar[str] = "icl-flipped-labels"
    statements: ClassVar[Sequence[Statement]] = STATEMENTS
    default_replicas: ClassVar[int] = 5
    replica_axis: ClassVar[bool] = False

    def __post_init__(self) -> None:
        short = [short_name(model) for model in self.models]
        distinct = len(short) == len({*short, *judge.HAND_SET}) - len(judge.HAND_SET)
        require(
            self,
            "models",
            all(short) and bool(short) and distinct,
            f"names with different last parts, none of {judge.HAND_SET}",
        )
        require(self, "task", self.task in get_args(TaskName), f"one of {', '.join(get_args(TaskName))}")
        require(self, "shots", self.shots >= 1, ">= 1")
        ascending = all(a < b for a, b in zip(self.flips, self.flips[1:], strict=False))
        ends = len(self.flips) > 1 and self.flips[0] == 0 and self.flips[-1] == 1
        require(self, "flips", ascending and ends, "ascending shares from 0 to 1")
        require(self, "items", self.items >= 1, ">= 1")

    def arms(self) -> Sequence[Arm["IclFlippedLabels"]]:
        """Models, then hand-set learners."""

        def arm(name: str, learner: str, about: str, control: bool = False) -> Arm["IclFlippedLabels"]:
            config = replace(self, learner=learner, steps=self.items, probe_every=max(1, self.items // 10))
            return Arm(name, config, about, control, at_end=(partial(measures.outcomes, rates=self.flips),))

        return [
            *(arm(short_name(model), model, f"the language model {model}") for model in self.models),
            arm(
                judge.FOLLOWS,
                judge.FOLLOWS,
                "a hand-set learner that takes from the exemplars which word goes with which meaning",
                control=True,
            ),
            arm(
                judge.IGNORES,
                judge.IGNORES,
                f"a hand-set learner that knows {_KNOWN:.0%} of the items and ignores the exemplars",
                control=True,
            ),
            arm(
                judge.FREQUENCY,
                judge.FREQUENCY,
                "a hand-set learner that says the exemplars' more frequent label",
                control=True,
            ),
        ]

    def build(self, streams: Streams) -> Experiment:
        """The items of one replica, asked of the arm's learner.

        Raises:
            ConfigError: no such model or data, or fewer examples than asked for.
            MissingExtraError: the extra 'language' is not installed.
        """
        from featscope.language.in_context import load_examples

        on_cpu = Streams(streams.seed, streams.replicas)  # texts are the same on every device
        examples = load_examples(self.task, self.data, on_cpu)
        have, pool = len(examples.items), len(examples.pool)
        require(self, "items", self.items <= have, f"at most {have}, what the data have")
        require(self, "shots", self.shots <= pool, f"at most {pool}, what the data have")
        reader = self._reader(examples, streams)
        chosen = on_cpu.at("items").choice(have, self.items)[0].tolist()
        tasks = [
            partial(_answer, reader, examples, on_cpu, self.shots, self.flips, step, item)
            for step, item in enumerate(chosen)
        ]
        return Evaluation(tasks, measures.columns(self.flips), streams)

    def _reader(self, examples: "Examples", streams: Streams) -> "Reader":
        from featscope.language.in_context import Follower, Frequency, Ignorer, ModelReader
        from featscope.language.load import load_once

        task = examples.task
        truth = {task.shown(texts): label for texts, label in examples.truth.items()}
        if self.learner == judge.FOLLOWS:
            return Follower(task.words, truth)
        if self.learner == judge.IGNORES:
            knows = (Streams(streams.seed, streams.replicas).at("beliefs").uniform(len(truth))[0] < _KNOWN).tolist()
            beliefs = {
                text: label if sure else 1 - label for (text, label), sure in zip(truth.items(), knows, strict=True)
            }
            return Ignorer(beliefs)
        if self.learner == judge.FREQUENCY:
            return Frequency(task.words)
        model, tokenizer = load_once(self.learner, str(streams.device))
        return ModelReader(model, tokenizer, task.words, self.chat)

    def watch(self, experiment: Experiment) -> Mapping[str, Measurement]:
        """Nothing but the error so far, which is the loss."""
        return {}

    def claims(self, runs: Runs) -> Iterable[Claim]:
        """The verdicts."""
        return judge.claims(self, runs)

    def figures(self, runs: Runs, claims: Sequence[Claim]) -> Iterable[Figure]:
        """The figures, in the order of the story."""
        return figures.figures(self, runs)

    def headline(self, runs: Runs, claims: Sequence[Claim]) -> str:
        """What was found."""
        return judge.headline(self, runs, claims)


def short_name(model: str) -> str:
    """The last part of a model's name or of a folder's path, which can be in a file's name."""
    return PurePath(model).name


def _answer(
    reader: "Reader",
    examples: "Examples",
    streams: Streams,
    shots: int,
    rates: Sequence[float],
    step: int,
    item: int,
) -> list[float]:
    """Ask one item at all shares of inverted labels."""
    from featscope.language.in_context import ask, flipped

    query = examples.items[item]
    exemplars = [examples.pool[i] for i in streams.at("exemplars", step).choice(len(examples.pool), shots)[0].tolist()]
    order = streams.at("inverted", step).choice(shots, shots)[0].tolist()
    prompts = [ask(examples.task, flipped(exemplars, order, rate), query) for rate in rates]
    scores = reader.scores(prompts)
    return measures.found(torch.as_tensor(scores[:, 1] - scores[:, 0]), query.label, reader.parameters)
