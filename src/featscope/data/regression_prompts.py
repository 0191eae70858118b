"""Prompts that show a linear regression by examples and ask for one more label (Shi 2024, dissertation, Section 5.4).

Rows are tokens: (x_i, y_i) with y_i = <w, x_i>, then the query (x_q, 0), whose label <w, x_q> is wanted.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.options import require
from featscope.streams import Draws


class RegressionBatch(NamedTuple):
    """Some prompts.

    Attributes:
        prompts: ``samples`` rows (x, y), then the query (x_q, 0), float64.
        targets: <w, x_q>, which a learner does not see.
    """

    prompts: Float[Tensor, "replica prompt token channel"]
    targets: Float[Tensor, "replica prompt"]


@dataclass(frozen=True)
class RegressionPrompts:
    """Options of `RegressionPromptSource`.

    Attributes:
        dimension: of an input, d.
        samples: examples in a prompt, N.
        decay: the eigenvalues of the inputs' covariance are λ_i = i^-decay.
        directions: how many of them are not zero; 0 for all.
        related: whether the labels shown are those of the task that is asked for, or of another one.
    """

    dimension: int = 8
    samples: int = 20
    decay: float = 1.0
    directions: int = 0
    related: bool = True

    def __post_init__(self) -> None:
        require(self, "dimension", self.dimension >= 1, ">= 1")
        require(self, "samples", self.samples >= 1, ">= 1")
        require(self, "decay", self.decay >= 0, ">= 0")
        require(self, "directions", 0 <= self.directions <= self.dimension, f"0 to dimension = {self.dimension}")

    @property
    def spectrum(self) -> list[float]:
        """λ_1 >= ... >= λ_d."""
        live = self.directions or self.dimension
        return [float(i**-self.decay) if i <= live else 0.0 for i in range(1, self.dimension + 1)]

    def build(self, draws: Draws) -> "RegressionPromptSource":
        """A source whose eigenvectors are drawn once and for all, uniformly."""
        gaussian = draws.normal(self.dimension, self.dimension, dtype=torch.float64)
        q, r = torch.linalg.qr(gaussian)
        return RegressionPromptSource(q * r.diagonal(dim1=-2, dim2=-1).sign()[:, None], self)


class RegressionPromptSource(nn.Module):
    """Draws prompts.

    Attributes:
        directions: Q, eigenvectors of Λ in columns.
        spectrum: λ.
    """

    directions: Float[Tensor, "replica dimension dimension"]
    spectrum: Float[Tensor, " dimension"]

    def __init__(self, directions: Float[Tensor, "replica dimension dimension"], options: RegressionPrompts) -> None:
        super().__init__()
        self.options = options
        self.register_buffer("directions", directions)
        spectrum = torch.tensor(options.spectrum, dtype=directions.dtype).to(directions.device)
        self.register_buffer("spectrum", spectrum, persistent=False)  # the same for all replicas

    @property
    def covariance(self) -> Float[Tensor, "replica dimension dimension"]:
        """Λ."""
        return self.directions * self.spectrum @ self.directions.mT

    def inputs(self, draws: Draws, *shape: int) -> Float[Tensor, "replica ..."]:
        """Inputs x of law N(0, Λ): ``[replica, *shape, dimension]``."""
        z = draws.normal(*shape, self.options.dimension, dtype=self.spectrum.dtype)
        flat = z.flatten(1, -2) @ (self.directions * self.spectrum.sqrt()).mT
        return flat.view(z.shape)

    def sample(self, draws: Draws, count: int) -> RegressionBatch:
        """``count`` prompts for each replica, each with a task w of law N(0, I)."""
        x = self.inputs(draws, count, self.options.samples + 1)
        tasks = draws.normal(count, self.options.dimension, dtype=x.dtype)
        shown = tasks if self.options.related else draws.normal(count, self.options.dimension, dtype=x.dtype)
        y = (x @ shown[..., None])[..., 0]
        y[..., -1] = 0
        return RegressionBatch(torch.cat([x, y[..., None]], -1), (x[..., -1, :] * tasks).sum(-1))
