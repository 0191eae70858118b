"""What is measured on a network: at the start, along the way, and at the end."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from math import sqrt

import torch
from jaxtyping import Bool
from torch import Tensor

from featscope.data import LinearTask, SparseSample, linear_task
from featscope.models import OrthogonalRows, SymmetricReLUNetwork, soft_threshold
from featscope.probes.alignment import alignment, amplitudes, coverage, members, singletons
from featscope.probes.contrastive_gradient import ContrastiveBatch, errors_of_formulas
from featscope.probes.downstream import read_out
from featscope.probes.firing import (
    cosine_to_noise,
    false_firing,
    firing_rate,
    missed_firing,
    moved_by_noise,
    wrong_firing,
)
from featscope.probes.masked_noise import NoisePull, masked_firing, noise_pulls
from featscope.probes.optimal_learner import optimal_learner_loss
from featscope.probes.random_start import dense_peaks, likeness_by_noise, logit_deviation, lucky_set_size
from featscope.probes.two_views import TwoViews
from featscope.theory.decoupling import lucky_constant
from featscope.training import GradientTraining, Measurement, three_digits

WATCH_SAMPLES, CENSUS_SAMPLES, SPLIT_SAMPLES = 512, 4096, 48
NEARLY_ALL = 0.99  # of a threshold: the largest λ of Lemma B.6
LABELS = 6000  # of order d^1.001 times a polylogarithm (Corollary 3.5)
LOGIT_SCALES = (0.01, 0.1, 1.0)  # of the initial Σ||w_i||²


def exact_at_start(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """What the theory says of a random network (Section 3, Lemmas B.2, C.2, C.3 and F.2)."""
    source, learner, objective = experiment.source, experiment.learner, experiment.objective
    width, biased, batch = learner.weight.shape[-2], deepcopy(learner), _batch(experiment, "logits")
    biased.bias.copy_(0.5 * sqrt(source.config.noise_variance) * learner.weight.norm(dim=-1))
    on_noise = _views(experiment, biased).agreement_on_noise()
    sets = lucky_set_size(source.dictionary, width, lucky_constant(), experiment.streams)
    deviations = torch.stack([logit_deviation(batch, scale) for scale in LOGIT_SCALES], -1)
    sizes = torch.stack([scale * learner.weight.double().square().sum((-2, -1)) for scale in LOGIT_SCALES], -1)
    rows, draws = OrthogonalRows(width), experiment.streams.at("orthogonal rows")
    alike = likeness_by_noise(source, rows, objective.loss, draws, objective.anchors, objective.negatives)
    return {
        "mask_leak": Measurement(_views(experiment).noise_left(), "noise variance left in the positive term over s²"),
        "dense_decoupling": Measurement(on_noise, "E<f(2Dξ), f(2(I-D)ξ)> over E||f(ξ)||²"),
        "mask_crosstalk": Measurement(_views(experiment).crosstalk(), "mean of <M_j, (I-2D) M_j'>² times d1"),
        "mask_moves": Measurement(_views(experiment).perturbation_ratio(), "E<w_i, (I-2D)x>² over its closed form"),
        "lucky_set_size": Measurement(sets, "mean size of the lucky sets Set_j", units="neurons"),
        "logit_deviation": Measurement(deviations, "max |l - 1/|B|| · |B|", ("scale",)),
        "logit_size": Measurement(sizes, "Σ ||w_i||²", ("scale",)),
        "orthogonal_self": Measurement(alike.own, "mean ||f(x)||², orthogonal unit rows"),
        "orthogonal_cross": Measurement(alike.cross, "rms <f(x), f(x')>"),
        "orthogonal_loss": Measurement(alike.loss, "loss without mask", units="nats"),
    }


def without_mask(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Growth rates along features and orthogonal to them without augmentation (Lemma F.1)."""
    along, across = _views(experiment).growth()
    return {"rate_ratio": Measurement(along / across, "growth rate along features over the rate orthogonal to them")}


