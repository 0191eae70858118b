"""What prompts cost, measured on a network with random weights (P Theorem 9.3, Section 9.4.5)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from transformers import PreTrainedModel

from featscope.language.cost import new_token_operations, new_token_seconds, operations, seconds
from featscope.language.first_pass import attention_at
from featscope.language.methods import METHODS, Reading
from featscope.language.presets import GemFilter
from featscope.language.prompt import Prompt
from featscope.language.random_models import random_model
from featscope.language.selection import last_row_scores, select
from featscope.streams import Streams
from featscope.theory.token_selection import Geometry
from featscope.training import Answer, Questionnaire
from featscope.training.evaluation import Ask
from featscope.training.memory import peak_bytes

GEOMETRY = Geometry(layers=8, heads=8, kv_heads=2, channels=32, width=256, hidden=1024, vocabulary=1024)
FILTER, KEEP, DECODED = 2, 256, 16  # r, k, and new tokens that are timed
BYTES = 4  # of a number
WORK = {
    "full": "reading the prompt in all layers",
    "snapkv": "reading the prompt with SnapKV",
    "first": "GemFilter's first pass with its choice",
    "choice": "the choice alone",
}
TIMED, COUNTED, WEIGHED = ("full", "first", "choice"), ("full", "first"), ("full", "snapkv", "first")
NEW, NEW_TIMED = ("full", "snapkv", "gemfilter"), ("full", "gemfilter")  # methods that generate


@dataclass(frozen=True)
class Cost(Questionnaire):
    """What a prompt of each length costs.

    Attributes:
        lengths: tokens of the prompts.
    """

    lengths: Sequence[int]

    answers: ClassVar[Mapping[str, Answer]] = {
        **{f"{name}_seconds": Answer(WORK[name], "s") for name in TIMED},
        **{f"{name}_operations": Answer(f"operations of {WORK[name]}") for name in COUNTED},
        **{f"{name}_bytes": Answer(f"peak beyond weights of {WORK[name]}", "B") for name in WEIGHED},
        **{f"{name}_decoding_seconds": Answer(f"a new token, {METHODS[name].label}", "s") for name in NEW_TIMED},
        **{f"{name}_decoding_operations": Answer(f"those of a new token, {METHODS[name].label}") for name in NEW},
        "prompt_length": Answer("tokens of the prompt", "token"),
    }

    @property
    def grid(self) -> Mapping[str, Sequence[int]]:
        """The lengths."""
        return {"length": self.lengths}

    def asker(self, streams: Streams) -> Ask:
        """Draws a network, and a prompt of every length."""
        draws = streams.at("cost")
        model = random_model(GEOMETRY, max(self.lengths) + DECODED, draws)
        prompts = {n: 3 + draws.choice(2**20, n) % (GEOMETRY.vocabulary - 3) for n in self.lengths}
        return lambda length: measured(model, prompts[length])


def measured(model: PreTrainedModel, prompt: Tensor) -> Mapping[str, float]:
    """What ``prompt`` costs, by the names of answers."""
    methods = {name: Reading(FILTER, KEEP).build(name, model) for name in NEW}
    gem, real = GemFilter(model, FILTER, KEEP, window=0), torch.ones_like(prompt, dtype=torch.bool)
    at = attention_at(model, Prompt(prompt, real), FILTER)
    work = {
        "full": lambda: model(prompt, use_cache=True, logits_to_keep=1),
        "snapkv": lambda: methods["snapkv"].generate(prompt, max_new_tokens=1, do_sample=False),
        "first": lambda: gem.select(prompt),
        "choice": lambda: select(last_row_scores(at.query, at.key), real, KEEP),
    }
    timed = zip(TIMED, seconds([work[name] for name in TIMED]), strict=True)
    return {
        **{f"{name}_seconds": took for name, took in timed},
        **{f"{name}_operations": operations(work[name]) for name in COUNTED},
        **{f"{name}_bytes": peak_bytes(work[name]) for name in WEIGHED},
        **{f"{name}_decoding_seconds": new_token_seconds(methods[name], prompt, DECODED) for name in NEW_TIMED},
        **{f"{name}_decoding_operations": new_token_operations(methods[name], prompt) for name in NEW},
        "prompt_length": prompt.shape[1],
    }
