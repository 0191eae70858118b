"""`featscope open`: which report it shows, and when it draws it anew."""

import os

import pytest

from in_terminal import call


def test_open_opens_the_newest_run_and_draws_what_is_not_drawn(tmp_path, monkeypatch, capfd):
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    monkeypatch.setattr("featscope.report.run_report.report_run", lambda run: run / "report.html")
    for place, name in enumerate(("older", "newer")):
        (run := tmp_path / name).mkdir()
        (run / "config.json").write_text("{}")
        os.utime(run / "config.json", (1e9 + place, 1e9 + place))
    code, out, _ = call(capfd, "open", tmp_path)
    assert (code, opened) == (0, [(tmp_path / "newer" / "report.html").as_uri()])
    assert out == f"report: {opened[0]}\n"
    (tmp_path / "older" / "report.html").write_text("drawn")
    assert call(capfd, "open", tmp_path / "older")[0] == 0
    assert opened[-1] == (tmp_path / "older" / "report.html").as_uri()


def test_open_says_where_the_report_is_if_no_browser_can_be_opened(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("webbrowser.open", lambda address: False)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "report.html").write_text("drawn")
    code, out, err = call(capfd, "open", tmp_path)
    assert code == 0
    assert (tmp_path / "report.html").as_uri() in out
    assert "open the address above" in err


@pytest.mark.parametrize(("judged", "drawn"), [(1, True), (0, False), (-1, False), (None, False)])
def test_open_draws_anew_what_was_judged_after_it_was_drawn(tmp_path, monkeypatch, capfd, judged, drawn):
    """``judged``: seconds after the report was drawn."""
    again: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    monkeypatch.setattr(
        "featscope.report.run_report.report_run", lambda run: again.append(run.name) or run / "report.html"
    )
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "report.html").write_text("drawn")
    os.utime(tmp_path / "report.html", (1e9, 1e9))
    if judged is not None:
        (tmp_path / "claims.json").write_text("{}")
        os.utime(tmp_path / "claims.json", (1e9 + judged, 1e9 + judged))
    code, out, _ = call(capfd, "open", tmp_path)
    assert (code, again) == (0, [tmp_path.name] * drawn)
    assert out == f"report: {(tmp_path / 'report.html').as_uri()}\n"
