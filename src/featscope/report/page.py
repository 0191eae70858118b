"""The report's page: one HTML file that needs nothing else."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from featscope.claims import Claim
from featscope.figures import Figure
from featscope.report import look
from featscope.report.interactive import drawing
from featscope.report.numbers import chosen
from featscope.report.plots import Drawing, Plot
from featscope.report.typeset import typeset
from featscope.report.verdicts import LEVEL_TEXT, rows, tally
from featscope.runs.files import atomic_write


def write_page(
    path: Path,
    *,
    title: str,
    source: str,
    about: str,
    headline: str,
    claims: Sequence[Claim],
    figures: Sequence[Figure],
    facts: Mapping[str, str],
    controls: frozenset[str] = frozenset(),
) -> None:
    """Write the page, whole or not at all.

    Args:
        path: where to; the folder exists.
        title: what was studied.
        source: the paper.
        about: what was done; an empty line starts a new paragraph.
        headline: what was found, in one sentence.
        claims: the rows of the verdict table, in order; the page has no table if there are none.
        figures: in order; the first stands at the top, below the table.
        facts: name -> value of what one needs to run it again (command, seed, versions, duration).
        controls: names of the arms on which claims must not hold.

    Raises:
        TypeError: a figure is of a type that the report cannot draw.
    """
    environment = Environment(
        loader=PackageLoader("featscope.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"chosen": chosen, "typeset": typeset}
    html = environment.get_template("page.html").render(
        title=title,
        source=source,
        about=[paragraph.strip() for paragraph in about.split("\n\n") if paragraph.strip()],
        headline=headline,
        rows=rows(claims, controls),
        counts=tally(claims, controls),
        level=LEVEL_TEXT,
        figures=[(figure, drawing(figure)) for figure in figures],
        facts=facts,
        swatch=_swatch,
        gradient=_gradient,
        specification=_specification,
        plotly=Markup(get_plotlyjs()),  # written to stand inside a script element
    )
    atomic_write(path, html.encode())


def _specification(shown: Drawing, plot: Plot) -> Markup:
    """The panel's data for the page's script, safe inside a script element."""
    parts = [f'"figure":{plot.plotly}']
    if plot.frames is not None and plot.shape is not None and shown.scale is not None:
        parts += [
            f'"frames":"{plot.frames}"',
            f'"shape":{list(plot.shape)}',
            f'"ends":{[float(shown.scale.low), float(shown.scale.high)]}',
        ]
    text = "{" + ",".join(parts) + "}"
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def _gradient(scale: look.Scale) -> Markup:
    return Markup(f"linear-gradient(to right, {', '.join(scale.colours)})")


def _swatch(entry: look.Swatch) -> Markup:
    """The legend entry's small picture."""
    tone = entry.colour
    dashes = {"line": "", "dash": "6 3", "dashdot": "7 3 2 3", "dot": "2 3"}
    shapes = {
        "area": f'<rect x="6" y="1" width="16" height="12" fill="{tone}"/>',
        "circle": f'<circle cx="14" cy="7" r="4.5" fill="{tone}"/>',
        "circle-open": f'<circle cx="14" cy="7" r="4" fill="none" stroke="{tone}" stroke-width="2"/>',
        "triangle-up": f'<path d="M14 2l5 9H9z" fill="{tone}"/>',
        "square": f'<rect x="9.5" y="2.5" width="9" height="9" fill="{tone}"/>',
        "diamond": f'<path d="M14 1l5 6-5 6-5-6z" fill="{tone}"/>',
        "x": f'<path d="M10 3l8 8m0-8l-8 8" stroke="{tone}" stroke-width="3"/>',
    }
    if entry.shape in dashes:
        pattern = dashes[entry.shape]
        inside = f'<path d="M1 7h26" stroke="{tone}" stroke-width="2.4" stroke-dasharray="{pattern}"/>'
    else:
        inside = shapes[entry.shape]
    return Markup(f'<svg width="28" height="14" viewBox="0 0 28 14" aria-hidden="true">{inside}</svg>')
