"""How much memory a computation takes at its peak, counted tensor by tensor on any device."""

import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class _Ledger(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._seen: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here, and to say so torch would import its compiler, which takes a second."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for given in (args, kwargs.values()) if kwargs else (args,):
            for one in _tensors(given):  # what is there before, such as weights, may come back as a view
                storage = one.untyped_storage()
                if storage._cdata not in self._seen:
                    self._count(storage, 0)
        out = func(*args, **(kwargs or {}))
        for one in _tensors((out,)):
            storage = one.untyped_storage()
            if storage._cdata not in self._seen:
                self._count(storage, storage.nbytes())
        return out

    def _count(self, storage: torch.UntypedStorage, nbytes: int) -> None:
        key = storage._cdata
        self.live += nbytes
        self.peak = max(self.peak, self.live)

        def forget(_: object) -> None:
            del self._seen[key]
            self.live -= nbytes

        self._seen[key] = weakref.ref(storage, forget)


def _tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Those among ``values`` and in lists and tuples of them, which is all that operations are given and give."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def peak_bytes(compute: Callable[[], object]) -> int:
    """Peak bytes of the tensors that ``compute`` allocates while it runs."""
    ledger = _Ledger()
    with ledger:
        compute()
    return ledger.peak
