"""Sparse coding: a few hidden signals, mixed by a dictionary, under dense Gaussian noise.

    x = M z + xi,   z_j in {-1, 0, 1} i.i.d. with Pr(|z_j| = 1) = p,   xi ~ N(0, s² I)

The columns of M are the true features. Wen & Li 2021 (arXiv 2105.15134), Definition 2.1.
"""

from dataclasses import dataclass
from math import log, sqrt
from typing import ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float
from scipy.linalg import hadamard
from torch import Tensor, nn

from featscope.data.frames import orthonormal_columns
from featscope.kernels import multiply
from featscope.numbers import Number, per_replica
from featscope.options import require, require_word
from featscope.streams import Draws


class SparseSample(NamedTuple):
    """A batch of sparse-coding data that keeps the parts it was made of.

    Attributes:
        x: the inputs.
        codes: the hidden signals z, each -1, 0 or 1.
        dictionary: the features M, in columns.
    """

    x: Float[Tensor, "replica batch input"]
    codes: Float[Tensor, "replica batch feature"]
    dictionary: Float[Tensor, "replica input feature"]

    @property
    def signal(self) -> Float[Tensor, "replica batch input"]:
        """The signal part M z."""
        return self.codes @ self.dictionary.mT

    @property
    def noise(self) -> Float[Tensor, "replica batch input"]:
        """The noise part xi (x minus the signal, so with the rounding of x)."""
        return self.x - self.signal


@dataclass(frozen=True)
class SparseCoding:
    """Sparse coding data with random dictionaries, one for each replica (Definition 2.1).

    Attributes:
        features: number of true features, d.
        input_dim: dimension of the input, d1; a power of two for the Hadamard dictionary.
        dictionary: "hadamard": random columns of the normalised Hadamard matrix, every entry ±1/√d1, for which
            the closed forms are exact; "qr": a random orthonormal frame; "canonical": M_j = e_j, which breaks
            the assumption that features are spread over coordinates.
        sparsity: the constant C_z in p = C_z log log d / d.
        noise: the constant in s² = noise · √(log d) / d; 0 for noiseless data.
    """

    floats_per_replica: ClassVar[bool] = True

    features: int = 32
    input_dim: int = 512
    dictionary: Literal["hadamard", "qr", "canonical"] = "hadamard"
    sparsity: float = 2.0
    noise: float = 1.0

    def __post_init__(self) -> None:
        require(self, "features", self.features >= 3, ">= 3", "log log d must be positive.")
        require(self, "input_dim", self.input_dim >= self.features, f">= features = {self.features}")
        require_word(self, "dictionary")
        if self.dictionary == "hadamard":
            power_of_two = self.input_dim & (self.input_dim - 1) == 0
            require(self, "input_dim", power_of_two, "a power of two", "Or take dictionary 'qr'.")
        require(self, "sparsity", self.sparsity > 0 and bool(self.activity <= 1), "> 0 with C_z log log d / d <= 1")
        require(self, "noise", self.noise >= 0, ">= 0")

    @property
    def activity(self) -> Number:
        """p = Pr(|z_j| = 1)."""
        return self.sparsity * log(log(self.features)) / self.features

    @property
    def noise_variance(self) -> Number:
        """s², the variance of each noise coordinate."""
        return self.noise * sqrt(log(self.features)) / self.features

    def build(self, draws: Draws) -> "SparseCodingSource":
        """A source with one dictionary a replica, taken from ``draws``."""
        if self.dictionary == "hadamard":
            basis = torch.as_tensor(hadamard(self.input_dim), dtype=torch.float32, device=draws.device)
            columns = draws.choice(self.input_dim, self.features)
            dictionary = basis.mT[columns].mT / sqrt(self.input_dim)
        elif self.dictionary == "qr":
            dictionary = orthonormal_columns(draws, self.input_dim, self.features).float()
        else:
            eye = torch.eye(self.input_dim, self.features, device=draws.device)
            dictionary = eye.expand(draws.replicas, -1, -1)
        return SparseCodingSource(self, dictionary.contiguous())


class SparseCodingSource(nn.Module):
    """Samples sparse-coding data; holds the dictionaries, the truth that probes compare with."""

    dictionary: Float[Tensor, "replica input feature"]

    def __init__(self, config: SparseCoding, dictionary: Float[Tensor, "replica input feature"]) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("dictionary", dictionary)

    def sample(self, draws: Draws, count: int, dtype: torch.dtype = torch.float32) -> SparseSample:
        """``count`` fresh samples for each replica."""
        dictionary = self.dictionary.to(dtype)
        activity = per_replica(self.config.activity, dictionary)
        codes = draws.signs(count, self.config.features, chance=activity, dtype=dtype)
        noise = draws.normal(count, self.config.input_dim, dtype=dtype)
        std = self.config.noise_variance**0.5
        if isinstance(std, Tensor):
            noise, std = noise.mul_(per_replica(std, noise)), 1.0
        x = multiply(codes, dictionary.mT, noise, std)
        return SparseSample(x, codes, dictionary)
