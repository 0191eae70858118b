"""How many directions features have, three times."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor


def ranks(phi: Float[Tensor, "penalty sample unit"]) -> Mapping[str, Float[Tensor, " penalty"]]:
    """Stable rank ‖Φ‖_F²/‖Φ‖₂² as it is and of centred features, and exp of the entropy of σ/Σσ; 0 where all is zero.

    The dissertation has ‖Φ‖₂ unsquared below, which depends on the scale of features and can be above their number.
    """
    x = phi.double()
    raw = torch.linalg.eigvalsh(x.mT @ x).clamp(min=0)
    away = x - x.mean(-2, keepdim=True)
    centred = torch.linalg.eigvalsh(away.mT @ away).clamp(min=0)
    values = raw.sqrt()
    total = values.sum(-1, keepdim=True)
    share = values / total.where(total > 0, 1.0)
    entropy = -torch.special.xlogy(share, share).sum(-1)
    return {
        "raw_rank": _stable(raw),
        "centred_rank": _stable(centred),
        "entropy_rank": entropy.exp() * (total[..., 0] > 0),
    }


def _stable(squares: Tensor) -> Tensor:
    most = squares.amax(-1)
    return squares.sum(-1) / most.where(most > 0, 1.0)
