"""Measurements of networks and of what they hold."""

from featscope.probes.alignment import (
    alignment,
    amplitudes,
    coverage,
    feature_energy,
    lucky,
    members,
    owner,
    rank_correlation,
    singletons,
)
from featscope.probes.collapse import (
    Collapse,
    collapse_of,
    correlation_matrix,
    effective_rank,
    pair_alignment,
    singular_spectrum,
    uniformity,
)
from featscope.probes.firing import cosine_to_noise, false_firing, firing_rate, missed_firing, moved_by_noise
from featscope.probes.fourier import (
    matrix_power_spectrum,
    peak_frequency,
    peak_share,
    phase_at,
    power_spectrum,
    share_of_largest,
)
from featscope.probes.gradient_features import (
    GradientFeatures,
    gradient_features,
    nice_neurons,
    simplified_gradient,
    simplified_gradient_of_layer,
    simplified_gradient_of_mixture,
)
from featscope.probes.gradient_outer_product import average_gradient_outer_product, layer_agreement, matrix_agreement
from featscope.probes.of_module import embeddings, measure_collapse

__all__ = [
    "Collapse",
    "GradientFeatures",
    "alignment",
    "amplitudes",
    "average_gradient_outer_product",
    "collapse_of",
    "correlation_matrix",
    "cosine_to_noise",
    "coverage",
    "effective_rank",
    "embeddings",
    "false_firing",
    "feature_energy",
    "firing_rate",
    "gradient_features",
    "layer_agreement",
    "lucky",
    "matrix_agreement",
    "matrix_power_spectrum",
    "measure_collapse",
    "members",
    "missed_firing",
    "moved_by_noise",
    "nice_neurons",
    "owner",
    "pair_alignment",
    "peak_frequency",
    "peak_share",
    "phase_at",
    "power_spectrum",
    "rank_correlation",
    "share_of_largest",
    "simplified_gradient",
    "simplified_gradient_of_layer",
    "simplified_gradient_of_mixture",
    "singletons",
    "singular_spectrum",
    "uniformity",
]
