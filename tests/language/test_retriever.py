"""The retrieval task, its training, and the model that ships."""

import json
import re
import shutil
from copy import deepcopy
from dataclasses import replace
from functools import partial
from importlib.resources import files
from itertools import count, islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rapidfuzz.distance.Levenshtein import distance
from safetensors.torch import load_file, save_file
from trainings import trainings

from featscope.language import FullCache, GemFilter, SnapKV
from featscope.language.haystack import Haystack, passwords, read_texts
from featscope.language.load import (
    RETRIEVER_KERNEL,
    RETRIEVER_LAYER,
    RETRIEVER_LENGTH,
    RETRIEVER_POOL,
    layers_of,
    load_model,
)
from featscope.language.retriever import data, phrases
from featscope.language.retriever import train as module
from featscope.language.retriever.average import Average, average
from featscope.language.retriever.data import KEYS, KINDS, NONE, Batch, Task, together
from featscope.language.retriever.forward import hidden
from featscope.language.retriever.hints import Readers, of_hints
from featscope.language.retriever.makers import Makers
from featscope.language.retriever.model import accuracy, build, fits, go_on, loss_and_right
from featscope.language.retriever.muon import Muon, orthogonal
from featscope.language.retriever.passwords import (
    ADJECTIVES,
    CITIES,
    NEW_ADJECTIVES,
    NEW_CITIES,
    NEW_NOUNS,
    NOUNS,
)
from featscope.language.retriever.texts import read_essays, split_words, train_tokenizer
from featscope.language.retriever.train import Plan, train
from featscope.language.retriever.wordings import HELD_OUT, TRAINED, Wording, read_wordings
from featscope.options import ConfigError
from featscope.streams import Streams

WEIGHTS = Path(str(files("featscope_retriever") / "weights"))
TEXTS = read_texts("built-in")
WORDS = split_words(TEXTS)


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(TEXTS, 1024)


def task(tokenizer, wordings=TRAINED):
    return Task(tokenizer, TEXTS * 3, WORDS[wordings is HELD_OUT], wordings)


def test_nothing_that_is_asked_at_the_end_was_trained_on():
    trained, others = (set(words) for words in WORDS)
    assert not trained & others
    assert not (trained | others) & {*CITIES, *ADJECTIVES, *NOUNS, *NEW_CITIES, *NEW_ADJECTIVES, *NEW_NOUNS}
    for seen, unseen in zip(TRAINED, HELD_OUT, strict=True):
        assert not set(seen) & set(unseen)


@pytest.mark.parametrize("repeat", [True, False])
@pytest.mark.parametrize("wordings", [TRAINED, HELD_OUT])
def test_sequences_ask_for_what_they_hide(tokenizer, wordings, repeat):
    of = task(tokenizer, wordings)
    rng = np.random.default_rng(0)
    for draw in (partial(of.english, repeat=repeat), of.quoted, of.made_up):
        for _ in range(5):
            said = draw(rng)
            facts = [(of.random(rng, 3, 3), of.random(rng, 2, 3)) for _ in range(4)]
            tokens, answers, keys, sought = of.hide(rng, 400, [said] * 4, facts, of.text, 2)
            assert len(tokens) == len(answers) == len(keys) == len(sought) == 400
            row, wanted = tokens.tolist(), set()
            for end in np.flatnonzero(sought != NONE):  # a question, whose key stands before it, and then the value
                (one,) = [i for i, (_, v) in enumerate(facts) if row[end + 1 : end + 1 + len(v)] == v]
                key, value = facts[one]
                needle = said.before + key + said.between + value + said.after
                there = next(i for i in range(400) if row[i : i + len(needle)] == needle)
                assert sought[end] == there + len(needle) - len(value + said.after)
                assert answers[end + 1 : end + 1 + len(value)].all()
                assert any(row[: end + 1][-len(a + key + b) :] == a + key + b for a, b in said.asks)
                assert keys[end].tolist() == keys[sought[end]].tolist() == [*key[::-1], NONE]
                wanted.add(one)
            assert len(wanted) == 2
            assert answers.sum() == sum(len(facts[i][1]) for i in wanted)
            assert (keys[:, 0] != NONE).sum() == 4 + 2
            again = of.hide(np.random.default_rng(1), 400, [said] * 4, facts, of.text, 2, ended=True)
            before = of.hide(np.random.default_rng(1), 400, [said] * 4, facts, of.text, 2)
            assert again[1].sum() == before[1].sum() + 2  # what follows each of them


