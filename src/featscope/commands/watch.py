"""`featscope watch` and `open`: a run as it trains, and its report, in a browser."""

import os
import sys
import threading
import time
import webbrowser
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import tyro

from featscope.commands.parsing import parse
from featscope.commands.stored import DEEPEST, runs_below
from featscope.options import ConfigError

_SECONDS_BETWEEN_LOOKS = 0.5


@dataclass(frozen=True)
class _WatchArgs:
    """Follow a run or sweep in a browser on this machine, as it trains."""

    folder: tyro.conf.Positional[Path]
    """The run folder."""


@dataclass(frozen=True)
class _OpenArgs:
    """Open the report of a run in a browser."""

    folder: tyro.conf.Positional[Path] = Path("runs")
    """The run folder, or one below which runs are: then the newest."""


def watch_run(words: list[str]) -> int:
    """Serve the page of a run until Ctrl-C."""
    from featscope.runs.stored import read_plan
    from featscope.watch.server import close, watch

    chosen: _WatchArgs = parse(_WatchArgs, words, "watch")
    read_plan(chosen.folder)  # says so where there is no run
    server = watch(chosen.folder)
    print(f"watch: {server.address.url}  (Ctrl-C ends watching, not the run)", flush=True)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        while serving.is_alive():
            time.sleep(_SECONDS_BETWEEN_LOOKS)
    except KeyboardInterrupt:
        pass
    finally:
        close(server)
    return 0


def open_report(words: list[str]) -> int:
    """Open a run's report, which is drawn where there is none."""
    chosen: _OpenArgs = parse(_OpenArgs, words, "open")
    run = _newest(chosen.folder)
    page = run / "report.html"
    if not page.is_file() or _is_older(page, run / "claims.json"):
        from featscope.report.run_report import report_run

        page = report_run(run)
    address = page.resolve().as_uri()
    print(f"report: {address}", flush=True)
    with suppress(webbrowser.Error, OSError):
        if webbrowser.open(address):
            return 0
    print("featscope: no browser could be opened; open the address above in one.", file=sys.stderr)
    return 0


def _newest(folder: Path) -> Path:
    """The folder itself where it is a run's, else the newest run below it."""
    if os.path.exists(folder / "config.json"):
        return folder
    found = [run for run in runs_below(folder) if (run / "config.json").is_file()] if os.path.isdir(folder) else []
    if not found:
        raise ConfigError(
            f"DIR = {str(folder)!r} holds no run: allowed is a run folder, or one with runs below it, {DEEPEST} "
            "folders deep at most"
        )
    return max(found, key=lambda run: (run / "config.json").stat().st_mtime)


def _is_older(page: Path, claims: Path) -> bool:
    with suppress(OSError):
        return page.stat().st_mtime_ns < claims.stat().st_mtime_ns
    return False
