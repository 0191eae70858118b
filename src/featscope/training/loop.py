"""The step loop of the engine."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch

from featscope.training.experiment import Experiment
from featscope.training.record import Measurement, Record

Watch = Callable[[Experiment], Mapping[str, Measurement]]
AfterStep = Callable[[int], None]
_PER_DECADE = 4  # log-spaced steps at which to measure


def probe_steps(steps: int, every: int) -> list[int]:
    """Steps at which to measure: 0, log-spaced ones, every ``every``-th, and the last.

    Args:
        steps: length of the run.
        every: spacing of the even grid.
    """
    marks = {0, steps, *range(0, steps, every)}
    if steps > 1:
        marks |= {int(m) for m in np.logspace(0, np.log10(steps), 1 + int(np.log10(steps) * _PER_DECADE)).round()}
    return sorted(m for m in marks if m <= steps)


def train(
    experiment: Experiment,
    steps: int,
    watch: Watch,
    probe_at: Sequence[int],
    record: Record,
    start: int = 0,
    stop_at: str | None = None,
    after_step: AfterStep = lambda step: None,
) -> int:
    """Advance ``experiment`` until ``steps``, measuring on the way.

    Args:
        experiment: what to advance; it has done ``start`` steps.
        steps: number of steps to reach.
        watch: measures the experiment.
        probe_at: steps at which to look: what the experiment measures of itself is added to what ``watch`` returns.
        record: receives the series.
        start: steps already done (0, or where a checkpoint stands).
        stop_at: name of an event; it ends early once it has happened in every replica that is not given up.
        after_step: called with the steps done after every step; may save a checkpoint, or raise to stop.

    Returns:
        the steps done.

    Raises:
        DivergedError: a value is not finite.
    """
    due = set(probe_at)
    for step in range(start, steps + 1):
        stopping = step == steps or (stop_at is not None and _happened(experiment, stop_at))
        if (step in due or stopping) and step not in record.steps[-1:]:
            experiment.require_sound(step)
            with torch.no_grad():
                own, watched = experiment.look(step), watch(experiment)
                if twice := own.keys() & watched.keys():
                    raise ValueError(f"{twice.pop()!r} is what the experiment measures of itself: watch another name")
                record.append(step, experiment.masked({**own, **watched}))
                experiment.last_look.masked_fill_(experiment.diverged < 0, step)
        if stopping:
            break
        experiment.advance(step)
        after_step(step + 1)
    return step


def _happened(experiment: Experiment, event: str) -> bool:
    return bool(((experiment.events()[event] >= 0) | (experiment.diverged >= 0)).all())
