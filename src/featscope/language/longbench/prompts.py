"""Prompts as tokens: a template filled in, cut in the middle where it is too long."""

from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from featscope.language.chat import prompt_tokens
from featscope.language.longbench.data import LongBenchExample
from featscope.language.longbench.tasks import LongBenchTask
from featscope.options import ConfigError


class Prompted(NamedTuple):
    """A prompt, ready for a model.

    Attributes:
        ids: its tokens.
        cut: tokens that were cut out of its middle.
    """

    ids: Int[Tensor, "one token"]
    cut: int


def cut_middle(tokens: list[int], most: int) -> list[int]:
    """The first and the last half of ``most`` tokens; all, if there are no more. An odd ``most`` loses one.

    LongBench cuts so, as instructions stand at both ends.
    """
    half = most // 2
    return tokens if len(tokens) <= most else tokens[:half] + tokens[len(tokens) - half :]


def encode(
    tokenizer: PreTrainedTokenizerBase, task: LongBenchTask, example: LongBenchExample, most: int, *, chat: bool = False
) -> Prompted:
    """The prompt of an example.

    Args:
        tokenizer: of the model.
        task: whose template is filled in.
        example: what it is filled in with.
        most: tokens that the prompt may have.
        chat: whether the prompt is a user's message after an empty system message (dissertation, Section G.4.7); not
            in tasks of which only the first line counts, as in LongBench.

    Raises:
        ConfigError: a chat is wanted of a tokenizer that has no template for it, or ``most`` leaves no room.
    """
    text = task.prompt.format(context=example.context, input=example.input)
    wrapped = chat and not task.first_line
    around = len(_chat(tokenizer, "")) if wrapped else 0
    if most - around < 2:
        raise ConfigError(
            f"context leaves {most - around} tokens for the prompt of {task.name}: allowed is 2 or more. "
            "Raise it, or load a model of a longer context."
        )
    if not wrapped:
        whole = prompt_tokens(tokenizer, text)
        kept = cut_middle(whole, most)
        return Prompted(torch.tensor([kept]), len(whole) - len(kept))
    plain = cast(list[int], tokenizer(text, add_special_tokens=False)["input_ids"])
    room, ids = most - around, _chat(tokenizer, text)
    while len(ids) > most:  # text that is put together from halves may have more tokens than they had
        ids = _chat(tokenizer, cast(str, tokenizer.decode(cut_middle(plain, room), skip_special_tokens=True)))
        room = max(0, room - max(1, len(ids) - most))
    return Prompted(torch.tensor([ids]), max(0, len(plain) + around - len(ids)))


def _chat(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    if not tokenizer.chat_template:
        raise ConfigError(
            "chat = True, but the model's tokenizer has no chat template: allowed is a model that was tuned to chat. "
            "Leave --chat out, or load an 'Instruct' model."
        )
    messages = [{"role": "system", "content": ""}, {"role": "user", "content": text}]
    made: Any = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    return cast(list[int], tokenizer(made, add_special_tokens=False)["input_ids"])
