"""Random orthonormal frames."""

import torch
from jaxtyping import Float
from torch import Tensor

from featscope.streams import Draws


def orthonormal_columns(draws: Draws, dimension: int, count: int) -> Float[Tensor, "replica input column"]:
    """``count`` orthonormal columns, float64: the Q of normals, by Householder reflections.

    They are uniform up to signs: that of a column is decided by the entries (the first entry is never above 0). With
    coordinates' signs changed at random they are uniform. So nothing depends on it where coordinates may as well have
    the other sign, as with normal noise and normal first weights, trained by any rule that knows no direction.
    """
    return torch.linalg.qr(draws.normal(dimension, count, dtype=torch.float64))[0]
