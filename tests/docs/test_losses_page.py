"""The page on penalties in one's own training: its code runs as it stands."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from featscope.losses import ContrastiveRegularizer, NuclearNorm
from featscope.studies.domain_generalisation.recipe import frobenius

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "losses.md").read_text()
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


def test_every_nuclear_norm_of_the_page_is_as_strong_as_the_one_that_was_measured():
    """Of 96 rows, divided by them, as the study has it."""
    features = torch.randn(96, 64, generator=torch.Generator().manual_seed(0)).relu()
    measured = float(NuclearNorm(0.01, "rows")(features))
    shown = re.findall(r"NuclearNorm\(\d[^)]*\)", PAGE)
    assert len(shown) >= 5
    for call in shown:
        assert float(eval(call)(features)) == pytest.approx(measured, rel=0.05), call


def test_its_control_is_the_frobenius_norm_of_the_study():
    features = torch.randn(96, 64, generator=torch.Generator().manual_seed(0)).relu()
    (formula,) = re.findall(r"`(weight \* [^`]*)`", PAGE)
    control = float(eval(formula, {"weight": 0.01, "features": features}))
    assert control == pytest.approx(float(frobenius(features[None], torch.tensor([0.01]))), rel=1e-5)


def test_the_head_beside_a_nuclear_norm_has_weight_decay_and_the_page_says_why():
    names = parts() | {"ContrastiveRegularizer": ContrastiveRegularizer, "NuclearNorm": NuclearNorm}
    names["lightning"] = SimpleNamespace(LightningModule=nn.Module)
    exec(compile(NAMED["Lightning"], "losses.md", "exec"), names)
    tuned = names["Tuned"](names["encoder"], names["head"], names["augment"])
    groups = tuned.configure_optimizers().param_groups
    (decayed,) = [group for group in groups if any(one is tuned.head.weight for one in group["params"])]
    assert decayed["weight_decay"] > 0
    assert "The nuclear norm needs a head that cannot grow" in PAGE


def verdicts(study: str) -> dict[tuple[str, str], tuple[list[str], str]]:
    """By claim and arm: what the study's page has as measured, with both ends of its interval, and the verdict."""
    page = (DOCS / "studies" / f"{study}.md").read_text().replace("−", "-")
    rows = re.findall(r"^\|.*<br>`([\w-]+)`, .* \| ([\w-]+) \| .* \| (\S+)<br>(\S+) to (\S+) \| (.*) \|$", page, re.M)
    return {(claim, arm): (found, verdict) for claim, arm, *found, verdict in rows}


@pytest.mark.parametrize(
    ("claim", "arm"),
    [
        ("nu-beats-erm", "erm"),
        ("nu-changes-little", "head"),
        ("nu-beats-erm-at-the-chosen-strength", "erm"),
        ("nu-beats-frobenius", "erm"),
        ("lambda-window-ends", "erm"),
    ],
)
def test_numbers_of_the_nuclear_norm_are_those_of_the_verdicts(claim, arm):
    found, _ = verdicts("domain-generalisation")[claim, arm]
    measured, low, high = (f"{float(value):.2f}" for value in found)
    assert re.search(rf"[ +]{re.escape(measured)} points \({low} to {high}\)", PAGE.replace("−", "-"))


@pytest.mark.parametrize(
    ("weight", "sets", "claims"),
    [
        ("1", "text", ("the-term-beats-fine-tuning", "the-term-beats-two-views")),
        ("0.1", "text", ("the-weaker-term-beats-fine-tuning", "the-weaker-term-beats-two-views")),
        ("1", "images", ("the-term-beats-fine-tuning", "the-term-beats-two-views")),
        ("0.1", "images", ("the-weaker-term-beats-fine-tuning", "the-weaker-term-beats-two-views")),
    ],
)
def test_numbers_of_the_contrastive_term_are_those_of_the_verdicts(weight, sets, claims):
    arms = {"text": ("trec", "sst2", "mr", "subj", "cr"), "images": ("images", "photos")}[sets]
    rows = verdicts("contrastive-fine-tuning")
    found = [rows[claim, arm] for claim in claims for arm in arms]
    values = [float(measured) for (measured, *_), _ in found]
    decided = sum(not verdict.startswith("undecided") for _, verdict in found)
    words = {0: "none", 6: "six", 7: "seven"}[decided], {4: "four", 10: "ten"}[len(found)]
    said = f"{min(values):.1f} to {max(values):.1f} points, {words[0]} of {words[1]} differences decided"
    (line,) = [line for line in PAGE.replace("−", "-").splitlines() if said in line]
    assert f"`ContrastiveRegularizer(weight={weight})`" in line
