"""What is measured on a network: along the way, and once at the end."""

from collections.abc import Mapping
from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from featscope.data import SparseCodingSource, SparseSample, linear_task
from featscope.models import SymmetricReLUNetwork, soft_threshold
from featscope.probes import (
    alignment,
    cosine_to_noise,
    coverage,
    false_firing,
    firing_rate,
    missed_firing,
    owner,
    singletons,
)
from featscope.probes.downstream import classification_accuracy, regression_error
from featscope.streams import Streams
from featscope.training import Contrastive, Experiment, Measurement

WATCH_SAMPLES = 512
CENSUS_SAMPLES = 4096
LABELS = 6000  # of order d^1.001 times a polylogarithm (Corollary 3.5)


def parts(experiment: Experiment) -> tuple[SparseCodingSource, SymmetricReLUNetwork]:
    """Source and learner."""
    return cast(SparseCodingSource, experiment.source), cast(SymmetricReLUNetwork, experiment.learner)


def trajectory(experiment: Experiment) -> Mapping[str, Measurement]:
    """Measured along the way."""
    source, learner = parts(experiment)
    cosines = alignment(learner.weight, source.dictionary)
    sample = source.sample(experiment.streams.at("watch"), WATCH_SAMPLES)  # the same inputs at every step
    activation = learner(sample.x)
    norm = learner.weight.norm(dim=-1)
    return {
        "alignment": Measurement(cosines, ("neuron", "feature"), "1", "cosine of neuron and feature"),
        "norm": Measurement(norm, ("neuron",), "1", "||w_i||"),
        "bias": Measurement(learner.bias, ("neuron",), "1", "b_i"),
        "firing_rate": Measurement(firing_rate(activation), ("neuron",), "1", "Pr(h_i(x) != 0)"),
        "coverage": Measurement(coverage(cosines), (), "1", "share of features held by a singleton neuron"),
        "singletons": Measurement(singletons(cosines).sum(-1), (), "neurons", "neurons that hold one feature"),
        "noise_cosine": Measurement(
            cosine_to_noise(activation, learner(sample.noise)), (), "1", "mean cosine of f(x) and f(ξ)"
        ),
    }


def all_dead(experiment: Experiment) -> Bool[Tensor, "replica"]:
    """Whether no neuron fires on any of a batch of inputs."""
    source, learner = parts(experiment)
    return (learner(source.sample(experiment.streams.at("watch"), WATCH_SAMPLES).x) == 0).flatten(1).all(1)


def census(experiment: Experiment) -> Mapping[str, Measurement]:
    """What neurons hold and fire on, at the end of training."""
    source, learner = parts(experiment)
    sample = source.sample(experiment.streams.at("census"), CENSUS_SAMPLES)
    cosines = alignment(learner.weight, source.dictionary)
    single = singletons(cosines)
    members = cosines.abs() >= cosines.abs().amax(-1, keepdim=True) / 2  # N_i, the late-time form of Appendix A.4
    activation, of_signal = learner(sample.x), learner(sample.signal)
    holds = torch.nn.functional.one_hot(owner(cosines), source.config.features) * single[..., None]
    amplitude = ((learner.weight @ source.dictionary).square() * holds).sum(-2)
    present = (sample.codes != 0).any(-1)  # f(Mz) = 0 where z = 0
    moved = ((activation - of_signal).norm(dim=-1).square() * present).sum(-1) / present.sum(-1)
    kept = (of_signal.norm(dim=-1).square() * present).sum(-1) / present.sum(-1)
    return {
        "false_firing": Measurement(
            false_firing(activation, sample.codes, members),
            ("neuron",),
            "1",
            "Pr(no own feature present | fires)",
        ),
        "missed_firing": Measurement(
            missed_firing(activation, sample.codes, members), ("neuron",), "1", "Pr(silent | an own feature is present)"
        ),
        "census_firing": Measurement(firing_rate(activation), ("neuron",), "1", "Pr(h_i(x) != 0)"),
        "members": Measurement(members.sum(-1), ("neuron",), "features", "|N_i|"),
        "amplitude": Measurement(amplitude, ("feature",), "1", "F_j: squared weights on j of neurons that hold it"),
        "noise_moves": Measurement(
            (moved / kept).sqrt(),
            (),
            "1",
            "root mean square of ||f(x) - f(Mz)|| over that of ||f(Mz)||, z != 0",
        ),
    }


