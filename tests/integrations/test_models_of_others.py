"""Models that nobody here wrote: each is watched by at most five lines, and its folder is read."""

import ast
import inspect
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from featscope.runs.stored import read_trajectory

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import watched_models

sys.path.pop(0)


@pytest.mark.parametrize("name", watched_models.MODELS)
def test_at_most_five_lines_are_added(name):
    source = inspect.getsource(watched_models.MODELS[name][0])
    ast.parse(source)
    marked = [line for line in source.splitlines() if line.endswith("# +")]
    ours = [line for line in source.splitlines() if "onitor" in line or "FeatScopeCallback" in line]
    assert 2 <= len(marked) <= 5
    assert {line for line in ours if "FeatScope" in line or "import Monitor" in line} <= set(marked)


LONG = ("efficientnet", "masked-autoencoder", "minilm")  # seconds


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[pytest.mark.long] * (one in LONG)) for one in watched_models.MODELS]
)
def test_it_is_watched(name, tmp_path):
    if why := watched_models.missing(name):
        pytest.skip(why)
    torch.manual_seed(0)
    watched_models.MODELS[name][0](tmp_path / "run")
    run = read_trajectory(tmp_path / "run")["training"]
    assert run.sizes["step"] >= 2
    assert bool((run["effective_rank"] > 1).all())
    assert int(run["step"][-1]) > 0


def test_lightly_is_left_out_with_a_reason_where_it_cannot_be_loaded(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightly.models.modules", ModuleType("lightly.models.modules"))
    assert watched_models.lightly() == ""
    monkeypatch.setitem(sys.modules, "lightly.models.modules", None)
    monkeypatch.setitem(sys.modules, "lightly.models", ModuleType("lightly.models"))
    assert "lightly.models.modules" in watched_models.lightly()
