"""What a network finds in long prompts, by method, filter layer and number of kept tokens (P Section 9.4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from featscope.language import Method
from featscope.language.haystack import OTHERS, Haystack, passwords, read_texts
from featscope.language.layers import choices_of_all_layers, needle_distance
from featscope.language.load import layers_of, load_once
from featscope.language.methods import METHODS, Reading
from featscope.language.prompt import Prompt
from featscope.language.random_models import untrained
from featscope.streams import Streams
from featscope.training import Answer, Evaluation, Measurement, Questionnaire
from featscope.training.evaluation import Ask

NEW = 6  # tokens to generate
SCORE = "normalised needle score: share of the answer's words that were given"


@dataclass(frozen=True)
class Retrieval(Questionnaire):
    """A needle in every prompt, asked for in all ways.

    Attributes:
        model: name of the network, see `load_model`.
        haystack: name of the texts, see `read_texts`.
        lengths: tokens of the prompts.
        prompts: prompts of each length.
        reading: filter layer, kept tokens and window where they are not varied.
        keeps: kept tokens where they are.
        random_weights: whether the network's weights are those of a start.
    """

    model: str
    haystack: str
    lengths: Sequence[int]
    prompts: int
    reading: Reading
    keeps: Sequence[int]
    random_weights: bool = False

    @property
    def grid(self) -> Mapping[str, Sequence[int]]:
        """Lengths, and prompts of each."""
        return {"length": self.lengths, "prompt": range(self.prompts)}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """Scores of all methods, filter layers and numbers of kept tokens, and what layers choose."""
        layer = {"layer": layers_of(self.model)}
        return {
            "score": Answer(SCORE, axes={"method": len(METHODS)}),
            "score_of_layer": Answer(f"{SCORE}, GemFilter over filter layers", axes=layer),
            "score_of_keep": Answer(f"{SCORE}, GemFilter over kept tokens", axes={"keep": len(self.keeps)}),
            "covered": Answer("share of prompts whose needle the layer's choice touches", axes=layer),
            "last_kept": Answer("share of prompts whose last token the layer chooses", axes=layer),
            "distance": Answer("from the needle to the nearest token that the layer chooses", "token", layer),
        }

    def asker(self, streams: Streams) -> Ask:
        """Network and texts."""
        model, tokenizer = load_once(self.model, str(streams.device))
        model = untrained(model, streams.at("weights")) if self.random_weights else model
        haystack, layers = Haystack(tokenizer, read_texts(self.haystack)), range(model.config.num_hidden_layers)
        methods = [self.reading.build(name, model) for name in METHODS]
        of_layers = [replace(self.reading, layer=layer).build("gemfilter", model) for layer in layers]
        of_keeps = [replace(self.reading, keep=keep).build("gemfilter", model) for keep in self.keeps]

        def ask(length: int, prompt: int) -> Mapping[str, Sequence[float]]:
            draws = streams.at(f"needle {length}", prompt)
            asked, *others = passwords(draws, 1 + OTHERS)
            hidden = haystack.hide(draws, length, float(draws.uniform(1)), asked, others)

            def score(method: Method) -> float:
                return haystack.ask(method, hidden, NEW).normalised

            ids = hidden.ids.to(model.device)
            whole = Prompt(ids, torch.ones_like(ids, dtype=torch.bool))
            chosen = choices_of_all_layers(model, whole, self.reading.keep)
            kept = [chosen[layer][0].cpu() for layer in layers]
            distances = [needle_distance(places, hidden.needle) for places in kept]
            return {
                "score": [score(method) for method in methods],
                "score_of_layer": [score(method) for method in of_layers],
                "score_of_keep": [score(method) for method in of_keeps],
                "covered": [distance == 0 for distance in distances],
                "last_kept": [bool(places[-1] == length - 1) for places in kept],
                "distance": distances,
            }

        return ask

    def summary(self, evaluation: Evaluation) -> Mapping[str, Measurement]:
        """Means over prompts."""
        found = evaluation.all_answers()
        return {
            name: one._replace(values=one.values.mean(2), dims=("length", *one.dims[2:])) for name, one in found.items()
        }
