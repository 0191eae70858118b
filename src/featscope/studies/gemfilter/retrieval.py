"""What a network that was trained to retrieve needles finds, by method, length, filter layer and kept tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from featscope.language import H2O, FullCache, GemFilter, GemFilterOneRun, Method, SnapKV
from featscope.language.haystack import Haystack, normalised_score, passwords
from featscope.language.layers import choices_of_all_layers, needle_distance
from featscope.language.prompt import Prompt
from featscope.streams import Streams
from featscope.training import Evaluation, Experiment, Measurement

METHODS = ("full", "gemfilter", "question-kept", "snapkv", "h2o", "one-run", "middle-row", "largest-row")
_ANSWER = 6
_OTHERS = 3


@dataclass(frozen=True)
class Grid:
    """What is varied.

    Attributes:
        lengths: of prompts.
        layers: of the model, all of which choose in turn.
        keeps: kept tokens.
        layer: the filter layer where it is not varied.
        keep: kept tokens where they are not varied.
        window: last tokens that SnapKV and H2O keep, and GemFilter where it keeps the question.
        prompts: of each length.
    """

    lengths: Sequence[int]
    layers: int
    keeps: Sequence[int]
    layer: int
    keep: int
    window: int
    prompts: int

    @property
    def columns(self) -> tuple[str, ...]:
        """What a task finds: scores of methods, of layers and of keeps, and layers' distances."""
        layers = [str(layer) for layer in range(self.layers)]
        of_layers = dict.fromkeys(("layer", "covered", "distance", "last"), layers)
        parts = {"method": METHODS, "keep": self.keeps, **of_layers}
        return ("lost", *(f"{kind} {which}" for kind, names in parts.items() for which in names))


def methods(model: PreTrainedModel, grid: Grid) -> Mapping[str, Method]:
    """The methods that are compared, all with the same kept tokens."""
    keep = grid.keep
    return {
        "full": FullCache(model),
        "gemfilter": GemFilter(model, grid.layer, keep),
        "question-kept": GemFilter(model, grid.layer, keep, force_keep=range(-grid.window, 0)),
        "snapkv": SnapKV(model, keep, window=grid.window),
        "h2o": H2O(model, keep, recent=grid.window),
        "one-run": GemFilterOneRun(model, keep, layer=grid.layer),
        "middle-row": GemFilter(model, grid.layer, keep, row="middle"),
        "largest-row": GemFilter(model, grid.layer, keep, row="largest"),
    }


def build(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], grid: Grid, streams: Streams
) -> Evaluation:
    """A task for every length and prompt, all methods on the same prompt."""
    haystack = Haystack(tokenizer, texts)
    tasks = [
        partial(_task, model, haystack, grid, streams, length, number)
        for length in grid.lengths
        for number in range(grid.prompts)
    ]
    return Evaluation(tasks, grid.columns, streams)


def measure(grid: Grid, experiment: Experiment) -> Mapping[str, Measurement]:
    """Scores and distances over lengths, and over methods, layers or kept tokens; means over prompts."""
    assert isinstance(experiment, Evaluation)
    shape = (len(grid.lengths), grid.prompts)
    found = experiment.found.unflatten(1, shape).mean(2)

    def part(kind: str, axis: str, units: str, about: str) -> Measurement:
        columns = [i for i, name in enumerate(experiment.columns) if name.startswith(f"{kind} ")]
        return Measurement(found[..., columns], ("length", axis), units, about)

    score = "normalised needle score: share of the answer's words that were given"
    return {
        "score": part("method", "method", "1", score),
        "score_of_layer": part("layer", "layer", "1", f"{score}, GemFilter over filter layers"),
        "score_of_keep": part("keep", "keep", "1", f"{score}, GemFilter over kept tokens"),
        "covered": part("covered", "layer", "1", "share of prompts whose needle the layer's choice touches"),
        "last_kept": part("last", "layer", "1", "share of prompts whose last token the layer chooses"),
        "distance": part("distance", "layer", "token", "from the needle to the nearest token that the layer chooses"),
    }


@torch.no_grad()
def _task(
    model: PreTrainedModel, haystack: Haystack, grid: Grid, streams: Streams, length: int, number: int
) -> list[float]:
    draws = streams.at(f"needle {length}", number)
    asked, *others = passwords(draws, 1 + _OTHERS)
    depth = float(draws.uniform(1))
    hidden = haystack.hide(draws, length, depth, asked, others)
    ids = hidden.ids.to(model.device)

    def score(method: Method) -> float:
        return normalised_score(_answer(method, haystack, ids), hidden.asked.answer)

    of_methods = {name: score(method) for name, method in methods(model, grid).items()}
    of_layers = [score(GemFilter(model, layer, grid.keep)) for layer in range(grid.layers)]
    of_keeps = [score(GemFilter(model, grid.layer, keep)) for keep in grid.keeps]
    chosen = choices_of_all_layers(model, Prompt(ids, torch.ones_like(ids, dtype=torch.bool)), grid.keep)
    kept = [chosen[layer][0].cpu() for layer in range(grid.layers)]
    distances = [float(needle_distance(places, hidden.needle)) for places in kept]
    covered = [float(distance == 0) for distance in distances]
    last = [float(places[-1] == ids.shape[1] - 1) for places in kept]
    return [1 - of_methods["gemfilter"], *of_methods.values(), *of_keeps, *of_layers, *covered, *distances, *last]


def _answer(method: Method, haystack: Haystack, ids: Tensor) -> str:
    output = method.generate(ids, torch.ones_like(ids), max_new_tokens=_ANSWER, do_sample=False)
    words: Any = haystack.tokenizer.decode(output[0, ids.shape[1] :], skip_special_tokens=True)
    return words.replace(".", " ")
