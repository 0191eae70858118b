"""What ways of reading gave: shares of right answers with intervals, which of them to take, and a picture."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure
from rich.table import Table

from featscope.claims.intervals import interval_of_binomial
from featscope.files import atomic_write
from featscope.language.examples import Example

_LEVEL, _ROUNDING = 0.95, 1e-9


class Answered(NamedTuple):
    """What a way of reading made of an example: what it said, and whether that is right."""

    said: str
    right: bool


class Tried(NamedTuple):
    """One way of reading, measured.

    Attributes:
        method: its name.
        layer: that chooses, if one does.
        keep: how much is kept.
        right: examples that it answers right.
        of: examples.
        first: seconds to the first new token, end to end, median over examples; a document that is read once for
            several questions counts for each with its share.
        last: seconds to the last.
        answers: what it answered to each example.
    """

    method: str
    layer: int | None
    keep: float | None
    right: int
    of: int
    first: float
    last: float
    answers: tuple[Answered, ...] = ()

    @property
    def share(self) -> float:
        """Of right answers."""
        return self.right / self.of

    def of_task(self, examples: Sequence[Example], task: str) -> "Tried":
        """The same of the examples of a task; seconds stay those of all."""
        answers = [answer for answer, one in zip(self.answers, examples, strict=True) if one.task == task]
        return self._replace(right=sum(answer.right for answer in answers), of=len(answers), answers=tuple(answers))

    @property
    def interval(self) -> tuple[float, float]:
        """Clopper and Pearson's, of that share."""
        return interval_of_binomial(self.right, self.of, _LEVEL)

    def about(self) -> str:
        """Which way of reading, in words."""
        layer = "" if self.layer is None else f", layer {self.layer}"
        return self.method + layer + ("" if self.keep is None else f", keep {self.keep:g}")


def fastest(tried: Sequence[Tried], give_up: float) -> Tried | None:
    """The fastest way that is right as often as full attention, the first, less ``give_up``; None if there is none."""
    full, *others = tried
    good = [way for way in others if full.right - way.right <= give_up * full.of + _ROUNDING]
    return min(good, key=lambda way: way.first, default=None)


def advice(tried: Sequence[Tried], give_up: float) -> str:
    """Which way to take, in a sentence."""
    full, best = tried[0], fastest(tried, give_up)
    if full.right == 0:
        return "Full attention answers no example right: the model cannot do this task, and no method is advised."
    if len(tried) == 1:
        return "Full attention: there is no other way to compare it with."
    if best is None:
        return f"Full attention: every other way is right less often by more than {give_up:.0%}."
    if best.first >= full.first:
        ratio = f"{best.first / full.first:.2f} of its time to the first token"
        return f"Full attention is cheaper: the fastest that is as good, {best.about()}, takes {ratio}."
    low, high = best.interval
    return (
        f"{best.about()}: right {best.share:.0%} of the time ({low:.0%} to {high:.0%} at 95 %, full attention "
        f"{full.share:.0%}), its first token after {best.first / full.first:.2f} of full attention's time."
    )


def picture(tried: Sequence[Tried]) -> Figure:
    """Share of right answers, with intervals, against time to the first token in full attention's."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    full = tried[0]
    for colour, method in enumerate(dict.fromkeys(way.method for way in tried)):
        ways = [way for way in tried if way.method == method]
        bars = [[way.share - way.interval[0] for way in ways], [way.interval[1] - way.share for way in ways]]
        at = [way.first / full.first for way in ways]
        axes.errorbar(at, [way.share for way in ways], bars, fmt="o", color=f"C{colour}", label=method, alpha=0.7)
    axes.axvline(1.0, color="black", linestyle=":")
    axes.set(
        xlabel="time to the first token, in full attention's",
        ylabel="share of right answers, 95 % intervals",
        ylim=(-0.02, 1.02),
        title=f"{full.of} prompts; right of the dotted line full attention is cheaper",
    )
    figure.legend(loc="outside lower center", ncols=4)  # where it hides no point
    return figure


def store_answers(path: Path, tried: Sequence[Tried], examples: Sequence[Example], *, redact: bool) -> None:
    """Write what each way answered to each example, a JSON line each, whole or not at all.

    Args:
        path: the file.
        tried: the ways.
        examples: what they were asked.
        redact: whether texts are left out; which example, which way and whether it was right remain.
    """
    lines = list[str]()
    for number, one in enumerate(examples, 1):
        for way in tried:
            found = way.answers[number - 1]
            known = {"example": number, "task": one.task, "way": way.about(), "right": found.right}
            texts = {} if redact else {"said": found.said, "wanted": list(one.answers), "prompt": one.prompt}
            lines.append(json.dumps(known | texts, ensure_ascii=False))
    atomic_write(path, "".join(f"{line}\n" for line in lines).encode())


def by_task(tried: Sequence[Tried], examples: Sequence[Example], tasks: Sequence[str], give_up: float) -> Table:
    """Full attention on each task, and the fastest way that is as good, or the one that is right most often."""
    best = fastest(tried, give_up) or max(tried[1:], key=lambda way: way.share, default=None)
    shown = [tried[0], *([best] if best else [])]
    table = Table(title="right answers by task, 95 % intervals")
    for heading in ("task", "prompts", *(way.about() for way in shown)):
        table.add_column(heading, justify="right")
    for task in tasks:
        found = [way.of_task(examples, task) for way in shown]
        cells = (f"{way.share:.2f} [{way.interval[0]:.2f}, {way.interval[1]:.2f}]" for way in found)
        table.add_row(task, str(found[0].of), *cells)
    return table
