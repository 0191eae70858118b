"""`make trends`: the tables of docs/trends.md."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.marked import DOCS, fill
from benchmarks.trends.few import table as of_few
from benchmarks.trends.laws import CLIFFS, LAWS, SHARES, Law
from benchmarks.trends.one_law import one_law
from benchmarks.trends.tally import BOUNDS, HEAD, REPLICAS, Method, Tally, replicas_of
from featscope.trends import Trend, fit_trend

PLANTED = 1200
SEED = 7  # not looked at while the method was made
EACH, TIMES = 2, 3  # bounds of a kind for each ladder; ladders for each law and window
SIZES = 16 * 2.0 ** np.arange(6)  # of planted terms


def all_laws(sizes: np.ndarray, samples: np.ndarray) -> Trend:
    """The method."""
    return fit_trend(sizes, samples, "<=", 0.0)


def held_out(laws: Mapping[str, Law], method: Method, seed: int = SEED) -> dict[str, Tally]:
    """Typical bounds and bounds near the curve, for every law and window."""
    rng = np.random.default_rng(seed)
    tallies = {name: Tally() for name in BOUNDS}
    for law, sizes in windows(laws):
        truth = law(sizes)
        trend = method(sizes, replicas_of(truth, np.abs(truth), rng))
        _add(tallies, trend, law, rng)
    return tallies


def shares(seed: int = SEED) -> dict[str, Tally]:
    """The same for shares of N trials."""
    rng = np.random.default_rng(seed)
    tallies = {f"shares, {name}": Tally() for name in BOUNDS}
    for law, sizes in windows(SHARES):
        trials = sizes.astype(int)
        samples = rng.binomial(trials[:, None], law(sizes)[:, None], (len(sizes), REPLICAS)) / trials[:, None]
        _add(tallies, fit_trend(sizes, samples, "<=", 0.0, trials=trials), law, rng)
    return tallies


def windows(laws: Mapping[str, Law]) -> Iterator[tuple[Law, np.ndarray]]:
    """Each law on ladders of six sizes by factors of two, from six starts, several times."""
    for law in laws.values():
        for start in (8, 16, 32, 64, 128, 256):
            for _ in range(TIMES):
                yield law, start * 2.0 ** np.arange(6)


def _add(tallies: Mapping[str, Tally], trend: Trend, law: Law, rng: np.random.Generator) -> None:
    for tally, kind in zip(tallies.values(), BOUNDS.values(), strict=True):
        for _ in range(EACH):
            bound, relation = kind(law, trend.sizes[0], rng), rng.choice(["<=", ">="])
            tally.add(replace(trend, predicted=bound, relation=relation), law(trend.sizes))


def planted(method: Method, seed: int = SEED) -> Tally:
    """A fast term moves toward the bound and hides a slow one, which leads away from somewhere in N/2 to 8N on."""
    rng, tally = np.random.default_rng(seed), Tally()
    for _ in range(PLANTED):
        law = FastAndSlow(rng.uniform(0.3, 2), 2 ** rng.uniform(-1, 3), rng.choice([-1, 1]), 3 * rng.standard_normal())
        truth = law(SIZES)
        span = np.ptp(truth)
        trend = method(SIZES, replicas_of(truth, np.full(len(SIZES), span), rng))
        bound = float(law(law.turn * SIZES[-1:])[0] - law.sign * rng.uniform(0, 0.3) * span)
        trend = replace(trend, relation="<=" if law.sign > 0 else ">=", predicted=bound)
        tally.add(trend, law(trend.sizes))
    return tally


@dataclass(frozen=True)
class FastAndSlow:
    """A power and a logarithm that turn round at ``turn`` times the largest size; up again if ``sign`` is 1."""

    power: float
    turn: float
    sign: float
    level: float

    def __call__(self, sizes: np.ndarray) -> np.ndarray:
        """The value at ``sizes``."""
        z = sizes / SIZES[-1]
        return self.level + self.sign * (z**-self.power + self.power * self.turn**-self.power * np.log(z))


def table() -> str:
    """The methods beside each other, a line for each kind of pair."""
    lines = [HEAD]
    for name, method in (("all laws", all_laws), ("one law", one_law)):
        lines += [tally.row(f"{name}: {kind}") for kind, tally in held_out(LAWS, method).items()]
        lines.append(planted(method).row(f"{name}: slow terms behind fast ones"))
        lines += [tally.row(f"{name}: cliffs, {kind}") for kind, tally in held_out(CLIFFS, method).items()]
    lines += [tally.row(f"all laws: {kind}") for kind, tally in shares().items()]
    return "\n".join(lines)


def main() -> None:
    """Make the table, print it, and put it into the page."""
    began = time.process_time()
    found = {"make trends": table(), "make trends of few": of_few(SEED)}
    print(*found.values(), f"{time.process_time() - began:.0f} s", sep="\n")
    fill(DOCS / "trends.md", found)


if __name__ == "__main__":
    main()
