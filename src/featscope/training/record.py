"""What was measured, with names for its axes, on the way to an `xarray.Dataset`."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from jaxtyping import Float32
from torch import Tensor


class Measurement(NamedTuple):
    """One measured quantity of some replicas.

    Attributes:
        values: ``[replica, *dims]``.
        about: what it is and where it is defined, in a few words.
        dims: names of the axes after the replica.
        units: units; "1" for pure numbers.
    """

    values: Tensor
    about: str = ""
    dims: tuple[str, ...] = ()
    units: str = "1"

    @classmethod
    def of_one(cls, values: Tensor, about: str, *dims: str) -> "Measurement":
        """What was measured on the one replica of an experiment without a replica axis, a pure number ``[*dims]``."""
        return cls(values[None], about, dims)


def three_digits(values: Float32[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
    """Float32 values to 10 bits after the first, 0.05 % at most away: such numbers take half the space of a file.

    For series with an entry for each pair of neuron and feature, whose claims ask for no more. NaN and ∞ stay.
    """
    dropped = 2**13
    nearest = ((values.contiguous().view(torch.int32) + dropped // 2) & -dropped).view(torch.float32)
    return nearest.where(values.isfinite(), values)  # a GPU's NaN, all bits set, would become 0


class Record:
    """Measurements of some replicas: series over steps, and single values.

    A name is either a series (`append`) or a single value (`put`).
    """

    def __init__(self) -> None:
        self.steps: list[int] = []
        self._series: dict[str, list[np.ndarray]] = {}
        self._single: dict[str, np.ndarray] = {}
        self._labels: dict[str, tuple[tuple[str, ...], str, str]] = {}

    def append(self, step: int, measurements: Mapping[str, Measurement]) -> None:
        """Add one point to each series."""
        self.steps.append(step)
        for name, measurement in measurements.items():
            self._series.setdefault(name, []).append(self._keep(name, measurement))

    def take_back(self) -> None:
        """Remove the last point of each series."""
        self.steps.pop()
        for points in self._series.values():
            points.pop()

    def put(self, measurements: Mapping[str, Measurement]) -> None:
        """Set single values."""
        for name, measurement in measurements.items():
            self._single[name] = self._keep(name, measurement)

    def _keep(self, name: str, measurement: Measurement) -> np.ndarray:
        if len(measurement.dims) != measurement.values.ndim - 1:
            shape = list(measurement.values.shape)
            raise ValueError(
                f"{name!r} has the shape {shape}: expected [replica] and an axis for each name in its dims = "
                f"{measurement.dims}"
            )
        self._labels[name] = (tuple(measurement.dims), measurement.units, measurement.about)
        return measurement.values.detach().cpu().numpy().copy()

    def to_dataset(self, replicas: Sequence[int]) -> xr.Dataset:
        """The record with labelled axes; ``replicas`` are the replicas' own numbers, repeated in a stack."""
        data: dict[str, xr.Variable] = {}
        for name, points in self._series.items():
            data[name] = self._variable(name, ("replica", "step"), np.stack(points, axis=1))
        for name, values in self._single.items():
            data[name] = self._variable(name, ("replica",), values)
        return xr.Dataset(
            data, coords={"replica": np.asarray(replicas), "step": np.asarray(self.steps, dtype=np.int64)}
        )

    def _variable(self, name: str, leading: tuple[str, ...], values: np.ndarray) -> xr.Variable:
        dims, units, about = self._labels[name]
        return xr.Variable((*leading, *dims), values, {"units": units, "long_name": about})

    def tensors(self) -> dict[str, Tensor]:
        """The numbers, for a checkpoint."""
        series = {f"series.{name}": torch.as_tensor(np.stack(points)) for name, points in self._series.items()}
        return series | {f"single.{name}": torch.as_tensor(values) for name, values in self._single.items()}

    def labels(self) -> dict[str, object]:
        """The names, units and steps, as JSON can hold them."""
        return {
            "steps": self.steps,
            "labels": {name: [list(d), u, a] for name, (d, u, a) in self._labels.items()},
        }

    @classmethod
    def restore(cls, tensors: Mapping[str, Tensor], labels: Mapping[str, object]) -> "Record":
        """The record that `tensors` and `labels` were taken from."""
        record = cls()
        record.steps = list(labels["steps"])  # type: ignore[call-overload]
        record._labels = {n: (tuple(d), u, a) for n, (d, u, a) in labels["labels"].items()}  # type: ignore[attr-defined]
        named = {(name, kind): values for key, values in tensors.items() for kind, name in [key.split(".", 1)]}
        order = {name: place for place, name in enumerate(record._labels)}  # a file of tensors has one of its own
        for (name, kind), values in sorted(named.items(), key=lambda one: order[one[0][0]]):
            if kind == "series":
                record._series[name] = list(values.numpy())
            else:
                record._single[name] = values.numpy()
        return record
