"""The ledger: a site of plain files with every statement of every paper, and what runs say of it."""

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from featscope.catalogue import Entry
from featscope.files import atomic_write
from featscope.report.html import asset, environment, policy, small
from featscope.report.ledger_rows import ORDER, WORDS, Paper, Row, papers
from featscope.report.ledger_runs import LedgerRun
from featscope.studies.summaries import counted

MARK = "ledger.json"
"""The file that says which files of a folder are a ledger's."""
_IMAGES = "'self' file: data:"


def write_ledger(out: Path, studies: Sequence[Entry], runs: Sequence[LedgerRun], command: str) -> Path:
    """Write the site into ``out``; the path of its first page.

    Args:
        out: a folder, which is made; files of an earlier ledger in it are removed.
        studies: of which statements are told.
        runs: what was run, see `featscope.report.ledger_runs.read_run`.
        command: what makes the ledger again.
    """
    found = papers(studies, runs)
    rows = [row for paper in found for row in paper.rows]
    kept = {run.name for run in runs if not run.damaged and (run.folder / "report.html").is_file()}
    pages = {f"runs/{run.name}.html": run.folder / "report.html" for run in runs if run.name in kept}
    pictures = {f"figures/{one.name}": one.file for row in rows for one in row.pictures}
    files = ["index.html", "errata.html", *pages, *pictures]
    remove_ledger(out, but=MARK)
    for part in ("runs", "figures"):
        (out / part).mkdir(parents=True, exist_ok=True)
    _mark(out, files, [])  # so that what is left of one that is interrupted is known as its own
    for name, page in pages.items():
        shutil.copyfile(page, out / name)
    for name, picture in pictures.items():
        atomic_write(out / name, small(picture))
    counts = Counter(row.tone for row in rows)
    known = {
        "papers": found,
        "rows": rows,
        "runs": runs,
        "kept": kept,
        "words": WORDS,
        "counts": [(tone, counts[tone]) for tone in ORDER if counts[tone]],
        "command": command,
    }
    for name in ("index", "errata"):
        extra = {"found": headline(found)} if name == "index" else _errata(rows)
        atomic_write(out / f"{name}.html", _html(f"ledger-{name}.html", known | extra).encode())
    _mark(out, files, [_plain(row) for row in rows])
    return out / "index.html"


def _mark(out: Path, files: Sequence[str], statements: Sequence[dict[str, Any]]) -> None:
    content = {"files": files, "statements": statements}
    atomic_write(out / MARK, json.dumps(content, indent=1, ensure_ascii=False).encode())


def remove_ledger(out: Path, but: str = "") -> None:
    """Remove the files of an earlier ledger, and no others; not the one called ``but``."""
    for name in filter(lambda name: name != but, _files(out)):
        file = out / name
        if file.resolve().is_relative_to(out.resolve()):
            file.unlink(missing_ok=True)


def is_ledger(out: Path) -> bool:
    """Whether an earlier ledger is in ``out``."""
    return bool(_files(out))


def _files(out: Path) -> list[str]:
    try:
        named = json.loads((out / MARK).read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, LookupError, TypeError):
        return []
    return [*map(str, named), MARK] if isinstance(named, list) else []


def headline(found: Sequence[Paper]) -> str:
    """How many statements were tested, and what came of them, in a sentence."""
    rows = [row for paper in found for row in paper.rows]
    tested = [row for row in rows if row.tone != "none"]
    if not tested:
        return f"None of the {len(rows)} statements of {counted(len(found), 'paper')} has been run yet."
    counts: Counter[str] = Counter("elsewhere" if _elsewhere(row) else row.tone for row in tested)
    came = (
        ("holds", "holds", "hold"),
        ("calm", "fails, as was expected", "fail, as was expected"),
        (
            "elsewhere",
            "fails where nothing was expected",
            "fail where nothing was expected",
        ),
        ("undecided", "is undecided", "are undecided"),
        ("loud", "goes against expectation", "go against expectation"),
        ("control", "was seen on controls only", "were seen on controls only"),
    )
    said = [f"{counts[tone]} {one if counts[tone] == 1 else several}" for tone, one, several in came if counts[tone]]
    which = "All" if len(tested) == len(rows) else f"{len(tested)} of"
    return f"{which} {len(rows)} statements of {counted(len(found), 'paper')} were tested: {', '.join(said)}."


def _elsewhere(row: Row) -> bool:
    """Whether it fails in a run at options that are not the defaults, for which alone something is expected."""
    return row.tone == "calm" and bool(row.told) and not row.told[0].run.at_defaults


def _errata(rows: Sequence[Row]) -> dict[str, Any]:
    wrong = [row for row in rows if row.wrong]
    loud = [row for row in rows if row.missed and row.printed]
    fail = len(wrong) + len(loud)
    return {
        "settled": [row for row in wrong if row.settled],
        "unseen": [row for row in wrong if not row.settled],
        "loud": loud,
        "open": [row for row in rows if row.suspected and row.tone in ("none", "undecided")],
        "found": f"{counted(fail, 'statement')} of the papers {'fails' if fail == 1 else 'fail'} here.",
    }


def _plain(row: Row) -> dict[str, Any]:
    """A statement for other programs."""
    told = [
        {
            "run": one.run.name,
            "seed": one.run.seed,
            "replicas": one.run.replicas,
            "options": one.run.about,
            "command": one.run.command,
            "verdicts": {view.claim.arm: view.claim.verdict for view in one.views},
        }
        for one in row.told
    ]
    about = {"study": row.study, "id": row.statement.id, "source": row.statement.source, "title": row.statement.title}
    return about | {"expected": row.statement.expected, "verdict": row.verdict, "runs": told}


def _html(template: str, known: dict[str, Any]) -> str:
    css, start, script = asset("page.css") + asset("ledger.css"), asset("start.js"), asset("ledger.js")
    return (
        environment()
        .get_template(template)
        .render(
            **known,
            policy=policy(css, (start, script), _IMAGES),
            css=Markup(css),  # ours, as are the scripts; all that comes from studies and runs is escaped
            start=Markup(start),
            script=Markup(script),
        )
    )
