"""Reading files of LongBench's layout, the made-up data, and the paper's tables."""

import re
import zipfile

import numpy as np
import pytest
from small_longbench import line, write

from featscope.language.longbench import TASKS, LongBenchExample, made_up, read_task
from featscope.language.longbench.made_up import made_up_count
from featscope.language.longbench.published import PUBLISHED, farthest_pair, nearest_pair, same_keep_differences
from featscope.language.retriever.passwords import CITIES, NEEDLE
from featscope.options import ConfigError
from featscope.streams import Streams


def test_a_folder_is_read_in_the_order_of_its_lines(tmp_path):
    write(tmp_path, {"trec": 2})
    first, second = read_task(str(tmp_path), "trec")
    assert first == LongBenchExample(
        "Who came on day 0?", "The old captain came on Monday.", ("Date",), ("Date", "City")
    )
    assert second.input == "Who came on day 1?"


def test_folders_below_and_zip_files_are_read_alike(tmp_path):
    flat = write(tmp_path / "flat", {"qasper": 3})
    below = write(tmp_path / "below" / "data", {"qasper": 3}).parent
    packed = tmp_path / "packed"
    packed.mkdir()
    with zipfile.ZipFile(packed / "data.zip", "w") as archive:
        archive.write(flat / "qasper.jsonl", "data/qasper.jsonl")
    read = [read_task(str(folder), "qasper") for folder in (flat, below, packed)]
    assert read[0] == read[1] == read[2]
    assert len(read[0]) == 3
    assert read[0][0].classes == ()


def test_separators_within_a_text_do_not_end_a_line(tmp_path):
    (tmp_path / "qasper.jsonl").write_text(
        '{"input": "a\u2028b", "context": "c\u0085d", "answers": ["e"]}\n', encoding="utf-8"
    )
    assert read_task(str(tmp_path), "qasper")[0].input == "a\u2028b"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answers": "the captain"}, r"line 1: answers = 'the captain': allowed is a list of one text or more"),
        ({"answers": []}, r"answers = \[\]"),
        ({"input": None}, r"input = None: allowed is a text"),
        ({"all_classes": None}, r"all_classes = None: allowed is a list of texts for trec"),
        ({"all_classes": [1]}, r"all_classes = \[1\]: allowed is null, or a list of texts"),
    ],
)
def test_a_field_that_is_wrong_is_named(tmp_path, change, message):
    write(tmp_path, {"trec": 1}, [line("trec", **change)])
    with pytest.raises(ConfigError, match=rf"trec\.jsonl, {message}|{message}.*Correct the file"):
        read_task(str(tmp_path), "trec")


@pytest.mark.parametrize(
    ("task", "change", "message"),
    [
        ("qasper", {"answers": [" "]}, r"answers = \[' '\]: allowed is texts with something in them"),
        ("trec", {"answers": ["z"], "all_classes": ["a", "b"]}, "allowed is texts that are among all_classes"),
        ("passage_count", {"answers": ["three"]}, "allowed is texts with a number in digits alone"),
        ("passage_retrieval_en", {"answers": ["7"]}, "allowed is texts with 'Paragraph' and a number"),
    ],
)
def test_right_answers_that_nothing_could_match_are_refused(tmp_path, task, change, message):
    write(tmp_path, {task: 1}, [line(task, **change)])
    with pytest.raises(ConfigError, match=message):
        read_task(str(tmp_path), task)


def test_a_blank_beside_an_answer_is_none(tmp_path):
    write(tmp_path, {"qasper": 1}, [line("qasper", answers=["", "yes"])])
    assert read_task(str(tmp_path), "qasper")[0].answers == ("yes",)


def test_a_file_that_cannot_be_read_is_named_with_the_cure(tmp_path):
    with pytest.raises(ConfigError, match=r"has no qasper\.jsonl: allowed is a folder .*Add the file"):
        read_task(str(tmp_path), "qasper")
    (tmp_path / "qasper.jsonl").write_text("{\n")
    with pytest.raises(ConfigError, match=r"qasper\.jsonl, line 1 is no JSON"):
        read_task(str(tmp_path), "qasper")
    (tmp_path / "qasper.jsonl").write_text('{"input": "a", "input": "b", "context": "c", "answers": ["b"]}\n')
    with pytest.raises(ConfigError, match=r"line 1 is no JSON \('input' is there twice\)"):
        read_task(str(tmp_path), "qasper")
    (tmp_path / "qasper.jsonl").write_text("[" * 100_000)
    with pytest.raises(ConfigError, match=r"qasper\.jsonl, line 1 is no JSON"):
        read_task(str(tmp_path), "qasper")
    (tmp_path / "qasper.jsonl").write_text('{"input": "a", "context": "\\ud800", "answers": ["b"]}\n')
    with pytest.raises(ConfigError, match=r"context = '\\ud800': allowed is a text"):
        read_task(str(tmp_path), "qasper")
    (tmp_path / "qasper.jsonl").write_text("[]\n")
    with pytest.raises(ConfigError, match=r"line 1 is '\[\]': allowed is a JSON object"):
        read_task(str(tmp_path), "qasper")
    (tmp_path / "qasper.jsonl").write_text('{"input": "a", "answers": ["b"]}\n')
    with pytest.raises(ConfigError, match=r"context = missing: allowed is a text"):
        read_task(str(tmp_path), "qasper")
    (tmp_path / "qasper.jsonl").write_text("\n")
    with pytest.raises(ConfigError, match=r"qasper\.jsonl is empty"):
        read_task(str(tmp_path), "qasper")
    (tmp_path / "qasper.jsonl").write_bytes(b"\xff\n")
    with pytest.raises(ConfigError, match=r"qasper\.jsonl is not UTF-8"):
        read_task(str(tmp_path), "qasper")
    (tmp_path / "data.zip").write_text("no zip")
    with pytest.raises(ConfigError, match=r"data\.zip is no zip file"):
        read_task(str(tmp_path), "musique")


