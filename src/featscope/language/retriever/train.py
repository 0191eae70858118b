"""Trains the small retrieval model that ships with FeatScope.

    python -m featscope.language.retriever.train ESSAYS --out DIR

ESSAYS is a folder of .txt files. Lengths grow in stages: at short lengths the needle is easy to find, and what finds
it (a head that looks one token back, one that then looks for the same predecessor) carries over to longer ones. The
loss is that of the answers plus a tenth of that of all tokens. The first stage is no text: random tokens that repeat
teach both heads in minutes, which needles alone did not in ten. Interrupted, the same command goes on
where it was.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from featscope.language.retriever.passwords import ADJECTIVES, ANSWER, CITIES, NEEDLE, NOUNS, QUESTION
from featscope.options import ConfigError, require
from featscope.threads import cores

BOS, EOS, PAD = "<s>", "</s>", "<pad>"
HELD_OUT = 6
"""Every so many essays one is kept for evaluation."""
_CHECKPOINT = 200  # steps
_SHORTEST = 64  # of batches, half of which are shorter than their stage says
_QUESTION_TOKENS = 13  # a question with its answer takes fewer


@dataclass(frozen=True)
class Stage:
    """Some steps at one length.

    Attributes:
        length: tokens in a sequence.
        steps: optimizer steps.
        copies: whether sequences are random tokens that repeat, instead of text with needles.
    """

    length: int
    steps: int
    copies: bool = False


@dataclass(frozen=True)
class Recipe:
    """How the model is made.

    Attributes:
        essays: folder of .txt files.
        out: folder that receives model and tokenizer, and a checkpoint while it trains.
        vocabulary: tokens of the byte-pair encoding.
        width: of the model.
        layers: of the model.
        heads: query heads; half as many key-value heads.
        context: positions that the model accepts; far more than it is trained on, so that it can be seen to fail.
        stages: lengths and steps.
        tokens: in a batch.
        lr: peak learning rate of AdamW; warms up over 200 steps, falls to 0 along a cosine.
        language: weight of the loss of all tokens.
        seed: of the weights and of all batches.
    """

    essays: tyro.conf.Positional[Path]
    out: Path
    vocabulary: int = 2048
    width: int = 128
    layers: int = 4
    heads: int = 4
    context: int = 8192
    stages: tuple[Stage, ...] = (
        Stage(64, 600, copies=True),
        Stage(96, 200),
        Stage(192, 400),
        Stage(384, 800),
        Stage(768, 1400),
    )
    tokens: int = 4096
    lr: float = 3e-3
    language: float = 0.1
    seed: int = 0

    def schedule(self) -> Iterator[Stage]:
        """The stage of each step."""
        return (stage for stage in self.stages for _ in range(stage.steps))

    def __post_init__(self) -> None:
        texts = len(list(self.essays.glob("*.txt")))
        require(self, "essays", texts >= 2, "a folder with two .txt files or more", "One in six is held out.")
        require(self, "stages", bool(self.stages), "one stage or more")
        longest = max(stage.length for stage in self.stages)
        require(self, "tokens", self.tokens >= longest, f">= {longest}, the longest sequence")
        require(self, "context", self.context >= longest, f">= {longest}, the longest sequence")

    @property
    def steps(self) -> int:
        """Of all stages."""
        return sum(stage.steps for stage in self.stages)


def read_essays(folder: Path) -> tuple[list[str], list[str]]:
    """Texts to train on, and those held out."""
    texts = [" ".join(path.read_text(encoding="utf-8").split()) for path in sorted(folder.glob("*.txt"))]
    return [t for i, t in enumerate(texts) if i % HELD_OUT], texts[::HELD_OUT]


def train_tokenizer(texts: Sequence[str], vocabulary: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE of essays and needles; each city and each word of a password becomes one token."""
    rng = np.random.default_rng(0)
    needles = (needle + QUESTION.format(city=city) for city, needle, _ in _facts(rng, 20_000))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[BOS, EOS, PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*texts, *needles], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=BOS, eos_token=EOS, pad_token=PAD)


def _facts(rng: np.random.Generator, count: int) -> Iterator[tuple[str, str, str]]:
    """(city, needle, answer), cities without repetition among any successive 64."""
    cities: list[str] = []
    for _ in range(count):
        cities = cities or list(rng.permutation(CITIES))
        city, adjective, noun = cities.pop(), str(rng.choice(ADJECTIVES)), str(rng.choice(NOUNS))
        words = {"city": city, "adjective": adjective, "noun": noun}
        yield city, NEEDLE.format(**words), ANSWER.format(**words)


