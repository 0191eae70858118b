"""How much memory a computation takes at its peak, counted tensor by tensor on any device."""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class _Ledger(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._seen: set[int] = set()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here, and to say so torch would import its compiler, which takes a second."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for leaf in tree_leaves((args, kwargs)):  # what is there before, such as weights, may come back as a view
            if isinstance(leaf, torch.Tensor):
                self._count(leaf.untyped_storage(), nbytes=0)
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor):
                self._count(leaf.untyped_storage(), nbytes=leaf.untyped_storage().nbytes())
        return out

    def _count(self, storage: torch.UntypedStorage, nbytes: int) -> None:
        key = storage._cdata
        if key not in self._seen:
            self._seen.add(key)
            self.live += nbytes
            self.peak = max(self.peak, self.live)
            weakref.finalize(storage, self._forget, key, nbytes)

    def _forget(self, key: int, nbytes: int) -> None:
        self._seen.discard(key)
        self.live -= nbytes


def peak_bytes(compute: Callable[[], object]) -> int:
    """Peak bytes of the tensors that ``compute`` allocates while it runs."""
    ledger = _Ledger()
    with ledger:
        compute()
    return ledger.peak
