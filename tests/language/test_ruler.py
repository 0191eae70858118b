"""RULER's tasks, made here: each prompt read again by a rule that knows the task."""

import re
from bisect import bisect_right
from collections import Counter
from itertools import pairwise

import pytest

from featscope.cli import main
from featscope.language.chat import prompt_tokens
from featscope.language.examples import Example, read_examples, write_examples
from featscope.language.haystack import BUILT_IN, read_texts
from featscope.language.load import load_tokenizer
from featscope.language.retriever.passwords import ADJECTIVES, NEW_NOUNS, NOUNS
from featscope.language.ruler import TASKS, CommonWords, Drawn, FrequentWords, Retrieval, Tracking, fitted, sentences
from featscope.language.ruler_prompts import Ruler, prompts
from featscope.options import ConfigError
from featscope.streams import Streams

TEXTS = read_texts(BUILT_IN)


def words(text: str) -> int:
    return len(text.split())


def example(name: str, length: int = 900, number: int = 0):
    drawn = TASKS[name].drawn(Streams(0, [0]).at(f"ruler {name}", number), sentences(TEXTS))
    asked, answers = drawn.questions[0]
    return Example(fitted(drawn, length, lambda document: words(document + asked)) + asked, answers, name)


def statements(prompt: str) -> list[tuple[str, str]]:
    """Keys and values in the text."""
    return re.findall(r"(?:The|A) special (?:number|uuid) for (\S+) is (\S+)\.", prompt)


RETRIEVAL = [name for name, task in TASKS.items() if isinstance(task, Retrieval)]


def test_tasks_and_their_numbers_are_rulers():
    assert {
        "niah_single_1": Retrieval("noise", "words", "numbers", needles=1, each=1, asked=1),
        "niah_single_2": Retrieval("essay", "words", "numbers", needles=1, each=1, asked=1),
        "niah_single_3": Retrieval("essay", "words", "uuids", needles=1, each=1, asked=1),
        "niah_multikey_1": Retrieval("essay", "words", "numbers", needles=4, each=1, asked=1),
        "niah_multikey_2": Retrieval("needles", "words", "numbers", needles=1, each=1, asked=1),
        "niah_multikey_3": Retrieval("needles", "uuids", "uuids", needles=1, each=1, asked=1),
        "niah_multivalue": Retrieval("essay", "words", "numbers", needles=1, each=4, asked=1),
        "niah_multiquery": Retrieval("essay", "words", "numbers", needles=4, each=1, asked=4),
        "vt": Tracking(hops=4),
        "cwe": CommonWords(common=10, often=30, seldom=3),
        "fwe": FrequentWords(asked=3, power=2.0),
    } == TASKS


@pytest.mark.parametrize("name", RETRIEVAL)
def test_what_is_asked_for_is_what_the_text_gives(name):
    task, (prompt, answers, of, _) = TASKS[name], example(name)
    text, question = prompt.rsplit("\n", 1)
    given = statements(text)
    asked = re.search(r"give for (.*)\? ", question)[1].replace(" and ", ", ").split(", ")
    assert of == name
    assert len(asked) == task.asked
    assert Counter(value for key, value in given if key in asked) == Counter(answers)
    assert len(answers) == task.each * task.asked
    if task.hay != "needles":
        assert len(given) == task.needles + task.each - 1
    else:
        assert len({key for key, _ in given}) == len(given) > 20
    form = r"\d{7}" if task.values == "numbers" else r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    assert all(re.fullmatch(form, value) for _, value in given)
    key = r"[a-z]+-[a-z]+" if task.keys == "words" else r"[0-9a-f-]{36}"
    assert all(re.fullmatch(key, name) for name, _ in given)


def test_hay_is_what_the_task_says():
    assert "The road is long." in example("niah_single_1").prompt
    assert all(
        sentence in " ".join(TEXTS) for sentence in example("niah_single_2").prompt.split("\n")[1].split(". ")[3:6]
    )


