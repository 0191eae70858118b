"""`python -m benchmarks.neural_tangents`: are our tangent features those of neural-tangents, on the same weights?

Its last release (0.6.5) does not load with today's JAX, so it wants an environment of its own:

    pip install . "neural-tangents==0.6.5" "jax==0.4.30" "jaxlib==0.4.30" "tf2jax<0.3.7"

Compared are kernels, which are products of features: the empirical one to rounding, and its mean over networks with the
closed form of infinite width, which it tends to.
"""

from itertools import pairwise

import jax
import numpy as np
import torch
from torch import nn

import neural_tangents as nt
from featscope.baselines import TangentFeatures
from neural_tangents import stax

SAMPLES, INPUT, DRAWS = 20, 10, 16
WIDTHS = (32, 128, 512)


class Network(nn.Module):
    """Two hidden layers of ``width`` ReLUs; weights are standard normal, each layer over the root of its inputs."""

    def __init__(self, width: int, draw: torch.Generator):
        super().__init__()
        sizes = [INPUT, width, width, 1]
        self.weights = nn.ParameterList(
            torch.randn(a, b, generator=draw, dtype=torch.float64) for a, b in pairwise(sizes)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer, weight in enumerate(self.weights):
            x = (x.relu() if layer else x) @ weight / weight.shape[0] ** 0.5
        return x


def main() -> None:
    """Print how far kernels are apart."""
    jax.config.update("jax_enable_x64", True)
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(SAMPLES, INPUT, generator=draw, dtype=torch.float64).numpy()
    print(f"neural-tangents {nt.__version__}, {SAMPLES} inputs of {INPUT} numbers, {DRAWS} networks of a width")
    for width in WIDTHS:
        layers = [stax.Dense(width, b_std=None), stax.Relu(), stax.Dense(width, b_std=None), stax.Relu()]
        _, apply, infinite = stax.serial(*layers, stax.Dense(1, b_std=None))
        empirical = nt.empirical_ntk_fn(apply, trace_axes=(-1,))
        apart, kernels = 0.0, []
        for _ in range(DRAWS):
            network = Network(width, draw)
            features = TangentFeatures(network).fit_transform(x)
            ours = features @ features.T
            weights = [weight.detach().numpy() for weight in network.weights]
            first, second, last = ((weight, None) for weight in weights)
            theirs = np.asarray(empirical(x, None, [first, (), second, (), last]))
            apart = max(apart, float(np.abs(ours - theirs).max() / np.abs(theirs).max()))
            kernels.append(ours)
        limit = np.asarray(infinite(x, x, "ntk"))
        off = float(np.linalg.norm(np.mean(kernels, axis=0) - limit) / np.linalg.norm(limit))
        each = float(np.mean([np.linalg.norm(one - limit) for one in kernels]) / np.linalg.norm(limit))
        print(f"width {width}: same weights, largest difference {apart:.1e} of the kernel's largest entry;")
        print(f"  from infinite width, a network's {each:.3f} of its norm, the mean over networks {off:.3f}")


if __name__ == "__main__":
    main()
