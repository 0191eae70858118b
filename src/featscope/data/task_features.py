"""Tasks that share some features and own others, behind one dictionary (Shi 2024, dissertation, Section 7.2.2).

x = M z with M orthonormal. Of z, features stand in this order: shared ones, those of the first task, of the second and
so on, spurious ones. In task t the shared, its own and the spurious ones are standard normal, all others 0. The two of
a positive pair have the same z but for the spurious ones.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.data.frames import orthonormal_columns
from featscope.options import require
from featscope.streams import Draws


@dataclass(frozen=True)
class TaskFeatures:
    """Options of `TaskFeatureSource`.

    Attributes:
        shared: s, features that all tasks have.
        private: r - s, features that each task has for itself.
        tasks: T.
        spurious: features that tell a pair's two apart.
        weights: of the tasks in the mixture, which add up to 1; even if empty.
        related: whether the two of a pair have the same z; if not, they have nothing in common.
        augmented: whether their spurious features differ; those of a pair that is not related always do.
    """

    shared: int = 4
    private: int = 4
    tasks: int = 4
    spurious: int = 8
    weights: tuple[float, ...] = ()
    related: bool = True
    augmented: bool = True

    def __post_init__(self) -> None:
        for name in ("shared", "private", "tasks", "spurious"):
            require(self, name, getattr(self, name) >= 1, ">= 1")
        sound = not self.weights or (len(self.weights) == self.tasks and abs(sum(self.weights) - 1) < 1e-9)
        sound = sound and all(weight >= 0 for weight in self.weights)
        require(self, "weights", sound, f"{self.tasks} numbers >= 0 that add up to 1, or none")

    @property
    def rank(self) -> int:
        """r, the features of a task."""
        return self.shared + self.private

    @property
    def invariant(self) -> int:
        """k, the features of all tasks."""
        return self.shared + self.tasks * self.private

    @property
    def features(self) -> int:
        """d."""
        return self.invariant + self.spurious

    @property
    def mixture(self) -> tuple[float, ...]:
        """w_t."""
        return self.weights or (1 / self.tasks,) * self.tasks

    def own(self, task: int) -> slice:
        """Where the private features of ``task`` stand."""
        first = self.shared + task * self.private
        return slice(first, first + self.private)

    def build(self, draws: Draws) -> "TaskFeatureSource":
        """The source, with a dictionary drawn."""
        return TaskFeatureSource(self, orthonormal_columns(draws, self.features, self.features))


class TaskFeatureSource(nn.Module):
    """Draws pairs.

    Attributes:
        dictionary: M, float64.
    """

    dictionary: Float[Tensor, "replica d d"]

    def __init__(self, options: TaskFeatures, dictionary: Float[Tensor, "replica d d"]) -> None:
        super().__init__()
        self.options = options
        self.register_buffer("dictionary", dictionary)

    def hidden_pairs(
        self, draws: Draws, count: int, dtype: torch.dtype = torch.float32
    ) -> tuple[Float[Tensor, "replica pair d"], Float[Tensor, "replica pair d"]]:
        """z and z⁺ of ``count`` pairs."""
        o = self.options
        first, noise = self._invariant(draws, count, dtype), draws.normal(count, o.spurious, dtype=dtype)
        second = first if o.related else self._invariant(draws, count, dtype)
        other = noise if o.related and not o.augmented else draws.normal(count, o.spurious, dtype=dtype)
        return torch.cat([first, noise], -1), torch.cat([second, other], -1)

    def _invariant(self, draws: Draws, count: int, dtype: torch.dtype) -> Float[Tensor, "replica sample k"]:
        """All of z but the spurious features, of a task that is drawn."""
        o = self.options
        ends = torch.tensor(o.mixture).cumsum(0)[:-1].to(draws.device)
        task = torch.bucketize(draws.uniform(count), ends, right=True)
        which = nn.functional.one_hot(task, o.tasks).to(dtype)
        z = draws.normal(count, o.rank, dtype=dtype)
        private = which[..., None] * z[..., None, o.shared :]
        return torch.cat([z[..., : o.shared], private.flatten(-2)], -1)

    def pairs(
        self, draws: Draws, count: int
    ) -> tuple[Float[Tensor, "replica pair d"], Float[Tensor, "replica pair d"]]:
        """x and x⁺ of ``count`` pairs."""
        z, other = self.hidden_pairs(draws, count)
        turned = self.dictionary.to(z).mT
        return z @ turned, other @ turned
