"""Questions of `multi-index`: the closed form, the share of gradients in the span, errors at equal width."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from featscope.data.multi_index import MultiIndex
from featscope.probes.gradient_features import simplified_gradient
from featscope.probes.ridge import ridge_fits
from featscope.streams import Streams
from featscope.theory import multi_index as theory
from featscope.training import Answer
from featscope.training.evaluation import Ask, Questionnaire

DOUBLE = torch.float64
PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""Ridge penalties, relative to the mean square of a feature; the best on a fifth of the samples is taken."""


class Residual(NamedTuple):
    """What is left of labels of a sample.

    Attributes:
        y: g*(x) - ρ - <β, x>.
        constant: ρ.
        slope: β.
    """

    y: Float[Tensor, "1 sample"]
    constant: Float[Tensor, "1"]
    slope: Float[Tensor, "1 input"]


def residual(x: Float[Tensor, "1 sample input"], y: Float[Tensor, "1 sample"]) -> Residual:
    """Labels without ρ = mean of y and β = mean of yx (Algorithm 7)."""
    constant, slope = y.mean(-1), (y[..., None] * x).mean(-2)
    return Residual(y - constant[:, None] - (x @ slope[..., None])[..., 0], constant, slope)


def share_in_span(weight: Float[Tensor, "1 neuron input"], features: Float[Tensor, "1 direction input"]) -> float:
    """Share of ‖W‖² in the span of orthonormal ``features``."""
    return float((weight @ features.mT).square().sum() / weight.square().sum())


def cosines(
    weight: Float[Tensor, "1 neuron input"], features: Float[Tensor, "1 direction input"]
) -> Float[Tensor, "1 direction"]:
    """Cosines of the principal angles between the span and the leading right singular vectors of W."""
    leading = torch.linalg.svd(weight, full_matrices=False).Vh[:, : features.shape[1]]
    return torch.linalg.svdvals(leading @ features.mT)


def smallest_cosine(weight: Float[Tensor, "1 neuron input"], features: Float[Tensor, "1 direction input"]) -> float:
    """That of the largest of these angles."""
    return float(cosines(weight, features).min())


@dataclass(frozen=True)
class ClosedForm(Questionnaire):
    """First gradients of samples of quadratic polynomials against the closed form; float64.

    Attributes:
        data: the law.
        sizes: n.
        neurons: random ones.
        repeats: samples of each size.
    """

    data: MultiIndex = field(default_factory=lambda: MultiIndex(12, 3))
    sizes: tuple[int, ...] = (400, 4000, 20000)
    neurons: int = 30
    repeats: int = 6

    @property
    def grid(self) -> Mapping[str, Sequence[Any]]:
        """n."""
        return {"samples": self.sizes}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """What is found at each n."""
        return {"error": Answer("‖G~ - G‖, root mean square over neurons and samples, over what it must be")}

    def asker(self, streams: Streams) -> Ask:
        """One size after another, with the same neurons."""
        source = self.data.build(streams.at("law"))
        w = streams.at("neurons").normal(self.neurons, self.data.dimension, dtype=DOUBLE)
        exact = torch.from_numpy(theory.first_gradient(_array(w), _array(source.hessian))).to(w)

        def ask(samples: int) -> Mapping[str, float]:
            draws, off, expected = streams.at("sample", samples), [], []
            for _ in range(self.repeats):
                x, y = source.sample(draws, samples, DOUBLE)
                off.append((simplified_gradient(w, 0 * w[..., 0], x, y) - exact).square().sum(-1).mean())
                active = (w @ x.mT > 0).to(DOUBLE)
                second = (active * (y.square() * x.square().sum(-1))[:, None]).mean(-1)  # E ‖y x 1‖²
                expected.append((second - exact.square().sum(-1)).mean() / samples)
            return {"error": float((torch.stack(off).mean() / torch.stack(expected).mean()).sqrt())}

        return ask


@dataclass(frozen=True)
class Shares(Questionnaire):
    """First gradients of samples of many sizes and dimensions: how much of them is in the span.

    Attributes:
        data: the law; its dimension is not looked at.
        dimensions: d.
        ratios: n/d², ascending.
        repeats: laws and samples of each size.
        neurons: random ones, m.
    """

    data: MultiIndex = field(default_factory=MultiIndex)
    dimensions: tuple[int, ...] = (32, 64, 96)
    ratios: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
    repeats: int = 4
    neurons: int = 50

    @property
    def grid(self) -> Mapping[str, Sequence[Any]]:
        """d, then n/d²."""
        return {"dimension": self.dimensions, "ratio": self.ratios}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """What is found."""
        return {
            "share": Answer("share of ‖W‖² in the span after the first step"),
            "across": Answer("mean square of G outside of the span over what it must be"),
            "cosine": Answer("cosine of the largest principal angle of leading singular vectors and the span"),
            "square": Answer("mean squared cosine of all principal angles of the two"),
        }

    def asker(self, streams: Streams) -> Ask:
        """One d and n after another, each with draws of its own."""

        def ask(dimension: int, ratio: float) -> Mapping[str, float]:
            samples = round(ratio * dimension**2)
            places = [(10_000_000 * dimension + samples) * self.repeats + repeat for repeat in range(self.repeats)]
            found = [one(dimension, samples, place) for place in places]
            return {name: sum(each[name] for each in found) / len(found) for name in self.answers}

        def one(dimension: int, samples: int, place: int) -> Mapping[str, float]:
            options = {name: getattr(self.data, name) for name in ("constant", "linear", "quadratic", "cubic")}
            source = MultiIndex(dimension, self.data.directions, **options).build(streams.at("law", place))
            w = streams.at("neurons", place).normal(self.neurons, dimension)
            x, y = source.sample(streams.at("sample", place), samples)
            weight = simplified_gradient(w, 0 * w[..., 0], x, residual(x, y).y).double()
            inside, outside = (weight @ source.features.mT).square().sum(-1), weight.square().sum(-1)
            variance, r = self.data.quadratic + self.data.cubic, self.data.directions
            must = theory.across(_array(w.double()), _array(source.hessian), r, samples, variance)
            return {
                "share": share_in_span(weight, source.features),
                "across": float((outside - inside).mean() / must.mean()),
                "cosine": smallest_cosine(weight, source.features),
                "square": float(cosines(weight, source.features).square().mean()),
            }

        return ask


