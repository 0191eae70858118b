"""What the system refuses: said in a line, with an exit code of its own, and with the command that goes on."""

import errno
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import swept
from featscope import files
from featscope.commands.run import execute
from featscope.runs import Settings
from featscope.system import refused_by_system
from processes import finish, start


def featscope(*words: str, **options) -> tuple[int, str]:
    program = [sys.executable, "-c", "from featscope.cli import main; main()", *words]
    done = subprocess.run(program, stderr=subprocess.PIPE, timeout=120, check=False, **options)
    return done.returncode, done.stderr.decode()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="for want of /dev/full")
@pytest.mark.parametrize("words", [["list"], ["--version"], ["show", "tensor-power"]])
def test_output_that_cannot_be_written_is_one_line_and_4(words):
    with open("/dev/full", "w") as full:
        code, err = featscope(*words, stdout=full)
    assert (code, err) == (4, "featscope: the system says No space left on device.\n")


def test_a_terminal_that_knows_no_greek_is_served():
    environment = {"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin:/bin"}
    code, err = featscope("show", "tensor-power", stdout=subprocess.PIPE, env=environment)
    assert (code, err) == (0, "")


def test_a_file_loses_no_letter_whatever_the_locale_knows():
    program = [sys.executable, "-c", "from featscope.cli import main; main()", "show", "tensor-power"]
    plain = {"PATH": "/usr/bin:/bin", "COLUMNS": "120"}
    ascii_alone = plain | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    said = [
        subprocess.run(program, env=env, stdout=subprocess.PIPE, timeout=120, check=True).stdout.decode()
        for env in (plain | {"PYTHONUTF8": "1"}, ascii_alone)
    ]
    assert said[0] == said[1]
    assert not said[0].isascii()


@pytest.mark.parametrize("writes", [0, 1, 2, 3, 4, 5])
def test_a_full_disk_leaves_a_run_that_goes_on(tmp_path, monkeypatch, capfd, writes):
    """From the first file on; with room it ends as one that always had it. Before it there is nothing to resume."""
    study, out, again = swept.Pull(), tmp_path / "a run", ["run", "pull"]
    written = 0

    def full(path, content):
        nonlocal written
        written += 1
        if written > writes:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        files.atomic_write(path, content)

    with monkeypatch.context() as patch:
        patch.setattr("featscope.runs.execute.worker_count", lambda device: 1)
        patch.setattr("featscope.runs.folder.atomic_write", full)
        patch.setattr("featscope.commands.run.report_run", lambda out: out / "report.html")
        code, claims = execute(study, Settings(replicas=2), out, again)
    assert (code, claims) == (4, [])
    err = capfd.readouterr().err
    assert err.startswith("featscope: the system says No space left on device: ")
    begun = writes > 0
    assert out.exists() is begun
    assert shlex.split(err.splitlines()[-1]) == ["featscope", "run", "pull", *(["--resume"] if begun else [])]
    assert ("Nothing was begun." in err) is not begun
    assert "Traceback" not in err
    assert not (out / "claims.json").exists()
    monkeypatch.setattr("featscope.commands.run.report_run", lambda out: out / "report.html")
    assert execute(study, Settings(replicas=2), out, again, resume=begun)[0] == 0
    assert (out / "claims.json").exists()


def test_memory_and_files_are_the_systems_and_faults_of_the_program_are_not():
    assert "no memory left" in refused_by_system(MemoryError())
    assert "no memory left" in refused_by_system(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
    full = "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 9.00 GiB"
    said = refused_by_system(torch.OutOfMemoryError(f"{full}\nCompile with `TORCH_USE_CUDA_DSA`"))
    assert said == f"the system has no memory left ({full})."
    library = RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")
    assert "no memory left" in refused_by_system(library)
    assert refused_by_system(PermissionError(13, "Permission denied", "x")) == "the system says Permission denied: x."
    assert refused_by_system(RuntimeError("shapes do not fit")) == ""
    assert refused_by_system(KeyError("a")) == ""


@pytest.mark.parametrize("signals", [[signal.SIGHUP], [signal.SIGINT, signal.SIGINT]], ids=["the terminal", "twice"])
def test_the_end_of_the_terminal_and_a_second_ctrl_c_print_the_command_that_goes_on(tmp_path, signals):
    out = tmp_path / "run"
    process = start("run", "pull", "--out", out, "--steps", "1000000", env=swept.installed(tmp_path / "package"))
    while not list(out.glob("checkpoint/*.safetensors")) and process.poll() is None:
        time.sleep(0.01)
    for number in signals:
        process.send_signal(number)
        time.sleep(0.05)
    code, _, err = finish(process)
    assert code == 130
    assert "featscope run pull --resume --out" in err.strip().splitlines()[-1]
    assert "Traceback" not in err
