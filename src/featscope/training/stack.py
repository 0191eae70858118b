"""Many experiments as one: their replicas side by side in one program.

Whatever differs between replicas is a tensor with the replica as its first axis, a hyper-parameter too. So
experiments that differ in nothing but tensors can be concatenated, and train as fast as replicas of one do.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from featscope.streams import Streams
from featscope.training.experiment import Experiment
from featscope.training.optimizers import GradientDescent

_TORCH_OWN = set(vars(nn.Module()))
_SET_BY_STACK = {"optimizer", "streams"}


def stack(experiments: Sequence[Experiment]) -> Experiment:
    """One experiment with the replicas of all; each of ``experiments`` becomes a view of its part.

    Draws are addressed by seed and replica, so replica 3 sees the same numbers in every part, and the same as
    alone. Training the stack trains the parts: what is measured on a part is measured on its own config.

    Args:
        experiments: untrained, with one seed and device, and such as `together` puts together.
    """
    first = experiments[0]
    if len(experiments) == 1:
        return first
    whole = deepcopy(first, {id(first.optimizer): None, id(first.streams): None})
    replicas = [replica for part in experiments for replica in part.streams.replicas]
    whole.streams = Streams(first.streams.seed, replicas, first.streams.device)
    tensors = [_tensors(part) for part in experiments]
    for name, target in _tensors(whole).items():
        target.data = torch.cat([part[name].data for part in tensors])
        for piece, part in zip(target.data.split([p[name].shape[0] for p in tensors]), tensors, strict=True):
            part[name].data = piece
    whole.optimizer = _optimizer(whole, experiments)
    return whole


def _kind(experiment: Experiment) -> Any:
    """What two experiments must have in common to be stacked: everything but the values of tensors."""
    described = [
        (name, type(module), {k: v for k, v in vars(module).items() if k not in _TORCH_OWN | _SET_BY_STACK})
        for name, module in experiment.named_modules()
    ]
    shapes = {name: (tensor.shape, tensor.dtype) for name, tensor in _tensors(experiment).items()}
    numbers = dict(experiment.optimizer.defaults)
    if isinstance(experiment.optimizer, GradientDescent):
        numbers.clear()  # they may differ between replicas
    return described, shapes, type(experiment.optimizer), numbers


def _stackable(experiment: Experiment) -> bool:
    """Whether every tensor of ``experiment`` has the replica as its first axis."""
    replicas = len(experiment.streams.replicas)
    return all(tensor.ndim > 0 and tensor.shape[0] == replicas for tensor in _tensors(experiment).values())


def _tensors(experiment: Experiment) -> dict[str, Tensor]:
    return dict(experiment.named_parameters()) | dict(experiment.named_buffers())


def _optimizer(whole: Experiment, experiments: Sequence[Experiment]) -> torch.optim.Optimizer:
    parameters = [p for p in whole.parameters() if p.requires_grad]
    first = experiments[0].optimizer
    if not isinstance(first, GradientDescent):
        return type(first)(parameters, **first.defaults)
    numbers = {}
    for name in ("lr", "weight_decay"):
        values = [part.optimizer.defaults[name] for part in experiments]
        sizes = torch.tensor([len(part.streams.replicas) for part in experiments])
        each = torch.tensor(values).repeat_interleave(sizes).to(whole.streams.device)
        numbers[name] = each if len(set(values)) > 1 else values[0]
    return GradientDescent(parameters, **numbers)


def together(experiments: Sequence[Experiment], schedules: Sequence[Any]) -> list[list[int]]:
    """Which of ``experiments`` can train in one program: their places, in order of first appearance.

    Args:
        experiments: untrained.
        schedules: of each, what else must be equal (how long it trains, when it is measured).
    """
    programs: list[tuple[Any, list[int]]] = []
    for place, (experiment, schedule) in enumerate(zip(experiments, schedules, strict=True)):
        this = (_kind(experiment), schedule) if _stackable(experiment) else None
        for known, places in programs:
            if this is not None and this == known:
                places.append(place)
                break
        else:
            programs.append((this, [place]))
    return [places for _, places in programs]