def sign_labels(sample: SparseSample, streams: Streams) -> Float[Tensor, "replica batch"]:
    """y = sign <w*, z>, 0 where z = 0."""
    return _targets(sample, streams).sign()


def _targets(sample: SparseSample, streams: Streams) -> Float[Tensor, "replica batch"]:
    task = linear_task(streams.at("task"), sample.codes.shape[-1])
    return torch.einsum("rbf,rf->rb", sample.codes, task)


def _read_out(
    experiment: Experiment,
    features: Float[Tensor, "replica sample feature"],
    y: Float[Tensor, "replica sample"],
) -> tuple[Tensor, Tensor]:
    pairs = [(f[:LABELS], t[:LABELS], f[LABELS:], t[LABELS:]) for f, t in zip(features, y, strict=True)]
    errors = [regression_error(*pair) for pair in pairs]
    accuracies = [classification_accuracy(f, t.sign(), g, u.sign()) for f, t, g, u in pairs]
    return torch.tensor(errors, dtype=torch.float64), torch.tensor(accuracies, dtype=torch.float64)


def _readout_measurements(name: str, errors: Tensor, accuracies: Tensor) -> Mapping[str, Measurement]:
    where = f"linear head on {name}, held-out samples"
    return {
        f"{name}_error": Measurement(errors, (), "Var(y)", f"squared error of y = <w*, z>: {where}"),
        f"{name}_accuracy": Measurement(accuracies, (), "1", f"accuracy on y = sign <w*, z>: {where}"),
    }


def readouts(experiment: Experiment) -> Mapping[str, Measurement]:
    """Linear heads on the learned representation (Corollaries 3.3 and 3.5)."""
    source, learner = parts(experiment)
    sample = source.sample(experiment.streams.at("readout"), 2 * LABELS)
    y = _targets(sample, experiment.streams)
    return _readout_measurements("representation", *_read_out(experiment, learner(sample.x), y))


def baselines(experiment: Experiment) -> Mapping[str, Measurement]:
    """Linear heads on the raw input, on the network before training, and on an oracle that knows M."""
    source, learner = parts(experiment)
    sample = source.sample(experiment.streams.at("readout"), 2 * LABELS)
    y = _targets(sample, experiment.streams)
    seen = sample.x @ source.dictionary
    oracle = soft_threshold(seen, torch.full_like(seen[..., 0, :], 0.5))
    found: dict[str, Measurement] = {}
    for name, features in {"raw": sample.x, "untrained": learner(sample.x), "oracle": oracle}.items():
        found |= _readout_measurements(name, *_read_out(experiment, features, y))
    return found


def bias_gradient(experiment: Experiment) -> Mapping[str, Measurement]:
    """Whether gradient descent would raise the biases (footnote 4)."""
    source, learner = parts(experiment)
    objective = cast(Contrastive, experiment.objective)
    anchor, positive, negatives = objective.batch(source, experiment.streams.at("bias gradient"))
    with torch.enable_grad():
        bias = learner.bias.clone().requires_grad_()
        anchored = soft_threshold(anchor @ learner.weight.detach().mT, bias)
        (gradient,) = torch.autograd.grad(objective.loss(anchored, learner(positive), learner(negatives)).sum(), bias)
    about = "share of neurons whose bias gradient descent would raise"
    return {"bias_rises": Measurement((gradient < 0).double().mean(-1), (), "1", about)}
