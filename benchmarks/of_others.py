"""What ways of reading make of a language model that others trained.

    python -m benchmarks.of_others MODEL ESSAYS

MODEL is a folder, as `benchmarks.from_wheels` makes one, or a model of the Hub; ESSAYS a folder of .txt files that
needles are hidden in. Draws a picture for docs/long-prompts-measured.md, and fills a table there, both named as the
model: which layers keep answers, and how many each method then gives, of prompts of RULER's tasks. On two cores it
takes about 20 minutes for 135 million parameters.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal

import numpy as np
import torch
import tyro
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from benchmarks.marked import DOCS, LONG_PROMPTS, fill, table
from featscope.language import choose_layer
from featscope.language.examples import Example, write_examples
from featscope.language.layers import LayerChoice
from featscope.language.load import load_model
from featscope.language.ruler_prompts import Ruler, prompts
from featscope.language.selection import Pool
from featscope.language.tune import TunePrompt, tune
from featscope.language.tune_results import Tried

TASKS = ("niah_single_1", "niah_single_2", "niah_multikey_1")
LENGTH, NEW_TOKENS = 1000, 12
KEEPS = (0.1, 0.25)
POOLINGS: tuple[tuple[int, Pool], ...] = ((5, "avg"), (13, "max"))
NAMES = {"avg": "average", "max": "maximum"}
LABELS = {"full": "full attention", "gemfilter": "GemFilter", "snapkv": "SnapKV", "promptdistill": "PromptDistill"}


@dataclass(frozen=True)
class Asked:
    """What is measured.

    Attributes:
        model: a folder, or a model of the Hub.
        essays: folder of .txt files.
        examples: prompts of each task.
        layers_alone: draw the picture, and leave the table as it is: no method is tried.
        dtype: in which the model computes; bfloat16 takes half of the memory.
    """

    model: tyro.conf.Positional[str]
    essays: tyro.conf.Positional[Path]
    examples: int = 8
    layers_alone: bool = False
    dtype: Literal["float32", "bfloat16"] = "float32"

    @property
    def name(self) -> str:
        """What the table and the picture are named."""
        return PurePath(self.model).name


def covering(choice: LayerChoice) -> int | None:
    """The first layer that keeps a token of the answer in nine of ten prompts, which is what the dissertation asks."""
    good = np.flatnonzero(choice.covered >= choice.stable)
    return int(good[0]) if len(good) else None


def measured(asked: Asked) -> tuple[list[tuple[tuple[int, Pool], LayerChoice, list[Tried]]], int]:
    """By pooling: the layers, and all ways of reading; and how many prompts were asked."""
    model, tokenizer = load_model(asked.model)
    nn.Module.to(model, getattr(torch, asked.dtype))
    ruler = Ruler(Path("not-written.jsonl"), asked.model, LENGTH, TASKS, asked.examples, str(asked.essays))
    examples = prompts(ruler, tokenizer)
    pairs = [(one.prompt, one.answers[0]) for one in examples]
    found = []
    for kernel, pool in POOLINGS:
        choice = choose_layer(model, tokenizer, pairs, round(KEEPS[0] * LENGTH), pool=pool, kernel=kernel)
        layers = sorted({layer for layer in (covering(choice), choice.layer) if layer is not None})
        tried = [] if asked.layers_alone else _tried(asked, model, tokenizer, examples, tuple(layers), kernel, pool)
        found.append(((kernel, pool), choice, tried))
    return found, len(examples)


def _tried(
    asked: Asked,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    examples: Sequence[Example],
    layers: tuple[int, ...],
    kernel: int,
    pool: Pool,
) -> list[Tried]:
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "examples.jsonl"
        write_examples(data, examples)
        methods = ("gemfilter", "promptdistill", "snapkv") if layers else ("snapkv",)
        options = TunePrompt(
            data, asked.model, methods, layers, KEEPS, kernel=kernel, pool=pool, max_new_tokens=NEW_TOKENS
        )
        return tune(options, model, tokenizer, examples)


def rows(pooling: tuple[int, Pool], choice: LayerChoice, tried: Sequence[Tried]) -> list[list[str]]:
    """A row for each way of reading that drops something."""
    kernel, pool = pooling
    made = []
    for way in tried[1:]:
        layer = "each" if way.layer is None else str(way.layer)
        looked = way.layer is not None and way.keep == KEEPS[0]  # `choice` is of so many
        keeps = f"{choice.covered[way.layer]:.2f}, {choice.whole[way.layer]:.2f}" if looked else ""
        pooled = f"{NAMES[pool]} of {kernel}"
        time = f"{way.first / tried[0].first:.2f}"
        made.append([LABELS[way.method], layer, pooled, keeps, f"{way.keep:.0%}", _share(way), time])
    return made


def _share(way: Tried) -> str:
    low, high = way.interval
    return f"{way.share:.2f} ({low:.2f} to {high:.2f})"


def main() -> None:
    """Measure, and fill the page."""
    asked = tyro.cli(Asked, description=__doc__)
    found, count = measured(asked)
    found[0][1].figure().savefig(DOCS / "images" / f"layers-of-{asked.name}.png", dpi=110)
    if asked.layers_alone:
        return
    heading = [
        "method",
        "layer",
        "pooling",
        "prompts with a token of the answer kept, with all of it",
        "kept",
        "right",
        "time to the first token, of full's",
    ]
    made = [row for one in found for row in rows(*one)]
    full = [LABELS["full"], "", "", "", "all", _share(found[0][2][0]), "1.00"]
    fill(DOCS / LONG_PROMPTS, {f"of {asked.name}": table(heading, [full, *made]) + f"\n\n{count} prompts."})


if __name__ == "__main__":
    main()
