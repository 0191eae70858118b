"""Files of prompts, and whether an answer is there."""

import pytest

from featscope.language.examples import Example, read_examples, write_examples
from featscope.options import ConfigError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty: allowed is one example"),
        ("not json", r"line 1, is no example .*allowed is {"),
        ('{"prompt": "a"}', "line 1, is no example"),
        ('{"prompt": "a", "answer": " "}', "allowed are a prompt and an answer with text"),
        ('{"question": "a", "answer": "b"}', "line 1, is no example"),
        ('{"document": "a", "prompt": "b", "answer": "c"}', "a prompt beside a document or a question"),
        ('{"document": "a", "answer": "c"}', "line 1, is no example"),
        ('{"document": " ", "question": "a", "answer": "b"}', "allowed are a prompt and an answer with text"),
        ('{"document": ["a"], "question": "a", "answer": "b"}', "allowed are a prompt and an answer with text"),
        ('{"prompt": "a", "answer": []}', "allowed are a prompt and an answer with text"),
        ('{"prompt": "a", "answer": ["b", 1]}', "allowed are a prompt and an answer with text"),
        ('{"prompt": "a", "answer": "b", "task": 3}', "task = 3: allowed is a text"),
        ('{"prompt": "a", "answer": "b", "answer": "c"}', "line 1, is no example .'answer' is there twice"),
        ("[]", "line 1, is no example"),
        ("[" * 200_000, "line 1, is no example"),
        ('{"prompt": "a \\ud800", "answer": "b"}', "line 1: allowed are a prompt"),
        ('{"prompt": "a", "answer": "\\ud800"}', "line 1: allowed are a prompt"),
        (b"\xe9", "cannot be read .*allowed is a file of JSON lines"),
    ],
)
def test_wrong_examples_are_named(text, message, tmp_path):
    path = tmp_path / "examples.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError, match=message):
        read_examples(path)


def test_other_ends_of_lines_may_stand_in_a_text(tmp_path):
    made = [Example("one\u2028two\x85three", ("a",))]
    write_examples(tmp_path / "made.jsonl", made)
    assert read_examples(tmp_path / "made.jsonl") == made


def test_a_mark_before_the_first_line_is_no_part_of_it(tmp_path):
    made = [Example("Who?", ("Zoë",))]
    write_examples(tmp_path / "made.jsonl", made)
    (tmp_path / "made.jsonl").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "made.jsonl").read_bytes())
    assert read_examples(tmp_path / "made.jsonl") == made


def test_examples_come_back_from_their_file(tmp_path):
    made = [
        Example("Who?\nThe", ("Zoë", "1"), "names"),
        Example("What?", ("this",)),
        Example("Long. What?", ("this",), document="Long."),
    ]
    write_examples(tmp_path / "made.jsonl", made)
    assert read_examples(tmp_path / "made.jsonl") == made


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("icy-apple", "spicy-apple"),
        ("12", "2012"),
        ("no", "I know"),
        ("a-b", "a-b-1"),
        ("5", "3.5"),
        ("5", "5.2 or so"),
        ("500", "1,500"),
        ("234", "1,234,567"),
        ("5", "0,5"),
        ("name", "my_name"),
        ("name", "name_2"),
        (".5", "3.5"),
        (".5", "10.5"),
        (".5", "1,0.5"),
        (".05", "0.5"),
        (",500", "1,500"),
        ("3.", "3.5"),
        ("दिल", "दिल्ली"),
        ("মা", "মাছ"),
        ("cafe", "cafe\u0301"),
    ],
)
def test_an_answer_within_another_word_is_none(answer, said):
    assert not Example("", (answer,)).is_right(said)
    assert Example("", (answer,)).is_right(f"({answer}).")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("东京", "首都是东京。"),
        ("東京", "答えは東京です"),
        ("서울", "서울은 수도"),
        ("5", "It is 5."),
        ("3.5", "(3.5)"),
        (".5", "it is 0.5"),
        (".05", "p < 0.05."),
        ("0.5", "0.5"),
        ("7654321", "1234567,7654321"),
        ("1234567", "[1234567,7654321]"),
        ("1,500", "1,500"),
        ("Paris", "_Paris_"),
        ("Paris", "It is __Paris__."),
        ("snake_case", "_snake_case_"),
    ],
)
def test_scripts_without_blanks_and_numbers_are_found(answer, said):
    assert Example("", (answer,)).is_right(said)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("10", "at 10:30"),
        ("10", "at 9:10"),
        ("U.S.", "the U.S.A."),
        ("102", "it is 10\u00b2 metres"),
        ("25", "2\u2075 of them"),
        ("1", "\u00bd an hour"),
    ],
)
def test_a_part_of_a_time_or_of_an_abbreviation_is_no_answer(answer, said):
    assert not Example("", (answer,)).is_right(said)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("10", "Answer:10."),
        ("10", "10: done"),
        ("3", "at 3:00"),
        ("42", "Q1:42"),
        ("7", "a 7:3 ratio"),
        (".c", "the extension of main.c"),
        ("5.", "It is 5.Then"),
        ("iPhone", "The iPhone\u2122 was first"),
        ("9:10", "at 9:10"),
        ("U.S.", "the U.S. army"),
        ("end.", "the end.And"),
        ("straße", "STRASSE"),
        ("İstanbul", "istanbul"),
        ("don't", "I don\u2019t"),
        ("12", "it is \uff11\uff12"),
        ("office", "the o\ufb03ce"),
    ],
)
def test_ways_to_write_an_answer_are_one(answer, said):
    assert Example("", (answer,)).is_right(said)


def test_all_of_an_answer_must_be_there_whatever_the_blanks():
    one = Example("", ("Red  apple", "12"))
    assert one.is_right("It is 12, a RED\napple.")
    assert not one.is_right("It is a red apple.")


def test_parts_of_an_answer_count_by_themselves():
    one = Example("", ("red", "12", "13", "14"))
    assert [one.share(said) for said in ("no", "12 is red", "14, 13, 12: red", "reddish 112")] == [0, 0.5, 1, 0]
    assert Example("", ("12", "red", "12", "13")).share("12") == 0.5, "as often as it is asked for"
