"""Collapse of representations, by hand-worked cases."""

from math import exp, log

import jaxtyping
import numpy as np
import pytest
import torch

from featscope.probes.collapse import (
    collapse_of,
    constant_dimensions,
    correlation_matrix,
    deviations,
    effective_rank,
    in_order,
    mean_correlation,
    off_diagonal,
    pair_alignment,
    singular_spectrum,
    spread,
    standardised,
    uniformity,
)

LINE = torch.tensor([-3.0, -1.0, 0.0, 4.0])


def gaussian(samples: int = 4000, dimensions: int = 8) -> torch.Tensor:
    return torch.randn(samples, dimensions, generator=torch.Generator().manual_seed(0))


def test_identical_dimensions_have_rank_one():
    z = LINE[:, None].expand(4, 5)
    assert float(effective_rank(z)) == pytest.approx(1)
    assert float(effective_rank(z * torch.tensor([1.0, -2, 3, -4, 5]) + 7)) == pytest.approx(1)
    assert mean_correlation(z * torch.tensor([1.0, -2, 3, -4, 5])) == pytest.approx(1)


def test_an_isotropic_gaussian_has_nearly_full_rank():
    assert 7.95 < float(effective_rank(gaussian())) <= 8
    assert mean_correlation(gaussian()) < 0.03


def test_rank_is_the_exponential_of_the_entropy_of_singular_values_not_of_their_squares():
    z = torch.tensor([[3.0, 0], [-3, 0], [0, 1], [0, -1]])  # singular values 3√2 and √2: shares 3/4 and 1/4
    assert float(effective_rank(z)) == pytest.approx(exp(-0.75 * log(0.75) - 0.25 * log(0.25)))
    assert singular_spectrum(z).tolist() == pytest.approx([3 / 2**0.5, 1 / 2**0.5])


def test_rank_is_of_centred_embeddings_and_does_not_depend_on_scale():
    z = gaussian(200, 3)
    torch.testing.assert_close(effective_rank(5 * z + torch.tensor([100.0, 0, -7])), effective_rank(z))


def test_standardised_dimensions_have_the_rank_of_their_correlations():
    z = gaussian() * torch.logspace(0, -4, 8)
    assert float(effective_rank(z)) < 3
    assert float(effective_rank(standardised(z))) > 7.9
    eigenvalues = np.linalg.eigvalsh(np.corrcoef(z.double().numpy().T))[::-1]
    assert singular_spectrum(standardised(z)).square().numpy() == pytest.approx(eigenvalues)


def test_correlations_are_those_of_numpy():
    z = gaussian(50, 4) @ gaussian(4, 4)
    assert correlation_matrix(z).numpy() == pytest.approx(np.corrcoef(z.double().numpy().T))
    upper = np.corrcoef(z.double().numpy().T)[np.triu_indices(4, 1)]
    assert off_diagonal(correlation_matrix(z)).numpy() == pytest.approx(upper)
    assert float(mean_correlation(z)) == pytest.approx(np.abs(upper).mean())


@pytest.mark.parametrize("value", [0.0, 0.3, -1e4])
def test_constant_dimensions_are_counted_and_give_no_nan(value):
    z = torch.stack([LINE, torch.full((4,), value), -LINE], dim=1)
    assert constant_dimensions(z).tolist() == [False, True, False]
    assert deviations(z)[1] == 0
    assert correlation_matrix(z).tolist() == [pytest.approx(row) for row in ([1.0, 0, -1], [0, 0, 0], [-1, 0, 1])]
    assert off_diagonal(correlation_matrix(z)).tolist() == pytest.approx([-1])
    assert float(effective_rank(z)) == pytest.approx(1)
    found = collapse_of(z)
    assert found.constant == 1
    assert found.mean_correlation == pytest.approx(1)


def test_rounding_of_a_constant_is_no_variance():
    z = torch.stack([LINE, 0.3 + 1e-8 * LINE, 0.3 + 1e-3 * LINE], dim=1)
    assert constant_dimensions(z).tolist() == [False, True, False]


def test_complete_collapse_has_rank_zero():
    found = collapse_of(torch.full((6, 3), 0.7))
    assert found.effective_rank == 0
    assert found.constant == 3
    assert found.spread == pytest.approx(0, abs=1e-12)
    assert found.uniformity == pytest.approx(0)
    assert np.isnan(found.mean_correlation)  # there is no pair to speak of
    assert not torch.isnan(found.correlation).any()


