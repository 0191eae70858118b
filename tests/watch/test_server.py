"""The server: who may ask, what is told, and that it is found again."""

import errno
import http.client
import itertools
import json
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from types import SimpleNamespace

import pytest
from going_on import ended_on_its_way, say

from featscope.options import ConfigError
from featscope.report.unfinished import Judged
from featscope.runs.asked import asked
from featscope.runs.folder import WATCHED
from featscope.runs.progress import NAME as PROGRESS
from featscope.watch.address import Address, keep_address, read_address
from featscope.watch.pages import Pages, import_all
from featscope.watch.server import Server, close, watch
from featscope.watch.state import Seen
from swept import Pull, installed


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    say(tmp_path)
    return tmp_path


@pytest.fixture
def server(folder) -> Iterator[Server]:
    """One that serves."""
    made = watch(folder)
    serving = threading.Thread(target=made.serve_forever, args=(0.05,), daemon=True)
    serving.start()
    yield made
    made.shutdown()
    close(made)


def call(server: Server, path: str, method: str = "GET", body: str | None = None, **headers: str):
    """Status, headers and text; ``path`` after the secret word, unless it begins with a slash."""
    connection = http.client.HTTPConnection("127.0.0.1", server.address.port, timeout=10)
    try:
        whole = path if path.startswith("/") else f"/{server.address.token}/{path}"
        connection.request(method, whole, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def test_it_listens_on_this_machine_only(server):
    assert server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize("path", ["/", "/events", "/report", "/wrong/", "/wrong/events", "//", "/../", "/%00/"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_who_does_not_know_the_word_is_refused(server, path, method):
    status, _, text = call(server, path, method, "stop" if method == "POST" else None)
    assert status == 403
    assert server.address.token not in text
    assert asked(server.folder) == ""


def test_half_of_the_word_and_the_word_without_a_slash_are_refused(server):
    token = server.address.token
    assert [call(server, path)[0] for path in (f"/{token[:-1]}/", f"/{token}", f"/{token}x/")] == [403] * 3


@pytest.mark.parametrize("headers", [{"Host": "example.com"}, {"Host": ""}, {"Origin": "http://example.com"}])
def test_another_name_and_another_site_are_refused(server, headers):
    assert call(server, "", **headers)[0] == 403
    assert call(server, "ask", "POST", "stop", **headers)[0] == 403
    assert asked(server.folder) == ""


def test_the_page_takes_nothing_from_elsewhere(server):
    status, headers, text = call(server, "")
    assert status == 200
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "[[" not in text
    assert f"FeatScope: {server.folder.name}" in text


def test_a_name_with_markup_is_escaped(tmp_path):
    (odd := tmp_path / "<b>&").mkdir()
    from featscope.watch.pages import around

    assert "<b>&" not in around(odd)[0].replace("<b>FeatScope", "")


def test_the_stream_tells_how_far_it_is_and_again_when_that_changes(server):
    with socket.create_connection(("127.0.0.1", server.address.port), timeout=10) as connection:
        connection.sendall(
            f"GET /{server.address.token}/events HTTP/1.1\r\nHost: 127.0.0.1:{server.address.port}\r\n\r\n".encode()
        )
        lines = connection.makefile()
        told = (json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: "))
        assert next(told)["state"] == "running"
        say(server.folder, state="paused")
        assert next(seen for seen in told if seen["state"] != "running")["state"] == "paused"
        assert server.streams == 1


def test_it_is_told_how_old_the_report_is_however_late_one_looks(server):
    def age():
        with socket.create_connection(("127.0.0.1", server.address.port), timeout=10) as connection:
            host = f"127.0.0.1:{server.address.port}"
            connection.sendall(f"GET /{server.address.token}/events HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            told = (line for line in connection.makefile() if line.startswith("data: "))
            return json.loads(next(told).removeprefix("data: "))["age"]

    import_all()  # which takes long
    assert age() is None
    began = time.monotonic()
    call(server, "report")
    made = time.monotonic()
    time.sleep(1.0)
    least = time.monotonic() - made
    assert least <= age() <= time.monotonic() - began


@pytest.mark.parametrize(("said", "wish"), [("pause", "pause"), ("stop", "stop"), ("go on", "")])
def test_a_press_is_a_wish(server, said, wish):
    assert call(server, "ask", "POST", said)[0] == 200
    assert asked(server.folder) == wish


@pytest.mark.parametrize("said", ["", "dance", "pause now, please, if you can", "stop\x00", "ä"])
def test_what_is_no_wish_is_refused(server, said):
    assert call(server, "ask", "POST", said.encode())[0] == 400
    assert asked(server.folder) == ""


@pytest.mark.parametrize("length", ["-1", "1e3", "x", "99999999999999999999"])
def test_a_length_that_is_none_is_refused(server, length):
    assert call(server, "ask", "POST", None, Content_Length=length)[0] == 400


def test_nobody_is_asked_where_nothing_runs(server):
    say(server.folder, created=1.0)
    assert call(server, "ask", "POST", "stop")[0] == 409
    assert asked(server.folder) == ""


def test_other_pages_and_other_methods_are_not_there(server):
    assert call(server, "config.json")[0] == 404
    assert call(server, "../config.json")[0] == 404
    assert call(server, "", "POST", "x")[0] == 404
    assert call(server, "", "PUT", "x")[0] == 501


def test_a_folder_that_no_study_reads_says_so_in_the_place_of_the_report(server):
    status, _, text = call(server, "report")
    assert status == 200
    assert "config.json" in text


@pytest.mark.parametrize("registered", [True, False])
def test_the_report_so_far_is_shown_in_grey_if_a_package_registers_its_study(tmp_path, monkeypatch, registered):
    if registered:
        installed(tmp_path / "package")
        monkeypatch.syspath_prepend(tmp_path / "package")
    ended_on_its_way(tmp_path / "run", Pull(steps=20, probe_every=2), looks=8)
    say(tmp_path / "run")
    text = Pages(tmp_path / "run").report()
    assert ("no package registers the study of this run, &#x27;pull&#x27;" in text) is not registered
    assert ("Unfinished: 0 of 2 arms are done, pulled is at step" in text) is registered
    assert ('<body class="unfinished">' in text) is registered
    assert not (tmp_path / "run" / "unfinished.html").exists()  # what is watched is left as it is


def test_a_machine_without_a_free_port_is_refused_in_a_sentence(folder, monkeypatch):
    def full(self):
        raise OSError(errno.EADDRINUSE, "Address already in use")

    monkeypatch.setattr(Server, "server_bind", full)
    with pytest.raises(ConfigError, match=r"^no port of 127\.0\.0\.1 can be had \(Address already in use\): allow it"):
        watch(folder)


def test_it_is_found_again_after_it_has_ended(folder):
    first = watch(folder)
    close(first)
    again = watch(folder)
    try:
        assert again.address == first.address
    finally:
        close(again)
    assert stat.S_IMODE((folder / WATCHED).stat().st_mode) == 0o600


def test_two_servers_of_a_folder_share_the_word_and_not_the_port(folder):
    first = watch(folder)
    second = watch(folder)
    try:
        assert first.address.token == second.address.token
        assert first.address.port != second.address.port
    finally:
        close(first)
        close(second)


def test_a_folder_without_a_run_is_left_as_it_is(tmp_path):
    close(watch(tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", b'{"port": 80, "token": "%s"}' % (b"a" * 43), b'{"port": 4000, "token": "short"}']
)
def test_an_address_that_nobody_kept_is_not_taken(tmp_path, content):
    (tmp_path / WATCHED).write_bytes(content)
    (tmp_path / WATCHED).chmod(0o600)
    assert read_address(tmp_path).port == 0


def test_an_address_that_others_may_read_is_not_taken(tmp_path):
    kept = Address(4000, "a" * 43)
    keep_address(tmp_path, kept)
    assert read_address(tmp_path) == kept
    (tmp_path / WATCHED).chmod(0o644)
    assert read_address(tmp_path) != kept


def test_no_report_is_made_beside_a_run_that_is_about_to_write_its_own(folder, monkeypatch):
    monkeypatch.setattr("featscope.watch.pages._SECONDS_BETWEEN_LOOKS", -1)
    monkeypatch.setattr("featscope.watch.pages._SECONDS_BETWEEN_BUILDS", 0)
    pages, stored, report = Pages(folder), folder / "trajectory.nc", folder / "report.html"
    so_far = pages.seen()["version"]
    stored.touch()
    say(folder, state="judging")
    assert pages.seen()["version"] == so_far
    os.utime(stored, (time.time() - 60,) * 2)
    assert pages.seen()["version"] == so_far  # however long judging takes
    (folder / PROGRESS).unlink()
    stored.touch()
    (folder / "claims.json").touch()
    assert pages.seen()["version"] == so_far  # it draws
    report.touch()
    with_report = pages.seen()["version"]
    assert with_report.startswith("finished")
    report.unlink()
    for file in (stored, folder / "claims.json"):
        os.utime(file, (time.time() - 60,) * 2)
    assert pages.seen()["version"] not in (so_far, with_report)  # nobody else will: a run of Python


def test_a_run_that_ended_in_the_future_is_reported_all_the_same(folder):
    """The clock was set back, or is the file server's."""
    pages, stored = Pages(folder), folder / "trajectory.nc"
    stored.touch()
    (folder / "claims.json").touch()
    os.utime(stored, (time.time() + 3600,) * 2)
    (folder / PROGRESS).unlink()
    assert pages.seen()["version"].startswith("finished")


@pytest.mark.parametrize("judges", [True, False])
def test_reports_follow_a_run_of_ten_minutes_and_take_no_more_than_their_share(folder, monkeypatch, judges):
    """Two busy cores, and reports that cost what those of `decoupling` do: the first, and the others as arms are added.

    A training of one's own judges nothing: all of its reports cost the same.
    """
    now, taken, made = 0.0, 0.0, []

    def build(self, judge):
        nonlocal taken
        costs = (2.0 + now / 330 if made else 4.0) if judge else 0.5 + now / 400
        taken += costs if judges else 1.0
        made.append((now, judge))
        return "the report"

    def seen(folder, before):
        return Seen(
            state="running",
            arms=[],
            events=[],
            seconds_left=None,
            can_pause=True,
            memory=[1, 1, 2],
            since=1.0,
            spent=2 * now,
            version=f"so far-1-{now // 5}",
        )

    clock = SimpleNamespace(monotonic=lambda: 1000 + now, thread_time=lambda: taken)
    monkeypatch.setattr("featscope.watch.pages.time", clock)
    monkeypatch.setattr("featscope.watch.pages._reports_itself", lambda folder, state: False)
    monkeypatch.setattr("featscope.watch.pages.look", seen)
    monkeypatch.setattr(Pages, "_build", build)
    pages, shown = Pages(folder), ""
    for second in range(1, 601):
        now = float(second)
        if (version := pages.seen()["version"]) != shown:
            shown = version
            pages.report()
    assert taken <= 0.03 * 2 * now
    times = [at for at, _ in made]
    assert max(after - before for before, after in itertools.pairwise([*times, now])) <= 70
    judged = [at for at, judge in made if judge]
    assert max(after - before for before, after in itertools.pairwise([*judged, now])) <= 300


def test_another_run_in_the_folder_has_claims_and_time_of_its_own(folder, monkeypatch):
    """One that is resumed has the claims of before, and a process of its own; one that replaces it, neither."""
    since = 1.0
    seen = {"state": "running", "arms": [], "events": [], "seconds_left": None, "can_pause": True, "memory": [1, 1, 2]}
    monkeypatch.setattr(
        "featscope.watch.pages.look", lambda *given: Seen(**seen, since=since, spent=0.0, version="so far-1")
    )
    monkeypatch.setattr("featscope.watch.pages._SECONDS_BETWEEN_LOOKS", -1)
    pages = Pages(folder)
    pages.seen()
    claims = Judged((), datetime.now())

    def known():
        pages.seen()
        return pages._judging.all, pages._drawing.all, pages._judged

    pages._judged = claims
    pages._judging.add(9.0)
    pages._drawing.add(5.0)
    assert known() == (9.0, 5.0, claims)
    since = 0.0  # it has ended
    assert known() == (9.0, 5.0, claims)
    since = 2.0
    assert known() == (0.0, 0.0, claims)
    pages._judging.add(9.0)
    os.utime(folder / "config.json", (1e9, 1e9))
    assert known() == (0.0, 0.0, None)


def test_a_training_of_one_s_own_is_shown_look_by_look(folder, monkeypatch):
    monkeypatch.setattr("featscope.watch.pages._SECONDS_BETWEEN_LOOKS", -1)
    monkeypatch.setattr("featscope.watch.pages._SECONDS_BETWEEN_BUILDS", 0)
    pages, stored = Pages(folder), folder / "trajectory.nc"
    stored.touch()
    versions = set()
    for ago in (3, 2, 1):  # seconds: it is written anew at every look, and no report ever
        os.utime(stored, (time.time() - ago,) * 2)
        versions.add(pages.seen()["version"])
    assert len(versions) == 3
