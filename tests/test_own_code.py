"""What a study's own code raised, in a line."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from featscope.cli import main
from featscope.options import ConfigError
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
    assert said(error) == "ZeroDivisionError: division by zero (test_own_code.py, line 15, in divide)"


def test_so_it_is_where_a_worker_process_failed():
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        error = pool.submit(divide, 0).exception()
    assert said(error) == "ZeroDivisionError: division by zero (test_own_code.py, line 15, in divide)"


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
    assert shown.startswith("featscope: ZeroDivisionError: division by zero (test_own_code.py, line 15, in divide)")
    assert "Traceback" not in shown


def test_a_defect_of_featscopes_own_keeps_its_traceback(monkeypatch):
    def defect(words, alone):
        raise RuntimeError

    monkeypatch.setattr("featscope.own_code.is_of_own_code", lambda error: False)
    monkeypatch.setattr("featscope.cli._answer", defect)
    with pytest.raises(RuntimeError):
        main(["list"])
