"""Needles in a haystack (dissertation, Sections 9.4.1 and G.4.3)."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from featscope.language.chat import first_tokens
from featscope.language.method import GREEDY, Method
from featscope.language.retriever.passwords import ADJECTIVES, ANSWER, CITIES, NEEDLE, NOUNS, QUESTION
from featscope.language.selection import kept_share
from featscope.options import ConfigError
from featscope.streams import Draws

_LONGEST = 64
_READ = 0.5  # of the score, in a short text
_QUOTED = 60  # letters of what a model said
MOST_TOKENS = 2**20
"""The longest prompt, in tokens, that studies ask for: a text is made of each before the model sees it."""
BUILT_IN = "built-in"
"""The name of the haystack that ships with FeatScope."""
OTHERS = 3
"""Needles of other cities beside the one that is asked for, where studies draw them."""


@dataclass(frozen=True)
class Needle:
    """A fact that is hidden, and what asks for it.

    Attributes:
        text: the sentence.
        question: what the prompt ends with.
        answer: the words that are looked for.
        full_stops: whether a full stop belongs to the word before it, as in the paper's answer.
    """

    text: str
    question: str
    answer: str
    full_stops: bool = True


def score(answer: str, expected: str) -> float:
    """Share of the expected words that the answer has, lower-cased and split at blanks, as the paper's release counts.

    Words that occur twice in ``expected`` count twice below the line and once above: the paper's own needle has 12
    words of which 11 differ, so that a perfect answer scores 11/12 = 0.917.
    """
    words = expected.lower().split()
    return len(set(answer.lower().split()) & set(words)) / len(words)


def normalised_score(answer: str, expected: str) -> float:
    """`score` over the score of a perfect answer."""
    return score(answer, expected) / score(expected, expected)


def exact(answer: str, expected: str) -> bool:
    """Whether the answer has all expected words one behind the other, lower-cased and split at blanks."""
    given, wanted = (f" {' '.join(text.lower().split())} " for text in (answer, expected))
    return wanted in given


def words_of(said: str, *, full_stops: bool) -> str:
    """What is scored of an answer: all of it, or (``full_stops`` false) all but full stops outside of numbers."""
    return said if full_stops else re.sub(r"(?<!\d)\.|\.(?!\d)", " ", said)  # "2.4" is not 4.2


def passwords(draws: Draws, count: int) -> list[Needle]:
    """Needles of the task that the retriever was trained on, all of different cities."""
    cities = draws.choice(len(CITIES), count)[0].tolist()
    words = draws.uniform(count, 2)[0]
    made = []
    for city, (first, second) in zip(cities, words.tolist(), strict=True):
        said = {
            "city": CITIES[city],
            "adjective": ADJECTIVES[int(first * len(ADJECTIVES))],
            "noun": NOUNS[int(second * len(NOUNS))],
        }
        needle, question, answer = (part.format(**said) for part in (NEEDLE, QUESTION, ANSWER))
        made.append(Needle(needle, question, answer.strip(" ."), full_stops=False))
    return made


def read_texts(folder: str) -> list[str]:
    """The texts of a folder of .txt files, blanks made single, or those that ship with FeatScope ("built-in").

    Raises:
        ConfigError: there is no such folder, no text in it, or a file that is not UTF-8.
    """
    if folder == BUILT_IN:
        return [(files("featscope.language") / "haystack.txt").read_text(encoding="utf-8").replace("\n", " ")]
    paths = sorted(path for path in Path(folder).glob("*.txt") if path.is_file()) if os.path.isdir(folder) else []
    texts = [" ".join(_text_of(path).split()) for path in paths]
    if not any(texts):
        raise ConfigError(
            f"haystack = {folder[:300]!r} has no text: allowed is a folder with .txt files, or {BUILT_IN!r}"
        )
    return [text for text in texts if text]


def _text_of(path: Path) -> str:
    """What stands in a file, without the mark that some editors begin it with."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"haystack: {path} cannot be read ({error}): allowed is UTF-8 text. Save it as such, or take it out"
        ) from None


@dataclass(frozen=True)
class Hidden:
    """A prompt with needles.

    Attributes:
        ids: its tokens, the question last ``[1, token]``.
        needle: places of the needle that is asked for.
        asked: the needle that is asked for.
    """

    ids: Int[Tensor, "1 token"]
    needle: range
    asked: Needle


class Retrieved(NamedTuple):
    """What became of a needle.

    Attributes:
        score: see `score`.
        normalised: see `normalised_score`.
        exact: see `exact`.
        kept: share of the needle's tokens that were kept, mean over layers and heads where these differ; 0 where none
            is hidden.
    """

    score: float
    normalised: float
    exact: bool
    kept: float


