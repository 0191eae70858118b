"""`featscope tune-prompt`."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hybrid_models import hybrid
from small_models import tiny, word_tokenizer
from test_tune_results import EXAMPLES, TRIED

from featscope.cli import main
from featscope.language import FullCache, choose_layer, cost, tune
from featscope.language.decoder import context_of
from featscope.language.examples import Example, read_examples
from featscope.language.haystack import BUILT_IN, OTHERS, Haystack, passwords, read_texts
from featscope.language.layers import LayerChoice, needle_span
from featscope.language.load import load_model
from featscope.language.prefill import Prefill
from featscope.language.tune import TunePrompt
from featscope.options import ConfigError
from featscope.streams import Streams


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Six prompts that the small model answers."""
    _, tokenizer = load_model("retriever")
    haystack, streams, lines = Haystack(tokenizer, read_texts(BUILT_IN)), Streams(0, [0]), []
    for number in range(6):
        draws = streams.at("tune", number)
        asked, *others = passwords(draws, 1 + OTHERS)
        ids = haystack.hide(draws, 300, 0.5, asked, others).ids[0]
        lines.append(json.dumps({"prompt": tokenizer.decode(ids), "answer": asked.answer}))
    path = tmp_path_factory.mktemp("data") / "examples.jsonl"
    path.write_text("\n".join(lines) + "\n\n")
    return path


