"""What the retriever is trained on: essays in tokens, with needles and questions."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Int
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from featscope.language.retriever.passwords import ADJECTIVES, ANSWER, CITIES, NEEDLE, NOUNS, QUESTION

BOS, EOS, PAD = "<s>", "</s>", "<pad>"
HELD_OUT = 6
"""Every so many essays one is kept for evaluation."""
_QUESTION_TOKENS = 13  # a question with its answer takes fewer

Batch = tuple[Int[Tensor, "row token"], Bool[Tensor, "row token"]]
"""Tokens, and which of them are words of an answer."""


def read_essays(folder: Path) -> tuple[list[str], list[str]]:
    """Texts to train on, and those held out."""
    texts = [" ".join(path.read_text(encoding="utf-8").split()) for path in sorted(folder.glob("*.txt"))]
    return [t for i, t in enumerate(texts) if i % HELD_OUT], texts[::HELD_OUT]


def train_tokenizer(texts: Sequence[str], vocabulary: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE of essays and needles; each city and each word of a password becomes one token."""
    rng = np.random.default_rng(0)
    needles = (needle + QUESTION.format(city=city) for city, needle, _ in _facts(rng, 20_000))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[BOS, EOS, PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*texts, *needles], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=BOS, eos_token=EOS, pad_token=PAD)


def _facts(rng: np.random.Generator, count: int) -> Iterator[tuple[str, str, str]]:
    """(city, needle, answer), cities without repetition among any successive 64."""
    cities: list[str] = []
    for _ in range(count):
        cities = cities or list(rng.permutation(CITIES))
        city, adjective, noun = cities.pop(), str(rng.choice(ADJECTIVES)), str(rng.choice(NOUNS))
        words = {"city": city, "adjective": adjective, "noun": noun}
        yield city, NEEDLE.format(**words), ANSWER.format(**words)


class Prompts:
    """Sequences with needles and questions.

    Args:
        tokenizer: of the model.
        texts: what needles are hidden in.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, texts: Sequence[str]) -> None:
        self.tokenizer = tokenizer
        self.text = np.concatenate([tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts])
        ends = {i for token, i in tokenizer.get_vocab().items() if token[-1] in ".?!"}
        self.sentences = 1 + np.flatnonzero(np.isin(self.text, list(ends)))
        self.known: dict[str, list[int]] = {}

    def _encode(self, text: str) -> list[int]:
        if text not in self.known:
            self.known[text] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return self.known[text]

    def sequence(
        self, rng: np.random.Generator, length: int, needles: int, questions: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Tokens ``[length]`` and which of them are words of an answer; the questions come last.

        The text is one piece of an essay, or (every other time) scraps of several.
        """
        facts = list(_facts(rng, needles))
        tail: list[int] = []
        asked: list[int] = []
        for place in rng.permutation(needles)[:questions]:
            city, _, answer = facts[place]
            tail += self._encode(QUESTION.format(city=city))
            asked += [len(tail), len(tail) + 1]
            tail += self._encode(answer)
        hidden = [self._encode(needle) for _, needle, _ in facts]
        room = length - 1 - len(tail) - sum(map(len, hidden))
        if room < 0:
            raise ValueError(f"length = {length} is too short for {needles} needles and {questions} questions")
        pieces = self._pieces(rng, room, needles)
        body = [self.tokenizer.bos_token_id]
        for piece, needle in zip(pieces, [*hidden, []], strict=True):
            body += [*piece, *needle]
        start = len(body)
        answers = np.zeros(length, dtype=bool)
        answers[[start + place for place in asked]] = True
        return np.array(body + tail), answers

    def _pieces(self, rng: np.random.Generator, room: int, cuts: int) -> list[np.ndarray]:
        """``room`` tokens of text in ``cuts`` + 1 pieces, cut at ends of sentences where the text is of one piece."""
        if rng.random() < 0.5:
            places = np.sort(rng.integers(0, room + 1, cuts))
            sizes = np.diff(places, prepend=0, append=room)
            starts = rng.integers(0, len(self.text) - room, cuts + 1)
            return [self.text[start : start + size] for start, size in zip(starts, sizes, strict=True)]
        fitting = self.sentences[self.sentences < len(self.text) - room]
        start = int(rng.choice(fitting))
        inside = self.sentences[(self.sentences >= start) & (self.sentences <= start + room)] - start
        places = np.sort(rng.choice(inside, cuts))
        return np.split(self.text[start : start + room], places)

    def copies(self, rng: np.random.Generator, count: int, length: int) -> Batch:
        """``count`` sequences of random tokens with a random period; what repeats is the answer."""
        tokens = np.full((count, length), self.tokenizer.bos_token_id)
        answers = np.zeros((count, length), dtype=bool)
        for row, mark in zip(tokens, answers, strict=True):
            period = int(rng.integers(length // 4, length // 2 + 1))
            row[1:] = np.resize(rng.integers(3, len(self.tokenizer), period), length - 1)
            mark[2 + period :] = True
        return torch.from_numpy(tokens), torch.from_numpy(answers)

    def batch(self, rng: np.random.Generator, count: int, length: int) -> Batch:
        """``count`` sequences ``[count, length]`` with as many needles and questions as fit, up to 8 and 6."""
        most = max(2, min(6, length // 24))
        made = []
        for _ in range(count):
            questions = int(rng.integers(1, most + 1))
            spare = (length - _QUESTION_TOKENS * questions) // 10 - 1
            needles = int(rng.integers(questions, max(questions, min(8, spare)) + 1))
            made.append(self.sequence(rng, length, needles, questions))
        return together(made)


def together(rows: Sequence[tuple[np.ndarray, np.ndarray]]) -> Batch:
    """Sequences of one length as a batch."""
    tokens, answers = zip(*rows, strict=True)
    return torch.from_numpy(np.stack(tokens)), torch.from_numpy(np.stack(answers))
