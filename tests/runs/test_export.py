"""Runs as tables: every measurement and claim is there again."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from calling import call

from featscope.claims import Claim
from featscope.commands.stored import export_run, list_runs, runs_below
from featscope.options import ConfigError, MissingExtraError
from featscope.runs import Outcome
from featscope.runs.export import measured_frames
from featscope.runs.stored import read_claims, read_trajectory


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    words = ("run", "tensor-power", "--sequences", "6", "--steps", "8", "--replicas", "2", "--out", "a/run")
    assert call(*words, within=place, goes="to the end").code == 0
    return place / "a" / "run"


def test_a_run_is_written_as_tables(out, capsys):
    assert export_run([str(out)]) == 0
    assert "tables" in capsys.readouterr().out
    claims = read_claims(out)
    table = pd.read_csv(out / "tables" / "claims.csv")
    assert table.verdict.tolist() == [claim.verdict for claim in claims]
    np.testing.assert_allclose(table.measured, [claim.measured for claim in claims])
    values = pd.read_csv(out / "tables" / "values.csv")
    assert len(values) == sum(len(claim.values) for claim in claims)
    with pytest.raises(ConfigError, match=r"holds claims.csv and .* more already: .* --overwrite"):
        export_run([str(out)])
    files = [out / "tables" / f"{name}.csv" for name in ("flat.replica-step", "notes", "notes.of-replicas")]
    for file in files:
        file.touch()
    assert export_run([str(out), "--overwrite"]) == 0
    assert [file.exists() for file in files] == [False, True, True]
    assert len(pd.read_csv(out / "tables" / "claims.csv")) == len(claims)


def test_every_number_that_was_stored_is_in_one_table_with_its_place(out):
    for run in read_trajectory(out).values():
        frames = dict(measured_frames(run))
        names = [name for frame in frames.values() for name in frame.columns if name in run.data_vars]
        assert sorted(names) == sorted(map(str, run.data_vars))
        for axes, frame in frames.items():
            dims = axes.split("-")
            assert len(frame) == np.prod([run.sizes[axis] for axis in dims], dtype=int)
            for name in set(frame.columns) & set(run.data_vars):
                for row in frame[[*dims, name]].itertuples(index=False):
                    stored = run[name].sel(dict(zip(dims, row[:-1], strict=True))).item()
                    np.testing.assert_equal(row[-1], stored)


@pytest.mark.parametrize(("kind", "read"), [("csv", pd.read_csv), ("parquet", pd.read_parquet)])
def test_what_is_written_is_what_was_stored(out, tmp_path, kind, read):
    if kind == "parquet":
        pytest.importorskip("pyarrow", reason="for want of the extra 'images'")
    tables = tmp_path / "tables"
    assert export_run([str(out), "--format", kind, "--out", str(tables)]) == 0
    claims, runs = read_claims(out), read_trajectory(out)
    frames = {f"{arm}.{axes}": frame for arm, run in runs.items() for axes, frame in measured_frames(run)}
    ends = [(one.id, one.arm, *one.interval, one.predicted, one.n, one.verdict) for one in claims]
    values = [(one.id, one.arm, replica, value) for one in claims for replica, value in enumerate(one.values)]
    columns = ["id", "arm", "low", "high", "predicted", "n", "verdict"]
    frames |= {"claims": pd.DataFrame(ends, columns=columns)}
    frames |= {"values": pd.DataFrame(values, columns=["id", "arm", "replica", "value"])}
    assert {file.name for file in tables.iterdir()} == {f"{name}.{kind}" for name in frames}
    for name, frame in frames.items():
        written = read(tables / f"{name}.{kind}")[frame.columns]
        pd.testing.assert_frame_equal(written, frame, check_dtype=False, rtol=1e-15, atol=0)


def test_parquet_without_pyarrow_names_the_extra(out, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"Parquet needs the extra 'images': pip install 'featscope\[images\]'"):
        export_run([str(out), "--format", "parquet", "--out", str(tmp_path / "tables")])
    assert list(tmp_path.rglob("*.parquet")) == []


def test_an_outcome_shows_itself_in_words_and_as_a_table():
    about = {"source": "Lemma 1", "statement": "", "kind": "bound"}
    claims = [
        Claim.from_samples(
            samples, ">=", 0.0, id=str(place), arm="<a>", title="near & far", expected=place < 3, **about
        )
        for place, samples in enumerate([[1.0, 1.001], [2.0, 2.001], [-1.0, -1.001], [-1.0, 1.1]])
    ]
    outcome = Outcome(Path("runs/one"), {"a": xr.Dataset(), "b": xr.Dataset()}, claims)
    said = "<Outcome of 'runs/one'\n arms: a, b\n verdicts: 2 hold, 1 fail, 1 undecided>"
    assert repr(outcome) == said
    html = outcome._repr_html_()
    assert html.startswith("<p>2 of the 3 claims expected to hold at this size do.</p><table")
    assert html.count("<tr") == 1 + len(claims)
    assert [html.count(f"<td>{verdict}</td>") for verdict in ("holds", "fails", "undecided")] == [2, 1, 1]
    assert "<td>near &amp; far</td>" in html
    assert "<a>" not in html
    assert outcome.to_frame().expected.tolist() == [True, True, True, False]
    assert len(Outcome(Path("runs/one"), {}, []).to_frame()) == 0


def test_runs_are_found_below_a_folder(out, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    (out.parent / "broken").mkdir()
    (out.parent / "broken" / "config.json").write_text("{")
    assert list_runs(out.parents[1]) == 0
    said = capsys.readouterr().out
    assert "tensor-power" in said
    assert "claims" in said
    assert "cannot be read" in said
    with pytest.raises(ConfigError, match="is no folder"):
        list_runs(out / "nowhere")


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        (["claims.json", "trajectory.nc"], "not finished: run it again with --resume"),
        (["claims.json"], "not judged: featscope judge "),
        ([], "cannot be read: "),
        (None, "claims expected"),
    ],
    ids=["unfinished", "unjudged", "damaged", "finished"],
)
def test_what_came_of_a_run_is_told_of_one_that_is_not_finished_too(out, tmp_path, capsys, gone, said):
    run = shutil.copytree(out, tmp_path / "runs" / "one")
    for name in gone or []:
        (run / name).unlink()
    if gone == []:
        (run / "claims.json").write_text("{")
    assert list_runs(tmp_path / "runs") == 0
    (row,) = (line for line in capsys.readouterr().out.splitlines() if "tensor-power" in line)
    assert said in row


def test_folders_are_whole_where_a_program_reads_them(out, capsys):
    run = out.parent / ("a-name-of-a-run-that-is-as-long-as-people-give-them-" * 2)
    shutil.copytree(out, run)
    assert list_runs(out.parents[1]) == 0
    said = capsys.readouterr().out
    assert str(run) in said
    assert "…" not in said


def test_runs_behind_links_are_found_once(out, tmp_path):
    """As where a cluster keeps what is large on another disk."""
    for name, place in (("linked", out), ("newest", out), ("round", tmp_path), ("gone", tmp_path / "nowhere")):
        (tmp_path / name).symlink_to(place, target_is_directory=True)
    assert list(runs_below(tmp_path)) == [tmp_path / "linked"]
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "config.json").write_text("{}")
    (tmp_path / "a link to it").symlink_to(tmp_path / "whole", target_is_directory=True)
    assert list(runs_below(tmp_path)) == [tmp_path / "whole", tmp_path / "linked"]


def test_a_link_neither_hides_runs_nor_names_them(tmp_path):
    for run in ("z/one", "late/run", "elsewhere/deep/x/run"):
        (tmp_path / run).mkdir(parents=True)
        (tmp_path / run / "config.json").write_text("{}")
    runs = tmp_path / "runs"
    for place in ("z", "late"):
        (runs / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).rename(runs / place)
    links = {"a/b/c/all": runs / "z", "best/it": runs / "late" / "run"}
    links |= {"a/b/deep": tmp_path / "elsewhere" / "deep", "zz": tmp_path / "elsewhere" / "deep"}
    for link, place in links.items():
        (runs / link).parent.mkdir(parents=True, exist_ok=True)
        (runs / link).symlink_to(place, target_is_directory=True)
    assert set(runs_below(runs)) == {runs / "z" / "one", runs / "late" / "run", runs / "zz" / "x" / "run"}
    (runs / "zz").unlink()
    assert len(list(runs_below(runs))) == 2  # behind the other link it lies too deep
