"""The page of the study nuclear-norm: its code runs as it stands."""

import re
from pathlib import Path

import torch
from torch import nn

PAGE = (Path(__file__).parents[2] / "docs" / "studies" / "nuclear-norm.md").read_text()
(LOOP,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)


def test_the_loop_trains_and_the_penalty_begins_after_its_warm_up():
    torch.manual_seed(0)
    encoder, head = nn.Linear(12, 6), nn.Linear(6, 3)
    before = encoder.weight.detach().clone()
    loader = [(torch.randn(32, 12), torch.randint(3, (32,))) for _ in range(102)]
    names = {"torch": torch, "encoder": encoder, "head": head, "loader": loader}
    names["optimizer"] = torch.optim.SGD(encoder.parameters(), lr=0.1)
    exec(compile(LOOP, "nuclear-norm.md", "exec"), names)
    assert not torch.equal(encoder.weight, before)
    assert not names["penalty"](names["features"], 99).item()
    assert names["penalty"](names["features"], 100).item() > 0
