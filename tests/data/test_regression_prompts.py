"""Prompts of a linear regression."""

import pytest
import torch

from featscope.data import RegressionPrompts
from featscope.options import ConfigError
from featscope.streams import Streams

STREAMS = Streams(0, range(3))


def test_labels_are_of_the_task_and_the_query_has_none():
    options = RegressionPrompts(3, 7)
    source = options.build(STREAMS.at("data"))
    prompts, targets = source.sample(STREAMS.at("batch"), 5)
    assert prompts.shape == (3, 5, 8, 4)
    assert (prompts[..., -1, -1] == 0).all()
    x, y = prompts[..., :-1, :-1], prompts[..., :-1, -1:]
    solved = torch.linalg.lstsq(x, y).solution[..., 0]
    torch.testing.assert_close((prompts[..., -1, :-1] * solved).sum(-1), targets)


@pytest.mark.parametrize("related", [True, False])
def test_each_prompt_has_a_task_of_its_own_that_is_normal(related):
    source = RegressionPrompts(3, 7, related=related).build(STREAMS.at("data"))
    prompts, targets = source.sample(STREAMS.at("batch"), 2000)
    shown = torch.linalg.lstsq(prompts[..., :-1, :-1], prompts[..., :-1, -1:]).solution[..., 0]
    unit = torch.eye(3).double().expand(3, 3, 3)
    torch.testing.assert_close(shown.mT @ shown / 2000, unit, atol=0.15, rtol=0)
    assert shown.mean(1).abs().max() < 0.1
    asked = (prompts[..., -1, :-1] * targets[..., None]).mean(1)  # of a single task, its image under Λ
    assert asked.abs().max() < 0.2


def test_labels_of_another_task_do_not_tell_the_target():
    source = RegressionPrompts(3, 7, related=False).build(STREAMS.at("data"))
    prompts, targets = source.sample(STREAMS.at("batch"), 500)
    solved = torch.linalg.lstsq(prompts[..., :-1, :-1], prompts[..., :-1, -1:]).solution[..., 0]
    answers = (prompts[..., -1, :-1] * solved).sum(-1)
    assert abs(torch.corrcoef(torch.stack([answers.ravel(), targets.ravel()]))[0, 1]) < 0.1


def test_inputs_have_the_spectrum_in_directions_that_differ_by_replica():
    options = RegressionPrompts(4, decay=2.0, directions=3)
    assert options.spectrum == [1.0, 0.25, pytest.approx(1 / 9), 0.0]
    source = options.build(STREAMS.at("data"))
    torch.testing.assert_close(source.directions.mT @ source.directions, torch.eye(4).double().expand(3, 4, 4))
    assert not torch.allclose(source.directions[0], source.directions[1])
    x = source.inputs(STREAMS.at("batch"), 200, 100).flatten(1, 2)
    torch.testing.assert_close(x.mT @ x / x.shape[1], source.covariance, atol=0.03, rtol=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dimension": 0}, r"dimension = 0 .* >= 1"),
        ({"samples": 0}, r"samples = 0 .* >= 1"),
        ({"decay": -1.0}, r"decay = -1.0 .* >= 0"),
        ({"dimension": 3, "directions": 4}, r"directions = 4 .* 0 to dimension = 3"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        RegressionPrompts(**options)
