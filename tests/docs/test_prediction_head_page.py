"""The page of the study prediction-head: its code runs as it stands."""

import re
from pathlib import Path

import torch
from torch import nn

PAGE = (Path(__file__).parents[2] / "docs" / "studies" / "prediction-head.md").read_text()
(LOOP,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)


def test_the_loop_trains_encoder_and_head(capsys):
    torch.manual_seed(0)
    encoder = nn.Linear(12, 64)
    before = encoder.weight.detach().clone()
    loader = [(torch.randn(32, 12), torch.randn(32, 12)) for _ in range(3)]
    exec(compile(LOOP, "prediction-head.md", "exec"), {"torch": torch, "encoder": encoder, "loader": loader})
    assert not torch.equal(encoder.weight, before)
    assert "tensor(" in capsys.readouterr().out
