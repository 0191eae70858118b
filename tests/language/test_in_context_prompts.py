"""Exemplars, queries and prompts: what is drawn, what is inverted, what is refused."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from featscope.language.haystack import read_texts
from featscope.language.in_context import (
    TASKS,
    Example,
    ask,
    flipped,
    flips,
    labelled_pair,
    load_examples,
    load_irrelevant,
    made_up_irrelevant,
    made_up_sentiment,
    parse,
)
from featscope.options import ConfigError
from featscope.streams import Streams

SST2 = Path(__file__).parents[3] / "shared" / "data" / "sst2"
SENTENCES = SST2.parent / "sentences"
STREAMS = Streams(0, [0])


def test_the_prompt_is_the_papers():
    exemplars = [Example(("show us a good time",), 1), Example(("as dumb and cheesy",), 0)]
    prompt = ask(TASKS["sst2"], exemplars, Example(("it 's a charming journey",), 1))
    assert prompt == (
        "sentence: show us a good time\nThe answer is positive.\n\n"
        "sentence: as dumb and cheesy\nThe answer is negative.\n\n"
        "sentence: it 's a charming journey\nThe answer is"
    )
    shown, query = parse(prompt)
    assert shown == (("sentence: show us a good time", "positive"), ("sentence: as dumb and cheesy", "negative"))
    assert query == "sentence: it 's a charming journey"


def test_the_label_of_the_query_is_not_in_the_prompt():
    exemplars = [Example(("a",), 1)]
    assert ask(TASKS["subj"], exemplars, Example(("b",), 0)) == ask(TASKS["subj"], exemplars, Example(("b",), 1))


def test_texts_of_two_fields_stand_on_two_lines():
    prompt = ask(TASKS["rte"], [Example(("it rains", "it is wet"), 0)], Example(("a", "b"), 1))
    assert prompt.startswith("premise: it rains\nhypothesis: it is wet\nThe answer is yes.\n\npremise: a")


@pytest.mark.parametrize(
    ("task", "one"),
    [
        ("sst2", "positive"),
        ("subj", "subjective"),
        ("mr", "positive"),
        ("cr", "positive"),
        ("trec", "place"),
        ("cola", "acceptable"),
        ("mrpc", "equivalent"),
        ("qqp", "equivalent"),
        ("rte", "no"),  # 0 is entailment
        ("qnli", "no"),  # 0 is entailment
        ("wnli", "yes"),  # 1 is entailment
    ],
)
def test_words_are_those_of_labels_as_glue_has_them(task, one):
    chosen = TASKS[task]
    query = Example(tuple("a" * len(chosen.columns)), 0)
    assert f"The answer is {one}." in ask(chosen, [query._replace(label=1)], query)
    assert f"The answer is {one}." not in ask(chosen, [query], query)


def test_two_sentences_are_where_they_are_said_to_be():
    text, places = labelled_pair(TASKS["sst2"], "a charming journey .", "Tom sold tiles .", 0)
    assert text == "sentence: a charming journey . Tom sold tiles .\nThe answer is negative"
    assert [text[first:after] for first, after in places] == ["a charming journey .", "Tom sold tiles ."]


@pytest.mark.parametrize(
    ("rate", "shots", "count"),
    [(0, 16, 0), (0.25, 16, 4), (0.5, 5, 3), (0.1, 5, 1), (0.09, 5, 0), (0.58, 25, 15), (1, 16, 16)],
)
def test_as_many_labels_are_inverted_as_asked_for(rate, shots, count):
    exemplars = [Example((str(i),), i % 2) for i in range(shots)]
    order = STREAMS.at("order").choice(shots, shots)[0].tolist()
    inverted = flipped(exemplars, order, rate)
    changed = [i for i, (before, after) in enumerate(zip(exemplars, inverted, strict=True)) if before != after]
    assert flips(rate, shots) == count
    assert sorted(order[:count]) == changed
    assert [e.texts for e in inverted] == [e.texts for e in exemplars]


def test_labels_inverted_at_one_rate_stay_so_at_higher_ones():
    exemplars = [Example((str(i),), 0) for i in range(16)]
    order = STREAMS.at("order").choice(16, 16)[0].tolist()
    sets = [{i for i, e in enumerate(flipped(exemplars, order, rate)) if e.label} for rate in (0, 0.25, 0.5, 0.75, 1)]
    assert all(a < b for a, b in pairwise(sets))


def test_made_up_reviews_are_distinct_balanced_and_mean_what_they_are_labelled():
    texts = made_up_sentiment(STREAMS.at("texts"), 2000)
    assert len({text for text, _ in texts}) == 2000
    assert abs(sum(label for _, label in texts) / 2000 - 0.5) < 0.05  # five standard deviations
    judged = {label: " ".join(text for text, its in texts if its == label) for label in (0, 1)}
    for word, label in (("charming", 1), ("brilliant", 1), ("dull", 0), ("pointless", 0)):
        assert word in judged[label]
        assert word not in judged[1 - label]
    assert texts == made_up_sentiment(STREAMS.at("texts"), 2000)
    assert texts != made_up_sentiment(Streams(0, [1]).at("texts"), 2000)


def test_irrelevant_sentences_are_distinct_and_have_no_double_spaces():
    texts = made_up_irrelevant(STREAMS.at("texts"), 500)
    assert len(set(texts)) == 500
    assert all(re.fullmatch(r"\w+'s( \w+)+ \.", text) for text in texts)


def test_made_up_exemplars_are_never_queries():
    examples = load_examples("sst2", "made-up", STREAMS)
    assert (len(examples.pool), len(examples.items)) == (1000, 1000)
    assert not {e.texts for e in examples.pool} & {e.texts for e in examples.items}
    assert len(examples.truth) == 2000


def write(folder: Path, name: str, *rows: str) -> Path:
    """A table."""
    file = folder / name
    file.write_text("\n".join(rows) + "\n")
    return file


def test_tables_of_a_folder(tmp_path):
    write(tmp_path, "train.tsv", "sentence\tlabel", '"a quoted \t1', "both \t1", "twice\t1", "twice\t0")
    write(tmp_path, "dev.tsv", "sentence\tlabel", "both\t0", "c  d\t1")
    examples = load_examples("sst2", str(tmp_path), STREAMS)
    assert examples.pool == (Example(('"a quoted',), 1), Example(("twice",), 1))
    assert sorted(examples.items) == [Example(("both",), 0), Example(("c d",), 1)]


def test_fields_that_pandas_put_in_quotes_are_taken_out_of_them(tmp_path):
    """Quotes of GLUE, which puts none, stay."""
    rows = (f'{i}\t"she said ""{i}"""\t{i % 2}' if i % 3 else f'{i}\t"{i}"\t{i % 2}' for i in range(12))
    examples = load_examples("sst2", str(write(tmp_path, "some.tsv", "\tsentence\tlabel", *rows)), STREAMS)
    texts = {example.texts[0] for example in (*examples.pool, *examples.items)}
    assert texts == {f'she said "{i}"' if i % 3 else f'"{i}"' for i in range(12)}


