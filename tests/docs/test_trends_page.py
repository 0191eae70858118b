"""The tables of the page on trends are made by commands, and say what is promised."""

import re
from pathlib import Path

import numpy as np
from benchmarks.trends.__main__ import SIZES, FastAndSlow, all_laws
from benchmarks.trends.laws import CLIFFS, LAWS, SHARES
from benchmarks.trends.one_law import one_law
from benchmarks.trends.tally import Tally, near, replicas_of, typical

PAGE = Path(__file__).parents[2] / "docs" / "trends.md"


def share(cell: str) -> float:
    return float(cell.removesuffix(" %"))


def test_the_table_keeps_what_the_page_promises():
    rows = re.findall(r"^\| (all laws|one law): ([^|]+?) \| (.*) \|$", PAGE.read_text(), re.M)
    found = {(method, kind): cells.split(" | ") for method, kind, cells in rows}
    mine = found["all laws", "typical bounds"], found["all laws", "bounds near the curve"]
    for cells in mine:
        assert int(cells[0].replace(",", "")) >= 200
        assert share(cells[2]) <= 2
        assert share(cells[5]) <= 3
        assert min(share(cells[7]), share(cells[8])) >= 85  # of 90
    assert share(mine[0][1]) >= 85
    planted = found["all laws", "slow terms behind fast ones"]
    pairs, false = int(planted[0].replace(",", "")), int(planted[9].partition(" of ")[0])
    assert pairs >= 900
    assert false <= 0.01 * pairs


def test_trained_ladders_keep_what_the_page_promises():
    rows = re.findall(
        r"^\| `[a-z-]+` over [^|]+ \| (?:4|16) \| ([\d |]+) \| (\d+) of (\d+) \|$", PAGE.read_text(), re.M
    )
    pairs, _, wrong, *_ = np.array([list(map(int, counts.split(" | "))) for counts, *_ in rows]).sum(axis=0)
    covered, measured = np.array([list(map(int, ends)) for _, *ends in rows]).sum(axis=0)
    assert pairs >= 30
    assert wrong <= 0.03 * pairs
    assert covered >= 0.85 * measured


def test_laws_are_smooth_and_finite_wherever_they_are_asked():
    sizes = 8.0 * 2 ** np.linspace(0, 17, 60)
    for law in (*LAWS.values(), *CLIFFS.values(), *SHARES.values()):
        assert np.isfinite(law(sizes)).all()
    for law in (*CLIFFS.values(), *SHARES.values()):
        assert law(sizes).min() >= 0
        assert law(sizes).max() <= 1


def test_a_planted_term_turns_where_it_says():
    law = FastAndSlow(0.7, 4.0, 1.0, 0.0)
    around = law(SIZES[-1] * np.array([3.9, 4.0, 4.1]))
    assert around.argmin() == 1


def test_bounds_near_the_curve_are_crossed_and_typical_ones_are_a_factor_away():
    rng, law = np.random.default_rng(0), LAWS["mean cosine of random directions"]
    for _ in range(20):
        assert law(np.array(32 * 64.0)) <= near(law, 64.0, rng) <= law(np.array(2 * 64.0))
        assert 1.2 < abs(np.exp(abs(np.log(typical(law, 64.0, rng) / law(np.array(64.0)))))) < 2.01


def test_a_tally_counts_right_wrong_and_undecided():
    law, rng = LAWS["N-th harmonic number"], np.random.default_rng(0)
    for method in (all_laws, one_law):
        trend = method(SIZES, replicas_of(law(SIZES), law(SIZES), rng))
        tally, middle = Tally(), np.median(trend.curves, axis=0)
        tally.add(trend, middle)
        tally.add(trend, middle - 1e6)
        assert tally.pairs == 2
        assert (tally.right[4], tally.wrong[4]) == (1, 1)
        assert tally.covered[4] == 1
