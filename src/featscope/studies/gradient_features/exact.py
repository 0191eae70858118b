"""Questions of `gradient-features` in which nothing is trained: first steps, samples of gradients, true networks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from featscope.data.labelled_gaussians import GaussianMixture, LinearMargin
from featscope.data.structured_parity import StructuredParity
from featscope.models.fixed_bias_relu import FixedBiasReLU
from featscope.probes.gradient_features import simplified_gradient, simplified_gradient_of_mixture
from featscope.streams import Streams
from featscope.theory import gradient_features as theory
from featscope.training import Answer
from featscope.training.evaluation import Ask, Questionnaire
from featscope.training.feature_step import Kind, margin_loss, slope_at_zero, take_feature_step

DOUBLE = torch.float64
LINEAR = LinearMargin(40)
MIXTURE = GaussianMixture(40, (1, 2, 3), (1, -1, 1), (6.0, 5.0, 4.0), (0.5, 0.3, 0.2), 1.5)
XOR = GaussianMixture(40)
PARITY, PARITIES = StructuredParity(30, 5, 1), StructuredParity(40, 3, 3, 0.1)
LAWS = (LINEAR, MIXTURE, XOR, PARITY, PARITIES)
KINDS: tuple[Kind, ...] = ("hinge", "logistic")
WAVES = ((1, 3), (1, 5), (3, 3), (3, 5))
"""(r, k) of the waves that are written down."""
TAU, WIDE = 1.35, 100
"""τ and d of the mixtures' true networks: the largest τ at which ‖μ‖ = √d is four K."""


def mixture_gradient(source: Any, weight: Tensor, bias: Tensor) -> Tensor:
    """G in closed form for the components of ``source``, a mixture."""
    deviations = torch.full_like(source.norms, source.options.spread)
    return simplified_gradient_of_mixture(weight, bias, source.means, deviations, source.weights, source.labels)


def _relative(found: Tensor, wanted: Tensor) -> float:
    return float((found - wanted).abs().max() / wanted.abs().max())


@dataclass(frozen=True)
class FirstStep(Questionnaire):
    """The first step by automatic differentiation, against simplified gradients of the same sample; float64.

    Attributes:
        samples: of the step.
        quarter: a fourth of the neurons.
    """

    samples: int = 400
    quarter: int = 20

    @property
    def grid(self) -> Mapping[str, Sequence[Any]]:
        """Places in the lists of laws and of losses."""
        return {"law": range(len(LAWS)), "loss": range(len(KINDS))}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """What is found."""
        return {
            "start": Answer("largest |g(x)| before the step"),
            "mirror_start": Answer("largest of w_i + w_(i + m), a_i + a_(i + m), b_i + b_(i + m) before it, i <= m"),
            "step_gap": Answer("largest difference of W after the step to -η ℓ'(0) a G, relative to the largest"),
            "readout_gap": Answer("the same of a to -η ℓ'(0) mean of y ReLU(<w, x> - b)"),
            "copies_gap": Answer("largest of w_i + w_(i + 2m) after the step, relative"),
            "mirror_gap": Answer("largest of G(-w, -b) + G(w, b) - mean of yx, relative"),
            "mirrors_agree": Answer("largest difference of w_i and w_(i + m) after the step, relative"),
        }

    def asker(self, streams: Streams) -> Ask:
        """One law and loss after another, each with draws of its own."""

        def ask(law: int, loss: int) -> Mapping[str, float]:
            place = law * len(KINDS) + loss
            source = LAWS[law].build(streams.at("law", place))
            batch = source.sample(streams.at("sample", place), self.samples, DOUBLE)
            network = FixedBiasReLU(self.quarter, 4.0).build(source, streams.at("start", place), DOUBLE)
            w, a, b = (each.detach().clone() for each in (network.weight, network.readout, network.bias))
            with torch.no_grad():
                start, hidden = network(batch.x).abs().max(), network.hidden(batch.x)
            rate = 0.7
            take_feature_step(network, batch.x, batch.y, rate, KINDS[loss])
            scale = -rate * slope_at_zero(KINDS[loss])
            gradient = simplified_gradient(w, b, batch.x, batch.y)
            stepped, m = network.weight.detach(), self.quarter
            mean = (batch.y[..., None] * batch.x).mean(1, keepdim=True)
            mirrored = simplified_gradient(-w, -b, batch.x, batch.y)
            pairs = [(each[:, :m] + each[:, m : 2 * m]).abs().max() for each in (w, a, b)]
            return {
                "start": float(start),
                "mirror_start": float(torch.stack(pairs).max()),
                "step_gap": _relative(stepped, scale * a[..., None] * gradient),
                "readout_gap": _relative(network.readout.detach(), scale * (batch.y[..., None] * hidden).mean(1)),
                "copies_gap": _relative(stepped[:, : 2 * m], -stepped[:, 2 * m :]),
                "mirror_gap": _relative(mirrored, mean - gradient),
                "mirrors_agree": _relative(stepped[:, :m], stepped[:, m : 2 * m]),
            }

        return ask


