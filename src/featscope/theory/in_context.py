"""What a learner that follows its exemplars makes of labels that are inverted.

Of M exemplars, k with an inverted label, it takes which word goes with which meaning: it gives the true label the
probability (M - k + 1/2)/(M + 1), and says the likelier one.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float


def inverted(rates: Sequence[float], shots: int) -> Float[np.ndarray, " rate"]:
    """k: how many of ``shots`` labels are inverted at each rate, halves rounded upwards."""
    return np.floor(np.round(np.asarray(rates, dtype=np.float64) * shots, 9) + 0.5)  # 0.58 · 25 is 14.499999999999998


def follower_trust(rates: Sequence[float], shots: int) -> Float[np.ndarray, " rate"]:
    """The probability that it gives the true label."""
    return (shots - inverted(rates, shots) + 0.5) / (shots + 1)


def follower_accuracy(rates: Sequence[float], shots: int) -> Float[np.ndarray, " rate"]:
    """How often it is right: always while fewer than half of the labels are inverted, never beyond; 1/2 at a tie."""
    return 0.5 + 0.5 * np.sign(shots - 2 * inverted(rates, shots))
