"""The report's page: one HTML file that needs nothing else. It knows no study: figures, arms and claims are data."""

from base64 import b64encode
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from markupsafe import Markup

from featscope.claims import LEVEL, Claim, worth
from featscope.figures import Agreement, Figure, Table, Verdicts
from featscope.files import atomic_write
from featscope.report.arm_table import ArmTable
from featscope.report.claim_view import (
    NOT_AT_DEFAULTS,
    ORDER,
    SO_FAR,
    TONES,
    View,
    by_source,
    chosen_views,
    grouped,
    outlook,
    views,
)
from featscope.report.figure_data import figure_data
from featscope.report.html import asset, environment, json_inside, policy, small

_SCRIPTS = ("core", "axes", "curves", "bars", "movie", "matrices", "scatters", "verdicts", "export", "page")
_FEW = 4  # claims that a page shows as cards where its study names none
_MOST = 6  # cards in all


@dataclass(frozen=True)
class Content:
    """What a page says.

    Attributes:
        title: what was studied, in a word.
        source: the paper.
        question: what was asked, in a line.
        found: what was found, in a sentence.
        lede: what one needs to read the first figure.
        warnings: what must be known before any of it is believed, a sentence each.
        headlines: "id" or "id@arm" of the claims that matter most -> what was seen there, or nothing.
        summary: what was done.
        claims: all claims, in order.
        arms: what sets arms apart; each arm's label and role stand there, too.
        tables: what is told in rows, below the first picture.
        tables_are: what these tables show.
        figures: in order; the first is the page's picture. One whose id another had before gets a number behind it.
        replicas: how many of each arm were run; the most, where runs have different numbers.
        replicas_of: in words, how many each run has, where runs have different numbers.
        command: what runs it again; empty where no command does.
        changed: options that are not at their defaults, for which expectations were made; in words.
        facts: name -> value of where the numbers come from.
        unfinished: of a run that is not done, what its claims are worth, in a sentence; they are grey.
        controls: names of arms that are controls, beside those that `arms` calls so.
    """

    title: str
    source: str = ""
    question: str = ""
    found: str = ""
    lede: str = ""
    warnings: Sequence[str] = ()
    headlines: Mapping[str, str] = field(default_factory=dict)
    summary: str = ""
    claims: Sequence[Claim] = ()
    arms: Sequence[ArmTable] = ()
    tables: Sequence[Table] = ()
    tables_are: str = "What differs"
    figures: Sequence[Figure] = ()
    replicas: int = 1
    replicas_of: str = ""
    command: str = ""
    changed: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    unfinished: str = ""
    controls: Collection[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "figures", _with_ids_of_their_own(self.figures))


@dataclass(frozen=True)
class Shown:
    """A figure on the page: its kind, which says how it is drawn ("agreement": as a table; "picture": as the PNG is);
    the views that stand beside it; and the PNG, which stands in where there is no script."""

    figure: Figure
    kind: str
    views: Sequence[View]
    groups: Sequence[Sequence[View]]
    picture: str


def _with_ids_of_their_own(figures: Sequence[Figure]) -> list[Figure]:
    """``figures``, of which none is drawn in the place of another: ids differ by more than capitals."""
    taken: set[str] = set()
    found = []
    for figure in figures:
        id, number = figure.id, 1
        while id.lower() in taken:
            number += 1
            id = f"{figure.id}-{number}"
        taken.add(id.lower())
        found.append(figure if id == figure.id else replace(figure, id=id))
    return found


def write_page(path: Path, content: Content, pictures: Path | None = None) -> None:
    """Write the page, whole or not at all.

    Args:
        path: where to; the folder exists.
        content: what it says.
        pictures: folder of ``ID.png`` for each figure, which stand in where there is no script.

    Raises:
        TypeError: a figure is of a kind that the page cannot draw.
    """
    atomic_write(path, page_html(content, pictures).encode())


def page_html(content: Content, pictures: Path | None = None) -> str:
    """The page as text, see `write_page`."""
    rows = [row for table in content.arms for row in table.rows]
    controls = {row.name for row in rows if row.role == "control"} | {*content.controls}
    every = views(
        content.claims,
        {row.name: row.label for row in rows},
        controls,
        loud=not (content.changed or content.unfinished),
    )
    drawn = {figure.id: figure_data(figure) for figure in content.figures}
    shown = [_shown(figure, drawn[figure.id].get("kind", ""), every, pictures) for figure in content.figures]
    seen = {view.key for one in shown for view in one.views}
    counts = Counter(view.tone for view in every)
    css, start, script = asset("page.css"), asset("start.js"), "\n".join(asset(f"{name}.js") for name in _SCRIPTS)
    return (
        environment()
        .get_template("page.html")
        .render(
            content=content,
            tones=SO_FAR if content.unfinished else NOT_AT_DEFAULTS if content.changed else TONES,
            counts=[(tone, counts[tone]) for tone in ORDER if counts[tone]],
            strip=sorted(every, key=lambda view: ORDER.index(view.tone)),
            views=every,
            outlook=outlook(every),
            worth="" if content.unfinished else worth(content.claims),
            headlines=_headlines(every, content.headlines),
            hero=shown[0] if shown else None,
            shown=shown,
            loose=grouped([view for view in every if view.key not in seen]),
            sources=by_source(every),
            of_arm={row.name: [view for view in every if view.claim.arm == row.name] for row in rows},
            level=f"{100 * LEVEL:.3g} %",
            policy=policy(css, (start, script)),
            css=Markup(css),  # ours, as are the scripts; all that comes from studies and runs is escaped
            start=Markup(start),
            script=Markup(script),
            data=json_inside({"replicas": content.replicas, "figures": drawn}),
        )
    )


def _shown(figure: Figure, kind: str, every: Sequence[View], pictures: Path | None) -> Shown:
    beside = chosen_views(every, figure.claims)
    if isinstance(figure, Agreement):
        labels = {f"{view.claim.id} ({view.claim.arm})": view for view in every}
        if all(label in labels for label in figure.labels):
            beside = [labels[label] for label in figure.labels]
            return Shown(figure, "agreement", beside, grouped(beside), "")
        kind = "picture"  # its rows are something else
    groups = [] if isinstance(figure, Verdicts) else grouped(beside)  # its marks are claims
    picture = "" if pictures is None else _inside(pictures / f"{figure.id}.png")
    return Shown(figure, kind, beside, groups, picture)


def _headlines(every: Sequence[View], wanted: Mapping[str, str]) -> list[tuple[View, str]]:
    """The claims at the top with what was seen: those wanted, then what else is against expectation.

    Without wishes what is against expectation, then theorems before lemmas.
    """
    if wanted:
        chosen = [(view, seen) for key, seen in wanted.items() for view in chosen_views(every, [key])]
        shown = [view for view, _ in chosen]
        loud = [(view, "") for view in every if view.tone == "loud" and view not in shown]
        return chosen + loud[: max(0, _MOST - len(chosen))]
    ranked = sorted((view for _, own in by_source(every) for view in own), key=lambda view: view.tone != "loud")
    first = {view.claim.id: view for view in reversed(ranked)}
    return [(view, "") for view in ranked if first[view.claim.id] is view][:_FEW]


def _inside(png: Path) -> str:
    """The picture at the size of a screen, as a data address."""
    return f"data:image/webp;base64,{b64encode(small(png)).decode()}"
