"""Claims from means of which only the error is known, and the tables that they come in."""

import json
import re
from dataclasses import replace
from math import inf, sqrt
from pathlib import Path

import jaxtyping
import numpy as np
import pytest
from scipy import stats

from featscope.claims import LEVEL, Claim, Summary, not_after_holm, read_table, worth
from featscope.claims.summary import welch
from featscope.claims.table import AGAINST, COLUMNS
from featscope.options import ConfigError

ABOUT = {"id": "gain", "source": "Table 1", "statement": "It gains.", "kind": "ordering", "arm": "a"}


def judged(summary: Summary, relation: str = ">", bound: float = 0.0, **more) -> Claim:
    return Claim.from_summary(summary, relation, bound, **{**ABOUT, **more})


@pytest.mark.parametrize("n", [2, 3, 8])
def test_every_kind_of_error_is_brought_to_the_standard_error_of_the_same_samples(n):
    samples = np.random.default_rng(0).normal(size=n)
    printed = {
        "sample": samples.std(ddof=1),
        "population": samples.std(),
        "mean": stats.sem(samples),
        "population-mean": samples.std() / sqrt(n),
    }
    for kind, error in printed.items():
        assert Summary(0.0, error, n, kind).standard_error == pytest.approx(stats.sem(samples)), kind


def test_without_n_a_standard_error_is_known_only_where_it_is_printed():
    assert Summary(1.0, 0.3, None, "mean").standard_error == 0.3
    with pytest.raises(ConfigError, match=r"Summary\.n = None: allowed is >= 2 where the error is 'sample'"):
        _ = Summary(1.0, 0.3, None, "sample").standard_error


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ((np.nan, 1.0, 3), "mean = nan"),
        ((1.0, -1.0, 3), "error = -1.0"),
        ((1.0, inf, 3), "error = inf"),
        ((1.0, 1.0, 1), "n = 1 is out of range: allowed is >= 2, or None"),
    ],
)
def test_what_no_summary_can_be_is_refused(fields, says):
    with pytest.raises(ConfigError, match=says):
        Summary(*fields)


def test_one_mean_has_the_interval_of_its_samples():
    """Those of 1, 2, 3, 4: t at 99 % with 3 degrees of freedom is 5.8409 (any table)."""
    made = judged(Summary(2.5, np.std([1, 2, 3, 4], ddof=1), 4))
    half = 5.8409 * sqrt(5 / 3) / 2
    assert made.interval == pytest.approx((2.5 - half, 2.5 + half), rel=1e-4)
    of_samples = Claim.from_samples([1.0, 2.0, 3.0, 4.0], ">", 0.0, **ABOUT)
    assert (made.n, made.verdict, made.freedom) == (4, "undecided", None)
    assert made.replicas_needed == of_samples.replicas_needed


def test_a_difference_has_welchs_degrees_of_freedom():
    """By hand: standard errors 3 and 4 of 6 replicas each give 5, with 5⁴ / (3⁴/5 + 4⁴/5) = 625 / 67.4 = 9.27."""
    made = judged(Summary(30.0, 3.0, 6, "mean"), against=Summary(10.0, 4.0, 6, "mean"))
    assert (made.measured, made.error, made.n) == (20.0, 5.0, 12)
    assert made.freedom == pytest.approx(625 / 67.4)
    assert 20 - 3.25 * 5 < made.interval[0] < 20 - 3.169 * 5  # t with 9 and 10, any table: 3.250 and 3.169
    assert made.verdict == "holds"


def test_few_replicas_beside_many_have_no_more_degrees_of_freedom_than_the_few_beside_as_few():
    """Welch's would be 20.4, those of the many, as the two lie together: by chance, where spreads are alike."""
    few, many = Summary(1.0, 0.01, 2), Summary(0.0, 1.0, 20)
    assert stats.ttest_ind_from_stats(1.0, 0.01, 2, 0.0, 1.0, 20, equal_var=False).pvalue < 0.01
    made = judged(few, against=many)
    assert made.freedom == 2
    assert made.verdict == "undecided"
    assert judged(many, "<", against=few).freedom == 2


