"""Power laws."""

import numpy as np
from jaxtyping import Float


def fitted_exponent(
    x: Float[np.ndarray, " point"], y: Float[np.ndarray, "replica point"]
) -> Float[np.ndarray, " replica"]:
    """Least-squares slope of log y against log x, for each replica.

    Values that are not positive have no logarithm: their replica's exponent is NaN.
    """
    log_x = np.log(x) - np.log(x).mean()
    return (np.log(np.where(y > 0, y, np.nan)) @ log_x) / (log_x @ log_x)
