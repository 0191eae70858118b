"""The record: series and single values with labels, there and back."""

import json

import numpy as np
import pytest
import torch
import xarray as xr

from featscope.training import Measurement, Record, three_digits


def filled() -> Record:
    record = Record()
    record.put({"start": Measurement(torch.tensor([True, False]), "a truth")})
    for step in (0, 5):
        values = torch.arange(6.0).reshape(2, 3) + step
        record.append(step, {"size": Measurement(values, "length", ("neuron",), "m")})
    return record


def test_a_dataset_has_named_axes_units_and_the_replicas_own_numbers():
    data = filled().to_dataset(range(4, 6))
    assert data["size"].dims == ("replica", "step", "neuron")
    assert data["size"].attrs == {"units": "m", "long_name": "length"}
    assert data["replica"].values.tolist() == [4, 5]
    assert data["size"].sel(replica=5, step=5).values.tolist() == [8, 9, 10]
    assert data["start"].dims == ("replica",)
    assert data["start"].values.tolist() == [True, False]


def test_what_is_recorded_does_not_change_when_training_goes_on():
    record, weight = Record(), torch.zeros(2)
    record.append(0, {"w": Measurement(weight)})
    weight += 1
    assert record.to_dataset(range(2))["w"].values.tolist() == [[0], [0]]


def test_a_point_that_is_taken_back_leaves_the_rest():
    record = filled()
    record.take_back()
    data = record.to_dataset(range(2))
    assert data["step"].values.tolist() == [0]
    assert data["size"].shape == (2, 1, 3)
    assert data["start"].values.tolist() == [True, False]


def test_a_restored_record_goes_on_as_if_nothing_had_been():
    record = filled()
    labels = json.loads(json.dumps(record.labels()))
    restored = Record.restore({k: v.clone() for k, v in record.tensors().items()}, labels)
    for r in (record, restored):
        r.append(9, {"size": Measurement(torch.ones(2, 3), "length", ("neuron",), "m")})
    xr.testing.assert_identical(restored.to_dataset(range(2)), record.to_dataset(range(2)))
    assert restored.to_dataset(range(2))["start"].dtype == np.bool_


def test_a_restored_record_keeps_its_order_whatever_that_of_the_file():
    record = Record()
    record.put({"z": Measurement(torch.ones(2)), "b": Measurement(torch.ones(2))})
    record.append(0, {name: Measurement(torch.ones(2)) for name in ("y", "a", "x")})
    restored = Record.restore(dict(sorted(record.tensors().items())), record.labels())
    assert list(restored.to_dataset(range(2)).data_vars) == ["y", "a", "x", "z", "b"]
    assert list(record.to_dataset(range(2)).data_vars) == ["y", "a", "x", "z", "b"]


@pytest.mark.parametrize(("shape", "dims"), [((2, 3), ()), ((2,), ("neuron",)), ((), ())])
def test_a_measurement_with_more_or_fewer_axes_than_names_is_refused(shape, dims):
    with pytest.raises(
        ValueError, match=r"'size' has the shape \[.*\]: expected \[replica\] and an axis for each name"
    ):
        Record().append(0, {"size": Measurement(torch.zeros(shape), "length", dims)})


def one(value: float = 1.0, **about) -> Measurement:
    return Measurement(torch.full((2,), value), **about)


def test_a_name_is_measured_once():
    record = filled()
    for add in (lambda: record.put({"start": one()}), lambda: record.put({"size": one()})):
        with pytest.raises(ValueError, match=r"'(start|size)' is measured twice, and one would be lost: .* rename one"):
            add()
    fresh = Record()
    fresh.put({"norm": one()})
    with pytest.raises(ValueError, match="'norm' is measured twice"):
        fresh.append(0, {"norm": one()})
    assert (fresh.steps, fresh.to_dataset(range(2))["norm"].values.tolist()) == ([], [1, 1])


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize(("names", "words"), [("ab", "'b' .* step 9 and was not"), ("", "'a' .* step 9 no more")])
def test_series_are_the_same_at_every_look(restored, names, words):
    record = Record()
    record.append(0, {"a": one()})
    if restored:
        record = Record.restore(record.tensors(), record.labels())
    with pytest.raises(ValueError, match=f"{words}.*: expected the same series at every look. Give NaN"):
        record.append(9, {name: one() for name in names})
    record.append(9, {"a": one()})
    assert record.to_dataset(range(2))["step"].values.tolist() == [0, 9]


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize(
    ("shape", "words"), [((2, 4), "4 entries along 'neuron': expected 3"), ((1, 3), "1 entries along 'replica'")]
)
def test_axes_are_as_long_in_all_that_is_measured(restored, shape, words):
    record = Record.restore(filled().tensors(), filled().labels()) if restored else filled()
    with pytest.raises(ValueError, match=f"'size' has {words}"):
        record.append(9, {"size": Measurement(torch.ones(shape), "length", ("neuron",), "m")})