def test_ways_are_measured_on_examples_of_ones_own(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    words = ["--data", str(data), "--methods", "gemfilter", "snapkv", "--layers", "1", "2", "--keeps", "0.3", "64"]
    words += ["--max-new-tokens", "6", "--picture", str(tmp_path / "tuned.png")]
    with pytest.raises(SystemExit) as stopped:
        main(["tune-prompt", *words])
    assert stopped.value.code == 0
    out = capsys.readouterr().out
    ways = ("gemfilter, layer 1, keep 0.3", "gemfilter, layer 2, keep 64", "snapkv, keep 0.3", "snapkv, keep 64")
    assert all(way in out for way in ways)
    assert "full │ 1.00 [0.54, 1.00]" in out
    assert (tmp_path / "tuned.png").stat().st_size > 1000


def test_what_is_printed_is_what_was_written_and_nothing_is_before_answers_are_stored(
    data, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(tune, "load_model", lambda *given: (None, word_tokenizer()))
    monkeypatch.setattr(tune, "read_examples", lambda path: EXAMPLES)
    monkeypatch.setattr(tune, "tune", lambda *given: [way._replace(method=f"{way.method}[/b]") for way in TRIED])
    answers, drawn = tmp_path / "out[best].jsonl", tmp_path / "a [b].png"
    tune.tune_prompt(TunePrompt(data, answers=answers, picture=drawn))
    out = capsys.readouterr().out
    assert f"Answers: {answers}\n" in out
    assert f"Picture: {drawn}\n" in out
    assert out.count("full[/b]") == 3, "of all prompts and of two tasks"
    monkeypatch.setattr(tune, "Console", None)
    answers.unlink()
    with pytest.raises(TypeError):
        tune.tune_prompt(TunePrompt(data, answers=answers, picture=drawn, overwrite=True))
    assert len(answers.read_text().splitlines()) == 6


def test_an_example_that_is_there_again_is_read_once(data, tmp_path, capsys, monkeypatch):
    """Six that are there ten times would be as sure as sixty."""
    monkeypatch.setattr(tune, "load_model", lambda *given: (None, word_tokenizer()))
    monkeypatch.setattr(tune, "read_examples", lambda path: [*EXAMPLES] * 10)
    read = []
    monkeypatch.setattr(tune, "tune", lambda options, model, tokenizer, examples: read.extend(examples) or TRIED)
    tune.tune_prompt(TunePrompt(data, picture=tmp_path / "a.png"))
    assert read == [*EXAMPLES]
    assert f"{9 * len(EXAMPLES)} of {10 * len(EXAMPLES)} examples of {data}, which repeat" in capsys.readouterr().err


def test_times_are_printed_beside_those_of_full_attention(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setattr(tune, "load_model", lambda *given: (None, word_tokenizer()))
    monkeypatch.setattr(tune, "read_examples", lambda path: EXAMPLES)
    full, other = TRIED
    monkeypatch.setattr(tune, "tune", lambda *given: [full._replace(first=1.25), other._replace(first=0.5, last=3.0)])
    tune.tune_prompt(TunePrompt(data, picture=tmp_path / "a.png"))
    rows = [[cell.strip() for cell in line.split("│")] for line in capsys.readouterr().out.splitlines()]
    assert [row[4:8] for row in rows if len(row) == 9 and row[4].endswith(" s")] == [
        ["1.25 s", "1.00", "2.00 s", "1.00"],
        ["0.50 s", "0.40", "3.00 s", "1.50"],
    ]


def test_times_and_answers_are_those_of_each_way(monkeypatch, data):
    """A clock of our own: seconds are medians over examples, and layers that are not given are all but the last."""
    model, tokenizer = load_model("retriever")
    asked = []

    def answered(method, ids, count, tokenizer):
        selector = method.selector
        asked.append((None if selector is None else selector.layer, ids.shape[1]))
        wrong = selector is not None and selector.layer == 0
        (right,) = examples[sum(a[0] is None for a in asked) - 1].answers
        said = "nothing" if wrong else right
        times = [float(len(asked) ** 2), 3.0 * len(asked) ** 2]
        return torch.tensor(tokenizer(said, add_special_tokens=False)["input_ids"]), times

    examples = [one._replace(answers=("what no prompt says",)) for one in read_examples(data)]
    monkeypatch.setattr(tune, "timed_answer", answered)
    found = tune.tune(TunePrompt(data, methods=("gemfilter",), keeps=(0.5,)), model, tokenizer, examples)
    assert [way.layer for way in found] == [None, 0, 1, 2, 3, 4]
    assert [way.right for way in found] == [6, 0, 6, 6, 6, 6]
    middle = [((13 + way) ** 2 + (19 + way) ** 2) / 2 for way in range(6)]  # each way has every sixth turn
    assert [way.first for way in found] == middle
    assert [way.last for way in found] == [3 * of for of in middle]


def test_what_was_read_before_ctrl_c_is_not_lost(monkeypatch, data, tmp_path, capsys):
    """Of the third example the other way's time was not noted, of the fourth nothing was read: two count."""
    asked = iter(range(5))

    class Interrupted(list):
        def __getitem__(self, place):
            raise KeyboardInterrupt

    def answered(method, ids, count, tokenizer):
        if (turn := next(asked, None)) is None:
            return torch.tensor([5]), Interrupted()
        return torch.tensor([5]), [1.0 + turn, 3.0 + turn]

    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setattr(tune, "timed_answer", answered)
    stored = tmp_path / "answers.jsonl"
    options = TunePrompt(
        data, methods=("snapkv",), keeps=(64,), window=16, answers=stored, picture=tmp_path / "interrupted.png"
    )
    with pytest.raises(KeyboardInterrupt):
        tune.tune_prompt(options)
    out = capsys.readouterr()
    assert "Interrupted: what follows is of 2 of 6 prompts." in out.err
    assert "2 prompts, 95 % intervals" in out.out
    assert re.search(r"full │.*│ +2\.00 s │ +1\.00 │ +4\.00 s │ +1\.00", out.out)
    assert re.search(r"snapkv, keep 64 │.*│ +3\.00 s │ +1\.50 │ +5\.00 s │ +1\.25", out.out)
    assert options.picture.exists()
    assert len(stored.read_text().splitlines()) == 2 * 2
    asked = iter(range(1))
    with pytest.raises(KeyboardInterrupt):
        tune.tune_prompt(replace(options, overwrite=True))
    assert "Interrupted" not in capsys.readouterr().err
    assert len(stored.read_text().splitlines()) == 2 * 2


def test_the_table_is_printed_where_answers_cannot_be_written(monkeypatch, data, tmp_path, capsys):
    def full(*given, **more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tune, "store_answers", full)
    monkeypatch.setattr(tune, "timed_answer", lambda *asked, **more: (torch.tensor([5]), [1.0, 1.0]))
    options = TunePrompt(data, methods=("full",), answers=tmp_path / "answers.jsonl", picture=tmp_path / "a.png")
    with pytest.raises(OSError, match="No space left"):
        tune.tune_prompt(options)
    assert "6 prompts, 95 % intervals" in capsys.readouterr().out
    assert options.picture.exists()


def test_layers_are_those_that_keep_answers_whole(monkeypatch, data, capsys):
    model, tokenizer = load_model("retriever")
    monkeypatch.setattr(tune, "timed_answer", lambda *asked, **more: (torch.tensor([5]), [1.0, 1.0]))
    options = TunePrompt(data, methods=("gemfilter", "snapkv"), keeps=(0.5, 64), window=16)
    found = tune.tune(options, model, tokenizer, read_examples(data))
    assert [(way.method, way.layer, way.keep) for way in found[3:]] == [("snapkv", None, 0.5), ("snapkv", None, 64)]
    by_keep = {way.keep: way.layer for way in found[1:3]}
    pairs = [(one.prompt, one.answers[0]) for one in read_examples(data)]
    for keep, count in ((0.5, 150), (64, 64)):
        assert by_keep[keep] == choose_layer(model, tokenizer, pairs, count, 16, "max", 17).layer
    said = "--keeps 64: layer 3 keeps whole answers most often (100% of 6 prompts, 54% to 100% at 95 %)."
    assert said in capsys.readouterr().err


def test_layers_are_found_by_prompts_that_are_cut(data, capsys):
    model, tokenizer = load_model("retriever")
    longer = read_examples(data)
    short = [
        Example(f"The door says {word}. " + "It is late. " * 12, (word,)) for word in ("amber", "velvet", "copper")
    ]
    choices = tune._choices(TunePrompt(data, keeps=(100, 5000), window=8), model, tokenizer, [*short, *longer])
    assert choices.keys() == {100}
    assert len(choices[100].kept) == len(longer)
    said = capsys.readouterr().err
    assert f"of {len(longer)} prompts" in said
    assert "--keeps 5000: all 9 prompts by which a layer would be found are kept whole, so that none is found." in said


def test_layers_are_found_by_one_question_of_each_document(monkeypatch, data):
    model, tokenizer = load_model("retriever")
    nothing = LayerChoice(None, np.zeros((1, 6), dtype=int), np.zeros((1, 6)), 0.9)
    looked = []
    monkeypatch.setattr(tune, "probed", lambda model, hidden, *rule: looked.extend(hidden) or [nothing] * 3)
    asked = [one._replace(document=one.prompt[:20]) for one in read_examples(data) for _ in range(3)]
    tune._choices(TunePrompt(data, window=8), model, tokenizer, asked)
    assert len(looked) == len({one.document for one in asked})


def test_a_prompt_that_is_there_twice_is_no_more_evidence_than_once(monkeypatch, data):
    monkeypatch.setattr(tune, "timed_answer", lambda *asked, **more: (torch.tensor([5]), [1.0, 1.0]))
    examples = [*read_examples(data)[:2]] * 10
    (full,) = tune.tune(TunePrompt(data, methods=("full",)), *load_model("retriever"), examples)
    assert full.prompts == "20 prompts on 2 documents"


def test_a_token_that_is_padding_elsewhere_may_stand_in_a_prompt(data, tmp_path):
    model, tokenizer = load_model("retriever")
    lines = [json.loads(line) for line in data.read_text().splitlines() if line]
    lines[0]["prompt"] = f"Here is {tokenizer.pad_token} in it. {lines[0]['prompt']}"
    path = tmp_path / "padding.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = TunePrompt(path, methods=("snapkv",), keeps=(0.5,), max_new_tokens=8)
    found = tune.tune(options, model, tokenizer, read_examples(path))
    assert [len(way.answers) for way in found] == [6, 6]


def test_where_no_layer_keeps_an_answer_whole_all_are_tried(monkeypatch, data, capsys):
    model, tokenizer = load_model("retriever")
    monkeypatch.setattr(tune, "timed_answer", lambda *asked, **more: (torch.tensor([5]), [1.0, 1.0]))
    starts = [(one, one.prompt.index(" ", 50) + 1) for one in read_examples(data)]
    long = [
        one._replace(answers=(one.prompt[at : one.prompt.index(" ", at + 350)],)) for one, at in starts
    ]  # > 40 tokens
    options = TunePrompt(data, methods=("gemfilter",), keeps=(40,), window=16, max_new_tokens=400)
    assert [way.layer for way in tune.tune(options, model, tokenizer, long)] == [None, 0, 1, 2, 3, 4]
    assert "--keeps 40: no layer keeps a whole answer." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("able", "wanted"), [((1, 3, 4), [1, 4]), ((3,), [3]), ((0, 2), (0, 2)), ((None,), (None,)), ((), ())]
)
def test_layers_worth_a_try_are_among_those_that_a_method_can_choose_by(able, wanted):
    whole = np.array([[0.0, 1, 0, 1, 1]] * 9 + [[0, 0, 0, 0, 1]])
    choice = LayerChoice(1, np.zeros((10, 5), dtype=int), whole, 0.9)
    assert tune._worth_a_try(able, choice) == wanted
    assert tune._worth_a_try(able, None) == able


def test_ways_that_choose_by_another_rule_are_tried_at_all_layers(monkeypatch, data):
    model, tokenizer = load_model("retriever")
    monkeypatch.setattr(tune, "timed_answer", lambda *asked, **more: (torch.tensor([5]), [1.0, 1.0]))
    options = TunePrompt(data, methods=("fastkv",), keeps=(64,), window=16)
    assert [way.layer for way in tune.tune(options, model, tokenizer, read_examples(data))] == [None, 0, 1, 2, 3, 4]
    found = {name: tune._by_last_row(options, model, name, 2) for name in ("gemfilter", "middle-row", "fastkv")}
    assert found == {"gemfilter": True, "middle-row": False, "fastkv": False}


def test_a_smaller_model_chooses_for_speculative_prefill(monkeypatch, data):
    model, tokenizer = load_model("retriever")
    asked = []
    monkeypatch.setattr(tune, "_asked", lambda reader, group, *others: asked.append(reader) or _nothing(group))
    options = TunePrompt(data, methods=("speculative",), keeps=(0.5, 64.0), draft="retriever")
    found = tune.tune(options, model, tokenizer, read_examples(data)[:1])
    assert [way.about() for way in found] == ["full", "speculative, keep 0.5", "speculative, keep 64"]
    _, half, some = asked
    assert half.selector.draft is some.selector.draft is not model
    assert isinstance(some.selector.keep, int)


def test_layers_are_looked_for_only_where_one_sees_a_whole_prompt(data):
    words = " ".join(f"w{number}" for number in range(3, 63))
    asked = TunePrompt(data, window=8), hybrid("windowed-mistral"), word_tokenizer()
    assert tune._choices(*asked, [Example(words, ("w20 w21",))]) == {}


def test_layers_are_found_by_answers_that_are_words_of_their_own(data):
    model, tokenizer = load_model("retriever")
    one = Example("I know the door is open. Is it closed?", ("no",))
    assert tune._choices(TunePrompt(data, window=2), model, tokenizer, [one]) == {}


def test_a_layer_that_is_said_to_keep_answers_is_one_that_is_tried(monkeypatch, data, capsys):
    model, tokenizer = load_model("retriever")
    whole = np.array([[0, 0, 0, 0.0, 0, 1], [0, 0, 0, 1, 0, 1]])
    found = LayerChoice(None, np.zeros(whole.shape, dtype=int), whole, 0.9)
    monkeypatch.setattr(tune, "probed", lambda *given: [found])
    tune._choices(TunePrompt(data, keeps=(0.5,), window=8), model, tokenizer, read_examples(data))
    assert "layer 3 keeps whole answers most often (50% of 2 prompts" in capsys.readouterr().err


def _apart(examples):
    """No prompt twice."""
    return [one._replace(prompt=one.prompt.replace("<s>", f"<s>Text {i}. ")) for i, one in enumerate(examples)]


def test_layers_are_found_by_examples_of_the_whole_file(monkeypatch, data):
    model, tokenizer = load_model("retriever")
    nothing = LayerChoice(None, np.zeros((1, 6), dtype=int), np.zeros((1, 6)), 0.9)
    looked = []
    monkeypatch.setattr(tune, "probed", lambda model, hidden, *rule: looked.extend(hidden) or [nothing] * 3)
    many = _apart([one for one in read_examples(data) for _ in range(5)])
    tune._choices(TunePrompt(data, window=8), model, tokenizer, many)
    spread = [*many[::2], *many[1::2]][:20]
    assert [ids[0].tolist() for ids, _ in looked] == [tokenizer(one.prompt)["input_ids"] for one in spread]


@pytest.mark.parametrize("chat", [False, True])
def test_layers_are_found_by_prompts_as_they_are_read(monkeypatch, data, chat):
    """A chat template has said already what a text begins with."""
    nothing = LayerChoice(None, np.zeros((1, 4), dtype=int), np.zeros((1, 4)), 0.9)
    looked = []
    monkeypatch.setattr(tune, "probed", lambda model, hidden, *rule: looked.extend(hidden) or [nothing] * 3)
    tune._choices(TunePrompt(data, window=1, chat=chat), tiny(), word_tokenizer(), [Example("w5 w6 w7", ("w6",))])
    ((ids, span),) = looked
    assert (ids.tolist(), span) == (([[5, 6, 7]], range(1, 2)) if chat else ([[1, 5, 6, 7]], range(2, 3)))


def test_a_keep_that_keeps_prompts_whole_is_said(monkeypatch, data, capsys):
    monkeypatch.setattr(tune, "_asked", lambda reader, group, *others: _nothing(group))
    rule = {"window": 4, "kernel": 5, "pool": "avg"}
    asked = [Example(" ".join(["w5"] * (count - 1)), ("w5",)) for count in (30, 40)]  # and a first token
    tune.tune(TunePrompt(data, methods=("snapkv",), keeps=(29, 30, 40), **rule), tiny(), word_tokenizer(), asked)
    said = [line for line in capsys.readouterr().err.splitlines() if line]
    assert said == ["--keeps 30 keeps 1 of 2 prompts whole.", "--keeps 40 keeps 2 of 2 prompts whole."]


def test_no_more_examples_are_tokenised_than_layers_are_found_by(monkeypatch, data):
    model, tokenizer = load_model("retriever")
    nothing = LayerChoice(None, np.zeros((1, 6), dtype=int), np.zeros((1, 6)), 0.9)
    looked, spans = [], []
    monkeypatch.setattr(tune, "probed", lambda model, hidden, *rule: looked.extend(hidden) or [nothing] * 3)
    monkeypatch.setattr(tune, "needle_span", lambda *given, **rule: spans.append(given) or needle_span(*given, **rule))
    late = Example("<s>It is cold, and the answer is a cat", ("a cat",))  # in the window
    tune._choices(TunePrompt(data, window=8), model, tokenizer, _apart(read_examples(data) * 20))
    assert len(looked) == len(spans) == 20
    looked.clear()
    mixed = [one for early in read_examples(data) * 5 for one in (late, late, early)]
    tune._choices(TunePrompt(data, window=8), model, tokenizer, _apart(mixed))
    assert len(looked) == 20, "others stand in for those whose answer is in the window"


def test_answers_that_so_few_tokens_cannot_give_are_said_and_refused_if_all_are(data, capsys):
    model, tokenizer = load_model("retriever")
    long, short = Example("A short one.", ("soggy kangaroo " * 20,)), Example("A short one.", ("x",))
    options = TunePrompt(data, methods=(), max_new_tokens=4)
    tune.tune(options, model, tokenizer, [long, short])
    assert "1 of 2 answers have more tokens than --max-new-tokens 4" in capsys.readouterr().err
    with pytest.raises(ConfigError, match=r"max_new_tokens = 4 .* the shortest answer"):
        tune.tune(options, model, tokenizer, [long])
    as_said = Example("A short one.", (" GOLDEN   ANCHOR ",))
    tune._require_answers(TunePrompt(data, max_new_tokens=8), tokenizer, [as_said])
    assert as_said.is_right("golden anchor")
    assert Example("A short one.", ("cafe\u0301",)).forms[0] == "caf\u00e9"


def test_prompts_are_put_into_the_chat_template_if_asked_for(data):
    _, tokenizer = load_model("retriever")
    model, plain = tiny(), word_tokenizer()
    plain.chat_template = "{% for m in messages %}w11 {{ m.content }} w12{% endfor %}"
    one, with_document = Example("w5 w6", ("w6",)), Example("w5 w6 w7", ("w6",), document="w5 w6")
    tokens = [
        [ids.tolist() for ids in tune._tokens(plain, tune._as_said(plain, example), model, special=False)]
        for example in (one, with_document)
    ]
    assert tokens == [[[[11, 5, 6, 12]]], [[[11, 5, 6]], [[7, 12]]]]
    plain.chat_template = "{% for m in messages %}w11 {{ m.content | upper }} w12{% endfor %}"
    with pytest.raises(ConfigError, match="the chat template changes a document"):
        tune._as_said(plain, with_document)
    with pytest.raises(ConfigError, match=r"has no chat template\. Leave --chat out"):
        tune._as_said(tokenizer, one)


def test_a_document_is_read_once_for_all_of_its_questions(data, monkeypatch):
    model, tokenizer = load_model("retriever")
    document = "".join(f" In {city} {thing} opens the gate." for city, thing in (("Bern", "a hat"), ("Brno", "a cat")))
    asks = [
        (f"\nWhich words open the gate? In {city}", thing) for city, thing in (("Bern", "a hat"), ("Brno", "a cat"))
    ]
    hay = " The library has one reading room." * 20
    examples = [Example(hay + document + ask, (thing,), document=hay + document) for ask, thing in asks]
    read, passes = Prefill.read, []
    monkeypatch.setattr(
        Prefill, "read", lambda self, *given: (passes.append(type(self).__name__), read(self, *given))[1]
    )
    options = TunePrompt(data, methods=("gemfilter", "snapkv"), layers=(2,), keeps=(0.5,), max_new_tokens=4)
    found = tune.tune(options, model, tokenizer, examples)
    assert passes == ["FullCache", "GemFilter"]
    alone = tune.tune(options, model, tokenizer, [Example(one.prompt, one.answers) for one in examples])
    assert [[one.said for one in way.answers] for way in found] == [[one.said for one in way.answers] for way in alone]
    assert passes == ["FullCache", "GemFilter"]


def test_a_share_of_reading_the_document_is_in_each_answer(monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr(cost, "_now", lambda: float(next(clock)))
    model, _ = load_model("retriever")
    document, question = torch.arange(3, 60)[None], torch.arange(3, 9)[None]
    (_, first), (_, second) = cost.timed_answers(FullCache(model), document, [question, question], 1)
    assert first == second == [1.5]  # a tick of reading for two questions, and one for the answer


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ("nothing",)}, "methods = .*'nothing'.* allowed is some of full, gemfilter, snapkv"),
        ({"methods": ("gemfilter", "question-kept")}, "methods = .* allowed is some of full, gemfilter, snapkv"),
        ({"keeps": (0.0,)}, "keeps = .* whole numbers of tokens"),
        ({"give_up": 1.0}, "give_up"),
        ({"picture": "a.txt"}, "a file .png"),
        ({"answers": "no/such/folder/a.jsonl"}, "answers = .* a file in a folder that is there"),
        ({"answers": "/"}, "answers = .* a file that is not there yet"),
        ({"picture": "no/such/folder/a.png"}, "picture = .* a file in a folder that is there"),
        ({"keeps": (1.7,)}, "keeps = .* whole numbers of tokens"),
        ({"draft": "retriever"}, "draft = 'retriever' .* no value without the method speculative"),
        ({"methods": ("speculative",)}, "draft = None is out of range: allowed is a folder"),
        ({"keeps": (float("nan"),)}, "keeps = .* whole numbers of tokens"),
        ({"redact": True}, "redact = True .* Give --answers FILE"),
        ({"methods": ("h2o",), "layers": (3,)}, r"layers = \(3,\) .* no value with --methods h2o\. No layer chooses"),
        ({"methods": ("h2o", "full"), "kernel": 7}, "kernel = 7 .* no value with --methods h2o full. No scores are"),
        ({"methods": ("h2o",), "pool": "max"}, "pool = 'max' .* no value with --methods h2o"),
        ({"methods": (), "keeps": (64,)}, r"keeps = \(64,\) .* no value with --methods full\. All is kept there"),
        ({"methods": ("full",), "window": 3}, "window = 3 .* no value with --methods full"),
    ],
)
def test_wrong_options_say_what_is_allowed(options, message, data):
    options = {name: Path(given) if name in ("picture", "answers") else given for name, given in options.items()}
    with pytest.raises(ConfigError, match=message):
        TunePrompt(data, **options)


