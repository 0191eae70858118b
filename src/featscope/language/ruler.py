"""RULER's tasks that need no download: prompts of any length, made here, with what an answer must have.

RULER: Hsieh et al. 2024, arXiv 2404.06654. Eleven of its thirteen tasks, with its numbers of needles, chains and words
(Appendix B); the two others ask about SQuAD and HotpotQA. The wording is our own: scores are to be compared with each
other, and not with published ones. RULER's score is the share of an example's answers that is given.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from random import Random
from re import split
from typing import Literal, NamedTuple, Protocol
from uuid import UUID

from featscope.language.retriever.passwords import NEW_ADJECTIVES, NEW_NOUNS
from featscope.streams import Draws

_NOISE = ("The field is wide.", "The wind is warm.", "The road is long.", "We walk on.", "Then we turn back.")
_LONGEST = 300  # characters of a sentence of hay; a text without full stops is cut
_MOST_CODED = 200  # different words of a coded text
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Question(NamedTuple):
    """What is asked behind a document, and what must be in the answer."""

    text: str
    answers: tuple[str, ...]


class Drawn(NamedTuple):
    """A document whose length is still open, and what may be asked of it.

    Attributes:
        document: with so much to distract from what is asked for: sentences or words.
        questions: one or more.
        least: the smallest amount that makes sense.
    """

    document: Callable[[int], str]
    questions: tuple[Question, ...]
    least: int = 0


class Task(Protocol):
    """One of RULER's."""

    def drawn(self, draws: Draws, essay: Sequence[str]) -> Drawn:
        """A document of any length; ``essay``: sentences to hide something between."""
        ...


@dataclass(frozen=True)
class Retrieval:
    """Values are hidden in a text, each with a key, and those of some keys are asked for.

    Attributes:
        hay: what they are hidden in: five sentences over and over, an essay, or other keys and values.
        keys: what keys are.
        values: what values are.
        needles: keys in the text.
        each: values of the key that is asked for.
        asked: keys that are asked for.
    """

    hay: Literal["noise", "essay", "needles"]
    keys: Literal["words", "uuids"] = "words"
    values: Literal["numbers", "uuids"] = "numbers"
    needles: int = 1
    each: int = 1
    asked: int = 1

    @property
    def questions(self) -> int:
        """That can be asked of one document, each for a key of its own."""
        return self.needles if self.each == self.asked == 1 else 1

    def drawn(self, draws: Draws, essay: Sequence[str]) -> Drawn:
        """Needles at random places; there are the same, at the same shares of the text, in any length."""
        count = self.needles + self.each - 1
        key_of, value_of = _named(self.keys, draws), _named(self.values, draws)
        keys = [key_of(max(0, place - self.each + 1)) for place in range(count)]
        values = [value_of(place) for place in range(count)]
        depths, begin = draws.uniform(count)[0].tolist(), int(draws.uniform(1)[0, 0] * len(essay))
        kind = self.values.removesuffix("s")
        article = "A" if self.each > 1 else "The"

        def said(key: str, value: str) -> str:
            return f"{article} special {kind} for {key} is {value}."

        def hay(place: int) -> str:
            if self.hay == "needles":
                return said(key_of(count + place), value_of(count + place))
            return essay[(begin + place) % len(essay)] if self.hay == "essay" else _NOISE[place % len(_NOISE)]

        hidden = [said(*pair) for pair in zip(keys, values, strict=True)]
        found = self.each + self.asked - 1

        def question(first: int) -> Question:
            wanted = list(dict.fromkeys(keys[first : first + found]))
            of = f"{', '.join(wanted[:-1])} and {wanted[-1]}" if len(wanted) > 1 else wanted[0]
            which = f"special {kind}s for {of} are" if found > 1 else f"special {kind} for {of} is"
            return Question(f"\nWhat does the text give for {of}? The {which}", tuple(values[first : first + found]))

        before = f"Special {kind}s are hidden in this text. Keep them in mind, as you will be asked for them."
        questions = tuple(map(question, range(self.questions)))
        return Drawn(lambda amount: f"{before}\n{_mixed(hidden, depths, hay, amount)}", questions)


