"""Spectra of weights over residues."""

from math import pi

import torch

from featscope.probes import peak_frequency, peak_share, phase_at, power_spectrum

X = torch.arange(7).double()


def wave(frequency, phase=0.0, size=1.0):
    return size * torch.cos(phase + 2 * pi * frequency * X / 7)


def test_a_cosine_has_one_frequency_and_its_phase():
    vectors = torch.stack([wave(1, 0.4), wave(3, -2.0, 5.0) + 9])  # a constant does not count
    assert peak_frequency(vectors).tolist() == [1, 3]
    torch.testing.assert_close(peak_share(vectors), torch.ones(2).double())
    torch.testing.assert_close(phase_at(vectors, torch.tensor([1, 3])), torch.tensor([0.4, -2.0]).double())


def test_power_is_shared_by_the_squares_of_amplitudes():
    mixed = wave(1) + wave(2, 1.0, 2.0)
    power = power_spectrum(mixed)
    torch.testing.assert_close(power / power.sum(), torch.tensor([0.2, 0.8, 0.0]).double())
    torch.testing.assert_close(peak_share(mixed), torch.tensor(0.8).double())


def test_a_constant_has_no_frequency():
    assert peak_share(torch.zeros(7)).isnan()


def test_an_even_number_of_residues_has_the_alternating_frequency():
    assert peak_frequency(torch.tensor([1.0, -1.0, 1.0, -1.0])) == 2
