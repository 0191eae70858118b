"""`featscope generate`."""

import json
import re
import shutil
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch
from small_models import saved_draft, tiny, word_tokenizer
from test_prefill import NormPress

from featscope.cli import main
from featscope.language import Cost, Prefill, Press, methods
from featscope.language.command import marked
from featscope.language.keep import keep_of
from featscope.language.load import load_model, load_tokenizer
from featscope.language.methods import Listed, Reading
from featscope.language.selection import kept_share
from featscope.options import ConfigError


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    tiny().save_pretrained(folder)
    word_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture
def prompt_file(tmp_path):
    file = tmp_path / "prompt.txt"
    file.write_text(" ".join(f"w{3 + i % 90}" for i in range(200)) + "\n")
    return str(file)


def generate(*words: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(["generate", *words])
    return stopped.value.code


def beside(method: str) -> list[str]:
    """What a method cannot do without."""
    by_layer = ["--layer", "2"] if method in ("gemfilter", "fastkv", "promptdistill") else []
    return by_layer + (["--draft", saved_draft()] if method == "speculative" else [])


@pytest.mark.parametrize(
    "method", ["gemfilter", "snapkv", "h2o", "full", "fastkv", "promptdistill", "adakv", "speculative"]
)
def test_every_method_answers_and_shows_what_it_kept(method, model_folder, prompt_file, capsys):
    options = ["--model", model_folder, "--prompt", prompt_file, "--method", method, *beside(method)]
    options += [] if method == "full" else ["--keep", "40"]
    assert generate(*options, "--max-new-tokens", "4", "--show-kept") == 0
    answer, shown = capsys.readouterr().out.split("\n", 1)
    assert len(answer.split()) == 4
    if method == "full":
        assert "201 of 201 tokens kept (100.0%)" in shown  # 200 words, and <s>
    else:
        assert "40 of 201 tokens kept (19.9%)" in shown
        assert "⟦" in shown


@pytest.mark.parametrize("method", ["gemfilter", "snapkv", "h2o", "fastkv", "promptdistill", "adakv", "speculative"])
def test_a_share_of_the_prompt_is_kept(method, model_folder, prompt_file, capsys):
    options = ["--model", model_folder, "--prompt", prompt_file, "--method", method, "--keep", "0.2", *beside(method)]
    assert generate(*options, "--max-new-tokens", "4", "--show-kept") == 0
    assert "41 of 201 tokens kept (20.4%)" in capsys.readouterr().out


@pytest.mark.parametrize("method", ["gemfilter", "promptdistill", "speculative"])
def test_as_much_is_kept_as_a_cost_allows(method, model_folder, prompt_file, capsys):
    options = ["--model", model_folder, "--prompt", prompt_file, "--method", method, *beside(method)]
    assert generate(*options, "--cost", "0.9", "--max-new-tokens", "4", "--show-kept") == 0
    model, _ = load_model(model_folder)
    reading = Reading(2, Cost(0.9), 32, draft=saved_draft() if method == "speculative" else None)
    ids = torch.tensor([[1, *(3 + i % 90 for i in range(200))]])
    count = reading.build("question-kept" if method == "gemfilter" else method, model).select(ids).shape[1]
    assert 32 < count < 201
    assert f"{count} of 201 tokens kept" in capsys.readouterr().out


def test_a_whole_number_is_tokens_however_it_is_written(model_folder, prompt_file, capsys):
    options = ["--model", model_folder, "--prompt", prompt_file, "--layer", "2", "--max-new-tokens", "2", "--show-kept"]
    assert generate(*options, "--keep", "40.0") == 0
    assert "40 of 201 tokens kept" in capsys.readouterr().out
    assert generate(*options, "--keep", "300.0") == 0
    assert "--keep 300 keeps all of them" in capsys.readouterr().err
    assert [keep_of(number) for number in (64.0, 1.0, 0.5, 1.7, 10**400)] == [64, 1, 0.5, 1.7, 10**400]
    assert isinstance(keep_of(1.0), int)


def test_the_answer_is_that_of_the_method(model_folder, prompt_file, capsys):
    from featscope.language import GemFilter

    model, tokenizer = load_model(model_folder)
    ids = torch.tensor([[1, *(3 + i % 90 for i in range(200))]])
    out = GemFilter(model, 2, 40).generate(ids, max_new_tokens=4, do_sample=False)
    words = ["--model", model_folder, "--prompt", prompt_file, "--layer", "2", "--keep", "40", "--max-new-tokens", "4"]
    assert generate(*words) == 0
    assert capsys.readouterr().out.split() == tokenizer.decode(out[0, 201:]).split()


def test_full_attention_refuses_prompts_beyond_the_context(model_folder, tmp_path, capsys):
    (tmp_path / "long.txt").write_text("w3 " * 300)
    words = ["--model", model_folder, "--prompt", str(tmp_path / "long.txt"), "--method", "full"]
    assert generate(*words) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "has 301 tokens" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--layer", "9"], "--layer = 9 is out of range: allowed is 0 to 3"),
        ([], "--layer = None is out of range: allowed is a layer's number, from 0. choose_layer"),
        (["--layer", "2", "--keep", "0"], "--keep = 0 is out of range"),
        (["--layer", "2", "--model", "./nowhere"], "--model = './nowhere' is no folder"),
        (["--layer", "2", "--prompt", "nothing.txt"], "--prompt = 'nothing.txt' is out of range"),
        (["--method", "snapkv", "--layer", "2"], "--layer = 2 is out of range: allowed is no value with"),
        (["--method", "full", "--kernel", "7"], "--kernel = 7 is out of range: allowed is no value with"),
        (["--method", "full", "--keep", "64"], "--keep = 64 is out of range: allowed is no value with --method full."),
        (["--method", "full", "--window", "3"], "--window = 3 is out of range: allowed is no value with --method full"),
        (["--method", "h2o", "--pool", "max"], "--pool = 'max' is out of range: allowed is no value with"),
        (["--kernel", "4"], "--kernel = 4 is out of range: allowed is an odd number >= 1"),
        (["--method", "h2o", "--window", "0"], "--window = 0 is out of range: allowed is 1 to 1023, less than keep"),
        (["--layer", "2", "--keep", "32"], "--window = 32 is out of range: allowed is 0 to 31, less than keep"),
        (["--method", "middle-row"], "--method = 'middle-row' is out of range: allowed is full, gemfilter, snapkv"),
        (["--layer", "2", "--kernel", "4"], "--kernel = 4 is out of range: allowed is an odd number >= 1"),
        (["--method", "snapkv", "--keep", "1"], "--keep = 1 is out of range: allowed is 2 to 1048576"),
        (["--layer", "2", "--keep", "1.5"], "--keep = 1.5 is out of range: allowed is 2 to 1048576 (tokens), or a sh"),
        (["--layer", "2", "--keep", "nan"], "--keep = nan is out of range"),
        (["--layer", "2", "--keep", "0.1"], "featscope: --keep = 0.1 of 201 tokens is 21: allowed is more than the 32"),
        (["--method", "h2o", "--keep", "0.1"], "featscope: --keep = 0.1 of 201 tokens is 21: allowed is more than"),
        (["--layer", "2", "--keep", "inf"], "--keep = inf is out of range"),
        (["--layer", "2", "--cost", "0.9", "--keep", "64"], "--cost = 0.9 is out of range: allowed is no value beside"),
        (["--layer", "2", "--cost", "0"], "--cost = 0.0 is out of range: allowed is a share in (0, 1]"),
        (["--layer", "2", "--cost", "nan"], "--cost = nan is out of range"),
        (["--layer", "2", "--cost", "0.1"], "featscope: --cost = 0.1 is spent before a token is kept"),
        (["--layer", "2", "--cost", "0.55"], "featscope: --cost = 0.55 of 201 tokens is"),
        (["--method", "full", "--cost", "0.5"], "allowed is no value with --method full. It keeps all."),
        (["--method", "snapkv", "--cost", "0.5"], "--cost = 0.5 is out of range: allowed is no value with --method"),
        (["--layer", "2", "--method", "fastkv", "--cost", "0.5"], "--cost = 0.5 is out of range: allowed is no value"),
        (
            ["--layer", "2", "--draft", "a"],
            "--draft = 'a' is out of range: allowed is no value without the method spec",
        ),
        (["--method", "speculative"], "--draft = None is out of range: allowed is a folder, or a model of the Hub"),
        (["--method", "speculative", "--draft", "./nowhere"], "--draft = './nowhere' is no folder"),
        (["--method", "speculative", "--draft", "retriever"], "--draft = LlamaForCausalLM has"),
    ],
)
def test_wrong_options_end_with_what_is_allowed(words, message, model_folder, prompt_file, capsys):
    given = ["--model", model_folder, "--prompt", prompt_file]
    assert generate(*given, *words) == 2
    error = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert message in error
    assert "Traceback" not in error