@pytest.mark.parametrize("name", ["m/s", "top/bottom", "", " a", "a ", "-a", "a\n", "x" * 241, "step", "replica"])
def test_a_name_that_no_file_takes_is_refused(name):
    with pytest.raises(ValueError, match=r"is measured.*[Rr]ename"):
        Record().append(0, {name: one()})
    with pytest.raises(ValueError, match=r"'size' is measured along .*[Rr]ename"):
        Record().append(0, {"size": Measurement(torch.ones(2, 3), dims=(name,))})


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        (Measurement(torch.ones(2, dtype=torch.complex64)), "complex64: .* its real and its imaginary part"),
        (Measurement(torch.ones(2, dtype=torch.float16)), "float16: .* Give values.float()"),
        (Measurement(torch.ones(2, dtype=torch.bfloat16)), "bfloat16: .* Give values.float()"),
        (one(about=None), "about = None: expected words"),
        (one(units=None), "units = None: expected words"),
        (Measurement(torch.ones(2, 3, 3), dims=("n", "n")), "along replica, step, n, n: expected different axes"),
    ],
)
def test_what_no_file_holds_is_refused_at_the_first_look(measured, words):
    with pytest.raises(ValueError, match=f"'size' .*{words}"):
        Record().append(0, {"size": measured})


def test_what_is_taken_can_be_written(tmp_path):
    record = Record()
    kinds = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float32, torch.float64)
    names = ("a b", "é", "1a", "a.b", "a:b", "_a", "a@1", "x" * 240)
    along = (f"{n[:-1]}_" for n in names)
    found = {n: Measurement(torch.ones(2, 3, dtype=k), "", (m,)) for n, k, m in zip(names, kinds, along, strict=True)}
    record.append(0, found)
    record.put({"once": Measurement(torch.ones(2, 1), "", ("step",))})
    record.to_dataset(range(2)).to_netcdf(tmp_path / "written.nc")


def test_what_is_measured_is_no_axis_of_another():
    """Both would be columns of one name in a table."""
    found = {"aligned": Measurement(torch.ones(2)), "weights": Measurement(torch.ones(2, 3), dims=("aligned",))}
    for given in (found, dict(reversed(found.items()))):
        with pytest.raises(ValueError, match="'aligned' is what is measured, and an axis of another measurement"):
            Record().append(0, given)


def test_a_measurement_of_one_replica_gets_its_axis():
    one = Measurement.of_one(torch.arange(6.0).reshape(2, 3), "about", "row", "column")
    assert (one.values.shape, one.about, one.dims, one.units) == ((1, 2, 3), "about", ("row", "column"), "1")


def test_three_digits_are_near_and_what_is_not_finite_stays():
    """NaN is written in two ways: a GPU's has all bits set."""
    values = torch.randn(1000, generator=torch.Generator().manual_seed(0)) * torch.logspace(-30, 30, 1000)
    near = three_digits(values)
    assert ((near / values - 1).abs() <= 2**-11).all()
    assert (near.view(torch.int32) % 2**13 == 0).all()
    assert (three_digits(near) == near).all()
    odd = torch.tensor([0x7FFFFFFF, 0x7FC00000, 0x7F800000, -0x800000, 0], dtype=torch.int32).view(torch.float32)
    assert torch.equal(three_digits(odd).isnan(), torch.tensor([True, True, False, False, False]))
    assert three_digits(odd)[2:].tolist() == [float("inf"), float("-inf"), 0.0]
