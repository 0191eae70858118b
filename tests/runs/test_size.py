"""Numbers so large that a run would grow or hang are refused before anything is built or written."""

import sys
import time

import pytest
import torch

from featscope.cli import main
from featscope.commands.sweep import axis_values
from featscope.options import ConfigError
from featscope.runs import Settings, run
from featscope.runs.size import within
from featscope.streams import Streams
from featscope.studies import Axis
from featscope.studies.sweep import Sweep
from featscope.system import mapped_files
from featscope.training import Answer
from featscope.training.evaluation import Evaluation
from swept import Pull

HUGE = str(10**23)
SECONDS = 60  # far less than it takes to count to 10^9


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["decoupling", "--replicas", str(10**15)],
            f"--replicas = {10**15} is out of range: allowed is 1 to 1,000,000",
        ),
        (["decoupling", "--steps", HUGE], f"--steps = {HUGE} is out of range: allowed is at most 1e+12"),
        (
            ["decoupling", "--steps", str(10**9), "--probe-every", "1"],
            "would be measured 1e+09 times: allowed is at most",
        ),
        (["decoupling", "--learner.width", HUGE], f"--learner.width = {HUGE} is out of range"),
        (["tensor-power", "--steps", str(10**10)], "has 1e+10 steps: allowed is at most 1e+09"),
        (["needle", "--prompts", HUGE], f"--prompts = {HUGE} is out of range: allowed is 1 to 1000000"),
        (["needle", "--lengths", HUGE], "is out of range: allowed is at most 1048576 tokens"),
        (["needle", "--prompts", "900000"], "questions: allowed is at most 1,000,000"),
        (["icl-flipped-labels", "--items", HUGE], f"--items = {HUGE} is out of range"),
    ],
)
def test_what_nobody_can_wait_for_is_refused(words, message, tmp_path, capfd):
    began = time.monotonic()
    with pytest.raises(SystemExit) as ended:
        main(["run", *words, "--out", str(tmp_path / "run")])
    assert ended.value.code == 2
    assert message in capfd.readouterr().err
    assert not (tmp_path / "run").exists()
    assert time.monotonic() - began < SECONDS


def test_what_no_memory_can_hold_is_refused_by_what_it_needs(tmp_path):
    """A width of 10^9 asks for 4 GiB at once, where 0.25 GiB are allowed."""
    with pytest.raises(ConfigError) as refused:
        run(Pull(width=2**30), Settings(replicas=2, memory_limit=0.25), tmp_path / "run")
    assert "Settings.memory_limit = 0.25 GiB is out of range: a replica needs 4.0 GiB at once, and " in str(
        refused.value
    )
    assert not (tmp_path / "run").exists()


def test_other_errors_pass_and_the_limit_is_taken_back():
    with pytest.raises(ConfigError, match="a replica needs 16.0 GiB at once"):  # noqa: RUF043
        within(2**28, lambda: torch.empty(2**32))
    with pytest.raises(ConfigError, match="a replica needs more, and"):
        within(2**28, lambda: torch.empty(2**62, 2**62))
    with pytest.raises(ConfigError, match="a number among the options is too large to compute with"):
        within(2**28, lambda: torch.zeros(2).fill_(1e300))
    with pytest.raises(RuntimeError, match=r"size mismatch|must match"):
        within(2**28, lambda: torch.zeros(2) + torch.zeros(3))
    assert within(2**28, lambda: torch.ones(4).sum().item()) == 4
    assert torch.empty(2**30).numel() == 2**30


@pytest.mark.parametrize("spec", ["0.1:1.0:1000000000", "0:1:" + HUGE])
def test_an_axis_of_too_many_points_is_refused(spec):
    with pytest.raises(ConfigError, match=r"values: allowed is 2 to 10000"):
        axis_values(f"steps={spec}", spec)


def test_a_sweep_of_too_many_points_is_refused():
    values = tuple(float(value) for value in range(1, 102))
    with pytest.raises(ConfigError, match="makes 10201 points: allowed is at most 10000"):
        Sweep(Pull(), (Axis("data.target", values), Axis("data.noise", values)))


def test_an_evaluation_of_too_many_questions_is_refused():
    grid = {"one": range(10**4), "other": range(10**4)}
    with pytest.raises(ConfigError, match=r"asks 1e\+08 questions"):
        Evaluation(lambda one, other: {"x": 1.0}, grid, {"x": Answer("a number")}, Streams(0, [0]))


@pytest.mark.skipif(sys.platform != "linux", reason="where address space has no limit")
def test_files_that_are_mapped_take_no_memory_and_what_comes_after_does(tmp_path):
    """As the weights of a large model, of which memory holds one copy for all workers."""
    with open(tmp_path / "weights", "wb") as sparse:
        sparse.truncate(2**32)

    def mapped() -> torch.Tensor:
        return torch.from_file(str(tmp_path / "weights"), size=2**32, dtype=torch.uint8)

    def then(asked: int) -> int:
        with mapped_files():
            weights = mapped()
        return len(weights) + len(torch.empty(asked))

    with pytest.raises(ConfigError, match=r"memory_limit = 0\.25 GiB is out of range: a replica needs more"):
        within(2**28, mapped)
    assert within(2**28, lambda: then(8)) == 2**32 + 8
    with pytest.raises(
        ConfigError, match=r"memory_limit = 0\.25 GiB is out of range: a replica needs 16\.0 GiB at once"
    ):
        within(2**28, lambda: then(2**32))
    assert then(8) == 2**32 + 8  # nothing is limited any more