def test_words_are_exchanged_in_a_third_of_the_forms_and_what_stands_for_others_is_kept(tokenizer):
    of, rng = task(tokenizer), np.random.default_rng(0)
    text, words = "\nIt is {noun}'s, {base}: the one that he {did} not", {f" {word.lower()}" for word in WORDS[0]}
    kept, shares = 0, []
    for _ in range(300):
        found = of.exchange(rng)(text)
        parts, new = re.findall(r"\w+|\W", text), re.findall(r"\w+|\W", found)
        assert len(parts) == len(new)
        other = [(a, b) for a, b in zip(parts, new, strict=True) if a != b]
        assert all(a not in ("noun", "s", "base", "did") and f" {b}" in words for a, b in other)
        kept += not other
        shares.append(len(other) / 7)
    assert 0.6 < kept / 300 < 0.8
    assert 0.08 < np.mean(shares) < 0.16  # a third of a mean of 0.35


def test_keys_that_differ_differ_in_one_token(tokenizer):
    keys = task(tokenizer).differing(np.random.default_rng(0), 4, 3, 4)
    assert len({len(key) for key in keys}) == 1
    assert sum(len({*column}) > 1 for column in zip(*keys, strict=True)) == 1


@pytest.mark.parametrize("few", [False, True])
def test_copies_repeat_and_only_what_is_told_by_what_came_before_is_an_answer(tokenizer, few):
    rng = np.random.default_rng(0)
    for _ in range(20):
        row, mark, keys, sought = task(tokenizer).copies(rng, 96, few)
        assert (keys == NONE).all()
        assert (sought == NONE).all()
        first = int(mark.nonzero()[0][0])
        assert mark[first:].all()
        assert any((row[first:] == row[first - period : 96 - period]).all() for period in range(24, 49))
        assert len({*row[1:].tolist()}) <= 30 if few else len({*row[1:24].tolist()}) > 20


def test_prompts_to_train_on_ask_for_some_of_their_needles(tokenizer):
    of, rng = task(tokenizer), np.random.default_rng(0)
    for _ in range(30):
        tokens, answers, _, sought = of.recall(rng, 128, 0.6, 0.8, 0.4)
        assert len(tokens) == len(answers) == 128
        assert answers[1:][sought[:-1] != NONE].all()
        assert answers.any()


def test_what_does_not_fit_is_drawn_again_with_fewer_needles_of_the_same_kind(tokenizer, monkeypatch):
    of, rng, drawn = task(tokenizer), np.random.default_rng(0), []

    def watched(name, own, *given):
        drawn.append((name, given[1]) if name == "english" else (name,))
        return own(*given)

    for name in ("english", "quoted", "made_up", "gate"):
        monkeypatch.setattr(of, name, partial(watched, name, getattr(of, name)))
    kinds = []
    for _ in range(1600):
        before = len(drawn)
        of.recall(rng, 96, 0.8, 0.8, 0.5)
        (kind,) = {*drawn[before:]}
        kinds.append(kind)
    shares = {kind: kinds.count(kind) / 1600 for kind in kinds}
    assert 0.15 < shares["made_up",] < 0.25
    assert 0.34 < shares["english", False] < 0.46
    assert 0.005 < shares["gate",] < 0.05
    assert 0.09 < shares["quoted",] < 0.19
    assert len(shares) == 5


def test_some_values_have_many_tokens_where_there_is_room(tokenizer, monkeypatch):
    of, rng, drawn = task(tokenizer), np.random.default_rng(0), []
    long = of.long

    def watched(rng, most):
        drawn.append(most)
        return long(rng, most)

    monkeypatch.setattr(of, "long", watched)
    for length, most, wanted in ((96, None, 0), (192, 24, 0.25), (512, 40, 0.25)):
        prompts, longest, with_long = 200, 0, 0
        for _ in range(prompts):
            drawn.clear()
            _, answers, *_ = of.recall(rng, length, 0.8, 0.8, 0.5)
            runs = np.diff(np.flatnonzero(np.diff(np.pad(answers, 1).astype(int))))[::2]
            longest = max(longest, *runs)
            with_long += bool(drawn)
            assert {*drawn} <= {most}
        assert abs(with_long / prompts - wanted) < 0.08, length
        assert longest <= (most or 30) + 1  # an answer, and what follows it
        assert not most or longest > 12


