"""Where faults may stand, and in which order they are tried."""

from collections import Counter
from itertools import islice

from featscope.testing.mutants import in_turn, plant, sites

SOURCE = """\
from math import pi as pi

LEVEL = 1.0


@dataclass(frozen=True)
class A:
    size: int = 3

    def __post_init__(self) -> None:
        require(self, "size", self.size >= 1, ">= 1")

    def run(self, x: int | None, y=2):
        z: float = x + 5
        if z > 7:
            raise ValueError(f"{z:.3f}" + 4)
        return z - (
            6 * x
        )

    def claim(self):
        return 8
"""


def numbers(lines, judges=()) -> Counter:
    """Lines of ``SOURCE`` in which a number can be changed."""
    return Counter(s.line for s in sites({"m": SOURCE}, {"m": lines}, {"m": judges}) if s.kind == "number")


def test_executed_lines_have_faults_and_defaults_checks_texts_and_claims_have_none():
    every = range(1, SOURCE.count("\n") + 1)
    assert set(numbers(every)) == {3, 13, 14, 18, 22}
    assert set(numbers(every, judges=(21, 22))) == {3, 13, 14, 18}
    assert set(numbers([13, 14, 15])) == {13, 14}


def test_a_statement_over_lines_is_executed_where_one_of_its_lines_is():
    assert set(numbers([17])) == {18}


def test_annotations_have_no_faults():
    assert not [s for s in sites({"m": SOURCE}, {"m": range(30)}, {}) if s.kind == "condition" and s.line == 13]


def test_a_fault_that_says_the_same_is_none():
    again = [plant("x = 1\n", site) for site in sites({"m": "x = 1\n"}, {"m": [1]}, {})]
    assert [mutant.after for mutant in again if mutant] == ["x = 2", "x = 0"]
    assert plant("y = (a)\n", sites({"m": "y = (a) + 0\n"}, {"m": [1]}, {})[0]) is None


def test_the_line_that_changes_is_told():
    (mutant,) = (
        plant(SOURCE, s) for s in sites({"m": SOURCE}, {"m": range(30)}, {}) if (s.kind, s.line) == ("factor", 18)
    )
    assert (mutant.line, mutant.before, mutant.after) == (18, "6 * x", "6 / x")
    assert mutant.key == "m:18: 6 * x -> 6 / x"


def test_the_order_is_that_of_the_seed_and_meets_modules_and_kinds_alike():
    sources = {"small": "y = a + 1\n", "large": "y = a + 1\nz = a * 2 + 3 * b - 4\n" * 20}
    all_lines = {name: range(1, 50) for name in sources}
    found = sites(sources, all_lines, {})
    first, again, other = (list(in_turn(found, seed)) for seed in (0, 0, 1))
    assert [(s.module, s.kind, s.line) for s in first] == [(s.module, s.kind, s.line) for s in again]
    assert first != other
    assert len(first) == len(found)
    some = list(islice(first, 8))
    assert Counter(s.module for s in some) == {"small": 4, "large": 4}
    assert max(Counter(s.kind for s in some).values()) <= 3
