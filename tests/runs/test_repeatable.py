"""What a GPU is asked for while a run is on it, and that all is as before afterwards; none is needed for that."""

import os
from contextlib import contextmanager

import pytest
import torch

from featscope.runs import Settings, execute
from featscope.runs.folder import RunFolder
from featscope.runs.repeatable import repeatable
from featscope.runs.shard import Shard
from featscope.training import GradientTraining
from swept import Pull

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


@pytest.fixture(autouse=True)
def _without_a_workspace(monkeypatch):
    monkeypatch.setenv(WORKSPACE, "set, so that it is taken back")
    monkeypatch.delenv(WORKSPACE)


def asked_for() -> tuple[int, bool, bool | str]:
    """Of torch: the mode of its kernels, whether cuDNN takes the fastest, and how precise convolutions are."""
    cudnn = torch.backends.cudnn
    precision = cudnn.conv.fp32_precision if hasattr(cudnn, "conv") else cudnn.allow_tf32
    return torch.get_deterministic_debug_mode(), cudnn.benchmark, precision


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_gpu_is_asked_for_the_same_numbers_every_time_and_all_is_as_before_afterwards(device, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    before = asked_for()
    with repeatable(device):
        mode, benchmark, precision = asked_for()
        assert (mode, benchmark) == (1, False)
        assert precision in (False, "ieee")
        assert os.environ[WORKSPACE] == ":4096:8"
    assert asked_for() == before
    with pytest.raises(KeyError), repeatable(device):
        raise KeyError
    assert asked_for() == before


def test_what_is_stricter_stays():
    torch.set_deterministic_debug_mode("error")
    try:
        with repeatable("cuda"):
            assert torch.get_deterministic_debug_mode() == 2
        assert torch.get_deterministic_debug_mode() == 2
    finally:
        torch.set_deterministic_debug_mode("default")


def test_the_processor_is_left_alone():
    before = asked_for()
    with repeatable("cpu"):
        assert asked_for() == before
    assert WORKSPACE not in os.environ


def test_all_training_of_a_run_is_asked_for_so(tmp_path, monkeypatch):
    """Also the first step of each arm, by which memory is measured: its products are the first."""
    within: list[str] = []
    seen: list[list[str]] = []
    advance = GradientTraining.advance

    @contextmanager
    def spied(device):
        within.append(device)
        yield
        within.pop()

    for module in ("execute", "shard"):
        monkeypatch.setattr(f"featscope.runs.{module}.repeatable", spied)
    monkeypatch.setattr("featscope.runs.execute.in_worker", lambda compute: compute())
    monkeypatch.setattr("featscope.runs.execute.within", lambda limit, compute: compute())
    monkeypatch.setattr(GradientTraining, "advance", lambda self, step: (seen.append([*within]), advance(self, step)))
    study = Pull()
    arms = study.arms()
    execute._fitting(study, arms, 2, Settings())
    assert len(seen) >= len(arms)
    first = len(seen)
    shard = Shard(study, arms[0], range(2), 0, "cpu")
    shard.run(RunFolder.create(tmp_path / "run"), lambda: False, lambda steps, status: None)
    assert len(seen) == first + study.steps
    assert all(asked == ["cpu"] for asked in seen)
