"""The floor of a training step: what any program on this machine must pay.

Matrix products at the measured rate of sgemm on all cores, by the faster of the two libraries in torch, plus normals at
the rate at which all cores together draw them, by the faster of torch's generator and ours. Activations, softmax, masks
and updates are free.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import prod
from statistics import median

import torch

from featscope.streams import Streams
from featscope.training import Training


def seconds(compute: Callable[[], object], repeats: int = 7, clock: Callable[[], float] = time.perf_counter) -> float:
    """Median duration of ``compute`` after one warm-up."""
    compute()
    durations = []
    for _ in range(repeats):
        began = clock()
        compute()
        durations.append(clock() - began)
    return median(durations)


@dataclass(frozen=True)
class Rates:
    """What the machine does in a second with all cores.

    Attributes:
        flops: of float32 matrix products (square, 2048), by the faster library.
        normals: float32 normals drawn, by the faster generator.
        products: what each library does: the one that torch takes (MKL on x86), and oneDNN.
        draws: what each generator draws: torch's, and ours.
    """

    flops: float
    normals: float
    products: Mapping[str, float]
    draws: Mapping[str, float]

    @classmethod
    def measure(cls, cores: int, clock: Callable[[], float] = time.perf_counter) -> "Rates":
        """Measure both; every core draws by itself."""
        torch.set_num_threads(cores)
        a = torch.randn(2048, 2048)
        one_dnn = torch.ops.mkldnn._linear_pointwise.default  # torch has no other way to it in float32
        by = {"torch": lambda: a @ a, "oneDNN": lambda: one_dnn(a, a, None, "none", [], "")}
        products = {name: 2 * 2048**3 / seconds(multiply, clock=clock) for name, multiply in by.items()}
        torch.set_num_threads(1)
        blocks, shape = range(8 * cores), (512, 512)
        of_torch = [torch.empty(shape) for _ in blocks]
        ours = [Streams(0, [block]).at("floor") for block in blocks]
        generators = {
            "torch": lambda block: of_torch[block].normal_(generator=torch.Generator()),
            "counter": lambda block: ours[block].normal(*shape),
        }
        with ThreadPoolExecutor(cores) as pool:
            took = {name: seconds(lambda d=d: list(pool.map(d, blocks)), clock=clock) for name, d in generators.items()}
        draws = {name: len(blocks) * prod(shape) / each for name, each in took.items()}
        return cls(max(products.values()), max(draws.values()), products, draws)


@dataclass(frozen=True)
class StepCost:
    """What one step of one replica of the augmented arm must compute.

    Attributes:
        flops: of its matrix products: signals, three forward passes, similarities forward and backward, and
            the gradient of the weights.
        normals: noise coordinates drawn.
    """

    flops: float
    normals: float

    @classmethod
    def of(cls, recipe: Training) -> "StepCost":
        """The cost of a step of ``recipe``, the augmented arm's or one like it."""
        d, d1, m = recipe.data.features, recipe.data.input_dim, recipe.learner.width
        k, n = recipe.objective.anchors, recipe.objective.negatives
        signals = 2 * (k + n) * d * d1
        forward, backward = 2 * (2 * k + n) * d1 * m, 2 * k * d1 * m
        similarities = 2 * 2 * k * n * m
        return cls(signals + forward + backward + similarities, (k + n) * d1)

    def floor(self, rates: Rates) -> float:
        """Seconds."""
        return self.flops / rates.flops + self.normals / rates.normals
