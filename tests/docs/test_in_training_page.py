"""The page on remedies and probes in one's own training: its code runs as it stands."""

import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from featscope.runs.stored import read_trajectory

PAGE = (Path(__file__).parents[2] / "docs" / "in-training.md").read_text()
(LOOP,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
NAMED = dict(re.findall(r'^```python title="(\w+)"\n(.*?)^```$', PAGE, re.M | re.S))


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def parts(outputs: int = 3) -> dict[str, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, outputs))
    batches = [(torch.randn(32, 12), torch.randint(3, (32,))) for _ in range(3)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return {"torch": torch, "model": model, "held_out": batches, "loader": batches, "optimizer": optimizer}


def run(code: str, names: dict[str, Any]) -> dict[str, Any]:
    exec(compile(code, "in-training.md", "exec"), names)
    return names


def test_a_plain_loop_is_watched_by_four_lines(capsys):
    run(LOOP, parts())
    assert read_trajectory(Path("runs/mine"))["training"]["step"].values[-1] == 3
    assert "featscope/effective_rank" in capsys.readouterr().out
    assert sum("onitor" in line for line in LOOP.splitlines()) == 4


def test_the_pruned_loop_trains_and_its_statistics_are_the_whole_network_s():
    names = parts()
    before = names["model"][0].weight.detach().clone()
    run(NAMED["pruning"].replace("start=1000", "start=1"), names)
    model = names["model"]
    assert not torch.equal(model[0].weight, before)
    means = torch.stack([model[0](x).mean(0) for x, _ in names["loader"]]).mean(0)
    torch.testing.assert_close(model[1].running_mean, means.detach())


def test_the_head_begins_as_the_identity():
    names = parts(64) | {"one": torch.randn(8, 12), "other": torch.randn(8, 12)}
    run(NAMED["head"], names)
    torch.testing.assert_close(names["prediction"], names["model"](names["one"]))
    assert not names["target"].requires_grad
    names["loss"].backward()
    assert bool(names["model"][0].weight.grad.any())
    assert bool(names["head"].scaled.grad.any())


def test_a_target_follows_slowly():
    once, *each = NAMED["average"].partition("\n\n")[2].splitlines()
    names = parts(4) | {"other": torch.randn(8, 12)}
    run(f"{NAMED['average'].splitlines()[0]}\n{once}", names)
    before = names["model"][0].weight.detach().clone()
    with torch.no_grad():
        names["model"][0].weight.add_(1.0)
    run("\n".join(each), names)
    torch.testing.assert_close(names["slow"].average[0].weight, before + 0.01)
    assert not names["target"].requires_grad


def test_what_pruning_did_is_said_of_the_form_that_did_it():
    said = " ".join(re.search(r"^\*\*When it helps.*?\n\n", PAGE, re.M | re.S)[0].split())
    assert 'gradient="straight-through"' in NAMED["pruning"]
    assert "By straight-through, as above, they do nothing there" in said
    assert 'gradient="theory"' in said.partition("By straight-through")[0]
    assert 'score="direction"' in said


def test_in_lightning():
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):
        def __init__(self, net):
            super().__init__()
            self.net = net

        def forward(self, x):
            return self.net(x)

        def training_step(self, batch, index):
            return nn.functional.cross_entropy(self(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    names = parts() | {"lightning": lightning}
    names["module"] = Module(names["model"])
    names["loader"] = torch.utils.data.DataLoader(names["loader"], batch_size=None)
    run(NAMED["Lightning"], names)
    assert read_trajectory(Path("runs/mine"))["training"]["step"].values[-1] == 3


def test_in_the_trainer():
    """Where accelerate is missing, with what is no trainer but is called as one."""
    pytest.importorskip("transformers")
    names, watched = parts(), []
    held_out = names["held_out"]

    def train() -> None:
        (callback,) = watched
        callback.on_train_begin(None, SimpleNamespace(global_step=0), None, model=names["model"])
        callback.on_step_end(None, None, None)
        callback.on_train_end(None, None, None, train_dataloader=held_out)

    names["trainer"] = SimpleNamespace(
        add_callback=watched.append,
        train=train,
        log=lambda found: None,
        eval_dataset=held_out,
        get_eval_dataloader=lambda: held_out,
    )
    run(NAMED["Trainer"], names)
    assert read_trajectory(Path("runs/mine"))["training"]["step"].values[-1] == 1
    assert os.path.exists("runs/mine/claims.json")
