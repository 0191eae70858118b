"""Experiments that train nothing: a list of tasks, done one after another."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featscope.streams import Draws, Streams
from featscope.training.experiment import Experiment
from featscope.training.optimizers import SGD
from featscope.training.record import Measurement

Task = Callable[[], Sequence[float]]
"""Does one thing, and returns a number for each column of the evaluation."""


class Evaluation(Experiment):
    """Tasks of one replica. A training step does one task, so that long evaluations show progress and can be resumed.

    What tasks need (a model, texts) is theirs; only what they find is stored.

    Args:
        tasks: what is done, in order.
        columns: names of the numbers that each task finds. The mean of the first, over what is done, is the loss.
        streams: the streams of one replica.
    """

    done: Int[Tensor, " replica"]

    def __init__(self, tasks: Sequence[Task], columns: Sequence[str], streams: Streams) -> None:
        super().__init__(nn.Module(), _Findings(len(tasks), len(columns)), _loss, SGD(1.0, 0.0), (), streams)
        self.tasks, self.columns = tasks, columns
        self.register_buffer("done", torch.zeros(1, dtype=torch.long, device=streams.device))

    @property
    def found(self) -> Float[Tensor, "replica task column"]:
        """What each task found, float64; NaN where it is not done."""
        values = self.learner.get_parameter("found").detach().clone()
        values[:, int(self.done) :] = torch.nan
        return values

    def of(
        self, column: str, sizes: Sequence[int], dims: tuple[str, ...], units: str = "1", about: str = ""
    ) -> Measurement:
        """A column as a measurement: tasks in a grid of ``sizes``, whose axes are ``dims``."""
        values = self.found[..., list(self.columns).index(column)]
        return Measurement(values.unflatten(1, tuple(sizes)), dims, units, about)

    def advance(self, step: int) -> Float[Tensor, "replica"]:
        """The next task. Returns the loss.

        Raises:
            DivergedError: a task found a number that is not finite.
        """
        values = torch.tensor(list(self.tasks[step]()), dtype=torch.float64)
        self._require_finite(f"what task {step} found", values, step)
        with torch.no_grad():
            self.learner.get_parameter("found")[0, step] = values
            self.done.fill_(step + 1)
        return self.loss(self.streams.at("batch", step))

    def loss(self, draws: Draws) -> Float[Tensor, "replica"]:
        """The mean of the first column over what is done; 0 before."""
        done = int(self.done)
        return self.found[:, :done, 0].mean(1) if done else torch.zeros(1, dtype=torch.float64)


class _Findings(nn.Module):
    def __init__(self, tasks: int, columns: int) -> None:
        super().__init__()
        self.found = nn.Parameter(torch.zeros(1, tasks, columns, dtype=torch.float64))


def _loss(learner: nn.Module, source: nn.Module, draws: Draws) -> Tensor:
    raise NotImplementedError("an evaluation has no loss of a batch")
