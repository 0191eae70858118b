"""A question of `gradient-features` about random neurons of a mixture with orthogonal means (Section B.5.2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import normalize

from featscope.data.labelled_gaussians import GaussianMixture
from featscope.streams import Streams
from featscope.studies.gradient_features.exact import DOUBLE, mixture_gradient
from featscope.studies.gradient_features.neurons import mean_or_0
from featscope.theory import gradient_features as theory
from featscope.training import Answer
from featscope.training.evaluation import Ask, Questionnaire

THRESHOLDS = (0.5, 1.0, 1.5, 2.0)
NORMS = (1.0, 2.0, 4.0)
"""‖μ_j‖/√d."""


@dataclass(frozen=True)
class MixtureNeurons(Questionnaire):
    """Neurons of a mixture with orthogonal means over their threshold, with G in closed form.

    Attributes:
        data: the mixture; how long its means are is asked about.
        neurons: random ones.
    """

    data: GaussianMixture
    neurons: int = 10000

    @property
    def grid(self) -> Mapping[str, Sequence[Any]]:
        """‖μ_j‖/√d, and t = b~/(σ_w ‖μ_j‖)."""
        return {"norm": NORMS, "threshold": THRESHOLDS}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """What is found at each length and threshold."""
        return {
            "sure": Answer("share of neurons that are sure of a cluster, mean over clusters"),
            "cosine": Answer("cosine of G to y_j D_j of sure neurons, mean"),
            "length": Answer("‖G‖/(p_j ‖μ_j‖) of sure neurons, mean"),
        }

    def asker(self, streams: Streams) -> Ask:
        """One length and threshold after another, with the same neurons."""
        count = len(self.data.axes)
        w = streams.at("neurons").normal(self.neurons, self.data.dimension, dtype=DOUBLE)

        def ask(norm: float, threshold: float) -> Mapping[str, float]:
            size = norm * sqrt(self.data.dimension)
            source = replace(self.data, norms=(size,) * count).build(streams.at("law"))
            b = torch.full_like(w[..., 0], threshold * size)
            sure = sure_of_one(w, source.means, b)[0]
            gradient = mixture_gradient(source, w, b)
            lengths = (gradient.norm(dim=-1)[0] / source.weights[:, None]) / size
            cosines = (source.features @ normalize(gradient, dim=-1).mT * source.labels[:, None])[0]
            return {
                "sure": float(sure.double().mean()),
                "cosine": mean_or_0(cosines[sure]),
                "length": mean_or_0(lengths[sure]),
            }

        return ask


def sure_of_one(
    weight: Float[Tensor, "replica neuron input"],
    means: Float[Tensor, "replica component input"],
    bias: Float[Tensor, "replica neuron"],
) -> Bool[Tensor, "replica component neuron"]:
    """Which neurons are sure of which component of a mixture (Equation B.29), but for their norms."""
    along = means @ weight.mT
    rather = along <= theory.INNER * bias[:, None]
    others = rather.sum(1, keepdim=True) - rather.int() == means.shape[1] - 1
    return (along >= theory.OUTER * bias[:, None]) & others