def test_a_chain_is_followed_to_its_value():
    prompt, answers, *_ = example("vt")
    given = re.findall(r"VAR (\w+) = (?:VAR )?(\w+)\.", prompt)
    asked = re.search(r"value (\d+) in the end", prompt)[1]
    known = {asked}
    for name, value in given:  # in the order of the text
        assert value in known
        known.add(name)
    assert known - {asked} == set(answers)
    assert len(answers) == 5


def test_common_words_are_the_commonest():
    prompt, answers, *_ = example("cwe", 1500)
    counts = Counter(re.findall(r"\d+\. (\S+)", prompt.split("\n")[1]))
    assert {word for word, _ in counts.most_common(10)} == set(answers)
    assert {counts[word] for word in answers} == {30}
    assert {count for word, count in counts.items() if word not in answers} == {3}
    assert len(counts) > 100


@pytest.mark.parametrize("length", [200, 900, 5000])
def test_frequent_words_are_the_commonest_but_dots(length):
    prompt, answers, *_ = example("fwe", length)
    counts = Counter(prompt.split("\n")[1].split())
    (dots, most), *others = counts.most_common()
    assert dots == "..."
    assert [word for word, _ in others[:3]] == list(answers)
    assert others[2][1] > others[3][1], "no tie for the last that is asked for"
    assert most / others[0][1] == pytest.approx(4, rel=0.1)  # 1 over 2 squared


@pytest.mark.parametrize("name", ["cwe", "fwe"])
def test_words_that_are_counted_stand_in_any_order(name):
    text = TASKS[name].drawn(Streams(0, [0]).at("words"), []).document(400).split("\n")[1]
    said = [word for word in text.split() if not re.fullmatch(r"\d+\.", word)]
    assert sum(one == other for one, other in pairwise(said)) < 0.6 * len(said), "dots are beside each other by chance"


def test_essays_begin_anywhere():
    essay = [f"Sentence {number}." for number in range(100)]
    begins = {
        re.search(r"Sentence (\d+)\.", TASKS["niah_single_2"].drawn(Streams(0, [0]).at("hay", i), essay).document(5))[1]
        for i in range(8)
    }
    assert len(begins) > 4


@pytest.mark.parametrize("name", TASKS)
def test_a_prompt_is_as_long_as_fits_and_longer_ones_ask_the_same(name):
    short, long = example(name, 1500), example(name, 3000)
    for one, length in ((short, 1500), (long, 3000)):
        assert 0.97 * length < words(one.prompt) <= length
    assert short.answers == long.answers
    assert short.prompt.rsplit("\n", 1)[1] == long.prompt.rsplit("\n", 1)[1]
    assert example(name, 1500, number=1).answers != short.answers


@pytest.mark.parametrize("name", TASKS)
def test_a_document_is_fitted_as_halving_would_with_fewer_counts_of_long_ones(name):
    drawn = TASKS[name].drawn(Streams(0, [0]).at(f"ruler {name}", 0), sentences(TEXTS))
    for length in (1500, 6000):
        counts = []

        def counted(document: str, counts: list[int] = counts) -> int:
            counts.append(words(document))
            return counts[-1]

        found = fitted(drawn, length, counted)
        calls = sum(count > length / 2 for count in counts)
        amount = bisect_right(range(2 * length), length, key=lambda more: words(drawn.document(drawn.least + more))) - 1
        assert found == drawn.document(drawn.least + amount)
        assert calls <= 7, "halving takes 8 to 14"


@pytest.mark.parametrize("jump", [lambda n: n * n, lambda n: 100 * (n > 777), lambda n: n if n < 800 else n**3])
def test_a_document_is_fitted_however_tokens_grow(jump):
    fine = [n for n in range(2000) if jump(n) + n <= 1000]
    counts = []
    found = fitted(Drawn(str, ()), 1000, lambda text: counts.append(text) or jump(int(text)) + int(text))
    assert found == str(fine[-1])
    assert len(counts) < 40