@pytest.mark.parametrize(("n", "beside", "times"), [(2, 20, 1), (4, 32, 1), (8, 32, 1), (4, 32, 3), (3, 6, 3)])
def test_intervals_of_groups_of_unequal_size_cover(n, beside, times):
    """Of normal replicas, those of the smaller group with ``times`` the spread of the others."""
    rng = np.random.default_rng(0)
    few, many = rng.normal(0, times, (4000, n)), rng.normal(0, 1, (4000, beside))
    missed = 0
    for one, other in zip(few, many, strict=True):
        error, freedom = welch(Summary(0, one.std(ddof=1), n), Summary(0, other.std(ddof=1), beside))
        missed += abs(one.mean() - other.mean()) > stats.t.ppf(0.995, freedom) * error
    assert missed / 4000 < (0.017 if times == 1 else 0.025)


def test_equal_spreads_of_three_and_three_replicas_have_four_degrees_of_freedom():
    """t at 99 % with 4: 4.6041 (any table); the standard error of a difference of two is √2 times that of one."""
    made = judged(Summary(1.0, 0.1, 3, "mean"), against=Summary(0.0, 0.1, 3, "mean"))
    assert made.freedom == pytest.approx(4)
    assert made.interval[0] == pytest.approx(1 - 4.6041 * 0.1 * sqrt(2), abs=1e-5)


def test_the_interval_and_the_p_value_are_those_of_welchs_test():
    rng = np.random.default_rng(1)
    one, other = rng.normal(3.0, 1.0, 5), rng.normal(0.0, 0.3, 9)
    summary, against = (Summary(x.mean(), x.std(ddof=1), x.size) for x in (one, other))
    made, of_scipy = judged(summary, against=against), stats.ttest_ind(one, other, equal_var=False)
    assert made.freedom == pytest.approx(of_scipy.df)
    assert made.interval == pytest.approx(tuple(of_scipy.confidence_interval(LEVEL)))
    assert made.verdict == "holds"
    assert of_scipy.pvalue <= made.p_value <= 1.011 * of_scipy.pvalue


def test_a_loss_fails_and_what_lies_within_the_errors_is_undecided():
    against = Summary(10.0, 0.1, 3, "mean")
    assert judged(Summary(5.0, 0.1, 3, "mean"), against=against).verdict == "fails"
    near = judged(Summary(10.2, 0.1, 3, "mean"), against=against)
    assert near.undecided_because == "The interval has values on both sides of the bound."