@dataclass(frozen=True)
class Errors(Questionnaire):
    """Errors of a read-out by ridge regression, on neurons after the first step and on random ones, of equal width.

    Attributes:
        data: the law.
        samples: n, of the step and of the read-out alike.
        widths: m.
        tested: fresh samples.
    """

    data: MultiIndex = field(default_factory=MultiIndex)
    samples: int = 10000
    widths: tuple[int, ...] = (50, 200, 500)
    tested: int = 20000

    @property
    def grid(self) -> Mapping[str, Sequence[Any]]:
        """m."""
        return {"width": self.widths}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """Mean squared errors against g*, whose mean square is 1, and what they are errors of."""
        return {
            "network": Answer("error after the first step, constant and linear part added back"),
            "printed": Answer("the same, not added back"),
            "random": Answer("error of as many random features, constant and linear part added back"),
            "linear": Answer("error of the constant and linear part alone"),
            "share": Answer("share of ‖W‖² in the span after the first step"),
            "along": Answer("‖W‖² in the span after the first step, mean over neurons"),
            "along_exact": Answer("the same in closed form, 4d times that of G"),
            "drive": Answer("mean square of <w, x> of random features"),
            "test_repeats": Answer("correlation of the first test inputs with those of the sample"),
        }

    def asker(self, streams: Streams) -> Ask:
        """One width after another, on the same samples."""
        source = self.data.build(streams.at("law"))
        x, y = source.sample(streams.at("sample"), self.samples)
        fresh, wanted = source.sample(streams.at("test"), self.tested)
        left = residual(x, y)
        back = left.constant[:, None] + (fresh @ left.slope[..., None])[..., 0]
        both = min(self.samples, self.tested)
        repeats = torch.nn.functional.cosine_similarity(x[:, :both].flatten(), fresh[:, :both].flatten(), dim=0)

        def ask(width: int) -> Mapping[str, float]:
            w = streams.at("neurons", width).normal(width, self.data.dimension) / sqrt(self.data.dimension)
            b, sides = streams.at("bias", width).normal(width), 2 * streams.at("sides", width).coins(width) - 1
            gradient = simplified_gradient(w, 0 * b, x, left.y)
            # 2 η_1 a G with η_1 = √d: the printed step but for its logarithms
            learned = 2 * sqrt(self.data.dimension) * sides[..., None] * gradient
            weights = {"network": learned, "random": w}
            answers = {name: ridge(each, b, x, left.y, fresh) for name, each in weights.items()}
            exact = theory.first_gradient(_array(w.double()), _array(source.hessian)) @ _array(source.features.mT)

            def error(answer: Tensor) -> float:
                return float((answer - wanted).square().mean())

            return {
                "network": error(answers["network"] + back),
                "printed": error(answers["network"]),
                "random": error(answers["random"] + back),
                "linear": error(back),
                "share": share_in_span(learned.double(), source.features),
                "along": float((learned.double() @ source.features.mT).square().sum(-1).mean()),
                "along_exact": 4 * self.data.dimension * float((exact**2).sum(-1).mean()),
                "drive": float((fresh @ weights["random"].mT).square().mean()),
                "test_repeats": float(repeats),
            }

        return ask


def ridge(w: Tensor, b: Tensor, x: Tensor, y: Tensor, fresh: Tensor) -> Float[Tensor, "1 fresh"]:
    """Answers at ``fresh`` of the read-out of neurons (w, b) that ridge regression fits to (x, y)."""
    hidden, judged = (torch.baddbmm(-b[:, None], each, w.mT).relu().double() for each in (x, fresh))
    y, fitted = y.double(), hidden.shape[1] * 4 // 5
    found = ridge_fits(hidden[:, :fitted], y[:, :fitted], PENALTIES)[..., None]
    held = torch.stack([((hidden[:, fitted:] @ a)[..., 0] - y[:, fitted:]).square().mean() for a in found])
    return (judged @ found[int(held.argmin())])[..., 0]


def _array(values: Tensor) -> np.ndarray:
    return values.numpy(force=True)
