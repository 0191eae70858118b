"""What is measured on trained networks of `fourier-circuits`."""

from collections.abc import Mapping

import torch
from torch import Tensor

from featscope.models.polynomial_network import PolynomialNetwork, label_margins
from featscope.probes.fourier import peak_frequency, peak_share, phase_at, power_spectrum
from featscope.theory import fourier_circuits as theory
from featscope.training import GradientTraining, Measurement

ACTIVE = 0.1
"""Neurons whose norm is a smaller part of the largest are left out: their spectra are noise."""


def progress(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Cross-entropy, norm, margin over γ* and how far embeddings are cosines."""
    network, source = experiment.learner, experiment.source
    k, p = source.options.inputs, source.options.modulus
    logits = network.on_all_points()
    right = label_margins(logits.double(), source.labels.expand(logits.shape[:2]))[0]
    norm = network.norm().double()
    gamma = right / (norm ** (k + 1) * theory.best_margin(k, p))[:, None]
    hidden = ~source.shown
    shares = peak_share(network.vectors()[:, :, :k]).where(_active(network)[..., None], torch.nan)
    found = {
        "cross_entropy": Measurement(source.cross_entropy(logits), "cross-entropy of the points to train on (nats)"),
        "norm": Measurement(norm, "‖θ‖"),
        "margin": Measurement(_least(gamma, source.shown), "least margin of the points to train on over γ*"),
        "margin_everywhere": Measurement(gamma.amin(1), "least margin of all points over γ*"),
        "accuracy": Measurement(_share(right > 0, source.shown), "accuracy on the points to train on"),
        "peak_share": Measurement(shares.nanmean((1, 2)), "power of an embedding at its largest frequency, mean"),
    }
    if hidden.any():
        found["test_accuracy"] = Measurement(_share(right > 0, hidden), "accuracy on all other points")
    return found


def _active(network: PolynomialNetwork) -> Tensor:
    norms = network.neuron_norms()
    return norms >= ACTIVE * norms.amax(1, keepdim=True)


def _least(values: Tensor, where: Tensor) -> Tensor:
    return values.masked_fill(~where, torch.inf).amin(1)


def _share(truths: Tensor, where: Tensor) -> Tensor:
    return (truths & where).sum(1).double() / where.sum(1)


def spectra(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Largest share of power of each embedding at the start."""
    shares = peak_share(experiment.learner.vectors()[:, :, : experiment.source.options.inputs])
    return {"start_shares": Measurement(shares, "share of its largest frequency at the start", ("neuron", "input"))}


def neurons(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Every neuron at the end: frequencies, phases, norms of its vectors; NaN for neurons that are not active."""
    network = experiment.learner
    k, p = experiment.source.options.inputs, experiment.source.options.modulus
    vectors = network.vectors()
    active = _active(network)
    frequencies = power_spectrum(vectors).sum(-2).argmax(-1) + 1
    phases = phase_at(vectors, frequencies[..., None].expand(vectors.shape[:3]))
    off = phases[..., :k].sum(-1) - phases[..., k]
    norms = network.neuron_norms().double()
    mass = norms ** (k + 1)
    of_each = torch.nn.functional.one_hot(frequencies - 1, p // 2) * mass[..., None]
    own = peak_frequency(vectors)
    dims = ("neuron",)

    def of_active(values: Tensor, about: str, *more: str) -> Measurement:
        keep = active.view(*active.shape, *[1] * (values.ndim - 2))
        return Measurement(values.double().where(keep, torch.nan), about, (*dims, *more))

    return {
        "shares": of_active(peak_share(vectors[:, :, :k]), "share of power at the largest frequency", "input"),
        "frequency": of_active(frequencies, "frequency of a neuron: of the largest power over its vectors"),
        "same_frequency": of_active((own == frequencies[..., None]).all(-1), "whether all its vectors have it"),
        "phase_rule": of_active(off.cos(), "cosine of the sum of the phases of u less that of w"),
        "blocks": of_active(
            vectors.double().square().sum(-1) / norms.square()[..., None] * (k + 1),
            "‖v‖²/‖θ_i‖² of each vector of a neuron, times k + 1",
            "vector",
        ),
        "masses": Measurement(
            of_each.sum(1) / mass.sum(1, keepdim=True) * (p // 2),
            "Σ ‖θ_i‖^(k+1) of each frequency's neurons over the mean of frequencies",
            ("zeta",),
        ),
        "weights": Measurement(vectors, "weights", ("neuron", "vector", "residue")),
    }


def step_size(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """The step size that the optimizer used last; NaN where it has taken no step."""
    (group,) = experiment.optimizer.param_groups
    size = torch.full_like(experiment.diverged, group["lr"], dtype=torch.float64)
    size[experiment.last_look < 1] = torch.nan
    return {"step_size": Measurement(size, "step size of the last step")}
