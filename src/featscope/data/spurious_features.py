"""Features that keep their correlation with the label and features whose correlation turns (Shi 2024, Section 6.4).

Everything is said of z = y z̃(x), features times label. Of D_γ a number is uniform on [0, 1] with probability 1/2 + γ
and on [-1, 0] with 1/2 - γ. Invariant features are uniform on [0, 1]; environmental ones D_γ in training and D_-γ out
of it. One feature of each kind is the plane of Figures 6.2 and 6.3.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.options import require
from featscope.streams import Draws

_AT_A_TIME = 2_000_000  # numbers of a replica


@dataclass(frozen=True)
class SpuriousFeatures:
    """Options of `SpuriousSource`.

    Attributes:
        invariant: r.
        environmental: d - r.
        gamma: γ, the mean of an environmental feature times the label.
        shifts: whether the correlation turns out of domain; if not, both domains are alike.
    """

    invariant: int = 1
    environmental: int = 1
    gamma: float = 0.2
    shifts: bool = True

    def __post_init__(self) -> None:
        require(self, "invariant", self.invariant >= 1, ">= 1")
        require(self, "environmental", self.environmental >= 1, ">= 1")
        require(self, "gamma", 0 < self.gamma < 0.5, "above 0 and below 1/2")

    @property
    def features(self) -> int:
        """d."""
        return self.invariant + self.environmental

    def build(self, draws: Draws) -> "SpuriousSource":
        """The source, which has nothing to draw for itself."""
        return SpuriousSource(self)


class SpuriousSource(nn.Module):
    """Draws features times labels."""

    def __init__(self, options: SpuriousFeatures) -> None:
        super().__init__()
        self.options = options

    def sample(self, draws: Draws, count: int, shifted: bool = False) -> Float[Tensor, "replica sample d"]:
        """z of ``count`` examples, invariant features first, float64; ``shifted``: out of domain."""
        o = self.options
        z = draws.uniform(count, o.features, dtype=torch.float64)
        sign = -1.0 if shifted and o.shifts else 1.0
        return torch.cat([z[..., : o.invariant], sign * environmental(z[..., o.invariant :], o.gamma)], -1)

    def sums(self, draws: Draws, count: int, shifted: bool = False) -> Float[Tensor, "replica sample 2"]:
        """A and B, the sums of the invariant and of the environmental features of ``count`` examples."""
        o, done, found = self.options, 0, []
        while done < count:
            some = min(count - done, max(1, _AT_A_TIME // o.features))
            a, b = self.sample(draws, some, shifted).split([o.invariant, o.environmental], -1)
            found.append(torch.stack([a.sum(-1), b.sum(-1)], -1))
            done += some
        return torch.cat(found, 1)


def environmental(u: Float[Tensor, "*shape"], gamma: float) -> Float[Tensor, "*shape"]:
    """D_γ of uniform numbers."""
    above = 0.5 + gamma
    return torch.where(u < above, u / above, (above - u) / (0.5 - gamma))
