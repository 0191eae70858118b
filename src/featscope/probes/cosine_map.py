"""Directions in the plane."""

import numpy as np
from jaxtyping import Float


def placed(cosines: Float[np.ndarray, "point point"]) -> Float[np.ndarray, "point 2"]:
    """Points in the plane whose distances are near to 1 - cosine: scaling of distances from the classical solution."""
    from sklearn.manifold import smacof

    if len(cosines) == 1:
        return np.zeros((1, 2))
    apart = np.clip(1 - cosines, 0, 2)
    np.fill_diagonal(apart, 0)
    apart = (apart + apart.T) / 2
    centred = apart**2 - (apart**2).mean(0)
    values, vectors = np.linalg.eigh(-(centred - centred.mean(1, keepdims=True)) / 2)
    begin = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0))
    return smacof(apart, n_components=2, init=begin, n_init=1, max_iter=300, normalized_stress=False)[0]
