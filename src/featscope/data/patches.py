"""Patches of which a few show a strong or a weak feature and the others noise (Wen & Li 2022, Definition 3.1)."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.data.frames import orthonormal_columns
from featscope.data.projected_noise import Seen, Slope, projected_noise
from featscope.kernels import multiply
from featscope.options import ConfigError, require
from featscope.streams import Draws


@dataclass(frozen=True)
class PatchFeatures:
    """Samples with one of two orthonormal features in some patches and Gaussian noise, off the features, in the rest.

    All feature patches of a sample are ± α_l v_l with one sign, without noise.

    Attributes:
        input_dim: dimension of a patch, d.
        patches: patches in a sample, P; even, as views are halves.
        feature_patches: patches that show the feature, P0.
        strong: α_1, size of the strong feature v_1.
        weak: α_2, size of the weak feature v_2.
        strong_share: probability that a sample has v_1 rather than v_2 (Remark 3.2 (1)).
        both: every sample has both features, each with its sign and its P0 patches (Remark 3.2 (2)).
        noise_std: s, standard deviation of each noise coordinate; the paper's σ is 15^(1/6) s.
    """

    input_dim: int = 100
    patches: int = 20
    feature_patches: int = 4
    strong: float = 4.0
    weak: float = 2.0
    strong_share: float = 0.5
    both: bool = False
    noise_std: float = 1.0

    def __post_init__(self) -> None:
        require(self, "input_dim", self.input_dim >= 4, ">= 4", "Two neurons and two features must fit.")
        require(self, "patches", self.patches >= 4 and self.patches % 2 == 0, "even, >= 4")
        most = (self.patches - 2) // (2 if self.both else 1)
        require(self, "feature_patches", 1 <= self.feature_patches <= most, f"between 1 and {most}")
        require(self, "strong", self.strong > 0, "> 0")
        require(self, "weak", self.weak > 0, "> 0")
        require(self, "strong_share", 0 < self.strong_share < 1, "between 0 and 1, both excluded")
        require(self, "noise_std", self.noise_std > 0, "> 0", "Without noise the outputs have no variance at first.")

    @property
    def noise_patches(self) -> int:
        """Patches that show noise."""
        return self.patches - self.feature_patches * (2 if self.both else 1)

    def build(self, draws: Draws) -> "PatchSource":
        """A source with a random frame of features for each replica."""
        frame = orthonormal_columns(draws, self.input_dim, 2).float()
        amplitude = torch.tensor([self.strong, self.weak], device=draws.device).repeat(draws.replicas, 1)
        one = torch.ones(draws.replicas, device=draws.device)
        shape = (self.patches, self.feature_patches, self.both)
        return PatchSource(frame.contiguous(), amplitude, one * self.strong_share, one * self.noise_std, *shape)


class PatchSource(nn.Module):
    """Samples patches; holds the features, the truth that probes compare with.

    Args:
        dictionary: v_1 and v_2, in columns.
        amplitude: α_1 and α_2.
        strong_share: probability of v_1.
        noise_std: s.
        patches: P.
        feature_patches: P0.
        both: whether every sample has both features.
    """

    dictionary: Float[Tensor, "replica input 2"]
    amplitude: Float[Tensor, "replica 2"]
    strong_share: Float[Tensor, " replica"]
    noise_std: Float[Tensor, " replica"]

    def __init__(
        self,
        dictionary: Float[Tensor, "replica input 2"],
        amplitude: Float[Tensor, "replica 2"],
        strong_share: Float[Tensor, " replica"],
        noise_std: Float[Tensor, " replica"],
        patches: int,
        feature_patches: int,
        both: bool,
    ) -> None:
        super().__init__()
        self.patches, self.feature_patches, self.both = patches, feature_patches, both
        self.register_buffer("dictionary", dictionary)
        self.register_buffer("amplitude", amplitude)
        self.register_buffer("strong_share", strong_share)
        self.register_buffer("noise_std", noise_std)

    def codes(
        self, draws: Draws, count: int, dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "replica batch shown 2"]:
        """Coefficients in the patches that show a feature: the first ones, as views take patches at random."""
        sign = 2 * draws.coins(count, 2, dtype=dtype) - 1
        if self.both:
            shows = torch.eye(2, dtype=dtype, device=sign.device).expand(*sign.shape[:2], 2, 2)
        else:
            strong = (draws.uniform(count, dtype=dtype) < self.strong_share[:, None]).to(dtype)
            shows = torch.stack([strong, 1 - strong], -1).unsqueeze(-2)
        each = shows * (sign * self.amplitude.to(dtype)[:, None]).unsqueeze(-2)
        return each.repeat_interleave(self.feature_patches, -2)

    def sample(
        self, draws: Draws, count: int, dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "replica batch patch input"]:
        """``count`` fresh samples for each replica."""
        codes, features = self.codes(draws, count, dtype), self.dictionary.to(dtype)
        noise = draws.normal(count, self.patches - codes.shape[-2], features.shape[1], dtype=dtype)
        noise *= self.noise_std.to(dtype)[:, None, None, None]
        noise -= (noise @ features[:, None]) @ features[:, None].mT
        return torch.cat([codes @ features[:, None].mT, noise], -2)

    def projected(self, draws: Draws, count: int) -> "ProjectedPatches":
        """As many samples, of which only projections are ever made; the same in law."""
        return ProjectedPatches(self, draws, count)


class ProjectedPatches:
    """Samples whose noise exists only as far as one network looks at it, once; see `featscope.data.projected_noise`.

    Args:
        source: what is sampled.
        draws: random numbers; gradients take more from them.
        count: samples.
    """

    def __init__(self, source: PatchSource, draws: Draws, count: int) -> None:
        self._source, self._draws, self._count = source, draws, count
        self._codes = source.codes(draws, count)
        self._looked = False

    def project(self, weight: Float[Tensor, "replica neuron input"]) -> Float[Tensor, "replica batch patch neuron"]:
        """All patches times ``weight`` transposed.

        Raises:
            ConfigError: the samples were projected before.
        """
        self._look_once()
        features = self._source.dictionary
        overlaps = weight @ features
        signal = overlaps @ self._codes.flatten(1, 2).mT
        off_features = weight - overlaps @ features.mT
        noise = projected_noise(off_features, self._source.noise_std[:, None, None], self._noisy, self._draws)
        return self._by_neuron(signal, noise.mT).permute(0, 2, 3, 1)

    def project_without_autograd(
        self, weight: Float[Tensor, "replica neuron input"]
    ) -> tuple[Float[Tensor, "replica neuron batch patch"], Slope]:
        """The same in another order, and what makes a gradient by ``weight`` of one by it.

        Raises:
            ConfigError: the samples were projected before.
        """
        self._look_once()
        features, codes = self._source.dictionary, self._codes.flatten(1, 2)
        overlaps = multiply(weight, features)
        off_features = multiply(-overlaps, features.mT, weight.clone())
        seen = Seen.by(off_features, self._source.noise_std[:, None, None], self._noisy, self._draws)

        def slope(pull: Float[Tensor, "replica neuron batch patch"]) -> Float[Tensor, "replica neuron input"]:
            shown = self._codes.shape[-2]
            of_noise = seen.slope(pull[..., shown:].flatten(2).mT, self._draws)
            of_overlaps = multiply(pull[..., :shown].flatten(2), codes)
            return multiply(multiply(-of_noise, features, of_overlaps), features.mT, of_noise)

        return self._by_neuron(multiply(overlaps, codes.mT), seen.projections()), slope

    @property
    def _noisy(self) -> int:
        """Patches of all samples that show noise."""
        return self._count * (self._source.patches - self._codes.shape[-2])

    def _by_neuron(
        self, signal: Float[Tensor, "replica neuron shown"], noise: Float[Tensor, "replica neuron noisy"]
    ) -> Float[Tensor, "replica neuron batch patch"]:
        """A neuron's patches side by side in memory, which is what sums over patches want."""
        return torch.cat([part.unflatten(-1, (self._count, -1)) for part in (signal, noise)], -1)

    def _look_once(self) -> None:
        if self._looked:
            raise ConfigError(
                "objective.noise = 'projected' is out of range: allowed is 'dense' where a batch is seen twice"
            )
        self._looked = True
