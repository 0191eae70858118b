"""Prompts of a linear task."""

import pytest
import torch

from featscope.data import LinearPrompts
from featscope.options import ConfigError
from featscope.streams import Streams

STREAMS = Streams(0, range(2))


def sample(count=5, **options):
    source = LinearPrompts(**options).build(STREAMS.at("data"))
    return source.sample(STREAMS.at("batch"), count)


def test_examples_follow_the_task_and_the_query_is_empty():
    prompts, tasks = sample(samples=7, dimension=3)
    assert prompts.shape == (2, 5, 8, 4)
    assert prompts.dtype == torch.float64
    x, y = prompts[..., :-1, :3], prompts[..., :-1, 3]
    torch.testing.assert_close(y, (x @ tasks[..., None])[..., 0])
    torch.testing.assert_close(tasks.norm(dim=-1), torch.ones(2, 5, dtype=torch.float64))
    assert (prompts[..., -1, :] == torch.tensor([0, 0, 0, 1.0])).all()
    assert not torch.equal(prompts[0], prompts[1])


def test_a_random_start_has_other_queries_and_targets_of_either_sign():
    prompts, _ = sample(200, samples=3, start="random")
    target = prompts[..., -1, -1]
    assert target.abs().min() >= 0.1
    assert 2.4 < target.abs().max() <= 2.5
    assert target.abs().mean() == pytest.approx(1.3, abs=0.15)
    assert 0.35 < (target > 0).double().mean() < 0.65
    assert 0.9 < prompts[..., -1, :-1].std() < 1.1


def test_patients_are_real_distinct_and_solved_by_the_task():
    from sklearn.datasets import load_diabetes

    prompts, tasks = sample(3, samples=60, dimension=10, inputs="diabetes")
    x, y = prompts[..., :-1, :10], prompts[..., :-1, 10:]
    known, _ = load_diabetes(return_X_y=True)
    first = x[0, 0].numpy() / 442**0.5
    matches = (abs(first[:, None] - known[None]).max(-1) < 1e-12).sum(1)
    assert (matches >= 1).all()
    assert len(set(map(tuple, first.round(9).tolist()))) == 60
    gradient = x.mT @ (x @ tasks[..., None] - y)  # the task is the least-squares solution
    assert gradient.abs().max() < 1e-9
    torch.testing.assert_close(tasks.norm(dim=-1), torch.ones(2, 3, dtype=torch.float64))


def test_progress_of_all_patients_is_about_its_mean():
    prompts, _ = sample(1, samples=442, dimension=10, inputs="diabetes")
    y = prompts[..., :-1, -1]
    assert (y.mean(-1).abs() < 1e-9 * y.std(-1)).all()


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"samples": 0}, "samples"),
        ({"dimension": 0}, "dimension"),
        ({"inputs": "diabetes"}, "dimension"),
        ({"inputs": "diabetes", "dimension": 10, "samples": 443}, "samples"),
    ],
)
def test_options_out_of_range_are_named(options, field):
    with pytest.raises(ConfigError, match=f"LinearPrompts.{field}"):
        LinearPrompts(**options)
