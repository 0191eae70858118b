"""Inputs made of patterns that are there or not, labels by the relevant ones (Shi 2024, dissertation, Chapter 2).

x̃ = M φ̃ + ζ with φ̃ ∈ {0, 1}^D and a dictionary M with unit columns; relevant are the first k patterns. Inputs are
centred and over σ̃, the root of their total variance, both as the training set has them. By default M is the identity
and there is no noise ζ: with orthonormal columns what gradient descent does happens in the D coordinates Mᵀw, and
nowhere else. The general setting (Appendix A.8) has columns that are nearly orthogonal only, and normal noise.
"""

from dataclasses import dataclass
from math import comb, inf
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.data.frames import orthonormal_columns
from featscope.options import require, require_word
from featscope.streams import Draws

Labels = Literal["parity", "interval", "hidden"]
VECTORS = 100
"""Vectors of relevant patterns where labels are "hidden", half of them of each class."""


class DictionaryBatch(NamedTuple):
    """Some samples.

    Attributes:
        inputs: x.
        labels: y, 1 or -1.
    """

    inputs: Float[Tensor, "replica sample d"]
    labels: Float[Tensor, "replica sample"]


@dataclass(frozen=True)
class DictionaryData:
    """Options of `DictionarySource`.

    Attributes:
        patterns: D.
        relevant: k.
        labels: "parity": odd counts of relevant patterns are 1; "interval": counts from 2k/3 on; "hidden": the
            relevant patterns are one of `VECTORS` random vectors, the first half of which is 1.
        structured: whether relevant patterns have the law that belongs to the labels (parity: the mixture of A.5;
            interval: independent with probability 2/3); if not, all are fair coins.
        background: p_o of parities.
        negatives: share of the class -1, for parities.
        samples: of the training set.
        test: of the test set.
        dimension: d, of a random dictionary; 0 for inputs in the D coordinates.
        incoherent: whether its columns are random directions; if not, they are a random orthonormal frame.
        noise: σ_ζ, standard deviation of ζ along each coordinate.
    """

    patterns: int = 50
    relevant: int = 5
    labels: Labels = "parity"
    structured: bool = True
    background: float = 0.5
    negatives: float = 0.5
    samples: int = 20_000
    test: int = 2_000
    dimension: int = 0
    incoherent: bool = False
    noise: float = 0.0

    def __post_init__(self) -> None:
        require(self, "relevant", 1 <= self.relevant <= self.patterns, f"1 to patterns = {self.patterns}")
        odd = self.labels != "parity" or self.relevant % 2 == 1
        require(self, "relevant", odd, "an odd number for parities")
        require_word(self, "labels")
        require(self, "background", 0 < self.background <= 0.5, "above 0, 1/2 at most")
        require(self, "negatives", 0 < self.negatives < 1, "between 0 and 1")
        balanced = self.labels == "parity" or self.negatives == 0.5
        require(self, "negatives", balanced, "1/2 for labels that are no parities")
        for name in ("samples", "test"):
            require(self, name, getattr(self, name) >= 2, ">= 2")
        wide = self.dimension == 0 or self.dimension >= self.patterns
        require(self, "dimension", wide, f"0, or patterns = {self.patterns} at least")
        require(self, "incoherent", self.dimension > 0 or not self.incoherent, "false where dimension = 0")
        require(self, "noise", 0 <= self.noise < inf, ">= 0, and finite")

    @property
    def gamma(self) -> float:
        """γ, of the structured problem with these labels (without structure the learner takes the same)."""
        if self.labels != "interval":
            return (1 - self.background) / 2
        k, p = self.relevant, 2 / 3
        chances = [comb(k, c) * p**c * (1 - p) ** (k - c) for c in range(k + 1)]
        positive = sum(chance for c, chance in enumerate(chances) if c >= p * k)
        return 2 * sum(c * chance for c, chance in enumerate(chances) if c >= p * k) / k - 2 * positive * p

    def build(self, draws: Draws) -> "DictionarySource":
        """A source with its training and test set."""
        return DictionarySource(self, draws)