@pytest.mark.parametrize("repeat", [True, False])
def test_only_needles_that_share_a_wording_have_words_that_nobody_could_know(tokenizer, monkeypatch, repeat):
    of, rng, asked = task(tokenizer), np.random.default_rng(0), []
    own = of.english

    def watched(rng, repeats, forms=1, unknown=False):
        said = own(rng, repeats, forms, unknown)
        asked.append((repeats, forms, unknown, len(said.asks)))
        return said

    monkeypatch.setattr(of, "english", watched)
    alone = 0
    for _ in range(300):
        asked.clear()
        row = of.recall(rng, 192, 1, 0.8, 0.0 if repeat else 1.0)
        if len(asked) == 0:  # quoted, or the wording of `passwords`
            assert repeat
            continue
        assert {repeats for repeats, *_ in asked} == {repeat}
        needles = len({*row[3][row[3] != NONE].tolist()})  # that are asked for, of as many or more
        for _, forms, unknown, has in asked[-1:]:
            assert forms == 1 or needles <= 12
            assert unknown == (forms >= 3)
            assert has == (1 if repeat else forms)
        alone += not unknown
    assert 50 < alone < 250


@pytest.mark.parametrize(("wordings", "often"), [(TRAINED, True), (HELD_OUT, False)])
def test_determiners_are_put_before_values_in_training_alone(tokenizer, monkeypatch, wordings, often):
    of, shares = task(tokenizer, wordings), []
    for share in (0.0, 1.0):
        monkeypatch.setattr(data, "_DETERMINED", (share, share))
        rng = np.random.default_rng(0)
        ends = [tokenizer.decode(of.english(rng, repeat=True).between).split()[-1:] for _ in range(200)]
        shares.append(sum(end[0] in data._DETERMINERS for end in ends if end) / 200)
    assert shares[0] < 0.5
    assert shares[1] > 0.6 if often else shares[1] == shares[0]


def test_values_of_many_tokens_are_of_one_kind(tokenizer):
    of, rng, kinds = task(tokenizer), np.random.default_rng(0), set()
    for _ in range(200):
        draw = of.long(rng, 40)
        one, other = draw(), draw()
        assert len(one) <= 40
        text, same = (tokenizer.decode(tokens) for tokens in (one, other))
        shape, as_shaped = (re.sub(r"[A-Za-z0-9]", "x", found) for found in (text, same))
        codes = re.fullmatch(r" [A-Za-z0-9]+([-.:_][A-Za-z0-9]+)*", text) and shape == as_shaped
        kinds.add("codes" if codes else "words" if re.fullmatch(r"( \w+){2,8}", text) else "random tokens")
    assert len(kinds) == 3


def test_some_texts_are_a_part_over_and_over(tokenizer):
    of, rng = task(tokenizer), np.random.default_rng(0)
    again = 0
    for _ in range(300):
        hay = of.hay(rng, 512, 1)
        again += hay is not of.text
        if hay is not of.text:
            assert len(hay) == 513
            assert any((hay[period:] == hay[:-period]).all() for period in range(10, 61))
    assert 0.04 < again / 300 < 0.12
    assert len({*of.hay(rng, 512, 0).tolist()}) > 300


def test_too_short_a_sequence_is_not_made(tokenizer):
    of, rng = task(tokenizer), np.random.default_rng(0)
    facts = [(of.random(rng, 4, 4), of.random(rng, 4, 4))] * 4
    assert of.hide(rng, 30, [of.gate()] * 4, facts, of.text, 1) is None


def test_a_prompt_to_judge_by_has_one_answer(tokenizer):
    of = task(tokenizer, HELD_OUT)
    for kind in KINDS:
        tokens, answer, keys, sought = of.judged(kind, np.random.default_rng(0), 512)
        assert len(tokens) == 512
        assert answer.sum() >= 1
        said = tokenizer.decode(tokens[answer])
        assert (kind == "identifiers") == bool(re.fullmatch(" [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", said))
        assert (sought != NONE).sum() == 1
        assert (keys[:, 0] != NONE).sum() == 5
        assert (np.diff(answer.nonzero()[0]) == 1).all()


def test_a_prompt_begins_with_the_first_token_where_there_is_one(tokenizer):
    without = deepcopy(tokenizer)
    without.bos_token = None
    for one, begins in ((tokenizer, True), (without, False)):
        tokens, *_ = task(one, HELD_OUT).judged("words", np.random.default_rng(0), 256)
        assert (tokens.shape, tokens.dtype) == ((256,), np.int64)
        assert (tokens[0] == tokenizer.bos_token_id) == begins