class Haystack:
    """Texts in tokens, from which prompts of any length are cut.

    Sentences are put in an order that is drawn, and repeated where the texts are too short. One of more than 64 tokens
    is cut, so that a text without full stops has places for needles, too.

    Args:
        tokenizer: of the model that reads the prompts.
        texts: the hay.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> None:
        self.tokenizer = tokenizer
        self.first = first_tokens(tokenizer)
        sentences = [s for text in texts for s in re.split(r"(?<=[.!?])\s+", text) if s]
        encoded = [self.encode(" " + sentence) for sentence in sentences]
        self.sentences = [s[i : i + _LONGEST] for s in encoded for i in range(0, len(s), _LONGEST)]

    def encode(self, text: str) -> list[int]:
        """Tokens of ``text``, none of them special."""
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def hide(self, draws: Draws, length: int, depth: float, asked: Needle, others: Sequence[Needle] = ()) -> Hidden:
        """A prompt of ``length`` tokens whose needle lies ``depth`` (0 to 1) into the text, between two sentences.

        Args:
            draws: of one replica; where the text begins, and where other needles lie.
            length: tokens, with the question and `first_tokens`.
            depth: 0 puts the needle first, 1 before the question.
            asked: the needle that the question asks for.
            others: needles that nobody asks for, at random depths.

        Raises:
            ConfigError: the length does not hold needles and question.
        """
        needles = [(self.encode(needle.text), needle) for needle in (asked, *others)]
        question = self.encode(asked.question)
        room = length - len(self.first) - len(question) - sum(len(tokens) for tokens, _ in needles)
        if room < 0:
            raise ConfigError(
                f"length = {length} is too short: allowed is at least {length - room}, which needles and question take"
            )
        order = draws.choice(len(self.sentences), len(self.sentences))[0].tolist()
        hay: list[int] = []
        ends = [0]
        while len(hay) < room:
            for index in order:
                hay += self.sentences[index]
                ends.append(len(hay))
                if len(hay) >= room:
                    break
        hay = hay[-room:] if room else []  # the first sentence is cut, so that the last one ends before the question
        ends = [0, *(end - (ends[-1] - room) for end in ends if end - (ends[-1] - room) > 0)]
        depths = [depth, *draws.uniform(len(others))[0].tolist()] if others else [depth]
        places = [min(ends, key=lambda end, d=d: abs(end - d * room)) for d in depths]  # type: ignore[misc]
        body = list(self.first)
        span = range(0)
        start = 0
        for which in sorted(range(len(needles)), key=lambda i: (places[i], i)):
            body += hay[start : places[which]]
            start = places[which]
            if which == 0:
                span = range(len(body), len(body) + len(needles[0][0]))
            body += needles[which][0]
        return Hidden(torch.tensor([[*body, *hay[start:], *question]]), span, asked)

    def answer(self, method: Method, hidden: Hidden, new_tokens: int) -> tuple[str, Retrieved]:
        """What ``method`` says to a prompt with needles, and what became of the one that is asked for.

        Args:
            method: reads the prompt and generates.
            hidden: the prompt.
            new_tokens: how many are generated.
        """
        ids, asked = hidden.ids.to(method.model.device), hidden.asked
        asks = {"max_new_tokens": new_tokens, "tokenizer": self.tokenizer}
        output = method.generate(ids, torch.ones_like(ids), **asks, **GREEDY)
        said: Any = self.tokenizer.decode(output[0, ids.shape[1] :], skip_special_tokens=True)
        words = words_of(said, full_stops=asked.full_stops)
        kept = kept_share(output.kept, ids.shape[1])[list(hidden.needle)]
        found = float(kept.mean()) if len(kept) else 0.0
        right = score(words, asked.answer), normalised_score(words, asked.answer), exact(words, asked.answer)
        return said, Retrieved(*right, found)


def require_readable(full: Method, haystack: Haystack, needle: Needle, new_tokens: int, draws: Draws) -> None:
    """Refuse a needle that the model does not find even in a short text that it reads whole.

    Args:
        full: full attention of the model.
        haystack: the texts.
        needle: a needle of the user's.
        new_tokens: how many are generated.
        draws: of one replica.

    Raises:
        ConfigError: the answer has more tokens than are generated, or less than half of it is given; the message
            has what the model said where it gave least.
    """
    takes = len(haystack.encode(f" {needle.answer}"))
    if new_tokens < takes:
        raise ConfigError(f"new_tokens = {new_tokens} is too small: allowed is >= {takes}, the tokens of the answer")
    around = len(haystack.encode(needle.text + needle.question)) + len(haystack.first) + _LONGEST
    prompts = [haystack.hide(draws, around, depth, needle) for depth in (0.0, 0.5, 1.0)]
    found = [haystack.answer(full, prompt, new_tokens) for prompt in prompts]
    mean = sum(one.normalised for _, one in found) / len(found)
    if mean < _READ:
        said = min(found, key=lambda one: one[1].normalised)[0]
        raise ConfigError(
            f"needle = {needle.text[:200]!r} cannot be judged: asked {needle.question[:200]!r}, the model gives "
            f"{mean:.0%} of the answer's words even in a text of {around} tokens that it reads whole (it says "
            f"{said[:_QUOTED]!r}), so nothing would follow from a longer one or from what a method keeps. "
            "Allowed is a needle that it finds there: take a larger model, or a question that repeats the needle up to "
            "the answer"
        )
