"""A stand-in for a GPU where there is none: tensors that do not meet those of the CPU."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves


class OfGPU(Tensor):
    """Raises where it meets a tensor of the CPU, or NumPy, as one on a GPU does; `cpu` brings it there.

    A number may be of either place, and what is on a GPU may be indexed by what is not.
    """

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run ``func`` if all that it is given is in one place."""
        if func == Tensor.numpy:
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        with torch._C.DisableTorchFunctionSubclass():
            if func == Tensor.cpu:
                return args[0].as_subclass(Tensor)
            met = args[:1] if func == Tensor.__getitem__ and isinstance(args[0], cls) else (args, kwargs)
            if len({type(one) for one in tree_leaves(met) if isinstance(one, Tensor) and one.ndim}) > 1:
                raise RuntimeError("Expected all tensors to be on the same device")
        return super().__torch_function__(func, types, args, kwargs or {})
