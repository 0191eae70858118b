"""Patches with a strong and a weak feature."""

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp

from featscope.data import PatchFeatures
from featscope.kernels import BACKENDS
from featscope.models import CubicPatches, IdentityInit, OnlineNetwork
from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.theory.prediction_head import patch_moments
from featscope.training import SGD, GradientTraining, PredictOtherView
from featscope.views import patch_split

SMALL = PatchFeatures(input_dim=6, patches=8, feature_patches=2, strong=3.0, weak=1.5, strong_share=0.75, noise_std=0.6)


def test_samples_are_those_of_definition_3_1():
    source = SMALL.build(Streams(0, range(2)).at("dictionary"))
    x = source.sample(Streams(0, range(2)).at("batch"), 4000, torch.float64)
    along = x @ source.dictionary.double()[:, None]
    shown, noise = along[:, :, :2], along[:, :, 2:]
    assert float(noise.abs().max()) < 1e-6  # noise is off the features
    size = shown.abs().amax(-1)
    assert set(size.round(decimals=4).unique().tolist()) == {3.0, 1.5}
    torch.testing.assert_close(shown[:, :, 0], shown[:, :, 1])  # one sign and feature a sample
    share = (size[:, :, 0] > 2).double().mean(1)
    assert (share - 0.75).abs().max() < 4 * np.sqrt(0.75 * 0.25 / 4000)
    std = x[:, :, 2:].square().sum(-1).mean((1, 2)) / 4  # four dimensions are off the features
    assert (std.sqrt() - 0.6).abs().max() < 0.01


def test_both_features_have_signs_of_their_own():
    data = PatchFeatures(input_dim=6, patches=8, feature_patches=2, both=True)
    codes = data.build(Streams(0, range(1)).at("dictionary")).codes(Streams(0, range(1)).at("batch"), 2000)[0]
    assert codes.shape == (2000, 4, 2)
    first, second = codes[:, 0, 0], codes[:, 2, 1]
    assert torch.equal(codes[:, 0, 1], torch.zeros(2000))
    assert abs(float((first.sign() * second.sign()).mean())) < 4 / np.sqrt(2000)


def test_neurons_begin_with_norm_one_but_for_their_overlaps():
    source = PatchFeatures(input_dim=400).build(Streams(0, range(2)).at("dictionary"))
    free = CubicPatches(500).build(source, Streams(0, range(2)).at("weights")).weight.detach()
    np.testing.assert_allclose(free.square().sum(-1).mean(1), 1, rtol=0.02)
    weight = CubicPatches(2, (0.3, 0.05, 0.12, 0.15)).build(source, Streams(0, range(2)).at("weights")).weight.detach()
    wanted = torch.tensor([[0.3, 0.05], [0.12, 0.15]]).expand(2, 2, 2)
    torch.testing.assert_close(weight @ source.dictionary, wanted, atol=1e-5, rtol=0)


@pytest.mark.parametrize("both", [False, True])
def test_moments_of_halves(both: bool):
    """Signal patches in either view, from 200,000 masks; three decimals at four standard errors."""
    patches, shown = 10, 3
    draws = Streams(0, range(1)).at("masks")
    first = patch_split(draws, 200_000, patches)[0].double()
    assert torch.equal(first.sum(1), torch.full((200_000,), 5.0, dtype=torch.float64))
    k = first[:, :shown].sum(1)
    moments = patch_moments(patches, shown, 2.0, 1.0, 0.3, both=both)
    share = 1.0 if both else 0.3
    assert moments.own[0] == pytest.approx(share * 64 * float(k.square().mean()), rel=0.01)
    assert moments.same[0] == pytest.approx(share * 64 * float((k * (shown - k)).mean()), rel=0.01)
    assert moments.noise_patches == (patches - shown * (2 if both else 1)) / 2


