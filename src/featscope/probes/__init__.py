"""Measurements of networks and of what they hold."""

from featscope.probes.alignment import (
    alignment,
    coverage,
    feature_energy,
    owner,
    rank_correlation,
    singletons,
)
from featscope.probes.firing import cosine_to_noise, false_firing, firing_rate, missed_firing

__all__ = [
    "alignment",
    "cosine_to_noise",
    "coverage",
    "false_firing",
    "feature_energy",
    "firing_rate",
    "missed_firing",
    "owner",
    "rank_correlation",
    "singletons",
]