SENTENCES = ("of_nouns", "of_verbs", "ask_nouns", "ask_verbs")
RULES = ("of nouns", "of verbs", "asks nouns", "asks verbs")


def plain(*parts):
    """Words alone, with one for the key and for each relation."""
    text = re.sub(r"{(\w+)}", lambda found: "zn" if found[1] == "noun" else "zv", " zk ".join(parts).lower())
    return re.findall("[a-z]+", text)


def sentences(of):
    """What leads to a value, or asks for it."""
    return [parts[:2] for name in SENTENCES for parts in getattr(of, name)] + [(text,) for text in of.openers]


def test_no_sentence_that_is_asked_at_the_end_is_trained_on_in_nearly_these_words():
    trained = [plain(*parts) for parts in sentences(TRAINED)]
    for parts in sentences(HELD_OUT):
        unseen = plain(*parts)
        for seen in trained:
            assert distance(seen, unseen) > 0.35 * max(len(seen), len(unseen)), (parts, seen)


def as_pattern(symbol):
    """What a rule makes, as a regular expression."""
    pieces = [re.split("<([^<>]+)>", text) for text in phrases._ALTERNATIVES[symbol]]
    options = ["".join(as_pattern(p) if i % 2 else re.escape(p) for i, p in enumerate(parts)) for parts in pieces]
    return f"(?:{'|'.join(options)})"


@pytest.mark.parametrize(("rules", "held_out"), [*zip(RULES, SENTENCES, strict=True)])
def test_rules_make_no_sentence_that_is_asked_at_the_end(rules, held_out):
    made = re.compile(as_pattern(rules))
    rng = np.random.default_rng(0)
    assert all(made.fullmatch(phrases.expand(rng, rules)) for _ in range(100))
    for parts in getattr(HELD_OUT, held_out):
        whole = " KEY".join(parts[:2]) + (f" VALUE{parts[2]}" if len(parts) == 3 else "")
        assert not made.fullmatch(whole), parts


def test_words_that_are_asked_at_the_end_are_in_no_sentence():
    texts = [text for parts in sentences(TRAINED) for text in parts]
    said = {word for text in (*texts, *phrases.RULES.values()) for word in re.findall(r"\w+", text)}
    assert len(said) > 1000
    assert not said & {*NEW_CITIES, *NEW_ADJECTIVES, *NEW_NOUNS}


@pytest.mark.parametrize("of", [TRAINED, HELD_OUT])
def test_sentences_have_the_words_that_their_section_has(of):
    assert min(len(getattr(of, name)) for name in SENTENCES) >= 25
    for name in SENTENCES:
        words = dict.fromkeys(("noun",) if name.endswith("nouns") else ("base", "does", "did", "done"), "word")
        for parts in getattr(of, name):
            assert parts[-1]
            assert not {*"".join(part.format(**words) for part in parts)} & {*"{}"} or "{{" in "".join(parts)


def test_sentences_are_read_from_lines():
    text = r"""
## nouns
key
## verbs
win wins won won
## of_nouns
KEY's {noun}: VALUE!
KEY | VALUE
## of_verbs
The KEY {did} a VALUE.

## ask_nouns
And KEY?\nWell,
## ask_verbs
KEY will {base}
## openers
So,
"""
    assert read_wordings(text) == (
        ("key",),
        (("win", "wins", "won", "won"),),
        (Wording("", "'s {noun}:", "!"), Wording("", " |", "\n")),
        (Wording(" The", " {did} a", "."),),
        (("\nAnd", "?\nWell,"),),
        (("\n", " will {base}"),),
        ("\nSo,",),
    )


def test_a_line_of_no_section_is_named():
    with pytest.raises(ValueError, match="'KEY: VALUE' stands before the first section"):
        read_wordings("KEY: VALUE\n## nouns\nkey\n")


def test_phrases_lead_from_a_key_to_a_value_and_ask_for_it():
    rng = np.random.default_rng(0)
    said = {phrases.say(rng, verbal=bool(i % 2)) for i in range(2000)}
    asked = {phrases.ask(rng, verbal=bool(i % 2)) for i in range(2000)}
    assert min(len(said), len(asked)) > 1500
    for text in (part for parts in (*said, *asked) for part in parts):
        filled = text.format(noun="", base="", does="", did="", done="")
        assert not set(filled) & set("<>{}") - {">"}
        assert not text.endswith(" ")


