"""Counts of ordinary and lucky neurons."""

import numpy as np
import pytest

from featscope.probes.random_neurons import count_lucky
from featscope.streams import Streams


@pytest.mark.parametrize(("features", "ratio"), [(12, 0.9), (12, 0.8), (60, 0.8)])
def test_pairs_are_counted_by_the_definition(features, ratio):
    """Against a loop over neurons, on its own draws (P (26)-(28), γ = 0.01)."""
    streams = Streams(0, range(2))
    found = count_lucky(streams, 2000, features, ratio)
    low = 2 * 0.99 * ratio**2 * np.log(features) / features
    high = 2 * 1.01 / ratio**2 * np.log(features) / features
    ordinary = strong = lucky = 0
    for block in range(20):
        for normals in streams.at(f"census of {features}", block).normal(100, features)[1].numpy():
            shares = [x**2 / sum(normals**2) for x in normals]
            ordinary += sum(share >= low for share in shares)
            for j, share in enumerate(shares):
                strong += share >= high
                lucky += share >= high and all(s <= low for k, s in enumerate(shares) if k != j)
    assert [float(count[1]) for count in found] == [ordinary, strong, lucky]
    assert 0 < lucky <= strong < ordinary
    assert (lucky < strong) == (features == 60)  # few have room for another ordinary feature
