"""What is measured on a network: along the way, and once at the start or the end."""

from collections.abc import Mapping
from typing import cast

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from featscope.data import SparseTokensSource, TokenPairs
from featscope.models import TokenMLPNetwork
from featscope.probes import alignment, feature_energy, singletons
from featscope.probes.downstream import regression_error
from featscope.training import Experiment, Measurement

HELD = 0.3  # cosine from which a neuron counts as holding a feature (P, Figure 1)
TRAIN_PAIRS, TEST_PAIRS = 1000, 5000  # of the linear head and of the cosine (P, Appendix A.2)
CENSUS_NEURONS, CROWD_NEURONS = 1_000_000, 200_000
CENSUS_RATIO = 0.8  # ε_min/ε_max at which lucky neurons are rare, but not so rare that none is seen
GAMMA = 0.01
CROWD = 5  # times the features: so many that it matters whether other features are above their threshold


def parts(experiment: Experiment) -> tuple[SparseTokensSource, TokenMLPNetwork]:
    """Source and learner."""
    return cast(SparseTokensSource, experiment.source), cast(TokenMLPNetwork, experiment.learner)


def trajectory(experiment: Experiment) -> Mapping[str, Measurement]:
    """Measured along the way."""
    source, learner = parts(experiment)
    cosines = alignment(learner.weight, source.dictionary)
    norm = learner.weight.norm(dim=-1)
    rare = slice(cosines.shape[-1] - source.minority, None)
    common = slice(0, cosines.shape[-1] - source.minority)
    energy = (cosines * norm[..., None]).square().sum(-2)
    squared_norm = norm.square().sum(-1)
    found = {
        "alignment": Measurement(cosines, ("neuron", "feature"), "1", "cosine of neuron and feature"),
        "norm": Measurement(norm, ("neuron",), "1", "||w_i||"),
        "bias": Measurement(learner.bias, ("neuron",), "1", "b_i"),
        "feature_share": Measurement(
            energy.sum(-1) / squared_norm, (), "1", "share of the squared norm along features, all neurons"
        ),
        "singletons": Measurement(singletons(cosines).sum(-1), (), "neurons", "neurons that hold one feature"),
    }
    for name, which in (("minority", rare), ("majority", common)):
        held = (cosines[..., which].abs() >= HELD).float()
        found |= {
            f"{name}_count": Measurement(
                held.sum(-2).mean(-1), (), "neurons", f"neurons of cosine >= {HELD} with a {name} feature"
            ),
            f"{name}_cosine": Measurement(
                _largest(cosines[..., which]), (), "1", f"largest cosine of a neuron with a {name} feature"
            ),
            f"{name}_energy": Measurement(energy[..., which].mean(-1), (), "1", f"Σ_i <w_i, M_j>², {name} features"),
        }
    return found


def _largest(cosines: Float[Tensor, "replica neuron feature"]) -> Float[Tensor, "replica"]:
    """Largest |cosine| of a neuron, mean over features; NaN where there are none."""
    return cosines.abs().amax(-2).mean(-1)


def features_lead(experiment: Experiment) -> Bool[Tensor, "replica"]:
    """T1: whether features hold half of the squared norm of all neurons together (P (34) asks it of each)."""
    source, learner = parts(experiment)
    along = (learner.weight @ source.dictionary).square().sum((-2, -1))
    return along >= learner.weight.square().sum((-2, -1)) / 2


def half_of_every_neuron(experiment: Experiment) -> Bool[Tensor, "replica"]:
    """Whether features hold half of every neuron's squared norm (P (34))."""
    source, learner = parts(experiment)
    return (feature_energy(alignment(learner.weight, source.dictionary)) >= 0.5).all(-1)