def test_one_table_is_halved_at_random(tmp_path):
    file = write(tmp_path, "subj.tsv", "label\tsentence", *(f"{i % 2}\ttext {i}" for i in range(40)))
    one, two = (load_examples("subj", str(file), Streams(0, [replica])) for replica in (0, 1))
    assert (len(one.pool), len(one.items)) == (20, 20)
    assert {*one.pool, *one.items} == {Example((f"text {i}",), i % 2) for i in range(40)}
    assert set(one.pool) != set(two.pool)


@pytest.mark.parametrize(("task", "file"), [("mr", "rt-polarity.all"), ("cr", "custrev.all"), ("subj", "subj.all")])
def test_a_file_of_sentences_is_halved_at_random(tmp_path, task, file):
    write(tmp_path, file, *(f"{i % 2} text  {i} ." for i in range(40)), "", "1 text 0 .")
    one, two = (load_examples(task, str(tmp_path), Streams(0, [replica])) for replica in (0, 1))
    assert (len(one.pool), len(one.items)) == (20, 20)
    turned = task == "subj"  # whose file has 0 for what is subjective
    assert {*one.pool, *one.items} == {Example((f"text {i} .",), i % 2 ^ turned) for i in range(40)}
    assert set(one.pool) != set(two.pool)


def test_questions_of_trec_for_a_person_or_a_place_have_a_split_of_their_own(tmp_path):
    write(tmp_path, "TREC.train.all", "3 Who ?", "5 When ?", "4 Where ?", "0 Why ?", "4 In which town ?", "1 What ?")
    write(tmp_path, "TREC.test.all", "3 By whom ?", "2 What is AC ?", "4 Where ?")
    examples = load_examples("trec", str(tmp_path), STREAMS)
    assert examples.pool == (Example(("Who ?",), 0), Example(("In which town ?",), 1))
    assert examples.items == (Example(("By whom ?",), 0), Example(("Where ?",), 1))
    assert ask(examples.task, [Example(("Who ?",), 0)], Example(("Where ?",), 1)) == (
        "question: Who ?\nThe answer is person.\n\nquestion: Where ?\nThe answer is"
    )
    (tmp_path / "TREC.test.all").unlink()
    with pytest.raises(
        ConfigError, match=r"TREC\.test\.all cannot be read .*: allowed is UTF-8 text, a label, a blank"
    ):
        load_examples("trec", str(tmp_path), STREAMS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"0 one\n2 two\n", r"subj\.all has the label '2': allowed is 0, 1"),
        (b"0 one\nbroken\n", r"line 2 of subj\.all is no label with a sentence: 'broken'"),
        (b"\xff\xfe", r"subj\.all cannot be read .*: allowed is UTF-8 text, a label, a blank and a sentence a line"),
        (b"1 one\n1 two\n", r"have one label only, 0"),
    ],
)
def test_files_of_other_lines_are_refused(tmp_path, content, message):
    (tmp_path / "subj.all").write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        load_examples("subj", str(tmp_path), STREAMS)


