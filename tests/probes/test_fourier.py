"""Spectra of weights over residues."""

from math import pi

import jaxtyping
import pytest
import torch

from featscope.probes import (
    matrix_power_spectrum,
    peak_frequency,
    peak_share,
    phase_at,
    power_spectrum,
    share_of_largest,
)

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


@pytest.mark.parametrize("residues", [2, 7, 8])
def test_shares_of_power_are_those_of_the_squared_norm_also_of_an_even_number_of_residues(residues):
    vectors = torch.randn(3, residues, generator=torch.Generator().manual_seed(0)).double()
    squares = (vectors - vectors.mean(-1, keepdim=True)).square().sum(-1)
    torch.testing.assert_close(2 * power_spectrum(vectors).sum(-1), residues * squares)
    first, alternating = torch.cos(2 * pi * torch.arange(8) / 8), torch.cos(pi * torch.arange(8))
    assert peak_share(2 * first + alternating) == pytest.approx(2 / 3)  # squared norms of 16 and 8
    assert peak_frequency(1.5 * first + alternating) == 1


def test_a_product_of_cosines_has_two_bins_and_a_cosine_of_a_sum_one():
    rows, columns = X[:, None], X[None, :]
    product = torch.cos(2 * pi * 2 * rows / 7) * torch.cos(0.3 + 2 * pi * columns / 7) + rows + 5
    power = matrix_power_spectrum(torch.cos(2 * pi * 2 * rows / 7) * torch.cos(0.3 + 2 * pi * columns / 7))
    assert power.shape == (6, 3)
    assert sorted((power > 1e-9).nonzero().tolist()) == [[1, 0], [4, 0]]  # frequencies (2, 1) and (-2, 1)
    torch.testing.assert_close(matrix_power_spectrum(product), power)  # what is constant along rows does not count
    of_sum = matrix_power_spectrum(torch.cos(2 * pi * (rows + 3 * columns) / 7))
    assert (of_sum > 1e-9).nonzero().tolist() == [[0, 2]]
    assert share_of_largest(power.flatten(), 1) == pytest.approx(0.5)
    assert share_of_largest(power.flatten(), 99) == 1


def test_a_list_has_no_largest(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which refuses it first, in tests alone
    with pytest.raises(TypeError, match=r"got a list: expected a torch\.Tensor"):
        share_of_largest([1.0, 2.0], 1)


def test_the_half_plane_has_half_of_the_power():
    matrix = torch.randn(7, 7, generator=torch.Generator().manual_seed(0))
    whole = torch.fft.fft2(matrix.double()).abs().square()[1:, 1:]
    assert 2 * matrix_power_spectrum(matrix).sum() == pytest.approx(float(whole.sum()))


def test_matrices_over_an_even_number_are_refused_and_nothing_has_no_share():
    with pytest.raises(ValueError, match="8 columns"):
        matrix_power_spectrum(torch.ones(8, 8))
    assert share_of_largest(torch.zeros(4), 2).isnan()


@pytest.mark.parametrize("residues", [5, 7, 12, 13])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_constant_has_no_power_and_not_that_of_rounding(residues, dtype):
    power = power_spectrum(torch.full((residues,), 0.1, dtype=dtype))
    assert not power.any()
    square = torch.full((residues, residues - 1 + residues % 2), 1 / 3, dtype=dtype)
    assert share_of_largest(matrix_power_spectrum(square).flatten(-2), 5).isnan()
    assert power_spectrum(torch.full((residues,), torch.nan, dtype=dtype)).isnan().all()
    assert peak_share(torch.full((residues,), 0.1, dtype=dtype)).isnan()


def test_what_has_no_power_has_the_frequency_of_a_constant():
    vectors = torch.stack([torch.zeros(7), torch.full((7,), 0.1), torch.full((7,), torch.nan), wave(2).float()])
    assert peak_frequency(vectors).tolist() == [0, 0, 0, 2]


@pytest.mark.parametrize("measure", [power_spectrum, peak_share, peak_frequency])
@pytest.mark.parametrize("residues", [0, 1])
def test_a_single_residue_has_no_frequency(measure, residues):
    with pytest.raises(ValueError, match=rf"vectors have shape \[3, {residues}\]: expected two residues or more"):
        measure(torch.ones(3, residues))


def test_phases_are_of_as_many_frequencies_as_vectors(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which refuses others first, in tests alone
    with pytest.raises(ValueError, match=r"frequency has shape \[2\]: expected \[3\], one for each vector"):
        phase_at(torch.rand(3, 7), torch.tensor([1, 2]))