def test_text_and_hints_are_learned_beside_answers(tokenizer):
    model, readers = build(tokenizer, 32, 2, 2, 64, 0), Readers(32)
    tokens = torch.randint(3, 50, (2, 9), generator=torch.Generator().manual_seed(0))
    answers = torch.zeros(2, 9, dtype=torch.bool)
    answers[:, 6] = answers[0, 7:9] = True  # three tokens, and one
    keys, sought = torch.full((2, 9, KEYS), NONE), torch.full((2, 9), NONE)
    keys[:, 3, 0] = keys[:, 5, 0] = 7
    sought[:, 5] = 3
    batch = Batch(tokens, answers, keys, sought)
    loss, right = loss_and_right(model, readers, batch)
    loss.backward()
    assert readers.starts.weight.grad.norm() > 0
    states, read = hidden(model, tokens)
    said = model.lm_head(states)
    after = torch.nn.functional.cross_entropy(said[:, :-1:2].flatten(0, 1), tokens[:, 1::2].flatten())
    each = torch.nn.functional.cross_entropy(said[:, 5:8].transpose(1, 2), tokens[:, 6:], reduction="none")
    of_rows = (each[0, 0] + each[0, 1] / 4 + each[0, 2] / 4) / 1.5, each[1, 0]
    expected = sum(of_rows) / 2 + 0.1 * after + of_hints(model, readers, read, batch)
    torch.testing.assert_close(loss, expected, rtol=0.02, atol=0)
    assert right == (said[:, 5].argmax(-1) == tokens[:, 6]).float().mean()


def test_a_new_model_looks_one_token_back(tokenizer):
    model = build(tokenizer, 128, 2, 2, 512, 0)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        weights = model(torch.randint(3, 1000, (1, 100)), output_attentions=True).attentions[0][0, 0]
    assert float(weights.diagonal(-1)[5:].mean()) > 0.5


def test_the_network_that_is_trained_is_that_of_transformers(tokenizer):
    model = build(tokenizer, 64, 3, 4, 2048, 0)
    for length in (50, 900):  # attention is formed in two ways
        tokens = torch.randint(3, 1000, (2, length))
        with torch.no_grad():
            wanted = model.model(tokens, use_cache=False).last_hidden_state
            found, read = hidden(model, tokens, torch.float32)
            assert torch.allclose(found, wanted, atol=2e-4)
            all_states = model.model(tokens, use_cache=False, output_hidden_states=True).hidden_states
            assert len(read) == 3
            assert all(torch.allclose(*both, atol=2e-4) for both in zip(read, all_states, strict=False))
            rounded, _ = hidden(model, tokens)
        assert torch.nn.functional.cosine_similarity(rounded, wanted, dim=-1).mean() > 0.999


