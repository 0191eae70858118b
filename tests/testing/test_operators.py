"""Kinds of faults: each is found where it can be planted, and is what its kind says."""

import pytest

from featscope.testing.mutants import plant, sites

PLANTED = [
    ("sign", "y = a + b", {"y = a - b"}),
    ("sign", "y = -a", {"y = a"}),
    ("factor", "y = a * b", {"y = a / b"}),
    ("factor", "y = a ** n", {"y = a * n"}),
    ("number", "y = x[0]", {"y = x[ 1]", "y = x[ -1]"}),
    ("comparison", "y = a < b", {"y = a <= b", "y = a >= b"}),
    ("condition", "y = a if not b else c", {"y = a if not not b else c", "y = a if  b else c"}),
    ("condition", "y = a & ~b", {"y = a | ~b", "y = a & b"}),
    ("condition", "y = f(x, keep=True)", {"y = f(x, keep=False)"}),
    ("loop", "for x in y: f(x)", {"for x in []: f(x)"}),
    ("dropped", "y = a + b", {"y = a", "y = b"}),
    ("dropped", "y = a - b + c", {"y = a + c", "y = a - b"}),
    ("dropped", "y = a / b", {"y = a"}),
    ("dropped", "y = a @ b", set()),
    ("dropped", "y = 'a' + b", set()),
    ("dropped", "y = x.detach().mean(0)", {"y = x.mean(0)"}),
    ("dropped", "total += x", {"pass"}),
    ("dropped", "self.head.zero_()", {"pass"}),
    ("dropped", "super().__init__()", set()),
    ("stream", "y = streams.at('batch', step)", {"y = streams.at('batch', 0)"}),
    (
        "stream",
        "y = s.at('batch'), s.at('test')",
        {"y = s.at(\"test\"), s.at('test')", "y = s.at('batch'), s.at(\"batch\")"},
    ),
    ("stream", "y = table.at(3)", set()),
]


def found(kind: str, source: str) -> set[str]:
    """What lines a fault of ``kind`` makes of the last line of ``source``."""
    lines = range(1, source.count("\n") + 2)
    made = [plant(source, site) for site in sites({"m": source}, {"m": lines}, {}) if site.kind == kind]
    return {mutant.after for mutant in made if mutant is not None}


@pytest.mark.parametrize(("kind", "line", "after"), PLANTED, ids=[f"{kind}: {line}" for kind, line, _ in PLANTED])
def test_a_fault_is_found_and_planted(kind, line, after):
    assert found(kind, line + "\n") == after


OPTIONS = "class A:\n    size: int = 3\n    name: str = 'a'\n    other: list = make()\n\n    def f(self):\n        "


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("return self.size * 2", {"return (3) * 2"}),
        ("return config.name.upper()", {"return ('a').upper()"}),
        ("self.size = 4", set()),
        ("return self.other", set()),
        ("return self.size()", set()),
        ("return source.size", set()),
        ("return options.size", {"return (3)"}),
    ],
)
def test_an_option_is_ignored_where_it_is_read(line, after):
    assert found("option", OPTIONS + line + "\n") == after


def test_an_option_with_two_defaults_is_left_alone():
    assert found("option", "class B:\n    size: int = 4\n\n" + OPTIONS + "return self.size\n") == set()
