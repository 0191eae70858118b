"""What a model finds that it never saw, and the heads that find it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from featscope.language.attention import Attention, attention_weights, watched
from featscope.language.chat import first_tokens
from featscope.language.haystack import read_texts
from featscope.language.load import layers_of, load_once
from featscope.language.random_models import untrained
from featscope.language.retriever.data import Kind, Task
from featscope.language.retriever.passwords import NEW_ADJECTIVES, NEW_CITIES, NEW_NOUNS
from featscope.language.retriever.wordings import HELD_OUT
from featscope.streams import Draws, Streams
from featscope.training import Answer, Questionnaire
from featscope.training.evaluation import Ask

LENGTHS = (512, 1024)
"""Tokens of the prompts."""
_PERIOD = 64  # random tokens, said twice
_BEHIND = 4  # tokens: a head may look at a later one that an earlier layer told of the one behind


def numpy_of(draws: Draws) -> np.random.Generator:
    """NumPy's generator at a place given by the next draw."""
    return np.random.default_rng(int(draws.choice(2**20, 1)))


@dataclass(frozen=True)
class Recall(Questionnaire):
    """Four needles in every prompt and a question about one, read with full attention.

    Attributes:
        model: see `load_model`.
        haystack: see `read_texts`.
        prompts: of each length.
        kind: what about needles and question is unseen: see `featscope.language.retriever.data.Task.judged`.
    """

    model: str
    haystack: str
    prompts: int
    kind: Kind

    @property
    def grid(self) -> Mapping[str, Sequence[int]]:
        """Lengths, and prompts of each."""
        return {"length": LENGTHS, "prompt": range(self.prompts)}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """Whether all of the answer is given."""
        return {"whole": Answer("share of prompts whose whole answer was given")}

    def asker(self, streams: Streams) -> Ask:
        """Loads the model."""
        model, tokenizer = load_once(self.model, str(streams.device))
        encode: Any = tokenizer
        sentences = [s for text in read_texts(self.haystack) for s in re.split(r"(?<=[.!?])\s+", text) if s]
        words = (*NEW_CITIES, *NEW_ADJECTIVES, *NEW_NOUNS)

        def ask(length: int, prompt: int) -> Mapping[str, float]:
            rng = numpy_of(streams.at(f"{self.kind} {length}", prompt))
            text = " ".join(sentences[i] for i in rng.permutation(len(sentences)))
            texts = [text] * (1 + 8 * length // len(text))  # enough: a token has fewer than eight letters
            tokens, answer, *_ = Task(encode, texts, words, HELD_OUT).judged(self.kind, rng, length)
            ids = torch.from_numpy(tokens)[None].to(model.device)
            guess = model(ids, use_cache=False).logits[0, :-1].argmax(-1).cpu().numpy()
            if not answer[1:].any():
                raise ValueError(f"the prompt {prompt} of {self.kind} marks no token of its answer")
            return {"whole": bool((guess == tokens[1:])[answer[1:]].all())}

        return ask


@dataclass(frozen=True)
class Heads(Questionnaire):
    """What heads attend to in random tokens that are said twice.

    Attributes:
        model: see `load_model`.
        prompts: of random tokens.
        random_weights: whether the network's weights are those of a start.
    """

    model: str
    prompts: int
    random_weights: bool = False

    @property
    def grid(self) -> Mapping[str, Sequence[int]]:
        """Prompts."""
        return {"prompt": range(self.prompts)}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """Shares of attention, by layer."""
        axes = {"layer": layers_of(self.model)}
        about = "attention of the second saying, mean over tokens, of the head that gives most: on"
        return {
            "induction": Answer(f"{about} one of the four places behind the same token's first saying", axes=axes),
            "previous": Answer(f"{about} the token before", axes=axes),
        }

    def asker(self, streams: Streams) -> Ask:
        """Loads the model."""
        model, tokenizer = load_once(self.model, str(streams.device))
        model = untrained(model, streams.at("weights")) if self.random_weights else model
        usable = sorted(set(range(len(tokenizer))) - set(tokenizer.all_special_ids))
        first = first_tokens(tokenizer) or usable[:1]

        def ask(prompt: int) -> Mapping[str, Sequence[float]]:
            picks = streams.at("twice", prompt).choice(len(usable), _PERIOD)[0].tolist()
            said = [usable[i] for i in picks]
            ids = torch.tensor([[*first, *said, *said]], device=model.device)
            seen = _Looks()
            with watched(model, seen):
                model(ids, use_cache=False)
            return {"induction": seen.induction, "previous": seen.previous}

        return ask


class _Looks:
    """Observes what every layer's heads attend to from the second saying on."""

    def __init__(self) -> None:
        self.induction: list[float] = []
        self.previous: list[float] = []

    def before(self, attention: Attention) -> None:
        """Nothing."""

    def after(self, attention: Attention) -> None:
        """Take the means of all heads."""
        real = torch.ones(1, attention.key.shape[2], dtype=torch.bool, device=attention.key.device)
        weights = attention_weights(attention, real, slice(1 + _PERIOD, None))[0].flatten(0, 1)
        self.induction.append(max(looks_at(weights, 1 + behind) for behind in range(1, _BEHIND + 1)))
        self.previous.append(looks_at(weights, _PERIOD))


def looks_at(weights: Float[Tensor, "head row token"], first: int) -> float:
    """Mean weight that row ``i`` gives to token ``first + i``, of the head that gives most."""
    return float(weights.diagonal(first, 1, 2).mean(-1).max())
