"""The same layer with free matrices, trained on prompts: the step that the dissertation does not take."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.data import LinearPromptBatch
from featscope.models import LoopedLinearAttention, answer, attention_mask, gradient_descent_weights
from featscope.options import require
from featscope.streams import Draws
from featscope.training import GradientTraining, Measurement
from featscope.training.objectives import Ready

LONGER = 4
"""Times the loops of training at which it is looked at."""
JUDGED = 500
"""Fresh prompts by which a trained layer is judged."""
STEP_SIZES = torch.linspace(0.1, 1.5, 29, dtype=torch.float64)
"""η n among which the best common step size is sought."""
_START = 0.1


@dataclass(frozen=True)
class FreeLoops:
    """Options of `FreeLoopsNetwork`, with η = 1/n.

    Attributes:
        loops: T, through which it is trained.
        start: Q and P "random": normal with standard deviation 0.1; or the "construction".
    """

    loops: int = 4
    start: Literal["random", "construction"] = "random"

    def __post_init__(self) -> None:
        require(self, "loops", self.loops >= 1, ">= 1")

    def build(self, source: Any, draws: Draws) -> "FreeLoopsNetwork":
        """A layer at its start."""
        channels = source.options.dimension + 1
        weights = [_START * draws.normal(channels, channels, dtype=torch.float64) for _ in range(2)]
        if self.start == "construction":
            hand_set = gradient_descent_weights(source.options.dimension)
            weights = [w.to(drawn).expand_as(drawn).clone() for w, drawn in zip(hand_set, weights, strict=True)]
        query_key, value = weights
        return FreeLoopsNetwork(query_key, value, self.loops)


class FreeLoopsNetwork(nn.Module):
    """Goes through one layer ``loops`` times."""

    def __init__(
        self,
        query_key: Float[Tensor, "replica channel channel"],
        value: Float[Tensor, "replica channel channel"],
        loops: int,
    ) -> None:
        super().__init__()
        self.layer, self.loops = LoopedLinearAttention(query_key, value), loops

    def forward(
        self, prompts: Float[Tensor, "replica prompt token channel"]
    ) -> Float[Tensor, "replica prompt dimension"]:
        """The answers after all loops."""
        return answer(_gone_through(self.layer, prompts, self.loops, 1 / (prompts.shape[-2] - 1))[-1])


@dataclass(frozen=True)
class PromptError(Ready):
    """Mean of (<answer, θ*> - α)² over fresh prompts, the error by which Definition 8.4 judges an answer.

    Attributes:
        prompts: in a batch.
    """

    prompts: int = 64

    def __post_init__(self) -> None:
        require(self, "prompts", self.prompts >= 1, ">= 1")

    def __call__(self, learner: nn.Module, source: Any, draws: Draws) -> Float[Tensor, "replica"]:
        """The loss of each replica on a fresh batch."""
        batch = source.sample(draws, self.prompts)
        return squared_error(batch, learner(batch.prompts)).mean(-1)


def squared_error(
    batch: LinearPromptBatch, answers: Float[Tensor, "replica prompt dimension"]
) -> Float[Tensor, "replica prompt"]:
    """(<answer, θ*> - α)²."""
    return ((answers * batch.tasks).sum(-1) - batch.prompts[..., -1, -1]).square()


def _gone_through(layer: LoopedLinearAttention, prompts: Tensor, loops: int, step: Tensor | float) -> list[Tensor]:
    """Prompts after each loop."""
    mask = attention_mask("query", prompts.shape[-2]).to(prompts.device)
    found = [prompts]
    for _ in range(loops):
        found.append(layer(found[-1], mask, step))
    return found[1:]


@torch.no_grad()
def judged(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """The trained layer and the construction on the same fresh prompts, loop by loop, and how alike their weights are.

    The construction is given each prompt's own 1/L, and the one step size that is best for all prompts of a replica
    after the loops of training. Errors are formed anew: what is wrong with the loss is not to be measured by the loss.
    """
    network = experiment.learner
    batch = experiment.source.sample(experiment.streams.at("judge"), JUDGED)
    prompts, loops = batch.prompts, LONGER * network.loops
    samples, replicas = prompts.shape[-2] - 1, len(prompts)
    query_key, value = (w.to(prompts.device) for w in gradient_descent_weights(prompts.shape[-1] - 1))
    hand_set = LoopedLinearAttention(query_key.repeat(replicas, 1, 1), value.repeat(replicas, 1, 1))

    def errors(layer: LoopedLinearAttention, step: Tensor | float, until: int = loops) -> Tensor:
        said = [(answer(z) * batch.tasks).sum(-1) for z in _gone_through(layer, prompts, until, step)]
        return torch.stack([(prompts[..., -1, -1] - one).square().mean(-1) for one in said], 1)

    shown = prompts[..., :-1, :-1]
    largest = torch.linalg.eigvalsh(shown.mT @ shown)[..., -1]
    tried = torch.stack([errors(hand_set, float(s) / samples, network.loops)[:, -1] for s in STEP_SIZES])
    best = STEP_SIZES.to(prompts.device)[tried.argmin(0)][:, None].expand(-1, prompts.shape[1])
    of_loop = partial(Measurement, dims=("loop",))
    return {
        "trained_error": of_loop(errors(network.layer, 1 / samples), "mean squared error of the trained layer"),
        "own_step_error": of_loop(errors(hand_set, 1 / largest), "that of the construction with each prompt's 1/L"),
        "best_step_error": of_loop(errors(hand_set, best / samples), "that of it with the best common step size"),
        "best_step": Measurement(best[:, 0], "the best common step size, in units of 1/n"),
        "likeness": Measurement(
            _likeness(_cosine(network.layer.query_key, query_key), _cosine(network.layer.value, value)),
            "the smaller cosine of Q and P to the construction's; below 0 where one of them has the other sign",
        ),
    }


def _cosine(found: Float[Tensor, "replica a b"], wanted: Float[Tensor, "a b"]) -> Float[Tensor, "replica"]:
    """Of two matrices as vectors."""
    return torch.nn.functional.cosine_similarity(found.flatten(1), wanted.flatten()[None], dim=1)


def _likeness(query_key: Float[Tensor, "replica"], value: Float[Tensor, "replica"]) -> Float[Tensor, "replica"]:
    """The smaller of two cosines. Q and P are known up to a factor that one may take from the other: both may have the
    other sign; if one has, the layer ascends where the construction descends."""
    return torch.minimum(query_key.abs(), value.abs()) * (query_key * value).sign()
