"""Every statement of every paper with what runs say of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Literal

from markupsafe import Markup

from featscope.catalogue import Entry
from featscope.claims import Statement
from featscope.options import ConfigError, MissingExtraError
from featscope.registry import find
from featscope.report.claim_view import Tone, View
from featscope.report.ledger_order import corrections, in_order, paper_of, part_of, place_of, printed
from featscope.report.ledger_runs import Climb, LedgerRun, Picture, tone_in
from featscope.report.typeset import typeset

LedgerTone = Tone | Literal["none"]
ORDER: Sequence[LedgerTone] = ("holds", "calm", "undecided", "loud", "control", "none")
WORDS: Mapping[LedgerTone, str] = {
    "holds": "holds",
    "calm": "fails, as expected or where nothing was expected",
    "undecided": "undecided",
    "loud": "against expectation",
    "control": "seen on controls only",
    "none": "not run here",
}


@dataclass(frozen=True)
class Told:
    """What one run says of a statement."""

    run: LedgerRun
    tone: Tone
    verdict: str
    views: Sequence[View]

    @property
    def sure(self) -> bool:
        """Whether Holm's correction lets it stand on some arm."""
        return any(view.tone == self.tone and not view.doubt for view in self.views)


@dataclass(frozen=True)
class Row:
    """A statement.

    Attributes:
        key: its anchor.
        study: the study that judges it.
        statement: what is said.
        title, text, measured, note: words, typeset; ``note`` has the reason of the bound where a run gives it.
        printed: whether the paper says so, rather than the study.
        told: what each run says of it; the one that counts most comes first.
        tone, verdict: of that one.
        command: what redoes that one, or would do it for the first time.
        pictures, climbs: figures and trends of all runs.
        instead: what is said in its place, where it is wrong.
    """

    key: str
    study: str
    statement: Statement
    title: Markup
    text: Markup
    measured: Markup
    note: Markup
    printed: bool
    told: Sequence[Told]
    tone: LedgerTone
    verdict: str
    command: str
    pictures: Sequence[Picture]
    climbs: Sequence[Climb]
    instead: list["Row"] = field(default_factory=list)

    @property
    def suspected(self) -> bool:
        """Whether the paper says it, and nobody expects it to hold."""
        return self.printed and not self.statement.expected

    @property
    def wrong(self) -> bool:
        """Whether a run shows of such a statement that it fails."""
        return self.suspected and self.tone == "calm"

    @property
    def missed(self) -> bool:
        """Whether it fails, against expectation; "loud" is also what holds against it."""
        views = self.told[0].views if self.tone == "loud" else []
        return any(view.tone == "loud" and view.claim.verdict == "fails" for view in views)

    @property
    def settled(self) -> bool:
        """Whether it is more than a matter of this size and of chance: an equation or what no chance enters into fails,
        or something that holds is shown in its place; Holm's correction lets it stand; and options are the defaults."""
        firm = self.tone == "calm" and self.told[0].run.at_defaults and self.told[0].sure
        mended = any(other.tone == "holds" for other in self.instead)
        return firm and (mended or self.statement.kind == "identity" or self.statement.law == "exact")

    @property
    def shown_by(self) -> Told | None:
        """Of runs that a command redoes, that say so and that Holm's correction lets stand, the one that took least
        time, whatever its options; if there is none, the one that counts most."""
        firm = [told for told in self.told if told.tone == self.tone and told.run.command and told.sure]
        first = next(iter(self.told), None)
        return min(firm, key=lambda told: inf if told.run.seconds is None else told.run.seconds, default=first)


@dataclass(frozen=True)
class Part:
    """What a study tests of its paper. ``missing`` says why its statements cannot be read."""

    entry: Entry
    name: str
    where: str
    rows: Sequence[Row]
    missing: str = ""

    @property
    def was_run(self) -> bool:
        """Whether any run says anything of it."""
        return any(row.told for row in self.rows)


@dataclass(frozen=True)
class Paper:
    """A paper, with its studies in its own order."""

    key: str
    name: str
    parts: Sequence[Part]

    @property
    def rows(self) -> list[Row]:
        """All its statements."""
        return [row for part in self.parts for row in part.rows]


def papers(studies: Sequence[Entry], runs: Sequence[LedgerRun]) -> list[Paper]:
    """Every statement of ``studies``, by paper, and what ``runs`` say of it."""
    by_paper: dict[str, list[Entry]] = {}
    for entry in studies:
        by_paper.setdefault(paper_of(entry.source), []).append(entry)
    found = []
    for number, (name, entries) in enumerate(sorted(by_paper.items()), 1):
        entries.sort(key=lambda entry: (place_of(part_of(entry.source)) or (), entry.name))
        parts = [_part(entry, [run for run in runs if run.study == entry.name]) for entry in entries]
        found.append(Paper(f"paper-{number}", name, parts))
    return found


def _part(entry: Entry, runs: Sequence[LedgerRun]) -> Part:
    about = (entry, entry.name.replace("-", " "), part_of(entry.source))
    try:
        statements = find(entry.name)[1].statements()
    except (ConfigError, MissingExtraError) as error:
        return Part(*about, (), str(error))
    best = sorted(runs, key=_counts, reverse=True)
    rows = {one.id: _row(entry, one, best) for one in statements}
    for id, others in corrections(statements).items():
        rows[id].instead.extend(rows[other] for other in others)
    return Part(*about, [rows[one.id] for one in in_order(statements)])


def _counts(run: LedgerRun) -> tuple[bool, bool, int, str]:
    """How much a run counts: default options before others, a study before its ladder, many replicas, late ones."""
    return run.at_defaults, not run.is_trend, run.replicas, run.began


def _row(entry: Entry, statement: Statement, runs: Sequence[LedgerRun]) -> Row:
    told = []
    for run in runs:
        shown = run.of(statement.id)
        if (said := tone_in(shown)) is not None:
            told.append(Told(run, *said, shown))
    notes = list(dict.fromkeys(view.note for one in told[:1] for view in one.views if view.note))
    notes = [note for note in notes if not any(longer != note and longer.startswith(note) for longer in notes)]
    return Row(
        f"{entry.name}.{statement.id}",
        entry.name,
        statement,
        typeset(statement.title),
        typeset(statement.text if statement.text != statement.title else ""),
        typeset(statement.measured),
        Markup("<br>").join(notes) or typeset(statement.note),
        printed(statement.source),
        told,
        told[0].tone if told else "none",
        told[0].verdict if told else WORDS["none"],
        (told[0].run.command if told else "") or f"featscope run {entry.name}",
        [picture for run in runs for picture in (run.pictures or {}).get(statement.id, ())],
        [climb for run in runs for climb in (run.climbs or {}).get(statement.id, ())],
    )
