"""Prompts, models and drafts in different places."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

backend = pytest.importorskip("torch.utils.backend_registration")
if not hasattr(backend, "_setup_privateuseone_for_python_backend"):
    pytest.skip("this torch knows no devices that are written in Python", allow_module_level=True)

TESTS = Path(__file__).parents[1]
ELSEWHERE = """
import torch
from pretended_gpu import DEVICE, Pretended, There, pretend
from small_models import padded, prompt, tiny

from featscope.language import FullCache, GemFilter, SnapKV, SpeculativePrefill

METHODS = {
    "full": lambda model, draft: FullCache(model),
    "gemfilter": lambda model, draft: GemFilter(model, 2, 16, window=4),
    "snapkv": lambda model, draft: SnapKV(model, 16, window=4),
    "speculative": lambda model, draft: SpeculativePrefill(model, draft, 16, window=4, look_ahead=2),
}
torch.set_num_threads(1)
pretend()
There.as_subclass = lambda one, kind: one  # a shell stays one
rows, greedy = padded(prompt(60), prompt(40, 1)), {"max_new_tokens": 4, "do_sample": False}
for name, build in METHODS.items():
    expected = build(tiny(), tiny(num_hidden_layers=2)).generate(rows, **greedy)
    with Pretended():
        method = build(tiny(), tiny(num_hidden_layers=2)).to(DEVICE)
        found = method.generate(rows, (rows != 0).long(), **greedy)
        same = found.tolist() == expected.tolist() and found.kept.tolist() == expected.kept.tolist()
        print(name, found.device, same)
"""


def test_prompts_go_where_the_model_is_and_to_a_draft_where_it_stays():
    path = os.pathsep.join([str(TESTS), str(TESTS / "language")])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == [
        f"{name} pretended:0 True" for name in ("full", "gemfilter", "snapkv", "speculative")
    ], done.stderr
