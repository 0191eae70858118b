"""Pairs of token sequences that share sparse features, some of which are rare.

    X = [M z^(l) + ξ^(l)],  Y = [M z⁺^(l) + ξ⁺^(l)],  l = 1..L,   ξ ~ N(0, σ² I) in every token of X and of Y

Feature j is active in a pair with probability p_j = p0 ε_j: ε_j = 1 for majority features, ε_j = ε_min for
minority ones, or one of its own for each. An active feature has one sign throughout the pair. "P": the pruning
paper, Section 3.1 and Definition 3.1; "V": its earlier version, Appendix B.
"""

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featscope.data.frames import orthonormal_columns
from featscope.data.projected_noise import ProjectedInputs
from featscope.numbers import per_replica
from featscope.options import ConfigError, require
from featscope.streams import Draws


class TokenPairs(NamedTuple):
    """A batch of positive pairs.

    Attributes:
        x: first members; their mean tokens if the source gives means.
        y: second members, likewise.
        codes_x: mean over tokens of the hidden signals of x, between -1 and 1.
        codes_y: that of y.
    """

    x: Float[Tensor, "replica batch *token input"]
    y: Float[Tensor, "replica batch *token input"]
    codes_x: Float[Tensor, "replica batch feature"]
    codes_y: Float[Tensor, "replica batch feature"]

    def double(self) -> "TokenPairs":
        """The same in float64."""
        return TokenPairs(*(part.double() for part in self))


class UnmixedPairs(NamedTuple):
    """Mean tokens of positive pairs, first members and then second ones, before they are made: M c + σ n.

    Attributes:
        codes: c.
        std: σ.
        noise: n, standard normals, which replicas may share.
        places: which of them a replica has.
    """

    codes: Float[Tensor, "replica sample feature"]
    std: Float[Tensor, "replica"]
    noise: Float[Tensor, "number sample input"]
    places: Int[Tensor, " replica"]


@dataclass(frozen=True)
class SparseTokens:
    """Sequences of tokens with random orthonormal features, one frame for each replica (P, Assumptions 3.1-3.4).

    Attributes:
        features: number of true features, d. The last ``minority`` of them are the minority.
        input_dim: dimension of a token, d1.
        minority: number of minority features.
        eps_min: ε_min, frequency of a minority feature relative to a majority one.
        activity: p0, the probability that a majority feature is active in a pair.
        tokens: tokens in a sequence, L.
        token_activity: q, the probability that a token shows an active feature; at least one token does, and
            the tokens of X and of Y are chosen apart. At 1 every token shows it.
        noise_std: σ, standard deviation of each noise coordinate of a token.
        frequencies: ε_j of each feature, where there are more than two; 1 and ε_min if empty.
    """

    features: int = 20
    input_dim: int = 500
    minority: int = 1
    eps_min: float = 0.3
    activity: float = 0.1
    tokens: int = 4
    token_activity: float = 1.0
    noise_std: float = 0.03
    frequencies: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        require(self, "features", self.features >= 3, ">= 3", "log log d must be positive.")
        require(self, "input_dim", self.input_dim >= self.features, f">= features = {self.features}")
        require(self, "minority", 0 <= self.minority <= self.features, f"between 0 and features = {self.features}")
        require(self, "eps_min", 0 <= self.eps_min <= 1, "between 0 and 1")
        require(self, "activity", 0 < self.activity <= 1, "> 0 and <= 1")
        require(self, "tokens", self.tokens >= 1, ">= 1")
        require(self, "token_activity", 0 < self.token_activity <= 1, "> 0 and <= 1")
        require(self, "noise_std", self.noise_std >= 0, ">= 0")
        each = len(self.frequencies) in (0, self.features) and all(0 <= eps <= 1 for eps in self.frequencies)
        allowed = f"{self.features} numbers between 0 and 1, one a feature, or none"
        require(self, "frequencies", each, allowed)

    def build(self, draws: Draws) -> "SparseTokensSource":
        """A source with one orthonormal frame a replica, taken from ``draws``."""
        frame = orthonormal_columns(draws, self.input_dim, self.features).float()
        frequency = torch.ones(self.features, device=draws.device)
        frequency[self.features - self.minority :] = self.eps_min
        if self.frequencies:
            frequency = frequency.new_tensor(self.frequencies)
        activity = (self.activity * frequency).repeat(draws.replicas, 1)
        std = torch.full((draws.replicas,), self.noise_std, device=draws.device)
        shape = (self.tokens, self.token_activity, self.minority)
        return SparseTokensSource(frame.contiguous(), activity, std, *shape)


