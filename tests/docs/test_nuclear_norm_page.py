"""The page of the study nuclear-norm: its code runs as it stands, and options that it names are there."""

import re
from dataclasses import fields
from pathlib import Path

import torch
from torch import nn

from featscope.losses import NuclearNorm

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


def test_options_that_it_names_are_those_of_the_penalty():
    _, _, about = PAGE.partition("## The nuclear norm in a loop of your own")
    assert set(re.findall(r"`(\w+)=", about)) == {"normalize", "gather"}
    assert {"normalize", "gather"} <= {option.name for option in fields(NuclearNorm)}
    assert not NuclearNorm().gather, "the page says that each process penalises its own rows unless asked"
