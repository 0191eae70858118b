"""Verdict tables of two runs beside each other."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from featscope.claims import Claim
from featscope.runs.folder import RunFolder

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def replicated():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(DOCS), *sys.path])
        spec = importlib.util.spec_from_file_location("replicated", DOCS / "replicated.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def judged(folder: Path, seed: int, means: list[float]) -> str:
    about = {"source": "Lemma 1", "statement": "It is.", "kind": "bound", "title": "It is", "arm": "a"}
    samples = np.random.default_rng(seed).normal(size=(len(means), 8))
    claims = [
        Claim.from_samples(mean + one, ">=", 0.0, id=f"claim-{n}", expected=True, **about)
        for n, (mean, one) in enumerate(zip(means, samples, strict=True))
    ]
    folder.mkdir()
    RunFolder(folder).write_claims("decoupling", seed, 8, {}, claims, {})
    return sys.modules["verdict_table"].table(folder)


def test_verdicts_and_distances_are_counted(replicated, tmp_path):
    one = replicated.rows(judged(tmp_path / "one", 0, [9.0, 0.0, 9.0, 0.0]))
    other = replicated.rows(judged(tmp_path / "other", 1, [9.0, 9.0, -9.0, 0.0]))
    assert [row.verdict for row in one.values()] == ["holds", "undecided", "holds", "undecided"]
    assert replicated.counts(one, other) == [4, 2, 1, 1, 4, 2]


def test_powers_of_ten_and_minus_signs_are_read(replicated):
    line = "| It<br>`tiny`, Lemma 1 | a | less than −0.2 | −1.5×10⁻⁴<br>−2×10⁻⁴ to 1,000 | **fails (not expected)** |"
    row = replicated.rows(line)["tiny", "a"]
    assert row.verdict == "fails"
    assert row.at == pytest.approx((-2e-4, -1.5e-4, 1000.0))


def test_one_in_a_hundred_is_too_far_apart_where_only_chance_differs(replicated):
    rng, far = np.random.default_rng(0), 0
    for _ in range(2000):
        rows = [replicated.Row("holds", (m - 2.576, m, m + 2.576)) for m in rng.normal(size=2)]
        far += replicated.distance(*rows) > 1
    assert 8 <= far <= 34
