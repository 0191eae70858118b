"""Directions in the plane."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from featscope.numbers import wide


def placed(cosines: Float[Tensor, "point point"]) -> Float[Tensor, "point 2"]:
    """Points in the plane whose distances are near to 1 - cosine: scaling of distances from the classical solution.

    Float64, on the CPU.
    """
    from sklearn.manifold import smacof

    if len(cosines) == 1:
        return torch.zeros(1, 2, dtype=torch.float64)
    apart = np.clip(1 - wide(cosines).detach().cpu().numpy(), 0, 2)
    np.fill_diagonal(apart, 0)
    apart = (apart + apart.T) / 2
    centred = apart**2 - (apart**2).mean(0)
    values, vectors = np.linalg.eigh(-(centred - centred.mean(1, keepdims=True)) / 2)
    begin = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0))
    found = smacof(apart, n_components=2, init=begin, n_init=1, max_iter=300, normalized_stress=False)[0]
    return torch.from_numpy(found).double()
