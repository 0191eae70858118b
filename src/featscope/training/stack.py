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
    whole = deepcopy(first, {id(first.streams): None})  # the optimizer's copy optimises the copy's parameters
    replicas = [replica for part in experiments for replica in part.streams.replicas]
    whole.streams = Streams(first.streams.seed, replicas, first.streams.device)
    tensors = [_tensors(part) for part in experiments]
    for name, target in _tensors(whole).items():
        target.data = torch.cat([part[name].data for part in tensors])
        for piece, part in zip(target.data.split([p[name].shape[0] for p in tensors]), tensors, strict=True):
            part[name].data = piece
    if isinstance(whole.optimizer, GradientDescent):
        _give_each_its_own(whole.optimizer, experiments)
    return whole


def _give_each_its_own(optimizer: GradientDescent, experiments: Sequence[Experiment]) -> None:
    """Step size and decay of every replica, where they are not the same in all ``experiments``."""
    sizes = torch.tensor([len(part.streams.replicas) for part in experiments])
    for group, *groups in zip(optimizer.param_groups, *(e.optimizer.param_groups for e in experiments), strict=True):
        for name in GradientDescent.OF_A_REPLICA:
            values = [each[name] for each in groups]
            if len(set(values)) > 1:
                each_replica = torch.tensor(values, dtype=torch.float64).repeat_interleave(sizes)
                group[name] = each_replica.to(experiments[0].streams.device)


def together(experiments: Sequence[Experiment], schedules: Sequence[Any]) -> list[list[int]]:
    """Which of ``experiments`` can train in one program: their places, in order of first appearance.

    Args:
        experiments: untrained, with a replica axis.
        schedules: of each, what else must be equal (how long it trains, when it is measured).
    """
    programs: list[tuple[Any, list[int]]] = []
    for place, (experiment, schedule) in enumerate(zip(experiments, schedules, strict=True)):
        this = (_kind(experiment), schedule) if _stackable(experiment) else None
        for known, places in programs:
            if this is not None and _equal(this, known):
                places.append(place)
                break
        else:
            programs.append((this, [place]))
    return [places for _, places in programs]


def _kind(experiment: Experiment) -> Any:
    """What two experiments must have in common to be stacked: everything but the values of tensors."""
    described = []
    for name, module in experiment.named_modules():
        left_out = _TORCH_OWN if name else _TORCH_OWN | _SET_BY_STACK
        described.append((name, type(module), {k: v for k, v in vars(module).items() if k not in left_out}))
    tensors = _tensors(experiment)
    shapes = {name: (tensor.shape, tensor.dtype, tensor.requires_grad) for name, tensor in tensors.items()}
    optimizer = experiment.optimizer
    left_out = {"params", *(GradientDescent.OF_A_REPLICA if isinstance(optimizer, GradientDescent) else ())}
    groups = [
        ([p.shape for p in group["params"]], {k: v for k, v in group.items() if k not in left_out})
        for group in optimizer.param_groups
    ]
    return described, shapes, type(optimizer), groups


def _equal(one: Any, other: Any) -> bool:
    """Whether they are equal for sure: arrays that are no buffers cannot tell."""
    try:
        return bool(one == other)
    except (RuntimeError, ValueError):
        return False


def _stackable(experiment: Experiment) -> bool:
    """Whether every tensor of ``experiment`` has the replica as its first axis."""
    replicas = len(experiment.streams.replicas)
    return all(tensor.ndim > 0 and tensor.shape[0] == replicas for tensor in _tensors(experiment).values())


def _tensors(experiment: Experiment) -> dict[str, Tensor]:
    return dict(experiment.named_parameters()) | dict(experiment.named_buffers())
