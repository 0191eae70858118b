"""What is measured on a network: along the way, and once at the start or the end."""

from collections.abc import Mapping
from functools import partial

import torch
from jaxtyping import Bool
from torch import Tensor

from featscope.models import TokenMLPNetwork
from featscope.probes import alignment, feature_energy, singletons
from featscope.probes.frozen_gates import FrozenGates
from featscope.probes.pairs import score_pairs
from featscope.probes.pull import first_pull
from featscope.probes.random_neurons import count_lucky
from featscope.training import GradientTraining, Measurement, three_digits

HELD = 0.3  # cosine from which a neuron counts as holding a feature (the paper, Figure 1)
TRAIN_PAIRS, TEST_PAIRS = 1000, 5000  # of the linear head and of the cosine (the paper, Appendix A.2)
PULL_PAIRS, PULL_BLOCKS = 10_000, 10
CENSUS_NEURONS, CROWD_NEURONS = 1_000_000, 200_000
CENSUS_RATIO = 0.8  # ε_min/ε_max at which lucky neurons are rare, but not so rare that none is seen
CROWD = 5  # times the features: so many that it matters whether other features are above their threshold
FLOAT64_PAIRS = 64
SCALES, DIRECTIONS = (0.1, 1.0, 10.0), 8  # of steps from w to other weights θ, in units of w
POWERS = range(-6, 8)  # of 2, for κ


