"""The recipe of training, and what it builds: parts from their own draws, rules by name and in order."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
from torch import nn
from toys import experiment

from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.training import SGD, GradientTraining, Recipe, Training
from featscope.training.image_objectives import ImageTraining
from swept import Noisy, Pull, Source, Squares, Values


@dataclass(frozen=True)
class Notes:
    """A rule that notes when it was called, and what it was built for."""

    name: str
    book: list

    def build(self, experiment):
        self.book.append((self.name, "built", type(experiment.optimizer).__name__))
        return Noting(self)


class Noting(nn.Module):
    def __init__(self, config: Notes) -> None:
        super().__init__()
        self.config = config

    def forward(self, experiment, step):
        assert not torch.is_grad_enabled()
        self.config.book.append((self.config.name, step))

    def status(self):
        return f"{self.config.name} is well"


def test_a_recipe_says_how_long_and_builds_what_it_names():
    recipe = Pull(steps=7, probe_every=3).recipe
    assert isinstance(recipe, Recipe)
    assert (recipe.steps, recipe.probe_every, recipe.replica_axis) == (7, 3, True)
    made = recipe.build(Streams(2, range(3)))
    assert isinstance(made, GradientTraining)
    assert set(made.rules) == {"near"}
    assert made.optimizer.param_groups[0]["lr"] == 0.1


@dataclass(frozen=True)
class Random(Noisy):
    """Whose target is drawn."""

    def build(self, draws):
        made = Source(self, draws.replicas)
        made.target.copy_(draws.normal())
        made.train_set = made.test_set = SimpleNamespace(pixels=torch.zeros(1, 3, 32, 32))
        return made


@pytest.mark.parametrize(
    ("kind", "purposes"), [(Training, ("dictionary", "weights")), (ImageTraining, ("data", "learner"))]
)
def test_source_and_learner_have_draws_of_their_own(kind, purposes):
    streams = Streams(2, range(3))
    made = kind(Random(), Values(), Squares(), SGD()).build(streams)
    of_source, of_learner = (streams.at(purpose) for purpose in purposes)
    assert torch.equal(made.source.target, of_source.normal())
    assert torch.equal(made.learner.value.detach(), of_learner.normal(2))
    assert kind.replica_axis == (kind is Training)


def test_rules_are_called_by_name_in_order_after_each_step_and_none_is_left_out():
    book = []
    made = experiment(rules={"second": Notes("b", book), "none": None, "first": Notes("a", book)})
    assert list(made.rules) == ["second", "first"]
    made.advance(0)
    assert book == [
        ("b", "built", "GradientDescent"),
        ("a", "built", "GradientDescent"),
        ("b", 1),
        ("a", 1),
    ]
    assert made.rules["first"].config.name == "a"


def test_the_status_is_the_latest_loss_and_what_rules_have_to_say():
    made = experiment(rules={"quiet": nn_rule(), "note": Notes("a", [])})
    assert made.status() == "a is well"
    loss = float(made.loss(made.streams.at("batch", 0)).detach().mean())
    made.advance(0)
    assert made.status() == f"loss {loss:.3f}  a is well"


def nn_rule():
    class Quiet(nn.Module):
        def build(self, experiment):
            return self

        def forward(self, experiment, step):
            pass

    return Quiet()


class WithHead(nn.Module):
    """An objective with a parameter of its own."""

    def __init__(self, replicas: int) -> None:
        super().__init__()
        self.head = nn.Parameter(torch.ones(replicas, 1))

    def forward(self, learner, source, draws):
        return (self.head * learner.value - source.target).square().sum(-1)


def test_what_an_objective_holds_is_trained_with_the_learner():
    made = experiment(objective=WithHead(3))
    made.learner.value.data.fill_(0.5)
    before = made.objective.head.detach().clone()
    made.advance(0)
    assert (made.objective.head.detach() != before).all()
    assert made.optimizer.param_groups[0]["params"][1] is made.objective.head
    assert "objective.head" in made.state()[0]


@dataclass(frozen=True)
class Having:
    """Options of an objective or a source that has a parameter."""

    head: nn.Parameter
    learns: bool = True

    def build(self, *given):
        made = Source(Noisy(), 3) if len(given) == 1 else WithHead(3)
        made.head = nn.Parameter(self.head, requires_grad=self.learns)
        return made


@pytest.mark.parametrize("part", ["objective", "source"])
def test_replicas_do_not_share_what_an_objective_or_a_source_trains(part):
    def build(head, learns=True):
        having, streams = Having(head, learns), Streams(0, range(3))
        data, objective = (having, Squares()) if part == "source" else (Noisy(), having)
        return Training(data, Values(), objective, SGD()).build(streams)

    shared = torch.ones(1)
    kind = {"source": "Source", "objective": "WithHead"}[part]
    with pytest.raises(ValueError, match=rf"'head' of the {part} {kind} has shape \[1\]: expected the replica axis"):
        build(shared)
    build(shared, learns=False)
    build(torch.ones(3, 1))


@dataclass(frozen=True)
class Built:
    """Options of an objective: built from source and learner that stand."""

    seen: ClassVar[list] = []

    def build(self, source, learner, streams):
        self.seen.append((type(source).__name__, type(learner).__name__, streams.replicas))
        return Squares()


def test_objectives_are_built_from_what_they_compare():
    Training(Noisy(), Values(), Built(), SGD()).build(Streams(0, range(2)))
    assert Built.seen == [("Source", "Learner", (0, 1))]


@pytest.mark.parametrize("options", [{"steps": -1}, {"probe_every": 0}])
def test_wrong_numbers_of_steps_are_refused(options):
    (field,) = options
    with pytest.raises(ConfigError, match=f"Training.{field} = .* is out of range"):
        Training(Noisy(), Values(), Squares(), SGD(), **options)


def test_a_recipe_can_be_shortened_and_not_lengthened():
    recipe = Pull(steps=7, probe_every=3).recipe
    assert (recipe.shortened(2).steps, recipe.shortened(2).probe_every) == (2, 3)
    assert (recipe.shortened(9, 1).steps, recipe.shortened(9, 1).probe_every) == (7, 1)