@pytest.mark.parametrize(("layers", "added"), [(2, []), (4, [1, 3]), (5, [1, 3, 4])])
def test_layers_that_a_model_gets_say_nothing_at_first_and_the_middle_one_still_looks(tokenizer, layers, added):
    small, deep = (build(tokenizer, 64, depth, 4, 512, seed) for depth, seed in ((2, 0), (layers, 1)))
    own = deepcopy(deep.model.layers)
    go_on(deep, small)
    tokens = torch.randint(3, 1000, (1, 60))
    with torch.no_grad():
        assert torch.equal(small(tokens).logits, deep(tokens).logits)
    for number in added:  # what they read by is that of a new model
        assert torch.equal(deep.model.layers[number].self_attn.q_proj.weight, own[number].self_attn.q_proj.weight)
    assert torch.equal(
        deep.model.layers[layers // 2].self_attn.q_proj.weight, small.model.layers[1].self_attn.q_proj.weight
    )
    assert fits(small, deep)
    assert fits(deep, small) == (layers == 2)


def test_whole_answers_count(tokenizer, monkeypatch):
    model = build(tokenizer, 32, 1, 2, 64, 0)
    tokens = torch.randint(3, 50, (2, 9))
    answers = torch.zeros(2, 9, dtype=torch.bool)
    answers[:, 4:7] = True
    said = torch.nn.functional.one_hot(tokens[:, 1:][answers[:, 1:]], 1024).float()

    batch = Batch(tokens, answers, torch.full((2, 9, KEYS), NONE), torch.full((2, 9), NONE))
    assert accuracy_of(model, said, batch, monkeypatch) == 1
    said[4] = 0  # a token of the second answer
    assert accuracy_of(model, said, batch, monkeypatch) == 0.5


def accuracy_of(model, said, batch, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(model.lm_head, "forward", lambda states: said)
        return accuracy(model, batch)


def test_muon_steps_along_an_orthogonal_matrix():
    torch.manual_seed(0)
    for shape in ((3, 16, 16), (2, 32, 16), (2, 16, 32)):
        found = torch.linalg.svdvals(orthogonal(torch.randn(shape)))
        assert found.min() > 0.3
        assert found.max() < 1.3
    weight = torch.nn.Parameter(torch.zeros(8, 8))
    weight.grad = torch.diag(torch.arange(1.0, 9.0))
    Muon([weight], 0.1).step()
    left, _, right = torch.linalg.svd(weight.grad)
    off = weight.detach() - torch.diag(weight.detach().diagonal())
    assert off.abs().max() < 1e-5
    assert (weight.detach().diagonal() < -0.05).all()
    assert torch.allclose((left @ right).abs(), torch.eye(8), atol=1e-5)


@pytest.fixture
def essays(tmp_path):
    folder = tmp_path / "essays"
    folder.mkdir()
    for i in range(7):
        (folder / f"{i}.txt").write_text(TEXTS[0])
    return folder


def test_it_trains_and_goes_on_from_what_it_wrote(tmp_path, essays, monkeypatch):
    assert [len(texts) for texts in read_essays(essays)] == [5, 2]
    monkeypatch.setattr(module, "accuracy", lambda *given: 0.5)
    small = Plan(essays, tmp_path / "out", vocabulary=1024, width=32, layers=1, minutes=0.002, tokens=1024)
    train(small)
    first = load_file(tmp_path / "out" / "model.safetensors")
    train(replace(small, out=tmp_path / "on", weights=tmp_path / "out", stage=1))
    about = json.loads((tmp_path / "on" / "training.json").read_text())
    assert about["recipe"]["weights"]["recipe"]["weights"] is None
    assert str(tmp_path) not in json.dumps(about)
    on = load_file(tmp_path / "on" / "model.safetensors")
    assert any(not torch.equal(first[name], on[name]) for name in first)
    near = [float((first[name] - on[name]).abs().max()) for name in first]
    assert max(near) < 0.5  # it began where the other ended


def trained(out, essays, seed, **other):
    """A small training."""
    train(Plan(essays, out, **{"vocabulary": 1024, "width": 32, "layers": 1, **other}, minutes=0.001, seed=seed))
    return out


def test_models_are_averaged_weight_by_weight(tmp_path, essays, monkeypatch):
    monkeypatch.setattr(module, "accuracy", lambda *given: 0.5)
    folders = tuple(trained(tmp_path / str(seed), essays, seed) for seed in (0, 1, 2))
    average(Average(folders, tmp_path / "mean"))
    states = [load_file(folder / "model.safetensors") for folder in folders]
    mean = load_file(tmp_path / "mean" / "model.safetensors")
    assert mean.keys() == states[0].keys()
    for name in mean:
        torch.testing.assert_close(mean[name], sum(state[name] for state in states) / 3)
    about = json.loads((tmp_path / "mean" / "training.json").read_text())
    assert [made["recipe"]["seed"] for made in about["mean of"]] == [0, 1, 2]
    on = trained(tmp_path / "on", essays, 3, weights=tmp_path / "mean")
    assert json.loads((on / "training.json").read_text())["recipe"]["weights"] == about


@pytest.mark.parametrize(
    ("models", "out", "message"),
    [
        (("one",), "mean", "two folders or more"),
        (("one", "none"), "mean", "as the training makes them"),
        (("one", "same"), "one", "none of the models"),
        (("one", "wide"), "mean", "models of one shape and tokenizer"),
        (("one", "words"), "mean", "models of one shape and tokenizer"),
        (("one", "deep"), "mean", "models of one shape and tokenizer"),
        (("deep", "one"), "mean", "models of one shape and tokenizer"),
        (("one", "same"), "nowhere/mean", "a folder, no file, within one that is there"),
        (("one", "same"), "essays/0.txt", "a folder, no file, within one that is there"),
        (("one", "empty"), "mean", "models that can be read"),
        (("one", "broken"), "mean", "models of finite weights"),
    ],
)
def test_what_cannot_be_averaged_is_not(tmp_path, essays, monkeypatch, models, out, message):
    monkeypatch.setattr(module, "accuracy", lambda *given: 0.5)
    others = {"one": {}, "same": {}, "wide": {"width": 64}, "words": {"vocabulary": 512}, "deep": {"layers": 2}}
    for name, other in others.items():
        if name in models:
            trained(tmp_path / name, essays, 0, **other)
    if "empty" in models:
        (tmp_path / "empty").mkdir()
        (tmp_path / "empty" / "training.json").write_text("{}")
    if "broken" in models:
        shutil.copytree(tmp_path / "one", tmp_path / "broken")
        weights = load_file(tmp_path / "one" / "model.safetensors")
        weights["model.norm.weight"][0] = np.nan
        save_file(weights, tmp_path / "broken" / "model.safetensors", {"format": "pt"})
    with pytest.raises(ConfigError, match=message):
        average(Average(tuple(tmp_path / name for name in models), tmp_path / out))
    assert not (tmp_path / "mean").exists()


def test_a_stage_takes_its_share_of_the_time_where_answers_stay_wrong(tmp_path, essays, monkeypatch, capsys):
    monkeypatch.setattr(module, "accuracy", lambda *given: 0.5)
    stages = tuple(replace(module.STAGES[0], length=length, until=until) for length, until in ((64, 0.5), (128, 1)))
    monkeypatch.setattr(module, "STAGES", stages)
    clock = SimpleNamespace(monotonic=count().__next__, process_time=lambda: 0)  # a second each time it is asked
    monkeypatch.setattr(module, "time", clock)
    train(Plan(essays, tmp_path / "out", vocabulary=1024, width=32, layers=1, minutes=10 / 60, tokens=1024, gate=1))
    assert "128 tokens from step 5" in capsys.readouterr().out
    assert json.loads((tmp_path / "out" / "training.json").read_text())["history"][-1]["step"] == 10


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"vocabulary": 512}, "whose tokenizer is that of these essays"),
        ({"width": 64}, "a model of this width"),
        ({"layers": 2}, "with as many heads, and no more layers"),
        ({"heads": 2}, "with as many heads, and no more layers"),
    ],
)
def test_a_model_that_does_not_fit_is_not_gone_on_with(tmp_path, essays, monkeypatch, other, message):
    monkeypatch.setattr(module, "accuracy", lambda *given: 0.5)
    small = Plan(essays, tmp_path / "out", vocabulary=1024, width=32, layers=1, minutes=0.001, tokens=1024)
    train(replace(small, **other))
    with pytest.raises(ConfigError, match=message):
        train(replace(small, out=tmp_path / "on", weights=tmp_path / "out"))
    assert not (tmp_path / "on").exists()


