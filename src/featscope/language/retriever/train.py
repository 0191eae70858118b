"""Trains the small retrieval model of the package featscope-retriever.

    python -m featscope.language.retriever.train ESSAYS --out DIR
    torchrun --nproc-per-node 2 -m featscope.language.retriever.train ESSAYS --out DIR --tokens 2048

ESSAYS is a folder of .txt files. Several processes average their gradients; each of them takes ``--tokens`` in a step.
On a GPU (``--device cuda``) one trains, and ``--makers`` others make its batches.
The loss is that of the answers, with a little of that of all tokens, and of what an answer is put together of
(`featscope.language.retriever.hints`). Stages: random tokens that repeat teach a head
that looks one token back and one that looks for the same predecessor (an induction head); then needles and questions,
at first of random tokens alone, then most of them in English, at lengths that grow. A stage ends when ``gate`` of the
answers begin right, or after its share of the minutes. ``--weights DIR --stage N`` goes on from a model that is there.

Matrices of the layers learn by Muon, the rest by AdamW; the rates fall to 0 over all the time.
"""

import json
import sys
import time
from dataclasses import asdict, dataclass
from functools import cache
from itertools import count
from multiprocessing import get_all_start_methods
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import tyro
from torch import nn
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from featscope.files import atomic_write
from featscope.language.retriever.data import KINDS, Batch, Kind, Task, together
from featscope.language.retriever.hints import Readers
from featscope.language.retriever.makers import Makers
from featscope.language.retriever.model import accuracy, build, fits, go_on, loss_and_right
from featscope.language.retriever.muon import Muon
from featscope.language.retriever.team import Team
from featscope.language.retriever.texts import read_essays, split_words, train_tokenizer
from featscope.language.retriever.wordings import HELD_OUT, TRAINED
from featscope.options import ConfigError, require, require_output_folder

_EVERY = 500  # steps between checkpoints
_JUDGED = 48  # prompts of a kind and length
_SHORTEST_JUDGED = 320  # tokens: nearly all sentences fit four times with an identifier, and a question
_SHORTEST = 72  # tokens of a batch that is shorter than its stage says
_WARM_UP = 60  # steps


@dataclass(frozen=True)
class Stage:
    """Some steps at one length.

    Attributes:
        length: of sequences, in tokens.
        until: share of the minutes after which the next stage begins in any case.
        copies: share of sequences that are random tokens that repeat.
        english: share of needles worded in English.
        text: share of prompts with essays around the needles.
        reworded: share of prompts in English whose questions do not repeat the needle.
        few: whether sequences that repeat have few distinct tokens.
    """

    length: int
    until: float
    copies: float = 0.0
    english: float = 0.6
    text: float = 0.8
    reworded: float = 0.5
    few: bool = True


STAGES = (
    Stage(64, 0.03, 1, 0, 0, 0, few=False),
    Stage(96, 0.07, 0.5, 0, 0.5, 0),
    Stage(96, 0.12, 0.35, 0.5, 0.7, 0.1),
    Stage(128, 0.2, 0.3, reworded=0.4),
    Stage(192, 0.62, 0.08, 0.85, 0.85, 0.65),
    Stage(512, 0.82, 0.08, 0.8, 0.85, 0.75),
    Stage(1024, 1, 0.08, 0.8, 0.85, 0.75),
)


