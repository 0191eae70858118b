"""Many experiments as one: their replicas side by side in one program.

Whatever differs between replicas is a tensor with the replica as its first axis. Here, and nowhere else, a number of an
option becomes one: floats in which experiments differ are put side by side, as their tensors are. So experiments that
differ in nothing but tensors and floats train as one program, as fast as replicas of one do. Modules and options say
with ``floats_per_replica = True`` that their floats may be tensors; with others' floats, programs are apart.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import copy, deepcopy
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

from featscope.streams import Streams
from featscope.training.experiment import Experiment

_ANY_FLOAT = "any float"
_TORCH_OWN = set(vars(nn.Module()))
_OF_THE_RUN = {"optimizer", "streams"}


def stack(experiments: Sequence[Experiment]) -> Experiment:
    """One experiment with the replicas of all; each of ``experiments`` becomes a view of its part.

    Draws are addressed by seed and replica, so replica 3 sees the same numbers in every part, and the same as
    alone. Running the stack runs the parts: what is measured on a part is measured with its own options.

    Args:
        experiments: before their first step, with one seed and device, and such as `together` puts together.
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
    sizes = [len(part.streams.replicas) for part in experiments]

    def side_by_side(values: Sequence[float]) -> Tensor:
        each = torch.tensor(values, dtype=torch.float64).repeat_interleave(torch.tensor(sizes))
        return each.to(first.streams.device)

    for holder, *holders in zip(*(_holders(e) for e in (whole, *experiments)), strict=True):
        for name in holder.names:
            values = [other.values[name] for other in holders]
            joined = _side_by_side(values, side_by_side)
            if joined is not values[0]:  # what does not differ stays the copy that the whole has
                holder.values[name] = joined
    bind(whole, experiments)
    return whole


def bind(whole: Experiment, parts: Sequence[Experiment]) -> None:
    """Make tensors of ``parts`` views of the whole's: again, where a rule has put others into their place.

    Parts get the whole's step sizes, too, which a rule may have changed. What its optimizer remembers they do not.
    """
    if len(parts) == 1:
        return
    tensors = [_tensors(part) for part in parts]
    sizes = [len(part.streams.replicas) for part in parts]
    for name, target in _tensors(whole).items():
        for piece, part in zip(target.data.split(sizes), tensors, strict=True):
            part[name].data = piece
    first = 0
    for one, size in zip(parts, sizes, strict=True):
        for group, of_whole in zip(_groups(one), _groups(whole), strict=True):
            rate = of_whole["lr"]
            group["lr"] = float(rate[first]) if isinstance(rate, Tensor) and rate.ndim else rate
        first += size


def together(experiments: Sequence[Experiment], schedules: Sequence[Any]) -> list[list[int]]:
    """Which of ``experiments`` can train in one program: their places, in order of first appearance.

    Args:
        experiments: before their first step, with a replica axis.
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


def apart(one: Experiment, other: Experiment) -> str:
    """Why two experiments cannot run as one program, as what is said of the option in which they differ."""
    if not (_stackable(one) and _stackable(other)):
        return "is of a network with tensors that have no replica axis"
    (types, held, shapes, optimizer), (others, held_there, shapes_there, optimizer_there) = _kind(one), _kind(other)
    if types != others or optimizer != optimizer_there:
        return "changes what the program is made of"
    if shapes != shapes_there:
        return "changes the shapes of tensors"
    pairs = zip(held, held_there, strict=True)
    names = [name for here, there in pairs for name in here if not _equal(here[name], there.get(name))]
    return f"changes what may not differ between replicas ({', '.join(dict.fromkeys(names))})"


def _holders(experiment: Experiment) -> Iterator["_Holder"]:
    """Where an experiment keeps what is no tensor: attributes of its modules, and its optimizer's groups."""
    for name, module in experiment.named_modules():
        left_out = _TORCH_OWN if name else _TORCH_OWN | _OF_THE_RUN
        yield _Holder(vars(module), left_out, _may_differ(module))
    for group in _groups(experiment):
        yield _Holder(group, {"params"}, _may_differ(getattr(experiment, "optimizer", None)))


def _groups(experiment: Experiment) -> list[dict[str, Any]]:
    """Options of its optimizer; none where it has no optimizer."""
    return getattr(getattr(experiment, "optimizer", None), "param_groups", [])


class _Holder:
    """Named values, some left out of sight.

    Args:
        values: what they are; changes are made here.
        left_out: names that do not matter.
        may_differ: whether floats among them may be tensors over replicas.
    """

    def __init__(self, values: dict[str, Any], left_out: set[str], may_differ: bool) -> None:
        self.values, self.may_differ = values, may_differ
        self.names = [name for name in values if name not in left_out]

    def described(self) -> dict[str, Any]:
        """The values as they matter for whether experiments can be stacked."""
        return {name: _described(self.values[name], self.may_differ) for name in self.names}


def _may_differ(owner: Any) -> bool:
    """Whether ``owner`` says that its floats may be tensors ``[replica]``, which it uses through `per_replica`."""
    return bool(getattr(type(owner), "floats_per_replica", False))


def _described(value: Any, may_differ: bool) -> Any:
    if isinstance(value, float) and may_differ:
        return _ANY_FLOAT
    if not (is_dataclass(value) and not isinstance(value, type)):
        return value
    held, may_differ = {f.name: getattr(value, f.name) for f in fields(value)}, _may_differ(value)
    floats = {f.name for f in fields(value) if "float" in str(f.type)}  # a whole number may stand there as well
    return type(value), {
        name: _ANY_FLOAT if may_differ and name in floats and _is_number(one) else _described(one, may_differ)
        for name, one in held.items()
    }


def _side_by_side(values: Sequence[Any], join: Callable[[Sequence[float]], Tensor]) -> Any:
    """The first of ``values`` where they do not differ; floats that do are joined, within options too."""
    first = values[0]
    if _is_number(first):
        return first if all(value == first for value in values) else join(values)
    if not (is_dataclass(first) and not isinstance(first, type)):
        return first
    parts = {f.name: _side_by_side([getattr(v, f.name) for v in values], join) for f in fields(first)}
    changed = {name: part for name, part in parts.items() if part is not getattr(first, name)}
    copied = copy(first) if changed else first
    for name, part in changed.items():
        object.__setattr__(copied, name, part)  # its checks are of single numbers, and were made
    return copied


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _kind(experiment: Experiment) -> Any:
    """What two experiments must have in common to be stacked: everything but the values of tensors and floats."""
    types = [(name, type(module)) for name, module in experiment.named_modules()]
    held = [holder.described() for holder in _holders(experiment)]
    tensors = _tensors(experiment)
    shapes = {name: (tensor.shape, tensor.dtype, tensor.requires_grad) for name, tensor in tensors.items()}
    return types, held, shapes, type(getattr(experiment, "optimizer", None))


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
