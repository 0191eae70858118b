"""Trains the small retrieval model that ships with FeatScope.

    python -m featscope.language.retriever.train ESSAYS --out DIR

ESSAYS is a folder of .txt files. Lengths grow in stages: at short lengths the needle is easy to find, and what finds
it (a head that looks one token back, one that then looks for the same predecessor) carries over to longer ones. The
loss is that of the answers plus a tenth of that of all tokens. The first stage is no text: random tokens that repeat
teach both heads in minutes, which needles alone did not in ten. Interrupted, the same command goes on
where it was.
"""

import json

import numpy as np
import torch
import tyro
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch import nn

from featscope.language.retriever import checkpoint
from featscope.language.retriever.model import accuracy, build, losses
from featscope.language.retriever.prompts import Batch, Prompts, read_essays, train_tokenizer
from featscope.language.retriever.recipe import TrainingPlan, TrainingStage
from featscope.threads import cores

_CHECKPOINT = 200  # steps
_SHORTEST = 64  # of batches, half of which are shorter than their stage says
_WARM_UP = 200  # steps


def train(recipe: TrainingPlan) -> None:
    """Train, save the checkpoint every 200 steps, and at the end model, tokenizer and what was measured.

    Raises:
        ConfigError: ``recipe.out`` holds a training by another recipe.
    """
    torch.set_num_threads(cores())
    recipe.out.mkdir(parents=True, exist_ok=True)
    to_train, held_out = read_essays(recipe.essays)
    tokenizer = train_tokenizer(to_train, recipe.vocabulary)
    prompts, unseen = Prompts(tokenizer, to_train), Prompts(tokenizer, held_out)
    model = build(recipe, tokenizer)
    optimizer = _optimizer(model, recipe)
    saved = recipe.out / "checkpoint.safetensors"
    start, history = checkpoint.restore(saved, model, optimizer, recipe)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns) as bar:
        task = bar.add_task("", total=recipe.steps, completed=start)
        for step, stage in list(enumerate(recipe.schedule()))[start:]:
            for group in optimizer.param_groups:
                group["lr"] = _learning_rate(recipe, step)
            batch = _batch(prompts, recipe, stage, step)
            answers, everything = losses(model, batch)
            optimizer.zero_grad(set_to_none=True)
            (answers + recipe.language * everything).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            said = f"{batch[0].shape[1]} tokens, loss of answers {float(answers.detach()):.3f}"
            bar.update(task, advance=1, description=said)
            if (step + 1) % _CHECKPOINT == 0 or step + 1 == recipe.steps:
                right = accuracy(model, unseen, max(96, stage.length))
                found = {"step": step + 1, "length": stage.length, "accuracy": right}
                found |= {"answers": float(answers.detach()), "all": float(everything.detach())}
                history.append(found)
                bar.console.print(json.dumps(found))
                checkpoint.save(saved, model, optimizer, recipe, step + 1, history)
    model.save_pretrained(recipe.out)
    tokenizer.save_pretrained(recipe.out)
    made = json.dumps({"recipe": recipe.plain(), "history": history}, indent=1)
    (recipe.out / "training.json").write_text(made + "\n")
    saved.unlink()


def _optimizer(model: nn.Module, recipe: TrainingPlan) -> torch.optim.Optimizer:
    """AdamW, which decays matrices alone."""
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=recipe.lr, betas=(0.9, 0.98))


def _learning_rate(recipe: TrainingPlan, step: int) -> float:
    """Warms up, and falls to 0 along a cosine."""
    return recipe.lr * min(1, (step + 1) / _WARM_UP) * (0.5 + 0.5 * np.cos(np.pi * step / recipe.steps))


def _batch(prompts: Prompts, recipe: TrainingPlan, stage: TrainingStage, step: int) -> Batch:
    """Of the stage's length, or (every other time) of a shorter one."""
    rng = np.random.default_rng([0, recipe.seed, step])
    length = stage.length if rng.random() < 0.5 else int(rng.integers(_SHORTEST, stage.length + 1))
    draw = prompts.copies if stage.copies else prompts.batch
    return draw(rng, recipe.tokens // length, length)


if __name__ == "__main__":
    train(tyro.cli(TrainingPlan))