def test_answers_never_replace_the_prompts_nor_a_file_unasked(data, tmp_path):
    with pytest.raises(ConfigError, match=r"answers = .* another file than --data and --picture"):
        TunePrompt(data, answers=data, overwrite=True)
    with pytest.raises(ConfigError, match="another file than --data"):
        TunePrompt(data, answers=data.parent / ".." / data.parent.name / data.name, overwrite=True)
    (tmp_path / "said.jsonl").touch()
    with pytest.raises(ConfigError, match=r"a file that is not there yet\. Choose another, or add --overwrite"):
        TunePrompt(data, answers=tmp_path / "said.jsonl")
    assert TunePrompt(data, answers=tmp_path / "said.jsonl", overwrite=True)


def test_a_picture_that_is_named_replaces_none_unasked(data, tmp_path, monkeypatch):
    drawn = tmp_path / "a.png"
    drawn.touch()
    with pytest.raises(ConfigError, match=r"picture = .* is not there yet\. Choose another, or add --overwrite"):
        TunePrompt(data, picture=drawn)
    assert TunePrompt(data, picture=drawn, overwrite=True)
    monkeypatch.chdir(tmp_path)
    Path("tune-prompt.png").touch()
    assert TunePrompt(data)


@pytest.mark.parametrize(
    ("prompts", "options", "message"),
    [
        (["long " * 300, "short"], {}, r"window = 32 .* < \d+, as the shortest prompt, example 2, has"),
        (["long " * 300], {}, r"keeps = .* more than window = 32 tokens of each, as the shortest"),
        (["long " * 300], {"layers": (99,), "keeps": (64,)}, "layers = .* the model's layers"),
        (
            ["long " * 9000],
            {"keeps": (64,)},
            r"data = .* prompts of at most \d+ tokens, as the model reads \d+, 32 of which are new; example 1",
        ),
    ],
)
def test_what_would_end_the_run_later_is_refused_before_anything_is_measured(
    prompts, options, message, data, monkeypatch
):
    model, tokenizer = load_model("retriever")
    monkeypatch.setattr(tune, "timed_answer", None)
    with pytest.raises(ConfigError, match=message):
        tune.tune(TunePrompt(data, **options), model, tokenizer, [Example(one, ("x",)) for one in prompts])


