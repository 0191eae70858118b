"""What the study measures: margins between the two labels, and curves over the share of inverted labels."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from featscope.training import Evaluation, Experiment, Measurement


def columns(rates: Sequence[float]) -> tuple[str, ...]:
    """What each item finds."""
    return ("error", "truth", "parameters", *(f"margin {rate:g}" for rate in rates))


def found(margins: Float[Tensor, " flip"], truth: int, parameters: int) -> list[float]:
    """What one item finds, in the order of `columns`.

    Args:
        margins: log-likelihood of label 1 less that of label 0, at each share of inverted labels, in nats.
        truth: the item's label.
        parameters: of the model.
    """
    margins = margins.double()
    wrong = 1 - rightness(margins, torch.tensor(float(truth)))
    return [float(wrong.mean()), float(truth), float(parameters), *margins.tolist()]


def rightness(margins: Float[Tensor, "... flip"], truth: Float[Tensor, "..."]) -> Float[Tensor, "... flip"]:
    """1 where the likelier label is the true one, 0 where it is not, 1/2 where both are as likely; NaN stays."""
    return 0.5 + 0.5 * (margins * (2 * truth[..., None] - 1)).sign()


def outcomes(experiment: Experiment, rates: Sequence[float]) -> Mapping[str, Measurement]:
    """Everything that is judged and drawn."""
    assert isinstance(experiment, Evaluation)
    values = experiment.found
    truth, parameters, margins = values[..., 1], values[..., 2], values[..., 3:]
    right = rightness(margins, truth)
    at_first = right[..., :1]
    accuracy = right.mean(1)
    likely = (margins * (2 * truth[..., None] - 1)).sigmoid()
    return {
        "margin": Measurement(margins, ("item", "flip"), "nat", "log-likelihood of label 1 less that of label 0"),
        "truth": Measurement(truth, ("item",), "1", "label of the item"),
        "accuracy": Measurement(accuracy, ("flip",), "1", "share of items whose true label is the likelier one"),
        "override": Measurement(
            (at_first * (1 - right)).sum(1) / at_first.sum(1),
            ("flip",),
            "1",
            "of the items that are right with no label inverted, the share that is wrong",
        ),
        "likely": Measurement(likely.mean(1), ("flip",), "1", "probability of the true label among the two"),
        "says_one": Measurement(
            0.5 + 0.5 * margins.sign().mean(1), ("flip",), "1", "share of items whose likelier label is label 1"
        ),
        "slope": Measurement(slope(accuracy, rates), (), "1", "of accuracy over the share of inverted labels"),
        "late_change": Measurement(
            at(accuracy, rates, 1.0) - at(accuracy, rates, 0.5), (), "1", "accuracy at 100 % less that at 50 %"
        ),
        "crossing": Measurement(
            crossing(accuracy, rates), (), "1", "share of inverted labels at which accuracy falls to 1/2; NaN if never"
        ),
        "parameters": Measurement(parameters[:, 0], (), "1", "parameters of the model; 0 if it is hand-set"),
    }


def slope(accuracy: Float[Tensor, "replica flip"], rates: Sequence[float]) -> Float[Tensor, "replica"]:
    """Of the line of least squares."""
    x = torch.tensor(rates, dtype=accuracy.dtype, device=accuracy.device)
    x = x - x.mean()
    return accuracy @ x / (x @ x)


def at(accuracy: Float[Tensor, "replica flip"], rates: Sequence[float], rate: float) -> Float[Tensor, "replica"]:
    """At ``rate``, on a straight line between its neighbours."""
    values = [float(np.interp(rate, rates, one)) for one in accuracy.cpu().numpy()]
    return torch.tensor(values, dtype=accuracy.dtype)


def crossing(accuracy: Float[Tensor, "replica flip"], rates: Sequence[float]) -> Float[Tensor, "replica"]:
    """Where lines between neighbours first come from above 1/2 to 1/2 or below; NaN where they do not."""
    crossed = []
    for one in accuracy.tolist():
        place = float("nan")
        for (x0, y0), (x1, y1) in zip(zip(rates, one, strict=True), zip(rates[1:], one[1:], strict=True), strict=False):
            if y0 > 0.5 >= y1:
                place = x0 + (x1 - x0) * (y0 - 0.5) / (y0 - y1)
                break
        crossed.append(place)
    return torch.tensor(crossed, dtype=accuracy.dtype)