def test_a_draft_of_another_tokenizer_is_refused(model_folder, prompt_file, tmp_path, capsys):
    shutil.copytree(saved_draft(), tmp_path / "draft")
    words = json.loads((tmp_path / "draft" / "tokenizer.json").read_text())
    known = words["model"]["vocab"]
    known["w3"], known["w4"] = known["w4"], known["w3"]
    (tmp_path / "draft" / "tokenizer.json").write_text(json.dumps(words))
    options = ["--model", model_folder, "--prompt", prompt_file, "--method", "speculative", "--keep", "40"]
    assert generate(*options, "--draft", str(tmp_path / "draft")) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "allowed is a model of the same tokenizer. Its tokens are others." in error


def test_a_lost_question_is_said_and_can_be_kept(model_folder, prompt_file, capsys):
    options = ["--model", model_folder, "--prompt", prompt_file, "--layer", "2", "--max-new-tokens", "2", "--show-kept"]
    lost = generate(*options, "--keep", "5", "--window", "0")
    first = capsys.readouterr()
    assert lost == 0
    assert "--window N keeps" in first.err
    assert generate(*options, "--keep", "5", "--window", "3") == 0
    second = capsys.readouterr()
    assert "--window" not in second.err
    last_words = " ".join(f"w{3 + i % 90}" for i in range(197, 200))
    assert f"{last_words}⟧" in " ".join(second.out.split())