@pytest.mark.parametrize("source", ["/no/such/folder", "./nowhere", "\0", 300 * "x", "nowhere", "a/b/c"])
def test_what_is_neither_folder_nor_name_is_refused(source):
    with pytest.raises(ConfigError, match=r"is no folder: allowed is a folder .* such as 'THUDM/LongBench'"):
        read_task(source, "qasper")


def test_a_hub_that_cannot_be_reached_is_named(monkeypatch):
    def unreachable(*where, repo_type):
        assert (where, repo_type) == (("THUDM/LongBench", "data.zip"), "dataset")
        raise FileNotFoundError("offline")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", unreachable)
    with pytest.raises(ConfigError, match=r"cannot be had from the Hub \(offline\).*name its folder"):
        read_task("THUDM/LongBench", "qasper")


def test_the_hubs_zip_is_read(monkeypatch, tmp_path):
    flat = write(tmp_path, {"qasper": 1})
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.write(flat / "qasper.jsonl", "data/qasper.jsonl")
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda *_, repo_type: str(tmp_path / "data.zip"))
    assert read_task("THUDM/LongBench", "qasper")[0].answers == ("the captain",)
    with pytest.raises(ConfigError, match=r"data\.zip has no musique\.jsonl"):
        read_task("THUDM/LongBench", "musique")


@pytest.mark.parametrize("task", TASKS)
def test_made_up_examples_have_their_answers_in_the_context(task):
    streams = Streams(0, [0])
    examples = made_up(task, streams.at("made-up"))
    assert examples == made_up(task, streams.at("made-up"))
    assert examples != made_up(task, streams.at("other"))
    assert len(examples) == made_up_count(task)
    for example in examples:
        (right,) = example.answers
        if task == "passage_count":
            paragraphs = [text.split(": ", 1)[1] for text in example.context.split("\n\n")]
            assert len(set(paragraphs)) == int(right) < len(paragraphs)
        elif task == "passage_retrieval_en":
            (named,) = [text for text in example.context.split("\n\n") if text.startswith(right + ":")]
            assert any(city in named and city in example.input for city in CITIES)
        elif task in ("gov_report", "qmsum", "multi_news"):
            assert all(sentence in example.context for sentence in right.rstrip(".").split(". "))
        else:
            asked = re.search(r"The courier went to (\w+)\.", example.context) or re.search(
                r"gate\? In (\w+)", example.input
            )
            adjective, noun = right.split()
            assert example.context.count(right) == 1
            assert NEEDLE.format(city=asked[1], adjective=adjective, noun=noun) in f" {example.context}"
        assert bool(example.classes) == (task == "trec")
        if task == "trec":
            assert right in example.classes


def test_every_printed_average_is_the_mean_of_its_row():
    rows = [(table, row) for table, found in PUBLISHED.items() for row in found.values()]
    assert {table: len(found) for table, found in PUBLISHED.items()} == {
        "llama-3.1-8b": 10,
        "mistral-nemo-12b": 9,
        "phi-3.5-mini": 9,
        "llama-3.1-8b-layers": 8,
        "llama-3.1-8b-chat": 4,
    }
    for table, row in rows:
        assert len(row.scores) == (6 if table.endswith("chat") else 14)
        assert np.mean(row.scores) == pytest.approx(row.average, abs=0.005 + 1e-9), (table, row.method)


def test_rows_are_found_by_task_and_difference():
    row = PUBLISHED["llama-3.1-8b-chat"]["GemFilter-1024"]
    assert row.of(("passage_count", "qasper", "musique")) == pytest.approx(
        [np.nan, 40.78, 30.03, (40.78 + 30.03) / 2], nan_ok=True
    )
    assert np.isnan(row.of(("passage_count",))).all()
    assert PUBLISHED["llama-3.1-8b-layers"]["layer-13"].scores == PUBLISHED["llama-3.1-8b"]["GemFilter-1024"].scores
    assert same_keep_differences("phi-3.5-mini") == pytest.approx([-0.94, -2.51, -1.18])
    assert farthest_pair("Table G.1") == pytest.approx(3.10)
    assert nearest_pair("llama-3.1-8b", 1700) == ("GemFilter-2048", "SnapKV-2048")
    assert nearest_pair("llama-3.1-8b-layers", 1024) is None


def test_a_file_that_is_corrected_is_read_anew(tmp_path):
    write(tmp_path, {"trec": 2})
    assert len(read_task(str(tmp_path), "trec")) == 2
    write(tmp_path, {"trec": 3})
    assert len(read_task(str(tmp_path), "trec")) == 3
