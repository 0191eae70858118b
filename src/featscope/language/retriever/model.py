"""The retriever as a network: its shapes, its first weights, its loss, and how often it answers."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from featscope.language.retriever.data import Batch
from featscope.language.retriever.forward import hidden, logits
from featscope.language.retriever.hints import Readers, of_hints

ROTARY_BASE = 1e5
HEAD = 64
"""Size of a head; all heads together may be wider than the model."""
_LATER = 0.25  # weight of what follows the first token of an answer
_OF_TEXT = 0.1  # weight of the loss of all tokens
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


WINDOWS = (
    Window(0, 0, 1, 0.4, 20),
    Window(0, 1, 4, 2.5, 8),
    Window(0, 2, 2, 0.4, 20),
    Window(0, 3, 6, 2, 12),
    Window(1, 0, 1, 0.4, 20),
    Window(1, 1, 7, 4, 8),
    Window(1, 2, 5, 0.4, 20),
    Window(1, 3, 9, 2, 12),
)
"""What knows where a value stands: each token before it in a head of its own, and the same for the token before."""


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
        head_dim=HEAD,
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
            if window.layer < layers and window.head < heads:
                _look(model.model.layers[window.layer].self_attn, window, HEAD)
    return model


def fits(other: LlamaForCausalLM, model: LlamaForCausalLM) -> bool:
    """Whether ``model`` can go on from the weights of ``other``, which may have fewer layers."""
    shapes = "hidden_size", "intermediate_size", "vocab_size", "num_attention_heads", "head_dim"
    alike = (*shapes, "rope_parameters", "attention_bias")
    same = all(getattr(other.config, name) == getattr(model.config, name) for name in alike)
    return same and other.config.num_hidden_layers <= model.config.num_hidden_layers


@torch.no_grad()
def go_on(model: LlamaForCausalLM, other: LlamaForCausalLM) -> None:
    """Give ``model`` the weights of ``other``, which it `fits`.

    Layers that ``other`` lacks add nothing at first (Chen et al. 2016, "Net2Net"): they come below the one in the
    middle, which looks for the value, and above all.
    """
    mine, theirs = list(model.model.layers), list(other.model.layers)
    below = len(mine) // 2 - len(theirs) // 2
    places = [number + below * (number >= len(theirs) // 2) for number in range(len(theirs))]
    for place, layer in zip(places, theirs, strict=True):
        mine[place].load_state_dict(layer.state_dict())
    for number in {*range(len(mine))} - {*places}:
        for part in (mine[number].self_attn.o_proj, mine[number].mlp.down_proj):
            for parameter in part.parameters():
                parameter.zero_()
    model.model.embed_tokens.load_state_dict(other.model.embed_tokens.state_dict())
    model.model.norm.load_state_dict(other.model.norm.state_dict())


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


def loss_and_right(model: LlamaForCausalLM, readers: Readers | None, batch: Batch) -> tuple[Float[Tensor, ""], float]:
    """What is minimised, and the share of answers whose first token is likeliest.

    Beside the loss of the tokens of answers, of which a later one counts a quarter of the first, and those of each row
    as much as another row's, it is a tenth of the loss of every second token of all, and that of hints.
    """
    marked = batch.answers[:, 1:]
    first = (marked & ~batch.answers[:, :-1])[marked]
    states, read = hidden(model, batch.tokens)
    unembedding, wanted = model.lm_head.weight, batch.tokens[:, 1:]
    said = logits(states[:, :-1][marked], unembedding)
    row, weights = marked.nonzero()[:, 0], torch.where(first, 1.0, _LATER)
    of_rows = weights.new_zeros(len(marked)).index_add(0, row, weights)
    loss = (cross_entropy(said, wanted[marked], reduction="none") * weights / of_rows[row]).sum()
    loss = loss / (of_rows > 0).sum()
    of_text = cross_entropy(logits(states[:, :-1:2].flatten(0, 1), unembedding), wanted[:, ::2].flatten())
    right = float((said.argmax(-1) == wanted[marked])[first].float().mean())
    return loss + _OF_TEXT * of_text + of_hints(model, readers, read, batch), right


@torch.no_grad()
def accuracy(model: LlamaForCausalLM, batch: Batch) -> float:
    """Share of rows whose whole answer the model gives, as transformers computes it."""
    right = 0
    for ids, marks in zip(batch.tokens.split(16), batch.answers.split(16), strict=True):
        states = model.model(ids, use_cache=False).last_hidden_state[:, :-1]
        asked = marks[:, 1:]
        wrong = model.lm_head(states[asked]).argmax(-1) != ids[:, 1:][asked]
        right += len(ids) - len(asked.nonzero()[wrong, 0].unique())
    return right / len(batch.tokens)