@dataclass(frozen=True)
class Tracking:
    """A variable is given a value, and others are given the variable, one after another: which have the value?

    Attributes:
        hops: how often it is handed on.
    """

    hops: int = 4

    def drawn(self, draws: Draws, essay: Sequence[str]) -> Drawn:
        """The statements stand in their order in the text, between five sentences over and over."""
        names = _coded(draws, self.hops + 1, 5, _LETTERS.upper())
        value = str(10_000 + int(draws.uniform(1)[0, 0] * 90_000))
        said = [
            f"VAR {name} = {before}."
            for name, before in zip(names, [value, *(f"VAR {n}" for n in names[:-1])], strict=True)
        ]
        depths = sorted(draws.uniform(len(said))[0].tolist())
        before = "Variables are given values in this text, or those of other variables. Follow them."
        after = f"\nWhich variables have the value {value} in the end? These {len(names)} have it:"
        return Drawn(
            lambda amount: f"{before}\n{_mixed(said, depths, lambda i: _NOISE[i % len(_NOISE)], amount)}",
            (Question(after, tuple(names)),),
        )


@dataclass(frozen=True)
class CommonWords:
    """A list of words, of which some come up more often than all others.

    Attributes:
        common: how many do.
        often: how often.
        seldom: how often the others come up.
    """

    common: int = 10
    often: int = 30
    seldom: int = 3

    def drawn(self, draws: Draws, essay: Sequence[str]) -> Drawn:
        """Words in any order, with their numbers in the list."""
        word = _named("words", draws)
        common = [word(place) for place in range(self.common)]
        order = _number(draws)

        def document(amount: int) -> str:
            words = [one for one in common for _ in range(self.often)]
            words += [word(self.common + place) for place in range(amount) for _ in range(self.seldom)]
            Random(order).shuffle(words)
            listed = " ".join(f"{number}. {word}" for number, word in enumerate(words, 1))
            before = "Some words of this list come up more often than others. Keep those in mind."
            return f"{before}\n{listed}"

        after = f"\nWhat are the {self.common} words that come up most often? They are:"
        return Drawn(document, (Question(after, tuple(common)),), least=1)


@dataclass(frozen=True)
class FrequentWords:
    """Made-up words whose frequencies fall as a power of their rank (Zipf's law); the commonest are asked for.

    Attributes:
        asked: how many.
        power: of the rank.
    """

    asked: int = 3
    power: float = 2.0

    def drawn(self, draws: Draws, essay: Sequence[str]) -> Drawn:
        """Dots are the commonest of all, and are not asked for."""
        words = ["...", *_coded(draws, _MOST_CODED, 6, _LETTERS)]
        order = _number(draws)

        def document(amount: int) -> str:
            whole = sum(rank**-self.power for rank in range(1, len(words) + 1))
            counts = [int(amount * rank**-self.power / whole) for rank in range(1, len(words) + 1)]
            every = [word for word, count in zip(words, counts, strict=True) for _ in range(count)]
            Random(order).shuffle(every)
            before = "Count how often each word comes up in this coded text. Dots are no words."
            return f"{before}\n{' '.join(every)}"

        after = f"\nWhich {self.asked} words come up most often? They are:"
        return Drawn(document, (Question(after, tuple(words[1 : self.asked + 1])),), least=100)


TASKS: Mapping[str, Task] = {
    "niah_single_1": Retrieval("noise"),
    "niah_single_2": Retrieval("essay"),
    "niah_single_3": Retrieval("essay", values="uuids"),
    "niah_multikey_1": Retrieval("essay", needles=4),
    "niah_multikey_2": Retrieval("needles"),
    "niah_multikey_3": Retrieval("needles", "uuids", "uuids"),
    "niah_multivalue": Retrieval("essay", each=4),
    "niah_multiquery": Retrieval("essay", needles=4, asked=4),
    "vt": Tracking(),
    "cwe": CommonWords(),
    "fwe": FrequentWords(),
}
"""RULER's names of its tasks (Appendix B, Table 5)."""

