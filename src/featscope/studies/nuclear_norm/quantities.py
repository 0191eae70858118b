"""What is found in the problems that a step solves, in words."""

from collections.abc import Mapping

from featscope.studies.untrained import Quantity

_ABOUT = {
    "alpha": "α, weight of an invariant feature",
    "beta": "β, weight of an environmental feature",
    "id_accuracy": "accuracy in domain",
    "ood_accuracy": "accuracy out of domain",
    "same_sign": "share of draws with α z_k + β z_l >= 0",
    "mean_invariant": "mean weight of invariant features",
    "mean_environmental": "mean weight of environmental features",
    "apart": "standard deviation of weights of a kind",
    "low_b": "share of samples with B <= 0",
    "low_a": "share of samples with A <= r/4",
    "best_is_invariant": "whether the best support has invariant features only",
    "gap": "objective of the best support with an environmental feature, less the worst without",
    "least_weight": "least weight on the best support",
    "other_accuracy": "accuracy out of domain of the best support with an environmental feature",
    "norm": "norm of the best weights on invariant features",
    "loss": "their logistic loss",
    "printed_id": "accuracy in domain of a boundary with a printed accuracy out of it",
    "printed_ood": "its accuracy out of domain",
    "mean_tilt": "tilt of the sample's mean",
    "lda_tilt": "tilt of its discriminant direction",
    "off_difference": "largest difference of slopes by gradient and by differences",
    "off_single": "largest difference of the gradient in float32 to U Vᵀ",
    "off_repeated": "largest difference to U Vᵀ where all singular values are equal",
    "dead_slope": "norm of the gradient on a dead neuron",
    "plain_dead_slope": "norm of the gradient of svdvals there",
    "attained": "norm at the rank-one matrix over ‖Xw‖/‖a‖",
    "least_tried": "least norm of all matrices tried over ‖Xw‖/‖a‖",
}
_PATHS = {
    "tilt": "w_2/w_1",
    "loss": "training loss",
    "id_error": "errors in domain",
    "ood_error": "errors out of domain",
    "matched": "w_2/w_1 at equal training loss",
}


def described(shapes: Mapping[str, tuple[int, ...]], *dims: str) -> dict[str, Quantity]:
    """Name -> what it is, of arrays without the replica; ``dims`` are those of the largest array."""
    return {name: Quantity(_about(name), dims[: len(shape)], shape) for name, shape in shapes.items()}


def _about(name: str) -> str:
    path, _, rest = name.partition("_")
    if path in ("l2", "nu"):
        return f"{_PATHS[rest]}, {'weight decay' if path == 'l2' else 'nuclear norm'}"
    return _ABOUT[name]
