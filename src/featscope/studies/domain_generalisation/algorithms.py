"""What is minimised on a batch of several domains, and which weights are kept: ERM, Mixup, CORAL, GroupDRO, SWAD.

Settings are DomainBed's defaults (Gulrajani & Lopez-Paz 2021), and those of Cha et al. (2021) for SWAD, whose
tolerance on VLCS is 0.2, not the 0.3 that is here for all data.
"""

from typing import Literal

import torch
from jaxtyping import Float, Int
from scipy.special import betaincinv
from torch import Tensor

from featscope.streams import Draws
from featscope.studies.domain_generalisation.networks import losses

AlgorithmName = Literal["erm", "mixup", "swad", "coral", "group-dro", "swad-coral"]
_MIXED = 0.2  # both parameters of the Beta distribution
_CORAL = 1.0  # weight
_GROUP_STEP = 0.01  # of the logarithms of domains' weights
_CONVERGED, _TOLERATED, _RATIO = 3, 6, 0.3  # looks of SWAD, and how far above the valley its losses may be

Samples = Float[Tensor, "sample ..."]
Classes = Int[Tensor, " sample"]


def mixed(
    x: Samples, y: Classes, domains: int, draws: Draws
) -> tuple[Samples, Classes, Classes, Float[Tensor, " sample"]]:
    """Each domain's samples mixed with those of the next in a random order: inputs, labels, shares of the first."""
    order = draws.uniform(domains)[0].argsort()
    x, y = x.unflatten(0, (domains, -1))[order], y.unflatten(0, (domains, -1))[order]
    place = draws.uniform(domains, dtype=torch.float64)[0].cpu().numpy()
    share = torch.from_numpy(betaincinv(_MIXED, _MIXED, place)).float().to(x.device)[:, None]
    of_entry = share.reshape(-1, *(1 for _ in x.shape[1:]))
    both = of_entry * x + (1 - of_entry) * x.roll(-1, 0)
    return both.flatten(0, 1), y.flatten(), y.roll(-1, 0).flatten(), share.expand_as(y).flatten()


def mixed_losses(
    logits: Float[Tensor, "penalty sample class"], y: Classes, other: Classes, share: Float[Tensor, " sample"]
) -> Float[Tensor, "penalty sample"]:
    """The losses for both labels, in shares."""
    return share * losses(logits, y) + (1 - share) * losses(logits, other)


def coral(phi: Float[Tensor, "penalty sample unit"], domains: int) -> Float[Tensor, " penalty"]:
    """Squared differences of means and of covariances of the features of two domains, over all pairs."""
    parts = phi.unflatten(1, (domains, -1))
    mean = parts.mean(2, keepdim=True)
    centred = parts - mean
    spread = centred.mT @ centred / (parts.shape[2] - 1)
    found = phi.new_zeros(len(phi))
    for i in range(domains):
        for j in range(i):
            apart = (mean[:, i] - mean[:, j]).square().mean((-2, -1))
            found = found + apart + (spread[:, i] - spread[:, j]).square().mean((-2, -1))
    return _CORAL * found / max(1, domains * (domains - 1) // 2)


class GroupDRO:
    """Weights on domains, of each penalty, that grow where losses are large (Sagawa et al. 2019)."""

    def __init__(self, penalties: int, domains: int, device: torch.device | str = "cpu") -> None:
        self.weights = torch.ones(penalties, domains, device=device) / domains

    def __call__(self, each: Float[Tensor, "penalty sample"]) -> Float[Tensor, " penalty"]:
        """The weighted loss."""
        of_domain = each.unflatten(1, (self.weights.shape[1], -1)).mean(-1)
        grown = self.weights * (_GROUP_STEP * of_domain.detach()).exp()
        self.weights = grown / grown.sum(-1, keepdim=True)
        return (self.weights * of_domain).sum(-1)


def valley(of_look: Float[Tensor, "look"]) -> tuple[int, int]:
    """First and last look whose segments SWAD averages, by the validation losses of one training.

    It begins where the smallest of three losses in a row is the first of them, and ends once all of six are above that
    valley's mean by 30 %. Where no valley is found, the last segment stands alone.
    """
    found = of_look.tolist()
    for end in range(_CONVERGED - 1, len(found)):
        window = found[end - _CONVERGED + 1 : end + 1]
        if window.index(min(window)) == 0:
            begin, most = end - _CONVERGED + 1, (1 + _RATIO) * sum(window) / _CONVERGED
            for last in range(begin + _TOLERATED - 1, len(found)):
                if min(found[last - _TOLERATED + 1 : last + 1]) > most:
                    return begin, max(begin, last - _TOLERATED)
            return begin, len(found) - 1
    return len(found) - 1, len(found) - 1