class Prompts:
    """Sequences with needles and questions.

    Args:
        tokenizer: of the model.
        texts: what needles are hidden in.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, texts: Sequence[str]) -> None:
        self.tokenizer = tokenizer
        self.text = np.concatenate([tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts])
        ends = {i for token, i in tokenizer.get_vocab().items() if token[-1] in ".?!"}
        self.sentences = 1 + np.flatnonzero(np.isin(self.text, list(ends)))
        self.known: dict[str, list[int]] = {}

    def _encode(self, text: str) -> list[int]:
        if text not in self.known:
            self.known[text] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return self.known[text]

    def sequence(
        self, rng: np.random.Generator, length: int, needles: int, questions: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Tokens ``[length]`` and which of them are words of an answer; the questions come last.

        The text is one piece of an essay, or (every other time) scraps of several.
        """
        facts = list(_facts(rng, needles))
        tail: list[int] = []
        asked: list[int] = []
        for place in rng.permutation(needles)[:questions]:
            city, _, answer = facts[place]
            tail += self._encode(QUESTION.format(city=city))
            asked += [len(tail), len(tail) + 1]
            tail += self._encode(answer)
        hidden = [self._encode(needle) for _, needle, _ in facts]
        room = length - 1 - len(tail) - sum(map(len, hidden))
        if room < 0:
            raise ValueError(f"length = {length} is too short for {needles} needles and {questions} questions")
        pieces = self._pieces(rng, room, needles)
        body = [self.tokenizer.bos_token_id]
        for piece, needle in zip(pieces, [*hidden, []], strict=True):
            body += [*piece, *needle]
        start = len(body)
        answers = np.zeros(length, dtype=bool)
        answers[[start + place for place in asked]] = True
        return np.array(body + tail), answers

    def _pieces(self, rng: np.random.Generator, room: int, cuts: int) -> list[np.ndarray]:
        """``room`` tokens of text in ``cuts`` + 1 pieces, cut at ends of sentences where the text is of one piece."""
        if rng.random() < 0.5:
            places = np.sort(rng.integers(0, room + 1, cuts))
            sizes = np.diff(places, prepend=0, append=room)
            starts = rng.integers(0, len(self.text) - room, cuts + 1)
            return [self.text[start : start + size] for start, size in zip(starts, sizes, strict=True)]
        fitting = self.sentences[self.sentences < len(self.text) - room]
        start = int(rng.choice(fitting))
        inside = self.sentences[(self.sentences >= start) & (self.sentences <= start + room)] - start
        places = np.sort(rng.choice(inside, cuts))
        return np.split(self.text[start : start + room], places)

    def copies(self, rng: np.random.Generator, count: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """``count`` sequences of random tokens with a random period; what repeats is the answer."""
        tokens = np.full((count, length), self.tokenizer.bos_token_id)
        answers = np.zeros((count, length), dtype=bool)
        for row, mark in zip(tokens, answers, strict=True):
            period = int(rng.integers(length // 4, length // 2 + 1))
            row[1:] = np.resize(rng.integers(3, len(self.tokenizer), period), length - 1)
            mark[2 + period :] = True
        return torch.from_numpy(tokens), torch.from_numpy(answers)

    def batch(self, rng: np.random.Generator, count: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """``count`` sequences ``[count, length]`` with as many needles and questions as fit, up to 8 and 6."""
        most = max(2, min(6, length // 24))
        made = []
        for _ in range(count):
            questions = int(rng.integers(1, most + 1))
            spare = (length - _QUESTION_TOKENS * questions) // 10 - 1
            made.append(
                self.sequence(rng, length, int(rng.integers(questions, max(questions, min(8, spare)) + 1)), questions)
            )
        tokens, answers = zip(*made, strict=True)
        return torch.from_numpy(np.stack(tokens)), torch.from_numpy(np.stack(answers))


@torch.no_grad()
def accuracy(model: LlamaForCausalLM, prompts: Prompts, length: int, count: int = 200, needles: int = 4) -> float:
    """Share of prompts with one question out of ``needles`` whose answer the model gives word for word."""
    model.eval()
    right = 0
    for first in range(0, count, 20):
        rng = np.random.default_rng([1, length, first])
        tokens, answers = zip(*(prompts.sequence(rng, length, needles, 1) for _ in range(20)), strict=True)
        ids, marks = torch.from_numpy(np.stack(tokens)), torch.from_numpy(np.stack(answers))
        guess = model(ids).logits[:, :-1].argmax(-1)
        right += int(((guess == ids[:, 1:]) | ~marks[:, 1:]).all(1).sum())
    model.train()
    return right / count


def train(recipe: Recipe) -> None:
    """Train, save the checkpoint every 200 steps, and at the end model, tokenizer and what was measured."""
    torch.set_num_threads(cores())
    recipe.out.mkdir(parents=True, exist_ok=True)
    to_train, held_out = read_essays(recipe.essays)
    tokenizer = train_tokenizer(to_train, recipe.vocabulary)
    prompts, unseen = Prompts(tokenizer, to_train), Prompts(tokenizer, held_out)
    torch.manual_seed(recipe.seed)
    model = LlamaForCausalLM(_config(recipe, tokenizer))
    model.set_attn_implementation("eager")  # on a CPU its backward pass is faster at these lengths
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=recipe.lr, betas=(0.9, 0.98))
    checkpoint = recipe.out / "checkpoint.safetensors"
    start, history = _restore(checkpoint, model, optimizer, recipe)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns) as bar:
        task = bar.add_task("", total=recipe.steps, completed=start)
        for step, stage in enumerate(recipe.schedule()):
            if step < start:
                continue
            for group in optimizer.param_groups:
                group["lr"] = recipe.lr * min(1, (step + 1) / 200) * (0.5 + 0.5 * np.cos(np.pi * step / recipe.steps))
            rng = np.random.default_rng([0, recipe.seed, step])
            length = stage.length if rng.random() < 0.5 else int(rng.integers(_SHORTEST, stage.length + 1))
            draw = prompts.copies if stage.copies else prompts.batch
            tokens, answers = draw(rng, recipe.tokens // length, length)
            with torch.autocast("cpu", torch.bfloat16):
                logits = model(tokens).logits[:, :-1]
            losses = cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
            answer_loss = losses[answers[:, 1:].flatten()].mean()
            loss = answer_loss + recipe.language * losses.mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            bar.update(
                task, advance=1, description=f"{length} tokens, loss of answers {float(answer_loss.detach()):.3f}"
            )
            if (step + 1) % _CHECKPOINT == 0 or step + 1 == recipe.steps:
                found = {
                    "step": step + 1,
                    "length": stage.length,
                    "accuracy": accuracy(model, unseen, max(96, stage.length)),
                }
                found |= {"answers": float(answer_loss.detach()), "all": float(losses.detach().mean())}
                history.append(found)
                bar.console.print(json.dumps(found))
                _save(checkpoint, model, optimizer, step + 1, {"history": history, "recipe": _plain(recipe)})
    model.save_pretrained(recipe.out)
    tokenizer.save_pretrained(recipe.out)
    made = {"recipe": _plain(recipe), "history": history}
    (recipe.out / "training.json").write_text(json.dumps(made, indent=1) + "\n")
    checkpoint.unlink()


def _plain(recipe: Recipe) -> dict[str, Any]:
    return asdict(recipe) | {"essays": recipe.essays.name, "out": None}


def _config(recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=recipe.vocabulary,
        hidden_size=recipe.width,
        intermediate_size=4 * recipe.width,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.heads // 2,
        max_position_embeddings=recipe.context,
        initializer_range=recipe.width
        ** -0.5,  # at the default, 0.02, attention begins uniform and takes long to leave it
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )


def _save(path: Path, model: LlamaForCausalLM, optimizer: torch.optim.Optimizer, step: int, about: Any) -> None:
    tensors = {f"model.{name}": value.clone() for name, value in model.named_parameters()}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": value for name, value in state.items()}
    partial = path.with_suffix(".part")
    save_file(tensors, partial, {"step": str(step), "about": json.dumps(about)})
    partial.replace(path)


def _restore(
    path: Path, model: LlamaForCausalLM, optimizer: torch.optim.Optimizer, recipe: Recipe
) -> tuple[int, list[dict[str, Any]]]:
    if not path.exists():
        return 0, []
    with safe_open(path, "pt") as file:
        written = file.metadata()
    about = json.loads(written["about"])
    if about["recipe"] != json.loads(json.dumps(_plain(recipe))):
        raise ConfigError(f"out = {str(path.parent)!r} holds a training by another recipe: choose another folder")
    tensors = load_file(path)
    own = dict(model.named_parameters())
    with torch.no_grad():
        for name, weights in own.items():
            weights.copy_(tensors[f"model.{name}"])
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in tensors.items():
        if key.startswith("optimizer."):
            _, index, name = key.split(".")
            state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    return int(written["step"]), about["history"]


if __name__ == "__main__":
    train(tyro.cli(Recipe))
