"""Tasks that share features: where features stand, what is active, and what a pair shares."""

import pytest
import torch

from featscope.data import TaskFeatures
from featscope.options import ConfigError
from featscope.streams import Streams


def pairs(options, count=4000):
    streams = Streams(0, range(2))
    source = options.build(streams.at("dictionary"))
    return source, *source.hidden_pairs(streams.at("batch"), count)


def test_one_task_is_active_and_a_pair_differs_in_spurious_features_only():
    options = TaskFeatures(2, 3, 3, 4)
    _, z, other = pairs(options)
    assert z.shape[-1] == options.features == 2 + 3 * 3 + 4
    torch.testing.assert_close(z[..., : options.invariant], other[..., : options.invariant])
    assert (z[..., options.invariant :] != other[..., options.invariant :]).all()
    active = torch.stack([(z[..., options.own(task)] != 0).all(-1) for task in range(3)], -1)
    assert (active.sum(-1) == 1).all()
    torch.testing.assert_close(active.float().mean((0, 1)), torch.full((3,), 1 / 3), atol=0.03, rtol=0)
    torch.testing.assert_close(z[..., :2].var(), torch.tensor(1.0), atol=0.05, rtol=0)


def test_private_features_are_none_of_the_shared_ones():
    options = TaskFeatures(3, 3, 1, 1)
    _, z, _ = pairs(options)
    known = torch.corrcoef(z[0, :, : options.invariant].T).fill_diagonal_(0)
    assert known.abs().max() < 0.08


def test_tasks_have_their_weights():
    options = TaskFeatures(2, 1, 3, 1, weights=(0.7, 0.0, 0.3))
    _, z, _ = pairs(options)
    shares = torch.stack([(z[..., options.own(task)] != 0).float().mean() for task in range(3)])
    torch.testing.assert_close(shares, torch.tensor([0.7, 0.0, 0.3]), atol=0.03, rtol=0)


def test_controls():
    _, z, other = pairs(TaskFeatures(augmented=False))
    assert torch.equal(z, other)
    _, z, other = pairs(TaskFeatures(related=False))
    assert abs((z * other).sum(-1).mean()) < 0.3


@pytest.mark.parametrize("augmented", [True, False])
def test_the_two_of_an_unrelated_pair_have_tasks_and_noise_of_their_own(augmented):
    options = TaskFeatures(related=False, augmented=augmented)
    _, z, other = pairs(options)
    same_task = ((z != 0) == (other != 0)).all(-1)
    assert float(same_task.float().mean()) == pytest.approx(1 / options.tasks, abs=0.03)
    assert abs(float((z * other)[..., options.invariant :].mean())) < 0.03


def test_inputs_are_turned_by_an_orthonormal_dictionary():
    options = TaskFeatures()
    source, z, _ = pairs(options, 10)
    x, _ = source.pairs(Streams(0, range(2)).at("batch"), 10)
    torch.testing.assert_close(source.dictionary @ source.dictionary.mT, torch.eye(28).double().expand(2, -1, -1))
    torch.testing.assert_close(x, (source.dictionary.float() @ z.mT).mT)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: TaskFeatures(shared=0), "shared = 0 .* >= 1"),
        (lambda: TaskFeatures(weights=(0.5, 0.5)), "weights .* 4 numbers >= 0 that add up to 1"),
        (lambda: TaskFeatures(weights=(1.5, -0.5, 0, 0)), "weights .* 4 numbers >= 0 that add up to 1"),
    ],
)
def test_options_out_of_range_are_named(made, message):
    with pytest.raises(ConfigError, match=message):
        made()
