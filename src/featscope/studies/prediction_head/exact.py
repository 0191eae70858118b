"""The differential equation against gradients of the loss on a large batch."""

from collections.abc import Mapping

import torch

from featscope.data import PatchFeatures
from featscope.models import CubicPatchesNetwork, IdentityHead, OnlineNetwork
from featscope.theory.prediction_head import patch_moments
from featscope.training import Experiment, Measurement, PredictOtherView
from featscope.training.population import OrderParameters, Population

DATA = PatchFeatures(input_dim=10, patches=10, feature_patches=4, strong=1.3, weak=1.1, noise_std=0.5)
SAMPLES, BATCHES = 16384, 12
NEURONS = 3


def gradient(experiment: Experiment) -> Mapping[str, Measurement]:
    """The gradient of Algorithm 1's loss at random weights of three neurons and a random head, over the equation's.

    Measured is the component of the one along the other, relative; 1 if they agree. Everything is of the same order
    there: signal and noise, own and borrowed.
    """
    streams = experiment.streams
    source = DATA.build(streams.at("exact dictionary"))
    draws = streams.at("exact weights")
    weight = 0.5 * draws.normal(NEURONS, DATA.input_dim)
    head = IdentityHead(0.5 * draws.normal(NEURONS, NEURONS), torch.ones(len(weight), 1, 1))
    network = OnlineNetwork(CubicPatchesNetwork(weight), head).to(streams.device)
    objective = PredictOtherView(samples=SAMPLES, noise="dense")

    pulls = {name: torch.zeros_like(p) for name, p in network.named_parameters()}
    with torch.enable_grad():
        for batch in range(BATCHES):
            network.zero_grad()
            objective(network, source, streams.at("exact batch", batch)).sum().backward()
            for name, parameter in network.named_parameters():
                assert parameter.grad is not None, "all parameters are trained"
                pulls[name] -= parameter.grad / BATCHES

    moved, features = pulls["encoder.weight"].double(), source.dictionary.double()
    where = weight.double()
    off = torch.eye(features.shape[1], dtype=torch.float64, device=where.device) - features @ features.mT
    db = (moved @ features).movedim(0, -1)
    dr = (moved @ off @ where.mT + where @ off @ moved.mT).movedim(0, -1)
    de = pulls["head.scaled"].double().movedim(0, -1)
    measured = OrderParameters(db, dr, de).pack()
    here = OrderParameters(
        *(x.detach().double().movedim(0, -1) for x in (where @ features, where @ off @ where.mT, head.off_diagonal))
    )
    m = patch_moments(DATA.patches, DATA.feature_patches, DATA.strong, DATA.weak)
    one = torch.ones(len(where), dtype=torch.float64, device=where.device)
    same, own = (torch.tensor(x, dtype=torch.float64, device=where.device)[:, None] * one for x in (m.same, m.own))
    of = Population(same, own, m.noise_patches * one, DATA.noise_std**6 * one, one)
    exact = of.velocity(here.pack(), NEURONS)
    along = (measured * exact).sum(0) / (exact**2).sum(0)
    apart = (measured - exact).square().sum(0).sqrt() / (exact**2).sum(0).sqrt()
    return {
        "gradient_along": Measurement(along, (), "1", "gradient of a large batch along the equation's, relative"),
        "gradient_apart": Measurement(apart, (), "1", "distance of the two, relative"),
    }
