"""What a browser is sent: the page around the report, and the report as it is now."""

import time
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from featscope.watch.state import Seen, State, look

if TYPE_CHECKING:
    from featscope.report.unfinished import Judged

_SECONDS_BETWEEN_BUILDS = 2.0
_SECONDS_BETWEEN_LOOKS = 0.9
_SECONDS_BETWEEN_MEASURES = 5.0  # of memory and processor time
_SECONDS_TO_REPORT = 15.0  # after which nobody else will
_SO_FAR = "It goes on: this is what was seen so far."
_JUDGED = ", judged"  # ends the version of a report in which claims are judged
_MAY_TAKE = 0.015  # of the processor time of the run: reports in which claims are judged, and again those without


def around(folder: Path) -> tuple[str, str]:
    """The page that stays open, and its policy: nothing from elsewhere, and only our own scripts and styles."""
    css = _of("report", "page.css") + _of("watch", "watch.css")
    start, script = _of("report", "start.js"), _of("watch", "watch.js")
    text = _of("watch", "watch.html")
    for name, part in (("css", css), ("start", start), ("script", script), ("name", escape(folder.resolve().name))):
        text = text.replace(f"[[{name}]]", part)
    policy = (
        f"default-src 'none'; style-src {_hashed(css)}; script-src {_hashed(start)} {_hashed(script)}; "
        "connect-src 'self'; frame-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )
    return text, policy


def _hashed(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


@cache
def _of(package: str, name: str) -> str:
    return files(f"featscope.{package}").joinpath("assets", name).read_text(encoding="utf-8")


def import_all() -> None:
    """Import what a report needs, a second's work that a server does not do before somebody looks.

    A run needs it in the end; imported before its server is forked, it is not done twice.
    """
    import featscope.report.run_report
    import featscope.report.unfinished  # noqa: F401


@dataclass
class _Cost:
    """Processor seconds that reports of a kind took: all, and the last."""

    all: float = 0.0
    last: float = 0.0

    def add(self, seconds: float) -> None:
        self.all, self.last = self.all + seconds, seconds

    def allows(self, spent: float) -> bool:
        """Whether one more keeps within what may be taken of ``spent``, those of the run."""
        return self.all + self.last <= _MAY_TAKE * spent


class Pages:
    """The state and the report of a run folder, each made once for all who watch, and the report not too often: all
    cores have other things to do.

    Most of what a report takes is the judging of claims. So it is made more often with claims as they were judged
    before, and curves as they are.

    Args:
        folder: the run folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock, self._building = Lock(), Lock()
        self._seen: Seen | None = None
        self._at = self._next = self._measured = self._changed = 0.0
        self._found = self._offered = self._built = ""
        self._page, self._built_at = "", 0.0
        self._judging, self._drawing = _Cost(), _Cost()
        self._judged: Judged | None = None
        self._run, self._since = 0, 0.0  # when config.json was written; when the process began that runs it

    def seen(self) -> Seen:
        """What is going on; ``version`` is of the report that is offered now."""
        with self._lock:
            now = time.monotonic()
            if self._seen is None or now - self._at > _SECONDS_BETWEEN_LOOKS:
                again = now - self._measured > _SECONDS_BETWEEN_MEASURES
                seen, self._at = look(self.folder, None if again else self._seen), now
                self._measured = now if again else self._measured
                self._forget_another_run(seen["since"])
                if seen["version"] != self._found:
                    self._found, self._changed = seen["version"], now
                finished = seen["state"] == "finished"
                judge = finished or self._judging.allows(seen["spent"]) or self._nobody_waits(seen, now)
                due = finished or (now >= self._next and (judge or self._drawing.allows(seen["spent"])))
                version = seen["version"] + (_JUDGED if judge else "")
                new = version != self._offered and version + _JUDGED != self._offered
                if new and due and not _reports_itself(self.folder, seen["state"]):
                    self._offered, self._next = version, now + _SECONDS_BETWEEN_BUILDS
                self._seen = Seen(**{**seen, "version": self._offered})
            return self._seen

    def _forget_another_run(self, since: float) -> None:
        """Claims are a run's, and what may be taken of a process's time is that process's."""
        try:
            run = (self.folder / "config.json").stat().st_mtime_ns
        except OSError:
            run = 0
        if since not in (0.0, self._since) or run != self._run:
            self._judging, self._drawing = _Cost(), _Cost()
        if run != self._run:
            self._judged = None
        self._run, self._since = run, since or self._since

    @property
    def age(self) -> float | None:
        """Seconds since the report was made; None before there is one."""
        return time.monotonic() - self._built_at if self._page else None

    def _nobody_waits(self, seen: Seen, now: float) -> bool:
        """Whether no run is held up by what is done here."""
        if seen["state"] == "not running":  # or between two of its parts
            return now - self._changed > _SECONDS_TO_REPORT
        return seen["state"] in ("finished", "paused") or not seen["memory"]  # or it is on another machine

    def report(self) -> str:
        """The report as it is now."""
        offered = self.seen()["version"]
        with self._building:
            if self._built != offered or not self._page:
                import_all()
                judge, began, at = offered.endswith(_JUDGED), time.thread_time(), time.monotonic()
                self._page, self._built, self._built_at = self._build(judge), offered, at
                (self._judging if judge else self._drawing).add(time.thread_time() - began)
                self._next = time.monotonic() + _SECONDS_BETWEEN_BUILDS
            return self._page

    def _build(self, judge: bool) -> str:
        ended = self.seen()["state"] == "finished"
        if ended:
            page, claims = self.folder / "report.html", self.folder / "claims.json"
            try:
                if page.stat().st_mtime_ns >= claims.stat().st_mtime_ns:
                    return page.read_text(encoding="utf-8")
            except (OSError, ValueError):
                pass
        from featscope.options import ConfigError, MissingExtraError  # see `import_all`
        from featscope.report.page import page_html
        from featscope.report.run_report import stored_content
        from featscope.report.unfinished import Judged, unfinished_content
        from featscope.runs.stored import read_plan
        from featscope.runs.unfinished import is_unfinished

        try:
            if is_unfinished(self.folder):
                now, before = datetime.now(), None if judge else self._judged
                content = unfinished_content(self.folder, judged=before)
                self._judged = before or Judged(content.claims, now)
                return page_html(content)
            content = stored_content(self.folder, read_plan(self.folder))  # of a training of one's own, on its way too
            return page_html(content if ended else replace(content, unfinished=_SO_FAR))
        except (ConfigError, MissingExtraError) as error:
            return _words(str(error))
        except Exception as error:  # whatever the code of a study raises: the rest of the page goes on
            return _words(f"{type(error).__name__}: {error}")


def _reports_itself(folder: Path, state: State) -> bool:
    """Whether a run has measured and is about to write its report, so that none need be made beside it.

    A training of one's own measures while it runs, and writes none.
    """
    if state in ("running", "paused"):
        return False
    try:
        measured = (folder / "trajectory.nc").stat().st_mtime
    except OSError:
        return False
    with suppress(OSError):
        if (folder / "report.html").stat().st_mtime >= measured:
            return False
    # A stamp that lies in the future, by a clock that was set back or is another machine's, says nothing.
    return state in ("judging", "ending") or abs(time.time() - measured) < _SECONDS_TO_REPORT


def _words(text: str) -> str:
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>FeatScope</title>"
        f"<body><p>{escape(text)}</p></body></html>"
    )
