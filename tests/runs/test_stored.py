"""Files of a run folder that are not what a run writes: an error of use that names file, field, value and cure."""

import json
import shutil
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import torch
import xarray as xr

from featscope.claims import STATED, bound
from featscope.files import atomic_write
from featscope.options import ConfigError
from featscope.report.run_report import report_run
from featscope.runs import Settings, checksum, run
from featscope.runs.folder import RunFolder
from featscope.runs.stored import read_claims, read_environment, read_plan, read_trajectory, with_texts
from featscope.studies import last
from featscope.tensors import packed
from featscope.training.evaluation import in_bytes
from swept import Pull


class Claiming(Pull):
    """Two claims, of which one has numbers that are not finite."""

    @bound("", on=("pulled", "other"), at_most=1.0, because=STATED)
    def near(self, run):
        """Numbers end near the target. Measured: how far they are."""
        return last(run, run["distance"]) / (run.attrs["role"] == "arm")


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch):
    monkeypatch.setattr("featscope.runs.workers.cores", lambda: 1)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A run that is done."""
    out = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr("featscope.runs.workers.cores", lambda: 1)
        run(Claiming(), Settings(), out)
    return out


@pytest.fixture
def out(whole, tmp_path) -> Path:
    """A copy of it, to be spoilt."""
    return shutil.copytree(whole, tmp_path / "run")


def spoil(file: Path, change) -> None:
    """Write a JSON file with what ``change`` changes in it."""
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def of_first(**changed):
    """Change fields of the first claim."""
    return lambda content: content["claims"][0].update(changed)


HUGE = 10**4000
BROKEN = {
    "not JSON": (b"{", "is not JSON"),
    "empty": (b"", "is not JSON"),
    "not UTF-8": (b'{"study": "\xff"}', r"is not UTF-8 \(invalid start byte at byte 11\)"),
    "UTF-16": ('{"study": 1}'.encode("utf-16"), "is not UTF-8"),
    "NUL": (bytes(9), "is not JSON"),
    "deep": (b"[" * 10**5, "is nested more than 50 levels deep"),
    "as deep as the parser goes": (b"[" * 300 + b"]" * 300, "is nested more than 50 levels deep"),
    "longer numbers than Python reads": (b'{"seed": ' + b"1" * 5000 + b"}", "is not JSON"),
    "NaN": (b'{"seed": NaN}', "is not JSON .*NaN is no number there"),
    "twice the same": (b'{"seed": 1, "seed": 2}', "is not JSON .*'seed' is there twice"),
    "a list": (b"[]", r"what it holds = \[\] .* allowed is an object"),
    "null": (b"null", "what it holds = None .* allowed is an object"),
}


@pytest.mark.parametrize("name", ["config.json", "environment.json", "claims.json"])
@pytest.mark.parametrize("broken", BROKEN)
def test_a_file_that_is_no_json_object_is_refused(out, name, broken):
    content, message = BROKEN[broken]
    (out / name).write_bytes(content)
    with pytest.raises(
        ConfigError,
        match=rf"{name}:? {message}.*(restore it|judge it again: featscope judge /|run again with --resume)",
    ):
        report_run(out, Claiming())


@pytest.mark.parametrize("name", ["config.json", "environment.json", "claims.json", "trajectory.nc"])
def test_a_file_that_is_missing_or_a_folder_is_refused(out, name):
    (out / name).unlink()
    with pytest.raises(ConfigError, match=f"{name} is missing"):
        report_run(out, Claiming())
    (out / name).mkdir()
    with pytest.raises(ConfigError, match=f"{name} cannot be read"):
        report_run(out, Claiming())


PLANS = [
    (lambda plan: plan.pop("shard_size"), "config.json is incomplete, shard_size is missing"),
    (lambda plan: plan.pop("seed"), "config.json is incomplete, seed is missing"),
    (lambda plan: plan.update(shard_size=0), "config.json: shard_size = 0 is out of range: allowed is >= 1"),
    (lambda plan: plan.update(shard_size=-3), "shard_size = -3 .* allowed is >= 1"),
    (lambda plan: plan.update(shard_size="2"), "shard_size = '2' .* allowed is a whole number"),
    (lambda plan: plan.update(shard_size=1.5), r"shard_size = 1\.5 .* allowed is a whole number"),
    (lambda plan: plan.update(shard_size=True), "shard_size = True .* allowed is a whole number"),
    (lambda plan: plan.update(shard_size=None), "shard_size = None .* allowed is a whole number"),
    (lambda plan: plan.update(shard_size=HUGE), r"shard_size = 1000.*\.\.\..*000 .* allowed is a whole number"),
    (lambda plan: plan.update(replicas=0), "replicas = 0 .* allowed is >= 1"),
    (lambda plan: plan.update(workers=0), "workers = 0 .* allowed is >= 1"),
    (lambda plan: plan.update(study=["a"]), r"study = \['a'\] .* allowed is a string"),
    (lambda plan: plan.update(config=[]), r"config = \[\] .* allowed is an object"),
    (lambda plan: plan.update(shards=2), "'shards' = 2 is unknown: allowed are study, seed"),
    (lambda plan: plan.update(seed=7), "config.json does not agree with its checksum: it is damaged, or was edited"),
]


@pytest.mark.parametrize(("change", "message"), PLANS)
def test_a_plan_that_no_run_wrote_is_refused_by_resume_and_report_and_stays(out, change, message):
    spoil(out / "config.json", change)
    before = {file: file.read_bytes() for file in out.rglob("*.*")}
    for read in (lambda: run(Claiming(), Settings(), out, resume=True), lambda: report_run(out, Claiming())):
        with pytest.raises(ConfigError, match=f"(?s){message}.*begin anew with --overwrite"):
            read()
    assert {file: file.read_bytes() for file in out.rglob("*.*")} == before


ENVIRONMENTS = [
    (lambda found: found.pop("packages"), "environment.json is incomplete, packages is missing"),
    (lambda found: found.update(packages=["torch"]), "packages = .* allowed is an object"),
    (lambda found: found["packages"].update(torch=2), r"packages\.'torch' = 2 .* allowed is a string"),
    (lambda found: found.update(seconds=-1.0), "seconds = -1.0 .* allowed is >= 0"),
    (lambda found: found.update(seconds="long"), "seconds = 'long' .* allowed is a finite number"),
    (lambda found: found.update(cores=[2]), r"cores = \[2\] .* allowed is a whole number"),
    (lambda found: found.update(study={"package": "a"}), "incomplete, study.version is missing"),
    (lambda found: found.update(history={}), "history = {} .* allowed is a list"),
    (lambda found: found.update(history=[1]), r"history\[0\] = 1 .* allowed is an object"),
    (lambda found: found.update(history=[{"python": None}]), r"incomplete, history\[0\]\.packages is missing"),
    (lambda found: found.update(seconds=1.0), "environment.json does not agree with its checksum"),
]


@pytest.mark.parametrize(("change", "message"), ENVIRONMENTS)
def test_an_environment_that_no_run_wrote_is_refused_by_resume_and_report(out, change, message):
    spoil(out / "environment.json", change)
    for read in (lambda: run(Claiming(), Settings(), out, resume=True), lambda: report_run(out, Claiming())):
        with pytest.raises(ConfigError, match=f"{message}.*move it away and run again with --resume"):
            read()
    (out / "environment.json").rename(out / "environment.json.old")  # as the message says
    run(Claiming(), Settings(), out, resume=True)


CLAIMS = [
    (lambda content: content.pop("claims"), "claims.json is incomplete, claims is missing"),
    (lambda content: content.update(claims={}), "claims = {} .* allowed is a list"),
    (lambda content: content.update(claims=[None]), r"claims\[0\] = None .* allowed is an object"),
    (lambda content: content.update(claims=[[]]), r"claims\[0\] = \[\] .* allowed is an object"),
    (lambda content: content["claims"][1].pop("interval"), r"incomplete, claims\[1\]\.interval is missing"),
    (lambda content: content["claims"].append(content["claims"][0]), r"claims\[2\] = 'near of the arm pulled' .* one"),
    (lambda content: content.update(diverged={"a": 3}), r"diverged\.'a' = 3 .* allowed is a list"),
    (of_first(colour="red"), r"claims\[0\]\.'colour' = 'red' is unknown: allowed are id, source"),
    (of_first(id=None), r"claims\[0\]\.id = None .* allowed is a string"),
    (of_first(interval=[1, 2, 3]), r"claims\[0\]\.interval = \[1, 2, 3\] .* allowed is a list of 2"),
    (of_first(interval=[2, 1]), r"claims\[0\]\.interval = \[2, 1\] .* allowed is the low end before the high end"),
    (of_first(range=[0.5, 0]), r"claims\[0\]\.range = \[0\.5, 0\] .* allowed is the low end before"),
    (of_first(interval=None), r"claims\[0\]\.interval = None .* allowed is a list"),
    (of_first(n=-3), r"claims\[0\]\.n = -3 .* allowed is >= 0"),
    (of_first(n=2.5), r"claims\[0\]\.n = 2\.5 .* allowed is a whole number"),
    (of_first(n=HUGE), r"claims\[0\]\.n = 1000.* allowed is a whole number"),
    (of_first(measured=HUGE), r"claims\[0\]\.measured = 1000.* allowed is a finite number"),
    (of_first(values=[0, HUGE, 1]), r"claims\[0\]\.values\[1\] = 1000.* allowed is a finite number"),
    (of_first(values=[1.0]), r"claims\[0\]\.values = \[1\.0\] .* allowed is none, or n = 3 of them"),
    (of_first(values=["a", 1, 2]), r"claims\[0\]\.values\[0\] = 'a' .* allowed is a finite number"),
    (of_first(trials=[1]), r"claims\[0\]\.trials = \[1\] .* none, or n = 3"),
    (of_first(tolerance=-1), r"claims\[0\]\.tolerance = -1 .* allowed is >= 0"),
    (of_first(error=-0.1), r"claims\[0\]\.error = -0\.1 .* allowed is >= 0"),
    (of_first(verdict="perhaps"), r"claims\[0\]\.verdict = 'perhaps' .* allowed is 'holds' or 'fails' or 'undecided'"),
    (of_first(verdict=["holds"]), r"claims\[0\]\.verdict = \['holds'\] .* allowed is 'holds'"),
    (of_first(relation="<>"), r"claims\[0\]\.relation = '<>' .* allowed is '='"),
    (of_first(kind="guess"), r"claims\[0\]\.kind = 'guess' .* allowed is 'identity'"),
    (of_first(law="none"), r"claims\[0\]\.law = 'none' .* allowed is 'mean'"),
    (of_first(expected="yes"), r"claims\[0\]\.expected = 'yes' .* allowed is true or false"),
    (
        of_first(interval=[0.5, 2], verdict="holds"),
        r"claims\[0\]\.verdict = 'holds' .* 'undecided', which its numbers give",
    ),
    (
        of_first(interval=[0.1, 0.5], verdict="fails"),
        r"claims\[0\]\.verdict = 'fails' .* 'holds', which its numbers give",
    ),
    (of_first(measured=0.125), r"claims\.json does not agree with its checksum"),
    (lambda content: content.update(checksum=3), r"claims\.json: checksum = 3 .* allowed is a string"),
]


@pytest.mark.parametrize(("change", "message"), CLAIMS)
def test_claims_that_no_run_wrote_are_refused(out, change, message):
    spoil(out / "claims.json", change)
    with pytest.raises(ConfigError, match=f"(?s){message}.*judge it again: featscope judge /"):
        report_run(out, Claiming())


def test_numbers_that_are_not_finite_are_read_back_and_resume_mends_the_claims(out, whole):
    before = json.loads((out / "claims.json").read_text())
    assert None in before["claims"][1]["values"]
    (out / "claims.json").write_text("{")
    with np.errstate(all="ignore"):
        run(Claiming(), Settings(), out, resume=True)
    assert (out / "claims.json").read_bytes() == (whole / "claims.json").read_bytes()
    assert "Numbers end near the target" in report_run(out, Claiming()).read_text()


def nothing(runs):
    return {}


def without_steps(runs):
    return {name: one.isel(step=[]) for name, one in runs.items()}


def without_replicas(runs):
    return runs | {"other": runs["other"].isel(replica=[])}


def with_one_number(runs):
    return {"pulled": xr.Dataset({"a": 1.0})}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (nothing, r"arms = \[\] .* one or more"),
        (without_steps, r"pulled\.steps = 0 .* >= 1"),
        (without_replicas, r"other\.replicas = 0 .* >= 1"),
        (with_one_number, r"pulled\.replicas = 0 .* >= 1"),
    ],
)
def test_a_trajectory_without_arms_or_steps_or_replicas_is_refused(out, change, message):
    folder = RunFolder(out)
    folder.write_trajectory(change(read_trajectory(folder.path)))
    with pytest.raises(ConfigError, match=rf"trajectory\.nc: {message}.*run again with --resume"):
        report_run(out, Claiming())


READERS = {
    "config.json": read_plan,
    "environment.json": read_environment,
    "claims.json": read_claims,
    "trajectory.nc": read_trajectory,
}


@pytest.mark.parametrize("name", READERS)
def test_a_flipped_bit_is_told_wherever_it_is(whole, tmp_path, name):
    """What is read in spite of it is what was written: one blank became another, or a digit beyond what is kept."""
    sound = (whole / name).read_bytes()
    kept, read, told = READERS[name](whole), 0, []
    draws = np.random.default_rng(0)
    places = draws.integers(8 * len(sound), size=200)
    for place in places:
        damaged = bytearray(sound)
        damaged[place // 8] ^= 1 << int(place % 8)
        (tmp_path / name).write_bytes(damaged)
        try:
            found = READERS[name](tmp_path)
        except ConfigError as error:
            told.append(str(error))
        else:
            read += 1
            assert repr(found) == repr(kept)
    cures = ("--resume", "--overwrite", "featscope judge")
    assert all(name in message and any(cure in message for cure in cures) for message in told)
    assert read <= (0 if name == "trajectory.nc" else len(places) / 10)


def test_a_trajectory_that_is_cut_short_or_no_trajectory_is_refused(out):
    file = out / "trajectory.nc"
    sound = file.read_bytes()
    file.write_bytes(b"not netCDF" * 99)
    with pytest.raises(ConfigError, match=r"trajectory\.nc does not end .*run again with --resume"):
        read_trajectory(out)
    for size in (*range(0, len(sound), len(sound) // 40), len(sound) - 1, sound.rindex(b"\nchecksum")):
        file.write_bytes(sound[:size])
        with pytest.raises(ConfigError, match=r"trajectory\.nc does not end.*--resume"):
            read_trajectory(out)


def test_json_of_an_older_version_has_no_checksum_and_is_read(out, whole):
    for name in ("config.json", "environment.json", "claims.json"):
        spoil(out / name, lambda content: content.pop("checksum"))
        assert repr(READERS[name](out)) == repr(READERS[name](whole))


def test_a_trajectory_without_its_checksum_is_not_opened(out):
    """Of NetCDF that is damaged its library may crash, and without the line nobody knows whether it is."""
    xr.DataTree.from_dict(read_trajectory(out)).to_netcdf(out / "trajectory.nc", engine="netcdf4")
    with pytest.raises(ConfigError, match=r"trajectory\.nc does not end with its checksum.*--resume"):
        read_trajectory(out)


def test_what_is_sealed_and_no_netcdf_is_refused(out):
    (out / "trajectory.nc").write_bytes(checksum.with_line(b"not netCDF" * 99))
    with pytest.raises(ConfigError, match=r"trajectory\.nc cannot be read .*: run again with --resume"):
        read_trajectory(out)


def test_arms_are_read_in_the_order_in_which_they_were_written(out):
    """NetCDF that is made in memory has its groups by name."""
    folder = RunFolder(out)
    for order in (["pulled", "other"], ["other", "pulled"]):
        folder.write_trajectory({arm: read_trajectory(folder.path)[arm] for arm in order})
        assert [*read_trajectory(folder.path)] == order


def test_others_read_the_trajectory_with_its_checksum(out):
    """It stands behind what HDF5 reads."""
    with netCDF4.Dataset(out / "trajectory.nc") as file:
        assert set(file.groups) == {"pulled", "other"}
    assert (out / "trajectory.nc").read_bytes().splitlines()[-1].startswith(b"checksum ")


def test_a_report_waits_for_whoever_holds_the_folder(out):
    before = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
    with RunFolder.held(out, resume=True), pytest.raises(ConfigError, match=r"DIR = .*run' is held by this process"):
        report_run(out, Claiming())
    assert {file: file.read_bytes() for file in out.rglob("*") if file.is_file()} == before
    (out / "figures" / ".a.png.0123456789abcdef").touch()  # of a report that was killed
    report_run(out, Claiming())
    assert not list(out.rglob(".*"))


def test_a_run_of_which_nothing_is_a_number_is_shown(out):
    folder = RunFolder(out)
    runs = read_trajectory(folder.path)
    gone = {
        name: one.map(lambda values: values.astype(float) * np.nan).assign_attrs(one.attrs)
        for name, one in runs.items()
    }
    folder.write_trajectory(gone)
    assert "Numbers end near the target" in report_run(out, Claiming()).read_text()


def test_what_stands_where_the_report_is_written_is_refused_and_stays(out):
    shutil.rmtree(out / "figures")
    (out / "figures").write_text("mine")
    with pytest.raises(ConfigError, match="figures is a file: allowed is a folder; move the file away"):
        report_run(out, Claiming())
    with pytest.raises(ConfigError, match="cannot be written"):
        run(Claiming(), Settings(), out, resume=True)
    assert (out / "figures").read_text() == "mine"
    (out / "figures").unlink()
    (out / "report.html").mkdir()
    with pytest.raises(ConfigError, match=r"report\.html is a folder: allowed is a file; move the folder away"):
        report_run(out, Claiming())


def test_texts_of_questions_over_which_numbers_are_means_are_read(tmp_path):
    words = torch.stack([torch.stack([in_bytes(f"{replica} {place}") for place in range(3)]) for replica in range(2)])
    (tmp_path / "weights").mkdir()
    atomic_write(tmp_path / "weights" / "a.safetensors", packed({"text:said:prompt": words}, {}))
    run = xr.Dataset({"score": ("replica", np.zeros(2))})
    found = with_texts(tmp_path, {"a": run})["a"].said
    assert found.dims == ("replica", "prompt")
    assert found.values.tolist() == [[f"{replica} {place}" for place in range(3)] for replica in range(2)]
    with pytest.raises(ConfigError, match=r"said = \[2, 3\] is out of range: allowed is \[5, 3\], as measured"):
        with_texts(tmp_path, {"a": xr.Dataset({"score": ("replica", np.zeros(5))})})


@pytest.mark.parametrize(
    ("settings", "study", "field"),
    [
        (Settings(seed=1), Claiming(), r"seed = 1 is out of range: allowed is that of config\.json \(seed: 0 -> 1\)"),
        (Settings(replicas=2), Claiming(), r"replicas = 2 is out of range: .* \(replicas: 3 -> 2\)"),
        (Settings(), Claiming(width=1), r"config = .* that of config\.json \(config\.width: 2 -> 1\)"),
    ],
)
def test_files_of_another_run_are_refused(out, tmp_path, settings, study, field):
    with np.errstate(all="ignore"):
        run(study, settings, tmp_path / "other")
    for name, read, cure in (
        ("claims.json", read_claims, "featscope judge"),
        ("trajectory.nc", read_trajectory, "--resume"),
    ):
        own = (out / name).read_bytes()
        shutil.copy(tmp_path / "other" / name, out / name)
        with pytest.raises(ConfigError, match=f"{name}: {field}.*{cure}"):
            read(out)
        (out / name).write_bytes(own)
    (out / "config.json").unlink()
    read_trajectory(out), read_claims(out)


@pytest.mark.parametrize("name", ["seed", "first replica"])
def test_a_checkpoint_of_another_seed_is_computed_again(whole, out, tmp_path, capfd, name):
    """Its numbers would be taken for this run's."""
    with np.errstate(all="ignore"):
        run(Claiming(), Settings(seed=1), tmp_path / "other")
        if name == "seed":
            for file in (tmp_path / "other" / "checkpoint").iterdir():
                shutil.copy(file, out / "checkpoint" / file.name)
        else:
            (file,) = (out / "checkpoint").glob("pulled.0.*")
            tensors, about = RunFolder(out).read_tensors(f"checkpoint/{file.name}")
            RunFolder(out).write_tensors(f"checkpoint/{file.name}", tensors, about | {name: 3})
        run(Claiming(), Settings(), out, resume=True)
    assert f"({name} " in capfd.readouterr().err.replace("ValueError: ", "")
    assert read_trajectory(out).keys() == read_trajectory(whole).keys()
    for arm, found in read_trajectory(out).items():
        xr.testing.assert_identical(found, read_trajectory(whole)[arm])


def test_claims_may_say_none_of_an_option_that_came_later(out):
    """A run of before is resumed with it: config.json stays, and claims.json has the options of today."""
    claims = json.loads((out / "claims.json").read_text())
    claims["config"]["extra"] = None
    del claims["checksum"]
    (out / "claims.json").write_text(json.dumps(claims))
    assert read_claims(out)