class DictionarySource(nn.Module):
    """Draws samples and keeps a training and a test set, which are drawn again wherever it is built.

    Attributes:
        options: what it was built from.
        dictionary: M, or nothing where inputs are in the D coordinates.
        vectors: relevant patterns of each class where labels are "hidden", else empty.
        mean: of x̃ on the training set.
        scale: σ̃ of the training set.
    """

    dictionary: Float[Tensor, "replica d D"] | None
    vectors: Float[Tensor, "replica vector k"]
    mean: Float[Tensor, "replica 1 D"]
    scale: Float[Tensor, "replica 1 1"]

    def __init__(self, options: DictionaryData, draws: Draws) -> None:
        super().__init__()
        self.options = options
        frame = None
        if options.dimension:
            shape = options.dimension, options.patterns
            if options.incoherent:
                drawn = draws.normal(*shape, dtype=torch.float64)
                frame = drawn / drawn.norm(dim=1, keepdim=True)
            else:
                frame = orthonormal_columns(draws, *shape)
        self.register_buffer("dictionary", None if frame is None else frame.float(), persistent=False)
        hidden = VECTORS if options.labels == "hidden" else 0
        self.register_buffer("vectors", draws.coins(hidden, options.relevant) if hidden else draws.coins(0, 1))
        present, labels = self._patterns(draws, options.samples)
        self.register_buffer("mean", present.mean(1, keepdim=True))
        seen = self._seen(present, draws)
        self.register_buffer("scale", seen.var(1, keepdim=True, correction=0).sum(-1, keepdim=True).sqrt())
        sets = DictionaryBatch(seen / self.scale, labels), self.sample(draws, options.test)
        for name, one in zip(("train", "test"), sets, strict=True):
            for part, values in one._asdict().items():
                self.register_buffer(f"{name}_{part}", values, persistent=False)

    @property
    def train_set(self) -> DictionaryBatch:
        """The training set."""
        return DictionaryBatch(self.get_buffer("train_inputs"), self.get_buffer("train_labels"))

    @property
    def test_set(self) -> DictionaryBatch:
        """The test set."""
        return DictionaryBatch(self.get_buffer("test_inputs"), self.get_buffer("test_labels"))

    def _seen(self, present: Float[Tensor, "replica sample D"], draws: Draws) -> Float[Tensor, "replica sample d"]:
        """x̃ of φ̃, centred."""
        x = present - self.mean
        x = x if self.dictionary is None else x @ self.dictionary.mT
        noise = self.options.noise
        return x + noise * draws.normal(*x.shape[1:]) if noise else x

    def _patterns(self, draws: Draws, count: int) -> tuple[Tensor, Tensor]:
        """φ̃ and y."""
        o = self.options
        present = draws.coins(count, o.patterns)
        if o.labels == "parity":
            labels = torch.where(draws.uniform(count) < o.negatives, -1.0, 1.0)
            return self._parity(present, labels, draws), labels
        if o.labels == "interval":
            if o.structured:
                present[..., : o.relevant] = (draws.uniform(count, o.relevant) < 2 / 3).float()
            return present, torch.where(3 * present[..., : o.relevant].sum(-1) >= 2 * o.relevant, 1.0, -1.0)
        which = (draws.uniform(count) * VECTORS).long().clamp(max=VECTORS - 1)
        labels = torch.where(which < VECTORS // 2, 1.0, -1.0)
        rows = which[..., None].expand(-1, -1, o.relevant)
        if o.structured:
            present[..., : o.relevant] = self.vectors.gather(1, rows)
        return present, labels

    def _parity(self, present: Tensor, labels: Tensor, draws: Draws) -> Tensor:
        """Coins made to have the parities ``labels``, and those of the mixture's other part."""
        o = self.options
        odd = present[..., : o.relevant].sum(-1) % 2
        wrong = odd != (labels > 0)
        last = o.relevant - 1
        present[..., last] = torch.where(wrong, 1 - present[..., last], present[..., last])
        if o.structured:
            agreeing = (draws.uniform(present.shape[1]) >= o.background)[..., None]
            alike = (labels > 0).float()[..., None]
            low = o.background / (2 - 2 * o.background)
            rest = present[..., o.relevant :]
            if low != 0.5:
                rest = torch.where(agreeing, (draws.uniform(*rest.shape[1:]) < low).float(), rest)
            first = torch.where(agreeing, alike, present[..., : o.relevant])
            present = torch.cat([first, rest], -1)
        return present

    def sample(self, draws: Draws, count: int) -> DictionaryBatch:
        """``count`` fresh samples for each replica."""
        present, labels = self._patterns(draws, count)
        return DictionaryBatch(self._seen(present, draws) / self.scale, labels)

    def batch(self, draws: Draws, count: int) -> DictionaryBatch:
        """``count`` samples of the training set, drawn with replacement."""
        inputs, labels = self.train_set
        size = self.options.samples
        at = (draws.uniform(count) * size).long().clamp(max=size - 1)
        return DictionaryBatch(inputs.gather(1, at[..., None].expand(-1, -1, inputs.shape[-1])), labels.gather(1, at))

    @property
    def target(self) -> Float[Tensor, "replica d"]:
        """The direction Σ_A γ_j M_j that labels point to, of length 1; all γ_j alike but where labels are "hidden"."""
        k, d = self.options.relevant, self.options.patterns
        direction = torch.zeros(len(self.mean), d, device=self.mean.device)
        direction[:, :k] = 1.0
        if self.options.labels == "hidden":
            first, second = self.vectors.split(VECTORS // 2, 1)
            direction[:, :k] = first.mean(1) - second.mean(1)
        direction = direction if self.dictionary is None else (self.dictionary @ direction[..., None])[..., 0]
        return direction / direction.norm(dim=-1, keepdim=True)
