"""What a study's own code raised, in a line."""

import re
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from types import SimpleNamespace

import numpy as np
import pytest

from featscope.cli import main
from featscope.options import ConfigError, require_name
from featscope.own_code import is_of_own_code, said


def divide(by: int) -> float:
    return 1 / by


def caught(fails, *given) -> Exception:
    try:
        fails(*given)
    except Exception as error:
        return error
    raise AssertionError


def test_the_line_that_failed_is_named():
    error = caught(divide, 0)
    assert is_of_own_code(error)
    assert said(error) == "ZeroDivisionError: division by zero (test_own_code.py, line 19, in divide)"


def test_so_it_is_where_a_worker_process_failed():
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        error = pool.submit(divide, 0).exception()
    assert said(error) == "ZeroDivisionError: division by zero (test_own_code.py, line 19, in divide)"


def test_a_library_is_nobodys_own():
    error = ValueError("broken")
    assert not is_of_own_code(error)
    assert said(error) == "ValueError: broken"


def test_what_is_refused_is_told_as_it_is():
    def refuse() -> None:
        raise ConfigError("--width = 0 is out of range")

    assert said(caught(refuse)).startswith("--width = 0 is out of range (test_own_code.py, ")


def test_the_last_line_of_ones_own_is_named_not_that_of_a_library():
    assert "in test_" not in said(caught(np.zeros, "many"))
    assert said(caught(lambda: np.linalg.inv(np.zeros((2, 2))))).endswith("in <lambda>)")


def test_a_command_ends_with_a_line_and_no_traceback(monkeypatch, capsys):
    monkeypatch.setattr("featscope.cli._answer", lambda words, alone: divide(0))
    with pytest.raises(SystemExit) as ended:
        main(["list"])
    assert ended.value.code == 2
    shown = capsys.readouterr().err
    assert shown.startswith("featscope: ZeroDivisionError: division by zero (test_own_code.py, line 19, in divide)")
    assert "Traceback" not in shown


def test_where_featscope_raised_for_what_it_was_given_both_lines_are_named():
    shown = said(caught(lambda: require_name(SimpleNamespace(x=1), "no_such_field")))
    assert shown.startswith("AttributeError: ")
    assert re.search(r"\(\S+\.py, line \d+, in \S+, then featscope/options\.py, line \d+\)$", shown)


def test_a_defect_of_featscopes_own_keeps_its_traceback(tmp_path):
    """As of a command's module that cannot be imported."""
    run = "import sys; sys.modules['featscope.commands.show'] = None; from featscope.cli import main; main(['list'])"
    ended = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, cwd=tmp_path)
    assert "Traceback" in ended.stderr
    assert "code of your own" not in ended.stderr
