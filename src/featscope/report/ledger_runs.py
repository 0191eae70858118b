"""What a ledger reads of each run: its verdicts, its figures, its trends, and the command that redoes it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from featscope.options import ConfigError, MissingExtraError
from featscope.report.claim_view import Tone, View, views
from featscope.report.numbers import number
from featscope.report.run_report import stored_content
from featscope.runs.environment import began
from featscope.runs.stored import read_environment, read_plan, read_trends
from featscope.studies.summaries import counted

_DEFAULTS = "default options"


@dataclass(frozen=True)
class Picture:
    """A figure of a run: its file in the run folder and in the ledger, its title, its caption and the run's size."""

    file: Path
    name: str
    title: str
    caption: str
    size: str


@dataclass(frozen=True)
class Climb:
    """A claim along a ladder of sizes: the arm, the size's symbol, each size with its verdict and tone, and what is
    foretold, in words."""

    arm: str
    symbol: str
    at: Sequence[tuple[str, Tone, str]]
    foretold: str


@dataclass(frozen=True)
class LedgerRun:
    """A run as the ledger tells it.

    Attributes:
        name: what it is called in the ledger; unique there.
        folder: where it is.
        study: what was run; empty where that cannot be read.
        about: options that are not at their defaults, in words.
        at_defaults: whether there are none.
        seed, replicas: as they were run.
        began: when, in UTC; empty where that is not known.
        seconds: how long it took; None where that is not known.
        command: what runs it again; empty where no command does.
        views: its claims, as a report shows them.
        pictures: id of a claim -> figures that show it.
        climbs: id of a claim -> its trends.
        warnings: what must be known before it is believed.
        damaged: why it cannot be read; empty if it can.
    """

    name: str
    folder: Path
    study: str = ""
    about: str = ""
    at_defaults: bool = False
    seed: int = 0
    replicas: int = 0
    began: str = ""
    seconds: float | None = None
    command: str = ""
    views: Sequence[View] = ()
    pictures: Mapping[str, Sequence[Picture]] | None = None
    climbs: Mapping[str, Sequence[Climb]] | None = None
    warnings: Sequence[str] = ()
    damaged: str = ""

    @property
    def size(self) -> str:
        """At which size it was run, in words."""
        return _size(self.about, self.replicas, self.seed)

    @property
    def is_trend(self) -> bool:
        """Whether it climbs a ladder of sizes."""
        return bool(self.climbs)

    def of(self, claim: str) -> list[View]:
        """What it says of the claim called ``claim``, a view an arm."""
        return [view for view in self.views if view.claim.id == claim]


def read_run(folder: Path, name: str) -> LedgerRun:
    """The run in ``folder``; what cannot be read is a run that says why."""
    study = ""
    try:
        plan = read_plan(folder)
        study = plan["study"]
        if not (folder / "claims.json").exists():
            raise ConfigError("it is not finished: run it again with --resume")
        content, environment = stored_content(folder, plan), read_environment(folder)
        climbs = _climbs(read_trends(folder)) if (folder / "trends.json").exists() else {}
    except (ConfigError, MissingExtraError) as error:
        return LedgerRun(name, folder, study, damaged=str(error))
    except Exception as error:  # whatever the code of an installed study raises
        return LedgerRun(
            name, folder, study, damaged=f"the study as it is installed raises {type(error).__name__}: {error}"
        )
    rows = [row for table in content.arms for row in table.rows]
    controls = {row.name for row in rows if row.role == "control"} | {*content.controls}
    labels = {row.name: row.label for row in rows}
    size = _size(content.changed, plan["replicas"], plan["seed"])
    pictures: dict[str, list[Picture]] = {}
    for figure in content.figures:
        file = folder / "figures" / f"{figure.id}.png"
        # No run's name has an @, so that no two pictures share a file.
        shown = Picture(file, f"{name}@{figure.id}.webp", figure.title, figure.caption, size)
        for key in figure.claims if _is_picture(file) else ():
            pictures.setdefault(key.partition("@")[0], []).append(shown)
    return LedgerRun(
        name,
        folder,
        study,
        content.changed,
        not content.changed,
        plan["seed"],
        plan["replicas"],
        began(environment),
        environment.get("seconds"),
        content.command,
        views(content.claims, labels, controls, loud=not content.changed),
        pictures,
        climbs,
        content.warnings,
    )


def named(folders: Sequence[Path], above: Path) -> Iterator[tuple[Path, str]]:
    """Each folder with a name that may stand in an address, and is one of its own."""
    taken: set[str] = set()
    for folder in folders:
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(folder.relative_to(above).parts)).strip("-.") or "run"
        name, number = plain, 1
        while name.lower() in taken:
            number += 1
            name = f"{plain}-{number}"
        taken.add(name.lower())
        yield folder, name


def tone_in(shown: Sequence[View]) -> tuple[Tone, str] | None:
    """What a run says of a statement as a whole, with the verdict in words; None where it is not judged.

    The arms on which it is expected to hold decide; if there are none, those that are no control.
    """
    expected = [view for view in shown if view.claim.expected]
    told = expected or [view for view in shown if view.tone != "control"] or list(shown)
    by_tone: dict[Tone, str] = {}
    for view in told:
        by_tone.setdefault(view.tone, view.verdict)
    worst: Sequence[Tone] = ("loud", "calm", "undecided", "holds", "control")
    return next(((tone, by_tone[tone]) for tone in worst if tone in by_tone), None)


def _size(about: str, replicas: int, seed: int) -> str:
    return f"{about or _DEFAULTS}, {counted(replicas, 'replica')}, seed {seed}"


def _is_picture(file: Path) -> bool:
    """Whether a whole PNG is there."""
    try:
        with Image.open(file) as picture:
            picture.verify()
    except (OSError, SyntaxError, ValueError):  # as Pillow says that it is damaged
        return False
    return True


def _climbs(stored: Mapping[str, Any]) -> dict[str, list[Climb]]:
    found: dict[str, list[Climb]] = {}
    for trend in stored["trends"]:
        at = [(f"{rung['size']:.12g}", _tone(rung["verdict"]), rung["verdict"]) for rung in trend["at"]]
        found.setdefault(trend["id"], []).append(Climb(trend["arm"], stored["symbol"], at, _foretold(trend, stored)))
    return found


def _tone(verdict: str) -> Tone:
    """As it is drawn where nothing is said of what was expected."""
    return "holds" if verdict == "holds" else "undecided" if verdict == "undecided" else "calm"


def _foretold(trend: Mapping[str, Any], stored: Mapping[str, Any]) -> str:
    if trend["silent"] or not trend.get("foretold"):
        return f"Nothing is foretold: {trend['silent']}." if trend["silent"] else ""
    told = [f"{one['verdict']} at {stored['symbol']} = {number(one['size'])}" for one in trend["foretold"]]
    moves = {"toward": " It moves toward holding.", "away": " It moves away from holding."}
    way = moves.get((trend.get("direction") or {}).get("word", ""), "")
    return f"Foretold: {', '.join(told)}.{way}"
