"""Prompts that show a linear task by examples and ask for a vector (dissertation, Definitions 8.2-8.5).

Z_0 = [[X, y], [q_0ᵀ, α]],   y = X θ*,   wanted: q with <q, θ*> = α
"""

from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.options import require, require_word
from featscope.streams import Draws

_PATIENTS, _MEASURES = 442, 10


class LinearPromptBatch(NamedTuple):
    """Some prompts.

    Attributes:
        prompts: Z_0, float64: ``samples`` rows (x, y), then the query (q_0, α).
        tasks: θ*, of norm 1, which a learner does not see.
    """

    prompts: Float[Tensor, "replica prompt token channel"]
    tasks: Float[Tensor, "replica prompt dimension"]


@dataclass(frozen=True)
class LinearPrompts:
    """Options of `LinearPromptSource`.

    Attributes:
        samples: examples in a prompt, n.
        dimension: of an example, d.
        inputs: "gaussian": entries of X are N(0, 1), θ* is uniform on the sphere, y = X θ*. "diabetes": X and y are
            those of random patients of scikit-learn's data set of that name, standardised; θ* is their least-squares
            solution, and y is divided by its norm.
        start: "zero": q_0 = 0, α = 1. "random": q_0 is normal, and α between 0.1 and 2.5 with a random sign.
    """

    samples: int = 32
    dimension: int = 4
    inputs: Literal["gaussian", "diabetes"] = "gaussian"
    start: Literal["zero", "random"] = "zero"

    def __post_init__(self) -> None:
        require(self, "samples", self.samples >= 1, ">= 1")
        require(self, "dimension", self.dimension >= 1, ">= 1")
        require_word(self, "inputs")
        require_word(self, "start")
        if self.inputs == "diabetes":
            require(self, "dimension", self.dimension == _MEASURES, f"{_MEASURES}, as of a patient")
            inside = _MEASURES < self.samples <= _PATIENTS
            require(self, "samples", inside, f"{_MEASURES + 1} to {_PATIENTS}, as there are patients")

    def build(self, draws: Draws) -> "LinearPromptSource":
        """A source; nothing of it is drawn once and for all."""
        return LinearPromptSource(self)


class LinearPromptSource(nn.Module):
    """Draws prompts."""

    def __init__(self, options: LinearPrompts) -> None:
        super().__init__()
        self.options = options

    def sample(self, draws: Draws, count: int) -> LinearPromptBatch:
        """``count`` prompts for each replica."""
        samples, dimension = self.options.samples, self.options.dimension
        if self.options.inputs == "gaussian":
            x = draws.normal(count, samples, dimension, dtype=torch.float64)
            tasks = nn.functional.normalize(draws.normal(count, dimension, dtype=torch.float64), dim=-1)
            y = (x * tasks[..., None, :]).sum(-1, keepdim=True)
        else:
            patients, progress = (values.to(draws.device) for values in _diabetes())
            chosen = torch.stack([draws.choice(_PATIENTS, samples) for _ in range(count)], 1)
            x, y = patients[chosen], progress[chosen]
            solved = torch.linalg.lstsq(x, y, driver="gels").solution  # "gelsy" differs from run to run
            norm = solved.norm(dim=-2, keepdim=True)
            tasks, y = (solved / norm)[..., 0], y / norm
        query = torch.zeros_like(x[..., :1, :])
        target = torch.ones_like(query[..., :1])
        if self.options.start == "random":
            query = draws.normal(count, 1, dimension, dtype=torch.float64)
            signed = 2 * draws.uniform(count, 1, 1, dtype=torch.float64) - 1
            target = (0.1 + 2.4 * signed.abs()).copysign(signed)
        shown, asked = torch.cat([x, y], -1), torch.cat([query, target], -1)
        return LinearPromptBatch(torch.cat([shown, asked], -2), tasks)


@cache
def _diabetes() -> tuple[Float[Tensor, "patient measure"], Float[Tensor, "patient 1"]]:
    """Measures of variance 1, and progress of the disease about its mean."""
    from sklearn.datasets import load_diabetes

    measures, progress = load_diabetes(return_X_y=True)
    return torch.from_numpy(measures * len(measures) ** 0.5), torch.from_numpy(progress - progress.mean())[:, None]
