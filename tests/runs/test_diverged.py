"""A replica that diverges while others go on is no data, and never goes without a word."""

import json

import numpy as np
import pytest
import xarray as xr

import swept
from featscope.axes import Axis
from featscope.claims import Claim
from featscope.commands import run as commands
from featscope.report.run_report import content
from featscope.runs import Settings, run
from featscope.runs.diverged import divergence_in_words, how_many_diverged, shortcomings, without_diverged
from featscope.studies import last
from featscope.studies.sweep import Sweep
from featscope.training import DivergedError
from swept import Pull


def test_what_a_diverged_replica_measured_is_missing_whatever_its_type():
    """At every step and on every point; the others keep every bit."""
    lost = xr.DataArray([[-1, 7, -1], [-1, -1, -1]], dims=("lr", "replica"))
    run = xr.Dataset(
        {
            "diverged": lost,
            "last_step": xr.full_like(lost, 9),
            "count": (("lr", "replica", "neuron"), np.ones((2, 3, 4), dtype=int), {"long_name": "how many"}),
            "so": (("lr", "replica"), np.ones((2, 3), dtype=bool)),
            "loss": (("lr", "replica", "step"), np.ones((2, 3, 10), dtype=np.float32)),
            "theory": ("lr", [1.0, 2.0]),
        },
        coords={"step": range(10)},
    )
    left = without_diverged(run)
    for name in ("count", "so", "loss"):
        assert left[name].isel(lr=0, replica=1).isnull().all()
        assert int(left[name].isnull().any([d for d in left[name].dims if d not in lost.dims]).sum()) == 1
        assert left[name].dims == run[name].dims
    assert left["loss"].dtype == np.float32
    assert left["count"].attrs == {"long_name": "how many"}
    assert np.isnan(last(left, left["loss"]).values[0, 1])
    xr.testing.assert_identical(left[["theory", "diverged", "last_step"]], run[["theory", "diverged", "last_step"]])
    assert how_many_diverged({"a": left, "b": run.drop_vars("diverged")}) == {"a": (1, 6)}


def test_runs_in_which_none_diverged_are_left_as_they_are():
    run = xr.Dataset({"diverged": ("replica", [-1, -1]), "count": ("replica", [1, 2])})
    assert without_diverged(run) is run
    assert divergence_in_words(how_many_diverged({"a": run})) == ""


def test_the_terminal_the_page_and_the_file_say_how_many(tmp_path):
    sweep = Sweep(swept.Pull(), (Axis("optimizer.lr", (0.1, 1e30)),))
    outcome = run(sweep, Settings(replicas=3), tmp_path / "sweep")
    words = divergence_in_words(how_many_diverged(outcome.runs))
    assert words.startswith("Runs diverged: 3 of 6 in the arm ")
    assert list(content(sweep, outcome.runs, []).warnings) == [words]
    assert json.loads((tmp_path / "sweep" / "claims.json").read_text())["diverged"] == {"sweep": [3, 6]}


@pytest.mark.parametrize("values", [[1.0, np.nan, 1.0], [0.0, 1.0, np.nan]])
@pytest.mark.parametrize("law", ["mean", "share", "yes/no", "extreme", "exact"])
@pytest.mark.parametrize("bound", [-1.0, 0.0, 2.0])
def test_what_is_missing_decides_no_claim(law, values, bound):
    about = {"id": "i", "source": "s", "statement": "t", "kind": "bound", "arm": "a"}
    trials = [5.0, 5.0, 5.0] if law == "share" else ()
    for relation in ("<=", ">=", "<", ">", "="):
        claim = Claim.from_samples(values, relation, bound, 0.1, law=law, trials=trials, **about)
        assert claim.verdict == "undecided"
        assert "1 of 3 replicas measured nothing finite" in claim.undecided_because


def test_flows_that_had_not_arrived_are_told():
    flow = xr.Dataset({"arrived": (("point", "replica"), [[40, -1], [-1, 7]]), "diverged": ("replica", [-1, -1])})
    all_there = flow.assign(arrived=flow.arrived + 1)
    assert "2 of 4 in the arm head. What is measured" in shortcomings({"head": flow, "other": all_there})
    assert shortcomings({"head": all_there}) == ""
    both = flow.assign(diverged=("replica", [3, -1]))
    assert shortcomings({"a": both}).startswith("Runs diverged: 1 of 2 in the arm a. What they measured is left out")


def test_arms_of_which_as_many_diverged_are_told_together():
    alike = dict.fromkeys("abc", (2, 8))
    assert divergence_in_words(alike | {"d": (1, 8)}).startswith(
        "Runs diverged: 2 of 8 in each of the arms a, b, c, 1 of 8 in the arm d."
    )
    assert divergence_in_words(dict.fromkeys("abcde", (2, 8))).startswith(
        "Runs diverged: 2 of 8 in each of 5 arms, a for one. What"
    )


@pytest.mark.parametrize("kept", [False, True])
def test_what_was_saved_is_named_where_there_is_any(tmp_path, monkeypatch, capsys, kept):
    def diverge(folder, shards, device):
        if kept:
            folder.write_tensors("checkpoint/numbers.0.0.safetensors", {}, {})
        raise DivergedError("the loss", 0, 0)

    out = tmp_path / "run"
    assert commands.execute(Pull(), Settings(), out, ["run", "pull"], train=diverge) == (3, [])
    assert out.exists() == kept
    assert (f"What was saved before is in {out / 'checkpoint'}" in capsys.readouterr().err) == kept
