"""`python -m benchmarks.llama_geometry` says of every method what it costs, or why that is not known."""

import json
import sys

import pytest
import torch
from benchmarks import llama_geometry
from benchmarks.cell import tried
from benchmarks.llama_geometry import COMPARED, PUBLISHED, Bench, measure
from transformers import modeling_flash_attention_utils

from featscope.language.methods import SPECULATIVE, names
from featscope.options import ConfigError


@pytest.fixture(autouse=True)
def _without_the_stand_in():
    """What takes the place of flash_attn is gone when a test is over."""
    its = vars(modeling_flash_attention_utils)
    before, there = dict(its), "flash_attn" in sys.modules
    yield
    its.update(before)
    for name in ("flash_attn", "flash_attn.bert_padding") if not there else ():
        sys.modules.pop(name, None)


def small(*lengths, **options):
    return Bench(small=True, lengths=lengths, rounds=1, **options).scaled()


def by_line(rows):
    return {(row["tokens"], row["method"], row["attention"]): row for row in rows.rows}


@pytest.mark.long
def test_every_method_has_its_line_and_both_kinds_of_attention_agree(tmp_path):
    out = tmp_path / "found.json"
    found = by_line(measure(small(16384, out=out)))
    methods = {*names(), *PUBLISHED, "budgets of layers"} - {SPECULATIVE}  # which PUBLISHED has with its own draft
    assert {key[1] for key in found} == methods
    assert {row["said"] for row in found.values()} == {"measured"}
    assert all(row["peak_gib"] > 0 and row["seconds"] > 0 for row in found.values())
    assert len(found) == len(methods) + len(COMPARED)
    for name in COMPARED:
        assert found[256, name, "flash_attention_2"]["same_first_token"]
        assert found[256, name, "flash_attention_2"]["same_kept"]
    stored = json.loads(out.read_text())
    assert stored["rows"] == json.loads(json.dumps([*found.values()]))
    assert [row["tokens"] for row in stored["predicted"]] == [256]
    assert stored["runs"].keys() == {"sdpa", "flash_attention_2"}


def test_what_was_not_tried_says_why(monkeypatch):
    own = llama_geometry.program

    def program(bench, name, model, draft, ids):
        if name == "snapkv" and ids.shape[1] == 128:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return own(bench, name, model, draft, ids)

    monkeypatch.setattr(llama_geometry, "program", program)
    only = {"only": ("full", "snapkv", "adakv", "h2o"), "compare_at": 0, "warm": 1536}
    found = by_line(measure(small(8192, 16384, **only, attention="flash_attention_2", all_queries=8192)))
    said = {key[:2]: row["said"] for key, row in found.items()}
    assert said[128, "snapkv"] == "out of memory"
    assert said[256, "snapkv"] == "not tried: out of memory at 128 tokens"
    assert said[128, "h2o"] == "measured"
    assert said[256, "h2o"].endswith("tried up to 128 tokens")
    assert said[128, "adakv"].startswith("not tried: HeadBudgets hides entries head by head")
    assert {said[256, "full"], said[128, "full"]} == {"measured"}
    spent = measure(small(8192, 16384, **only, seconds=0.0)).rows
    assert {row["said"] for row in spent if row["method"] != "h2o"} == {"not tried: the budget of 0 s"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConfigError("layer = 9:\n no"), "not tried: layer = 9: no"),
        (torch.OutOfMemoryError("CUDA"), "out of memory"),
        (TypeError("argument"), "error: TypeError: argument"),
    ],
)
def test_what_came_in_between_is_said(error, said):
    def fails():
        raise error

    found = tried(lambda: fails, "cpu", 3, 1.0)
    assert (found.said, found.seconds, found.output) == (said, (), None)


@pytest.mark.long
def test_a_long_round_runs_once_and_a_short_one_again():
    ran = []
    assert len(tried(lambda: lambda: ran.append(1), "cpu", 3, 60.0).seconds) == 3
    assert len(tried(lambda: lambda: ran.append(1), "cpu", 3, 0.0).seconds) == 1
