"""Arms of studies take a step on a device that refuses what a GPU refuses, and measure what the processor does.

Arms with a model of language are left out: those ask for "cuda" by name. `make test-gpu` has all on a GPU.
"""

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from two_devices import ARMS

pytest.importorskip("kornia", reason="extra 'images' is not installed")
backend = pytest.importorskip("torch.utils.backend_registration")
if not hasattr(backend, "_setup_privateuseone_for_python_backend"):
    pytest.skip("this torch knows no devices that are written in Python", allow_module_level=True)

TESTS = Path(__file__).parents[1]
OF_LANGUAGE = {"gemfilter", "icl-attention", "longbench", "needle"}
TRIED = [
    "imbalance/imbalanced",
    "prediction-head-images/linear",
]
"""Where numbers of the processor once met those of a GPU, or images had another size there."""
ELSE = defaultdict(list)
for name, arm in ARMS:
    if name not in OF_LANGUAGE and f"{name}/{arm}" not in {*TRIED, "icl-flipped-labels/retriever"}:
        ELSE[name].append(f"{name}/{arm}")
OTHERS = [pytest.param(arms, id=name, marks=[pytest.mark.long]) for name, arms in ELSE.items()]


def went_wrong(*arguments: str) -> str:
    """What is printed, by a process of its own: torch is told there of a new kind of device."""
    path = os.pathsep.join([str(TESTS), str(TESTS / "studies")])
    command = [sys.executable, str(TESTS / "pretended_gpu.py"), *arguments]
    found = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert found.returncode == bool(found.stdout), found.stderr
    return found.stdout


@pytest.mark.long
def test_what_differs_or_meets_is_found():
    assert went_wrong("planted").splitlines() == [
        "a tensor of the processor: Expected all tensors to be on the same device: aten.add.Tensor",
        "NumPy: can't convert device type tensor to numpy",
        "a draw: Drawn by the device itself: aten.rand.default",
    ]


@pytest.mark.parametrize("arms", [pytest.param(TRIED, id="some"), *OTHERS])
def test_a_step_measures_what_it_does_on_the_processor(arms):
    assert went_wrong(*arms) == ""
