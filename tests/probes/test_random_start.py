"""What random neurons are and see, against laws and by hand. Seed 0; tolerances are 5 σ or more."""

import pytest
import torch

from featscope.data import SparseCoding
from featscope.losses import InfoNCE
from featscope.models import OrthogonalRows, SymmetricReLU
from featscope.probes.contrastive_gradient import ContrastiveBatch
from featscope.probes.random_start import BATCHES, likeness_by_noise, logit_deviation, lucky_set_size
from featscope.streams import Streams
from featscope.theory.decoupling import lucky_probability, noise_variance

STREAMS = Streams(0, range(2))


def test_lucky_sets_have_the_size_of_the_law():
    source = SparseCoding(6, 32).build(STREAMS.at("dictionary"))
    found = lucky_set_size(source.dictionary, 20, 1.8, STREAMS)
    assert found.tolist() == pytest.approx([20 * lucky_probability(6, 1.8)] * 2, rel=0.05)


@torch.no_grad()
def test_the_deviation_of_logits_is_the_largest_and_of_scaled_weights():
    source = SparseCoding(4, 16).build(STREAMS.at("dictionary"))
    network = SymmetricReLU(6, 0.5).build(source, STREAMS.at("weights"))
    x = source.sample(STREAMS.at("batch"), 7).x
    batch = ContrastiveBatch(network, InfoNCE(2.0), x[:, :3], x[:, :3], x[:, 3:])
    for scale in (0.25, 1.0):
        h = x @ network.weight.mT
        own = (h[:, :3] * h[:, :3]).sum(-1, keepdim=True)
        share = (scale * torch.cat([own, h[:, :3] @ h[:, 3:].mT], -1) / 2).softmax(-1)
        expected = 5 * (share - 1 / 5).abs().flatten(1).amax(1)
        torch.testing.assert_close(logit_deviation(batch, scale).float(), expected)


def test_rows_that_see_noise_alone_tell_samples_apart_by_it():
    """||f||² is m s² and products of two have the spread √m s²; the loss is that of the samples named."""
    source = SparseCoding(6, 64).build(STREAMS.at("dictionary"))
    with torch.no_grad():
        found = likeness_by_noise(source, OrthogonalRows(40), InfoNCE(0.5), STREAMS.at("rows"), 100, 50)
    s2 = noise_variance(6)
    assert found.own.tolist() == pytest.approx([40 * s2] * 2, rel=0.03)
    assert found.cross.tolist() == pytest.approx([40**0.5 * s2] * 2, rel=0.05)
    draws = STREAMS.at("rows")
    network = OrthogonalRows(40).build(source, draws)
    losses = []
    for _ in range(BATCHES):
        f = network(source.sample(draws, 150).x)
        losses.append(InfoNCE(0.5)(f[:, :100], f[:, :100], f[:, 100:]))
    torch.testing.assert_close(found.loss, torch.stack(losses).mean(0).double())