def masked_negatives(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Which share of a batch's negatives is masked."""
    _, _, negatives = experiment.objective.batch(experiment.source, experiment.streams.at("negatives"))
    return {"negatives_masked": Measurement((negatives == 0).double().mean((-2, -1)), "zeros in a batch's negatives")}


def pair_statistics(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Covariance of a neuron's two views over its closed form, summed over neurons (Definition 2.3)."""
    ratio = _views(experiment).covariance_ratio()
    return {"pair_covariance": Measurement(ratio, "covariance of <w_i, x⁺> and <w_i, x⁺⁺> over its closed form")}


def _views(experiment: GradientTraining, network: SymmetricReLUNetwork | None = None) -> TwoViews:
    return TwoViews(network or experiment.learner, experiment.source, experiment.objective.view, experiment.streams)


def _batch(experiment: GradientTraining, purpose: str) -> ContrastiveBatch:
    batch = experiment.objective.batch(experiment.source, experiment.streams.at(purpose))
    return ContrastiveBatch(experiment.learner, experiment.objective.loss, *batch)


def trajectory(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """What neurons hold and when they fire."""
    source, learner = experiment.source, experiment.learner
    cosines = alignment(learner.weight, source.dictionary)
    sample = source.sample(experiment.streams.at("watch"), WATCH_SAMPLES)  # the same inputs at every step
    f = learner(sample.x)
    return {
        "alignment": Measurement(three_digits(cosines), "cosine of neuron and feature", ("neuron", "feature")),
        "norm": Measurement(learner.weight.norm(dim=-1), "||w_i||", ("neuron",)),
        "bias": Measurement(learner.bias, "b_i", ("neuron",)),
        "firing_rate": Measurement(firing_rate(f), "Pr(h_i(x) != 0)", ("neuron",)),
        "coverage": Measurement(coverage(cosines), "share of features held by a singleton neuron"),
        "singletons": Measurement(singletons(cosines).sum(-1), "neurons that hold one feature", units="neurons"),
        "noise_cosine": Measurement(cosine_to_noise(f, learner(sample.noise)), "mean cosine of f(x) and f(ξ)"),
    }


def with_noise_pull(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """The same, and in Stage II where noise pulls neurons that fire on both views (Lemma D.4); NaN at other times."""
    stage = experiment.rules["bias"].stage
    if bool((stage == 2).any()):
        draws, view = experiment.streams.at("noise pull"), experiment.objective.view
        found = noise_pulls(experiment.learner, experiment.source, view, draws, WATCH_SAMPLES)
    else:
        found = NoisePull(*5 * (torch.full_like(experiment.learner.bias, torch.nan),))
    about = "E[h_i(x⁺⁺) 1{|<w_i, x⁺>| >= b_i} <2Dξ, v>] over ||w_i||"
    return {
        **trajectory(experiment),
        "pull_dense": Measurement(found.dense, f"{about}, largest of dense v", ("neuron",)),
        "pull_feature": Measurement(found.feature, f"{about}, v the feature that i has most of", ("neuron",)),
        "pull_sampled": Measurement(found.sampled, f"{about}², v = MMᵀw_i, noise sampled", ("neuron",)),
        "pull_closed": Measurement(found.closed, f"{about}², v = MMᵀw_i, closed form", ("neuron",)),
        "pull_firing": Measurement(found.firing, "Pr(h_i(x⁺⁺) != 0)", ("neuron",)),
    }


def masked_views(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """When neurons are above their thresholds on masked inputs (Lemmas B.5, B.6)."""
    draws, view = experiment.streams.at("masked census"), experiment.objective.view
    found = masked_firing(experiment.learner, experiment.source, view, draws, CENSUS_SAMPLES, NEARLY_ALL)
    return {
        "masked_firing": Measurement(found.view, "Pr(|<w_i, x⁺>| >= b_i)", ("neuron",)),
        "others_firing": Measurement(found.others, "Pr(|<w_i, x⁺ - 2DM_j z_j>| >= .99 b_i), j its own", ("neuron",)),
        "others_spread": Measurement(found.spread, "its standard deviation over ||w_i||, closed form", ("neuron",)),
    }


def all_dead(experiment: GradientTraining) -> Bool[Tensor, "replica"]:
    """Whether no neuron fires on any of a batch of inputs."""
    sample = experiment.source.sample(experiment.streams.at("watch"), WATCH_SAMPLES)
    return (experiment.learner(sample.x) == 0).flatten(1).all(1)


def census(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """What neurons hold and fire on."""
    source, learner = experiment.source, experiment.learner
    sample = source.sample(experiment.streams.at("census"), CENSUS_SAMPLES)
    own = members(alignment(learner.weight, source.dictionary))
    f, of_signal = learner(sample.x), learner(sample.signal)
    measures = false_firing, missed_firing, wrong_firing
    false, missed, wrong = (measure(f, sample.codes, own) for measure in measures)
    held, moved = amplitudes(learner.weight, source.dictionary), moved_by_noise(f, of_signal, sample.codes)
    return {
        "false_firing": Measurement(false, "Pr(no own feature present | fires)", ("neuron",)),
        "missed_firing": Measurement(missed, "Pr(silent | an own feature is present)", ("neuron",)),
        "wrong_firing": Measurement(wrong, "Pr(fires xor present) over Pr(fires or present)", ("neuron",)),
        "census_firing": Measurement(firing_rate(f), "Pr(h_i(x) != 0)", ("neuron",)),
        "members": Measurement(own.sum(-1), "|N_i|", ("neuron",), "features"),
        "amplitude": Measurement(held, "F_j: squared weights on j of neurons that hold it", ("feature",)),
        "noise_moves": Measurement(moved, "root mean square of ||f(x) - f(Mz)|| over that of ||f(Mz)||, z != 0"),
    }


def readouts(experiment: GradientTraining, labels: int = LABELS) -> Mapping[str, Measurement]:
    """Linear heads on the learned representation (Corollaries 3.3 and 3.5)."""
    sample = experiment.source.sample(experiment.streams.at("readout"), 2 * labels)
    return _heads(experiment, sample, representation=experiment.learner.one_by_one(sample.x))


def read_on_the_way(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """What linear heads read, and what neurons held, at moments on the way (Corollary 3.5, Theorem E.1)."""
    kept = experiment.rules["heads"]
    return {
        "moments": Measurement(kept.moments, "steps at which heads were trained", ("moment",)),
        "error_then": Measurement(kept.error, "squared error of y = <w*, z> then", ("moment",), "Var(y)"),
        "accuracy_then": Measurement(kept.accuracy, "accuracy on y = sign <w*, z> then", ("moment",)),
        "coverage_then": Measurement(kept.coverage, "share of features held by a singleton then", ("moment",)),
    }


def baselines(experiment: GradientTraining, labels: int = LABELS) -> Mapping[str, Measurement]:
    """Linear heads on the raw input, on the network before training, and on an oracle that knows M."""
    sample = experiment.source.sample(experiment.streams.at("readout"), 2 * labels)
    seen = sample.x @ experiment.source.dictionary
    oracle = soft_threshold(seen, torch.full_like(seen[..., 0, :], 0.5))
    return _heads(experiment, sample, raw=sample.x, untrained=experiment.learner.one_by_one(sample.x), oracle=oracle)


def _heads(
    experiment: GradientTraining, sample: SparseSample, **features: Iterable[Tensor]
) -> Mapping[str, Measurement]:
    """Half of the samples are labelled, by the task of the arm of one label; the others are held out."""
    task = LinearTask(linear_task(experiment.streams.at("task"), sample.codes.shape[-1]))
    found = {}
    for name, seen in features.items():
        error, accuracy = read_out(seen, task(sample), sample.x.shape[1] // 2)
        on = f"linear head on {name}, held-out samples"
        found[f"{name}_error"] = Measurement(error, f"squared error of y = <w*, z>: {on}", units="Var(y)")
        found[f"{name}_accuracy"] = Measurement(accuracy, f"accuracy on y = sign <w*, z>: {on}")
    return found


def bias_gradient(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Whether gradient descent would raise the biases (footnote 4)."""
    gradient = _batch(experiment, "bias gradient").threshold_gradient()
    about = "share of neurons whose bias gradient descent would raise"
    return {"bias_rises": Measurement((gradient < 0).double().mean(-1), about)}


def thresholds(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """How far thresholds ever were from the paper's formula."""
    error = experiment.rules["ledger"].error
    return {"schedule_error": Measurement(error, "largest |b_i - formula| over ||w_i||, all steps and neurons")}


def dense_parts(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """How much a neuron has of the single dense feature that it has most of (Theorems C.1(e) and E.1)."""
    peaks = dense_peaks(experiment.learner.weight, experiment.source.dictionary)
    return {"dense_peak": Measurement(peaks, "max_j |<w_i, M⊥_j>| over ||w_i||", ("neuron",))}


def optimal_learner(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """The pseudo-loss of singletons of the true features, with the gates that training found (Lemma E.11)."""
    found = optimal_learner_loss(_batch(experiment, "optimal learner"), experiment.source.dictionary)
    return {
        "trained_loss": Measurement(found.trained, "loss on the batch of the optimal learner", units="nats"),
        "optimal_loss": Measurement(found.optimal, "pseudo-loss of the optimal learner", units="nats"),
    }


def gradients(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """The Stage-III split (Definition E.4) and the pseudo-objective (Definition E.10) against autograd, in float64."""
    learner, objective, draws = experiment.learner, experiment.objective, experiment.streams.at("gradients")
    batch = experiment.source.sample(draws, 2 * SPLIT_SAMPLES, dtype=torch.float64)
    split, pseudo = errors_of_formulas(learner, objective.loss, objective.view, batch, draws)
    return {
        "split_error": Measurement(split, "four-term split against autograd, relative"),
        "pseudo_error": Measurement(pseudo, "pseudo-objective, relative"),
    }
