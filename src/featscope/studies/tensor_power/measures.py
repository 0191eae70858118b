"""What the study measures: where sequences stand, and their sums once they have passed the level."""

from collections.abc import Mapping
from typing import Any

import torch

from featscope.training import Experiment, Measurement
from featscope.training.power_method import BLOCK

_SEQUENCE = ("sequence",)


def trajectory(experiment: Experiment) -> Mapping[str, Measurement]:
    """Leader and rival of each sequence."""
    learner: Any = experiment.learner
    x, y = learner.state.unbind(1)
    return {
        "leader": Measurement(x, _SEQUENCE, "1", f"x; a training step is {BLOCK} steps of the recursion"),
        "rival": Measurement(y, _SEQUENCE, "1", "y"),
    }


def outcomes(experiment: Experiment) -> Mapping[str, Measurement]:
    """Starts, ends, sums and maxima over the steps with x_t <= A; NaN where x has not passed A."""
    learner: Any = experiment.learner
    (start, rival_start), (end, rival_end) = learner.start.unbind(1), learner.state.unbind(1)
    found = {
        "leader_start": (start, "x_0"),
        "leader_end": (end, "the first x_t beyond A"),
        "total": (learner.total, "Σ η C_t"),
        "weighted": (learner.weighted, "Σ η C_t x_t^q'"),
        "area": (learner.area, "Σ x_t (x_{t+1} - x_t)"),
        "factor": (learner.factor, "the largest C_t"),
        "jump": (learner.jump, "the largest x_{t+1} - x_t"),
        "ratio": (learner.ratio, "the largest x_{t+1}/x_t"),
        "rival_start": (rival_start, "y_0"),
        "rival_before": (learner.before, "y at the last t with x_t <= A"),
        "rival_end": (rival_end, "y at the first t with x_t > A"),
    }
    passed = learner.passed
    return {
        name: Measurement(torch.where(passed, values, torch.nan), _SEQUENCE, "1", about)
        for name, (values, about) in found.items()
    }