def one_gradient(noise: str, seed: int, replicas: int = 400) -> torch.Tensor:
    """The weights' gradient of one batch for each of many replicas with the same weights."""
    streams = Streams(seed, range(replicas))
    source = SMALL.build(Streams(0, [0] * replicas).at("dictionary"))
    encoder = CubicPatches().build(source, Streams(0, [0] * replicas).at("weights"))
    head = IdentityInit(0.5).build(2, replicas)
    with torch.no_grad():
        head.scaled += 0.4
    network = OnlineNetwork(encoder, head)
    loss = PredictOtherView(samples=16, noise=noise)(network, source, streams.at("batch"))  # type: ignore[arg-type]
    loss.sum().backward()
    gradient = encoder.weight.grad
    assert gradient is not None
    return torch.cat([loss.detach()[:, None], gradient.flatten(1)], 1)


def test_projected_noise_has_the_law_of_dense_noise():
    """Loss and all gradients by Kolmogorov and Smirnov, their second moments by z < 4.5 (false alarms: about 1 %)."""
    dense, lazy = one_gradient("dense", 1), one_gradient("projected", 2)
    assert min(ks_2samp(a, b).pvalue for a, b in zip(dense.T.numpy(), lazy.T.numpy(), strict=True)) > 1e-3 / 2
    outer = [g[:, 1:, None] * g[:, None, 1:] for g in (dense, lazy)]
    apart = (outer[0].mean(0) - outer[1].mean(0)).abs()
    error = sum(o.var(0) / len(o) for o in outer).sqrt()
    assert float((apart / error).max()) < 4.5


def test_trajectories_with_projected_noise_have_the_law_of_dense_ones():
    """60 steps, 200 replicas: overlaps and norms at the end by Kolmogorov and Smirnov (false alarms: about 1 %)."""
    ends = []
    for noise, seed in (("dense", 3), ("projected", 4)):
        streams = Streams(seed, range(200))
        source = SMALL.build(Streams(0, [0] * 200).at("dictionary"))
        encoder = CubicPatches().build(source, Streams(0, [0] * 200).at("weights"))
        network = OnlineNetwork(encoder, IdentityInit(0.5).build(2, 200))
        objective = PredictOtherView(samples=16, noise=noise)  # type: ignore[arg-type]
        experiment = GradientTraining(source, network, objective, SGD(lr=0.05, weight_decay=0.0), {}, streams)
        for step in range(60):
            experiment.advance(step)
        overlap = encoder.weight.detach() @ source.dictionary
        norms = encoder.weight.detach().square().sum(-1)
        ends.append(torch.cat([overlap.flatten(1), norms, network.head.off_diagonal.detach().flatten(1)[:, 1:3]], 1))
    pairs = zip(ends[0].T.numpy(), ends[1].T.numpy(), strict=True)
    assert min(ks_2samp(a, b).pvalue for a, b in pairs) > 1e-3


def test_lazy_noise_may_be_looked_at_once():
    source = SMALL.build(Streams(0, range(1)).at("dictionary"))
    batch = source.projected(Streams(0, range(1)).at("batch"), 4)
    batch.project(torch.ones(1, 2, 6))
    with pytest.raises(ConfigError, match=r"noise = 'projected' .* allowed is 'dense'"):
        batch.project(torch.ones(1, 2, 6))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"patches": 7}, "patches = 7 is out of range: allowed is even, >= 4"),
        ({"feature_patches": 19}, "feature_patches = 19 is out of range: allowed is between 1 and 18"),
        ({"both": True, "feature_patches": 10}, "allowed is between 1 and 9"),
        ({"strong_share": 1.0}, "strong_share = 1.0 is out of range: allowed is between 0 and 1"),
        ({"noise_std": 0.0}, "noise_std = 0.0 is out of range: allowed is > 0"),
    ],
)
def test_wrong_options_are_named(wrong, message: str):
    with pytest.raises(ConfigError, match=message):
        PatchFeatures(**wrong)


@pytest.mark.parametrize("shape", [(1, 7, 20), (3, 64, 16)])
def test_halves_are_the_same_in_machine_code_and_in_torch(shape, monkeypatch):
    (replicas, count, patches), found = shape, []
    for kernels in BACKENDS:
        monkeypatch.setenv("FEATSCOPE_KERNELS", kernels)
        found.append(patch_split(Streams(0, range(replicas)).at("batch"), count, patches))
    assert torch.equal(*found)
    assert torch.equal(found[0].sum(-1), torch.full((replicas, count), patches / 2))
