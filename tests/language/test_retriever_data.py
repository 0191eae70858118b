"""Prompts that the retriever is trained on and judged by."""

import re
from copy import deepcopy
from functools import partial

import numpy as np
import pytest
from retriever_task import WORDS, task

from featscope.language.retriever import data
from featscope.language.retriever.data import KINDS, NONE, together
from featscope.language.retriever.passwords import (
    ADJECTIVES,
    CITIES,
    NEW_ADJECTIVES,
    NEW_CITIES,
    NEW_NOUNS,
    NOUNS,
)
from featscope.language.retriever.wordings import HELD_OUT, TRAINED


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
