"""What the pages say of runs at defaults is so, with --long: studies of minutes are run again.

Trials at other sizes cannot say this: ten claims of one study had no number at its defaults, and at no other size.
"""

import runpy
from pathlib import Path

import pytest

from featscope.registry import find
from featscope.testing import Trial

DOCS = Path(__file__).parents[2] / "docs"
STUDIES = (
    "icl-parity",
    "icl-regression",
    "imbalance",
    "looped-transformer",
    "multi-index",
    "nuclear-norm",
    "prediction-head",
    "pruning",
    "tensor-power",
    "universality",
)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", STUDIES)
def test_verdicts_at_defaults_are_those_of_the_page(name):
    study = find(name)[1]()
    of_page = runpy.run_path(str(DOCS / "verdict_table.py"))["verdicts"]
    page = of_page((DOCS / "studies" / f"{name}.md").read_text(encoding="utf-8"))
    claims = Trial(study, replicas=study.default_replicas).healthy
    expected = {key: claim.verdict + " (not expected to hold)" * (not claim.expected) for key, claim in claims.items()}
    assert page == expected
    assert expected