def test_nothing_is_written_over_what_is_gone_on_from(tmp_path, essays):
    (tmp_path / "training.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"another folder than weights\. Nothing is written over what is read"):
        Plan(essays, tmp_path / "essays" / "..", weights=tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokens": 10}, ">= 1024"),
        ({"out": Path("nowhere/out")}, "a folder, no file, within one that is there"),
        ({"out": Path(__file__)}, "a folder, no file, within one that is there"),
        ({"weights": Path("nowhere")}, "a folder with a model that this script made, or none"),
        ({"stage": 9}, "0 to 6"),
        ({"context": 10}, ">= 1024"),
        ({"heads": 5}, "a divisor of width = 192"),
        ({"heads": 0}, ">= 1"),
        ({"muon": float("inf")}, "> 0, and finite"),
        ({"makers": -1}, ">= 0"),
        ({"device": "cuda"}, "cpu, or a GPU that torch sees"),
    ],
)
def test_wrong_plans_say_what_is_allowed(options, message, essays, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=message):
        replace(Plan(essays, Path("out")), **options)


def test_processes_read_batches_of_their_own_that_are_as_long(tokenizer, essays):
    plan = Plan(essays, Path("out"), tokens=1024)
    for step in range(4):
        one, other = (module._batch(task(tokenizer), plan, module.STAGES[4], step, rank).tokens for rank in (0, 1))
        assert one.shape == other.shape
        assert not torch.equal(one, other)


def test_batches_made_ahead_come_in_order_and_follow_the_stage(tokenizer, essays):
    plan = Plan(essays, Path("out"), tokens=1024)

    def make(stage, step):
        return module._batch(task(tokenizer), plan, module.STAGES[stage], step, 0)

    here, others = Makers(make, 0, 3), Makers(make, 2, 3)
    for one, other in zip(islice(here.batches(), 8), islice(others.batches(), 8), strict=True):
        assert torch.equal(one.tokens, other.tokens)
        assert torch.equal(one.sought, other.sought)
    batches = others.batches()
    next(batches)
    others.stage = 4
    assert [batch.tokens.shape[1] for batch in islice(batches, 40, 60)] == [
        make(4, step).tokens.shape[1] for step in range(41, 61)
    ]


