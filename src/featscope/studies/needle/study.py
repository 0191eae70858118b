"""The study: which needles, which haystack, which methods."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor
from tyro.conf import Suppress

from featscope.claims import Claim, Statement
from featscope.figures import Figure
from featscope.language import H2O, FullCache, GemFilter, Method, SnapKV
from featscope.language.haystack import BUILT_IN, Haystack, Needle, normalised_score, passwords, read_texts, score
from featscope.language.load import RETRIEVER, RETRIEVER_LAYER, load_once
from featscope.language.selection import kept_share
from featscope.options import require
from featscope.streams import Streams
from featscope.studies.base import Arm, Runs, Study
from featscope.studies.needle import figures, judge
from featscope.studies.needle.statements import STATEMENTS
from featscope.training import Evaluation, Experiment, Measurement

MethodName = Literal["full", "gemfilter", "question-kept", "snapkv", "h2o"]
COLUMNS = ("lost", "score", "normalised", "kept")
_OWN_OTHERS = 3


@dataclass(frozen=True)
class NeedleInAHaystack(Study):
    """A sentence hidden in a long text, and a question about it (dissertation, Section 9.4.1).

    Without a needle of your own, needles are drawn from the task that the retriever was trained on, three more of
    other cities beside the one that is asked for. Of the paper: --needle " The best thing to do in San Francisco is
    eat a sandwich and sit in Dolores Park on a sunny day." --question "What is the best thing to do in San Francisco?"
    --answer "eat a sandwich and sit in dolores park on a sunny day."

    Attributes:
        model: "retriever" for the small model that ships with FeatScope, a folder, or a model of the Hub.
        haystack: a folder of .txt files that needles are hidden in, or "built-in".
        needle: the sentence to hide; drawn if empty.
        question: what the prompt ends with; with a needle of your own.
        answer: the words that are looked for in the answer; with a needle of your own.
        lengths: tokens of the prompts.
        depths: places of the needle, evenly from the beginning (0 %) to the question (100 %).
        prompts: prompts of each length and depth in a replica.
        methods: what is compared; "question-kept" is GemFilter that keeps the last tokens in any case, which the
            paper's rule does not.
        layer: r, GemFilter's filter layer, from 0; None for the retriever's own.
        keep: k, what every method keeps.
        window: last tokens that SnapKV, H2O and question-kept keep.
        new_tokens: tokens to generate.
        method: the arm's own (set by the study).
        hidden: whether the needle is in the text (set by the study).
        steps: prompts of the arm (set by the study).
        probe_every: prompts between records of the mean score.
    """

    model: str = RETRIEVER
    haystack: str = BUILT_IN
    needle: str = ""
    question: str = ""
    answer: str = ""
    lengths: tuple[int, ...] = (128, 256, 512, 768, 1024, 1536)
    depths: int = 5
    prompts: int = 2
    methods: tuple[MethodName, ...] = ("full", "gemfilter", "question-kept", "snapkv", "h2o")
    layer: int | None = None
    keep: int = 64
    window: int = 16
    new_tokens: int = 6
    method: Annotated[MethodName, Suppress] = "full"
    hidden: Annotated[bool, Suppress] = True
    steps: Annotated[int, Suppress] = 0
    probe_every: int = 10

    name: ClassVar[str] = "needle"
    statements: ClassVar[Sequence[Statement]] = STATEMENTS
    default_replicas: ClassVar[int] = 6
    replica_axis: ClassVar[bool] = False

    def __post_init__(self) -> None:
        ascending = bool(self.lengths) and list(self.lengths) == sorted(set(self.lengths)) and self.lengths[0] >= 1
        require(self, "lengths", ascending, "one number >= 1 or more, ascending")
        require(self, "depths", self.depths >= 1, ">= 1")
        require(self, "prompts", self.prompts >= 1, ">= 1")
        known = get_args(MethodName)
        usable = bool(self.methods) and set(self.methods) <= set(known) and len(set(self.methods)) == len(self.methods)
        require(self, "methods", usable, f"some of {', '.join(known)}")
        own = (self.needle, self.question, self.answer)
        both = all(word.strip() for word in own) or not any(own)
        require(self, "needle", both, "given together with --question and --answer, or none of them")
        needed = self.model != RETRIEVER and {"gemfilter", "question-kept"} & set(self.methods)
        given = self.layer is not None or not needed
        require(self, "layer", given and (self.layer or 0) >= 0, ">= 0", "choose_layer finds one for your model.")
        require(self, "window", self.window >= 1, ">= 1")
        require(self, "keep", self.keep > self.window, f"> window = {self.window}")
        require(self, "lengths", self.lengths[0] > self.keep, f"> keep = {self.keep}", "Shorter ones are kept whole.")
        require(self, "new_tokens", self.new_tokens >= 1, ">= 1")
        require(self, "probe_every", self.probe_every >= 1, ">= 1")
        read_texts(self.haystack)  # says what is wrong with the folder

    @property
    def filter_layer(self) -> int:
        """The filter layer, the retriever's own if none is given."""
        return RETRIEVER_LAYER if self.layer is None else self.layer

    @property
    def places(self) -> list[float]:
        """Depths, from 0 to 1; a single one is in the middle."""
        return np.linspace(0, 1, self.depths).tolist() if self.depths > 1 else [0.5]

    def arms(self) -> Sequence[Arm["NeedleInAHaystack"]]:
        """The methods, and full attention without a needle."""
        steps = len(self.lengths) * self.depths * self.prompts
        described: dict[MethodName, str] = {
            "full": "Full attention.",
            "gemfilter": f"GemFilter: layer {self.filter_layer} chooses {self.keep} tokens.",
            "question-kept": f"The same, with the last {self.window} tokens among them in any case.",
            "snapkv": f"SnapKV: every layer and head keeps {self.keep} entries.",
            "h2o": f"H2O: every layer and head keeps {self.keep} entries.",
        }
        configs = [(name, replace(self, method=name, steps=steps), described[name], False) for name in self.methods]
        without = replace(self, method="full", hidden=False, steps=steps)
        return [
            Arm(name, config, about, control=control, at_end=(config.measure,))
            for name, config, about, control in [*configs, ("no-needle", without, "No needle in the text.", True)]
        ]

    def build(self, streams: Streams) -> Experiment:
        """A task for each length, depth and prompt."""
        model, tokenizer = load_once(self.model, str(streams.device))
        layers = model.config.num_hidden_layers
        require(self, "layer", self.filter_layer < layers, f"0 to {layers - 1}, the model's layers")
        haystack = Haystack(tokenizer, read_texts(self.haystack))
        tasks = [
            partial(self._ask, self.build_method(model), haystack, streams, length, depth, prompt)
            for length in self.lengths
            for depth in self.places
            for prompt in range(self.prompts)
        ]
        return Evaluation(tasks, COLUMNS, streams)

    def build_method(self, model: Any) -> Method:
        """The arm's method."""
        if self.method in ("gemfilter", "question-kept"):
            forced = range(-self.window, 0) if self.method == "question-kept" else ()
            return GemFilter(model, self.filter_layer, self.keep, force_keep=forced)
        if self.method == "snapkv":
            return SnapKV(model, self.keep, window=self.window)
        return H2O(model, self.keep, recent=self.window) if self.method == "h2o" else FullCache(model)

    @torch.no_grad()
    def _ask(
        self, method: Method, haystack: Haystack, streams: Streams, length: int, depth: float, prompt: int
    ) -> list[float]:
        draws = streams.at(f"needle {length} {depth:g}", prompt)
        if self.needle:
            asked, others = Needle(self.needle, self.question, self.answer), []
        else:
            asked, *others = passwords(draws, 1 + _OWN_OTHERS)
        shown = asked if self.hidden else replace(asked, text="")
        found = haystack.hide(draws, length, depth, shown, others)
        ids: Tensor = found.ids.to(method.model.device)
        output = method.generate(ids, torch.ones_like(ids), max_new_tokens=self.new_tokens, do_sample=False)
        said: Any = haystack.tokenizer.decode(output[0, ids.shape[1] :], skip_special_tokens=True)
        said = said if self.needle else said.replace(".", " ")  # the paper's answer has its full stop
        share = kept_share(output.kept, ids.shape[1])[list(found.needle)]
        kept = float(share.mean()) if len(share) else 0.0
        raw, normalised = score(said, asked.answer), normalised_score(said, asked.answer)
        return [1 - normalised, raw, normalised, kept]

    def measure(self, experiment: Experiment) -> Mapping[str, Measurement]:
        """Scores and what was kept of the needle, over lengths, depths and prompts."""
        assert isinstance(experiment, Evaluation)
        sizes, dims = (len(self.lengths), self.depths, self.prompts), ("length", "depth", "prompt")
        return {
            "score": experiment.of("score", sizes, dims, about="share of the answer's words that were given"),
            "normalised": experiment.of("normalised", sizes, dims, about="the same over that of a perfect answer"),
            "kept": experiment.of("kept", sizes, dims, about="share of the needle that was kept"),
        }

    def watch(self, experiment: Experiment) -> Mapping[str, Measurement]:
        """Nothing but the loss."""
        return {}

    def claims(self, runs: Runs) -> Iterable[Claim]:
        """The verdicts."""
        return judge.claims(runs)

    def figures(self, runs: Runs, claims: Sequence[Claim]) -> Iterable[Figure]:
        """A heat map a method, and means over length."""
        return figures.figures(self, runs)

    def headline(self, runs: Runs, claims: Sequence[Claim]) -> str:
        """The mean scores, in one sentence."""
        means = {arm: float(run["normalised"].mean()) for arm, run in runs.items()}
        said = ", ".join(f"{arm} {mean:.3f}" for arm, mean in means.items())
        return f"Mean normalised scores over lengths and depths: {said}."