@pytest.mark.parametrize(
    ("task", "rows", "message"),
    [
        ("mrpc", ["sentence\tlabel", "a\t1"], "has no column 'sentence1': allowed are columns sentence1, sentence2"),
        ("sst2", ["sentence\tlabel", "a\t2"], "has the label '2': allowed is 0"),
        ("sst2", ["sentence", "a"], "has no column 'label'"),
        ("sst2", ["sentence\tlabel", "a"], r"line 2 of some\.tsv has not 2 columns: 'a'"),
        ("sst2", ["label\tsentence", '1\t"a\tb"'], r"line 2 of some\.tsv has not 2 columns"),
        ("sst2", ["sentence\tlabel"], "are empty"),
    ],
)
def test_other_tables_are_refused(tmp_path, task, rows, message):
    with pytest.raises(ConfigError, match=message):
        load_examples(task, str(write(tmp_path, "some.tsv", *rows)), STREAMS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "are empty"),
        (b"\xff\xfe\x00", r"cannot be read \(line 1 of some\.tsv: .*: allowed is a table in UTF-8"),
        (
            b"sentence\tlabel\na\t1\n" + b"b" * 200_000 + b"\t0\n",
            r"cannot be read \(line 3 of some\.tsv: field larger than",
        ),
        (b"sentence\tlabel\na\t1\nb\t1\n", "have one label only, 1: allowed are tables for task 'sst2' with both, 0"),
        (b"sentence\tlabel\na\t1\nb\t\n", "has the label ''"),
    ],
)
def test_files_that_are_no_tables_are_refused(tmp_path, content, message):
    (tmp_path / "some.tsv").write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        load_examples("sst2", str(tmp_path / "some.tsv"), STREAMS)


@pytest.mark.parametrize("source", ["\0", 300 * "x", "\0.tsv", 300 * "x" + ".tsv"])
def test_names_that_are_no_paths_are_refused(source):
    with pytest.raises(ConfigError, match=r"is no folder|is not there"):
        load_examples("sst2", source, STREAMS)
    with pytest.raises(ConfigError, match=r"irrelevant = .* cannot be read"):
        load_irrelevant(source, STREAMS.at("irrelevant"), 1)
    with pytest.raises(ConfigError, match=r"haystack = .* has no text"):
        read_texts(source)


