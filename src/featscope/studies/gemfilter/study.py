"""The study: what is varied, and its arms."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import torch
from transformers import AutoModelForCausalLM
from tyro.conf import Suppress

from featscope.claims import Claim, Statement
from featscope.figures import Figure
from featscope.language.haystack import BUILT_IN, read_texts
from featscope.language.load import RETRIEVER, RETRIEVER_LAYER, RETRIEVER_LENGTH, load_once
from featscope.options import require
from featscope.streams import Streams
from featscope.studies.base import Arm, Runs, Study
from featscope.studies.gemfilter import cost, figures, judge, mechanics, retrieval
from featscope.studies.gemfilter.retrieval import Grid
from featscope.studies.gemfilter.statements import STATEMENTS
from featscope.training import Experiment, Measurement

Part = Literal["mechanics", "cost", "retrieval", "untrained"]


@dataclass(frozen=True)
class GemFilterStudy(Study):
    """GemFilter: an early layer chooses the tokens of a long prompt (dissertation, Chapter 9).

    What must hold exactly and what it costs are measured on networks with random weights; what it finds on a network
    that was trained to find needles.

    Attributes:
        model: "retriever" for the small model that ships with FeatScope, a folder, or a model of the Hub.
        haystack: a folder of .txt files that needles are hidden in, or "built-in".
        lengths: tokens of the prompts with needles.
        trained: the longest prompt that the model was trained on.
        layer: r, the filter layer, from 0; None for the retriever's own.
        keep: k, the tokens kept.
        keeps: other numbers of kept tokens.
        window: last tokens that SnapKV and H2O keep; at most all of the kept ones but one.
        prompts: prompts of each length in a replica.
        cost_lengths: tokens of the prompts whose cost is measured.
        part: what the arm does (set by the study).
        steps: tasks of the arm (set by the study).
        probe_every: tasks between records of the mean score.
    """

    model: str = RETRIEVER
    haystack: str = BUILT_IN
    lengths: tuple[int, ...] = (128, 256, 512, 768, 1024, 1536)
    trained: int = RETRIEVER_LENGTH
    layer: int | None = None
    keep: int = 64
    keeps: tuple[int, ...] = (16, 32, 48, 64, 96, 128)
    window: int = 16
    prompts: int = 8
    cost_lengths: tuple[int, ...] = (512, 1024, 2048, 4096)
    part: Annotated[Part, Suppress] = "mechanics"
    steps: Annotated[int, Suppress] = 0
    probe_every: int = 16

    name: ClassVar[str] = "gemfilter"
    statements: ClassVar[Sequence[Statement]] = STATEMENTS
    replica_axis: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("lengths", "keeps", "cost_lengths"):
            values = getattr(self, name)
            ascending = len(values) > 0 and min(values) >= 1 and list(values) == sorted(set(values))
            require(self, name, ascending, "one number >= 1 or more, ascending")
        require(self, "lengths", self.lengths[0] >= 64, ">= 64", "Needles and question take as many.")
        require(self, "trained", self.trained >= self.lengths[0], f">= {self.lengths[0]}, the shortest of lengths")
        given = self.layer is not None or self.model == RETRIEVER
        require(self, "layer", given and (self.layer or 0) >= 0, ">= 0", "choose_layer finds one for your model.")
        require(self, "keep", self.keep > self.window, f"> window = {self.window}")
        require(self, "lengths", self.lengths[0] > self.keep, f"> keep = {self.keep}", "Shorter ones are kept whole.")
        require(self, "window", self.window >= 1, ">= 1")
        require(self, "prompts", self.prompts >= 1, ">= 1")
        fits = self.cost_lengths[0] > cost.KEEP
        require(self, "cost_lengths", fits, f"> {cost.KEEP}", "Shorter prompts are kept whole.")
        require(self, "probe_every", self.probe_every >= 1, ">= 1")
        read_texts(self.haystack)  # says what is wrong with the folder

    @property
    def filter_layer(self) -> int:
        """The filter layer, the retriever's own if none is given."""
        return RETRIEVER_LAYER if self.layer is None else self.layer

    def arms(self) -> Sequence[Arm["GemFilterStudy"]]:
        """What is exact, what it costs, what it finds; and what random weights find."""

        def arm(part: Part, about: str, tasks: int, *, control: bool = False) -> Arm["GemFilterStudy"]:
            config = replace(self, part=part, steps=tasks)
            return Arm(part, config, about, control=control, at_end=(config.measure,))

        needles = len(self.lengths) * self.prompts
        return [
            arm("mechanics", "What must hold exactly, on random weights.", len(mechanics.ABOUT)),
            arm("cost", "Operations, seconds and memory, on random weights.", len(self.cost_lengths)),
            arm("retrieval", "Needles, and all methods on each prompt.", needles),
            arm("untrained", "The same with random weights of the same shapes.", needles, control=True),
        ]

    def build(self, streams: Streams) -> Experiment:
        """The arm's tasks for one replica."""
        if self.part == "mechanics":
            return mechanics.build(streams)
        if self.part == "cost":
            return cost.build(self.cost_lengths, streams)
        model, tokenizer = load_once(self.model, str(streams.device))
        if self.part == "untrained":
            with torch.random.fork_rng(devices=()):
                torch.manual_seed(int(streams.at("weights").choice(2**20, 1)))
                model = AutoModelForCausalLM.from_config(model.config).to(streams.device).eval()
        return retrieval.build(model, tokenizer, read_texts(self.haystack), self.grid(streams), streams)

    def grid(self, streams: Streams) -> Grid:
        """What the arms with needles vary."""
        model, _ = load_once(self.model, str(streams.device))
        layers = model.config.num_hidden_layers
        require(self, "layer", self.filter_layer < layers, f"0 to {layers - 1}, the model's layers")
        return Grid(self.lengths, layers, self.keeps, self.filter_layer, self.keep, self.window, self.prompts)

    def measure(self, experiment: Experiment) -> Mapping[str, Measurement]:
        """What the arm found."""
        if self.part == "mechanics":
            return mechanics.measure(experiment)
        if self.part == "cost":
            return cost.measure(experiment)
        return retrieval.measure(self.grid(experiment.streams), experiment)

    def watch(self, experiment: Experiment) -> Mapping[str, Measurement]:
        """Nothing but the loss."""
        return {}

    def claims(self, runs: Runs) -> Iterable[Claim]:
        """The verdicts."""
        return judge.claims(self, runs)

    def figures(self, runs: Runs, claims: Sequence[Claim]) -> Iterable[Figure]:
        """The figures, in the order of the story."""
        return figures.figures(self, runs)

    def headline(self, runs: Runs, claims: Sequence[Claim]) -> str:
        """What was found, in a sentence or two."""
        return judge.headline(runs, claims)
