"""What a sweep says of how many programs its points run as, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from featscope.commands.sweep import programs
from featscope.data import SparseTokens
from featscope.models import TokenMLP
from featscope.runs import Settings
from featscope.runs.shard import Shard
from featscope.studies import Arm, Axis, Study
from featscope.training import SGD, Answer, ContrastivePairs, Questionnaire, TorchOptimizer, Training

TRAINING = Training(
    SparseTokens(features=6, input_dim=12), TokenMLP(4), ContrastivePairs(pairs=4), SGD(0.1, 0.01), steps=2
)
LR = Axis("optimizer.lr", (0.1, 0.2))
NOISE = Axis("data.noise_std", (0.01, 0.03, 0.05))
WIDTH = Axis("learner.width", (4.0, 5.0))


@dataclass(frozen=True)
class Asking(Questionnaire):
    """A question at two points."""

    factor: float = 1.0

    @property
    def grid(self) -> Mapping[str, Sequence[Any]]:
        return {"x": (1, 2)}

    @property
    def answers(self) -> Mapping[str, Answer]:
        return {"product": Answer("factor times x")}

    def asker(self, streams):
        return lambda x: {"product": self.factor * x}


def said(recipe, *over: Axis) -> str:
    arm = Arm("swept", recipe, "", over=over)
    words = programs(arm, Settings())
    number = 1 if "one program" in words else int(words.split(" as ")[1].split()[0])
    assert len(Shard(Study(), arm, range(2), 0, "cpu").build()) == number  # what it says is what runs
    return words


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ((LR,), "2 points run as one program."),
        ((LR, NOISE), "6 points run as one program."),
        ((Axis("optimizer.lr", (0.1,)),), "1 point runs as one program."),
        ((WIDTH,), "2 points run as 2 programs: width changes the shapes of tensors."),
        ((WIDTH, NOISE), "6 points run as 2 programs: width changes the shapes of tensors."),
        ((Axis("steps", (2.0, 3.0)),), "2 points run as 2 programs: steps changes how long it goes on."),
        (
            (WIDTH, Axis("steps", (2.0, 3.0, 4.0))),
            "6 points run as 6 programs: width changes the shapes of tensors; steps changes how long it goes on.",
        ),
        (
            (Axis("objective.pairs", (4.0, 5.0)),),
            "2 points run as 2 programs: pairs changes what may not differ between replicas (objective).",
        ),
    ],
)
def test_points_of_training(over, words):
    assert said(TRAINING, *over) == words


def test_an_optimizer_that_takes_one_number_for_all():
    averaging = replace(TRAINING, optimizer=TorchOptimizer("ASGD", 0.1))
    words = "2 points run as 2 programs: lr changes what may not differ between replicas (lr)."
    assert said(averaging, LR) == words
    assert said(averaging, NOISE) == "3 points run as one program."


def test_what_has_no_replica_axis_is_not_even_built(monkeypatch):
    words = said(Asking(), Axis("factor", (1.0, 2.0, 3.0)))
    assert words == "3 points run as 3 programs: each is a network of its own, without a replica axis."
    monkeypatch.setattr(Asking, "build", lambda self, streams: 1 / 0)
    assert programs(Arm("swept", Asking(), "", over=(Axis("factor", (1.0, 2.0)),)), Settings()).startswith(
        "2 points run as 2"
    )
