"""The study `icl-attention`: its options, its arms, and what each prompt asks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, ClassVar

from tyro.conf import Suppress

from featscope.claims import Claim, Statement
from featscope.figures import Figure
from featscope.options import ConfigError, require
from featscope.streams import Streams
from featscope.studies.base import Arm, Runs, Study
from featscope.studies.icl_attention import figures, judge, measures
from featscope.studies.icl_attention.judge import Layout
from featscope.studies.icl_attention.statements import STATEMENTS
from featscope.training import Evaluation, Experiment, Measurement

if TYPE_CHECKING:  # needs the extra 'language', which listing and showing studies does not
    from featscope.language.in_context import Example, RowReader, Task


@dataclass(frozen=True)
class IclAttention(Study):
    """What a label attends to, of its own sentence and an irrelevant one (dissertation, Section 5.6.2, Figure 5.3).

    A prompt is a sentence, an irrelevant one after it, and a label, which ends it. A replica has its own prompts, the
    same for all models and labels.

    Attributes:
        models: smallest first; "retriever" for the small model that ships with FeatScope, folders, or models of the
            Hub.
        data: of sst2: "made-up" for sentences from a small grammar; "hub"; a folder with train.tsv and dev.tsv; or one
            .tsv file.
        irrelevant: irrelevant sentences: "made-up" for those of a small grammar, or a text file with one a line.
        prompts: in a replica; the paper's are 100.
        steps: one a prompt (set by the study).
        probe_every: steps between looks at the ratio (set by the study).
        learner: the arm's model (set by the study).
        layout: the arm's label and sentences (set by the study).
    """

    models: tuple[str, ...] = ("retriever",)
    data: str = "made-up"
    irrelevant: str = "made-up"
    prompts: int = 100
    steps: Annotated[int, Suppress] = 0
    probe_every: Annotated[int, Suppress] = 1
    learner: Annotated[str, Suppress] = ""
    layout: Annotated[Layout, Suppress] = "correct"

    name: ClassVar[str] = "icl-attention"
    statements: ClassVar[Sequence[Statement]] = STATEMENTS
    default_replicas: ClassVar[int] = 5
    replica_axis: ClassVar[bool] = False

    def __post_init__(self) -> None:
        distinct = len(set(self.short_names)) == len(self.models)
        clear = not set(self.short_names) & set(judge.HAND_SET)
        allowed = f"names with different last parts, none of {tuple(judge.HAND_SET)}"
        require(self, "models", bool(self.models) and all(self.short_names) and distinct and clear, allowed)
        require(self, "prompts", self.prompts >= 1, ">= 1")

    @property
    def short_names(self) -> list[str]:
        """The last part of each model's name or path."""
        return [PurePath(model).name for model in self.models]

    def arms(self) -> Sequence[Arm["IclAttention"]]:
        """Models with both labels and with two controls of the place, then hand-set readers."""

        def arm(name: str, learner: str, layout: Layout, about: str, control: bool) -> Arm["IclAttention"]:
            config = replace(
                self, learner=learner, layout=layout, steps=self.prompts, probe_every=max(1, self.prompts // 10)
            )
            return Arm(name, config, about, control, at_end=(measures.outcomes,))

        return [
            *(
                arm(judge.arm_name(short, layout), model, layout, f"{model}: {about}", layout in judge.CONTROLS)
                for model, short in zip(self.models, self.short_names, strict=True)
                for layout, about in judge.LAYOUTS.items()
            ),
            *(
                arm(name, name, "correct", f"hand-set weights: 1 on the relevant sentence, {weight:g} elsewhere", True)
                for name, weight in judge.HAND_SET.items()
            ),
        ]

    def build(self, streams: Streams) -> Experiment:
        """The prompts of one replica, read by the arm's model.

        Raises:
            ConfigError: no such model or data, or fewer sentences than asked for.
            MissingExtraError: the extra 'language' is not installed.
        """
        from featscope.language.in_context import load_examples

        on_cpu = Streams(streams.seed, streams.replicas)  # texts are the same on every device
        examples = load_examples("sst2", self.data, on_cpu)
        have = len(examples.items)
        require(self, "prompts", self.prompts <= have, f"at most {have}, what the data have")
        chosen = [examples.items[i] for i in on_cpu.at("items").choice(have, self.prompts)[0].tolist()]
        others = self._irrelevant(on_cpu)
        reader = self._reader(streams)
        tasks = [
            partial(_look, reader, examples.task, self.layout, example, others[place], others[self.prompts + place])
            for place, example in enumerate(chosen)
        ]
        return Evaluation(tasks, measures.COLUMNS, streams)

    def _irrelevant(self, streams: Streams) -> list[str]:
        """Two sentences for each prompt."""
        from featscope.language.in_context import made_up_irrelevant

        draws, count = streams.at("irrelevant"), 2 * self.prompts
        if self.irrelevant == "made-up":
            return made_up_irrelevant(draws, count)
        try:
            lines = Path(self.irrelevant).read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise ConfigError(
                f"irrelevant = {self.irrelevant!r} cannot be read ({error.strerror}): allowed is 'made-up' or a text "
                "file with one sentence a line"
            ) from None
        sentences = list(dict.fromkeys(" ".join(line.split()) for line in lines if line.strip()))
        enough = len(sentences) >= count
        require(self, "irrelevant", enough, f"a file of at least {count} different lines", f"It has {len(sentences)}.")
        return [sentences[i] for i in draws.choice(len(sentences), count)[0].tolist()]

    def _reader(self, streams: Streams) -> "RowReader":
        from featscope.language.in_context import FocusedRow, ModelRow
        from featscope.language.load import load_once

        if self.learner in judge.HAND_SET:
            return FocusedRow(judge.HAND_SET[self.learner])
        return ModelRow(*load_once(self.learner, str(streams.device)))

    def watch(self, experiment: Experiment) -> Mapping[str, Measurement]:
        """Nothing but the mean ratio so far, which is the loss."""
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


def _look(
    reader: "RowReader", task: "Task", layout: Layout, example: "Example", irrelevant: str, instead: str
) -> list[float]:
    """What the label of one prompt attends to."""
    from featscope.language.in_context import LEAD, span_norms

    (sentence,) = example.texts
    relevant = instead if layout == "unrelated" else sentence
    label = 1 - example.label if layout == "wrong" else example.label
    first, second = (irrelevant, relevant) if layout == "swapped" else (relevant, irrelevant)
    shown = task.shown([f"{first} {second}"])
    begin = len(shown) - len(first) - 1 - len(second)
    spans = [(begin, begin + len(first)), (begin + len(first) + 1, len(shown))]
    if layout == "swapped":
        spans.reverse()
    row = reader.read(f"{shown}\n{LEAD} {task.words[label]}", spans)
    on_relevant, on_irrelevant = span_norms(row, spans)
    return measures.found(on_relevant, on_irrelevant, reader.parameters)
