"""The first steps of all sequences once more, by a plain loop over the same draws."""

from collections.abc import Mapping

import torch

from featscope.models.power_sequences import BLOCK, LEVEL
from featscope.training import Measurement, Recursion

REPLAYED = 2
"""Training steps that are made once more; with two, draws that repeat are seen."""
WIDER = 0.25
"""Sequences begin up to so much beyond the smallest start, relative to it."""

_SEQUENCE = ("sequence",)
_SUMS = ("before", "total", "weighted", "area", "factor", "jump", "ratio", "taken")


def replayed(experiment: Recursion) -> Mapping[str, Measurement]:
    """Where sequences begin by their draws, and where they stand after `REPLAYED` training steps, a step at a time.

    And how far what was summed is from what the loop sums: NaN for sequences that take longer than the loop.
    """
    learner, streams = experiment.learner, experiment.streams
    power, weight = learner.power, learner.weight
    eta, scale, spread, strongest = (
        values[:, None] for values in (learner.step_size, learner.scale, learner.spread, learner.strongest)
    )
    x, y = learner.start.unbind(1)
    sequences = x.shape[1]
    begin = 1 + WIDER * streams.at("start").uniform(sequences, dtype=x.dtype)
    sums = {name: torch.zeros_like(x) for name in _SUMS}
    for step in range(REPLAYED):
        draws = streams.at("batch", step)
        normal = draws.normal(BLOCK, sequences, dtype=x.dtype)
        less = draws.uniform(BLOCK, sequences, dtype=x.dtype) if learner.strength == "random" else 0 * normal
        for z, u in zip(normal.unbind(1), less.unbind(1), strict=True):
            below = x <= LEVEL
            c = scale * torch.exp(spread * z - spread**2 / 2)
            then_x, then_y = x + eta * c * x**power, y + eta * strongest * (1 - u) * c * y**power
            added = {"total": eta * c, "weighted": eta * c * x**weight, "area": x * (then_x - x), "taken": x / x}
            most = {"factor": c, "jump": then_x - x, "ratio": then_x / x}
            sums |= {name: sums[name] + torch.where(below, one, 0.0) for name, one in added.items()}
            sums |= {name: torch.where(below, torch.maximum(sums[name], one), sums[name]) for name, one in most.items()}
            sums["before"] = torch.where(below, y, sums["before"])
            x, y = torch.where(below, then_x, x), torch.where(below, then_y, y)
    apart = torch.stack([(getattr(learner, name) / one - 1).abs() for name, one in sums.items()]).amax(0)
    return {
        "drawn_start": Measurement(begin, "x_0 by its draw, over the smallest", _SEQUENCE),
        "replayed_leader": Measurement(x, f"x after {REPLAYED * BLOCK} steps of a plain loop", _SEQUENCE),
        "replayed_rival": Measurement(y, f"y after {REPLAYED * BLOCK} steps of a plain loop", _SEQUENCE),
        "replayed_apart": Measurement(
            torch.where(x > LEVEL, apart, torch.nan), "sums and maxima against a plain loop's, farthest", _SEQUENCE
        ),
    }
