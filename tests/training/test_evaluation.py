"""Tasks as steps."""

import pytest
import torch

from featscope.streams import Streams
from featscope.training import DivergedError, Evaluation


def evaluation(*values):
    return Evaluation([lambda v=v: v for v in values], ("lost", "other"), Streams(0, [0]))


def test_tasks_fill_rows_and_the_loss_is_the_mean_of_the_first_column():
    experiment = evaluation((0.5, 1.0), (0.25, 2.0), (0.0, 3.0))
    assert experiment.loss(Streams(0, [0]).at("evaluate")).item() == 0
    assert experiment.advance(0).item() == 0.5
    assert experiment.advance(1).item() == 0.375
    assert experiment.found[0, :2].tolist() == [[0.5, 1.0], [0.25, 2.0]]
    assert experiment.found[0, 2].isnan().all()
    experiment.advance(2)
    grid = experiment.of("other", (3, 1), ("row", "column"), "s", "about")
    assert grid.values.tolist() == [[[1.0], [2.0], [3.0]]]
    assert grid[1:] == (("row", "column"), "s", "about")


def test_what_was_found_survives_a_restart():
    first, second = evaluation((0.5, 1.0), (0.25, 2.0)), evaluation((9.0, 9.0), (0.25, 2.0))
    first.advance(0)
    second.load_state_dict(first.state_dict())
    second.advance(1)
    assert second.found[0].tolist() == [[0.5, 1.0], [0.25, 2.0]]


def test_numbers_that_are_not_finite_end_it():
    experiment = evaluation((0.0, 0.0), (0.0, float("nan")))
    experiment.advance(0)
    with pytest.raises(DivergedError, match="what task 1 found"):
        experiment.advance(1)
    assert torch.isfinite(experiment.found[0, 0]).all()
