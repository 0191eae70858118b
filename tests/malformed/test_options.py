"""Options of every study in the catalogue, with values that are wrong or doubtful for their type.

A new study is covered as soon as it is in the catalogue. Each option gets one value, in turn; ``make fuzz`` has all.
"""

import re
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from any_study import BEYOND, STUDIES, words_of
from calling import Ended, call, refused, require_refused, require_refused_or_begun
from hypothesis import settings
from wrong_values import DOUBTFUL, WRONG, Option, options

from featscope.runs import Settings

pytestmark = pytest.mark.timeout(120)

ALL = settings.default.max_examples > 1000  # the profile of `make fuzz`
NUMBERS = {float: ("nan", "inf")}  # of what is wrong, what an option's own check must see: words do not come so far


def _few(values: tuple[str, ...], turn: int, most: int) -> list[str]:
    return list(values) if ALL else [values[(turn * most + i) % len(values)] for i in range(min(most, len(values)))]


def _cases() -> list[Any]:
    turn, found = count(), []
    for name, kind in STUDIES.items():
        for option in options(kind()):
            now = next(turn)
            all_wrong = WRONG.get(option.kind, ())
            wrong = all_wrong if ALL else _few(NUMBERS.get(option.kind, all_wrong), now, 1)
            doubtful = _few(DOUBTFUL[option.kind], now, 1)
            both = [*((one, True) for one in wrong), *((one, False) for one in doubtful)]
            for value, must in both if ALL else both[now % len(both) :][:1]:
                id = f"{name} {option.typed} {value[:12]!r}"
                found.append(pytest.param(name, option, value, must, id=id))
    return found


def require_value_and_range(ended: Ended, typed: str, value: str) -> None:
    """See that a refusal says what was typed and what is allowed, or what it would take and what there is."""
    if ended.code != 2:
        return
    shown = {value[:20], repr(value)[1:20], value.replace(",", ", ")}
    with suppress(ValueError, OverflowError):
        shown |= {repr(float(value)), f"{float(value):g}"}
        shown |= {str(int(float(value)))[:20]}
    another = set(re.findall(r"(--[a-z.-]+) = ", ended.err)) - {typed}  # that does not go with what was typed
    derived = re.search(r"has [\d.e+]+ steps", ended.err)  # of an arm, made of what was typed
    assert another or derived or "GiB" in ended.err or any(word in ended.err for word in shown), (
        f"none of {shown} in {ended}"
    )
    said = ("allowed", "GiB", "Argument helptext", "Expected one of", "Unrecognized options")  # the last three: tyro's
    assert any(word in ended.err for word in said), ended


@pytest.mark.parametrize(("name", "option", "value", "must"), _cases())
def test_an_option_of_a_study(tmp_path, name, option: Option, value, must):
    words = [*words_of(name, option.typed), option.typed, value]
    names = (*option.names, *BEYOND, *(["Unrecognized options"] if option.kind is bool else []))
    ended = call(*words, within=tmp_path)
    (require_refused if must else require_refused_or_begun)(ended, names)
    require_value_and_range(ended, option.typed, value)


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_at_its_smallest_begins(tmp_path, name):
    """Else what is refused above is refused for another reason."""
    assert call(*words_of(name), within=tmp_path).code is None


@pytest.mark.parametrize("option", list(options(Settings())), ids=lambda option: option.typed)
def test_an_option_of_all_studies(tmp_path, option):
    for value in WRONG.get(option.kind, ()):
        refused("run", "tensor-power", "--out", "out", option.typed, value, within=tmp_path, names=option.names)
    for value in DOUBTFUL[option.kind]:
        if value not in ("1000000000000",):  # a seed as good as others
            words = ("run", "tensor-power", "--out", "out", option.typed, value)
            require_refused_or_begun(call(*words, within=tmp_path), option.names)
            for left in sorted(tmp_path.rglob("*"), reverse=True):
                left.rmdir() if left.is_dir() else left.unlink()
