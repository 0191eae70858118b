"""Where no training is: the gradient of the nuclear norm, and the least norm of linear features with a fixed head."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from featscope.data import SpuriousFeatures
from featscope.losses import NuclearNorm
from featscope.options import require
from featscope.streams import Draws
from featscope.studies.nuclear_norm.quantities import described
from featscope.studies.nuclear_norm.solved import Solved

_STEP = 1e-5
_SMALL = 2.0**-14
"""Times the features, a power of two so that nothing is rounded anew: U Vᵀ has no size."""


@dataclass(frozen=True)
class SingularValues:
    """Options of `SingularValuesSolved`.

    Attributes:
        data: only for its name.
        rows: of a batch of features.
        neurons: of a batch, fewer than rows.
        tried: matrices that are tried for less norm.
    """

    data: SpuriousFeatures = field(default_factory=SpuriousFeatures)
    rows: int = 48
    neurons: int = 12
    tried: int = 200

    def __post_init__(self) -> None:
        require(self, "neurons", 2 <= self.neurons < self.rows, f"2 to rows - 1 = {self.rows - 1}")
        require(self, "tried", self.tried >= 1, ">= 1")

    def build(self, draws: Draws) -> "SingularValuesSolved":
        """Before anything is drawn."""
        return SingularValuesSolved(self, draws)


class SingularValuesSolved(Solved):
    """Of random features: how far the gradient of `NuclearNorm` is from differences and, in float32 and where
    values repeat, from U Vᵀ; what it is, where a neuron is
    dead, and what `torch.linalg.svdvals` has there; of random linear maps with a fixed head: their norm over the least
    one."""

    quantities = described(
        dict.fromkeys(
            (
                "off_difference",
                "off_single",
                "off_repeated",
                "dead_slope",
                "plain_dead_slope",
                "attained",
                "least_tried",
            ),
            (),
        )
    )

    def forward(self, draws: Draws) -> None:
        """Draw and compare."""
        o = self.options
        features = draws.normal(o.rows, o.neurons, dtype=torch.float64)
        left, _, right = torch.linalg.svd(features, full_matrices=False)
        uv = left @ right
        dead = features.clone()
        dead[..., 0] = 0
        penalty, single = NuclearNorm(1.0, "none"), features.float()

        def plain(f: Tensor) -> Tensor:
            return torch.linalg.svdvals(f).sum(-1)

        ways = draws.normal(20, o.rows, o.neurons, dtype=torch.float64)
        ways = ways / ways.norm(dim=(-2, -1), keepdim=True)
        above, below = (plain(features[:, None] + side * _STEP * ways) for side in (1, -1))
        by_differences = (above - below) / (2 * _STEP)
        by_gradient = (_slope(penalty, features)[:, None] * ways).sum((-2, -1))
        self.keep(
            off_difference=(by_differences - by_gradient).abs().amax(1),
            off_single=torch.stack([_largest(_slope(penalty, s * single).double() - uv) for s in (1, _SMALL)]).amax(0),
            off_repeated=_largest(_slope(penalty, 3 * uv) - uv),
            dead_slope=_slope(penalty, dead)[..., 0].norm(dim=-1),
            plain_dead_slope=_slope(plain, dead)[..., 0].norm(dim=-1),
        )
        w, a = draws.normal(o.neurons, dtype=torch.float64), draws.normal(5, dtype=torch.float64)
        least = (features @ w[..., None]).norm(dim=(-2, -1)) / a.norm(dim=-1)
        best = a[..., None] * w[:, None] / a.square().sum(-1)[:, None, None]
        across = torch.eye(5).to(a) - a[..., None] * a[:, None] / a.square().sum(-1)[:, None, None]
        others = across[:, None] @ draws.normal(o.tried, 5, o.neurons, dtype=torch.float64)
        sizes = torch.logspace(-4, 1, o.tried).to(a)[:, None, None]
        norms = torch.linalg.matrix_norm(features[:, None] @ (best[:, None] + sizes * others).mT, "nuc")
        self.keep(
            attained=torch.linalg.matrix_norm(features @ best.mT, "nuc") / least,
            least_tried=(norms / least[:, None]).amin(1),
        )


def _slope(norm: Callable[[Tensor], Tensor], features: Tensor) -> Tensor:
    with torch.enable_grad():
        features = features.detach().clone().requires_grad_()
        norm(features).sum().backward()
    assert features.grad is not None
    return features.grad


def _largest(off: Tensor) -> Tensor:
    return off.abs().flatten(1).amax(1)