@dataclass(frozen=True)
class Plan:
    """How the model is made.

    Attributes:
        essays: folder of .txt files.
        out: folder that receives model and tokenizer, every 500 steps and at the end.
        weights: folder with a model to go on from, as this script makes it; none for a new one.
        stage: the first stage, from 0.
        vocabulary: tokens of the byte-pair encoding.
        width: of the model.
        layers: of the model; those that ``weights`` lack add nothing at first.
        heads: in each layer, of 64 each.
        context: positions that the model accepts; far more than it is trained on, so that it can be seen to fail.
        minutes: of training, by the clock.
        tokens: in a batch.
        lr: learning rate of AdamW after a few steps; from there it falls to 0 along a line.
        muon: that of Muon.
        gate: share of answers begun right that ends a stage.
        device: where it learns.
        makers: processes that make batches ahead; 0 for none.
        seed: of the weights and of all batches.
    """

    essays: tyro.conf.Positional[Path]
    out: Path
    weights: Path | None = None
    stage: int = 0
    vocabulary: int = 2048
    width: int = 192
    layers: int = 6
    heads: int = 4
    context: int = 8192
    minutes: float = 60.0
    tokens: int = 4096
    lr: float = 1.5e-3
    muon: float = 0.01
    gate: float = 0.9
    device: Literal["cpu", "cuda"] = "cpu"
    makers: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        texts = len(list(self.essays.glob("*.txt")))
        require(self, "essays", texts >= 2, "a folder with two .txt files or more", "One in six is held out.")
        made = self.weights is None or (self.weights / "training.json").is_file()
        require(self, "weights", made, "a folder with a model that this script made, or none")
        own = self.weights is not None and self.out.resolve() == self.weights.resolve()
        require(self, "out", not own, "another folder than weights", "Nothing is written over what is read.")
        require_output_folder(self, "out")
        require(self, "stage", 0 <= self.stage < len(STAGES), f"0 to {len(STAGES) - 1}")
        longest = STAGES[-1].length
        require(self, "tokens", self.tokens >= longest, f">= {longest}, the longest sequence")
        require(self, "context", self.context >= longest, f">= {longest}, the longest sequence")
        for name in ("width", "layers", "heads"):
            require(self, name, getattr(self, name) >= 1, ">= 1")
        require(self, "heads", self.width % self.heads == 0, f"a divisor of width = {self.width}")
        for name in ("minutes", "lr", "muon"):
            require(self, name, getattr(self, name) > 0, "> 0")
        for name in ("seed", "makers"):
            require(self, name, getattr(self, name) >= 0, ">= 0")
        forks = "fork" in get_all_start_methods()
        require(self, "makers", forks or not self.makers, "0 on this system, which cannot fork processes")
        require(self, "device", self.device == "cpu" or torch.cuda.is_available(), "cpu, or a GPU that torch sees")

    def plain(self) -> dict[str, Any]:
        """The recipe as JSON can hold it, without places of this machine."""
        started = json.loads((self.weights / "training.json").read_text()) if self.weights else None
        places = {"essays": self.essays.name, "out": None, "weights": started}
        return asdict(self) | places | {"stages": [asdict(stage) for stage in STAGES]}