QUESTIONS = {name: task.questions for name, task in TASKS.items() if isinstance(task, Retrieval) and task.questions > 1}
"""How many questions can be asked of one document, where more than one can."""


def sentences(texts: Sequence[str]) -> list[str]:
    """Those of essays, cut where they are very long."""
    found = [one for text in texts for one in split(r"(?<=[.!?])\s+", text) if one]
    return [one[i : i + _LONGEST] for one in found for i in range(0, len(one), _LONGEST)]


def fitted(drawn: Drawn, length: int, tokens: Callable[[str], int]) -> str:
    """The longest document with which a prompt has at most ``length`` tokens; with its shortest it must have no more.

    Args:
        drawn: the document and its questions.
        length: how many tokens a prompt may have.
        tokens: how many one with a given document has.
    """

    def left(amount: int) -> int:
        return length - tokens(drawn.document(amount))

    low, step, free = drawn.least, 1, float(left(drawn.least))
    while (found := left(low + step)) >= 0:
        low, step, free = low + step, 2 * step, float(found)
    high, lacking = low + step, float(-found)
    while high - low > 1:  # regula falsi, by the Illinois rule: tokens are nearly linear in the amount
        middle = min(max(low + int((high - low) * free / (free + lacking)), low + 1), high - 1)
        before, found = found, left(middle)
        again = (found >= 0) == (before >= 0)
        if found >= 0:
            low, free, lacking = middle, float(found), lacking / 2 if again else lacking
        else:
            high, free, lacking = middle, free / 2 if again else free, float(-found)
    return drawn.document(low)


def _mixed(hidden: Sequence[str], depths: Sequence[float], hay: Callable[[int], str], amount: int) -> str:
    """``amount`` sentences of hay, and before the one at each depth something hidden."""
    places = [int(depth * (amount + 1)) for depth in depths]
    order = sorted(range(len(hidden)), key=lambda i: (places[i], depths[i]))
    lines = list[str]()
    for place in range(amount + 1):
        lines += [hidden[i] for i in order if places[i] == place]
        lines += [hay(place)] if place < amount else []
    return " ".join(lines)


def _named(kind: Literal["words", "numbers", "uuids"], draws: Draws) -> Callable[[int], str]:
    """Names by place: words with hyphens, which do not come twice, numbers of seven digits, or identifiers.

    The words are none that the small model was trained to find.
    """
    if kind != "words":
        key = draws.uniform(4)[0].numpy().tobytes()

        def hashed(place: int) -> bytes:
            return blake2b(str(place).encode(), key=key, digest_size=16).digest()

        if kind == "uuids":
            return lambda place: str(UUID(bytes=hashed(place)))
        return lambda place: str(1_000_000 + int.from_bytes(hashed(place)) % 9_000_000)
    total = len(NEW_ADJECTIVES) * len(NEW_NOUNS)
    order = draws.choice(total, total)[0].tolist()
    return lambda place: _more(place // total) + _pair(order[place % total])


def _number(draws: Draws) -> int:
    """A number that an order of any length is drawn from."""
    return int(draws.uniform(1)[0, 0] * 2**24)


def _more(turn: int) -> str:
    """Words before a pair that has come before; none the first time."""
    return _more(turn // len(NEW_ADJECTIVES)) + f"{NEW_ADJECTIVES[turn % len(NEW_ADJECTIVES)]}-" if turn else ""


def _pair(which: int) -> str:
    return f"{NEW_ADJECTIVES[which % len(NEW_ADJECTIVES)]}-{NEW_NOUNS[which // len(NEW_ADJECTIVES)]}"


def _coded(draws: Draws, count: int, length: int, letters: str) -> list[str]:
    """So many different words of random letters."""
    made = dict[str, None]()
    while len(made) < count:
        drawn = (draws.uniform(count, length)[0] * len(letters)).long().tolist()
        made |= dict.fromkeys("".join(letters[i] for i in word) for word in drawn)
    return list(made)[:count]
