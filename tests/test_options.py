"""Checks of options, the errors that they raise, and extras that are not installed."""

import pickle
from dataclasses import dataclass

import pytest

from featscope.options import ConfigError, MissingExtraError, require, require_extra


@dataclass(frozen=True)
class Speed:
    """How fast."""

    value: float = 1.0

    def __post_init__(self) -> None:
        require(self, "value", self.value > 0, "> 0", "Nothing moves.")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (-1.0, "Speed.value = -1.0 is out of range: allowed is > 0. Nothing moves."),
        (float("inf"), "Speed.value = inf is out of range: allowed is > 0, and finite. Nothing moves."),
        (float("nan"), "Speed.value = nan is out of range: allowed is > 0, and finite. Nothing moves."),
    ],
)
def test_a_refusal_names_class_field_value_range_and_cure(value, said):
    with pytest.raises(ConfigError) as refused:
        Speed(value)
    assert str(refused.value) == said
    assert (refused.value.owner, refused.value.field) == ("Speed", "value")


def test_errors_come_out_of_a_worker_as_they_were():
    """With what the command line needs to name the option as it was typed."""
    with pytest.raises(ConfigError) as refused:
        Speed(0.0)
    copy = pickle.loads(pickle.dumps(refused.value))
    assert (str(copy), copy.owner, copy.field) == (str(refused.value), "Speed", "value")
    missing = pickle.loads(pickle.dumps(MissingExtraError("a part", "images")))
    assert str(missing) == "a part needs the extra 'images': pip install 'featscope[images]'"


def test_a_wrong_option_is_no_wrong_value():
    """Who catches what a conversion raises must not swallow it."""
    assert not issubclass(ConfigError, ValueError | TypeError | KeyError | OSError)


def test_a_missing_package_names_the_extra():
    with (
        pytest.raises(
            MissingExtraError, match=r"a study needs the extra 'language': pip install 'featscope\[language\]'"
        ),
        require_extra("a study", "language"),
    ):
        import no_such_package  # noqa: F401


def test_what_a_part_of_it_misses_is_said_of_the_whole():
    with (
        pytest.raises(MissingExtraError, match="a study needs the extra 'images'"),
        require_extra("a study", "language"),
    ):
        raise MissingExtraError("a part", "images")


def test_a_missing_part_of_ones_own_is_no_extra():
    with pytest.raises(ModuleNotFoundError, match=r"featscope\.nowhere"), require_extra("a study", "language"):
        import featscope.nowhere  # noqa: F401


def test_other_errors_stay():
    with pytest.raises(ZeroDivisionError), require_extra("a study", "language"):
        1 / 0  # noqa: B018
