"""A sentence and an irrelevant one beside it, as a questionnaire: which of the two their label attends to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from featscope.language.in_context.examples import load_examples, load_irrelevant
from featscope.language.in_context.prompt import labelled_pair
from featscope.language.in_context.spans import FocusedRow, ModelRow, RowReader, span_norms
from featscope.language.load import load_once
from featscope.options import require
from featscope.streams import Streams
from featscope.training import Answer, Evaluation, Measurement, Questionnaire

Layout = Literal["correct", "wrong", "swapped", "unrelated"]


@dataclass(frozen=True)
class SentencePairs(Questionnaire):
    """Prompts of a sentence of sst2, an irrelevant one, and a label; asked is what the label attends to.

    Attributes:
        model: see `featscope.language.load_model`.
        data: where `load_examples` takes sentences from.
        irrelevant: where `load_irrelevant` takes them from.
        prompts: of a replica.
        layout: "correct", the right label; "wrong", the wrong one; "swapped", the irrelevant sentence first;
            "unrelated", another irrelevant sentence in place of the relevant one.
        weight: of a hand-set reader in place of the model, on all that is not the relevant sentence, which has 1.
    """

    model: str
    data: str
    irrelevant: str
    prompts: int
    layout: Layout = "correct"
    weight: float | None = None

    @property
    def grid(self) -> Mapping[str, Sequence[int]]:
        """The prompts."""
        return {"prompt": range(self.prompts)}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """Norms of the label's attention."""
        return {
            "ratio": Answer("norm(irrelevant) / norm(relevant)"),
            "relevant": Answer("l2 norm of the last row on the relevant sentence"),
            "irrelevant": Answer("l2 norm of the last row on the irrelevant sentence"),
            "relevant_tokens": Answer("length of the relevant sentence", "token"),
            "irrelevant_tokens": Answer("length of the irrelevant sentence", "token"),
            "apart": Answer("of the first prompt, how far the row is from the one that the model itself tells"),
            "parameters": Answer("parameters of the model; 0 if it is hand-set"),
        }

    def asker(self, streams: Streams) -> Callable[[int], Mapping[str, float]]:
        """Reads a prompt.

        Raises:
            ConfigError: no such model or data, or fewer sentences than asked for.
        """
        draws = Streams(streams.seed, streams.replicas)  # texts are the same on every device
        examples = load_examples("sst2", self.data, draws)
        have = len(examples.items)
        require(self, "prompts", self.prompts <= have, f"at most {have}, what the data have")
        chosen = [examples.items[i] for i in draws.at("items").choice(have, self.prompts)[0].tolist()]
        others = load_irrelevant(self.irrelevant, draws.at("irrelevant"), 2 * self.prompts)
        hand_set = None if self.weight is None else FocusedRow(self.weight)
        reader: RowReader = hand_set or ModelRow(*load_once(self.model, str(streams.device)))

        def look(prompt: int) -> Mapping[str, float]:
            (sentence,), label = chosen[prompt]
            irrelevant, instead = others[prompt], others[self.prompts + prompt]
            relevant = instead if self.layout == "unrelated" else sentence
            shown = 1 - label if self.layout == "wrong" else label
            if self.layout == "swapped":
                text, (second, first) = labelled_pair(examples.task, irrelevant, relevant, shown)
            else:
                text, (first, second) = labelled_pair(examples.task, relevant, irrelevant, shown)
            if (text[slice(*first)], text[slice(*second)]) != (relevant, irrelevant):
                raise ValueError(f"prompt {prompt}: the sentences are not where they are looked for, in {text!r}")
            row = reader.read(text, [first, second])
            on_relevant, on_irrelevant = span_norms(row, [first, second])
            told = reader.own_row(text) if prompt == 0 and isinstance(reader, ModelRow) else row.weights
            return {
                "apart": float((row.weights - told).abs().max()),
                "ratio": on_irrelevant.norm / on_relevant.norm,
                "relevant": on_relevant.norm,
                "irrelevant": on_irrelevant.norm,
                "relevant_tokens": on_relevant.tokens,
                "irrelevant_tokens": on_irrelevant.tokens,
                "parameters": reader.parameters,
            }

        return look

    def summary(self, evaluation: Evaluation) -> Mapping[str, Measurement]:
        """Norms of every prompt, and means of their ratio with and without the sentences' lengths."""
        ratio = evaluation["ratio"]
        lengths = (evaluation["relevant_tokens"] / evaluation["irrelevant_tokens"]).sqrt()
        normalised, raw = ratio * lengths, ratio.mean(1) / (1 / lengths).mean(1)
        by_length = "the same, each norm over the square root of its sentence's length"
        over_lengths = "mean ratio over the mean square root of the ratio of lengths"
        names = ("relevant", "irrelevant", "relevant_tokens", "irrelevant_tokens")
        return {name: evaluation.measure(name) for name in names} | {
            "apart": Measurement(evaluation["apart"].amax(1), self.answers["apart"].about),
            "ratio": Measurement(ratio.mean(1), "mean of norm(irrelevant) / norm(relevant)"),
            "normalised_ratio": Measurement(normalised.mean(1), by_length),
            "log_ratio": Measurement(normalised.log().mean(1), "mean logarithm of the length-normalised ratio"),
            "raw_over_lengths": Measurement(raw, over_lengths),
            "parameters": Measurement(evaluation["parameters"][:, 0], self.answers["parameters"].about),
        }
