"""Runs as tables: every measurement and claim is there again."""

import shutil

import numpy as np
import pandas as pd
import pytest
from calling import call

from featscope.commands.stored import export_run, list_runs, runs_below
from featscope.options import ConfigError
from featscope.runs.export import claims_frame, measured_frames
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
    assert export_run([str(out), "--overwrite"]) == 0


def test_every_series_is_in_one_table_with_its_axes(out):
    for run in read_trajectory(out).values():
        frames = dict(measured_frames(run))
        names = [name for frame in frames.values() for name in frame.columns if name in run.data_vars]
        assert sorted(names) == sorted(map(str, run.data_vars))
        for axes, frame in frames.items():
            sizes = [run.sizes[axis] for axis in axes.split("-")] if axes != "once" else []
            assert len(frame) == np.prod(sizes, dtype=int)


def test_an_outcome_shows_itself_in_words(out):
    claims = read_claims(out)
    assert set(claims_frame(claims).columns) >= {"id", "arm", "measured", "low", "high", "verdict"}
    assert len(claims_frame([])) == 0


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
