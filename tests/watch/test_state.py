"""What is going on in a folder: nothing that stands there is believed before it is checked."""

import json
import time

import pytest
from going_on import progress, say

from featscope.runs.progress import NAME as PROGRESS
from featscope.watch.state import look


def test_a_run_that_goes_on(tmp_path):
    say(tmp_path)
    seen = look(tmp_path)
    assert (seen["state"], seen["can_pause"], seen["seconds_left"]) == ("running", True, 60.0)
    assert [arm["label"] for arm in seen["arms"]] == ["pulled here", "the other"]
    used, free, total = seen["memory"]
    assert 0 < used < total
    assert 0 < free < total


def test_a_run_whose_process_has_gone_is_not_running(tmp_path):
    say(tmp_path, created=1.0)  # of another process that had the number
    assert look(tmp_path)["state"] == "not running"
    assert look(tmp_path)["arms"]
    assert not look(tmp_path)["can_pause"]


def test_a_run_on_another_machine_is_believed_as_long_as_it_speaks(tmp_path):
    say(tmp_path, host="elsewhere", pid=2**22 + 1)
    assert look(tmp_path)["state"] == "running"
    assert look(tmp_path)["memory"] == []
    say(tmp_path, host="elsewhere", at=1.0)
    assert look(tmp_path)["state"] == "not running"
    say(tmp_path, host="elsewhere", at=time.time() + 5)  # its clock is a little ahead
    assert look(tmp_path)["state"] == "running"


def test_a_word_of_the_future_is_not_believed(tmp_path):
    say(tmp_path, host="elsewhere", at=time.time() + 3600)  # the clock was set back since
    assert look(tmp_path)["state"] == "not running"


def test_a_folder_with_verdicts_is_finished_and_another_version_is_noticed(tmp_path):
    (tmp_path / "trajectory.nc").write_bytes(b"killed before its claims were judged")
    before = look(tmp_path)
    (tmp_path / "claims.json").write_text("{}")
    after = look(tmp_path)
    assert (before["state"], after["state"]) == ("not running", "finished")
    assert before["version"] != after["version"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b"null",
        *(
            json.dumps(progress(**changed)).encode()
            for changed in (
                {"state": "dancing"},
                {"pid": "1"},
                {"pid": 10**30},
                {"pid": -1},
                {"created": float("nan")},
                {"arms": {"a": 1}},
                {"arms": [{"arm": "pulled"}]},
                {"arms": [progress()["arms"][0] | {"done": "1"}]},
                {"arms": [progress()["arms"][0] | {"label": 1}]},
                {"events": [["now", "x"]]},
                {"events": [1]},
                {"seconds_left": "soon"},
                {"can_pause": 1},
            )
        ),
    ],
)
def test_what_says_nothing_sound_is_no_run(tmp_path, content):
    (tmp_path / PROGRESS).write_bytes(content)
    assert look(tmp_path)["state"] == "not running"
    json.dumps(look(tmp_path), allow_nan=False)


def test_a_link_or_a_folder_in_its_place_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").write_text(json.dumps(progress()))
    (tmp_path / PROGRESS).symlink_to(tmp_path / "elsewhere")
    assert look(tmp_path)["state"] == "not running"
    (tmp_path / PROGRESS).unlink()
    (tmp_path / PROGRESS).mkdir()
    assert look(tmp_path)["state"] == "not running"