def test_deviations_are_biased_ones():
    assert deviations(LINE[:, None]).tolist() == pytest.approx([(26 / 4) ** 0.5])


def test_spread_is_variance_of_directions():
    assert float(spread(torch.tensor([[2.0, 0], [-5, 0]]))) == pytest.approx(1)
    assert float(spread(torch.tensor([[2.0, 0], [0, 5]]))) == pytest.approx(0.5)
    assert float(spread(torch.tensor([[2.0, 1], [4, 2]]))) == pytest.approx(0)


def test_what_is_zero_points_nowhere():
    assert float(spread(torch.zeros(4, 2))) == 0
    assert float(spread(torch.tensor([[2.0, 0], [0, 0], [0, 5], [0, 0]]))) == pytest.approx(0.5)
    assert spread(torch.tensor([[[2.0, 0], [-5, 0]], [[0, 0], [0, 0]]])).tolist() == [1, 0]


def test_alignment_is_the_mean_squared_distance_on_the_sphere():
    one, other = torch.tensor([[2.0, 0], [0, 3]]), torch.tensor([[5.0, 0], [1, 0]])
    assert float(pair_alignment(one, other)) == pytest.approx((0 + 2) / 2)
    assert float(pair_alignment(one, other, power=1)) == pytest.approx(2**0.5 / 2)


def test_uniformity_is_over_distinct_pairs():
    corners = torch.tensor([[1.0, 0], [-2, 0], [0, 3]])  # squared distances 4, 2, 2
    assert float(uniformity(corners)) == pytest.approx(log((exp(-8) + 2 * exp(-4)) / 3))
    assert float(uniformity(corners, t=1)) == pytest.approx(log((exp(-4) + 2 * exp(-2)) / 3))


def test_uniformity_of_many_samples_is_that_of_all_pairs_at_once():
    z = gaussian(1500, 5)
    on_sphere = torch.nn.functional.normalize(z.double(), dim=-1)
    assert float(uniformity(z)) == pytest.approx(float(torch.pdist(on_sphere).square().mul(-2).exp().mean().log()))


def test_replicas_are_measured_each_on_its_own():
    z = gaussian(60, 12).reshape(3, 20, 12)
    for measure in (effective_rank, singular_spectrum, correlation_matrix, deviations, spread, uniformity):
        torch.testing.assert_close(measure(z), torch.stack([measure(each) for each in z]))
    torch.testing.assert_close(pair_alignment(z, z.roll(1, 1))[1], pair_alignment(z[1], z[1].roll(1, 0)))


def test_everything_at_once_is_what_the_functions_say():
    z, other = gaussian(40, 5), gaussian(80, 5)[40:]
    found = collapse_of(z, other)
    assert (found.samples, found.dimensions, found.constant) == (40, 5, 0)
    assert found.effective_rank == pytest.approx(float(effective_rank(z)))
    assert found.uniformity == pytest.approx(float(uniformity(z)))
    assert found.alignment == pytest.approx(float(pair_alignment(z, other)))
    assert collapse_of(z).alignment is None
    for said in ("of 5 dimensions", "0 constant", "40 samples", "alignment"):
        assert said in str(found)


@pytest.mark.parametrize("wrong", [torch.zeros(3), torch.zeros(1, 3), torch.zeros(2, 3, 4)])
def test_what_is_no_matrix_of_samples_is_refused(wrong):
    with pytest.raises(ValueError, match=r"\[sample >= 2, dimension\]"):
        collapse_of(wrong)


def test_values_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="not finite"):
        collapse_of(torch.tensor([[1.0], [float("nan")]]))


@pytest.mark.parametrize("shape", [(8,), (1, 8), (19, 8), (20, 7)])
def test_positives_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match=r"positives have shape .*; allowed is that of embeddings, \(20, 8\)"):
        collapse_of(gaussian(20), torch.ones(shape))


def test_positives_that_are_not_finite_are_refused():
    broken = gaussian(20)
    broken[3, 2] = float("nan")
    with pytest.raises(ValueError, match="positives hold values that are not finite"):
        collapse_of(gaussian(20), broken)


def test_constant_dimensions_have_no_part_in_the_correlations_of_pairs():
    matrix = torch.tensor([[1.0, 0, 0.5], [0, 0, 0], [0.5, 0, 1]])
    assert off_diagonal(matrix).tolist() == [0.5]


