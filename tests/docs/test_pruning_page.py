"""The page of the study pruning: its code runs as it stands, or at a smaller size."""

import re
from itertools import pairwise
from pathlib import Path

import torch
from torch import nn

PAGE = (Path(__file__).parents[2] / "docs" / "studies" / "pruning.md").read_text()
EXPLORATION, NEURONS, ENTRIES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)


def snapshots(module: nn.Module, batches: list):
    """The batches, and the weights before each and after the last."""
    seen = []

    def watched():
        for batch in batches:
            seen.append([p.detach().clone() for p in module.parameters()])
            yield batch
        seen.append([p.detach().clone() for p in module.parameters()])

    return watched(), seen


def test_the_exploration_runs(tmp_path, monkeypatch, capsys):
    code = EXPLORATION
    for shown, used in {"Explore()": "Explore(steps=2)", "replicas=4": "replicas=2"}.items():
        assert code.count(shown) == 1
        code = code.replace(shown, used)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "pruning.md", "exec"), {"__name__": "page"})
    assert len(capsys.readouterr().out.split()) >= 8


def test_neurons_are_hidden_from_the_logits_and_all_of_them_learn():
    torch.manual_seed(0)
    layer = nn.Linear(12, 40)
    x = torch.randn(3, 16, 12)
    batches, seen = snapshots(layer, list(zip(x, x + 0.1 * torch.randn(3, 16, 12), strict=True)))
    names = {"layer": layer, "pairs": batches, "optimizer": torch.optim.SGD(layer.parameters(), lr=0.1)}
    exec(compile(NEURONS, "pruning.md", "exec"), names)
    assert int((~names["pruner"].mask.kept).sum()) == 2
    for before, after in pairwise(seen):
        assert ((before[0] - after[0]).norm(dim=-1) > 0).all()


def test_entries_are_hidden_from_the_loss_and_all_of_them_learn():
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(12, 20), nn.Tanh(), nn.Linear(20, 8)).double()
    images = list(torch.randn(2, 2, 4, 12).double())
    batches, seen = snapshots(encoder, images)
    names = {
        "encoder": encoder,
        "loader": batches,
        "optimizer": torch.optim.SGD(encoder.parameters(), lr=0.01),
        "contrastive": lambda a, b: (a - b).square().sum() + (a + b).square().sum(),
    }
    exec(compile(ENTRIES, "pruning.md", "exec"), names)
    kept = names["pruner"].mask.kept
    assert int((~kept).sum()) == round(0.3 * kept.numel())
    for before, after in pairwise(seen):
        assert all((b != a).all() for b, a in zip(before, after, strict=True) if b.ndim > 1)
