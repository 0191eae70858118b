"""A contrastive term beside the loss of fine-tuning (Shi 2024, dissertation, Section 7.2.2, (7.9))."""

from collections.abc import Callable
from math import isfinite
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from featscope.losses.nt_xent import NTXent
from featscope.options import ConfigError, require

LEAST = 1e-3
"""Nats. A term that begins below has next to no gradient."""


class ContrastiveRegularizer:
    """λ times NT-Xent of two views of each sample of a batch, to be added to the loss of any encoder.

    The first value of training is checked. Two views that hardly differ (such as those of dropout) at a low temperature
    give a term of about exp(-1/τ) nats: nothing fails, and training is that without it. Two views that are the same,
    as of an encoder in evaluation mode, do nothing but drive samples apart. Negatives are the other samples of the
    batch. Classifying both views is a change of its own: compare with fine-tuning on two views and ``weight = 0``.

    Args:
        views: makes two views of a batch of inputs; None if the encoder makes them itself, as dropout does, which is
            then called twice with the same inputs.
        temperature: τ.
        weight: λ. The dissertation has 0.1 with MoCo's loss and 1 with SimCLR's.

    Attributes:
        first: NT-Xent at the first call with gradients, in nats and without λ; None before. A training that is resumed
            sets it to what it was: what was trained may be small by now.

    Raises:
        ConfigError: the temperature is not above 0, or the weight below 0.
    """

    def __init__(
        self, views: Callable[[Any], tuple[Any, Any]] | None = None, temperature: float = 0.5, weight: float = 0.1
    ) -> None:
        self.views, self.temperature, self.weight = views, temperature, weight
        require(self, "temperature", temperature > 0 and isfinite(temperature), "> 0")
        require(self, "weight", weight >= 0 and isfinite(weight), ">= 0")
        self.first: float | None = None

    def __call__(self, encoder: Callable[[Any], Tensor], x: Any) -> Float[Tensor, ""]:
        """The term of a batch of inputs.

        Args:
            encoder: maps a batch of inputs to features ``[batch, neuron]``.
            x: what ``views``, or the encoder, takes.

        Raises:
            ConfigError: see `of_features`.
        """
        one, other = self.views(x) if self.views is not None else (x, x)
        return self.of_features(encoder(one), encoder(other))

    def of_features(
        self, anchor: Float[Tensor, "batch neuron"], positive: Float[Tensor, "batch neuron"]
    ) -> Float[Tensor, ""]:
        """The term of the features of two views, where these are at hand already.

        Raises:
            ConfigError: at the first call with gradients it is not finite; or, unless its weight is 0, below a
                thousandth of a nat, or both views are the same.
        """
        value = NTXent(self.temperature)(anchor, positive)
        if self.first is None and torch.is_grad_enabled():  # a validation before training looks at other views
            found = float(value.detach())
            if not (LEAST if self.weight else 0) <= found < float("inf"):
                raise ConfigError(
                    f"the contrastive term begins at {found:.2g} nats: allowed is a finite number, {LEAST:g} or more "
                    f"where its weight is not 0, as a smaller one has next to no gradient. There are "
                    f"{len(anchor)} pairs, and temperature = {self.temperature:g}: "
                    "take two pairs or more, a higher temperature (0.5, say), or views that differ more."
                )
            if self.weight and anchor.dtype == positive.dtype and torch.equal(anchor, positive):
                raise ConfigError(
                    "the two views have the same features: allowed are views that differ, as the term does nothing but "
                    "drive samples apart otherwise. Give `views` that draw for each sample (of one draw for a whole "
                    "batch both may be alike by chance), or put an encoder whose dropout makes them into training "
                    "mode, encoder.train()."
                )
            self.first = found
        return self.weight * value
