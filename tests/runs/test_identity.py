"""What a checkpoint is of."""

from dataclasses import dataclass, field, make_dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from featscope.runs.identity import digest, other


class Way(Enum):
    """Two."""

    ONE = 1
    TWO = 2


@dataclass(frozen=True)
class Inner:
    """Options."""

    size: float = 1.0
    name: str = "1"


@dataclass(frozen=True)
class Recipe:
    """More of them, and what says nothing of them."""

    inner: Inner = field(default_factory=Inner)
    rules: dict = field(default_factory=lambda: {"stop": partial(max, 1), "when": lambda: None})
    sizes: tuple = (1, 2, None, True)
    seen: list = field(default_factory=list)
    cache: object = field(default_factory=object, compare=False)
    module: object = field(default_factory=torch.nn.Module)


def test_a_digest_is_of_options_alone():
    one = Recipe()
    one.seen.append("what it was used for")
    assert digest(one) == digest(Recipe())  # and of no addresses
    assert digest(Recipe(Inner(1))) == digest(Recipe(Inner(np.float64(1.0)))) == digest(one)


@pytest.mark.parametrize(
    "changed",
    [
        {"inner": Inner(2.0)},
        {"inner": Inner(float("nan"))},
        {"inner": Inner(name="2")},
        {"rules": {}},
        {"rules": {"when": partial(max, 1), "stop": lambda: None}},
        {"sizes": (1, 2)},
        {"sizes": (1, 2, None, 1)},
        {"sizes": (1, 2, "None", True)},
        {"module": Inner()},
        {"sizes": (frozenset({1}), 2)},
        {"sizes": (Path("a"),)},
        {"sizes": (np.int64(1),)},
        {"sizes": (Way.ONE,)},
    ],
)
def test_another_option_is_another_digest(changed):
    assert digest(replace(Recipe(), **changed)) != digest(Recipe())
    assert digest(replace(Recipe(), **changed)) == digest(replace(Recipe(), **changed))


@pytest.mark.parametrize(
    ("one", "two"), [({1}, {2}), (Path("a"), Path("b")), (np.float32(1), np.float32(2)), (Way.ONE, Way.TWO)]
)
def test_values_of_other_kinds_count_too(one, two):
    assert digest(one) != digest(two)
    assert digest({"a", "b", "c"}) == digest({"c", "b", "a"})


def test_values_of_mappings_and_names_of_classes_count():
    assert digest({"a": 1}) != digest({"a": 2})
    alike = make_dataclass("Alike", [("size", float, 1.0), ("name", str, "1")])
    assert digest(alike()) != digest(Inner())


def test_an_option_that_is_added_later_changes_nothing_at_its_default():
    later = make_dataclass("Inner", [("size", float, 1.0), ("name", str, "1"), ("margin", float, 0.0)])
    later.__qualname__ = Inner.__qualname__
    assert digest(later(2.0)) == digest(Inner(2.0))
    assert digest(later(2.0, margin=1.0)) != digest(Inner(2.0))


def test_what_an_older_version_did_not_say_is_not_compared():
    assert other({"steps": 3}, {"steps": 3, "recipe": "a"}) == ""
    assert other({"steps": 3}, {"steps": 4}) == "steps 3, not 4"