def test_times_are_end_to_end(model_folder, prompt_file, capsys):
    options = ["--model", model_folder, "--prompt", prompt_file, "--keep", "40"]
    assert generate(*options, "--layer", "2", "--max-new-tokens", "4") == 0
    found = re.search(
        r"came after (\S+) s \((\S+) s to choose, (\S+) s to read the choice\), the last of 4 after (\S+) s",
        capsys.readouterr().err,
    )
    first, chose, read, last = map(float, found.groups())
    assert chose + read == pytest.approx(first, abs=0.011)
    assert last >= first > 0
    assert generate(*options, "--method", "h2o", "--max-new-tokens", "1") == 0
    assert re.search(r"The first new token came after \S+ s\.\n", capsys.readouterr().err)


def test_a_chat_template_is_used_if_asked_for(model_folder, prompt_file, tmp_path, capsys):
    options = ["--prompt", prompt_file, "--layer", "2", "--keep", "40", "--chat"]
    assert generate("--model", model_folder, *options) == 2
    assert "has no chat template. Leave --chat out" in " ".join(capsys.readouterr().err.split())
    shutil.copytree(model_folder, tmp_path / "chat")
    tokenizer = word_tokenizer()
    said = "{% for m in messages %}{{ m.content }} </s> {% endfor %}"
    tokenizer.chat_template = f"<s> {said}{{% if add_generation_prompt %}}w9{{% endif %}}"
    tokenizer.save_pretrained(tmp_path / "chat")
    assert generate("--model", str(tmp_path / "chat"), *options, "--max-new-tokens", "2", "--show-kept") == 0
    out = capsys.readouterr().out
    assert "</s> w9⟧" in out
    assert "40 of 203 tokens kept" in out


def test_a_method_that_does_not_say_what_it_kept_answers_too(model_folder, prompt_file, capsys, monkeypatch):
    pressed = Listed("press", "A press.", lambda of, model: Prefill(model, cache=Press(NormPress())), by_layer=False)
    monkeypatch.setattr(methods, "PEERS", methods.PEERS | {"press": pressed})
    options = ["--model", model_folder, "--prompt", prompt_file, "--method", "press", "--keep", "40", "--show-kept"]
    assert generate(*options, "--max-new-tokens", "4") == 0
    said = capsys.readouterr()
    assert len(said.out.split()) == 4
    assert "What --method press kept is not known: its cache does not say." in said.err
    assert generate(*options[:-1], "--max-new-tokens", "4") == 0
    assert "is not known" not in capsys.readouterr().err


def test_an_empty_prompt_is_refused(model_folder, tmp_path, capsys):
    (tmp_path / "empty.txt").write_text("\n\n")
    assert generate("--model", model_folder, "--prompt", str(tmp_path / "empty.txt"), "--layer", "2") == 2
    assert "is empty: allowed is a file with text" in capsys.readouterr().err


