"""Downstream tasks on hidden signals."""

import torch

from featscope.data import LinearTask, SparseCoding, linear_task
from featscope.streams import Streams


def test_task_vectors_have_sizes_of_order_one_and_random_signs():
    """4000 numbers: the mean sign has spread 0.016, the mean size one of 0.005; 5 of them, once in a million seeds."""
    vector = linear_task(Streams(0, range(2)).at("task"), 2000)
    assert vector.shape == (2, 2000)
    assert vector.abs().min() >= 0.5
    assert vector.abs().max() <= 1.5
    assert abs(float(vector.sign().mean())) < 5 / 4000**0.5
    assert abs(float(vector.abs().mean()) - 1) < 5 / (12 * 4000) ** 0.5
    assert not torch.equal(vector[0], vector[1])


def test_labels_are_products_with_the_true_signals():
    streams = Streams(0, range(2))
    sample = SparseCoding(4, 16).build(streams.at("dictionary")).sample(streams.at("batch"), 9)
    task = LinearTask(linear_task(streams.at("task"), 4))
    assert not list(task.parameters())
    expected = [
        [sum(w * z for w, z in zip(ws, zs, strict=True)) for zs in of]
        for ws, of in zip(task.vector, sample.codes, strict=True)
    ]
    torch.testing.assert_close(task(sample), torch.tensor(expected))
