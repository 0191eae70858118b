"""What the retriever is trained on and judged by: essays in tokens, with needles and questions."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Literal, NamedTuple, TypeVar
from uuid import UUID

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from featscope.language.chat import first_tokens
from featscope.language.retriever import phrases
from featscope.language.retriever.passwords import NEW_ADJECTIVES, NEW_CITIES, NEW_NOUNS
from featscope.language.retriever.texts import SPECIAL
from featscope.language.retriever.wordings import GATE, TRAINED, Wording, Wordings

NONE = -100
"""No token or place."""
KEYS = 4
"""Tokens of a key that a `Batch` has."""
_BY_RULES = 0.2  # share of wordings that `phrases` puts together
_FORMS, _FORMS_JUDGED = 12, 4  # of a prompt's questions at most, where they are in words of their own
_GATES, _QUOTED = 0.06, 0.35  # of prompts in English whose questions repeat the needle
_LONE = 0.15  # of those whose questions do not have one needle
_NEEDLES = 4  # in a prompt to judge by
_AS_THEY_ARE = 2  # twice as many forms keep all of their words as do not
_MOST_EXCHANGED = 0.7  # share of a form's words
_LONG = 0.25  # of prompts whose values have many tokens
_LONG_KEYS = 0.3  # of those
_SHORTEST_LONG, _MOST_LONG = 128, 40  # tokens of a prompt that has such, and of a value
_AGAIN = 0.08  # of texts that are a few sentences over and over
_MOST_NEEDLES = 40
_FEW = 0.3  # of prompts have three to six
_SHARED = 0.7  # of prompts have all needles in one wording
_ENOUGH = 3  # needles in one wording that tell by themselves where their values begin
_RANDOM, _RANDOM_IN_ENGLISH = 0.5, 0.15  # shares of keys and values of random tokens, and of keys that differ in one
_DETERMINED = (0.1, 0.3)  # of sentences around a noun, and a verb, have a determiner before the value
_ASKED_WITH_IT = 0.2  # of questions around a verb that end in a word
_DETERMINERS = "a an another both each her his its many my our some such that the their these this your".split()
_ALPHABETS = (
    "0123456789",
    "0123456789abcdef",
    "0123456789abcdef",
    "abcdefghijklmnopqrstuvwxyz0123456789",
    "ABCDEFGHJKLMNPQRSTUVWXYZ0123456789",
)
_WORD = re.compile(r"(?<![{A-Za-z'])[A-Za-z]+(?![}A-Za-z'])")
_TRIES = 100  # to fit needles of random lengths into a prompt

_T = TypeVar("_T")
Tokens = list[int]
Kind = Literal["words", "wordings", "keys", "questions", "identifiers"]
KINDS: tuple[Kind, ...] = ("words", "wordings", "keys", "questions", "identifiers")


class Batch(NamedTuple):
    """Sequences of one length.

    Attributes:
        tokens: of each.
        answers: which of them are words of an answer.
        keys: the last tokens of the key, from the last on, where a needle's value begins and where its question ends;
            `NONE` elsewhere, and where a key is shorter.
        sought: where a question ends, where the value begins that it asks for; `NONE` elsewhere.
    """

    tokens: Int[Tensor, "row token"]
    answers: Bool[Tensor, "row token"]
    keys: Int[Tensor, "row token place"]
    sought: Int[Tensor, "row token"]

    def to(self, device: str) -> "Batch":
        """The same elsewhere."""
        return Batch(*(part.to(device) for part in self))

    @property
    def asks(self) -> Bool[Tensor, "row token"]:
        """Where questions end."""
        return self.sought != NONE

    @property
    def begins(self) -> Bool[Tensor, "row token"]:
        """Where the values of needles begin."""
        return (self.keys[..., 0] != NONE) & ~self.asks


Row = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""What a `Batch` has of one sequence."""


class Said(NamedTuple):
    """A wording in tokens, and the questions that go with it: what stands before the key, and behind it."""

    before: Tokens
    between: Tokens
    after: Tokens
    asks: list[tuple[Tokens, Tokens]]


