"""What a checkpoint is of."""

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pytest
import torch

from featscope.runs.identity import digest, other


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
    ],
)
def test_another_option_is_another_digest(changed):
    assert digest(replace(Recipe(), **changed)) != digest(Recipe())
    assert digest(replace(Recipe(), **changed)) == digest(replace(Recipe(), **changed))


def test_what_an_older_version_did_not_say_is_not_compared():
    assert other({"steps": 3}, {"steps": 3, "recipe": "a"}) == ""
    assert other({"steps": 3}, {"steps": 4}) == "steps 3, not 4"