class SparseTokensSource(nn.Module):
    """Samples pairs; holds the dictionaries and frequencies, the truth that probes compare with.

    Args:
        dictionary: the features, in orthonormal columns.
        activity: p_j.
        noise_std: σ of a token.
        tokens: L.
        token_activity: q.
        minority: number of minority features, the last ones.

    Attributes:
        means: whether pairs hold mean tokens instead of tokens, which is the same in law to a learner that looks at
            nothing else, and L times cheaper. Such a learner says so when it is built.
    """

    floats_per_replica = True

    dictionary: Float[Tensor, "replica input feature"]
    activity: Float[Tensor, "replica feature"]
    noise_std: Float[Tensor, "replica"]

    def __init__(
        self,
        dictionary: Float[Tensor, "replica input feature"],
        activity: Float[Tensor, "replica feature"],
        noise_std: Float[Tensor, "replica"],
        tokens: int,
        token_activity: float,
        minority: int,
    ) -> None:
        super().__init__()
        self.tokens, self.token_activity, self.minority, self.means = tokens, token_activity, minority, False
        self._every_token = token_activity == 1
        self.register_buffer("dictionary", dictionary)
        self.register_buffer("activity", activity)
        self.register_buffer("noise_std", noise_std)

    def balanced(self) -> "SparseTokensSource":
        """The same features, all as frequent as the most frequent one."""
        activity = self.activity.amax(-1, keepdim=True).expand_as(self.activity)
        shape = (self.tokens, self.token_activity, self.minority)
        source = SparseTokensSource(self.dictionary, activity, self.noise_std, *shape)
        source.means = self.means
        return source

    def pairs(self, draws: Draws, count: int, dtype: torch.dtype = torch.float32) -> TokenPairs:
        """``count`` fresh positive pairs for each replica."""
        shown_x, shown_y = self._signals(draws, count, dtype)
        codes_x, codes_y = shown_x.mean(-2), shown_y.mean(-2)
        if self.means:
            codes, noise = (
                torch.cat([codes_x, codes_y], 1),
                draws.normal(2 * count, self.dictionary.shape[1], dtype=dtype),
            )
        else:
            each = [shown.expand(-1, -1, self.tokens, -1) for shown in (shown_x, shown_y)]
            codes = torch.cat(each, 1).flatten(1, 2)
            noise = draws.normal(2 * count * self.tokens, self.dictionary.shape[1], dtype=dtype)
        inputs = noise.mul_(self._std.to(dtype)[:, None, None]).baddbmm_(codes, self.dictionary.to(dtype).mT)
        if not self.means:
            inputs = inputs.unflatten(1, (2 * count, self.tokens))
        return TokenPairs(inputs[:, :count], inputs[:, count:], codes_x, codes_y)

    def projected_pairs(self, draws: Draws, count: int) -> ProjectedInputs:
        """Mean tokens of ``count`` fresh positive pairs, first members and then second ones, for one projection.

        Raises:
            ConfigError: the source does not give mean tokens.
        """
        if not self.means:
            raise ConfigError(
                "objective.noise = 'projected' is out of range: allowed is 'dense' but under uniform attention"
            )
        return ProjectedInputs(self._codes(draws, count), self.dictionary, self._std, draws)

    def pairs_unmixed(self, draws: Draws, count: int) -> UnmixedPairs:
        """What the mean tokens of ``count`` fresh positive pairs are made of, the same numbers as in `pairs`.

        Raises:
            ConfigError: the source does not give mean tokens.
        """
        if not self.means:
            raise ConfigError("means = False is out of range: allowed is a source of mean tokens")
        codes = self._codes(draws, count)
        return UnmixedPairs(codes, self._std, *draws.normal_once(2 * count, self.dictionary.shape[1]))

    @property
    def _std(self) -> Float[Tensor, "replica"]:
        """σ of what pairs hold: of a token, or of the mean of L tokens."""
        return self.noise_std / sqrt(self.tokens) if self.means else self.noise_std

    def _codes(self, draws: Draws, count: int) -> Float[Tensor, "replica sample feature"]:
        """Mean hidden signals of first members, then of second ones."""
        return torch.cat([shown.mean(-2) for shown in self._signals(draws, count, self.activity.dtype)], 1)

    def _signals(self, draws: Draws, count: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The hidden signals of both members, as `_shown`."""
        chance = self.activity.to(dtype)[:, None]
        active = draws.signs(count, self.activity.shape[-1], chance=chance, dtype=dtype)
        return self._shown(draws, active), self._shown(draws, active)

    def _shown(self, draws: Draws, active: Float[Tensor, "replica batch feature"]) -> Tensor:
        """Which tokens show the active features: ``[replica, batch, token, feature]``, or one token for all."""
        if self._every_token:
            return active.unsqueeze(-2)
        count, features = active.shape[1:]
        at_least_once = 1 - (1 - self.token_activity) ** self.tokens
        shows = torch.as_tensor(per_replica(self.token_activity, active.unsqueeze(-2)), dtype=active.dtype)
        # The first token that shows a feature has a truncated geometric law; later ones show it independently.
        first = draws.uniform(count, 1, features, dtype=active.dtype)
        first = first.mul_(per_replica(at_least_once, first))
        first = torch.floor(torch.log1p(-first) / torch.log1p(-shows))
        first.clamp_(max=self.tokens - 1)  # rounding may reach L
        place = torch.arange(self.tokens, device=active.device)[:, None]
        later = draws.uniform(count, self.tokens, features, dtype=active.dtype) < shows
        return active.unsqueeze(-2) * ((place == first) | (place > first) & later)
