"""Whether what is foretold of trained ladders comes true: windows of six sizes in ladders of more.

python -m benchmarks.trends.trained DIR...    the folders of finished `featscope trend` runs
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.marked import DOCS, fill
from benchmarks.trends.tally import FACTORS
from featscope.claims import Claim
from featscope.claims.intervals import PROBABILITIES
from featscope.registry import find
from featscope.runs.plain import from_plain
from featscope.runs.stored import read_claims, read_plan, read_trends
from featscope.studies.scaling import ScalingStudy
from featscope.trends import ClaimTrend, trend_of
from featscope.trends.trend import FEWEST_SIZES, LEVEL

NAME = "python -m benchmarks.trends.trained"
DRAWS = 4000
HEAD = "| ladder | factor | pairs | right | wrong | undecided | silent | covered |\n|" + " --- |" * 8


@dataclass
class Count:
    """What was foretold of a factor, and what came of it.

    Attributes:
        pairs: claims and windows whose verdict at the larger size is decided.
        measured: claims and windows; of these intervals are counted.
        covered: how often the mean measured there is in the interval foretold, widened by that mean's own error.
    """

    pairs: int = 0
    right: int = 0
    wrong: int = 0
    silent: int = 0
    measured: int = 0
    covered: int = 0
    missed: list[str] = field(default_factory=list)

    def row(self, label: str, factor: int) -> str:
        """A line of the table."""
        undecided = self.pairs - self.right - self.wrong
        counts = f"{self.pairs} | {self.right} | {self.wrong} | {undecided} | {self.silent}"
        return f"| {label} | {factor} | {counts} | {self.covered} of {self.measured} |"


def windows(folder: Path) -> Iterator[tuple[str, ClaimTrend, ClaimTrend]]:
    """Key, the claim on six sizes, and the same claim on all of them."""
    plan = read_plan(folder)
    find(plan["study"])  # loads the classes of its config
    study: ScalingStudy = from_plain(plan["config"])
    for key, whole in study.trends(read_claims(folder)).items():
        name, _, arm = key.partition("@")
        bears = study.ladder.bears(name, arm)
        assert bears is not None
        for first in range(len(whole.sizes) - FEWEST_SIZES):
            part = slice(first, first + FEWEST_SIZES)
            yield key, trend_of(whole.claims[part], whole.sizes[part], bears), whole


def tallies(folder: Path) -> dict[int, Count]:
    """What was foretold of each factor."""
    counts = {factor: Count() for factor in FACTORS}
    rng = np.random.default_rng(0)
    for key, window, whole in windows(folder):
        for factor, count in counts.items():
            larger = factor * window.sizes[-1]
            if larger not in whole.sizes or window.trend is None:
                continue
            place = whole.sizes.index(larger)
            claim, samples = whole.claims[place], whole.samples[place]
            samples = samples[np.isfinite(samples)]
            if len(samples) < 1:
                continue
            said = window.trend.at(factor)
            wrong = claim.verdict != "undecided" and said.verdict not in (claim.verdict, "undecided")
            if claim.verdict != "undecided":
                count.pairs += 1
                count.silent += bool(window.silent)
                count.right += said.verdict == claim.verdict
                count.wrong += wrong
            if window.silent:
                continue
            nearest = int(np.abs(np.log(window.trend.sizes / larger)).argmin())
            error = _error(claim, samples)
            drawn = window.trend.curves[:, nearest] + error * rng.standard_normal(len(window.trend.curves))
            low, high = np.quantile(drawn, [1 - LEVEL, LEVEL])
            count.measured += 1
            hit = low <= samples.mean() <= high
            count.covered += bool(hit)
            if wrong or not hit:
                count.missed.append(
                    f"{key} N={window.sizes[-1]:g}: {said}, measured {samples.mean():.4g} ± {error:.2g}"
                )
    return counts


def _error(claim: Claim, samples: np.ndarray) -> float:
    """Of the mean; of a share at least that of so many things, of which one more may be so and one not (Laplace)."""
    error = float(samples.std(ddof=1)) / len(samples) ** 0.5 if len(samples) > 1 else 0.0
    if claim.law not in PROBABILITIES:
        return error
    things = sum(claim.trials) or len(samples)
    near = (samples.mean() * things + 1) / (things + 2)
    return max(error, float(near * (1 - near) / things) ** 0.5)


def main() -> None:
    """Make the table, print it and what was missed, and put it into the page."""
    lines = [HEAD]
    for folder in map(Path, sys.argv[1:]):
        about, seed = read_trends(folder), read_plan(folder)["seed"]
        sizes = about["sizes"]
        label = f"`{about['study']}` over {about['symbol']}, {sizes[0]:g} to {sizes[-1]:g}, seed {seed}"
        for factor, count in tallies(folder).items():
            lines.append(count.row(label, factor))
            print("\n".join(count.missed))
    table = "\n".join(lines)
    print(table)
    fill(DOCS / "trends.md", {NAME: table})


if __name__ == "__main__":
    main()
