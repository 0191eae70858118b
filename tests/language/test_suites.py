"""LongBench v2 and InfiniteBench: files in their layouts, prompts, rules of scoring, and what is refused."""

import json

import pytest

from featscope.language.longbench import SUITES, metrics, picked
from featscope.options import ConfigError

V2 = {
    "_id": "1",
    "domain": "Code Repository Understanding",
    "sub_domain": "Code repo QA",
    "difficulty": "easy",
    "length": "short",
    "question": " Which one? ",
    "choice_A": "a",
    "choice_B": "b ",
    "choice_C": "c",
    "choice_D": "d",
    "answer": "B",
    "context": " a text ",
}
INFINITE = {
    "passkey": {"context": "c", "input": "What is it?", "answer": ["71432"], "options": []},
    "number_string": {"context": "c", "input": "What is it?", "answer": ["7443"], "options": []},
    "kv_retrieval": {"context": "{}", "input": "Key: k", "answer": ["4f-9"], "options": []},
    "longbook_sum_eng": {"context": "c", "input": "", "answer": ["a short story"], "options": []},
    "longbook_qa_eng": {"context": "c", "input": "Who?", "answer": ["Bronwyn", "the cook"], "options": []},
    "longbook_choice_eng": {"context": "c", "input": "Who?", "answer": ["y"], "options": ["x", "y", "z", "w"]},
    "longdialogue_qa_eng": {"context": "c", "input": "", "answer": ["DOLAN"], "options": []},
    "code_debug": {"context": "c", "input": "", "answer": ["run.go"], "options": ["f", "g", "run.go", "h"]},
    "code_run": {
        "context": "def func_1(x): ...",
        "input": "Give the value of func_1(-3). Be concise.",
        "answer": ["-5"],
    },
    "math_find": {"context": "[1, 2]", "input": "The largest number of the list is", "answer": [2]},
}


def asked(suite: str, task: str, folder) -> tuple[str, tuple[str, ...]]:
    """The first example's prompt, and what is right."""
    (one, *_) = SUITES[suite].read(str(folder), task)
    return SUITES[suite].tasks[task].prompt.format(context=one.context, input=one.input), one.answers


@pytest.fixture
def v2(tmp_path):
    (tmp_path / "data.json").write_text(json.dumps([V2, V2 | {"domain": "Single-Document QA", "answer": "D"}]))
    return tmp_path


@pytest.fixture
def infinite(tmp_path):
    for task, line in INFINITE.items():
        (tmp_path / f"{task}.jsonl").write_text(json.dumps({"id": 0} | line) + "\n")
    return tmp_path


def test_a_question_of_longbench_v2_stands_behind_its_text_with_its_choices(v2):
    prompt, right = asked("longbench-v2", "code-repository", v2)
    assert prompt == (
        "Please read the following text and answer the question below.\n\n<text>\na text\n</text>\n\nWhat is the "
        "correct answer to this question: Which one?\nChoices:\n(A) a\n(B) b\n(C) c\n(D) d\n\nFormat your "
        "response as follows: "
        '"The correct answer is (insert answer here)".'
    )
    assert right == ("B",)
    assert asked("longbench-v2", "single-document-qa", v2)[1] == ("D",)


def test_a_domain_without_examples_is_named(v2):
    with pytest.raises(ConfigError, match=r"no example of dialogue-history: .* It has Code Repository"):
        SUITES["longbench-v2"].read(str(v2), "dialogue-history")


def test_every_task_of_infinitebench_asks_its_question(infinite):
    assert set(INFINITE) == set(SUITES["infinitebench"].tasks)
    prompt, right = asked("infinitebench", "code_run", infinite)
    assert prompt == (
        "There is a function called func_1 in the following Python code.\n\ndef func_1(x): ...\n\nPlease compute the "
        "exact value of func_1(-3). The value of func_1(-3) is"
    )
    assert right == ("-5",)
    prompt, right = asked("infinitebench", "math_find", infinite)
    assert prompt == "What is the largest number in the following list?\n\n[1, 2]\n\nThe largest number of the list is"
    assert right == ("2",)
    prompt, right = asked("infinitebench", "longbook_choice_eng", infinite)
    assert "Question: Who?\nA. x\nB. y\nC. z\nD. w\n\nThe letter" in prompt
    assert right == ("B", "y")
    assert asked("infinitebench", "code_debug", infinite)[1] == ("C", "run.go")
    assert asked("infinitebench", "longbook_qa_eng", infinite)[1] == ("Bronwyn", "the cook")
    assert asked("infinitebench", "passkey", infinite)[0].endswith("c\n\nWhat is it?\n\nThe pass key is")


