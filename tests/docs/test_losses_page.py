"""The page on penalties in one's own training: its code runs as it stands."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from featscope.losses import ContrastiveRegularizer, NuclearNorm

PAGE = (Path(__file__).parents[2] / "docs" / "losses.md").read_text()
LOOPS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
NAMED = dict(re.findall(r'^```python title="(\w+)"\n(.*?)^```$', PAGE, re.M | re.S))


def parts() -> dict[str, Any]:
    torch.manual_seed(0)
    encoder, head = nn.Linear(12, 6), nn.Linear(6, 3)
    return {
        "torch": torch,
        "encoder": encoder,
        "head": head,
        "augment": lambda images: images + 0.3 * torch.randn_like(images),
        "loader": [(torch.randn(32, 12), torch.randint(3, (32,))) for _ in range(5)],
        "optimizer": torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1),
    }


@pytest.mark.parametrize("loop", LOOPS, ids=["nuclear norm", "contrastive term"])
def test_a_plain_loop_trains_and_its_term_moves_weights(loop):
    names, without = parts(), parts()
    exec(compile(loop, "losses.md", "exec"), names)
    bare = re.sub(r" \+ (penalty|term)\S*\(.*\)$", "", loop, flags=re.M)
    assert bare != loop
    exec(compile(bare, "losses.md", "exec"), without)
    assert not torch.equal(names["encoder"].weight, without["encoder"].weight)
    if "term" in names:
        assert names["term"].first > 0.1


def test_the_step_for_lightning_has_all_terms_and_trains_where_it_is_installed():
    """Without Lightning its class is stood in for by `torch.nn.Module`, and the step is called by hand."""
    try:
        import lightning
    except ImportError:
        lightning = None
    names = parts() | {"ContrastiveRegularizer": ContrastiveRegularizer, "NuclearNorm": NuclearNorm}
    names["lightning"] = lightning or SimpleNamespace(LightningModule=nn.Module)
    exec(compile(NAMED["Lightning"], "losses.md", "exec"), names)
    tuned = names["Tuned"](names["encoder"], names["head"], names["augment"])
    before = tuned.encoder.weight.detach().clone()
    if lightning is None:
        optimizer = tuned.configure_optimizers()
        tuned.training_step(names["loader"][0], 0).backward()
        optimizer.step()
    else:
        trainer = lightning.Trainer(
            max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, accelerator="cpu"
        )
        trainer.fit(tuned, torch.utils.data.DataLoader(names["loader"], batch_size=None))
    assert not torch.equal(tuned.encoder.weight, before)
    assert tuned.term.first > 0.1


def test_the_loss_for_the_trainer_has_the_term():
    """The loss alone; `Trainer` itself asks for the package accelerate."""
    transformers = pytest.importorskip("transformers")
    names = {"ContrastiveRegularizer": ContrastiveRegularizer, "transformers": transformers}
    exec(compile(NAMED["Trainer"], "losses.md", "exec"), names)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=30, hidden_size=24, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    model = transformers.BertForSequenceClassification(config).train()
    inputs = {
        "input_ids": torch.randint(1, 30, (8, 5)),
        "attention_mask": torch.ones(8, 5, dtype=torch.long),
        "labels": torch.arange(8) % 2,
    }
    tuned = names["Tuned"].__new__(names["Tuned"])
    loss, outputs = tuned.compute_loss(model, inputs, return_outputs=True)
    assert loss.item() == pytest.approx(outputs.loss.item() + 0.1 * tuned.term.first, rel=1e-5)
    assert tuned.term.first > 0.1
    loss.backward()
    assert bool(model.bert.embeddings.word_embeddings.weight.grad.any())
