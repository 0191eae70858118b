"""Processes that make batches ahead, for a device that would wait for one."""

from collections.abc import Callable, Iterator
from ctypes import c_int
from itertools import count
from multiprocessing import RawValue
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from featscope.language.retriever.data import Batch

_AHEAD = 4  # batches of each process


class Makers(IterableDataset[Batch]):
    """The batch of every step, in order. What is made ahead is still of the stage before.

    Args:
        make: (stage, step) -> batch.
        processes: that make them.
        stage: the first stage.

    Attributes:
        stage: what batches are made of from now on, in all processes.
    """

    def __init__(self, make: Callable[[int, int], Batch], processes: int, stage: int) -> None:
        self._make, self._processes, self._stage = make, processes, RawValue(c_int, stage)

    @property
    def stage(self) -> int:
        return self._stage.value

    @stage.setter
    def stage(self, stage: int) -> None:
        self._stage.value = stage

    def batches(self) -> Iterator[Batch]:
        """In this process, made by the others. They are forked here, before CUDA is in use."""
        more: dict[str, Any] = {"multiprocessing_context": "fork", "prefetch_factor": _AHEAD}
        return iter(DataLoader(self, None, num_workers=self._processes, **more if self._processes else {}))

    def __iter__(self) -> Iterator[Batch]:
        worker = get_worker_info()
        if worker is not None:
            torch.set_num_threads(1)
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        return (self._make(self.stage, place) for place in count(first, step))
