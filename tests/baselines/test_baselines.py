"""Baselines against direct computations, and against what scikit-learn asks of estimators."""

import numpy as np
import pytest
import torch
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from featscope.baselines import (
    RandomFeatures,
    RecursiveFeatureMachine,
    TangentFeatures,
    gradient_outer_product,
    laplace_kernel,
    random_features,
    ridge,
    tangent_features,
)

RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(40, 3)), RNG.normal(size=(40, 2))
M = np.array([[2.0, 0.3, 0], [0.3, 1, 0], [0, 0, 0.1]])


@parametrize_with_checks(
    [RandomFeatures(5, random_state=0), RecursiveFeatureMachine(1)],
    expected_failed_checks=lambda _: {
        "check_do_not_raise_errors_in_init_or_set_params": "tests check types at run time, and it gives others"
    },
)
def test_scikit_learn_finds_nothing_amiss(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"turns": -1}, "turns = -1 is out of range: allowed is >= 0"),
        ({"bandwidth": -10.0}, r"bandwidth = -10\.0 is out of range: allowed is > 0"),
        ({"bandwidth": np.nan}, "bandwidth = nan"),
        ({"penalty": -1e-3}, r"penalty = -0\.001 is out of range: allowed is >= 0"),
    ],
)
def test_options_of_the_machine_that_are_out_of_range_are_refused(options, told):
    with pytest.raises(ValueError, match=told):
        RecursiveFeatureMachine(**options).fit(X, X[:, 0] > 0)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: laplace_kernel(X, X, M, 0.0), r"bandwidth = 0\.0 is out of range: allowed is > 0, and finite"),
        (lambda: gradient_outer_product(X, W, M, -1.0), r"bandwidth = -1\.0 is out of range: allowed is > 0"),
        (lambda: RandomFeatures(0).fit(X), "features = 0 is out of range: allowed is >= 1"),
        (lambda: RandomFeatures(scale=-1.0).fit(X), r"scale = -1\.0 is out of range: allowed is > 0, and finite"),
        (lambda: RandomFeatures(bias_scale=np.nan).fit(X), "bias_scale = nan is out of range: allowed is >= 0"),
        (lambda: ridge(()), r"penalties = \(\) is out of range: allowed is one or more, each > 0, and finite"),
        (lambda: ridge((1.0, 0.0)), r"penalties = \(1\.0, 0\.0\) is out of range"),
    ],
)
def test_options_of_the_others_that_are_out_of_range_are_refused(call, told):
    with pytest.raises(ValueError, match=told):
        call()


def test_the_kernel_is_written_out():
    found = laplace_kernel(X[:4], X[4:9], M, 2.0)
    for i, j in np.ndindex(4, 5):
        apart = X[i] - X[4 + j]
        assert found[i, j] == pytest.approx(np.exp(-np.sqrt(apart @ M @ apart) / 2))


def test_the_mean_outer_product_is_that_of_autograd():
    x, m, w = (torch.tensor(one) for one in (X, M, W))
    total = torch.zeros(3, 3, dtype=torch.float64)
    for at in range(len(X)):
        others = [i for i in range(len(X)) if i != at]  # at its own centre a kernel has no slope
        for output in range(2):
            z = x[at].clone().requires_grad_()
            apart = z - x[others]
            f = (torch.exp(-((apart @ m) * apart).sum(1).sqrt() / 2) * w[others, output]).sum()
            (g,) = torch.autograd.grad(f, z)
            total += torch.outer(g, g) / len(X)
    np.testing.assert_allclose(gradient_outer_product(X, W, M, 2.0), total.numpy(), rtol=1e-8)