def test_needles_lie_at_the_same_shares_of_any_length_and_all_over():
    def depth(length: int, number: int) -> float:
        prompt, (value,), *_ = example("niah_single_2", length, number)
        return prompt.index(value) / len(prompt)

    assert all(abs(depth(800, i) - depth(3000, i)) < 0.1 for i in range(5))
    depths = [depth(800, i) for i in range(20)]
    assert min(depths) < 0.25
    assert max(depths) > 0.75


@pytest.mark.parametrize("name", ["niah_multikey_1", "niah_multivalue"])
def test_what_is_asked_for_lies_before_and_behind_what_is_hidden_beside_it(name):
    """The first value of an answer, among the four that are in the text."""
    places = set[int]()
    for number in range(24):
        drawn = TASKS[name].drawn(Streams(0, [0]).at(f"ruler {name}", number), sentences(TEXTS))
        values = [value for _, value in statements(drawn.document(20))]
        assert len(values) == 4
        places.add(values.index(drawn.questions[0].answers[0]))
    assert places == {0, 1, 2, 3}


def test_tokens_are_the_models_own():
    tokenizer = load_tokenizer("retriever")
    (one,) = prompts(Ruler(length=400, tasks=("niah_single_2",), examples=1), tokenizer)
    assert 360 < len(tokenizer(one.prompt)["input_ids"]) <= 400


def test_examples_and_seeds_have_draws_of_their_own():
    tokenizer = load_tokenizer("retriever")
    asked = [Ruler(length=200, tasks=("vt",), examples=2, seed=seed) for seed in (0, 0, 1)]
    one, again, other = (prompts(options, tokenizer) for options in asked)
    assert one == again
    assert len({example.answers for example in (*one, *other)}) == 4


def test_words_are_none_that_the_small_model_was_trained_to_find():
    keys = [key for name in RETRIEVAL for i in range(5) for key, _ in statements(example(name, number=i).prompt)]
    found = {word for key in keys if "uuid" not in key for word in key.split("-")}
    assert not found & {*ADJECTIVES, *NOUNS}
    assert found & {*NEW_NOUNS}


def test_in_long_lists_words_stay_different_and_no_answer_is_in_another_word():
    drawn = TASKS["cwe"].drawn(Streams(0, [0]).at("long"), [])
    text = drawn.document(9000)
    counts = Counter(re.findall(r"\d+\. (\S+)", text.split("\n")[1]))
    assert len(counts) == 9010
    answers = drawn.questions[0].answers
    others = " ".join(word for word in counts if word not in answers)
    assert not any(Example("", (answer,)).is_right(others) for answer in answers)
    assert drawn.document(9000) == text


@pytest.mark.parametrize("text", ["一二三四五六七八九十。" * 200, "word " * 4000])
def test_a_text_without_full_stops_is_hay_too(text):
    drawn = TASKS["niah_single_2"].drawn(Streams(0, [0]).at("hay"), sentences([text]))
    assert 2500 < len(fitted(drawn, 3000, len)) <= 3000
    assert fitted(drawn, 3000, len).count(text[:4]) > 50


def test_a_task_that_does_not_fit_is_left_out_with_a_word_or_refused_by_name(capsys):
    tokenizer = load_tokenizer("retriever")
    made = prompts(Ruler(length=800, examples=2), tokenizer)
    assert {one.task for one in made} == set(TASKS) - {"cwe"}
    out = capsys.readouterr().out
    needed = int(re.search(r"Left out: cwe, whose prompts need --length (\d+)", out)[1])
    assert "comes over again" not in out, "the built-in text is longer"
    assert len(prompts(Ruler(length=needed, examples=2, tasks=("cwe",)), tokenizer)) == 2
    with pytest.raises(ConfigError, match=f"length = {needed - 1} .* >= {needed} for cwe"):
        prompts(Ruler(length=needed - 1, examples=2, tasks=("cwe",)), tokenizer)
    with pytest.raises(ConfigError, match=r"length = 1 .* for the shortest task"):
        prompts(Ruler(length=1, examples=1), tokenizer)


