"""The nuclear norm against NumPy's singular values, and its gradient where others have none."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from featscope.losses import NuclearNorm
from featscope.options import ConfigError

PLAIN = NuclearNorm(1.0, "none")
sides = st.integers(1, 6)


def normals(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def slope(features: torch.Tensor, penalty: NuclearNorm = PLAIN) -> torch.Tensor:
    features = features.clone().requires_grad_()
    penalty(features).sum().backward()
    return features.grad


def uv(features: torch.Tensor) -> np.ndarray:
    left, _, right = np.linalg.svd(features.double().numpy(), full_matrices=False)
    return left @ right


@given(sides, sides, st.sampled_from([1e-6, 1.0, 1e6]), st.sampled_from([torch.float32, torch.float64]), sides)
def test_it_is_the_sum_of_singular_values(rows, columns, scale, dtype, seed):
    features = scale * normals(2, rows, columns, seed=seed, dtype=dtype)
    expected = np.linalg.svd(features.double().numpy(), compute_uv=False).sum(-1)
    np.testing.assert_allclose(PLAIN(features).numpy(), expected, rtol=1e-5 if dtype == torch.float32 else 1e-12)
    assert PLAIN(features).dtype == dtype


@pytest.mark.parametrize("shape", [(3, 7, 4), (3, 4, 7), (5, 5)])
def test_its_gradient_is_the_slope_and_that_of_autograd_where_values_differ(shape):
    features = normals(*shape).requires_grad_()
    assert torch.autograd.gradcheck(PLAIN, features)
    torch.linalg.svdvals(features).sum().backward()
    np.testing.assert_allclose(slope(features.detach()), features.grad, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(9, 4), (4, 9)])
def test_repeated_values_do_no_harm(shape, dtype):
    """All singular values are 3: there the gradient of a plain SVD divides by zero."""
    frame = torch.tensor(uv(normals(*shape)), dtype=dtype)
    np.testing.assert_allclose(slope(3 * frame), frame, atol=1e-6 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dead_columns_and_lost_directions_get_no_gradient(dtype):
    features = normals(8, 5, dtype=dtype)
    features[:, 2] = 0
    found = slope(features)
    assert found[:, 2].abs().max() < 1e-12
    torch.testing.assert_close(found[:, [0, 1, 3, 4]], slope(features[:, [0, 1, 3, 4]]))
    line = normals(8, 1, dtype=dtype) @ normals(1, 5, seed=1, dtype=dtype)
    torch.testing.assert_close(slope(line), line / torch.linalg.matrix_norm(line))
    assert not slope(torch.zeros(8, 5, dtype=dtype)).any()


@given(sides, sides, st.sampled_from([torch.float32, torch.float64]))
def test_the_gradient_never_stretches_and_points_along_the_features(rows, columns, dtype):
    """UVᵀ has spectral norm 1 and <F, UVᵀ> is the norm itself."""
    features = normals(rows, columns, dtype=dtype)
    found = slope(features)
    assert torch.linalg.matrix_norm(found, 2) <= 1 + 1e-5
    torch.testing.assert_close((found * features).sum(), PLAIN(features), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("normalize", "divisor"), [("rows", 16), ("batch", 4), ("none", 1)])
def test_it_is_divided_as_asked_and_weighted(normalize, divisor):
    features = normals(16, 3)
    torch.testing.assert_close(NuclearNorm(0.3, normalize)(features), 0.3 * PLAIN(features) / divisor)
    torch.testing.assert_close(slope(features, NuclearNorm(0.3, normalize)), 0.3 * slope(features) / divisor)


def test_one_strength_for_any_batch_if_divided_by_the_root_of_its_rows():
    features = normals(64, 3)
    twice = torch.cat([features, features])
    torch.testing.assert_close(NuclearNorm(normalize="batch")(twice), NuclearNorm(normalize="batch")(features))
    torch.testing.assert_close(NuclearNorm()(twice) * 2**0.5, NuclearNorm()(features))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_summed_in_double_and_comes_out_in_single(dtype):
    features = (100 * normals(64, 40)).to(dtype)
    found = NuclearNorm(1.0, "none")(features.requires_grad_())
    assert found.dtype == torch.float32
    expected = np.linalg.svd(features.detach().double().numpy(), compute_uv=False).sum()
    assert found.item() == pytest.approx(expected, rel=1e-5)
    found.backward()
    assert features.grad.dtype == dtype
    np.testing.assert_allclose(features.grad.float(), uv(features.detach()), atol=2e-3)


def test_it_works_under_autocast():
    torch.manual_seed(0)
    layer = torch.nn.Linear(6, 4)
    x = normals(32, 6, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features = layer(x)
        found = PLAIN(features)
    assert features.dtype == torch.bfloat16
    assert found.dtype == torch.float32
    found.backward()
    expected = x.T @ torch.tensor(uv(features.detach()), dtype=torch.float32)
    np.testing.assert_allclose(layer.weight.grad, expected.T, atol=0.2)


def test_replicas_do_not_touch_each_other_and_one_that_is_lost_is_not_a_number():
    features = normals(2, 8, 3)
    lost = torch.cat([features[:1], torch.full_like(features[1:], torch.inf)]).requires_grad_()
    found = PLAIN(lost)
    assert found[0] == PLAIN(features)[0]
    assert found[1].isnan()
    found[0].backward()
    assert not lost.grad[1].any()


def test_weights_may_differ_between_replicas():
    features = normals(2, 8, 3)
    found = NuclearNorm(torch.tensor([0.0, 2.0]), "none")(features)
    torch.testing.assert_close(found, torch.stack([torch.zeros_like(found[0]), 2 * PLAIN(features)[1]]))


def test_nothing_is_penalised_while_it_warms_up():
    features, penalty = normals(8, 3).requires_grad_(), NuclearNorm(warmup=100)
    penalty(features, 99).backward()
    assert not features.grad.any()
    torch.testing.assert_close(penalty(features, 100), NuclearNorm()(features))
    with pytest.raises(ConfigError, match=r"warmup = 100 needs the step"):
        penalty(features)
    large = torch.full((2, 2), 1e39, dtype=torch.float64)
    assert penalty(large, 0) == 0
    assert penalty(large, 0).dtype == torch.float64
    assert penalty(torch.full((2, 2), 6e4, dtype=torch.float16), 0) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight": -1.0}, r"NuclearNorm.weight = -1.0 .* >= 0"),
        ({"warmup": -1}, r"NuclearNorm.warmup = -1 .* >= 0"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        NuclearNorm(**options)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rank", [1, 3, 20])
def test_what_rounding_adds_in_half_precision_has_no_gradient(dtype, rank):
    features = normals(96, rank) @ normals(rank, 64, seed=1)
    along = slope(features.to(dtype)).double()
    assert float(along.square().sum()) == pytest.approx(rank, rel=0.02)
    assert float((along * slope(features)).sum()) == pytest.approx(rank, rel=0.02)


def test_the_gradient_does_not_go_by_the_scale_of_features():
    features = normals(8, 5, dtype=torch.float32)
    torch.testing.assert_close(slope(1e-5 * features), slope(features), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_directions_above_the_noise_of_rounding_keep_their_gradient(dtype):
    """Entries that are exact: one direction, and another of half and of twice what rounding of all entries adds."""
    noise = torch.finfo(dtype).eps / 2 * (96**-0.5 + 64**-0.5)
    for factor, rank in ((0.5, 1), (2.0, 2)):
        features = torch.zeros(96, 64, dtype=dtype)
        features[0, 0], features[1, 1] = 1.0, factor * noise
        assert float(slope(features).double().square().sum()) == pytest.approx(rank)