def test_a_prompt_is_read_as_it_stands_or_refused(model_folder, tmp_path, capsys, monkeypatch):
    asked = []

    def read(tokenizer, text, *, special):
        asked.append(text)
        raise ConfigError("enough")

    monkeypatch.setattr("featscope.language.command.prompt_tokens", read)
    (tmp_path / "p.txt").write_text("Answer:\n\n")
    assert generate("--model", model_folder, "--prompt", str(tmp_path / "p.txt"), "--layer", "2") == 2
    assert asked == ["Answer:\n"]
    (tmp_path / "marked.txt").write_bytes(b"\xef\xbb\xbfAnswer:\n")  # as editors on Windows write it
    assert generate("--model", model_folder, "--prompt", str(tmp_path / "marked.txt"), "--layer", "2") == 2
    assert asked[1:] == ["Answer:"]
    (tmp_path / "latin.txt").write_bytes("café".encode("latin-1"))
    assert generate("--model", model_folder, "--prompt", str(tmp_path / "latin.txt"), "--layer", "2") == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_folder_without_a_model_is_refused(tmp_path, prompt_file, capsys):
    assert generate("--model", str(tmp_path), "--prompt", prompt_file, "--layer", "2") == 2
    assert "its config.json cannot be read" in capsys.readouterr().err


def test_shares_count_sets():
    kept = torch.tensor([[[[-1, 0, 3]], [[1, 2, 3]]]])
    np.testing.assert_allclose(kept_share(kept, 5), [0.5, 0.5, 0.5, 1.0, 0.0])
    windowed = torch.cat([kept, torch.full_like(kept, -1)])  # a layer that keeps its window as it does
    np.testing.assert_allclose(kept_share(windowed, 5), [0.5, 0.5, 0.5, 1.0, 0.0])
    assert not kept_share(windowed[1:], 5).any()


def test_long_gaps_are_shortened_and_short_ones_shown():
    share = np.zeros(100)
    share[[0, 1, 10]] = 1, 1, 0.5
    shown = marked(word_tokenizer(), list(range(100)), share, colour=False).plain
    assert shown.startswith("⟦")
    assert "… 65 tokens …" in shown
    coloured = marked(word_tokenizer(), list(range(100)), share, colour=True)
    assert "⟦" not in coloured.plain
    assert len([span for span in coloured.spans if "yellow" in str(span.style)]) == 2


@pytest.mark.parametrize(
    "own", [{"num_beams": 4}, {"num_return_sequences": 2, "num_beams": 2}, {"return_dict_in_generate": True}]
)
def test_the_answer_is_the_greedy_one_whatever_the_models_own_settings_are(
    own, model_folder, prompt_file, tmp_path, capsys
):
    with_own(shutil.copytree(model_folder, tmp_path / "own"), own)
    options = ["--prompt", prompt_file, "--layer", "2", "--keep", "40", "--max-new-tokens", "6"]
    answers = []
    for model in (model_folder, str(tmp_path / "own")):
        assert generate("--model", model, *options) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]


def test_texts_at_which_a_model_stops_are_known(tmp_path, prompt_file, capsys):
    """By commands that generate; the small model's tokenizer is of a kind that transformers can look into."""
    weights = Path(str(files("featscope_retriever") / "weights"))
    options = ["--prompt", prompt_file, "--layer", "3", "--keep", "100", "--max-new-tokens", "8"]
    assert generate("--model", str(weights), *options) == 0
    answer = capsys.readouterr().out.rstrip("\n")
    own = shutil.copytree(weights, tmp_path / "own")
    with_own(own, {"stop_strings": [answer[4:6]]})
    assert generate("--model", str(own), *options) == 0
    said = capsys.readouterr().out.rstrip("\n")
    assert answer[4:6] in said
    assert answer.startswith(said)
    assert len(said) < len(answer)
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps({"prompt": Path(prompt_file).read_text().rstrip("\n"), "answer": "w3"}) + "\n")
    words = ["--data", str(data), "--model", str(own), "--layers", "3", "--keeps", "100", "--methods", "gemfilter"]
    words += ["--max-new-tokens", "8", "--picture", str(tmp_path / "p.png"), "--answers", str(tmp_path / "said.jsonl")]
    with pytest.raises(SystemExit) as stopped:
        main(["tune-prompt", *words])
    assert stopped.value.code == 0
    assert json.loads((tmp_path / "said.jsonl").read_text().splitlines()[1])["said"].strip() == said.strip()


def with_own(folder, settings):
    """Give a stored model settings of generation."""
    file = folder / "generation_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))


@pytest.mark.parametrize("text", ["the cat sat on the cat", "naïve 🙂 café", "日本語の文"])
def test_what_was_kept_is_shown_in_the_prompt_s_own_words(text):
    """Each piece by itself would lose blanks at its ends, and characters of several tokens."""
    tokenizer = load_tokenizer("retriever")
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    share = np.arange(len(ids)) % 2.0
    shown = marked(tokenizer, ids, share, colour=False).plain
    assert shown.replace("⟦", "").replace("⟧", "") == tokenizer.decode(ids)