@dataclass(frozen=True)
class Sampling(Questionnaire):
    """G of samples of mixtures against its closed form, over the size of the sample; float64.

    Attributes:
        sizes: n.
        neurons: random ones.
        repeats: samples of each size.
    """

    sizes: tuple[int, ...] = (50, 400, 3200)
    neurons: int = 40
    repeats: int = 8

    @property
    def grid(self) -> Mapping[str, Sequence[Any]]:
        """Which mixture, and n."""
        return {"mixture": (0, 1), "samples": self.sizes}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """What is found."""
        return {
            "error": Answer("‖G~ - G‖, root mean square over neurons and samples"),
            "expected": Answer("the same as the spread of samples has it, with G in closed form"),
            "of_bound": Answer("largest ‖G~ - G‖ over √B_x2 n^(-1/3)"),
        }

    def asker(self, streams: Streams) -> Ask:
        """One mixture and size after another, each with draws of its own."""

        def ask(mixture: int, samples: int) -> Mapping[str, float]:
            place = 100_000 * mixture + samples
            source = (MIXTURE, XOR)[mixture].build(streams.at("law", place))
            w = streams.at("neurons", place).normal(self.neurons, source.options.dimension, dtype=DOUBLE)
            b = 3 * streams.at("bias", place).normal(self.neurons, dtype=DOUBLE)
            draws, exact = streams.at("sample", place), mixture_gradient(source, w, b)
            off, expected = [], []
            for _ in range(self.repeats):
                x, y, _ = source.sample(draws, samples, DOUBLE)
                off.append((simplified_gradient(w, b, x, y) - exact).norm(dim=-1))
                active = (w @ x.mT > b[..., None]).to(DOUBLE)
                second = (active * x.square().sum(-1)[:, None]).mean(-1)  # E ‖y x 1‖²
                expected.append((second - exact.square().sum(-1)).mean() / samples)
            apart = torch.stack(off)
            moment = float((source.weights * source.norms.square()).sum()) + (
                source.options.dimension * source.options.spread**2
            )
            return {
                "error": float(apart.square().mean().sqrt()),
                "expected": float(torch.stack(expected).mean().sqrt()),
                "of_bound": float(apart.max()) / theory.concentration_bound(moment, samples),
            }

        return ask


@dataclass(frozen=True)
class TrueNetworks(Questionnaire):
    """Networks that are right on every input: linear data, and parity waves on all cases."""

    on_cpu = True

    @property
    def grid(self) -> Mapping[str, Sequence[Any]]:
        """The linear one, then the waves."""
        return {"network": range(1 + len(WAVES))}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """What is found of each."""
        return {
            "hinge": Answer("hinge loss, the largest over inputs"),
            "norm": Answer("‖a‖"),
            "printed_norm": Answer("B_a2 as printed"),
        }

    def asker(self, streams: Streams) -> Ask:
        """One network after another."""

        def ask(network: int) -> Mapping[str, float]:
            if network == 0:
                source = LINEAR.build(streams.at("law"))
                x, y, _ = source.sample(streams.at("sample"), 2000, DOUBLE)
                right = theory.linear_network(LINEAR.margin)
                z, labels, printed = (x @ source.features.mT)[0].numpy(), y[0].numpy(), 2**0.5 / LINEAR.margin
            else:
                blocks, block = WAVES[network - 1]
                right, printed = theory.parity_wave(blocks, block), theory.printed_wave_norm(blocks, block)
                z, labels = theory.parity_cases(blocks, block)
            hinge = np.maximum(0, 1 - labels * right(z)).max()
            return {"hinge": float(hinge), "norm": right.norm, "printed_norm": printed}

        return ask


