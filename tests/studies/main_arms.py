"""Claims on the arms that a study is about, each time; on all others, whose training takes as long again, seldom."""

from collections.abc import Iterable
from typing import Any

import pytest


def on_arms(claims: Iterable[tuple[str, str]], *main: str) -> list[Any]:
    """``claims`` (id, arm) for a test of each; those on arms other than ``main`` need ``--long``."""
    return [pytest.param(key, id="-".join(key), marks=[pytest.mark.long] * (key[1] not in main)) for key in claims]
