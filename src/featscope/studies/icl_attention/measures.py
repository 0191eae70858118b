"""What the study measures: norms of the last row on two sentences."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from featscope.training import Evaluation, Experiment, Measurement

if TYPE_CHECKING:
    from featscope.language.in_context.spans import SpanNorm

COLUMNS = ("ratio", "relevant", "irrelevant", "relevant_tokens", "irrelevant_tokens", "parameters")


def found(relevant: "SpanNorm", irrelevant: "SpanNorm", parameters: int) -> list[float]:
    """What one prompt finds, in the order of `COLUMNS`."""
    ratio = irrelevant.norm / relevant.norm
    return [ratio, relevant.norm, irrelevant.norm, relevant.tokens, irrelevant.tokens, parameters]


def outcomes(experiment: Experiment) -> Mapping[str, Measurement]:
    """Everything that is judged and drawn."""
    assert isinstance(experiment, Evaluation)
    ratio, relevant, irrelevant, relevant_tokens, irrelevant_tokens, parameters = experiment.found.unbind(-1)
    lengths = (relevant_tokens / irrelevant_tokens).sqrt()
    return {
        "relevant": Measurement(relevant, ("prompt",), "1", "l2 norm of the last row on the relevant sentence"),
        "irrelevant": Measurement(irrelevant, ("prompt",), "1", "l2 norm of the last row on the irrelevant sentence"),
        "relevant_tokens": Measurement(relevant_tokens, ("prompt",), "token", "length of the relevant sentence"),
        "irrelevant_tokens": Measurement(irrelevant_tokens, ("prompt",), "token", "length of the irrelevant sentence"),
        "ratio": Measurement(ratio.mean(1), (), "1", "mean of norm(irrelevant) / norm(relevant)"),
        "normalised_ratio": Measurement(
            (ratio * lengths).mean(1), (), "1", "the same, each norm over the square root of its sentence's length"
        ),
        "log_ratio": Measurement(
            (ratio * lengths).log().mean(1), (), "1", "mean logarithm of the length-normalised ratio"
        ),
        "raw_over_lengths": Measurement(
            ratio.mean(1) / (1 / lengths).mean(1),
            (),
            "1",
            "mean ratio over the mean square root of the ratio of lengths",
        ),
        "parameters": Measurement(parameters[:, 0], (), "1", "parameters of the model; 0 if it is hand-set"),
    }