def test_infinitebench_has_its_tokens_and_rules():
    rules = {name: (task.new_tokens, task.metric) for name, task in SUITES["infinitebench"].tasks.items()}
    assert rules == {
        "passkey": (6, picked.first_digits),
        "number_string": (12, picked.first_digits),
        "kv_retrieval": (50, picked.word_among),
        "longbook_sum_eng": (1200, metrics.rouge_l),
        "longbook_qa_eng": (40, metrics.qa_f1),
        "longbook_choice_eng": (40, picked.chosen),
        "longdialogue_qa_eng": (40, picked.name_among),
        "code_debug": (5, picked.chosen_function),
        "code_run": (5, picked.last_number),
        "math_find": (3, picked.first_number),
    }


def test_longbench_v2_has_its_tokens_its_rule_and_its_domains(tmp_path):
    tasks = SUITES["longbench-v2"].tasks
    assert {(task.new_tokens, task.metric) for task in tasks.values()} == {(128, picked.stated_letter)}
    domains = {
        "single-document-qa": "Single-Document QA",
        "multi-document-qa": "Multi-Document QA",
        "in-context-learning": "Long In-context Learning",
        "dialogue-history": "Long-dialogue History Understanding",
        "code-repository": "Code Repository Understanding",
        "structured-data": "Long Structured Data Understanding",
    }
    made = [V2 | {"domain": domain, "context": domain} for domain in domains.values()]
    (tmp_path / "data.json").write_text(json.dumps(made))
    assert {name: [one.context for one in SUITES["longbench-v2"].read(str(tmp_path), name)] for name in tasks} == {
        name: [domain] for name, domain in domains.items()
    }


def test_numbers_that_are_looked_for_have_names_of_several_words(infinite):
    line = INFINITE["math_find"] | {"input": "Answer with one number. The second largest number of the list is: "}
    (infinite / "math_find.jsonl").write_text(json.dumps(line))
    prompt, _ = asked("infinitebench", "math_find", infinite)
    assert prompt.startswith("What is the second largest number in the following list?\n\n[1, 2]\n\nAnswer with one")


def test_a_letter_beside_its_option_is_one(infinite):
    line = INFINITE["code_debug"] | {"answer": ["run.go", "C"]}
    (infinite / "code_debug.jsonl").write_text(json.dumps(line))
    assert asked("infinitebench", "code_debug", infinite)[1] == ("C", "run.go")


def test_of_two_options_of_one_text_the_letter_tells(infinite):
    line = INFINITE["longbook_choice_eng"] | {"answer": ["x", "C"], "options": ["x", "y", "x", "w"]}
    (infinite / "longbook_choice_eng.jsonl").write_text(json.dumps(line))
    assert asked("infinitebench", "longbook_choice_eng", infinite)[1] == ("C", "x")


def test_a_letter_alone_names_its_option(infinite):
    (infinite / "code_debug.jsonl").write_text(json.dumps(INFINITE["code_debug"] | {"answer": ["D"]}))
    assert asked("infinitebench", "code_debug", infinite)[1] == ("D", "h")


def test_a_blank_beside_an_answer_is_none(infinite):
    """It would be in whatever is said."""
    line = INFINITE["longdialogue_qa_eng"] | {"answer": ["", "DOLAN", None]}
    (infinite / "longdialogue_qa_eng.jsonl").write_text(json.dumps(line))
    assert asked("infinitebench", "longdialogue_qa_eng", infinite)[1] == ("DOLAN",)


@pytest.mark.parametrize(
    ("rule", "said", "right", "score"),
    [
        (picked.stated_letter, "The correct answer is (B), as", "B", 1),
        (picked.stated_letter, "**The correct answer is B**", "B", 1),
        (picked.stated_letter, "The correct answer is **(B)**", "B", 1),
        (picked.stated_letter, "The correct answer is (A) or B", "B", 0),
        (picked.stated_letter, "B", "B", 0),
        (picked.chosen, "B. because", "B", 1),
        (picked.chosen, "So the answer is: C", "C", 1),
        (picked.chosen, "Because of C", "C", 1),
        (picked.chosen, "Because of C", "B", 1),  # as published: it ends in one letter and begins with the other
        (picked.chosen, "Because of that", "C", 0),
        (picked.chosen, "the answer is", "C", 0),
        (picked.chosen, "maybe D or A", "A", 1),
        (picked.chosen, "maybe D or A", "D", 1),  # as published: the last, and the first
        (picked.chosen, "maybe D or C or A", "C", 0),
        (picked.chosen, "it is D\nor A", "A", 0),  # as published: of the first line
        (picked.chosen, "perhaps AB", "A", 0),
        (picked.chosen, "the cook ", "the cook", 1),
        (picked.chosen, "the answer is: the cook, as", "the cook", 1),
        (picked.chosen, "answer: the cook", "the cook", 1),
        (picked.chosen, "the answer is the cook", "the cook", 1),
        (picked.chosen, "the best option is the cook", "the cook", 1),
        (picked.chosen, "it is the cook", "the cook", 0),
        (picked.chosen, "", "D", 0),
        (picked.chosen_function, "C. run", "C", 1),
        (picked.chosen_function, "C or H", "C", 1),
        (picked.chosen_function, "either C or H", "C", 0),
        (picked.chosen_function, "I think the answer is: `run.go`", "run.go", 1),
        (picked.chosen_function, "The answer is: Option C", "C", 1),
        (picked.chosen_function, "The correct option is: run.go", "run.go", 1),
        (picked.chosen_function, "run.go", "run.go", 1),
        (picked.chosen_function, "in run.go", "run.go", 0),
        (picked.first_digits, " 71432.", "71432", 1),
        (picked.first_digits, "1 71432", "71432", 0),
        (picked.first_digits, "none", "71432", 0),
        (picked.first_number, "it is 2.50", "2.5", 1),
        (picked.first_number, "3 or 2", "2", 0),
        (picked.last_number, "It is -5.", "-5", 1),
        (picked.last_number, "-5 or six", "-5", 0),
        (picked.last_number, "", "5", 0),
        (picked.word_among, 'It is "4f-9".', "4f-9", 1),
        (picked.word_among, "4f-91", "4f-9", 0),
        (picked.name_among, "Dolan, I guess", "DOLAN", 1),
        (picked.name_among, "it is ace ventura.", "Ace Ventura", 1),
        (picked.name_among, "Dolans", "DOLAN", 1),  # as published
        (picked.name_among, "Dol an", "DOLAN", 0),
    ],
)
def test_answers_are_scored_by_the_rule(rule, said, right, score):
    assert rule(said, right) == score


