"""The retriever as a network: its shapes, its first weights, its loss, and how often it answers."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from featscope.language.retriever.data import Batch

ROTARY_BASE = 1e5
_LATER = 0.1  # weight of what follows the first token of an answer
_CONTENT = 0.2  # of a head that looks to places: what its matrices keep of their first size


class Window(NamedTuple):
    """Where a head looks by its biases: weights fall as a bell over the distance back.

    Attributes:
        layer: of the head.
        head: its number.
        center: distance that it likes best, in tokens.
        width: of the bell, in tokens.
        height: logit at the center, over that of far tokens.
    """

    layer: int
    head: int
    center: float
    width: float
    height: float


WINDOWS = (Window(0, 0, 1, 0.4, 20), Window(0, 1, 4, 2.5, 8), Window(1, 0, 1, 0.4, 20), Window(1, 1, 7, 4, 8))
"""What knows where a value stands: the token before, those of the key before it, and the same for the token before."""


def build(
    tokenizer: PreTrainedTokenizerFast, width: int, layers: int, heads: int, context: int, seed: int
) -> LlamaForCausalLM:
    """The network before its first step. Heads of the first layers look back to fixed places."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=context,
        rope_parameters={"rope_type": "default", "rope_theta": ROTARY_BASE},
        attention_bias=True,
        initializer_range=width**-0.5,  # at the default, 0.02, attention begins uniform and takes long to leave it
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for layer in model.model.layers:
            for side in (layer.self_attn.q_proj, layer.self_attn.k_proj):
                side.bias.normal_(std=0.5)
        for window in WINDOWS:
            if window.layer < layers:
                _look(model.model.layers[window.layer].self_attn, window, width // heads)
    return model


def _look(attention: Any, window: Window, size: int) -> None:
    """Give a head the biases that make it look there: a bell as a sum of the cosines that rotary positions offer."""
    turn = ROTARY_BASE ** (-torch.arange(0, size, 2) / size)  # angle from a token to the next, by pair
    part = turn * torch.exp(-((turn * window.width) ** 2) / 2)
    length = (part / part.sum() * window.height * size**0.5).sqrt()
    angle = turn * window.center
    rows = slice(window.head * size, (window.head + 1) * size)
    for side, bias in (
        (attention.k_proj, torch.cat((length, torch.zeros_like(length)))),
        (attention.q_proj, torch.cat((length * angle.cos(), -length * angle.sin()))),
    ):
        side.bias[rows] = bias
        side.weight[rows] *= _CONTENT


def logits(model: LlamaForCausalLM, batch: Batch) -> tuple[Float[Tensor, "answer vocabulary"], Tensor]:
    """What the model says where an answer's token comes next, and that token ``[answer]``."""
    tokens, answers = batch
    hidden = model.model(tokens, use_cache=False).last_hidden_state[:, :-1]
    return model.lm_head(hidden[answers[:, 1:]]), tokens[:, 1:][answers[:, 1:]]


def loss_and_right(model: LlamaForCausalLM, batch: Batch) -> tuple[Float[Tensor, ""], float]:
    """Mean loss of the tokens of answers, and the share of answers whose first token is likeliest.

    Later tokens are copied once the first is found, which is soon learned: each counts a tenth.
    """
    answers = batch[1]
    first = (answers[:, 1:] & ~answers[:, :-1])[answers[:, 1:]]
    said, wanted = logits(model, batch)
    weights = torch.where(first, 1.0, _LATER)
    loss = (cross_entropy(said, wanted, reduction="none") * weights).sum() / weights.sum()
    return loss, float((said.argmax(-1) == wanted)[first].float().mean())


@torch.no_grad()
def accuracy(model: LlamaForCausalLM, batch: Batch) -> float:
    """Share of rows whose whole answer the model gives."""
    tokens, answers = batch
    right = 0
    for ids, marks in zip(tokens.split(16), answers.split(16), strict=True):
        said, wanted = logits(model, (ids, marks))
        rows = marks[:, 1:].nonzero()[:, 0]
        wrong = rows[said.argmax(-1) != wanted]
        right += len(ids) - len(wrong.unique())
    return right / len(tokens)
