"""Closed forms of gradient features against counts and small cases."""

from itertools import product
from math import sqrt

import numpy as np
import pytest

from featscope.theory import gradient_features as theory


def test_sure_probabilities_are_those_of_counts():
    z = np.random.default_rng(0).standard_normal((400_000, 3))
    xor = ((z[:, 0] >= 1.2) & (abs(z[:, 1]) <= sqrt(2))).mean()
    assert theory.xor_sure_probability(1.0, 1.0) == pytest.approx(xor, rel=0.02)
    parity = ((z[:, 0] >= 1.5) & (abs(z[:, 1:]) <= 0.5).all(1)).mean()
    assert theory.parity_sure_probability(1.0, 3) == pytest.approx(parity, rel=0.05)
    mixture = ((z[:, 0] >= 1.5) & (z[:, 1] <= 0.5) & (z[:, 2] <= 1.0)).mean()
    assert theory.mixture_sure_probability((1.0, 1.0, 2.0), 0) == pytest.approx(mixture, rel=0.03)
    assert theory.parity_sure_probability(1.0, 1) == pytest.approx(0.0668, abs=1e-4)
    assert theory.xor_sure_probability(sqrt(np.log(np.log(100))), 1.0) == pytest.approx(0.0582, abs=1e-4)


@pytest.mark.parametrize(("blocks", "block"), [(1, 3), (3, 3), (3, 5)])
def test_the_wave_is_the_parity_on_signs_and_0_on_zeros(blocks, block):
    wave = theory.parity_wave(blocks, block)
    assert len(wave.readout) == 3 * blocks * (block + 1)
    z, y = theory.parity_cases(blocks, block)
    assert len(z) == (block + 1) ** blocks + 2 * blocks
    assert (y * wave(z)).min() == pytest.approx(1)
    assert wave(np.zeros((1, blocks))) == pytest.approx(0, abs=1e-12)
    assert wave.norm == pytest.approx(theory.wave_norm(blocks, block))
    assert wave.norm > theory.printed_wave_norm(blocks, block)


def test_numbers_of_the_specification():
    assert theory.wave_norm(1, 5) == pytest.approx(13.416, abs=1e-3)
    assert theory.printed_wave_norm(1, 5) == pytest.approx(10.954, abs=1e-3)
    assert theory.mirrored_cosine(3, 51, 0.1) == pytest.approx(1 / 3)
    assert theory.mirrored_cosine(1, 5, 0.25) == 1
    assert theory.label_input_mean(5, 0.25) == pytest.approx(sqrt(5) / 2)
    assert theory.mixture_hinge_bound(100, 1.35) == pytest.approx(0.602, abs=1e-3)
    assert theory.concentration_bound(4.0, 1000) == pytest.approx(0.2)
    assert theory.good_network_excess(2, 1.0, 3.0, 0.5, 4.0, 1.0, 16.0) == pytest.approx(6 * (1 + 2))


def test_linear_and_mixture_networks_answer_as_written():
    linear = theory.linear_network(0.5)
    assert linear(np.array([[2.0], [-1.0]])) == pytest.approx([4.0, -2.0])
    mixture = theory.mixture_network((1, -1), 100, 1.0, 1.0)
    k = sqrt(np.log(100))
    assert mixture(np.array([[3 * k, 0.0], [0.0, 4 * k], [k, k]])) == pytest.approx([1.0, -2.0, 0.0])


@pytest.mark.parametrize(("blocks", "block", "tuned"), [(1, 5, 0.25), (3, 3, 0.1), (3, 5, 0.12)])
def test_gradients_of_a_neuron_for_one_block_are_those_of_all_inputs(blocks, block, tuned):
    """Of every input with its weight: uniform ones, and those with one block of one sign alone."""
    uniform = np.array([*product((-1, 1), repeat=blocks * block)])
    label = np.sign(uniform.reshape(-1, blocks, block).prod(2).sum(1))
    alone = [np.kron(sign * np.eye(blocks)[j], np.ones(block)) for j in range(blocks) for sign in (1, -1)]
    x = np.concatenate([uniform, alone])
    y = np.concatenate([label, [1, -1] * blocks])
    weight = np.concatenate(
        [np.full(len(uniform), (1 - 2 * blocks * tuned) / len(uniform)), np.full(2 * blocks, tuned)]
    )
    unit = tuned * sqrt(block)
    along = x.reshape(-1, blocks, block).sum(2)[:, 0]

    def gradient(fires):
        return (weight * y * fires) @ x / unit

    own, mirrored = gradient(along == block), gradient(along < block)
    direction = np.kron(np.eye(blocks)[0], np.ones(block)) / sqrt(block)
    assert np.linalg.norm(own) == pytest.approx(theory.block_gradient_length(blocks, block, tuned))
    assert own @ direction == pytest.approx(np.linalg.norm(own))
    cosine = mirrored @ direction / np.linalg.norm(mirrored)
    assert cosine == pytest.approx(theory.mirrored_cosine(blocks, block, tuned))


def test_knots_of_a_mixture_are_in_units_of_its_spread():
    unit = 0.5 * sqrt(np.log(100))
    assert theory.mixture_network((1, -1), 100, 1.0, 0.5)(np.array([[3 * unit, 0.0]])) == pytest.approx(1.0)
