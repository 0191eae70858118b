"""What ways of reading gave: shares of right answers with intervals, which of them to take, and a picture."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from rich.markup import escape
from rich.table import Table

from featscope.claims.intervals import interval_of_binomial, interval_of_share
from featscope.files import atomic_write
from featscope.language.examples import Example

_LEVEL, _ROUNDING = 0.95, 1e-9


class Answered(NamedTuple):
    """What a way of reading made of an example.

    Attributes:
        said: what it generated.
        share: of the answers that are in it.
        document: number of what is read; examples with one number may be right or wrong together.
    """

    said: str
    share: float
    document: int

    @property
    def right(self) -> bool:
        """Whether all of the answers are."""
        return self.share == 1


class Tried(NamedTuple):
    """One way of reading, measured.

    Attributes:
        method: its name.
        layer: that chooses, if one does.
        keep: how much is kept.
        first: seconds to the first new token, end to end, median over examples; a document that is read once for
            several questions counts for each with its share.
        last: seconds to the last.
        answers: what it answered to each example.
        lasts: seconds to the last token of each example, where they are known.
    """

    method: str
    layer: int | None
    keep: float | None
    first: float
    last: float
    answers: tuple[Answered, ...]
    lasts: tuple[float, ...] = ()

    @property
    def of(self) -> int:
        """Examples."""
        return len(self.answers)

    @property
    def right(self) -> int:
        """Examples that it answers right."""
        return sum(answer.right for answer in self.answers)

    @property
    def share(self) -> float:
        """Of right answers."""
        return self.right / self.of

    @property
    def parts(self) -> float:
        """Share of an example's answers that is given, mean over examples."""
        return sum(answer.share for answer in self.answers) / self.of

    def of_task(self, examples: Sequence[Example], task: str) -> "Tried":
        """The same of the examples of a task; seconds stay those of all."""
        found = zip(self.answers, examples, strict=True)
        return self._replace(answers=tuple(answer for answer, one in found if one.task == task))

    @property
    def prompts(self) -> str:
        """How many examples, and on how many documents where several are on one, in words."""
        documents = len({answer.document for answer in self.answers})
        return f"{self.of} prompts" + (f" on {documents} documents" if documents < self.of else "")

    @property
    def interval(self) -> tuple[float, float]:
        """Of that share, at 95 %; see `counted`."""
        return self.counted([answer.right for answer in self.answers])

    def counted(self, so: Sequence[bool]) -> tuple[float, float]:
        """Interval of the share of examples that are ``so``, at 95 %.

        It is Clopper and Pearson's, and where a document has several questions that of shares of documents.
        """
        questions = Counter(answer.document for answer in self.answers)
        if len(questions) == self.of:
            return interval_of_binomial(sum(so), self.of, _LEVEL)
        found = Counter(answer.document for answer, one in zip(self.answers, so, strict=True) if one)
        trials = np.array([*questions.values()], dtype=float)
        return interval_of_share(np.array([found[of] for of in questions]) / trials, trials, _LEVEL)

    def about(self) -> str:
        """Which way of reading, in words."""
        layer = "" if self.layer is None else f", layer {self.layer}"
        return self.method + layer + ("" if self.keep is None else f", keep {self.keep:g}")

    def cells(self) -> tuple[str, str]:
        """Of tables: the share of right answers with its interval, and that of parts."""
        low, high = self.interval
        return f"{self.share:.2f} [{low:.2f}, {high:.2f}]", f"{self.parts:.2f}"


def advice(tried: Sequence[Tried], give_up: float) -> str:
    """Which way to take, in a sentence: of those right as often as full attention, less ``give_up``, the fastest."""
    full, *others = tried
    good = [way for way in others if way.right and full.right - way.right <= give_up * full.of + _ROUNDING]
    best = min(good, key=lambda way: way.last, default=None)
    if full.right == 0:
        return _without_full(others)
    if len(tried) == 1:
        return "Full attention: there is no other way to compare it with."
    if best is None:
        return f"Full attention: every other way is right less often by more than {give_up:.0%}, or never."
    first, last = (f"{ratio:.2f}" for ratio in (best.first / full.first, best.last / full.last))
    if best.last >= full.last:
        ratios = f"{first} of its time to the first token and {last} of that to the last"
        said = f"Full attention is cheaper: the fastest that is as good, {best.about()}, takes {ratios}."
        begins = min(good, key=lambda way: way.first)
        if begins.first < full.first:
            said += f" The first token of {begins.about()} comes after {begins.first / full.first:.2f} of its time."
        return said + _may_be_chance(full, best, len(good))
    low, high = best.interval
    lost = [one.right and not other.right for one, other in zip(full.answers, best.answers, strict=True)]
    least, most = full.counted(lost)
    limit = f"--give-up {give_up:.0%}"
    few = f": too few prompts to tell whether it is more than {limit}" if least <= give_up < most else ""
    few = few or (f", more than {limit}; others that it gains make up for them" if least > give_up else "")
    return (
        f"{best.about()}: right {best.share:.0%} of the time ({low:.0%} to {high:.0%} at 95 %, full attention "
        f"{full.share:.0%}), its first token after {first} of full attention's time, its last after {last}. Of "
        f"{full.prompts} it loses {sum(lost)} that full attention answers, and may lose up to {most:.0%} (at 95 %)"
        f"{few}.{_may_be_chance(full, best, len(good))}"
    )


