"""The optimal learner behind the gates of a network, and what neurons have of single dense directions."""

import numpy as np
import pytest
import torch

from featscope.losses import InfoNCE
from featscope.models import SymmetricReLUNetwork
from featscope.probes.contrastive_gradient import ContrastiveBatch
from featscope.probes.optimal_learner import SCALES, optimal_learner_loss
from featscope.probes.random_start import dense_peaks


def test_a_network_of_singletons_is_its_own_optimal_learner():
    """At the best of several amplitudes it is at least as good; a mixture is left out."""
    torch.manual_seed(0)
    dictionary, weight = torch.eye(8, 4)[None], torch.zeros(1, 5, 8)
    weight[0, :4, :4] = 2 * torch.eye(4)
    weight[0, 4, :4] = 0.1
    network = SymmetricReLUNetwork(weight)
    network.bias.fill_(0.2)
    x = torch.randn(1, 64, 8)
    batch = ContrastiveBatch(network, InfoNCE(), x[:, :32], x[:, :32], x[:, 32:])
    with torch.no_grad():
        found = optimal_learner_loss(batch, dictionary)
        alone = SymmetricReLUNetwork(weight[:, :4])
        alone.bias.fill_(0.2)
        views = batch.anchor, batch.positive, batch.negatives
        pure = optimal_learner_loss(ContrastiveBatch(alone, InfoNCE(), *views), dictionary)
    assert float(pure.optimal) <= float(pure.trained) + 1e-6
    torch.testing.assert_close(found.optimal, pure.optimal)


def test_the_optimal_learner_by_hand():
    """Neurons at 2 and -1 of two features: gates of w, amplitudes of their mean, of which no neuron's is one."""
    dictionary, weight = torch.eye(2)[None], torch.tensor([[[2.0, 0.0], [0.0, -1.0]]])
    network, tau = SymmetricReLUNetwork(weight), 4.0
    network.bias.fill_(0.5)
    anchors = torch.tensor([[[1.0, 0.4], [-2.0, 0.0]]])  # the second neuron, at 0.4, is below its bias
    positives, negatives = torch.tensor([[[1.0, 0.0], [0.5, 0.0]]]), torch.tensor([[[0.0, 2.0]]])
    with torch.no_grad():
        batch = ContrastiveBatch(network, InfoNCE(tau), anchors, positives, negatives)
        found = optimal_learner_loss(batch, dictionary)
    keys = np.array([1.5, 0.5])  # of the first neuron; the second's are 0, and the negative's at the first is
    losses = []
    for scale in SCALES:
        outputs = np.array([1.5 * scale - 0.5, -3 * scale + 0.5])  # at the mean amplitude, 1.5, times the scale
        losses.append(np.mean(tau * np.log1p(np.exp(-outputs * keys / tau))))
    assert 0 < np.argmin(losses) < len(SCALES) - 1
    assert float(found.optimal) == pytest.approx(min(losses), rel=1e-5)
    at_w = tau * np.log1p(np.exp(-np.array([1.5, -3.5]) * keys / tau))
    assert float(found.trained) == pytest.approx(np.mean(at_w), rel=1e-5)


def test_dense_peaks_see_directions_off_the_features_only():
    dictionary = torch.eye(8, 4)[None]
    weight = torch.zeros(1, 2, 8)
    weight[0, 0, 0] = 3.0  # a feature
    weight[0, 1, [0, 6]] = torch.tensor([4.0, 3.0])
    assert torch.allclose(dense_peaks(weight, dictionary), torch.tensor([[0.0, 0.6]]), atol=1e-6)