def test_replicas_needed_of_a_difference_are_those_of_both_sides_and_decide_it():
    near = Summary(10.2, 0.2, 3), Summary(10.0, 0.2, 3)
    claim = judged(near[0], against=near[1])
    needed = claim.replicas_needed
    wide = sqrt(4 / stats.chi2.ppf(0.2, 4))  # the upper 80 % bound of the spread

    def verdict(each: int) -> str:
        one, other = (replace(side, n=each, error=side.error * wide) for side in near)
        return judged(one, against=other).verdict

    assert claim.verdict == "undecided"
    assert verdict(needed // 2 + 1) == "holds"
    assert verdict(needed // 2 - 2) == "undecided"


def test_replicas_needed_count_degrees_of_freedom_of_the_noisy_side_alone():
    """The other side is as good as exact: twice as many as one mean needs, and a few."""
    alone = judged(Summary(0.5, 0.2, 3)).replicas_needed
    both = judged(Summary(10.5, 0.2, 3), against=Summary(10.0, 0.0002, 3)).replicas_needed
    assert 2 * alone <= both <= 2 * alone + 3


def test_without_n_nothing_is_decided_and_the_reason_is_said():
    sure = Summary(10.0, 0.1, 3, "mean")
    for summary, against in (
        (replace(sure, n=None), None),
        (replace(sure, n=None), Summary(0.0, 0.1, 3, "mean")),
        (sure, Summary(0.0, 0.1, None, "sample")),
    ):
        made = judged(summary, against=against)
        assert (made.verdict, made.n, made.interval, made.replicas_needed) == ("undecided", 0, (-inf, inf), None)
        assert made.undecided_because == "How many replicas it is the mean of is not known."
        assert worth([made]).startswith("How many replicas there were is not known of any of the 1 claims")


def test_an_error_of_zero_decides_nothing():
    zero = Summary(10.0, 0.0, 3)
    for made in (judged(zero), judged(zero, against=Summary(1.0, 0.0, 3))):
        assert made.undecided_because.startswith("The error is 0 as it is given")
        assert made.p_value == 1
    assert made.freedom == 4
    assert judged(zero, against=Summary(1.0, 0.1, 3)).freedom == 2


def test_of_a_difference_either_error_of_zero_is_one():
    one, other = Summary(79.9, 0.0, 3), Summary(78.9, 0.05, 3)
    for made in (judged(one, against=other), judged(other, against=one)):
        assert (made.error, made.verdict, made.replicas_needed, made.p_value) == (0.0, "undecided", None, 1.0)
    assert judged(replace(one, error=0.05), against=other).verdict == "holds"


def test_json_keeps_degrees_of_freedom_and_verdict():
    for n in (3, None):
        made = judged(Summary(30.0, 3.0, n, "mean"), against=Summary(0.0, 4.0, 6, "mean"))
        back = Claim.from_json(json.loads(json.dumps(made.to_json(), allow_nan=False)))
        assert back == made
        assert (back.p_value, back.interval) == (made.p_value, made.interval)


def test_holm_takes_published_gains_together():
    """p = .0025, .0061, .0061: all below .01, the least of them above .01/4."""
    gains = [judged(Summary(gain, 1.0, 3), id=str(gain), against=Summary(0.0, 1.0, 3)) for gain in (5.5, 4.4, 4.41)]
    assert [claim.verdict for claim in gains] == ["holds"] * 3
    assert not_after_holm(gains[:1]) == []
    assert not_after_holm([*gains, judged(Summary(0.0, 1.0, 3), against=Summary(0.0, 1.0, 3))]) == [
        gains[0],
        gains[2],
        gains[1],
    ]


HEAD = ",".join([*COLUMNS, *AGAINST])
LINE = "gain,Table 1,it gains,images,84.92,0.67,3,sample,>,0,79.25,1.03,4"


def table(tmp_path, *lines: str, head: str = HEAD):
    path = tmp_path / "table.csv"
    path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    return path


def test_a_table_is_read_with_comments_at_its_top_and_columns_in_any_order(tmp_path):
    path = tmp_path / "table.csv"
    head = ",".join(reversed(HEAD.split(",")))
    lines = [
        "# from a paper",
        "",
        "#",
        head,
        ",".join(reversed(LINE.split(","))),
        "",
        ',,,-1,<=,mean,, .5 , 2,"a, b",it,,x',
    ]
    path.write_text("\ufeff" + "\r\n".join(lines), encoding="utf-8")
    one, other = read_table(path)
    assert (one.id, one.source, one.statement, one.arm) == ("gain", "Table 1", "it gains", "images")
    assert (one.summary, one.against) == (Summary(84.92, 0.67, 3), Summary(79.25, 1.03, 4))
    assert (one.relation, one.bound) == (">", 0.0)
    assert (other.summary, other.against, other.arm) == (Summary(2.0, 0.5, None, "mean"), None, "a, b")
    assert (other.relation, other.bound) == ("<=", -1.0)
    assert (one.claim.kind, other.claim.kind) == ("ordering", "bound")
    assert one.claim.measured == pytest.approx(5.67)
    assert one.claim.n == 7


def test_other_ends_of_lines_stand_in_a_cell(tmp_path):
    (row,) = read_table(table(tmp_path, LINE.replace("it gains", "it\x0cgains\u2028much")))
    assert row.statement == "it\x0cgains\u2028much"


def test_what_is_no_file_is_refused():
    with pytest.raises(ConfigError, match="/dev/zero is no file"):
        read_table(Path("/dev/zero"))


def test_columns_of_comparisons_may_be_missing_all_together(tmp_path):
    (row,) = read_table(table(tmp_path, LINE.rsplit(",", 3)[0], head=",".join(COLUMNS)))
    assert row.against is None


def test_a_row_may_be_read_otherwise(tmp_path):
    (row,) = read_table(table(tmp_path, LINE))
    other = row.read_as(n=5, error_is="mean")
    assert (other.summary, other.against) == (Summary(84.92, 0.67, 5, "mean"), Summary(79.25, 1.03, 5, "mean"))
    assert row.read_as() == row


def test_runs_needed_are_the_fewest_that_decide_where_n_is_not_known(tmp_path):
    (row,) = read_table(table(tmp_path, LINE.replace(",3,", ",,").removesuffix("4")))
    each = row.runs_needed // 2
    assert row.claim.verdict == "undecided"
    assert row.read_as(n=each).claim.verdict == "holds"
    assert row.read_as(n=each - 1).claim.verdict == "undecided"
    (alike,) = read_table(table(tmp_path, "gain,,it,,1,0.1,,sample,>,0,1,0.1,"))
    assert alike.runs_needed is None


@pytest.mark.parametrize(
    ("typed", "instead", "says"),
    [
        (
            "84.92",
            "84.92 ± 1",
            "line 2, column mean = '84.92 ± 1' is no number: allowed is a finite number.*two columns",
        ),
        ("84.92", "", "line 2, column mean = '' is blank"),
        ("84.92", "nan", "line 2, column mean = 'nan' is no number"),
        ("84.92", "8_4", "line 2, column mean = '8_4' is no number"),
        ("84.92", "1e999", "line 2, column mean = '1e999' is no number"),
        ("0.67", "", "line 2, column error = '' is blank: .* leave the line out"),
        ("0.67", "-0.67", "line 2, column error = '-0.67' is out of range: allowed is >= 0. .*drop the sign"),
        (",3,", ",1,", "line 2, column n = '1' is out of range: allowed is a whole number >= 2, or blank"),
        (",3,", ",2.5,", "line 2, column n = '2.5' is out of range"),
        (
            "sample",
            "std",
            "line 2, column error_is = 'std' is no kind of error: allowed is sample, population, mean, pop",
        ),
        (">", "=", "line 2, column relation = '=' is no relation: allowed is <=, >=, <, >. .*two bounds"),
        (",0,", ",,", "line 2, column bound = '' is blank"),
        (",1.03,", ",,", "line 2, column against_error = '' is blank"),
        ("79.25,1.03", ",", "line 2, column against_mean = '' is blank"),
        (",4", ",0", "line 2, column against_n = '0' is out of range"),
        ("gain,", ",", "line 2, column id = '' is blank: allowed is short name"),
        ("it gains", " ", "line 2, column statement = '' is blank"),
        ("84.92", "84,92", "line 2 has 14 cells: allowed is 13, one a column. .*decimals have a point"),
        ("it gains", '"it gains', "line 2 is no CSV .*check its quotes"),
    ],
)
def test_a_wrong_cell_is_named_with_its_line_and_what_is_allowed(tmp_path, typed, instead, says):
    assert LINE.count(typed) == 1 or typed in (",0,", "gain,", ",4")
    path = table(
        tmp_path,
        LINE[::-1].replace(typed[::-1], instead[::-1], 1)[::-1] if typed == ",4" else LINE.replace(typed, instead, 1),
    )
    with pytest.raises(ConfigError) as refused:
        read_table(path)
    assert str(refused.value).startswith(f"{path}, line ")
    assert re.search(says, str(refused.value)), refused.value


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (HEAD.replace("mean,", "average,", 1), "line 1: column 'average' is unknown: allowed is id, source, statement"),
        (HEAD.replace("bound,", "", 1), "line 1: column 'bound' is missing (the bound): allowed is id, source"),
        (HEAD.replace(",against_n", ""), "line 1: column 'against_n' is missing"),
        (HEAD.replace("arm", "id", 1), "line 1: column 'id' stands there twice: allowed is once"),
        (HEAD.replace(",", ";"), "line 1: column 'id;source;"),
    ],
)
def test_wrong_columns_are_named(tmp_path, head, says):
    with pytest.raises(ConfigError, match=re.escape(says)):
        read_table(table(tmp_path, LINE, head=head))


