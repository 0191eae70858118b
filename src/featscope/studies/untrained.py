"""Arms that train nothing: all that a single step finds is kept, with a description of each quantity."""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from featscope.streams import Draws
from featscope.training import Measurement, Recursion


class Quantity(NamedTuple):
    """What is found, and over what.

    Attributes:
        about: what it is.
        dims: names of its dimensions, without the replica.
        shape: their sizes.
    """

    about: str
    dims: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()


class Once(nn.Module):
    """All that a step finds is in buffers, NaN before.

    Args:
        options: of the subclass.
        draws: whose replicas it is for.
    """

    quantities: ClassVar[Mapping[str, Quantity]]
    """What is found, by name."""

    def __init__(self, options: Any, draws: Draws) -> None:
        super().__init__()
        self.options = options
        for name, quantity in self.quantities.items():
            empty = torch.full((draws.replicas, *quantity.shape), torch.nan, dtype=torch.float64, device=draws.device)
            self.register_buffer(name, empty)

    @property
    def passed(self) -> Bool[Tensor, "replica 1"]:
        """One step is all."""
        first = self.get_buffer(next(iter(self.quantities)))
        return first.reshape(len(first), -1)[:, :1].isfinite()

    def keep(self, **found: Tensor) -> None:
        """Write what was found."""
        for name, values in found.items():
            self.get_buffer(name).copy_(values)


def found(experiment: Recursion) -> Mapping[str, Measurement]:
    """A probe of all that an `Once` keeps."""
    learner: Once = experiment.learner
    return {
        name: Measurement(learner.get_buffer(name), quantity.about, quantity.dims)
        for name, quantity in learner.quantities.items()
    }