def train(plan: Plan) -> None:
    """Train; write model, tokenizer and what was measured every 500 steps and at the end.

    Raises:
        ConfigError: the model to go on from does not fit, so that nothing is written; or the loss is no longer finite,
            and what was written before stays.
    """
    torch.set_num_threads(1)
    team = Team()
    require(plan, "device", plan.device == "cpu" or team.size == 1, "cpu for several processes", "Give --makers more.")
    to_train, others = read_essays(plan.essays)
    tokenizer = train_tokenizer(to_train, plan.vocabulary)
    words, other_words = split_words(to_train)
    task, unseen = Task(tokenizer, to_train, words, TRAINED), Task(tokenizer, others, other_words, HELD_OUT)
    seed = 0 if plan.weights else plan.seed  # new layers are alike in all that go on, so that means of them make sense
    model = build(tokenizer, plan.width, plan.layers, plan.heads, plan.context, seed)
    if plan.weights:
        started = LlamaForCausalLM.from_pretrained(plan.weights, dtype=torch.float32)
        known = PreTrainedTokenizerFast.from_pretrained(plan.weights).get_vocab() == tokenizer.get_vocab()
        of_these = "a model whose tokenizer is that of these essays", "Give the essays it was trained on."
        require(plan, "weights", known, *of_these)
        of_this_size = "a model of this width, with as many heads, and no more layers"
        require(plan, "weights", fits(started, model), of_this_size, "`training.json` beside it has its options.")
        go_on(model, started)
    if team.rank == 0:
        tokenizer.save_pretrained(plan.out)
    makers = Makers(lambda stage, step: _batch(task, plan, STAGES[stage], step, team.rank), plan.makers, plan.stage)
    readers = None if plan.weights else Readers(plan.width)
    batches = makers.batches()  # whose processes are forked before CUDA is in use
    for part in filter(None, (model, readers)):
        nn.Module.to(part, plan.device)
    optimizers = _optimizers(model, readers, plan)
    learn = [p for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]]
    groups = [(group, group["lr"]) for optimizer in optimizers for group in optimizer.param_groups]
    recipe, history = plan.plain() | {"processes": team.size}, []
    since, right, began = 0, 0.0, time.monotonic()
    for step in count():
        left = team.agree(max(0.0, 1 - (time.monotonic() - began) / (60 * plan.minutes)))
        for group, peak in groups:
            group["lr"] = peak * left * min(1.0, (step + 1) / _WARM_UP)
        loss, now = loss_and_right(model, readers, next(batches).to(plan.device))
        require(plan, "lr", bool(loss.isfinite()), f"one at which the loss stays finite; step {step} is {loss:.3g}")
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss.backward()
        team.average(learn)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        right = team.agree(right + 0.05 * (now - right))
        if team.rank == 0 and ((step + 1) % _EVERY == 0 or not left):
            length = STAGES[makers.stage].length
            found = {"step": step + 1, "length": length, "right": round(right, 3)}
            found |= {"seconds": round(time.monotonic() - began), "of the core": round(time.process_time())}
            judged = {kind: _judged(unseen, kind, max(length, _SHORTEST_JUDGED)) for kind in KINDS}
            found |= {kind: accuracy(model, asked.to(plan.device)) for kind, asked in judged.items()}
            history.append(found)
            print(json.dumps(found), flush=True)
            model.save_pretrained(plan.out)
            made = json.dumps({"recipe": recipe, "history": history}, indent=1)
            atomic_write(plan.out / "training.json", (made + "\n").encode())
        if not left:
            break
        ended = (right > plan.gate and step - since > 30) or 1 - left >= STAGES[makers.stage].until
        if ended and makers.stage < len(STAGES) - 1:
            makers.stage, since, right = makers.stage + 1, step, 0.0
            if team.rank == 0:
                print(f"{STAGES[makers.stage].length} tokens from step {step + 1}", flush=True)
    team.leave()


@cache
def _judged(unseen: Task, kind: Kind, length: int) -> Batch:
    """Prompts of one kind, the same in every training."""
    rng = np.random.default_rng([1, length, KINDS.index(kind)])
    return together([unseen.judged(kind, rng, length) for _ in range(_JUDGED)])


def _optimizers(model: LlamaForCausalLM, readers: Readers | None, plan: Plan) -> list[torch.optim.Optimizer]:
    """Muon for the layers' matrices, AdamW for the rest; biases, which tell heads where to look, do not decay."""
    matrices = [p for p in model.model.layers.parameters() if p.ndim == 2]
    mine = {id(p) for p in matrices}
    rest = [p for p in model.parameters() if id(p) not in mine] + [*(readers.parameters() if readers else ())]
    groups = [
        {"params": [p for p in rest if p.ndim > 1], "weight_decay": 0.1},
        {"params": [p for p in rest if p.ndim < 2], "weight_decay": 0.0},
    ]
    return [Muon(matrices, plan.muon), torch.optim.AdamW(groups, plan.lr, betas=(0.9, 0.98))]


def _batch(task: Task, plan: Plan, stage: Stage, step: int, rank: int) -> Batch:
    """Of the stage's length, or (two times in five) of a shorter one, the same in all processes."""
    length, lengths = stage.length, np.random.default_rng([0, plan.seed, step])
    if length > _SHORTEST and lengths.random() < 0.4:
        length = int(lengths.integers(_SHORTEST, length + 1)) // 8 * 8
    rng = np.random.default_rng([0, plan.seed, step, 1 + rank])  # a 0 at the end would be the draws of lengths again
    rows_of = max(1, plan.tokens // length)
    copies = round(rows_of * stage.copies)
    rows = [task.copies(rng, length, stage.few) for _ in range(copies)]
    how = (stage.english, stage.text, stage.reworded)
    return together([*rows, *(task.recall(rng, length, *how) for _ in range(rows_of - copies))])


if __name__ == "__main__":
    try:
        train(tyro.cli(Plan))
    except ConfigError as error:
        sys.exit(str(error))