def test_a_share_is_as_many_tokens_as_methods_keep(data):
    model, _ = load_model("retriever")
    options = TunePrompt(data, keeps=(0.1,), window=32)
    tune._require_room(options, model, [321])  # of which 33 are kept
    with pytest.raises(ConfigError, match=r"keeps = \(0\.1,\) .* more than window = 32 tokens of each"):
        tune._require_room(options, model, [320])


def test_new_tokens_have_room_behind_the_longest_prompt(data):
    model, _ = load_model("retriever")
    options, context = TunePrompt(data, max_new_tokens=10), context_of(model)
    tune._require_room(options, model, [400, context - 10])
    with pytest.raises(ConfigError, match=rf"prompts of at most {context - 10} tokens, as the model reads {context}"):
        tune._require_room(options, model, [400, context - 9])
    with pytest.raises(ConfigError, match=rf"max_new_tokens = {context} is out of range: allowed is < {context}, the"):
        tune._require_room(TunePrompt(data, max_new_tokens=context), model, [400])


def test_full_attention_alone_needs_no_keep(data):
    model, tokenizer = load_model("retriever")
    (found,) = tune.tune(TunePrompt(data, methods=()), model, tokenizer, [Example("A short one.", ("x",))])
    assert (found.method, found.of) == ("full", 1)


