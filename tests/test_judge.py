"""`featscope judge`: what it prints of a table."""

import json
import subprocess
import sys

import pytest

from featscope.claims import LEVEL
from featscope.cli import main

TABLE = """\
# Three runs a side, standard errors.
id,source,statement,arm,mean,error,n,error_is,relation,bound,against_mean,against_error,against_n
sure,Table 1,A beats B,one [b]set[/b],2.0,0.05,3,mean,>,0,1.0,0.05,3
barely,Table 1,A beats B,another,1.35,0.05,3,mean,>,0,1.0,0.05,3
lost,Table 2,A beats B,a third,0.0,0.05,3,mean,>,0,1.0,0.05,3
near,Table 2,A beats B,a fourth,1.1,0.05,3,mean,>,0,1.0,0.05,3
alone,Table 2,C is small,,0.5,0.1,,sample,<=,1,,,
"""


@pytest.fixture
def judge(tmp_path, capfd):
    (tmp_path / "table.csv").write_text(TABLE)

    def called(*options: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["judge", str(tmp_path / "table.csv"), *options])
        out, err = capfd.readouterr()
        assert (ended.value.code, err) == (0, "")
        return out

    return called


def test_words_come_before_identifiers_and_nothing_is_taken_for_markup(judge):
    out = judge()
    lines = {line.split()[-1]: line for line in out.splitlines() if line.split()}
    assert lines["sure"].split()[:5] == ["A", "beats", "B", "one", "[b]set[/b]"]
    verdicts = {id: next(word for word in ("holds", "fails", "undecided") if word in lines[id]) for id in IDS}
    assert verdicts == {"sure": "holds", "barely": "holds", "lost": "fails", "near": "undecided", "alone": "undecided"}


IDS = ("sure", "barely", "lost", "near", "alone")


def test_below_the_table_stands_what_the_verdicts_are_worth(judge):
    """t of `barely` is .35/(.05 √2) = 4.95 with 4 degrees of freedom: p = .0078, above .01 / 3."""
    out = judge()
    assert "Of 5 claims 2 hold, 1 fail, 2 are undecided." in out
    assert "That hold: Table 1, 2 of 2; Table 2, 0 of 3." in out
    assert "Undecided, 1: How many replicas it is the mean of is not known." in out
    assert "Undecided, 1: The interval has values on both sides of the bound." in out
    assert "Chance enters into 5 claims: at most about 0.03 false verdicts are to be expected." in " ".join(out.split())
    assert "Of the 3 that are decided, 1 would not survive Holm's correction for so many." in out
    assert out.endswith("* Not after Holm's correction: A beats B, another.\n")
    (marked,) = [line for line in out.splitlines() if "holds *" in line]
    assert marked.split()[-1] == "barely"


def test_json_has_every_claim_and_what_they_are_worth(judge):
    found = json.loads(judge("--json"))
    claims = {claim["id"]: claim for claim in found["claims"]}
    assert tuple(claims) == IDS
    assert claims["barely"]["p_value"] == pytest.approx(0.0078, abs=1e-4)
    assert [claims[id]["after_holm"] for id in IDS] == [True, False, True, False, False]
    assert claims["alone"]["undecided_because"].startswith("How many replicas")
    assert claims["alone"]["runs_needed"] == 4  # t with 3 is 5.84; 5.84 * .1 / 2 < .5, and 9.92 * .1 / √3 is not
    assert found["not_after_holm"] == 1
    assert found["false_expected"] == pytest.approx(5 * (1 - LEVEL) / 2)
    assert found["worth"].startswith("Chance enters into 5 claims")


def test_the_table_may_be_read_as_if_it_said_otherwise(judge):
    of = {
        claim["id"]: claim
        for claim in json.loads(judge("--json", "--n", "8", "--error-is", "population-mean"))["claims"]
    }
    assert (of["sure"]["n"], of["alone"]["n"]) == (16, 8)
    assert of["sure"]["error"] == pytest.approx(0.05 * (8 / 7) ** 0.5 * 2**0.5)


def test_torch_is_not_needed(tmp_path):
    """In a process of its own, which says what it has imported when it ends."""
    (tmp_path / "table.csv").write_text(TABLE)
    program = f"""
import atexit, sys
atexit.register(lambda: print(*{{"torch", "matplotlib", "transformers"}} & set(sys.modules), file=sys.stderr))
from featscope.cli import main
main(["judge", {str(tmp_path / "table.csv")!r}])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "\n")


def test_what_is_close_to_a_bound_is_told_from_it(tmp_path, capfd):
    row = "a,Table 1,A is small,,12340.6,0.1,5,mean,<=,12340.2,,,"
    (tmp_path / "close.csv").write_text("\n".join([*TABLE.splitlines()[:2], row]))
    with pytest.raises(SystemExit):
        main(["judge", str(tmp_path / "close.csv")])
    out = capfd.readouterr().out
    assert "12340.6" in out
    assert "<= 12340.2" in out
