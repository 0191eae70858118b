"""What was measured, with names for its axes, on the way to an `xarray.Dataset`."""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import xarray as xr
from jaxtyping import Float32
from torch import Tensor

from featscope.options import ConfigError

_NAME = re.compile(r"[A-Za-z0-9_\u0080-\U0010ffff][^\x00-\x1f\x7f/]*(?<! )")  # as a NetCDF file takes it
_LONGEST_NAME = 240  # bytes: of the 256 that it may have, the library takes some itself
_OWN_AXES = ("replica", "step")


class MeasurementError(ConfigError, ValueError):
    """What a study measured cannot be kept; the message says why, and the cure."""


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


def require_other_names(names: Iterable[str], known: Container[str]) -> None:
    """Raise `ValueError` if one of ``names`` is ``known``: what is measured under it would take the other's place."""
    if twice := next((name for name in names if name in known), None):
        raise MeasurementError(
            f"{twice!r} is measured twice, and one would be lost: a name is that of one series, or of one value of the "
            "start or the end. Measure it once, or rename one"
        )


class Record:
    """Measurements of some replicas: series over steps, and single values.

    A name is either a series (`append`) or a single value (`put`), and its numbers are such as a NetCDF file holds.
    """

    def __init__(self) -> None:
        self.steps: list[int] = []
        self._series: dict[str, list[np.ndarray]] = {}
        self._single: dict[str, np.ndarray] = {}
        self._labels: dict[str, tuple[tuple[str, ...], str, str]] = {}
        self._sizes: dict[str, int] = {}  # of all axes but that of the steps

    def append(self, step: int, measurements: Mapping[str, Measurement]) -> None:
        """Add one point to each series.

        Raises:
            ValueError: what is measured cannot be stored, has the name of a single value, or is not what was measured
                before.
        """
        if self.steps and (changed := measurements.keys() ^ self._series.keys()):
            name = min(changed)
            when = "and was not before" if name in measurements else "no more, and was before"
            raise MeasurementError(
                f"{name!r} is measured at step {step} {when}: expected the same series at every look. Give NaN where "
                "there is nothing to measure"
            )
        require_other_names(measurements, self._single)
        points = {name: self._keep(name, one, ("replica", "step")) for name, one in measurements.items()}
        self.steps.append(step)
        for name, point in points.items():
            self._series.setdefault(name, []).append(point)

    def take_back(self) -> None:
        """Remove the last point of each series."""
        self.steps.pop()
        for points in self._series.values():
            points.pop()

    def put(self, measurements: Mapping[str, Measurement]) -> None:
        """Set single values.

        Raises:
            ValueError: what is measured cannot be stored, or has a name that is there.
        """
        require_other_names(measurements, self._labels)
        for name, measurement in measurements.items():
            self._single[name] = self._keep(name, measurement, ("replica",))

    def _keep(self, name: str, measurement: Measurement, leading: tuple[str, ...]) -> np.ndarray:
        values, about, dims, units = measurement
        if len(dims) != values.ndim - 1:
            shape = list(values.shape)
            raise MeasurementError(
                f"{name!r} has the shape {shape}: expected [replica] and an axis for each name in its dims = {dims}"
            )
        _require_storable(name, measurement, (*leading, *dims))
        for axis, size in zip(("replica", *dims), values.shape, strict=True):
            if self._sizes.setdefault(axis, size) != size:
                cure = "Give one value a replica" if axis == "replica" else "Give one of these axes another name"
                raise MeasurementError(
                    f"{name!r} has {size} entries along {axis!r}: expected {self._sizes[axis]}, as all has that is "
                    f"measured along it. {cure}"
                )
        self._labels[name] = (tuple(dims), units, about)
        if both := self._labels.keys() & self._sizes.keys():
            raise MeasurementError(
                f"{min(both)!r} is what is measured, and an axis of another measurement: expected different names, as "
                "both are columns of tables. Rename one"
            )
        return values.detach().cpu().numpy().copy()

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
            axes = ("replica", *record._labels[name][0])
            record._sizes |= dict(zip(axes, values.shape[kind == "series" :], strict=True))
        return record


def _require_storable(name: Any, measurement: Measurement, axes: Sequence[Any]) -> None:
    """Raise `MeasurementError` unless a NetCDF file can hold a measurement under its name and along its axes."""
    for one in (name, *axes):
        if not (isinstance(one, str) and _NAME.fullmatch(one) and len(one.encode()) <= _LONGEST_NAME):
            which = f"{name!r} is measured" if one is name else f"{name!r} is measured along {one!r}"
            raise MeasurementError(
                f"{which}, which no NetCDF file takes for a name: expected a letter, a digit or _, then anything but / "
                f"and control characters, no space at the end, {_LONGEST_NAME} bytes at most. Rename it"
            )
    if name in _OWN_AXES or len(set(axes)) < len(axes):
        raise MeasurementError(
            f"{name!r} is measured along {', '.join(axes)}: expected different axes, and another name than "
            f"{' and '.join(_OWN_AXES)}. Rename one in its dims, or the series"
        )
    values, about, _, units = measurement
    if values.is_complex() or (values.is_floating_point() and values.element_size() < torch.float32.itemsize):
        cure = "its real and its imaginary part, each by itself" if values.is_complex() else "values.float()"
        raise MeasurementError(
            f"{name!r} is of {values.dtype}: expected truths, whole numbers, float32 or float64. Give {cure}"
        )
    for field, said in (("about", about), ("units", units)):
        if not isinstance(said, str):
            raise MeasurementError(
                f"{name!r} has {field} = {said!r}: expected words. Leave it out where there are none"
            )
