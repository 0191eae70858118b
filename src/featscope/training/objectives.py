"""How the loss of one step comes about: draw a batch, make views, compare."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import softplus
from typing_extensions import TypeVar

from featscope.data import LinearTask, linear_task
from featscope.losses import ContrastiveLoss, InBatchLoss, InfoNCE, NonContrastive, PredictionLoss
from featscope.options import require, require_word
from featscope.streams import Draws, Streams
from featscope.views import RandomMask, View, patch_split

T = TypeVar("T")
# `Contrastive` means `Contrastive[InfoNCE]`, whose options are known; with one's own loss it is `Contrastive[Own]`.
C = TypeVar("C", bound=ContrastiveLoss, default=InfoNCE)
B = TypeVar("B", bound=InBatchLoss, default=InfoNCE)
P = TypeVar("P", bound=PredictionLoss, default=NonContrastive)


class Ready:
    """Options of an objective that are the objective: there is nothing to build."""

    def build(self: T, source: Any, learner: Any, streams: Streams) -> T:
        """The objective itself."""
        return self


@dataclass(frozen=True)
class Contrastive(Ready, Generic[C]):
    """Contrast each anchor's other view with fresh samples (Wen & Li 2021, Section 2.2 and Appendix A.1).

    Negatives are not augmented (Remark 2.4) and shared by the anchors of a batch, where the paper draws a
    set for each anchor.

    Attributes:
        view: makes the positive pair.
        loss: compares them.
        anchors: anchors in a batch, K.
        negatives: negatives in a batch, |N|.
    """

    view: View = field(default_factory=RandomMask)
    loss: C = field(default_factory=InfoNCE)  # type: ignore[assignment]  # of the default
    anchors: int = 256
    negatives: int = 256

    def __post_init__(self) -> None:
        require(self, "anchors", self.anchors >= 1, ">= 1")
        require(self, "negatives", self.negatives >= 1, ">= 1")

    def batch(self, source: Any, draws: Draws) -> tuple[Tensor, Tensor, Tensor]:
        """Anchors, positives and negatives, each ``[replica, count, ...]``.

        Raises:
            ValueError: the view's halves have two shapes: broadcast, one positive would stand for many.
        """
        x = source.sample(draws, self.anchors + self.negatives).x
        anchor, positive = self.view(x[:, : self.anchors], draws)
        require_one_shape(anchor, positive)
        return anchor, positive, x[:, self.anchors :]

    def __call__(self, learner: nn.Module, source: Any, draws: Draws) -> Float[Tensor, "replica"]:
        """The loss of each replica on a fresh batch."""
        anchor, positive, negatives = self.batch(source, draws)
        return self.loss(learner(anchor), learner(positive), learner(negatives))


def require_one_shape(anchor: Tensor, positive: Tensor) -> None:
    """Raise `ValueError` unless each anchor has a positive of its own."""
    if anchor.shape != positive.shape:
        shapes = f"{tuple(anchor.shape)} and {tuple(positive.shape)}"
        raise ValueError(f"anchors and positives have shapes {shapes}: expected one shape, a positive for each anchor")


@dataclass(frozen=True)
class ContrastivePairs(Ready, Generic[B]):
    """Contrast the members of pairs that the source draws; in-batch negatives, no augmentation.

    The independent noise of a pair's members plays the part of augmentation (P, Section 2; V, Section 2).

    Attributes:
        loss: compares them.
        pairs: pairs in a batch, K; each anchor has K - 1 negatives.
        noise: "dense": inputs are drawn; "projected": only what a one-layer network under uniform attention sees of
            their noise, see `ProjectedInputs`. The same in law, and cheaper the narrower the network.
    """

    loss: B = field(default_factory=InfoNCE)  # type: ignore[assignment]  # of the default
    pairs: int = 256
    noise: Literal["dense", "projected"] = "dense"

    def __post_init__(self) -> None:
        require(self, "pairs", self.pairs >= 2, ">= 2", "One pair has no negatives.")
        require_word(self, "noise")

    def __call__(self, learner: nn.Module, source: Any, draws: Draws) -> Float[Tensor, "replica"]:
        """The loss of each replica on a fresh batch."""
        if self.noise == "projected":
            both = learner(source.projected_pairs(draws, self.pairs))
            return self.loss.in_batch(both[:, : self.pairs], both[:, self.pairs :])
        batch = source.pairs(draws, self.pairs)
        require_one_shape(batch.x, batch.y)
        return self.loss.in_batch(learner(batch.x), learner(batch.y))


@dataclass(frozen=True)
class PredictOtherView(Ready, Generic[P]):
    """Predict of one half of a sample's patches what the encoder says of the other (Wen & Li 2022, Algorithm 1).

    Attributes:
        loss: compares prediction and target.
        samples: samples in a batch, N.
        noise: "projected": only what the neurons see of the noise is drawn, see `ProjectedPatches`; "dense": all of
            it. The same in law.
    """

    loss: P = field(default_factory=NonContrastive)  # type: ignore[assignment]  # of the default
    samples: int = 256
    noise: Literal["dense", "projected"] = "projected"

    def __post_init__(self) -> None:
        require(self, "samples", self.samples >= 2, ">= 2", "One sample has no variance.")
        require_word(self, "noise")

    def __call__(self, learner: Any, source: Any, draws: Draws) -> Float[Tensor, "replica"]:
        """The loss of each replica on a fresh batch; ``learner`` is an `OnlineNetwork` of a `CubicPatchesNetwork`."""
        in_first = patch_split(draws, self.samples, source.patches)
        batch = (
            source.projected(draws, self.samples) if self.noise == "projected" else source.sample(draws, self.samples)
        )
        first, second = learner.encoder.views(batch, in_first)
        return self.loss(learner.head(first), second)


class Supervised(nn.Module):
    """Logistic losses of linear heads on sign labels, added over tasks: supervised training of the same learner.

    Args:
        head: initial weights of the head, or of one for each task.
        labels: maps a sample to numbers whose signs are its labels, in each task; samples with 0 are left out.
        samples: batch size.
    """

    def __init__(
        self,
        head: Float[Tensor, "replica *task neuron"],
        labels: Callable[[Any], Float[Tensor, "replica batch *task"]],
        samples: int,
    ) -> None:
        super().__init__()
        self.head = nn.Parameter(head)
        self.labels = labels
        self.samples = samples

    def forward(self, learner: nn.Module, source: Any, draws: Draws) -> Float[Tensor, "replica"]:
        """The sum over tasks of the mean loss over labelled samples of a fresh batch, in nats; 0 where none is."""
        sample = source.sample(draws, self.samples)
        y = self.signs(sample)
        margin = y * torch.einsum("rbn,r...n->rb...", learner(sample.x), self.head)
        of_tasks = (softplus(-margin) * y.abs()).sum(1) / y.abs().sum(1).clamp_min(1)
        return of_tasks.reshape(len(y), -1).sum(1)

    def signs(self, sample: Any) -> Float[Tensor, "replica batch *task"]:
        """1 or -1 for each sample in each task, and 0 where it has no label.

        Raises:
            ValueError: there are more or fewer labels than samples and heads.
        """
        labels = self.labels(sample)
        expected = sample.x.shape[:2] + self.head.shape[1:-1]
        if labels.shape != expected:
            raise ValueError(
                f"labels have shape {list(labels.shape)}: expected {list(expected)}, one of each sample and head"
            )
        return labels.sign().to(self.head.dtype)


@dataclass(frozen=True)
class SignLabels:
    """Supervised training on y = sign <w*, z> of hidden signals z (Wen & Li 2021, Definition 3.1).

    Attributes:
        samples: batch size.
    """

    samples: int = 512

    def __post_init__(self) -> None:
        require(self, "samples", self.samples >= 1, ">= 1")

    def build(self, source: Any, learner: Any, streams: Streams) -> Supervised:
        """The objective, with the task of the draws "task" and a random head of norm 1 in expectation."""
        neurons, features = learner.weight.shape[-2], source.dictionary.shape[-1]
        head = streams.at("head").normal(neurons) / neurons**0.5
        return Supervised(head, LinearTask(linear_task(streams.at("task"), features)), self.samples)
