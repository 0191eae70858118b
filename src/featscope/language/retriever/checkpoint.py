"""Where training stands, so that it can go on."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from featscope.language.retriever.recipe import TrainingPlan
from featscope.options import ConfigError

History = list[dict[str, Any]]


def save(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, recipe: TrainingPlan, step: int, history: History
) -> None:
    """Write weights, what the optimizer remembers, and what was measured after ``step`` steps."""
    tensors = {f"model.{name}": value.detach().clone() for name, value in model.named_parameters()}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": value for name, value in state.items()}
    about = json.dumps({"history": history, "recipe": recipe.plain()})
    partial = path.with_suffix(".part")
    save_file(tensors, partial, {"step": str(step), "about": about})
    partial.replace(path)


def restore(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, recipe: TrainingPlan
) -> tuple[int, History]:
    """Go back to where `save` was: steps done, and what was measured. Nothing happens where there is no file.

    Raises:
        ConfigError: the file is of another recipe.
    """
    if not path.exists():
        return 0, []
    with safe_open(path, "pt") as file:
        written = file.metadata()
    about = json.loads(written["about"])
    if about["recipe"] != json.loads(json.dumps(recipe.plain())):
        raise ConfigError(f"out = {str(path.parent)!r} holds a training by another recipe: choose another folder")
    tensors = load_file(path)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            weights.copy_(tensors[f"model.{name}"])
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        if key.startswith("optimizer."):
            _, index, name = key.split(".")
            state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    return int(written["step"]), about["history"]
