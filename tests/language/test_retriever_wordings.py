"""Sentences that the retriever is trained on, and those held out."""

import re

import numpy as np
import pytest
from rapidfuzz.distance.Levenshtein import distance

from featscope.language.retriever import phrases
from featscope.language.retriever.passwords import (
    NEW_ADJECTIVES,
    NEW_CITIES,
    NEW_NOUNS,
)
from featscope.language.retriever.wordings import HELD_OUT, TRAINED, Wording, read_wordings

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
