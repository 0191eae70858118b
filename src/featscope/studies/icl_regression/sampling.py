"""Errors of hand-set models by Monte Carlo: a step draws some prompts, and sums go on."""

from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from featscope.data import RegressionPrompts, RegressionPromptSource
from featscope.models import attended
from featscope.options import require
from featscope.streams import Draws
from featscope.theory import icl_regression as theory


class Sums(nn.Module):
    """Sums over prompts, by name.

    Args:
        sizes: name -> shape without the replica.
        source: of the prompts.
        prompts: that a step adds.
    """

    def __init__(self, sizes: dict[str, tuple[int, ...]], source: RegressionPromptSource, prompts: int) -> None:
        super().__init__()
        self.source, self.prompts, self._names = source, prompts, list(sizes)
        like = source.directions
        self.register_buffer("drawn", torch.zeros(len(like), dtype=like.dtype, device=like.device))
        for name, shape in sizes.items():
            self.register_buffer(name, torch.zeros(len(like), *shape, dtype=like.dtype, device=like.device))

    def add(self, found: dict[str, Tensor]) -> None:
        """Add sums over one step's prompts."""
        self.get_buffer("drawn").add_(self.prompts)
        for name in self._names:
            self.get_buffer(name).add_(found[name])

    def mean(self, name: str) -> Float[Tensor, "replica ..."]:
        """Mean over all prompts so far."""
        total, drawn = self.get_buffer(name), self.get_buffer("drawn")
        return total / drawn.view(-1, *[1] * (total.ndim - 1))

    @property
    def passed(self) -> Bool[Tensor, "replica 1"]:
        """Sums come to no end of their own."""
        return torch.zeros_like(self.get_buffer("drawn"), dtype=torch.bool)[:, None]


@dataclass(frozen=True)
class Evaluated:
    """Options of `EvaluatedModels`.

    Attributes:
        data: the prompts of pretraining; those of evaluation have the same inputs.
        examples: in a prompt of evaluation, M.
        noises: variances of label noise, σ², smallest first.
        task_decay: coordinates of the task w in the eigenvectors are i^-task_decay ...
        covered: ... for the first so many of them, 0 for all.
        prompts: in a step.
        kept: eigenvectors that a model of rank r keeps, the "first" r (Theorem 5.4.1) or the "last".
    """

    data: RegressionPrompts = field(default_factory=RegressionPrompts)
    examples: int = 16
    noises: tuple[float, ...] = (0.0, 1.0, 4.0, 16.0)
    task_decay: float = 0.5
    covered: int = 0
    prompts: int = 1000
    kept: Literal["first", "last"] = "first"

    def __post_init__(self) -> None:
        require(self, "examples", self.examples >= 1, ">= 1")
        ascending = len(self.noises) >= 2 and list(self.noises) == sorted(set(self.noises)) and self.noises[0] >= 0
        require(self, "noises", ascending, "two or more variances >= 0, smallest first")
        require(self, "covered", 0 <= self.covered <= self.data.dimension, f"0 to {self.data.dimension}")
        require(self, "prompts", self.prompts >= 1, ">= 1")

    @property
    def task(self) -> list[float]:
        """Coordinates of w in the eigenvectors of Λ."""
        covered = self.covered or self.data.dimension
        return [float(i**-self.task_decay) if i <= covered else 0.0 for i in range(1, self.data.dimension + 1)]

    def build(self, draws: Draws) -> "EvaluatedModels":
        """Sums before the first prompt."""
        return EvaluatedModels(self.data.build(draws), self)


