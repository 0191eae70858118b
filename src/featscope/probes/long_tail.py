"""What the accuracy on each class says of a long tail. Classes are in the order from head to tail."""

import xarray as xr


def accuracy(run: xr.Dataset) -> xr.DataArray:
    """Mean over classes of the linear probe's accuracy."""
    return run.class_accuracy.mean("class")


def gap(run: xr.Dataset) -> xr.DataArray:
    """Δ_20: accuracy on the 20 % of classes at the head minus that on the 20 % at the tail."""
    return -tail_minus_head(run.class_accuracy)


def tail_minus_head(by_class: xr.DataArray) -> xr.DataArray:
    """Mean over the last 20 % of classes minus mean over the first 20 %; at least one class each."""
    share = max(1, round(0.2 * by_class.sizes["class"]))
    tail, head = by_class.isel({"class": slice(-share, None)}), by_class.isel({"class": slice(share)})
    return tail.mean("class") - head.mean("class")
