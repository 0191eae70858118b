"""What is measured: where sequences stand, and their sums once they have passed the level."""

from collections.abc import Mapping

import torch

from featscope.models.power_sequences import BLOCK
from featscope.training import Measurement, Recursion

_SEQUENCE = ("sequence",)


def trajectory(experiment: Recursion) -> Mapping[str, Measurement]:
    """Leader and rival of each sequence."""
    x, y = experiment.learner.state.unbind(1)
    return {
        "leader": Measurement(x, f"x; a training step is {BLOCK} steps of the recursion", _SEQUENCE),
        "rival": Measurement(y, "y", _SEQUENCE),
    }


def outcomes(experiment: Recursion) -> Mapping[str, Measurement]:
    """Starts, ends, sums and maxima over the steps with x_t <= A; NaN where x has not passed A.

    And two that are one number a replica, for sweeps.
    """
    learner = experiment.learner
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
        "taken": (learner.taken, "how many steps with x_t <= A"),
        "rival_start": (rival_start, "y_0"),
        "rival_before": (learner.before, "y at the last t with x_t <= A"),
        "rival_end": (rival_end, "y at the first t with x_t > A"),
    }
    of_each = {
        name: Measurement(torch.where(learner.passed, values, torch.nan), about, _SEQUENCE)
        for name, (values, about) in found.items()
    }
    growth = of_each["rival_before"].values / rival_start
    return of_each | {
        "mean_total": Measurement(of_each["total"].values.mean(1), "Σ η C_t, mean over sequences"),
        "largest_growth": Measurement(growth.amax(1), "the largest y/y_0 at the last t with x_t <= A"),
    }
