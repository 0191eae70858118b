"""Gradients of the contrastive loss: by finite differences, by parts, and by the formulas of the paper."""

from dataclasses import replace

import pytest
import torch

from featscope.data import SparseCoding, SparseSample
from featscope.losses import InfoNCE
from featscope.models import SymmetricReLU
from featscope.probes.contrastive_gradient import ContrastiveBatch, errors_of_formulas
from featscope.streams import Streams
from featscope.views import RandomMask

STREAMS, COUNT = Streams(0, range(2)), 5


def batch(noise: float = 0.5, scale: str = "tau") -> tuple[ContrastiveBatch, SparseSample]:
    """Masked anchors and their positives, and unmasked negatives, to neurons of which some are silent; in float64."""
    source = SparseCoding(4, 16, noise=noise).build(STREAMS.at("dictionary")).double()
    network = SymmetricReLU(6, 1.0).build(source, STREAMS.at("weights")).double()
    network.bias.copy_(0.3 * STREAMS.at("biases").uniform(6))
    sample = source.sample(STREAMS.at("batch"), 2 * COUNT, dtype=torch.float64)
    x, negatives = sample.x.chunk(2, 1)
    return ContrastiveBatch(network, InfoNCE(0.7, scale), *RandomMask()(x, STREAMS.at("mask")), negatives), sample


def by_differences(of, at: torch.Tensor, size: float = 1e-6) -> torch.Tensor:
    """The gradient of ``of(at)`` ``[replica]``, an entry at a time."""
    found = torch.zeros_like(at)
    for place in range(at[0].numel()):
        step = torch.zeros_like(at)
        step.flatten(1)[:, place] = size
        found.flatten(1)[:, place] = (of(at + step) - of(at - step)) / (2 * size)
    return found


@torch.no_grad()
def test_logits_are_shares_of_the_keys():
    one, _ = batch()
    h = [one.network(v) for v in (one.anchor, one.positive, one.negatives)]
    for replica in range(2):
        for anchor in range(COUNT):
            keys = [h[1][replica, anchor], *h[2][replica]]
            exponentials = torch.stack([(h[0][replica, anchor] @ key / 0.7).exp() for key in keys])
            assert torch.allclose(one.logits()[replica, anchor], exponentials / exponentials.sum())


@torch.no_grad()
def test_gradients_are_those_of_the_anchors_alone():
    """Keys are constants; so are thresholds in the one and weights in the other."""
    one, _ = batch()
    w, b = one.network.weight.detach().clone(), one.network.bias.clone()
    keys = one.network(one.positive), one.network(one.negatives)

    def loss(weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        u = one.anchor @ weight.mT
        return one.loss(torch.relu(u - bias[:, None]) - torch.relu(-u - bias[:, None]), *keys)

    torch.testing.assert_close(one.gradient(), by_differences(lambda at: loss(at, b), w), atol=1e-8, rtol=1e-6)
    torch.testing.assert_close(
        one.threshold_gradient(), by_differences(lambda at: loss(w, at), b), atol=1e-8, rtol=1e-6
    )
    torch.testing.assert_close(one.pseudo_gradient(), one.gradient(), atol=1e-14, rtol=1e-12)


@torch.no_grad()
def test_a_pseudo_gradient_has_a_gate_for_each_neuron_and_anchor():
    one, _ = batch()
    silent = replace(one, network=one.network)
    silent.network.bias.fill_(1e3)
    assert (silent.pseudo_gradient() == 0).all()


@torch.no_grad()
def test_parts_sum_to_the_gradient_and_say_through_what_it_came():
    one, sample = batch()
    x = sample.x[:, :COUNT]
    parts = one.split(x, sample.codes, sample.dictionary)
    torch.testing.assert_close(
        parts.whole, -one.gradient() @ sample.dictionary, atol=1e-7, rtol=1e-6
    )  # float32 columns
    assert all(part.abs().max() > 1e-3 for part in parts)
    quiet, of_signal = batch(noise=1e-16)
    assert quiet.split(of_signal.x[:, :COUNT], of_signal.codes, of_signal.dictionary).noise_crosstalk.abs().max() < 1e-6


@torch.no_grad()
def test_the_part_through_a_feature_is_its_share_of_the_keys():
    """Ψ by a loop: what the feature alone, less the threshold, gives a key that fires, times z_j of an open anchor."""
    one, sample = batch()
    feature = one.split(sample.x[:, :COUNT], sample.codes, sample.dictionary).feature
    w, b, share = one.network.weight[0], one.network.bias[0], one.logits()[0]
    keys = (one.positive[0], sample.codes[0, :COUNT]), (one.negatives[0], sample.codes[0, COUNT:])

    def psi(x: torch.Tensor, z: torch.Tensor, i: int, j: int) -> float:
        u, threshold = float(w[i] @ x), float(b[i])
        alone = float(w[i] @ sample.dictionary[0, :, j] * z[j]) - threshold * (1 if u > 0 else -1)
        return alone if abs(u) > threshold else 0.0

    for i in range(6):
        for j in range(4):
            total = 0.0
            for k in range(COUNT):
                if abs(w[i] @ one.anchor[0, k]) >= b[i]:
                    own = (1 - share[k, 0]) * psi(keys[0][0][k], keys[0][1][k], i, j)
                    others = sum(share[k, 1 + s] * psi(keys[1][0][s], keys[1][1][s], i, j) for s in range(COUNT))
                    total += float((own - others) * sample.codes[0, k, j]) / COUNT
            assert float(feature[0, i, j]) == pytest.approx(total, abs=1e-12)


@torch.no_grad()
def test_formulas_are_off_by_rounding():
    """The dictionary is made orthonormal to float64 within; a loss with another scale is another gradient."""
    source = SparseCoding(4, 16, "qr").build(STREAMS.at("dictionary"))
    network = SymmetricReLU(6, 1.0).build(source, STREAMS.at("weights"))
    network.bias.fill_(0.2)
    sample = source.sample(STREAMS.at("batch"), 2 * COUNT, dtype=torch.float64)
    found = errors_of_formulas(network, InfoNCE(0.7), RandomMask(), sample, STREAMS.at("mask"))
    assert max(float(error.max()) for error in found) < 1e-12
    split, _ = errors_of_formulas(network, InfoNCE(0.7, "1"), RandomMask(), sample, STREAMS.at("mask"))
    assert split.tolist() == pytest.approx([0.3, 0.3])  # without the leading τ all is 1/τ as large
    assert network.weight.dtype == torch.float32