def test_the_machine_finds_the_inputs_that_matter():
    x = RNG.choice([-1.0, 1.0], size=(500, 20))
    y = x[:, :3].sum(1) * x[:, :3].prod(1) > 0  # 1 where none or two are -1 and the sum agrees
    machine = RecursiveFeatureMachine(3).fit(x[:300], y[:300])
    stages = [np.mean(one == y[300:]) for one in machine.staged_predict(x[300:])]
    assert machine.score(x[300:], y[300:]) == stages[-1] > 0.95 > stages[0]
    assert np.trace(machine.matrix_) == pytest.approx(20)
    assert np.diag(machine.matrix_)[:3].sum() > 18
    assert machine.predict(x).dtype == bool


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="two or more classes"):
        RecursiveFeatureMachine().fit(X, np.ones(40))


def test_tangent_features_are_gradients_one_by_one():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    found = TangentFeatures(network).fit_transform(X[:5])
    for row, x in zip(found, torch.tensor(X[:5]).float(), strict=True):
        network.zero_grad()
        network(x[None]).sum().backward()
        np.testing.assert_allclose(row, torch.cat([p.grad.flatten() for p in network.parameters()]), rtol=1e-5)
    assert found.shape == (5, 3 * 4 + 4 + 4 + 1)
    with pytest.raises(ValueError, match="network = None"):
        TangentFeatures().fit(X)


def test_random_features_are_written_out():
    drawn = RandomFeatures(7, scale=0.5, bias_scale=0.1, random_state=3).fit(X)
    wanted = [[min(1, max(0, x @ w + b)) for w, b in zip(drawn.weights_, drawn.biases_, strict=True)] for x in X]
    np.testing.assert_allclose(drawn.transform(X), wanted)


def test_pipelines_choose_their_penalty_and_classify():
    y = X[:, 0] > 0
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
    for model in (random_features(50, random_state=0, scale=1.0), tangent_features(network), ridge()):
        assert model.fit(X, y).score(X, y) > 0.9
    assert ridge((1.0, 2.0)).fit(X, y).alpha_ in (1.0, 2.0)


class OnGPU(nn.Module):
    """A network elsewhere: its inputs meet its weights where both are on one device alone."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, device="meta"))

    def forward(self, x):
        return (x * self.weight).sum(-1)


def test_tangent_features_of_a_network_on_a_gpu_are_brought_to_the_cpu(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "cpu", lambda its: torch.zeros_like(its, device="cpu"))
    assert TangentFeatures(OnGPU()).fit_transform(X[:5]).shape == (5, 3)


def test_tangent_features_are_of_a_network_in_evaluation_mode_with_one_answer():
    network = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 1))
    samples = np.random.default_rng(0).normal(size=(5, 4))
    found = TangentFeatures(network).fit_transform(samples)
    assert np.array_equal(found, TangentFeatures(network).fit_transform(samples))
    assert network[2].training
    with pytest.raises(ValueError, match=r"network gives answers of shape \[2\] a sample: allowed is one"):
        TangentFeatures(nn.Linear(4, 2)).fit_transform(samples)


def test_a_feature_machine_does_not_mind_where_samples_are_or_how_large():
    x, y = np.random.default_rng(0).normal(size=(120, 4)), np.arange(120) % 2
    x[:, 0] += 3 * y
    near, far = (RecursiveFeatureMachine(bandwidth=3.0).fit(x + shift, y) for shift in (0.0, 1e8))
    assert far.score(x + 1e8, y) == near.score(x, y) > 0.9
    tiny = RecursiveFeatureMachine(bandwidth=3e-11).fit(x * 1e-11, y)
    assert tiny.score(x * 1e-11, y) == near.score(x, y)
    np.testing.assert_allclose(tiny.matrix_, near.matrix_, rtol=1e-4, atol=1e-6)


def test_a_bandwidth_that_reaches_no_other_sample_is_refused():
    x = np.random.default_rng(0).normal(size=(20, 4)) * 1e6
    with pytest.raises(ValueError, match=r"bandwidth = 10.0 is too small for samples \S+ apart"):
        RecursiveFeatureMachine().fit(x, np.arange(20) % 2)