def trajectory(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Measured along the way."""
    source, learner = experiment.source, experiment.learner
    cosines = alignment(learner.weight, source.dictionary)
    norm = learner.weight.norm(dim=-1)
    energy = (cosines * norm[..., None]).square().sum(-2)
    share = energy.sum(-1) / norm.square().sum(-1)
    off = learner.weight - learner.weight @ source.dictionary @ source.dictionary.mT
    # The parts off the features of the coordinate axes: as many unit directions as inputs.
    axes = (1 - source.dictionary.square().sum(-1)).clamp_min(1e-6).sqrt()
    largest_off = (off.abs() / axes[..., None, :]).amax(-1) / norm
    found = {
        "alignment": Measurement(three_digits(cosines), "cosine of neuron and feature", ("neuron", "feature")),
        "norm": Measurement(norm, "||w_i||", ("neuron",)),
        "bias": Measurement(learner.bias, "b_i", ("neuron",)),
        "off_cosine": Measurement(largest_off, "largest cosine with directions off the features", ("neuron",)),
        "feature_share": Measurement(share, "share of the squared norm along features, all neurons"),
        "singletons": Measurement(singletons(cosines).sum(-1), "neurons that hold one feature", units="neurons"),
    }
    first_rare = cosines.shape[-1] - source.minority
    for name, which in (("minority", slice(first_rare, None)), ("majority", slice(first_rare))):
        size = cosines[..., which].abs()
        count, largest = (size >= HELD).float().sum(-2).mean(-1), size.amax(-2).mean(-1)
        found |= {
            f"{name}_count": Measurement(count, f"neurons of cosine >= {HELD} with a {name} feature", units="neurons"),
            f"{name}_cosine": Measurement(largest, f"largest cosine of a neuron with a {name} feature"),
            f"{name}_energy": Measurement(energy[..., which].mean(-1), f"Σ_i <w_i, M_j>², {name} features"),
        }
    return found


def thresholds(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """What thresholds were set to at the end of Stage 1."""
    rule = experiment.rules["bias"]
    about = "b_i/||w_i|| as thresholds are set, at T1; 0 before"
    return {"reset_ratio": Measurement(rule.reset_bias / rule.reference_norm, about, ("neuron",))}


def with_regret(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """The same, and by how much the loss is above that of the optimal learner behind the gates of now (P (163))."""
    at = _frozen(experiment, "regret", experiment.objective.pairs)
    best = at.optimal(experiment.source.dictionary)
    optimal = torch.stack([at.pseudo_loss(2.0**power * best) for power in POWERS]).amin(0)
    about = "loss less the pseudo-loss at θ*, its best κ, on one batch"
    return {
        **trajectory(experiment),
        "regret": Measurement(at.pseudo_loss(at.w) - optimal, about, units="nats"),
    }


def features_lead(experiment: GradientTraining) -> Bool[Tensor, "replica"]:
    """T1: whether features hold half of the squared norm of all neurons together (the paper's (34) asks it of each)."""
    along = (experiment.learner.weight @ experiment.source.dictionary).square().sum((-2, -1))
    return along >= experiment.learner.weight.square().sum((-2, -1)) / 2


def half_of_every_neuron(experiment: GradientTraining) -> Bool[Tensor, "replica"]:
    """Whether features hold half of every neuron's squared norm (the paper's (34))."""
    return (feature_energy(alignment(experiment.learner.weight, experiment.source.dictionary)) >= 0.5).all(-1)


def growth_identity(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """What positive and negative pairs pull the weights of the start by (P Lemmas F.1, F.3)."""
    pull = first_pull(experiment.source, experiment.learner, experiment.streams, PULL_PAIRS, PULL_BLOCKS)
    about = "E[h_i(Y) <∇h_i(X), M_j>] over A_ij"
    noise = "variance of mean tokens off the features, a coordinate"
    return {
        "pull": Measurement(pull.along_features, about, ("feature",)),
        "pull_of_negatives": Measurement(pull.of_negatives, "the same for h_i of negatives"),
        "pull_off_features": Measurement(pull.off_features, "the same off the features", units="Lσ²"),
        "noise_variance": Measurement(pull.noise, noise, units="σ²/L"),
    }


def census(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Ordinary and lucky neurons among many random ones (the paper's (26)-(28))."""
    activity = experiment.source.activity[0]
    features, own = len(activity), float(activity.min() / activity.max())
    count = partial(count_lucky, experiment.streams)
    ordinary = count(CENSUS_NEURONS, features, own).ordinary / CENSUS_NEURONS
    lucky = count(CENSUS_NEURONS, features, CENSUS_RATIO).lucky / CENSUS_NEURONS / features
    crowd = count(CROWD_NEURONS, CROWD * features, CENSUS_RATIO)
    alone = f"share of neurons strong for a feature that are lucky, {CROWD}d features, r = {CENSUS_RATIO}"
    return {
        "features_per_neuron": Measurement(ordinary, "E|N_i| at initialisation", units="features"),
        "lucky_probability": Measurement(lucky, f"Pr(neuron is lucky for a given feature), r = {CENSUS_RATIO}"),
        "alone_among_strong": Measurement(crowd.lucky / crowd.strong, alone),
    }


def represented(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Figures 3 and 4: cosine of pairs, and error of a linear head, on test data with and without imbalance."""
    source, streams = experiment.source, experiment.streams
    train = source.pairs(streams.at("train head"), TRAIN_PAIRS)
    anything = streams.at("target").normal(source.activity.shape[-1])
    rarest = torch.zeros_like(anything)
    rarest[:, -1] = 1
    of_common = anything.clone()
    of_common[:, -source.minority :] = 0
    ideal = TokenMLPNetwork(source.dictionary.mT.contiguous(), experiment.learner.tokens)
    found: dict[str, Measurement] = {}
    for name, data in (("", source.balanced()), ("_imbalanced", source)):
        test = data.pairs(streams.at("test"), TEST_PAIRS)
        scores = score_pairs(experiment.learner, train, test, (anything, rarest))
        where = "frequencies as in training" if name else "all features alike frequent"
        found |= {
            f"cosine{name}": Measurement(scores.cosine, f"cosine of f(X), f(Y), non-empty test pairs, {where}"),
            f"cosine_all{name}": Measurement(scores.cosine_all, f"the same with empty pairs, {where}"),
            f"mse{name}": Measurement(scores.errors[0], f"test error of <v, z> / variance, {where}"),
            f"mse_minority{name}": Measurement(scores.errors[1], f"test error of z_minority / variance, {where}"),
        }
        if not name:
            (error,) = score_pairs(ideal, train, test, (of_common,)).errors
            noise, common = source.noise_std**2 / source.tokens, source.activity.amax(-1)
            over = error * (common + noise) / noise / (1 + source.activity.shape[-1] / TRAIN_PAIRS)
            found["ideal_error"] = Measurement(over, "error of <v, z> of common features, read from these, over s²/p")
        else:
            fitted, fresh = train.codes_x, test.codes_x[:, :TRAIN_PAIRS]
            size = (fitted.square().sum((-2, -1)) * fresh.square().sum((-2, -1))).sqrt()
            about = "correlation of signals of the head's first test pairs with those of its training pairs"
            found["test_repeats"] = Measurement((fitted * fresh).sum((-2, -1)) / size, about)
    return found


def gradients(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """The paper's (21) and the pseudo-loss (118) against autograd on the network itself, in float64."""
    of_loss, of_pseudo, value = _frozen(experiment, "gradients", FLOAT64_PAIRS).errors()
    return {
        "gradient_error": Measurement(of_loss, "gradient of the loss against the paper's (21), relative"),
        "pseudo_gradient_error": Measurement(of_pseudo, "pseudo-loss against the paper's (21), relative"),
        "pseudo_value_error": Measurement(value, "pseudo-loss minus loss", units="nats"),
    }


def optimal_learner(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """The pseudo-loss away from w: at θ* (115), and how far it lies above its tangent at w (162).

    Neurons that end with one feature stand for the lucky ones of (27): none exists at ε_min/ε_max = 0.3 and d = 9.
    κ, which P gives the order of max_j |M_j|, is whatever suits θ* best.
    """
    at = _frozen(experiment, "optimal learner", experiment.objective.pairs)
    best = at.optimal(experiment.source.dictionary)
    scaled = [2.0**power * best for power in POWERS]
    optimal = torch.stack([at.pseudo_loss(theta) for theta in scaled]).amin(0)
    others = at.around(experiment.streams.at("directions"), SCALES, DIRECTIONS)
    above = "smallest height of the pseudo-loss above its tangent at w"
    same = "mean log number of keys that show an anchor's own signals"
    return {
        "optimal_loss": Measurement(optimal, "pseudo-loss at θ*, its best κ", units="nats"),
        "loss_floor": Measurement(at.floor(), same, units="nats"),
        "above_tangent": Measurement(at.above_tangent(scaled + others), above, units="nats"),
    }


def _frozen(experiment: GradientTraining, purpose: str, count: int) -> FrozenGates:
    """The network on a batch drawn for ``purpose``."""
    pairs = experiment.source.pairs(experiment.streams.at(purpose), count, dtype=torch.float64)
    return FrozenGates(experiment.learner, pairs, experiment.objective.loss)