def test_numbers_are_read_as_the_published_rule_reads_them():
    assert picked.first_number("-3", "3") == 1, "a sign is no part of the number"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"answer": "E"}, "answer = 'E': allowed is A, B, C or D"),
        ({"choice_C": None}, "choice_C = None: allowed is a text"),
        ({"context": 3}, "context = 3"),
    ],
)
def test_broken_examples_of_longbench_v2_are_named(tmp_path, change, problem):
    (tmp_path / "data.json").write_text(json.dumps([V2, V2 | change]))
    with pytest.raises(ConfigError, match=f"data.json, example 2: {problem}"):
        SUITES["longbench-v2"].read(str(tmp_path), "code-repository")


@pytest.mark.parametrize("text", ["", "[]", "{}", "[3]", "[" * 2000, "\xff"])
def test_broken_files_of_longbench_v2_are_named(tmp_path, text):
    (tmp_path / "data.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"data\.json"):
        SUITES["longbench-v2"].read(str(tmp_path), "code-repository")


@pytest.mark.parametrize(
    ("task", "line"),
    [
        ("passkey", "{"),
        ("passkey", "[]"),
        ("passkey", json.dumps({"context": "c", "input": "i"})),
        ("passkey", json.dumps({"context": 1, "input": "i", "answer": ["1"]})),
        ("passkey", json.dumps({"context": "c", "input": "i", "answer": []})),
        ("longdialogue_qa_eng", json.dumps({"context": "c", "input": "i", "answer": [" "]})),
        ("longdialogue_qa_eng", json.dumps({"context": "c", "input": "i", "answer": None})),
        ("passkey", json.dumps({"context": "c", "input": "i", "answer": [["71"]]})),
        ("code_debug", json.dumps({"context": "c", "input": "i", "answer": ["a"], "options": ["b", "c", "d", "e"]})),
        ("code_debug", json.dumps({"context": "c", "input": "i", "answer": ["a"], "options": ["a"]})),
        (
            "code_debug",
            json.dumps({"context": "c", "input": "i", "answer": ["b", "C"], "options": ["b", "c", "d", "e"]}),
        ),
        ("passkey", json.dumps({"context": "c", "input": "i", "answer": "abc"})),
        ("longdialogue_qa_eng", json.dumps({"context": "c", "input": "i", "answer": True})),
        ("code_run", json.dumps({"context": "c", "input": "i", "answer": ["a"]})),
        ("code_run", json.dumps({"context": "c", "input": "func_1(2)", "answer": ["five"]})),
        ("math_find", json.dumps({"context": "c", "input": "Find it.", "answer": [5]})),
        ("math_find", json.dumps({"context": "c", "input": "The largest number of", "answer": ["five"]})),
    ],
)
def test_broken_lines_of_infinitebench_are_named(tmp_path, task, line):
    (tmp_path / f"{task}.jsonl").write_text(line)
    with pytest.raises(ConfigError, match=rf"{task}\.jsonl, line 1"):
        SUITES["infinitebench"].read(str(tmp_path), task)


@pytest.mark.parametrize("suite", ["longbench-v2", "infinitebench"])
def test_a_file_that_is_not_there_is_named(tmp_path, suite):
    with pytest.raises(ConfigError, match="allowed is a folder with"):
        SUITES[suite].read(str(tmp_path), next(iter(SUITES[suite].tasks)))
