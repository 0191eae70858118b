"""Options that take several values."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Optional, Union

import pytest

from featscope.axes import Axis, find_option, is_whole, numeric_options, points, with_options
from featscope.options import ConfigError
from featscope.studies import Arm
from featscope.studies.decoupling import Decoupling
from featscope.training import SGD, MagnitudePruning, Training
from swept import Noisy, Pull, Squares, Values


@dataclass(frozen=True)
class Two:
    first: Noisy = field(default_factory=Noisy)
    second: Noisy = field(default_factory=lambda: Noisy(2.0))
    scale: float = 1  # a fraction, whatever its default looks like
    limit: float | None = 3
    count: int | None = None
    note: str | None = None
    name: str = "two"
    on: bool = True


def test_numeric_options_are_numbers_at_any_depth_and_nothing_else():
    assert numeric_options(Two()) == {
        "first.target": 1.0,
        "first.noise": 0.1,
        "second.target": 2.0,
        "second.noise": 0.1,
        "scale": 1,
        "limit": 3,
        "count": None,
    }


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("noise", "data.noise"),
        ("data.noise", "data.noise"),
        ("weight-decay", "optimizer.weight_decay"),
        ("optimizer.weight-decay", "optimizer.weight_decay"),
        ("steps", "steps"),
    ],
)
def test_an_option_is_found_by_its_path_or_by_its_last_words(name, path):
    assert find_option(Pull(), name) == path


def test_a_name_that_several_options_bear_is_refused_with_their_paths():
    with pytest.raises(ConfigError, match=r"axis 'noise' stands for several options of Two: .* first.noise, second"):
        find_option(Two(), "noise")
    assert find_option(Two(), "second.noise") == "second.noise"


@pytest.mark.parametrize("name", ["", "nois", "oise", "name", "on", "data", "signals"])
def test_what_is_no_numeric_option_is_refused_with_those_that_are(name):
    with pytest.raises(ConfigError, match=rf"axis '{name}' is no numeric option of Pull: .* data.target, data.noise"):
        find_option(Pull(), name)
    with pytest.raises(ConfigError, match=rf"axis '{name}' is no numeric option of pull: "):
        find_option(Pull(), name, "pull")


def test_an_option_is_set_where_it_is_and_nowhere_else():
    assert with_options(Pull(), {"data.noise": 0.5}) == Pull(data=Noisy(noise=0.5))
    assert with_options(Pull(), {"optimizer.lr": 0.5}) == Pull(optimizer=SGD(0.5, 0.01))
    assert with_options(Two(), {"scale": 0.5}) == Two(scale=0.5)
    assert with_options(Two(), {"limit": 0.5}) == Two(limit=0.5)


def test_whole_numbers_stay_whole():
    width = with_options(Pull(), {"width": 3.0}).width
    assert (width, type(width)) == (3, int)


def test_axes_of_an_arm_have_different_names():
    with pytest.raises(ConfigError, match=r"first\.noise, second\.noise"):
        Arm("twice", RECIPE, "", over=[Axis("first.noise", (1.0,)), Axis("second.noise", (3.0,))])


def test_options_of_a_point_are_set_at_once():
    """Neither alone leaves data that can be."""
    study = Decoupling()
    axes = [Axis("data.features", (1024.0,)), Axis("data.input_dim", (4096.0,))]
    for order in (axes, axes[::-1]):
        ((_, point),) = points(study, order)
        assert (point.data.features, point.data.input_dim) == (1024, 4096)


def test_an_option_that_is_not_set_is_a_number_of_its_declared_kind():
    assert find_option(Two(), "count") == "count"
    assert [is_whole(Two(), name) for name in ("count", "limit")] == [True, False]
    assert list(points(Two(), [Axis("count", (4.0,))])) == [({"count": 4}, Two(count=4))]
    assert with_options(Two(limit=None), {"limit": 0.5}) == Two(limit=0.5)
    with pytest.raises(ConfigError, match=r"Two.count = 1.5 is out of range: allowed is a whole number"):
        with_options(Two(), {"count": 1.5})


if TYPE_CHECKING:
    from nowhere import Unknown


@dataclass(frozen=True)
class Declared:
    optional: Optional[int] = None  # noqa: UP045, as an older package writes it
    union: Union[float, int, None] = None  # noqa: UP007
    quoted: "int | None" = None
    words: Literal[1, 2] = 1
    perhaps: Literal[1, 2] | None = 2
    text: Optional[str] = None  # noqa: UP045


@dataclass(frozen=True)
class OfUnknown:
    count: "int | None" = None
    other: "Unknown | None" = None


def test_it_is_the_same_however_a_number_that_need_not_be_set_is_declared():
    assert list(numeric_options(Declared())) == ["optional", "union", "quoted", "words", "perhaps"]
    assert [name for name in numeric_options(Declared()) if not is_whole(Declared(), name)] == ["union"]
    assert list(numeric_options(OfUnknown())) == ["count"]


@pytest.mark.parametrize("name", ["words", "perhaps"])
def test_of_listed_numbers_no_others_are_taken(name):
    assert with_options(Declared(), {name: 2.0}) == replace(Declared(), **{name: 2})
    with pytest.raises(ConfigError, match=rf"Declared\.{name} = 3 is out of range: allowed is .*1.* 2") as said:
        with_options(Declared(), {name: 3.0})
    assert (said.value.owner, said.value.field) == ("Declared", name)


@pytest.mark.parametrize("value", [2.5, float("inf"), float("nan")])
def test_fractions_of_whole_numbers_are_refused(value):
    with pytest.raises(ConfigError, match=rf"Pull.width = {value} is out of range: allowed is a whole number"):
        with_options(Pull(), {"width": value})


@pytest.mark.parametrize(("path", "value"), [("data.noise", -1.0), ("data.noise", float("nan")), ("width", 0)])
def test_what_is_out_of_range_is_refused_as_on_the_command_line(path, value):
    with pytest.raises(ConfigError, match=rf"\.{path.rpartition('.')[2]} = {value} is out of range: allowed is >="):
        with_options(Pull(), {path: value})


@pytest.mark.parametrize("values", [(), (0.1, 0.2, 0.1), (0.1, 0.1000000000000001)])
def test_an_axis_has_values_that_are_all_different(values):
    with pytest.raises(ConfigError, match=r"values of data.noise = .*: allowed are one or more, all different"):
        Axis("data.noise", values)


def test_points_are_all_combinations_with_their_labels():
    found = list(points(Pull(), [Axis("data.noise", (0.1, 0.2)), Axis("width", (3.0, 1.0))]))
    assert [labels for labels, _ in found] == [
        {"noise": 0.1, "width": 3},
        {"noise": 0.1, "width": 1},
        {"noise": 0.2, "width": 3},
        {"noise": 0.2, "width": 1},
    ]
    assert found[2][1] == Pull(data=Noisy(noise=0.2), width=3)
    assert [type(labels["width"]) for labels, _ in found] == [int] * 4
    assert list(points(Pull(), [])) == [({}, Pull())]


def test_an_axis_prints_as_the_command_line_takes_it():
    axis = Axis("data.noise", (0.1, 1 / 3, 1e-30, 100000.0, 64))
    assert axis.name == "noise"
    assert str(axis) == "0.1,0.3333333333333333,1e-30,100000,64"
    assert tuple(map(float, str(axis).split(","))) == axis.values


RECIPE = Training(
    Noisy(), Values(), Squares(), SGD(), {"pruning": MagnitudePruning(0.1), "none": None}, steps=7, probe_every=3
)


def test_rules_are_reached_by_their_names():
    assert numeric_options(RECIPE) == {
        "data.target": 1.0,
        "data.noise": 0.1,
        "learner.width": 2,
        "optimizer.lr": 0.25,
        "optimizer.weight_decay": 0.005,
        "rules.pruning.ratio": 0.1,
        "rules.pruning.every": 1,
        "rules.pruning.start": 0,
        "steps": 7,
        "probe_every": 3,
    }
    assert find_option(RECIPE, "ratio") == "rules.pruning.ratio"
    changed = with_options(RECIPE, {"rules.pruning.ratio": 0.5})
    assert changed.rules == {"pruning": MagnitudePruning(0.5), "none": None}
    assert RECIPE.rules["pruning"] == MagnitudePruning(0.1)
    assert changed.data is RECIPE.data
    found = list(points(RECIPE, [Axis("rules.pruning.ratio", (0.0, 0.5))]))
    assert [labels for labels, _ in found] == [{"ratio": 0.0}, {"ratio": 0.5}]
    with pytest.raises(ConfigError, match=r"MagnitudePruning.ratio = 1.0 is out of range"):
        with_options(RECIPE, {"rules.pruning.ratio": 1.0})
    with pytest.raises(ConfigError, match=r"MagnitudePruning.every = 1.5 is out of range: allowed is a whole number"):
        with_options(RECIPE, {"rules.pruning.every": 1.5})