def test_a_matrix_in_order_has_what_belongs_together_side_by_side():
    side = torch.tensor([1.0, -1.0, 1.0, -1.0])
    matrix = 0.9 * side[:, None] * side + 0.1 * torch.eye(4)
    ordered = in_order(matrix)
    assert ordered[0, 1] == ordered[2, 3] == pytest.approx(0.9)
    assert ordered[0, 2] == ordered[1, 3] == pytest.approx(-0.9)


def test_the_mean_of_correlations_is_taken_in_blocks(monkeypatch):
    z = gaussian()
    z[:, 2] = 1
    wanted = off_diagonal(correlation_matrix(z)).abs().mean()
    monkeypatch.setattr("featscope.probes.collapse._ROWS", 3)
    monkeypatch.setattr("featscope.probes.collapse.correlation_matrix", lambda z: 1 / 0)
    assert float(mean_correlation(z)) == pytest.approx(float(wanted), rel=1e-12)


def test_pairs_off_the_axes_are_compared_row_by_row():
    one, other = torch.tensor([[3.0, 4.0], [0.0, 2.0]]), torch.tensor([[4.0, 3.0], [5.0, 12.0]])
    apart = 0.08, 2 - 24 / 13  # squared distances of rows of length 1
    assert float(pair_alignment(one, other)) == pytest.approx(sum(apart) / 2)
    assert float(pair_alignment(one, other, 1.0)) == pytest.approx(sum(each**0.5 for each in apart) / 2)


@pytest.mark.parametrize("values", [[1e-9, 2e-9, 5e-9], [1e4, 1.001e4, 0.999e4]])
def test_what_is_constant_goes_by_the_size_of_values(values):
    assert constant_dimensions(torch.tensor(values)[:, None]).tolist() == [False]


@pytest.mark.parametrize("length", [1e-13, 1e-30])
def test_how_short_embeddings_are_does_not_matter_to_their_directions(length):
    z, other = gaussian(20, 3), gaussian(40, 3)[20:]
    for measure in (spread, uniformity):
        torch.testing.assert_close(measure(length * z), measure(z), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(pair_alignment(length * z, length * other), pair_alignment(z, other))


@pytest.mark.parametrize("t", [2.0, 30.0, 100.0])
def test_uniformity_of_orthogonal_samples_is_minus_twice_its_t(t, monkeypatch):
    monkeypatch.setattr("featscope.probes.collapse._ROWS", 3)
    assert float(uniformity(torch.eye(8), t)) == pytest.approx(-2 * t)
    assert uniformity(torch.eye(8)[:1], t).isnan()


def test_pairs_and_matrices_are_not_made_by_broadcasting(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which refuses them first, in tests alone
    with pytest.raises(ValueError, match=r"pairs have shapes \(9, 8\) and \(1, 8\); allowed is one shape"):
        pair_alignment(gaussian(9), gaussian(1))
    with pytest.raises(ValueError, match=r"shape \(2, 9, 3\); allowed is \[sample, dimension\]"):
        mean_correlation(gaussian(6, 9).view(2, 9, 3))


def test_what_is_not_finite_leaves_nothing_to_be_said():
    """Left out with its dimension, it would be the correlation of the others."""
    embeddings = torch.randn(16, 3)
    embeddings[4, 1] = torch.nan
    for found in (mean_correlation(embeddings), effective_rank(embeddings), singular_spectrum(embeddings)):
        assert found.isnan().all()
    pair = effective_rank(torch.stack([embeddings, torch.randn(16, 3)]))
    assert pair.isnan().tolist() == [True, False]


def test_pairs_and_order_of_correlations_that_are_not_known():
    matrix = torch.eye(3)
    matrix[1] = matrix[:, 1] = torch.nan
    assert off_diagonal(matrix).isnan().sum() == 2
    torch.testing.assert_close(in_order(matrix), matrix, equal_nan=True)


MEASURES = [deviations, constant_dimensions, standardised, singular_spectrum, effective_rank, spread, uniformity]


@pytest.mark.parametrize("measure", [*MEASURES, correlation_matrix])
def test_vectors_and_arrays_of_numpy_are_refused(measure, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which refuses them first, in tests alone
    with pytest.raises(ValueError, match=r"embeddings have shape \(5,\); allowed is \[sample, dimension\]"):
        measure(torch.rand(5))
    with pytest.raises(TypeError, match=r"got a ndarray: expected a torch\.Tensor, torch\.as_tensor\(x\) makes one"):
        measure(gaussian(6).numpy())