def test_a_name_is_given_once(tmp_path):
    other = LINE.replace("images", "texts")
    with pytest.raises(
        ConfigError, match=r"line 4, column id = 'gain' stands in line 2, with the same arm: .*Change id"
    ):
        read_table(table(tmp_path, LINE, other, LINE))


def test_what_is_no_table_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"nothing\.csv cannot be read"):
        read_table(tmp_path / "nothing.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"bytes\.csv is not UTF-8 text"):
        read_table(tmp_path / "bytes.csv")
    for empty in ("", "# only words\n", HEAD + "\n"):
        (tmp_path / "empty.csv").write_text(empty)
        with pytest.raises(ConfigError, match=r"empty\.csv has no rows"):
            read_table(tmp_path / "empty.csv")


@pytest.mark.parametrize(
    ("relation", "tolerance", "said"),
    [
        ("=", -1.0, "the tolerance = -1 is out of range: allowed is >= 0"),
        ("==", 0.0, "relation = '==' is unknown: allowed is one of =, <=, >=, <, >"),
        ("≤", 0.0, "relation = '≤' is unknown"),
    ],
)
def test_what_no_claim_can_be_is_refused_of_means_as_of_samples(relation, tolerance, said, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which refuses some first, in tests alone
    with pytest.raises(ValueError, match=said):
        Claim.from_summary(Summary(1.0, 0.1, 5), relation, 1.0, tolerance, **ABOUT)
    with pytest.raises(ValueError, match=said):
        Claim.from_samples([1.0, 1.0, 2.0], relation, 1.0, tolerance, **ABOUT)