@dataclass(frozen=True)
class MixtureNetworks(Questionnaire):
    """The true networks of an XOR mixture and of one with orthogonal means: their hinge loss on samples.

    Attributes:
        samples: fresh ones.
    """

    on_cpu = True
    samples: int = 10000

    @property
    def grid(self) -> Mapping[str, Sequence[Any]]:
        """XOR, then orthogonal means."""
        return {"mixture": (0, 1)}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """What is found of each."""
        return {"hinge": Answer("mean hinge loss")}

    def asker(self, streams: Streams) -> Ask:
        """One mixture after another."""

        def ask(mixture: int) -> Mapping[str, float]:
            data = GaussianMixture(WIDE, (1, 2, 3, 4), (1, -1, 1, -1)) if mixture else GaussianMixture(WIDE)
            source = data.build(streams.at("law", mixture))
            x, y, _ = source.sample(streams.at("sample", mixture), self.samples, DOUBLE)
            right = theory.mixture_network(data.labels, WIDE, TAU, data.spread)
            z = (x @ source.features.mT)[0].numpy()
            return {"hinge": float(np.maximum(0, 1 - y[0].numpy() * right(z)).mean())}

        return ask


def logistic_slope(margin: Tensor) -> Tensor:
    """Slope of the logistic loss over log 2."""
    return -torch.sigmoid(-margin) / float(np.log(2))


def _least_allowed(hidden: Tensor, first: Tensor, pull: float) -> float:
    """The least over rivals a of their loss and ``pull``/2 ‖a - a_1‖², by another method than descent."""

    def right(place: np.ndarray) -> tuple[float, np.ndarray]:
        a = torch.from_numpy(place).to(first).requires_grad_()
        side = margin_loss(hidden @ a, "logistic").mean() + pull / 2 * (a - first).square().sum()
        (slope,) = torch.autograd.grad(side, a)
        return float(side.detach()), slope.cpu().numpy()

    return float(minimize(right, first.cpu().numpy(), jac=True, method="L-BFGS-B", options={"maxiter": 500}).fun)


@dataclass(frozen=True)
class FrozenFirstLayer(Questionnaire):
    """Algorithm 4: one feature step, then gradient descent on the read-out alone, on the same sample; float64.

    Attributes:
        samples: n.
        quarter: a fourth of the neurons.
        horizons: T.
    """

    samples: int = 200
    quarter: int = 20
    horizons: tuple[int, ...] = (10, 100, 1000)

    @property
    def grid(self) -> Mapping[str, Sequence[Any]]:
        """With step size 1/L, then 1/t as the main text has it."""
        return {"printed": (0, 1)}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """What is found."""
        axes = {"horizon": len(self.horizons)}
        return {
            "of_bound": Answer("mean loss over T steps over the least L(a*) + L ‖a - a*‖²/(2T)", axes=axes),
            "curve": Answer("loss after so many steps", axes={"look": 1 + max(self.horizons)}),
        }

    def asker(self, streams: Streams) -> Ask:
        """Both step sizes from the same start."""
        source = XOR.build(streams.at("law"))
        batch = source.sample(streams.at("sample"), self.samples, DOUBLE)
        network = FixedBiasReLU(self.quarter, 6.0).build(source, streams.at("start"), DOUBLE)
        take_feature_step(network, batch.x, batch.y, 1.0, "logistic")
        with torch.no_grad():
            hidden = batch.y[..., None] * network.hidden(batch.x)
        hidden, first = hidden[0], network.readout.detach()[0]
        smooth = float(torch.linalg.matrix_norm(hidden, 2).square()) / self.samples / 4 / float(np.log(2))

        def descend(steps: int, printed: int) -> Tensor:
            a, losses = first.clone(), []
            for step in range(steps + 1):
                margin = hidden @ a
                losses.append(margin_loss(margin, "logistic").mean())
                a -= (1 / (step + 2) if printed else 1 / smooth) * (logistic_slope(margin) @ hidden) / self.samples
            return torch.stack(losses)

        allowed = [_least_allowed(hidden, first, smooth / horizon) for horizon in self.horizons]

        def ask(printed: int) -> Mapping[str, Sequence[float]]:
            losses = descend(max(self.horizons), printed)
            means = [float(losses[1 : horizon + 1].mean()) for horizon in self.horizons]
            ratios = [mean / most for mean, most in zip(means, allowed, strict=True)]
            return {"of_bound": ratios, "curve": losses.tolist()}

        return ask
