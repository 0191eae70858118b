"""LongBench's metrics against cases worked by hand."""

import runpy
import sys

import pytest

from featscope.language.longbench import TASKS, metrics
from featscope.language.longbench.metrics import (
    classification_score,
    count_score,
    exact,
    normalised,
    points,
    qa_f1,
    retrieval_score,
    rouge_l,
)
from featscope.options import ConfigError, MissingExtraError


def test_words_are_lower_case_without_punctuation_and_articles():
    assert normalised('The Cat, an "old"  one; and a U.S. theatre.') == ["cat", "old", "one", "and", "us", "theatre"]


@pytest.mark.parametrize(
    ("answer", "right", "f1"),
    [
        ("The captain.", "captain", 1.0),
        ("old captain came", "the captain", 0.5),  # precision 1/3, recall 1
        ("red red blue", "red red red green", 4 / 7),  # two shared: precision 2/3, recall 2/4
        ("Monday", "Tuesday", 0.0),
        ("", "captain", 0.0),
        ("the", "a", 0.0),
    ],
)
def test_f1(answer, right, f1):
    assert qa_f1(answer, right) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("answer", "right", "f"),
    [
        ("red green blue", "red green blue", 1.0),
        ("red green blue", "red blue green yellow", 4 / 7),  # longest common subsequence 2: precision 2/3, recall 2/4
        ("blue red", "red blue", 0.5),  # order counts: a subsequence of 1 of 2
        ("red", "green", 0.0),
        ("", "green", 0.0),
        ("...", "green", 0.0),
    ],
)
def test_rouge_l(answer, right, f):
    assert rouge_l(answer, right) == pytest.approx(f, abs=1e-6)


CLASSES = ("Date", "City", "Other location", "location", "Mountain")


@pytest.mark.parametrize(
    ("answer", "right", "score"),
    [
        ("Date", "Date", 1.0),
        ("It is a Date or a City", "City", 0.5),
        ("Date, City or Mountain", "Date", 1 / 3),
        ("City", "Date", 0.0),
        ("", "Date", 0.0),
        ("date", "Date", 0.0),  # as it is written
        ("Other location", "Other location", 1.0),  # 'location' is a part of the right one
        ("Other location", "location", 0.5),
    ],
)
def test_classification(answer, right, score):
    assert classification_score(answer, right, CLASSES) == pytest.approx(score)


@pytest.mark.parametrize(
    ("answer", "score"), [("7", 1.0), ("7 of 17", 0.5), ("seven", 0.0), ("17", 0.0), ("7, 7 and 3.", 2 / 3), ("", 0.0)]
)
def test_count_and_retrieval(answer, score):
    assert count_score(answer, "7") == pytest.approx(score)
    assert retrieval_score(answer, "Paragraph 7") == pytest.approx(score)


def test_a_right_answer_without_a_paragraph_is_refused():
    with pytest.raises(ConfigError, match=r"answers holds '7': allowed .* 'Paragraph' and a number"):
        retrieval_score("7", "7")


def test_the_best_of_all_right_answers_counts_in_points():
    assert points(qa_f1, "old captain", ["a pilot", "captain", "old captain came"]) == pytest.approx(80.0)
    assert points(qa_f1, "old captain", ["a pilot"]) == 0.0


def test_only_the_first_line_counts_where_it_does():
    text = "\n\ncaptain\nQuestion: who else?\nnobody"
    assert points(qa_f1, text, ["captain"], first_line=True) == 100.0
    assert points(qa_f1, text, ["captain"]) < 50
    assert points(qa_f1, "Answer:\ncaptain", ["captain"], first_line=True) == 0.0


@pytest.mark.parametrize(
    ("answer", "right", "first_line", "found"),
    [
        ("The Captain!", ("a pilot", "captain"), False, True),
        ("the old captain", ("captain",), False, False),
        ("\n\ncaptain\nQuestion: who else?", ("captain",), True, True),
        ("captain\nQuestion: who else?", ("captain",), False, False),
        ("", ("captain",), False, False),
        ("A.", ("A",), False, True),  # a letter that was to be picked
        ("", ("A",), False, False),
        ("The", ("A",), False, False),
    ],
)
def test_an_exact_answer_is_a_right_one_and_nothing_else(answer, right, first_line, found):
    assert exact(answer, right, first_line=first_line) is found


def test_metrics_and_rules_of_the_tasks():
    metrics = {name: task.metric for name, task in TASKS.items()}
    assert [name for name, metric in metrics.items() if metric is rouge_l] == [
        "gov_report",
        "qmsum",
        "multi_news",
        "samsum",
    ]
    assert metrics["trec"] is classification_score
    assert metrics["passage_count"] is count_score
    assert metrics["passage_retrieval_en"] is retrieval_score
    assert sum(metric is qa_f1 for metric in metrics.values()) == 7
    assert [name for name, task in TASKS.items() if task.first_line] == ["trec", "triviaqa", "samsum"]
    tokens = [task.new_tokens for task in TASKS.values()]
    assert tokens == [128, 128, 64, 32, 32, 32, 512, 512, 512, 64, 32, 128, 32, 32]


def test_the_extra_is_named_where_rouge_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "rouge", None)  # as if it were not installed
    with pytest.raises(MissingExtraError, match=r"featscope\.language\.longbench needs the extra 'language'"):
        runpy.run_path(metrics.__file__)
