"""Questions as steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from featscope.streams import Streams
from featscope.training import Answer, DivergedError, Evaluation, Measurement, Questionnaire, Recipe, Record, train
from featscope.training.evaluation import MOST_BYTES, Later, as_text, in_bytes

GRID = {"length": (10, 20, 30), "depth": (0.0, 0.5)}
ANSWERS = {
    "score": Answer("how right it is"),
    "rows": Answer("three numbers", "s", {"kept": 1, "place": 3}),
}


def ask(length, depth):
    return {"score": length + depth, "rows": [[length, depth, 7.0]]}


def evaluation(ask=ask, grid=GRID, answers=ANSWERS, **more) -> Evaluation:
    return Evaluation(ask, grid, answers, Streams(0, [0]), **more)


def answered(experiment: Evaluation, steps: int = 6) -> Evaluation:
    for step in range(steps):
        experiment.advance(step)
    return experiment


def test_questions_are_all_points_of_the_grid_by_name_the_last_axis_fastest():
    asked = []

    def noting(**point):
        asked.append(point)
        return ask(**point)

    answered(evaluation(noting))
    assert asked == [{"length": length, "depth": depth} for length in GRID["length"] for depth in GRID["depth"]]


def test_answers_stand_over_the_grid_and_their_own_axes():
    experiment = answered(evaluation())
    assert experiment["score"].tolist() == [[[10, 10.5], [20, 20.5], [30, 30.5]]]
    assert experiment["rows"].shape == (1, 3, 2, 1, 3)
    assert experiment["rows"][0, 1, 1].tolist() == [[20, 0.5, 7]]
    assert experiment["rows"].dtype == torch.float64


def test_what_is_not_answered_yet_is_missing():
    experiment = answered(evaluation(), 3)
    assert experiment["score"].isnan().tolist() == [[[False, False], [False, True], [True, True]]]


def test_an_answer_is_a_measurement_with_its_axes_and_words():
    experiment = answered(evaluation())
    found = experiment.measure("rows")
    assert torch.equal(found.values, experiment["rows"])
    assert found[1:] == ("three numbers", ("length", "depth", "kept", "place"), "s")
    assert experiment.measure("score")[1:] == ("how right it is", ("length", "depth"), "1")


def test_at_the_end_everything_is_measured_or_what_the_summary_says():
    experiment = answered(evaluation())
    assert set(experiment.outcomes()) == {"score", "rows"}
    assert torch.equal(experiment.outcomes()["rows"].values, experiment["rows"])
    best = answered(evaluation(summary=lambda e: {"best": Measurement(e["score"].amax((1, 2)), "the best")}))
    assert {name: one.values.tolist() for name, one in best.outcomes().items()} == {"best": [30.5]}


def test_nothing_is_measured_on_the_way_and_there_is_no_loss():
    record = Record()
    train(evaluation(), 6, lambda e: {}, [0, 6], record)
    assert not record.to_dataset([0]).data_vars


def test_the_status_is_the_mean_of_the_first_answer_so_far():
    experiment = answered(evaluation(), 3)
    assert experiment.status() == f"score {(10 + 10.5 + 20) / 3:.3f}"


def test_one_question_and_no_axes_will_do():
    experiment = answered(evaluation(lambda: {"score": 2.5}, {}, {"score": Answer("a number")}), 1)
    assert experiment["score"].tolist() == [2.5]


def test_what_was_found_survives_a_restart():
    first = answered(evaluation(), 3)
    second = evaluation(lambda length, depth: ask(-length, depth))
    second.restore(*first.state())
    for step in range(3, 6):
        second.advance(step)
    assert second["score"].tolist() == [[[10, 10.5], [20, -19.5], [-30, -29.5]]]
    assert second.status() == f"score {(10 + 10.5 + 20 - 19.5 - 30 - 29.5) / 6:.3f}"


def test_answers_are_measurements_and_nothing_is_kept_beside_them():
    assert answered(evaluation()).kept() == {}


def test_numbers_that_are_not_finite_end_it_and_are_not_stored():
    experiment = evaluation(lambda length, depth: {"score": 1.0, "rows": [1.0, float("nan") if length > 10 else 0, 1]})
    answered(experiment, 2)
    with pytest.raises(DivergedError, match="what question 2 found of replica 0 is not finite at step 2"):
        experiment.advance(2)
    assert experiment["score"].isnan().sum() == 4
    assert experiment.status() == "score 1.000"


@pytest.mark.parametrize(
    ("score", "rows", "message"),
    [
        (1.0, [1.0, 2.0], r"the answer 'rows' has 2 numbers: expected 3, as its axes are {'kept': 1, 'place': 3}"),
        (1.0, 7.0, "the answer 'rows' has 1 numbers: expected 3"),
        ([1.0, 2.0], [3.0, 4.0], "the answer 'score' has 2 numbers: expected 1, as its axes are none"),
    ],
)
def test_an_answer_of_another_size_is_an_error_even_where_the_others_make_up_for_it(score, rows, message):
    experiment = evaluation(lambda length, depth: {"score": score, "rows": rows})
    with pytest.raises(ValueError, match=message):
        experiment.advance(0)
    assert experiment["score"].isnan().all()


def test_one_number_is_not_spread_over_an_answer_s_axes():
    with pytest.raises(ValueError, match="the answer 'a' has 1 numbers: expected 4"):
        evaluation(lambda: {"a": 1.0}, {}, {"a": Answer("several", axes={"j": 4})}).advance(0)


# --- the recipe -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Products(Questionnaire):
    """Asks for products."""

    lengths: tuple[int, ...] = (2, 3)
    noise: float = 0.0
    ready: list = field(default_factory=list)

    @property
    def grid(self) -> Mapping[str, Sequence[Any]]:
        return {"length": self.lengths, "factor": (1.0, 10.0)}

    @property
    def answers(self) -> Mapping[str, Answer]:
        return {"product": Answer("length times factor")}

    def asker(self, streams):
        self.ready.append(streams.replicas)
        error = self.noise * streams.at("error").normal().item()
        return lambda length, factor: {"product": length * factor + error}


def test_a_questionnaire_is_a_recipe_of_one_replica_whose_steps_are_questions():
    recipe = Products()
    assert isinstance(recipe, Recipe)
    assert (recipe.steps, recipe.probe_every, recipe.replica_axis) == (4, 4, False)
    assert recipe.ready == []  # what it needs is got when it is built
    experiment = answered(recipe.build(Streams(0, [3])), recipe.steps)
    assert recipe.ready == [(3,)]
    assert experiment.outcomes()["product"].values.tolist() == [[[2, 20], [3, 30]]]


def test_askers_draw_from_the_replica_s_own_streams():
    one, again, other = (Products(noise=1.0).build(Streams(0, [replica])) for replica in (3, 3, 4))
    for experiment in (one, again, other):
        experiment.advance(0)
    assert one["product"][0, 0, 0] == again["product"][0, 0, 0] != other["product"][0, 0, 0]


class Written(Products):
    """As `Products`, whatever the device."""

    on_cpu = True


def test_what_is_answered_on_the_cpu_is_kept_on_the_device():
    streams = Streams(0, [3], "meta")  # from which no number comes back
    experiment = Written(noise=1.0).build(streams)
    assert experiment["product"].is_meta
    assert experiment.ask(2, 10.0) == Products(noise=1.0).build(Streams(0, [3])).ask(2, 10.0)
    assert streams.purposes == {"error"}


class Best(Products):
    """As `Products`; only the largest is measured."""

    def summary(self, evaluation):
        return {"best": Measurement(evaluation["product"].amax((1, 2)), "the largest")}


def test_a_questionnaire_may_say_what_is_measured():
    experiment = answered(Best().build(Streams(0, [0])), 4)
    assert {name: one.values.tolist() for name, one in experiment.outcomes().items()} == {"best": [30]}


def test_without_questions_there_is_nothing_to_do():
    empty = Products(lengths=())
    assert (empty.steps, empty.probe_every) == (0, 1)


@pytest.mark.parametrize("missing", ["grid", "answers", "asker"])
def test_a_questionnaire_must_say_what_it_asks(missing):
    bare = Questionnaire()
    with pytest.raises(NotImplementedError):
        bare.asker(Streams(0, [0])) if missing == "asker" else getattr(bare, missing)


def test_a_questionnaire_may_be_imported_when_it_is_built():
    imported = []

    def kind():
        imported.append(True)
        return Products

    recipe = Later(kind, 2, {"lengths": (5,)})
    assert isinstance(recipe, Recipe)
    assert (recipe.steps, recipe.probe_every, recipe.replica_axis, imported) == (2, 2, False, [])
    assert answered(recipe.build(Streams(0, [0])), 2)["product"].tolist() == [[[5, 50]]]
    assert imported == [True]


# --- Texts ------------------------------------------------------------------------------------------------------------


def test_texts_are_kept_over_the_grid():
    def answered_in_words(length, depth):
        return ask(length, depth) | {"said": f"é {length} at {depth}\n"}

    experiment = answered(evaluation(answered_in_words, texts=("said",)))
    (name, kept), *rest = experiment.kept().items()
    assert not rest
    assert name == "text:said:length:depth"
    assert kept.shape == (3, 2, MOST_BYTES)
    assert as_text(kept[1, 1]) == "é 20 at 0.5\n"
    assert not evaluation().kept()


@pytest.mark.parametrize(
    ("text", "stored"),
    [("", ""), ("é" * 1500, "é" * 1024), ("a" + "é" * 1500, "a" + "é" * 1023), ("a\0b", "ab"), ("\ud800", "?")],
)
def test_long_and_odd_texts_are_stored_as_far_as_they_go(text, stored):
    assert as_text(in_bytes(text)) == stored
