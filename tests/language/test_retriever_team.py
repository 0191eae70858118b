"""Processes that train together."""

import json
import subprocess
import sys

import pytest
import torch

from featscope.language.retriever.team import Team

SCRIPT = """
import json
from pathlib import Path
import torch
from featscope.language.retriever.team import Team
team = Team()
given, none = torch.nn.Parameter(torch.zeros(2, 3)), torch.nn.Parameter(torch.zeros(2))
given.grad = torch.full((2, 3), float(team.rank))
team.average([given, none])
assert none.grad is None
found = [team.rank, team.size, given.grad.unique().tolist(), team.agree(team.rank + 5)]
Path(__file__).with_name(f"{team.rank}.json").write_text(json.dumps(found))
team.leave()
"""


def test_one_process_is_left_as_it_is():
    team, weight = Team(), torch.nn.Parameter(torch.zeros(2))
    weight.grad = torch.ones(2)
    team.average([weight])
    assert (team.rank, team.size, team.agree(0.25)) == (0, 1, 0.25)
    assert weight.grad.tolist() == [1, 1]
    team.leave()


@pytest.mark.long
def test_processes_take_the_mean_gradient_and_the_first_ones_word(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    subprocess.run(command, capture_output=True, timeout=120, check=False)  # gloo may abort in its own end, after all
    assert [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)] == [
        [0, 2, [0.5], 5.0],
        [1, 2, [0.5], 5.0],
    ]
