"""Questions of `uniform-parity` in which nothing is trained: enumerated gradients, cones, samples; float64."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from featscope.data.uniform_parity import UniformParity
from featscope.streams import Streams
from featscope.studies.uniform_parity.step import equal_inside, sampled_gradient, signs
from featscope.theory import gradient_features as waves
from featscope.theory import uniform_parity as theory
from featscope.training import Answer
from featscope.training.evaluation import Ask, Questionnaire

DOUBLE = torch.float64


def all_inputs(dimension: int) -> np.ndarray:
    """Every x in {±1}^d ``[input, d]``."""
    return 1.0 - 2 * ((np.arange(2**dimension)[:, None] >> np.arange(dimension)) & 1)


def enumerated_gradient(w: np.ndarray, b: np.ndarray, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[y x 1[<w, x> > b]] and E[y ReLU(<w, x> - b)] of every neuron, over all inputs."""
    x = all_inputs(inside.size)
    y = x[:, inside].prod(-1)
    drive = x @ w.T - b
    return (y[:, None] * (drive > 0)).T @ x / len(x), y @ np.maximum(drive, 0) / len(x)


def _worst(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


@dataclass(frozen=True)
class Enumerated(Questionnaire):
    """Gradients of random neurons over all inputs, against closed forms.

    Attributes:
        dimension: d.
        blocks: k.
        neurons: random ones; two more are equal on A.
    """

    on_cpu = True
    dimension: int = 13
    blocks: tuple[int, ...] = (2, 4, 6)
    neurons: int = 20

    @property
    def grid(self) -> Mapping[str, Sequence[Any]]:
        """k."""
        return {"block": self.blocks}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """What is found at each k."""
        return {
            "on_gap": Answer("largest difference of G on A to the closed form, relative"),
            "off_gap": Answer("the same off A"),
            "on_printed": Answer("length of G on A over that of Equation B.548"),
            "off_printed": Answer("length of G off A over that of Equation B.549"),
            "ratio": Answer("|G_j| off A over on A, over (k-1)/(d-k)"),
            "misprint": Answer("ξ_{k-1} as measured over that of Equation B.480"),
            "cosine": Answer("|cos(G, D)| of neurons equal on A over the closed form"),
            "readout": Answer("largest difference of |E[y ReLU(<w, x> - b)]| to |ξ_{k-1}|/2, relative"),
            "readout_size": Answer("|a| after the step times 2k, with η_1 = 1/(k |ξ_{k-1}|)"),
            "hinge": Answer("hinge loss of the wave with sign (-1)^i, largest over inputs"),
            "odd_hinge": Answer("the same with the sign (-1)^(i+1) of odd k"),
            "wave_norm": Answer("norm of the wave's read-out over that of Lemma B.64"),
        }

    def asker(self, streams: Streams) -> Ask:
        """One k after another, each with draws of its own."""

        def ask(block: int) -> Mapping[str, float]:
            d, k = self.dimension, block
            inside = UniformParity(d, k).build(streams.at("law", k)).inside[0].numpy()
            w = signs(streams.at("neurons", k), self.neurons, d)[0].numpy()
            equal = np.where(inside, np.array([[1.0], [-1.0]]), w[:2])
            w = np.concatenate([w, equal])
            b = 1.9 * streams.at("bias", k).uniform(len(w), dtype=DOUBLE)[0].numpy() - 0.95
            found, readout = enumerated_gradient(w, b, inside)
            wanted, printed = theory.first_gradient(w, inside), theory.printed_gradient(w, inside)
            size, coefficient = np.abs(found), theory.majority_coefficient(d, k - 1)
            along = found[-2:, inside].sum(-1) / np.sqrt(k)
            x = all_inputs(d)
            z, y = x[:, inside].sum(-1, keepdims=True) / np.sqrt(k), x[:, inside].prod(-1)
            wave = even_wave(k)
            return {
                "on_gap": _worst(found[:, inside], wanted[:, inside]),
                "off_gap": _worst(found[:, ~inside], wanted[:, ~inside]),
                "on_printed": float(size[:, inside].mean() / np.abs(printed[:, inside]).mean()),
                "off_printed": float(size[:, ~inside].mean() / np.abs(printed[:, ~inside]).mean()),
                "ratio": float(size[:, ~inside].mean() / size[:, inside].mean()) / theory.coefficient_ratio(d, k),
                "misprint": float(2 * size[:, inside].mean()) / abs(theory.misprinted_coefficient(d, k - 1)),
                "cosine": float((np.abs(along) / np.linalg.norm(found[-2:], axis=-1)).mean()) / theory.cosine(d, k),
                "readout": float(np.abs(np.abs(readout) / theory.first_readout(d, k) - 1).max()),
                "readout_size": float(np.abs(readout).mean()) * 2 / abs(coefficient),
                "hinge": float(np.maximum(0, 1 - y * wave(z)).max()),
                "odd_hinge": float(np.maximum(0, 1 - y * waves.parity_wave(1, k)(z)).max()),
                "wave_norm": wave.norm / waves.printed_wave_norm(1, k),
            }

        return ask


def even_wave(block: int) -> waves.TrueNetwork:
    """The wave of Lemma B.64: that of Lemma B.51 with signs (-1)^i, as k is even."""
    odd = waves.parity_wave(1, block)
    return odd._replace(readout=-odd.readout)


@dataclass(frozen=True)
class Cones(Questionnaire):
    """Random neurons with gradients in closed form: which are equal on A, and which lie in cones by the largest entry.

    Attributes:
        dimensions: d, odd.
        blocks: k.
        neurons: random ones.
    """

    on_cpu = True
    dimensions: tuple[int, ...] = (65, 129, 257, 513)
    blocks: tuple[int, ...] = (2, 4)
    neurons: int = 4000

    @property
    def grid(self) -> Mapping[str, Sequence[Any]]:
        """k, then d."""
        return {"block": self.blocks, "dimension": self.dimensions}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """What is found."""
        return {
            "equal": Answer("share of neurons with w equal on A"),
            "inside": Answer("share of neurons in the sup-norm cone of D or -D with γ_∞ = √k/(d-k)"),
            "strays": Answer("share of neurons that are one of both only"),
            "distance": Answer("largest entry of G/‖G‖ ∓ D over √k/(d-k), the largest of neurons equal on A"),
            "length": Answer("‖G‖, mean over neurons"),
        }

    def asker(self, streams: Streams) -> Ask:
        """One k and d after another, each with draws of its own."""

        def ask(block: int, dimension: int) -> Mapping[str, float]:
            place = 10_000 * block + dimension
            inside = UniformParity(dimension, block).build(streams.at("law", place)).inside[0]
            w = signs(streams.at("neurons", place), self.neurons, dimension)[0]
            gradient = torch.from_numpy(theory.first_gradient(w.numpy(), inside.numpy()))
            length = gradient.norm(dim=-1, keepdim=True)
            feature = inside.double() / block**0.5
            distance = torch.stack([(gradient / length - side * feature).abs().amax(-1) for side in (1, -1)]).amin(0)
            distance /= theory.sup_norm_cone(dimension, block)
            equal, within = equal_inside(w, inside), distance <= 1
            return {
                "equal": float(equal.double().mean()),
                "inside": float(within.double().mean()),
                "strays": float((equal != within).double().mean()),
                "distance": float(distance[equal].max()),
                "length": float(length.mean()),
            }

        return ask


@dataclass(frozen=True)
class Angles(Questionnaire):
    """Gradients of samples of neurons that are equal on A: their angle to D over the size of the sample.

    Attributes:
        data: the law.
        sizes: n, ascending.
        neurons: equal on A, random off it.
        repeats: samples of each size.
    """

    data: UniformParity = field(default_factory=UniformParity)
    sizes: tuple[int, ...] = (20000, 60000, 200000, 600000, 2000000)
    neurons: int = 16
    repeats: int = 4

    @property
    def grid(self) -> Mapping[str, Sequence[Any]]:
        """n."""
        return {"samples": self.sizes}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """What is found at each n."""
        return {
            "across": Answer("mean square of G across D over what it must be"),
            "tangent": Answer("mean square of G across D over that along D"),
            "cosine": Answer("|cos(G, D)|, mean over neurons"),
        }

    def asker(self, streams: Streams) -> Ask:
        """Ever larger samples, of draws of their own."""
        source = self.data.build(streams.at("law"))
        inside = source.inside[0]
        w = signs(streams.at("neurons"), self.neurons, inside.numel(), dtype=torch.float32).masked_fill(inside, 1)

        def ask(samples: int) -> Mapping[str, float]:
            draws = streams.at("sample", samples)
            none = 0 * w[..., 0]
            found = [sampled_gradient(source, draws, w, none, samples).weight[0] for _ in range(self.repeats)]
            gradient = torch.stack(found)
            along = gradient[..., inside].sum(-1).square() / inside.sum()
            across = gradient.square().sum(-1) - along
            return {
                "across": float(across.mean()) / theory.across(self.data.dimension, self.data.block, samples),
                "tangent": float(across.mean() / along.mean()),
                "cosine": float((along / (along + across).clamp(min=1e-300)).sqrt().mean()),
            }

        return ask
