"""The step loop."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from featscope.training.experiment import Experiment
from featscope.training.record import Measurement, Record

Watch = Callable[[Experiment], Mapping[str, Measurement]]
AfterStep = Callable[[int, Float[Tensor, "replica"]], None]


def probe_steps(steps: int, every: int, per_decade: int = 4) -> list[int]:
    """Steps at which to measure: 0, log-spaced ones, every ``every``-th, and the last.

    Args:
        steps: length of the run.
        every: spacing of the even grid.
        per_decade: log-spaced steps in each decade; 0 for none.
    """
    marks = {0, steps, *range(0, steps, every)}
    if per_decade and steps > 1:
        marks |= {
            int(m) for m in np.unique(np.logspace(0, np.log10(steps), 1 + int(np.log10(steps) * per_decade)).round())
        }
    return sorted(m for m in marks if m <= steps)


def train(
    experiment: Experiment,
    steps: int,
    watch: Watch,
    probe_at: Sequence[int],
    record: Record,
    start: int = 0,
    stop_at: str | None = None,
    after_step: AfterStep = lambda step, loss: None,
) -> int:
    """Train until ``steps``, measuring on the way.

    Args:
        experiment: what to train; it has seen ``start`` steps.
        steps: number of steps to reach.
        watch: measures the experiment.
        probe_at: steps at which to call ``watch``; the loss on fresh data is added to what it returns.
        record: receives the series.
        start: steps already done (0, or where a checkpoint stands).
        stop_at: name of an event; training ends early once it has happened in every replica that is not given up.
        after_step: called with (steps done, loss) after every step; may save a checkpoint, or raise to stop.

    Returns:
        the steps done.

    Raises:
        DivergedError: a loss or a parameter is not finite.
    """
    due = set(probe_at)
    for step in range(start, steps + 1):
        stopping = step == steps or (stop_at is not None and _happened(experiment, stop_at))
        if (step in due or stopping) and step not in record.steps[-1:]:
            experiment.require_finite_parameters(step)
            with torch.no_grad():
                loss = experiment.loss(experiment.streams.at("evaluate", step))
                record.append(
                    step,
                    {"loss": Measurement(experiment.measured(loss), about="loss on fresh data"), **watch(experiment)},
                )
        if stopping:
            break
        after_step(step + 1, experiment.advance(step))
    return step


def _happened(experiment: Experiment, event: str) -> bool:
    return bool(((experiment.events()[event] >= 0) | (experiment.diverged >= 0)).all())