class Task:
    """Sequences with needles and questions.

    Args:
        tokenizer: of the model.
        texts: what needles are hidden in.
        words: that keys and values are made of.
        wordings: of needles and questions: `TRAINED`, to which words of all kinds and random tokens are added, or
            `HELD_OUT`.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerFast, texts: Sequence[str], words: Sequence[str], wordings: Wordings
    ) -> None:
        self.tokenizer = tokenizer
        self.first = first_tokens(tokenizer)
        self.encode = lru_cache(2**16)(self._encode)
        self.text = np.concatenate([tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts])
        self.size = len(tokenizer)
        self.words = [f" {word}" for word in words]
        self.wordings = wordings
        self.training = wordings is TRAINED

    def _encode(self, text: str) -> Tokens:
        """Tokens of ``text``, none of them special."""
        found: Tokens = self.tokenizer(text, add_special_tokens=False)["input_ids"] if text else []
        return found

    def random(self, rng: np.random.Generator, least: int, most: int) -> Tokens:
        """Between ``least`` and ``most`` random tokens."""
        drawn: Tokens = rng.integers(SPECIAL, self.size, int(rng.integers(least, most + 1))).tolist()
        return drawn

    def cut(self, rng: np.random.Generator, least: int, most: int) -> Tokens:
        """Between ``least`` and ``most`` tokens of the texts, from anywhere."""
        start = int(rng.integers(len(self.text) - most))
        found: Tokens = self.text[start : start + int(rng.integers(least, most + 1))].tolist()
        return found

    def word(self, rng: np.random.Generator) -> str:
        """A word with its blank."""
        return self.words[int(rng.integers(len(self.words)))]

    def item(self, rng: np.random.Generator, most: int, random: float) -> Tokens:
        """A key or value: random tokens in a share ``random``, else one or two words."""
        if rng.random() < random:
            return self.random(rng, 1, most)
        return [token for _ in range(int(rng.integers(1, 3))) for token in self.encode(self.word(rng))]

    def long(self, rng: np.random.Generator, most: int) -> Callable[[], Tokens]:
        """Draws keys or values of one kind, of many tokens, ``most`` at most: identifiers, random tokens, words."""
        kind = int(rng.integers(4))
        if kind == 0:
            return lambda: self.random(rng, 5, most)
        if kind == 1:
            return lambda: [t for _ in range(int(rng.integers(3, 9))) for t in self.encode(self.word(rng))][:most]
        letters, between = [*choice(rng, _ALPHABETS)], choice(rng, ("", "-", "-", ".", ":", "_"))
        sizes = rng.integers(4 * rng.integers(2) + 1, 13, int(rng.integers(1, 6)))
        return lambda: self._encode(" " + between.join("".join(rng.choice(letters, size)) for size in sizes))[:most]

    def hay(self, rng: np.random.Generator, length: int, text: float) -> np.ndarray:
        """What needles are hidden in: the texts in a share ``text``, of it a part over and over at times; or random."""
        if rng.random() >= text:
            return rng.integers(SPECIAL, self.size, length + 1)
        return np.resize(self.cut(rng, 10, 60), length + 1) if rng.random() < _AGAIN else self.text

    def english(self, rng: np.random.Generator, repeat: bool, forms: int = 1, unknown: bool = False) -> Said:
        """A wording with its questions: in the needle's words (``repeat``) or in others, of ``forms`` forms.

        ``unknown``: any words may stand for some, which needles in this wording must tell by themselves.
        """
        own = self.wordings
        verbal = rng.random() < 0.4
        of, asks = (own.of_verbs, own.ask_verbs) if verbal else (own.of_nouns, own.ask_nouns)
        by_rules = self.training and rng.random() < _BY_RULES
        exchange = self.exchange(rng) if unknown else lambda text: text
        form = Wording(*map(exchange, phrases.say(rng, verbal) if by_rules else choice(rng, of)))
        noun, (base, does, did, done) = (choice(rng, own.nouns), choice(rng, own.verbs))
        if self.training and rng.random() < 0.4:  # any word for a relation: the list is short
            noun = self.word(rng)[1:].lower()
            base = does = did = done = self.word(rng)[1:].lower()

        def say(text: str) -> Tokens:
            return self.encode(text.format(noun=noun, base=base, does=does, did=did, done=done))

        between = say(form.between)
        if self.training and form.between[-1:].isalpha() and rng.random() < _DETERMINED[verbal]:
            between = between + self.encode(f" {choice(rng, _DETERMINERS)}")
            if unknown and rng.random() < 0.3:  # and an adjective
                between = between + self.encode(self.word(rng).lower())
        if repeat:
            opener = say(exchange(phrases.opener(rng) if by_rules else choice(rng, own.openers)))
            ends = [(opener + say(form.before), between)]
        else:
            ends = []
            for _ in range(forms):
                asked = phrases.ask(rng, verbal) if by_rules else choice(rng, asks)
                before, behind = (say(exchange(part)) for part in asked)
                if by_rules and rng.random() < 0.15:  # any words, where a stop shows that the question is over
                    behind = say(phrases.expand(rng, "stop")) + self.cut(rng, 1, 4)
                elif self.training and verbal and asked[1][-1:].isalpha() and rng.random() < _ASKED_WITH_IT:
                    behind = behind + self.encode(f" {choice(rng, _DETERMINERS)}")
                ends.append((before, behind))
        return Said(say(form.before), between, say(form.after), ends)

    def exchange(self, rng: np.random.Generator) -> Callable[[str], str]:
        """Puts any words in the place of some, in two thirds of forms of none: what is asked may be half unknown."""
        share = max(0.0, rng.uniform(-_AS_THEY_ARE, 1) * _MOST_EXCHANGED)

        def exchanged(text: str) -> str:
            return _WORD.sub(lambda word: self.word(rng)[1:].lower() if rng.random() < share else word[0], text)

        return exchanged

    def quoted(self, rng: np.random.Generator) -> Said:
        """A wording cut from the texts, up to seven tokens between key and value, and a question that repeats it."""
        before, between, after = self.cut(rng, 0, 4), self.cut(rng, 0, 7), self.cut(rng, 1, 2)
        return Said(before, between, after, [(self.cut(rng, 0, 6) + before, between)])

    def made_up(self, rng: np.random.Generator) -> Said:
        """A wording of random tokens, and a question that repeats it; longer ones are trained on than judged by."""
        most = 6 if self.training else 3
        before, between, after = self.random(rng, 0, 3), self.random(rng, 0, most), self.random(rng, 1, 2)
        return Said(before, between, after, [(self.random(rng, 0, 4) + before[-1:], between)])

    def gate(self, *_: object) -> Said:
        """The wording of `passwords`."""
        before, between, after = (self.encode(part) for part in GATE)
        return Said(before, between, after, [(self.encode("\nWhich words open the gate? In"), between)])

    def hide(
        self,
        rng: np.random.Generator,
        length: int,
        said: Sequence[Said],
        facts: Sequence[tuple[Tokens, Tokens]],
        hay: np.ndarray,
        questions: int,
        *,
        ended: bool = False,
    ) -> Row | None:
        """A sequence of ``length`` with needles, and questions about some; ``None`` where it holds too little.

        What follows an answer is one of its words where it is to be learned that it has ``ended``.
        """
        leads = [s.before + key + s.between for s, (key, _) in zip(said, facts, strict=True)]
        ends = [value + s.after for s, (_, value) in zip(said, facts, strict=True)]
        needles = [[*lead, *end] for lead, end in zip(leads, ends, strict=True)]
        tail: Tokens = []
        answers: list[int] = []
        asks: list[tuple[int, int]] = []
        for place in rng.permutation(len(facts))[:questions]:
            (key, value), of = facts[place], said[place]
            before, behind = of.asks[int(rng.integers(len(of.asks)))]
            tail += before + key + behind
            asks.append((len(tail) - 1, int(place)))
            answers += range(len(tail), len(tail) + len(value) + ended)
            tail += value + of.after[:1]
        room = length - len(self.first) - len(tail) - sum(map(len, needles))
        if room < 0:
            return None
        start = int(rng.integers(0, len(hay) - room))
        text = hay[start : start + room].tolist()
        body, last = [*self.first], 0
        mark, keys, sought = np.zeros(length, dtype=bool), np.full((length, KEYS), NONE), np.full(length, NONE)
        begins = []
        cuts = np.sort(rng.integers(0, room + 1, len(needles)))
        for cut, lead, end, (key, _) in zip(cuts, leads, ends, facts, strict=True):
            body += text[last:cut] + lead
            begins.append(len(body))
            keys[len(body), : len(key)] = key[: -KEYS - 1 : -1]
            body += end
            last = cut
        body += text[last:]
        mark[[len(body) + place for place in answers]] = True
        for place, which in asks:
            keys[len(body) + place] = keys[begins[which]]
            sought[len(body) + place] = begins[which]
        return np.array(body + tail), mark, keys, sought

    def copies(self, rng: np.random.Generator, length: int, few: bool) -> Row:
        """Random tokens with a random period; what repeats is the answer, where what came before tells it.

        Of ``few`` distinct tokens, 2 to 30, the last three to ten together tell what follows, as several must where
        keys differ in one.
        """
        period = int(rng.integers(length // 4, length // 2 + 1))
        distinct = int(2 * 15 ** rng.random()) if few else self.size - SPECIAL
        told_by = 1 + int(1.5 * np.log(period) / np.log(distinct))
        some = rng.integers(SPECIAL, self.size, distinct)
        row = np.full(length, self.tokenizer.bos_token_id)
        row[1:] = np.resize(rng.choice(some, period), length - 1)
        mark = np.zeros(length, dtype=bool)
        mark[1 + period + told_by :] = True
        return row, mark, np.full((length, KEYS), NONE), np.full(length, NONE)

    def recall(self, rng: np.random.Generator, length: int, english: float, text: float, reworded: float) -> Row:
        """A prompt to train on: many needles, and questions about some or all.

        Args:
            rng: draws it.
            length: tokens.
            english: share of prompts worded in English; the others' wordings are random tokens.
            text: share of prompts with essays around the needles; around the others' are random tokens.
            reworded: share of prompts in English whose questions are in words of their own. A third of the others'
                wordings are cut from the texts, and some are the wording of `passwords`.
        """
        draw: Callable[..., Said] = partial(self.english, rng, True)
        random = _RANDOM_IN_ENGLISH
        alone = False
        if rng.random() >= english:
            draw, random = lambda *_: self.made_up(rng), _RANDOM
        elif rng.random() < reworded:
            draw, alone = partial(self.english, rng, False), rng.random() < _LONE
        elif (picked := rng.random()) < _GATES:
            draw = self.gate
        elif picked < _GATES + _QUOTED:
            draw, random = lambda *_: self.quoted(rng), _RANDOM
        long = length >= _SHORTEST_LONG and rng.random() < _LONG
        most = max(3, min(_MOST_NEEDLES, length // (60 if long else 18)))
        few, shared = rng.random() < _FEW, rng.random() < _SHARED
        while True:  # until all fits
            least, top = (3, min(6, most)) if few and most > 2 else (2, most)
            count = 1 if alone else int(rng.integers(least, top + 1))
            said = [draw(min(count, _FORMS), count >= _ENOUGH)] * count if shared else [draw() for _ in range(count)]
            short = partial(self.item, rng, 4, random)
            value = self.long(rng, min(_MOST_LONG, length // 8)) if long else short
            if long and rng.random() < _LONG_KEYS:
                key = self.long(rng, min(_MOST_LONG, length // 8))
                keys = [key() for _ in range(count)]
            elif rng.random() < random:
                keys = self.differing(rng, count, 2, 4)
            else:
                keys = [short() for _ in range(count)]
            if len({*map(tuple, keys)}) < count:
                continue
            values = [value() for _ in range(count)]
            hay = self.hay(rng, length, text)
            questions = count if rng.random() < 0.7 else int(rng.integers(1, count + 1))
            if made := self.hide(rng, length, said, [*zip(keys, values, strict=True)], hay, questions, ended=True):
                return made
            most = max(2, most - 1)

    def differing(self, rng: np.random.Generator, count: int, least: int, most: int) -> list[Tokens]:
        """Random keys that differ in one token."""
        base = self.random(rng, least, most)
        place = int(rng.integers(len(base)))
        return [
            [*base[:place], token, *base[place + 1 :]] for token in rng.integers(SPECIAL, self.size, count).tolist()
        ]

    def judged(self, kind: Kind, rng: np.random.Generator, length: int) -> Row:
        """A prompt that asks for one of four needles.

        - words: the wording of `passwords`, with words that are not in the texts of the training.
        - wordings: wordings and openers of questions never trained on; the question repeats the needle's words.
        - keys: wordings, keys (which differ in one token) and values of random tokens.
        - questions: wordings and question forms never trained on; the question does not repeat the needle's words.
        - identifiers: as wordings, with values of 32 hexadecimal digits in five groups.
        """
        for _ in range(_TRIES):
            if kind == "words":
                said = self.gate()
                cities = rng.choice(NEW_CITIES, _NEEDLES, replace=False)
                values = [f" {rng.choice(NEW_ADJECTIVES)} {rng.choice(NEW_NOUNS)}" for _ in cities]
                facts = [
                    (self.encode(f" {city}"), self.encode(value)) for city, value in zip(cities, values, strict=True)
                ]
            elif kind == "keys":
                said = self.made_up(rng)
                facts = [(key, self.random(rng, 2, 3)) for key in self.differing(rng, _NEEDLES, 3, 4)]
            else:
                said = self.english(rng, kind != "questions", _FORMS_JUDGED)
                value = (lambda: f" {UUID(bytes=rng.bytes(16))}") if kind == "identifiers" else partial(self.word, rng)
                facts = [(self.encode(self.word(rng)), self.encode(value())) for _ in range(_NEEDLES)]
            if len({tuple(key) for key, _ in facts}) < _NEEDLES:
                continue
            if made := self.hide(rng, length, [said] * _NEEDLES, facts, self.text, 1):
                return made
        raise ValueError(f"length = {length} is too short for {_NEEDLES} needles and a question")


def choice(rng: np.random.Generator, from_: Sequence[_T]) -> _T:
    """One of a list."""
    return from_[int(rng.integers(len(from_)))]


def together(rows: Sequence[Row]) -> Batch:
    """Sequences of one length as a batch."""
    return Batch(*(torch.from_numpy(np.stack(part)) for part in zip(*rows, strict=True)))