def test_gemfilter_keeps_the_window_as_generate_does(data, monkeypatch):
    model, tokenizer = load_model("retriever")
    built = []
    monkeypatch.setattr(tune, "_asked", lambda reader, group, *others: built.append(reader) or _nothing(group))
    for window in (16, 0):
        options = TunePrompt(data, methods=("gemfilter",), layers=(3,), keeps=(64,), window=window)
        tune.tune(options, model, tokenizer, read_examples(data)[:1])
        assert built[-1].selector.window == window
    with pytest.raises(ConfigError, match="window = 0 is out of range: allowed is >= 1"):
        TunePrompt(data, methods=("gemfilter", "snapkv"), window=0)


def _nothing(group):
    return [(torch.zeros(1, dtype=torch.long), [0.0, 0.0]) for _ in group]


def test_only_layers_that_a_method_can_choose_by_are_tried(data, capsys):
    options = TunePrompt(data)
    gemma = hybrid("gemma2")  # layers 0 and 2 see windows of 16
    assert list(tune._layers(options, gemma, "gemfilter", 60)) == [1]
    assert list(tune._layers(options, gemma, "promptdistill", 60)) == [3]
    assert list(tune._layers(options, gemma, "snapkv", 60)) == [None]
    assert not capsys.readouterr().err
    assert not list(tune._layers(options, hybrid("windowed-mistral"), "promptdistill", 60))
    assert "promptdistill is left out: no layer" in capsys.readouterr().err


def test_models_with_settings_of_their_own_are_asked_for_one_greedy_answer(tmp_path):
    model, tokenizer = tiny(), word_tokenizer()
    examples = [Example(" ".join(f"w{3 + (7 * i + j) % 90}" for i in range(60)), ("w5",)) for j in range(2)]
    document = " ".join(f"w{3 + i}" for i in range(70))
    examples += [Example(f"{document} w9", ("w6",), document=document)]
    (tmp_path / "data.jsonl").write_text("")
    options = TunePrompt(tmp_path / "data.jsonl", layers=(2,), keeps=(40,), max_new_tokens=5)
    expected = tune.tune(options, model, tokenizer, examples)
    model.generation_config.update(num_beams=3, return_dict_in_generate=True)
    found = tune.tune(options, model, tokenizer, examples)
    assert [way.answers for way in found] == [way.answers for way in expected]