def represented(experiment: Experiment) -> Mapping[str, Measurement]:
    """P, Figures 3 and 4: cosine of pairs, and error of a linear head, on test data with and without imbalance."""
    source, learner = parts(experiment)
    found: dict[str, Measurement] = {}
    streams = experiment.streams
    trained_on = source.pairs(streams.at("train head"), TRAIN_PAIRS)
    f_train = learner(trained_on.x)
    features = source.activity.shape[-1]
    weights = streams.at("target").normal(features)
    for name, data, at in (("", source.balanced(), "test"), ("_imbalanced", source, "test")):
        test = data.pairs(streams.at(at), TEST_PAIRS)
        f_test, other = learner(test.x), learner(test.y)
        scale = f_test.norm(dim=-1) * other.norm(dim=-1)
        cosine = (f_test * other).sum(-1) / scale.where(scale > 0, 1.0)
        some = (test.codes_x != 0).any(-1)
        where = "all features alike frequent" if not name else "frequencies as in training"
        found |= {
            f"cosine{name}": Measurement(
                (cosine * some).sum(-1) / some.sum(-1), (), "1", f"cosine of f(X), f(Y), non-empty test pairs, {where}"
            ),
            f"cosine_all{name}": Measurement(cosine.mean(-1), (), "1", f"the same with empty pairs, {where}"),
            f"mse{name}": Measurement(
                _error(f_train, f_test, trained_on, test, weights), (), "1", f"test error of <v, z> / variance, {where}"
            ),
        }
        if source.minority:
            last = torch.zeros_like(weights)
            last[:, -1] = 1
            found[f"mse_minority{name}"] = Measurement(
                _error(f_train, f_test, trained_on, test, last),
                (),
                "1",
                f"test error of z_minority / variance, {where}",
            )
    return found


def _error(
    f_train: Float[Tensor, "replica sample neuron"],
    f_test: Float[Tensor, "replica other neuron"],
    train: TokenPairs,
    test: TokenPairs,
    target: Float[Tensor, "replica feature"],
) -> Float[Tensor, "replica"]:
    """Squared error of a linear head over the variance of its target; NaN where the target never varies."""
    y, y_test = ((codes @ target[..., None]).squeeze(-1) for codes in (train.codes_x, test.codes_x))
    errors = [
        regression_error(a, b, c, d) if d.var() > 0 else np.nan
        for a, b, c, d in zip(f_train, y, f_test, y_test, strict=True)
    ]
    return torch.tensor(errors)


def census(experiment: Experiment) -> Mapping[str, Measurement]:
    """Ordinary and lucky neurons among many random ones, by P (26)-(28)."""
    source, _ = parts(experiment)
    features = source.activity.shape[-1]
    own = float(source.activity[0].min() / source.activity[0].max())
    ordinary, _, _ = _count(experiment, features, own, CENSUS_NEURONS)
    _, _, lucky = _count(experiment, features, CENSUS_RATIO, CENSUS_NEURONS)
    _, strong, alone = _count(experiment, CROWD * features, CENSUS_RATIO, CROWD_NEURONS)
    return {
        "features_per_neuron": Measurement(ordinary / CENSUS_NEURONS, (), "features", "E|N_i| at initialisation"),
        "lucky_probability": Measurement(
            lucky / CENSUS_NEURONS / features, (), "1", f"Pr(neuron is lucky for a given feature), r = {CENSUS_RATIO}"
        ),
        "alone_among_strong": Measurement(
            alone / strong,
            (),
            "1",
            f"share of neurons strong for a feature that are lucky, {CROWD}d features, r = {CENSUS_RATIO}",
        ),
    }


def _count(experiment: Experiment, features: int, ratio: float, neurons: int) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs of a random neuron and a feature: how many are ordinary, how many strong, how many lucky.

    Strong is the first condition of P (27), lucky both.
    """
    low, high = 2 * (1 - GAMMA) * ratio**2, 2 * (1 + GAMMA) / ratio**2
    counts = torch.zeros(3, len(experiment.streams.replicas), dtype=torch.float64)
    blocks = 20
    for block in range(blocks):
        share = experiment.streams.at(f"census of {features}", block).normal(neurons // blocks, features).square_()
        share /= share.sum(-1, keepdim=True)
        above = share >= low * np.log(features) / features
        strong = share >= high * np.log(features) / features
        lucky = strong & (above.sum(-1, keepdim=True) == 1)
        counts += torch.stack([pairs.sum((-2, -1)).cpu() for pairs in (above, strong, lucky)])
    return counts[0], counts[1], counts[2]
