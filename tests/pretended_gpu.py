"""A device "pretended" with the ways of a GPU where there is none: its tensors are the processor's, in a shell.

As a GPU's they do not meet tensors of the processor that have an axis, nor NumPy, and what asks whether it is on the
processor hears no, so torch's own kernels run in place of machine code. To be made in a process of its own, as torch is
told of a new kind of device. For arms of studies::

    python tests/pretended_gpu.py imbalance/imbalanced prediction-head/head

takes a step of each there, and prints what went wrong.
"""

import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map

KIND = "pretended"
DEVICE = f"{KIND}:0"
_ACROSS = {"copy_", "_to_copy", "lift_fresh", "index", "index_put", "index_put_"}
_CPU = torch.device("cpu")
_TENSOR, _AS_TENSOR = torch.tensor, torch.as_tensor


class There(Tensor):
    """A tensor on the device; ``inner`` holds its numbers."""

    inner: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner: Tensor) -> "There":
        """A shell for ``inner``."""
        made: There = Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            layout=inner.layout,
            device=torch.device(DEVICE),
        )
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run ``func`` on what shells hold."""
        return _run(func, args, kwargs or {})

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        """What is in the shell."""
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(parts: Any, *_: Any) -> "There":
        """The shell again."""
        return There(parts["inner"])

    @property
    def data(self) -> Tensor:
        """The same numbers without their gradient."""
        return There(self.inner.detach())

    @data.setter
    def data(self, value: "There") -> None:
        Tensor.data.__set__(self, value)
        self.inner = value.inner

    def __getitem__(self, at: Any) -> Tensor:
        """A part; lists of places are of the processor."""
        return Tensor.__getitem__(self, _places(at))

    def __setitem__(self, at: Any, value: Any) -> None:
        """Set a part, from either device as torch allows."""
        moved = value.to(DEVICE) if isinstance(value, Tensor) and value.ndim else value
        Tensor.__setitem__(self, _places(at), moved)

    def new_tensor(self, data: Any, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
        """``data`` on the device."""
        return There(_TENSOR(data, dtype=dtype or self.dtype))

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """A copy: torch's own goes by the storage, which a shell has none of."""
        memo[id(self)] = made = There(self.inner.detach().clone()).requires_grad_(self.requires_grad)
        return made

    def tolist(self) -> Any:
        """Numbers of Python."""
        return self.inner.detach().tolist()

    def numpy(self, *, force: bool = False) -> Any:
        """Only by force, as from a GPU."""
        if not force:
            raise TypeError("can't convert device type tensor to numpy")
        return self.inner.numpy(force=True)

    def __array__(self, *_: Any) -> Any:
        """Refused, as from a GPU."""
        raise TypeError("can't convert device type tensor to numpy")


class Pretended(TorchDispatchMode):
    """While it is on, what asks for the device has it."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run ``func`` on what shells hold."""
        return _run(func, args, kwargs or {})


def _run(func: Any, args: Any, kwargs: Any) -> Any:
    name = func._schema.name.split("::")[-1]
    given = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
    some, first = any(isinstance(one, There) for one in given), bool(args) and isinstance(args[0], There)
    to = first if name in _ACROSS - {"_to_copy"} else some
    if (asked := kwargs.get("device")) is not None:
        to = torch.device(asked).type == KIND
        kwargs = {**kwargs, "device": _CPU}
    here = [one for one in given if not isinstance(one, There) and one.ndim]
    if some and (here if name not in _ACROSS else name.startswith("index") and not first):
        raise RuntimeError(f"Expected all tensors to be on the same device: {func}")
    if to and torch.Tag.nondeterministic_seeded in func.tags:
        raise RuntimeError(f"Drawn by the device itself: {func}")
    out = func(*tree_map(_inner, args), **tree_map(_inner, kwargs))
    if not to:
        return out
    out = tree_map(lambda one: There(one) if isinstance(one, Tensor) else one, out)
    return return_and_correct_aliasing(func, args, kwargs, out) if some and name not in _ACROSS - {"copy_"} else out


def _inner(one: Any) -> Any:
    return one.inner if isinstance(one, There) else one


def _places(at: Any) -> Any:
    if isinstance(at, tuple):
        return tuple(map(_places, at))
    return _TENSOR(at) if isinstance(at, list) else at


def _tensor(data: Any, *, device: Any = None, **rest: Any) -> Tensor:
    made = _TENSOR(data, **rest)
    return made if device is None else made.to(device)


def _as_tensor(data: Any, dtype: torch.dtype | None = None, device: Any = None) -> Tensor:
    made = _AS_TENSOR(data, dtype=dtype)
    return made if device is None else made.to(device)


def pretend() -> None:
    """Tell torch of the device."""
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    _setup_privateuseone_for_python_backend(KIND)
    getattr(torch, KIND).get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]  # what autocast asks
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    torch.tensor, torch.as_tensor = _tensor, _as_tensor  # which go by no dispatcher


def planted() -> int:
    """Do what a GPU refuses, and print how this one does."""
    pretend()
    with Pretended():
        there = torch.zeros(3, device=DEVICE)
        refused = {
            "a tensor of the processor": lambda: there + torch.zeros(3),
            "NumPy": there.numpy,
            "a draw": lambda: torch.rand(3, device=DEVICE),
        }
        for name, act in refused.items():
            try:
                act()
            except (RuntimeError, TypeError) as error:
                print(f"{name}: {error}")
    return 3


def main(arms: list[str]) -> int:
    """Take a step of each on the pretended device and on the processor; how many went wrong."""
    from two_devices import ARMS, differing, measured

    from featscope.registry import find

    warnings.simplefilter("ignore")  # after one step much is missing
    torch.set_num_threads(1)
    pretend()
    failed = 0
    for name, arm in [tuple(one.split("/")) for one in arms] or ARMS:
        study = find(name)[1]().smallest()
        with tempfile.TemporaryDirectory() as place:
            try:
                with Pretended():
                    there = measured(study, study.arm(arm), DEVICE, Path(place) / KIND)
                wrong: Any = differing(study, study.arm(arm), there, Path(place))
            except Exception as error:  # what others do is to be seen, too
                trace, own = error.__traceback__, ""
                while trace is not None:
                    file = trace.tb_frame.f_code.co_filename
                    own = f"{file}:{trace.tb_lineno}" if "featscope" in file else own
                    trace = trace.tb_next
                wrong = f"{type(error).__name__}: {error} ({own})"
        if wrong:
            failed += 1
            print(f"{name}/{arm}: {wrong}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(min(1, planted() if sys.argv[1:] == ["planted"] else main(sys.argv[1:])))