def _may_be_chance(full: Tried, best: Tried, ways: int) -> str:
    """That examples do not tell which of two ways has its last token first as medians do: a sign test.

    ``best`` is the fastest by the medians of as many ``ways``, so that the test may err the less (Bonferroni).
    Questions on one document count once, with all of their seconds: they share those in which it is read.
    """
    if not full.lasts:
        return ""
    saved = dict.fromkeys((answer.document for answer in full.answers), 0.0)
    for answer, one, other in zip(full.answers, full.lasts, best.lasts, strict=True):
        saved[answer.document] += one - other
    earlier = sum(seconds > 0 for seconds in saved.values())
    low, high = interval_of_binomial(earlier, len(saved), 1 - (1 - _LEVEL) / ways)
    of = f"{len(saved)} {'prompts' if len(saved) == full.of else 'documents'}"
    said = f" The last token of {best.about()} is earlier than full attention's in {earlier} of {of}"
    if low <= 0.5 <= high:
        tests = "at 95 %" if ways == 1 else f"at 95 %, of {ways} ways"
        return f"{said}: which of them is earlier may be chance ({tests})."
    return "" if (low > 0.5) == (best.last < full.last) else f"{said}, though medians are the other way round."


def _without_full(others: Sequence[Tried]) -> str:
    """What there is to say where full attention is never right: another way may be, beyond what the model can read."""
    best = max(others, key=lambda way: (way.right, -way.last), default=None)
    if best is None or not best.right:
        return "Full attention answers no example right: the model cannot do this task, and no method is advised."
    low, high = best.interval
    return (
        f"Full attention answers no example right, and {best.about()} does {best.share:.0%} ({low:.0%} to {high:.0%} "
        "at 95 %), most of all ways. Prompts may be longer than any it was trained on: look at its answers first."
    )


def picture(tried: Sequence[Tried]) -> Figure:
    """Share of right answers, with intervals, against times to the first and the last token in full attention's."""
    figure = Figure(figsize=(11, 5), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    full = tried[0]
    for colour, method in enumerate(dict.fromkeys(way.method for way in tried)):
        ways = [way for way in tried if way.method == method]
        bars = [[way.share - way.interval[0] for way in ways], [way.interval[1] - way.share for way in ways]]
        ratios = [way.first / full.first for way in ways], [way.last / full.last for way in ways]
        for axes, at in zip(panels, ratios, strict=True):
            axes.errorbar(at, [way.share for way in ways], bars, fmt="o", color=f"C{colour}", label=method, alpha=0.7)
    for axes, token in zip(panels, ("first", "last"), strict=True):
        axes.axvline(1.0, color="black", linestyle=":")
        axes.set(xlabel=f"time to the {token} token, in full attention's", ylim=(-0.02, 1.02))
    panels[0].set_ylabel("share of right answers, 95 % intervals")
    figure.suptitle(f"{full.prompts}; right of the dotted lines full attention is earlier")
    of = panels[0].get_legend_handles_labels()
    figure.legend(*of, loc="outside lower center", ncols=4)  # where it hides no point
    return figure


def store_answers(path: Path, tried: Sequence[Tried], examples: Sequence[Example], *, redact: bool) -> None:
    """Write what each way answered to each example, a JSON line each, whole or not at all.

    Args:
        path: the file.
        tried: the ways.
        examples: what they were asked.
        redact: whether texts are left out; which example, which way and how much of it was right remain.
    """
    lines = list[str]()
    for number, one in enumerate(examples, 1):
        for way in tried:
            found = way.answers[number - 1]
            known = {"example": number, "task": one.task, "way": way.about()}
            known |= {"right": found.right, "share": found.share}
            texts = {} if redact else {"said": found.said, "wanted": list(one.answers), "prompt": one.prompt}
            lines.append(json.dumps(known | texts, ensure_ascii=False))
    atomic_write(path, "".join(f"{line}\n" for line in lines).encode())


def of_all(tried: Sequence[Tried]) -> Table:
    """What every way of reading answers of all prompts, and its seconds beside those of the first way."""
    table = Table(title=f"{tried[0].prompts}, 95 % intervals")
    for heading in ("way of reading", "right", "parts", "first token", "of full", "last token", "of full"):
        table.add_column(heading, justify="right", overflow="fold")  # a name that is cut may be another's
    for way in tried:
        table.add_row(
            escape(way.about()),
            *way.cells(),
            f"{way.first:.2f} s",
            f"{way.first / tried[0].first:.2f}",
            f"{way.last:.2f} s",
            f"{way.last / tried[0].last:.2f}",
        )
    return table


def by_task(tried: Sequence[Tried], examples: Sequence[Example], tasks: Sequence[str]) -> Table:
    """What every way of reading answers of each task."""
    table = Table(title="right answers by task, 95 % intervals")
    for heading in ("task", "prompts", "way of reading", "right", "parts"):
        table.add_column(heading, justify="right", overflow="fold")
    for task in tasks:
        for way in (one.of_task(examples, task) for one in tried):
            table.add_row(escape(task), str(way.of), escape(way.about()), *way.cells())
        table.add_section()
    return table
