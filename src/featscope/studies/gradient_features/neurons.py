"""Questions of `gradient-features` about random neurons: which are sure, where their gradients point, what they hold.

Thresholds are in units of how far first weights go along a feature, as in `featscope.theory.gradient_features`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log, sqrt
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import normalize

from featscope.data.labelled_gaussians import GaussianMixture, LinearMargin
from featscope.data.structured_parity import StructuredParity
from featscope.models.fixed_bias_relu import FixedBiasReLUNetwork
from featscope.probes.gradient_features import gradient_features, nice_neurons, simplified_gradient
from featscope.streams import Streams
from featscope.studies.gradient_features.exact import DOUBLE, mixture_gradient
from featscope.theory import gradient_features as theory
from featscope.training import Answer
from featscope.training.evaluation import Ask, Questionnaire

XOR_THRESHOLDS = (0.5, 1.0, 1.5, 2.0, 2.5)
PARITY_THRESHOLDS = (0.5, 1.0, 1.5, 2.0)
PARITY_SIZES = (StructuredParity(30, 5, 1, 0.25), StructuredParity(60, 7, 3, 0.1))
RATIOS = (0.25, 0.5, 1.0, 2.0, 4.0)
CONE, SHORTEST = 0.1, 0.1
"""γ, and B_G over ‖μ‖, of the sets that are counted."""
PART = 0.1
"""p of directions that are sought, as a share of gradients that are long enough."""

_SOUGHT = 2000  # neurons among which cones are sought


def mean_or_0(values: Tensor) -> float:
    """Of ``values``; 0 where there is none."""
    return float(values.mean()) if len(values) else 0.0


@dataclass(frozen=True)
class LinearNeurons(Questionnaire):
    """Neurons of linear data over their threshold: those with -b~ should have G = ρ w*, those with b~ none.

    Attributes:
        data: the law.
        neurons: random ones.
        samples: that G is the mean of.
    """

    data: LinearMargin = field(default_factory=lambda: LinearMargin(40))
    neurons: int = 60
    samples: int = 10000

    @property
    def grid(self) -> Mapping[str, Sequence[Any]]:
        """b~/(σ_w √d)."""
        return {"ratio": RATIOS}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """What is found at each threshold."""
        return {
            "cosine": Answer("cosine of G(w, -b~) to w*, mean over neurons"),
            "length": Answer("‖G(w, -b~)‖/ρ, mean over neurons"),
            "other_length": Answer("‖G(w, b~)‖/ρ, mean over neurons"),
        }

    def asker(self, streams: Streams) -> Ask:
        """One threshold after another, with the same neurons and inputs."""
        source = self.data.build(streams.at("law"))
        w = streams.at("neurons").normal(self.neurons, self.data.dimension, dtype=DOUBLE)
        x, y, _ = source.sample(streams.at("sample"), self.samples, DOUBLE)

        def ask(ratio: float) -> Mapping[str, float]:
            b = torch.full_like(w[..., 0], ratio * sqrt(self.data.dimension))
            below, above = (simplified_gradient(w, bias, x, y) for bias in (-b, b))
            cosine = (normalize(below, dim=-1) @ source.features.mT)[..., 0]
            return {
                "cosine": float(cosine.mean()),
                "length": float(below.norm(dim=-1).mean()) / self.data.mean,
                "other_length": float(above.norm(dim=-1).mean()) / self.data.mean,
            }

        return ask


@dataclass(frozen=True)
class XorNeurons(Questionnaire):
    """Neurons of the XOR mixture over their threshold, with G in closed form.

    Attributes:
        data: the mixture.
        neurons: random ones.
    """

    data: GaussianMixture = field(default_factory=GaussianMixture)
    neurons: int = 10000

    @property
    def grid(self) -> Mapping[str, Sequence[Any]]:
        """t = b~/(σ_w ‖μ‖)."""
        return {"threshold": XOR_THRESHOLDS}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """What is found at each threshold."""
        return {
            "sure": Answer("share of neurons that are sure of a cluster, mean over clusters"),
            "cosine": Answer("cosine of G to D_j of sure neurons, mean"),
            "length": Answer("‖G‖/(p_j ‖μ‖) of sure neurons, mean"),
            "long_enough": Answer("share of sure neurons with ‖G‖ >= √d/5, the printed B_G"),
            "within": Answer("share of all with G in the cone of some D_j and at least B_G long"),
            "directions": Answer("directions that greedy cones find, but for sign"),
            "found": Answer("least over features of the largest cosine to one of the two most frequent directions"),
            "alone": Answer("least over directions of the largest cosine to a feature"),
            "plane": Answer("coordinates of G in the plane of the features", axes={"neuron": 200, "axis": 2}),
        }

    def asker(self, streams: Streams) -> Ask:
        """One threshold after another, with the same neurons."""
        source = self.data.build(streams.at("law"))
        w = streams.at("neurons").normal(self.neurons, self.data.dimension, dtype=DOUBLE)
        norm = float(source.norms[0])

        def ask(threshold: float) -> Mapping[str, Any]:
            b = torch.full_like(w[..., 0], threshold * norm)
            sure = sure_of_cluster(w, source.means, b, self.data.spread)[0]
            gradient = mixture_gradient(source, w, b)
            lengths = gradient.norm(dim=-1)[0]
            cosines = (source.features @ normalize(gradient, dim=-1).mT * source.labels[:, None])[0]
            long = lengths >= SHORTEST * norm
            inside = (cosines.abs() > 1 - CONE).any(0) & long
            least = PART * float(long.double().mean())
            seen = gradient_features(gradient[0, :_SOUGHT], CONE, SHORTEST * norm, least=least)
            nearest = (seen.directions @ source.features[0].mT).abs()
            plane = gradient[0] @ source.features[0, [0, 2]].mT
            return {
                "sure": float(sure.double().mean()),
                "cosine": mean_or_0(cosines[sure]),
                "length": mean_or_0(lengths.expand_as(sure)[sure]) / (0.25 * norm),
                "long_enough": mean_or_0((lengths.expand_as(sure)[sure] >= sqrt(self.data.dimension) / 5).double()),
                "within": float(inside.double().mean()),
                "directions": len(seen.directions),
                "found": float(nearest[:2].amax(0).min()) if len(nearest) else 0.0,
                "alone": float(nearest.amax(1).min()) if len(nearest) else 0.0,
                "plane": plane[:200].flatten().tolist(),
            }

        return ask


def sure_of_cluster(
    weight: Float[Tensor, "replica neuron input"],
    means: Float[Tensor, "replica 4 input"],
    bias: Float[Tensor, "replica neuron"],
    spread: float,
) -> Bool[Tensor, "replica 4 neuron"]:
    """Which neurons with σ_w = 1 are sure of which cluster of an XOR mixture (Lemma B.37), but for their norms."""
    along = means @ weight.mT
    norm = means.norm(dim=-1)[..., None]
    across = along[:, [2, 2, 0, 0]].abs()
    return (along >= theory.XOR_OUTER * bias[:, None]) & (across <= sqrt(2) * spread * norm)


@dataclass(frozen=True)
class ParityNeurons(Questionnaire):
    """Neurons of structured parities over their threshold, and an ideal neuron, D_1 itself.

    Attributes:
        neurons: random ones.
        samples: that G is the mean of.
        most: sure neurons whose gradient is looked at.
    """

    neurons: int = 10000
    samples: int = 20000
    most: int = 40

    @property
    def grid(self) -> Mapping[str, Sequence[Any]]:
        """Place of the law, and c = b~/(σ_w √k)."""
        return {"law": range(len(PARITY_SIZES)), "threshold": PARITY_THRESHOLDS}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """What is found of each law and threshold."""
        return {
            "sure": Answer("share of neurons that are sure of a block, mean over blocks"),
            "cosine": Answer("cosine of G to D_j of sure neurons, mean"),
            "ideal_cosine": Answer("the same of the neuron D_1 that fires for the whole block alone"),
            "ideal_length": Answer("‖G‖ of that neuron over p_A √k"),
            "mirrored_cosine": Answer("cosine to D_1 of G of its mirror image"),
            "mirrors_own": Answer("cosine to D_j of G of mirror images of sure neurons, without sign, mean"),
            "mirrors_other": Answer("the same to another block, the least, mean; 0 if there is none"),
            "mean_along": Answer("E[yx] along D_j over p_A √k, mean over blocks"),
            "mean_off": Answer("‖E[yx] less its part along the D_j‖ over p_A √k"),
        }

    def asker(self, streams: Streams) -> Ask:
        """One law and threshold after another."""

        def ask(law: int, threshold: float) -> Mapping[str, float]:
            place = 100 * law + PARITY_THRESHOLDS.index(threshold)
            data = PARITY_SIZES[law]
            source = data.build(streams.at("law", place))
            features, unit = source.features, data.tuned * sqrt(data.block)
            w = streams.at("neurons", place).normal(self.neurons, data.dimension, dtype=DOUBLE)
            b = torch.full_like(w[..., 0], threshold * sqrt(data.block))
            sure = sure_of_block(w, features, threshold)[0]
            owner, chosen = (each[: self.most] for each in sure.nonzero(as_tuple=True))
            x, y, _ = source.sample(streams.at("sample", place), self.samples, DOUBLE)
            gradient = simplified_gradient(w[:, chosen], b[:, chosen], x, y)
            cosines = (normalize(gradient, dim=-1) * features[:, owner]).sum(-1)[0]
            mirrors = normalize(simplified_gradient(-w[:, chosen], -b[:, chosen], x, y), dim=-1)[0] @ features[0].mT
            mirrors = mirrors.abs()
            own = torch.nn.functional.one_hot(owner, data.blocks).bool()
            other = mirrors.masked_fill(own, torch.inf).amin(-1)
            ideal, knot = features[:, :1], torch.full_like(b[:, :1], sqrt(data.block) - 1 / sqrt(data.block))
            pair = simplified_gradient(torch.cat([ideal, -ideal], 1), torch.cat([knot, -knot], 1), x, y)[0]
            mean = (y[..., None] * x).mean(1)
            along = (mean @ features.mT[0])[0]
            off = mean[0] - along @ features[0]
            ideal_cosine, mirrored = (normalize(pair, dim=-1) @ features[0, 0]).tolist()
            return {
                "sure": float(sure.double().mean()),
                "cosine": mean_or_0(cosines),
                "ideal_cosine": ideal_cosine,
                "ideal_length": float(pair[0].norm()) / unit,
                "mirrored_cosine": mirrored,
                "mirrors_own": mean_or_0(mirrors[own]),
                "mirrors_other": mean_or_0(other) if data.blocks > 1 else 0.0,
                "mean_along": float(along.mean()) / unit,
                "mean_off": float(off.norm()) / unit,
            }

        return ask


def sure_of_block(
    weight: Float[Tensor, "replica neuron input"], features: Float[Tensor, "replica block input"], threshold: float
) -> Bool[Tensor, "replica block neuron"]:
    """Which neurons with σ_w = 1 are sure of which block (Lemma B.47), but for their norms."""
    along = features @ weight.mT
    small = along.abs() <= theory.INNER * threshold
    others = small.sum(1, keepdim=True) - small.long() == features.shape[1] - 1
    return (along >= theory.OUTER * threshold) & others


@dataclass(frozen=True)
class GoodNetworks(Questionnaire):
    """Nice neurons of networks of the XOR mixture after the exact first step, and the network that Lemma 3.14 makes.

    Attributes:
        data: the mixture.
        threshold: t of the neurons.
        quarters: m.
        networks: of each m, whose nice neurons are counted.
        judged: of them, those whose loss is measured.
        draws: neurons that p is the share of.
        samples: fresh ones, that the loss is the mean of.
    """

    data: GaussianMixture = field(default_factory=GaussianMixture)
    threshold: float = 1.0
    quarters: tuple[int, ...] = (250, 1000, 2500)
    networks: int = 8
    judged: int = 2
    draws: int = 20000
    samples: int = 1000

    @property
    def grid(self) -> Mapping[str, Sequence[Any]]:
        """m."""
        return {"quarter": self.quarters}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """What is found at each m."""
        one = {"judged": self.judged}
        return {
            "chance": Answer("p, of G in the cone of D_1, on either side, and long enough"),
            "nice": Answer("nice neurons over mp/4", axes={"network": self.networks, "feature": 4}),
            "hinge": Answer("hinge loss of the network made", axes=one),
            "accuracy": Answer("its accuracy", axes=one),
            "bound": Answer("loss that the lemma allows over OPT"),
            "used": Answer("neurons that it has, over r √(mp)", axes=one),
        }

    def asker(self, streams: Streams) -> Ask:
        """One width after another."""
        source = self.data.build(streams.at("law"))
        norm = float(source.norms[0])
        bias, shortest = self.threshold * norm, SHORTEST * norm
        w = streams.at("census").normal(self.draws, self.data.dimension, dtype=DOUBLE)
        gradient = mixture_gradient(source, w, torch.full_like(w[..., 0], bias))
        inside = nice_neurons(gradient, source.features, CONE, shortest)[0].double().mean(-1)
        chance = float(inside.view(2, 2).sum(1).mean())  # D and -D are one cone
        x, y, _ = source.sample(streams.at("sample"), self.samples, DOUBLE)

        def ask(quarter: int) -> Mapping[str, Any]:
            made = [self._made(source, streams, quarter, place, chance) for place in range(self.networks)]
            margins = [(y * network(x))[0].detach() for network, _ in made[: self.judged]]
            scale = source.options.spread * sqrt(log(self.data.dimension))
            allowed = theory.good_network_excess(
                4, 1 / scale, (1 + self.data.spread) * norm, CONE, 2 * scale, shortest, quarter * chance
            )
            return {
                "chance": chance,
                "nice": [(nice.sum(-1) / (quarter * chance / 4)).tolist() for _, nice in made],
                "hinge": [float((1 - margin).relu().mean()) for margin in margins],
                "accuracy": [float((margin > 0).double().mean()) for margin in margins],
                "bound": allowed,
                "used": [int((n.readout != 0).sum()) / (4 * sqrt(quarter * chance)) for n, _ in made[: self.judged]],
            }

        def flat(quarter: int) -> Mapping[str, Any]:
            return {name: torch.tensor(one, dtype=DOUBLE).flatten().tolist() for name, one in ask(quarter).items()}

        return flat

    def _made(
        self, source: Any, streams: Streams, quarter: int, place: int, chance: float
    ) -> tuple[FixedBiasReLUNetwork, Bool[Tensor, "4 neuron"]]:
        """The network with the read-out of Lemma 3.14, and which of its neurons are nice for which feature.

        Only the half with b = b~ is built: every feature is one of it. Steps are in units in which -η ℓ'(0) = 1.
        ε_a is (mp)^(-1/4), which is stricter than the lemma's √(B_b/B_G) times that.
        """
        norm = float(source.norms[0])
        scale = source.options.spread * sqrt(log(self.data.dimension))
        wanted, bias, shortest = 2 * scale, self.threshold * norm, SHORTEST * norm
        draws = streams.at("network", 100_000 * place + quarter)
        w = draws.normal(quarter, self.data.dimension, dtype=DOUBLE)
        b = torch.full_like(w[..., 0], bias)
        gradient = mixture_gradient(source, w, b)
        a = bias / wanted / (norm / 4) * draws.normal(quarter, dtype=DOUBLE)
        stepped = a[..., None] * gradient
        nice = nice_neurons(stepped, source.features, CONE, a.abs() * shortest)[0]
        within = 1 / (quarter * chance) ** 0.25
        fits = (a.abs() * gradient.norm(dim=-1) * wanted / bias - 1).abs() <= within
        chosen = (nice & fits).double()
        each = source.labels / scale * wanted / bias / chosen.sum(-1).clamp(min=1)
        return FixedBiasReLUNetwork(stepped, (each @ chosen)[None], b).requires_grad_(False), nice