class EvaluatedModels(Sums):
    """Squared errors of the models of every rank, 0 to d, on noisy prompts of one task, x_q integrated out.

    Of a prompt h = a + σ b, where a is what examples say of the task and b what noise of variance 1 adds. The sums are

    - loss: ‖Uᵀh - w‖²_Λ, at every rank and noise;
    - answer: Λ^½ Uᵀa; signal_power, label_power: ‖Uᵀa‖²_Λ and ‖Uᵀb‖²_Λ; all at every rank;
    - second, first: y² x xᵀ and y x of single examples, at the second noise.
    """

    def __init__(self, source: RegressionPromptSource, options: Evaluated) -> None:
        rank, d = options.data.dimension + 1, options.data.dimension
        sizes = {
            "loss": (rank, len(options.noises)),
            "answer": (rank, d),
            "signal_power": (rank,),
            "label_power": (rank,),
            "second": (d, d),
            "first": (d,),
        }
        super().__init__(sizes, source, options.prompts)
        self.options = options
        q = source.directions
        values = theory.coefficients(options.data.spectrum, options.data.samples)
        if options.kept == "last":
            values = values[-1] - values[::-1]
        v = torch.as_tensor(values.copy(), dtype=q.dtype, device=q.device)
        self.register_buffer("task", (q * torch.tensor(options.task, dtype=q.dtype, device=q.device)).sum(-1))
        self._root = (q * source.spectrum.sqrt()) @ q.mT  # ‖z‖²_Λ is the square of its image
        self.register_buffer("models", torch.zeros(len(q), rank, d, d, dtype=q.dtype, device=q.device))
        self.register_buffer("aim", self.get_buffer("task")[:, None] @ self._root)
        self.take(q[:, None] * v[:, None] @ q.mT[:, None])

    def take(self, products: Float[Tensor, "replica rank d d"]) -> "EvaluatedModels":
        """Look at models with these u U."""
        self.get_buffer("models").copy_(products @ self._root[:, None])
        return self

    def forward(self, draws: Draws) -> None:
        """Draw prompts, and add them."""
        options, source = self.options, self.source
        x = source.inputs(draws, self.prompts, options.examples)
        noise = draws.normal(self.prompts, options.examples, dtype=x.dtype)
        clean = (x @ self.get_buffer("task")[:, None, :, None])[..., 0]
        a, b = (((y[..., None, :] @ x)[..., 0, :] / options.examples) for y in (clean, noise))
        signal, label = (z[:, None] @ self.get_buffer("models") for z in (a, b))
        off = signal - self.get_buffer("aim")[:, None]
        loss = [(off + s**0.5 * label).square().sum((-2, -1)) for s in options.noises]
        yx = ((clean + options.noises[1] ** 0.5 * noise)[..., None] * x).flatten(1, 2)
        self.add(
            {
                "loss": torch.stack(loss, -1),
                "answer": signal.sum(-2),
                "signal_power": signal.square().sum((-2, -1)),
                "label_power": label.square().sum((-2, -1)),
                "second": yx.mT @ yx / options.examples,
                "first": yx.sum(1) / options.examples,
            }
        )


@dataclass(frozen=True)
class Pretrained:
    """Options of `PretrainedModels`.

    Attributes:
        data: the prompts.
        blocks: blocks of the layer other than u and U, "zero" or "random".
        prompts: in a step.
    """

    data: RegressionPrompts = field(default_factory=RegressionPrompts)
    blocks: Literal["zero", "random"] = "zero"
    prompts: int = 1000

    def __post_init__(self) -> None:
        require(self, "prompts", self.prompts >= 1, ">= 1")

    def build(self, draws: Draws) -> "PretrainedModels":
        """Sums before the first prompt."""
        return PretrainedModels(self.data.build(draws), self, draws)


class PretrainedModels(Sums):
    """Losses of pretraining, of the whole layer as printed: a random model, one diagonal in Q, the best, and none.

    Attributes:
        products: u U of each model.
        diagonal: v of the diagonal model.
    """

    products: Float[Tensor, "replica model dimension dimension"]
    diagonal: Float[Tensor, "replica dimension"]

    def __init__(self, source: RegressionPromptSource, options: Pretrained, draws: Draws) -> None:
        super().__init__({"loss": (4,)}, source, options.prompts)
        q, d = source.directions, options.data.dimension
        best = torch.as_tensor(
            theory.coefficients(options.data.spectrum, options.data.samples)[-1], dtype=q.dtype, device=q.device
        )
        diagonal = best * draws.uniform(d, dtype=q.dtype)
        drawn = draws.normal(d, d, dtype=q.dtype) / 2
        built = [drawn, q * diagonal[:, None] @ q.mT, q * best @ q.mT, torch.zeros_like(q)]
        self.register_buffer("products", torch.stack(built, 1))
        self.register_buffer("diagonal", diagonal)
        self._u = 0.8
        value, key_query = torch.zeros(2, len(q), d + 1, d + 1, dtype=q.dtype, device=q.device)
        value[:, -1, -1] = self._u
        if options.blocks == "random":
            value[:, -1, :-1], key_query[:, -1, :-1] = (0.5 * draws.normal(2, d, dtype=q.dtype)).unbind(1)
        self.register_buffer("value", value)
        self.register_buffer("key_query", key_query)

    def forward(self, draws: Draws) -> None:
        """Draw prompts, and add them."""
        prompts, targets = self.source.sample(draws, self.prompts)
        losses = []
        for product in self.products.unbind(1):
            key_query = self.get_buffer("key_query").clone()
            key_query[:, :-1, :-1] = product / self._u
            answers = attended(prompts, self.get_buffer("value"), key_query)[..., -1, -1]
            losses.append((answers - targets).square().sum(-1) / 2)
        self.add({"loss": torch.stack(losses, -1)})
