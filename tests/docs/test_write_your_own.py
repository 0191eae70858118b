"""The page about parts of one's own: its code runs in order, prints what it shows, and passes a type checker."""

import contextlib
import io
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from torch import Tensor

from featscope.commands.parsing import option_names, parse
from featscope.losses import ContrastiveLoss
from featscope.options import ConfigError, require
from featscope.training import Contrastive, LearnerConfig, RuleConfig, SourceConfig

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "write-your-own.md").read_text()
CODE = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S))
(SHOWN,) = re.findall(r"^```text\n(.*?)^```$", PAGE, re.M | re.S)


def test_it_runs_and_finds_what_is_shown(monkeypatch):
    names = {"__name__": "page"}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(CODE, "write-your-own.md", "exec"), names)
    found, shown = ([line.split() for line in text.splitlines()] for text in (printed.getvalue(), SHOWN))
    assert [(id, arm, verdict) for id, arm, _, verdict in found] == [(id, arm, v) for id, arm, _, v in shown]
    assert [float(one[2]) for one in found] == pytest.approx([float(one[2]) for one in shown], abs=0.05)
    names["trial"].require_noticed(names["unchanged"], monkeypatch)
    assert isinstance(names["TwoHalves"](), SourceConfig)
    assert isinstance(names["Linear"](), LearnerConfig)
    assert isinstance(names["AtMost"](), RuleConfig)
    assert isinstance(names["Spectral"](), ContrastiveLoss)


@dataclass(frozen=True)
class Scaled:
    """A loss with an option."""

    scale: float = 1.0

    def __post_init__(self) -> None:
        require(self, "scale", self.scale > 0, "> 0")

    def __call__(self, anchor: Tensor, positive: Tensor, negatives: Tensor) -> Tensor:
        return self.scale * anchor.sum((1, 2))


@dataclass(frozen=True)
class Options:
    objective: Contrastive[Scaled] = field(default_factory=lambda: Contrastive(loss=Scaled()))


def test_the_command_line_knows_the_options_of_ones_own_loss():
    assert parse(Options, ["--objective.loss.scale", "2"], "run").objective.loss == Scaled(2)
    with pytest.raises(ConfigError, match=r"^--objective\.loss\.scale = -1.0 is out of range: allowed is > 0"):
        parse(Options, ["--objective.loss.scale", "-1"], "run")
    with pytest.raises(ConfigError, match=r"^--objective\.anchors = 0 is out of range"):
        parse(Options, ["--objective.anchors", "0"], "run")
    assert dict(option_names(Contrastive))["InfoNCE", "temperature"] == "--loss.temperature"


@pytest.mark.long
def test_a_type_checker_has_nothing_to_say(tmp_path):
    page = tmp_path / "page.py"
    page.write_text(CODE)
    command = [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", "--cache-dir", tmp_path, page]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