@pytest.mark.parametrize(
    ("task", "source", "message"),
    [
        ("cola", "made-up", "has no task 'cola': allowed is task sst2"),
        ("sst2", "nowhere", "'nowhere' is no folder: allowed is 'made-up', 'hub', a folder"),
        ("subj", "hub", "which is not in GLUE: give a folder with subj.all, or a .tsv file"),
        ("mr", "hub", "which is not in GLUE"),
        ("cr", ".", r"train\.tsv is not there: allowed is a folder with train.tsv and dev.tsv, or with custrev\.all"),
        ("sst2", "missing.tsv", "is not there"),
    ],
)
def test_data_that_are_not_there_are_refused(task, source, message):
    with pytest.raises(ConfigError, match=message):
        load_examples(task, source, STREAMS)


def test_glue_comes_from_the_hub_by_name(monkeypatch):
    datasets = pytest.importorskip("datasets", reason="extra 'language' is not installed")
    asked = []

    def load_dataset(*names, split):
        asked.append((*names, split))
        return [{"sentence1": f"{split} a", "sentence2": "b", "label": int(split == "train"), "idx": 0}]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    examples = load_examples("mrpc", "hub", STREAMS)
    assert asked == [("nyu-mll/glue", "mrpc", "train"), ("nyu-mll/glue", "mrpc", "validation")]
    assert examples.pool == (Example(("train a", "b"), 1),)
    assert examples.items == (Example(("validation a", "b"), 0),)


def test_a_hub_out_of_reach_is_said_with_the_cure(monkeypatch):
    datasets = pytest.importorskip("datasets", reason="extra 'language' is not installed")

    def unreachable(*names, split):
        raise ConnectionError("no route")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(ConfigError, match=r"cannot be loaded \(no route\): allowed is 'made-up', a folder"):
        load_examples("sst2", "hub", STREAMS)


@pytest.mark.skipif(not SENTENCES.exists(), reason="the copies of Subj, MR, CR and TREC are not here")
@pytest.mark.parametrize(("task", "pool", "items"), [("subj", 5000, 5000), ("mr", 5331, 5331), ("trec", 2058, 146)])
def test_copies_of_files_of_sentences_are_read(task, pool, items):
    examples = load_examples(task, str(SENTENCES), STREAMS)
    assert (len(examples.pool), len(examples.items)) == pytest.approx((pool, items), rel=0.02)
    if task == "subj":
        opinion = "smart and alert , thirteen conversations about one thing is a small gem ."
        assert examples.task.words[examples.truth[(opinion,)]] == "subjective"


@pytest.mark.skipif(not SST2.exists(), reason="the copy of SST-2 is not here")
def test_a_copy_of_sst2_is_read():
    examples = load_examples("sst2", str(SST2), STREAMS)
    assert len(examples.pool) > 50_000
    assert len(examples.items) > 6_000
    assert not {e.texts for e in examples.pool} & {e.texts for e in examples.items}
    assert 0.5 < sum(e.label for e in examples.pool) / len(examples.pool) < 0.6


def test_irrelevant_sentences_of_a_file(tmp_path):
    file = tmp_path / "sentences.txt"
    file.write_text("\n".join(f"Fact  number {i} ." for i in range(16)) + "\n\nFact number 3 .\n")
    found = load_irrelevant(str(file), STREAMS.at("irrelevant"), 16)
    assert sorted(found) == sorted(f"Fact number {i} ." for i in range(16))
    assert found != sorted(found)
    with pytest.raises(ConfigError, match=r"at least 18 different lines\. It has 16"):
        load_irrelevant(str(file), STREAMS.at("irrelevant"), 18)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_irrelevant(str(tmp_path / "nowhere"), STREAMS.at("irrelevant"), 1)
    assert load_irrelevant("made-up", STREAMS.at("irrelevant"), 3) == made_up_irrelevant(STREAMS.at("irrelevant"), 3)
    file.write_bytes("A bus\u2028leaves.\r\nA\x85train.\n".encode())
    assert {*load_irrelevant(str(file), STREAMS.at("irrelevant"), 2)} == {"A bus leaves.", "A train."}