def test_a_team_averages_every_gradient_before_each_step(tmp_path, essays, monkeypatch):
    told = []
    monkeypatch.setattr(module.Team, "average", lambda _, parameters: told.append({id(p) for p in parameters}))
    learn = []
    made = module._optimizers
    monkeypatch.setattr(module, "_optimizers", lambda *of: learn.extend(made(*of)) or learn)
    train(Plan(essays, tmp_path / "out", vocabulary=1024, width=32, layers=1, minutes=0.001, tokens=1024))
    steps = json.loads((tmp_path / "out" / "training.json").read_text())["history"][-1]["step"]
    assert told == [{id(p) for one in learn for group in one.param_groups for p in group["params"]}] * steps


def test_a_training_that_diverges_keeps_what_was_written(tmp_path, essays):
    wild = Plan(essays, tmp_path / "out", vocabulary=1024, width=32, layers=1, minutes=1, tokens=1024, lr=1e30)
    with pytest.raises(ConfigError, match=r"lr = 1e\+30 .* the loss stays finite; step \d+ is"):
        train(wild)
    assert not (tmp_path / "out" / "model.safetensors").exists()


def test_what_ships_is_small_and_says_how_it_was_made():
    assert sum(file.stat().st_size for file in WEIGHTS.iterdir()) < 20e6
    for made in trainings(json.loads((WEIGHTS / "training.json").read_text())):
        assert made["recipe"]["stages"][-1]["length"] == RETRIEVER_LENGTH
        assert RETRIEVER_LAYER < layers_of("retriever") == made["recipe"]["layers"]


def test_the_shipped_model_answers():
    model, tokenizer = load_model("retriever")
    haystack = Haystack(tokenizer, TEXTS)
    right = 0
    for number in range(40):
        draws = Streams(0, [0]).at("shipped", number)
        asked, *others = passwords(draws, 4)
        hidden = haystack.hide(draws, 256, float(draws.uniform(1)), asked, others)
        with torch.no_grad():
            out = model.generate(hidden.ids, max_new_tokens=9, do_sample=False)
        right += tokenizer.decode(out[0, 256:]).strip().startswith(asked.answer)
    assert right >= 36


def test_the_shipped_model_is_read_in_part_for_words_that_it_never_saw():
    model, tokenizer = load_model("retriever")
    of, rng = Task(tokenizer, TEXTS * 5, WORDS[1], HELD_OUT), np.random.default_rng(0)
    wide = {"kernel": RETRIEVER_KERNEL, "pool": RETRIEVER_POOL}
    methods = {
        "full attention": FullCache(model),
        "GemFilter": GemFilter(model, RETRIEVER_LAYER, 64, 16, **wide),
        "SnapKV": SnapKV(model, 64, 16, **wide),
        "GemFilter of 5 neighbours": GemFilter(model, RETRIEVER_LAYER, 64, 16),
    }
    right = dict.fromkeys(methods, 0)
    for _ in range(20):
        tokens, answer, *_ = of.judged("words", rng, 512)
        first, end = np.flatnonzero(answer)[[0, -1]]
        ids = torch.from_numpy(tokens[:first])[None]
        for name, method in methods.items():
            out = method.generate(ids, torch.ones_like(ids), max_new_tokens=int(end + 1 - first), do_sample=False)
            right[name] += out[0, first:].tolist() == tokens[first : end + 1].tolist()
    of_five = right.pop("GemFilter of 5 neighbours")  # which hold the beginning of an answer alone
    assert min(right.values()) >= 18, right
    assert of_five < right["GemFilter"], of_five


def test_rows_are_put_side_by_side():
    one, other, *_ = np.eye(4, dtype=bool)
    keys = np.arange(8).reshape(4, 2)
    batch = together([(np.arange(4), one, keys, -np.arange(4)), (np.arange(4), other, keys + 1, np.arange(4))])
    assert [part.tolist() for part in batch] == [
        [[0, 1, 2, 3]] * 2,
        [[*one], [*other]],
        [keys.tolist(), (keys + 1).tolist()],
        [[0, -1, -2, -3], [0, 1, 2, 3]],
    ]
