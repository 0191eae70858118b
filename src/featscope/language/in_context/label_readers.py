"""Small language models that read labels: trained on labelled reviews whose labels mean what they say, or do not.

A sequence is a prompt of `icl-flipped-labels`: seventeen made-up reviews, each with its label. In half of them
"positive" goes with praise; in some with blame; in others two made-up words stand for both. So what a word means is
worth knowing before the first exemplar (a prior, in the weights), and worth giving up after some (in context). What a
model of a given size does of both is then to be seen.

    python -m featscope.language.in_context.label_readers --out FOLDER --width 64
"""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
import tyro
from jaxtyping import Bool, Int
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from featscope.files import atomic_write
from featscope.language.in_context.examples import TASKS, Example
from featscope.language.in_context.made_up import made_up_irrelevant, made_up_sentiment
from featscope.language.in_context.prompt import ask
from featscope.options import ConfigError, require, require_output_folder
from featscope.streams import Streams

TASK = TASKS["sst2"]
REVIEWS = 4000
"""Sentences that are trained on; the study draws others, and some of the same."""
SYLLABLES = ("ba", "de", "fi", "go", "lu", "ma", "ne", "pi", "ro", "su")
MADE_UP_WORDS = tuple(f"{one}{two}" for one in SYLLABLES for two in SYLLABLES)
_EVERY = 250
_JUDGED = 2**31 - 1  # in the place of a step, for sequences that are judged by
_WARM_UP = 100
Kind = Literal["prior", "inverted", "made-up"]


class Batch(NamedTuple):
    """Prompts in tokens, and which tokens are labels."""

    ids: Int[Tensor, "row token"]
    labels: Bool[Tensor, "row token"]


@dataclass(frozen=True)
class Plan:
    """How a model is made.

    Attributes:
        out: folder that receives model and tokenizer.
        width: of the model.
        layers: of the model.
        heads: of the model, which divide its width.
        shots: exemplars before the last review.
        inverted: share of sequences in which all labels mean the opposite.
        made_up: share of sequences with two made-up words for labels.
        noise: share of labels that are wrong in any sequence.
        beside: share of reviews with a sentence of somebody else's business before or after them, as `icl-attention`
            has them.
        steps: of AdamW.
        rows: sequences in a batch.
        lr: peak learning rate.
        seed: of weights and batches.
    """

    out: Path
    width: int = 64
    layers: int = 3
    heads: int = 2
    shots: int = 16
    inverted: float = 0.2
    made_up: float = 0.3
    noise: float = 0.05
    beside: float = 0.0
    steps: int = 3000
    rows: int = 16
    lr: float = 3e-3
    seed: int = 0

    def __post_init__(self) -> None:
        require_output_folder(self, "out")
        divides = self.heads >= 1 and self.width >= 2 and self.width % (2 * self.heads) == 0
        require(self, "heads", divides, "a divisor of half the width")
        shares = min(self.inverted, self.made_up) >= 0 and self.inverted + self.made_up <= 1
        for name in ("noise", "beside"):
            require(self, name, 0 <= getattr(self, name) <= 1, "a share, 0 to 1")
        require(self, "inverted", shares, "a share >= 0 that with --made-up makes at most 1")
        for name in ("layers", "shots", "steps", "rows"):
            require(self, name, getattr(self, name) >= 1, ">= 1")
        require(self, "shots", self.shots < REVIEWS, f"< {REVIEWS}")
        require(self, "lr", self.lr > 0, "> 0")
        require(self, "seed", self.seed >= 0, ">= 0")


