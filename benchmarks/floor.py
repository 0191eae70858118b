"""The floor of a training step: what any program on this machine must pay.

Matrix products at the measured rate of sgemm on all cores, by the faster of the two libraries in torch, plus normals at
the rate at which all cores together draw them. Activations, softmax, masks and updates are free.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median

import torch

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
        normals: float32 normals drawn.
        products: what each library does: the one that torch takes (MKL on x86), and oneDNN.
    """

    flops: float
    normals: float
    products: Mapping[str, float]

    @classmethod
    def measure(cls, cores: int, clock: Callable[[], float] = time.perf_counter) -> "Rates":
        """Measure both; every core draws from a generator of its own."""
        torch.set_num_threads(cores)
        a = torch.randn(2048, 2048)
        one_dnn = torch.ops.mkldnn._linear_pointwise.default  # torch has no other way to it in float32
        by = {"torch": lambda: a @ a, "oneDNN": lambda: one_dnn(a, a, None, "none", [], "")}
        products = {name: 2 * 2048**3 / seconds(multiply, clock=clock) for name, multiply in by.items()}
        torch.set_num_threads(1)
        buffers = [torch.empty(512, 512) for _ in range(8 * cores)]

        def draw(buffer: torch.Tensor) -> None:
            buffer.normal_(generator=torch.Generator())

        with ThreadPoolExecutor(cores) as pool:
            normals = seconds(lambda: list(pool.map(draw, buffers)), clock=clock)
        return cls(max(products.values()), len(buffers) * 512 * 512 / normals, products)


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
