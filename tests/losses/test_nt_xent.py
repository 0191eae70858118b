"""NT-Xent against a loop in NumPy."""

import jaxtyping
import numpy as np
import pytest
import torch

from featscope.losses import NTXent
from featscope.options import ConfigError


def by_loop(anchor: np.ndarray, positive: np.ndarray, temperature: float, normalize: bool) -> float:
    views = np.concatenate([anchor, positive])
    count, total = len(views), 0.0
    for i in range(count):
        partner = (i + count // 2) % count
        similarity = {}
        for j in range(count):
            if j != i:
                product = float(views[i] @ views[j])
                if normalize:
                    product /= np.linalg.norm(views[i]) * np.linalg.norm(views[j])
                similarity[j] = product / temperature
        total += np.log(sum(np.exp(s) for s in similarity.values())) - similarity[partner]
    return total / count


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("temperature", [0.2, 1.0])
def test_it_is_the_loop(normalize, temperature):
    rng = np.random.default_rng(0)
    anchor, positive = rng.normal(size=(2, 5, 7))
    loss = NTXent(temperature, normalize)(torch.from_numpy(anchor), torch.from_numpy(positive))
    assert float(loss) == pytest.approx(by_loop(anchor, positive, temperature, normalize), rel=1e-12)


def test_views_that_look_the_same_cost_the_logarithm_of_their_number():
    same = torch.ones(6, 3, dtype=torch.float64)
    assert float(NTXent()(same, same)) == pytest.approx(np.log(11))


@pytest.mark.parametrize("normalize", [True, False])
def test_gradients_reach_both_sides_and_are_right(normalize):
    generator = torch.Generator().manual_seed(0)
    views = [torch.randn(4, 3, dtype=torch.float64, generator=generator, requires_grad=True) for _ in range(2)]
    assert torch.autograd.gradcheck(NTXent(0.7, normalize), views)
    NTXent(0.7, normalize)(*views).backward()
    assert all(view.grad.abs().max() > 0 for view in views)


def test_normalised_loss_ignores_scale():
    generator = torch.Generator().manual_seed(1)
    a, b = torch.randn(2, 4, 3, generator=generator)
    torch.testing.assert_close(NTXent()(a, b), NTXent()(3 * a, 0.5 * b))


def test_wrong_options_are_named():
    with pytest.raises(ConfigError, match=r"NTXent\.temperature"):
        NTXent(temperature=0.0)


def test_doubt_is_what_the_softmax_gives_to_others():
    anchor, positive = torch.eye(3, dtype=torch.float64), torch.eye(3, dtype=torch.float64)
    partner, others = np.exp(1 / 0.5), 4
    torch.testing.assert_close(
        NTXent(0.5).doubt(anchor, positive), torch.full((6,), others / (partner + others), dtype=torch.float64)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_narrows_nothing(dtype):
    views = torch.randn(2, 8, 16, generator=torch.Generator().manual_seed(0)).to(dtype)
    exact = NTXent(0.01).of_views(*views.float())
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(NTXent(0.01).of_views(*views), exact)
        assert torch.equal(NTXent(0.01)(*views), exact.mean())


def test_halves_of_unequal_size_are_refused(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which refuses them first, in tests alone
    a, b = torch.randn(4, 3), torch.randn(6, 3)
    for loss in (NTXent(), NTXent().doubt):
        with pytest.raises(ValueError, match=r"shapes \[4, 3\] and \[6, 3\]: expected one shape"):
            loss(a, b)


def test_a_representation_of_zeros_does_not_outweigh_all_others():
    """Such as that of a blank image by a network without biases: over a length of 1e-12 its gradient was 1e10."""
    views = torch.randn(2, 8, 5, generator=torch.Generator().manual_seed(0))
    views[0, 3] = 0
    views.requires_grad_()
    NTXent(0.5)(*views).backward()
    lengths = views.grad[0].norm(dim=-1)
    assert 0 < lengths[3] < 10 * lengths.median()


@pytest.mark.parametrize("normalize", ["none", "l2", 0, None])
def test_whether_it_normalizes_is_true_or_false(normalize, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which refuses it first, in tests alone
    with pytest.raises(ConfigError, match=r"NTXent.normalize = .* is out of range: allowed is True or False"):
        NTXent(normalize=normalize)
