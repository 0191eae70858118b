"""What methods return: what the model's ``generate`` returns, with the places of what was kept."""

import copy
from typing import Any, TypeVar, cast

import torch
from jaxtyping import Int
from torch import Tensor

Output = TypeVar("Output")
_CARRIED = {"__getitem__", "to", "cpu", "cuda", "clone", "detach", "contiguous", "index_select", "narrow", "view"}
_MOVED = {"to", "cpu", "cuda"}


class Sequences(Tensor):
    """Tokens ``[batch, token]`` with the attribute ``kept``, which slices, copies and moves to a device have, too.

    Attributes:
        kept: places of what was kept of each prompt of the batch that was given, however much of the tokens is left.
    """

    kept: Any

    def __deepcopy__(self, memo: Any) -> "Sequences":
        """A copy with a copy of ``kept``."""
        copied: Any = copy.deepcopy(self.as_subclass(Tensor), memo)
        return with_kept(copied, copy.deepcopy(self.kept, memo))

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run ``func``; what is made by a slice, a copy or a move has ``kept``, all else is a plain tensor."""
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        kept = getattr(args[0], "kept", None) if args else None
        name = getattr(func, "__name__", "")
        if kept is None or name not in _CARRIED or not isinstance(result, Tensor) or result.is_floating_point():
            return result
        carried = result.as_subclass(cls)
        carried.kept = kept.to(result.device) if name in _MOVED and isinstance(kept, Tensor) else kept
        return carried


torch.serialization.add_safe_globals([Sequences])  # for torch.load, as torch.save writes it


def with_kept(output: Output, kept: Any) -> Output:
    """``output`` of a ``generate`` with the attribute ``kept``, and its sequences with it."""
    if isinstance(output, Tensor):
        output = cast(Output, output.as_subclass(Sequences))
    else:
        its: Any = output
        its.sequences = its.sequences.as_subclass(Sequences)
        its.sequences.kept = kept
    output.kept = kept  # type: ignore[attr-defined]
    return output


def with_prompt(output: Any, read: int, prompt: Int[Tensor, "batch token"]) -> Any:
    """``output`` with the whole ``prompt`` in place of the ``read`` tokens that the model read."""
    sequences = output if isinstance(output, Tensor) else output.sequences
    repeated = prompt.repeat_interleave(sequences.shape[0] // prompt.shape[0], 0)
    whole = torch.cat([repeated, sequences[:, read:]], -1)
    if isinstance(output, Tensor):
        return whole
    output.sequences = whole
    return output
