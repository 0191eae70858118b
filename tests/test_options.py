"""Extras that are not installed."""

import pytest

from featscope.options import MissingExtraError, require_extra


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