class Reviews:
    """What a model is trained on.

    Args:
        plan: how.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        drawn = made_up_sentiment(Streams(plan.seed, [0]).at("label readers"), REVIEWS)
        self.reviews = [Example((text,), label) for text, label in drawn]
        others = Streams(plan.seed, [0]).at("label readers, beside")
        self.others = made_up_irrelevant(others, REVIEWS) if plan.beside else []
        self.tokenizer = word_tokenizer([*(TASK.shown(one.texts) for one in self.reviews), *self.others])

    def batch(self, step: int, rows: int, kind: Kind | None = None) -> Batch:
        """Prompts with all their labels; of a random kind each if none is named."""
        rng = np.random.default_rng([self.plan.seed, step, len(kind or "")])
        prompts = [self._prompt(rng, kind or self._kind(rng)) for _ in range(rows)]
        encoded = self.tokenizer([text for text, _ in prompts], padding=True, return_tensors="pt")
        words = [self.tokenizer.convert_tokens_to_ids(list(pair)) for _, pair in prompts]
        ids = encoded["input_ids"]
        return Batch(ids, (ids[:, :, None] == torch.tensor(words)[:, None]).any(-1))

    def _kind(self, rng: np.random.Generator) -> Kind:
        at = rng.random()
        return (
            "inverted"
            if at < self.plan.inverted
            else "made-up"
            if at < self.plan.inverted + self.plan.made_up
            else "prior"
        )

    def _prompt(self, rng: np.random.Generator, kind: Kind) -> tuple[str, tuple[str, str]]:
        chosen = [self.reviews[i] for i in rng.choice(len(self.reviews), self.plan.shots + 1, replace=False)]
        wrong = rng.random(len(chosen)) < self.plan.noise
        swapped = kind == "inverted"
        shown = [one._replace(label=one.label ^ int(swapped ^ bool(w))) for one, w in zip(chosen, wrong, strict=True)]
        if self.others:
            shown = [one._replace(texts=(self._with_another(rng, *one.texts),)) for one in shown]
        words = TASK.words
        if kind == "made-up":
            one, other = rng.choice(len(MADE_UP_WORDS), 2, replace=False)
            words = MADE_UP_WORDS[one], MADE_UP_WORDS[other]
        task = TASK if words == TASK.words else type(TASK)(TASK.name, TASK.columns, TASK.titles, words)
        return f"{ask(task, shown[:-1], shown[-1])} {words[shown[-1].label]}", words

    def _with_another(self, rng: np.random.Generator, review: str) -> str:
        """A review, with another sentence before or after it in as many cases as planned."""
        if rng.random() >= self.plan.beside:
            return review
        other = self.others[rng.integers(len(self.others))]
        return f"{review} {other}" if rng.random() < 0.5 else f"{other} {review}"


def word_tokenizer(texts: Sequence[str]) -> PreTrainedTokenizerFast:
    """A token for each word and mark of ``texts``, of prompts' own words, and of labels."""
    split = pre_tokenizers.Whitespace()
    known = {word for text in texts for word, _ in split.pre_tokenize_str(text)}
    own = [word for word, _ in split.pre_tokenize_str("The answer is .")]
    words = ["<pad>", "<unk>", *sorted(known | {*own, *TASK.words, *MADE_UP_WORDS})]
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = split
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", unk_token="<unk>")


def build(plan: Plan, vocabulary: int) -> LlamaForCausalLM:
    """The network before its first step."""
    torch.manual_seed(plan.seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=plan.width,
        intermediate_size=2 * plan.width,
        num_hidden_layers=plan.layers,
        num_attention_heads=plan.heads,
        num_key_value_heads=plan.heads,
        max_position_embeddings=1024,
        initializer_range=plan.width**-0.5,
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=None,
    )
    return LlamaForCausalLM(config)


def loss_and_right(model: LlamaForCausalLM, batch: Batch) -> tuple[Tensor, Tensor]:
    """Mean cross-entropy of labels, in nats, and of each row the share of its last label that is the likeliest word."""
    logits = model(batch.ids, attention_mask=(batch.ids > 0).long()).logits[:, :-1]
    wanted, counts = batch.ids[:, 1:], batch.labels[:, 1:]
    loss = cross_entropy(logits[counts], wanted[counts])
    last = counts.int().cumsum(1).eq(counts.sum(1, keepdim=True)) & counts
    return loss, (logits[last].argmax(-1) == wanted[last]).float()


def train(plan: Plan) -> None:
    """Train; write model, tokenizer and how often the last label is right, by kind of sequence.

    Raises:
        ConfigError: the loss is no longer finite; nothing is written.
    """
    torch.set_num_threads(1)
    reviews = Reviews(plan)
    model = build(plan, len(reviews.tokenizer))
    optimizer = torch.optim.AdamW(model.parameters(), plan.lr, betas=(0.9, 0.98), weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, plan.lr, total_steps=plan.steps, pct_start=min(0.5, _WARM_UP / plan.steps)
    )
    history, began = [], time.monotonic()
    for step in range(plan.steps):
        loss, _ = loss_and_right(model, reviews.batch(step, plan.rows))
        require(plan, "lr", bool(loss.isfinite()), f"one at which the loss stays finite; step {step} is {loss:.3g}")
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if (step + 1) % _EVERY == 0 or step + 1 == plan.steps:
            found = {"step": step + 1, "loss": round(loss.item(), 3), "seconds": round(time.monotonic() - began)}
            history.append(found | judged(model, reviews))
            print(json.dumps(history[-1]), flush=True)
    model.save_pretrained(plan.out)
    reviews.tokenizer.save_pretrained(plan.out)
    made = {"recipe": asdict(plan) | {"out": None}, "parameters": model.num_parameters(), "history": history}
    atomic_write(plan.out / "training.json", (json.dumps(made, indent=1) + "\n").encode())


@torch.no_grad()
def judged(model: LlamaForCausalLM, reviews: Reviews, rows: int = 64) -> dict[str, float]:
    """How often the last label is right, by kind of sequence; they are the same in every training of a seed."""
    kinds: tuple[Kind, ...] = ("prior", "inverted", "made-up")
    shares = (loss_and_right(model, reviews.batch(_JUDGED, rows, kind))[1].mean() for kind in kinds)
    return {kind: round(float(share), 3) for kind, share in zip(kinds, shares, strict=True)}


if __name__ == "__main__":
    try:
        train(tyro.cli(Plan))
    except ConfigError as error:
        sys.exit(str(error))