def test_a_haystack_that_comes_over_again_is_said_to(capsys):
    prompts(Ruler(length=3000, examples=1, tasks=("niah_single_2",)), load_tokenizer("retriever"))
    assert re.search(r"The haystack has \d+ tokens, and comes over again", capsys.readouterr().out)
    prompts(Ruler(length=3000, examples=1, tasks=("niah_single_1",)), load_tokenizer("retriever"))
    assert "haystack" not in capsys.readouterr().out


def test_several_questions_are_asked_of_one_text(tmp_path):
    tokenizer = load_tokenizer("retriever")
    asked = {"length": 400, "tasks": ("niah_multikey_1",), "examples": 2}
    made = prompts(Ruler(**asked, questions=4), tokenizer)
    write_examples(tmp_path / "ruler.jsonl", made)
    assert read_examples(tmp_path / "ruler.jsonl") == made
    for group, alone in zip((made[:4], made[4:]), prompts(Ruler(**asked), tokenizer), strict=True):
        (document,) = {one.document for one in group}
        keys = [re.search(r"give for (\S+)\? The special number for \1 is$", one.question)[1] for one in group]
        assert Counter(statements(document)) == Counter(
            (key, *one.answers) for key, one in zip(keys, group, strict=True)
        )
        assert (group[0].question, group[0].answers) == ("\n" + alone.prompt.rsplit("\n", 1)[1], alone.answers)
        lengths = [
            len(prompt_tokens(tokenizer, document)) + len(prompt_tokens(tokenizer, one.question, special=False))
            for one in group
        ]
        assert 360 < max(lengths) <= 400


def test_the_command_writes_what_tune_prompt_reads_and_replaces_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    out, said = tmp_path / "ruler 1.jsonl", tmp_path / "said.jsonl"
    words = ["ruler", "--out", str(out), "--length", "500", "--tasks", "niah_single_2", "vt", "--examples", "2"]
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0
    assert f"featscope tune-prompt --data '{out}' --model retriever" in capsys.readouterr().out
    assert [one.task for one in read_examples(out)] == ["niah_single_2"] * 2 + ["vt"] * 2
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    refused = (
        f"--out = '{out}' is out of range: allowed is a file that is not there yet. Choose another, or add --overwrite"
    )
    assert refused in capsys.readouterr().err
    tuning = ["--methods", "gemfilter", "--layers", "2", "--keeps", "0.5", "--picture", str(tmp_path / "a.png")]
    with pytest.raises(SystemExit) as ended:
        main(["tune-prompt", "--data", str(out), *tuning, "--max-new-tokens", "16", "--answers", str(said)])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    found = re.search(r"niah_single_2 │ +2 │ +full │ (\S+)", printed)
    assert found is not None
    assert float(found[1]) >= 0.5, "words that the small model never saw: one of the two, or both"
    assert re.search(r"vt │ +2 │ +gemfilter, layer 2, keep 0.5 │ 0.00", printed)
    assert len(said.read_text().splitlines()) == 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": ("niah",)}, "tasks = .*some of niah_single_1"),
        ({"tasks": ("vt", "vt")}, "each once"),
        ({"length": 0}, "length = 0"),
        ({"examples": 0}, "examples = 0"),
        ({"questions": 2}, "questions = 2 .* 1, or 2 to 4 with --tasks niah_multikey_1 alone"),
        ({"questions": 5, "tasks": ("niah_multikey_1",)}, "questions = 5"),
        ({"questions": 0, "tasks": ("niah_multikey_1",)}, "questions = 0"),
        ({"questions": 2, "tasks": ("niah_multikey_1", "vt")}, "questions = 2"),
        ({"seed": -1}, "seed = -1"),
        ({"seed": 2**63}, "seed = "),
        ({"model": "no/such/model/there"}, "model = 'no/such/model/there'"),
    ],
)
def test_wrong_options_say_what_is_allowed(options, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        Ruler(tmp_path / "ruler.jsonl", **options)
    with pytest.raises(ConfigError, match="a file in a folder that is there"):
        Ruler(tmp_path / "no" / "ruler.jsonl")
    with pytest.raises(ConfigError, match=r"out = .* a file that is not there yet"):
        Ruler(tmp_path, overwrite=True)
