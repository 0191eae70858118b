"""What the retriever is told while it learns, beside the answers: what each answer has to be put together of.

A value has to know whose it is, the end of a question which key it asks for; one has to look for the other, and what it
finds has to be said. A loss of answers alone praises none of them before all are there. This is deep supervision (Lee
et al. 2015), of the parts of one circuit.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, rms_norm
from transformers import LlamaForCausalLM

from featscope.language.retriever.data import KEYS, NONE, Batch
from featscope.language.retriever.forward import logits, turned, turns

_RARE = 4.0  # weight of tokens behind which a value begins
_OF_KEYS = 0.5  # weight of their loss


def of_hints(
    model: LlamaForCausalLM, readers: "Readers | None", read: list[Float[Tensor, "row token width"]], batch: Batch
) -> Float[Tensor, ""]:
    """Sum of all losses of hints; nothing of rows without needles.

    - Halfway up, of each token of a text: whether a needle's value begins behind it; of each value's first token and of
      each question's last: the last tokens of its key (`Readers`).
    - What the layer that reads this attends to at the end of a question: the first token of the value.
    - What the model would say there if no layer came after: this token.

    Args:
        model: that is trained.
        readers: that are trained along with a model from nothing. New ones would take apart what a model that goes on
            has for theirs.
        read: what each of its layers reads.
        batch: what it read.
    """
    half = len(read) // 2
    found = of_looking(model, half, read[half], batch)
    if half + 1 < len(read):
        found = found + of_saying(model, read[half + 1], batch)
    return found if readers is None else found + readers.loss(read[half], model.lm_head.weight, batch)


class Readers(nn.Module):
    """Two readers of hidden states that are trained along and then left away.

    Args:
        width: of hidden states.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.starts = nn.Linear(width, 1)
        nn.init.constant_(self.starts.bias, -3.0)  # few do
        self.keys = nn.Linear(width, KEYS * width, bias=False)

    def loss(
        self, states: Float[Tensor, "row token width"], unembedding: Float[Tensor, "entry width"], batch: Batch
    ) -> Float[Tensor, ""]:
        """Of both."""
        return self.of_starts(states, batch) + _OF_KEYS * self.of_keys(states, unembedding, batch)

    def of_starts(self, states: Float[Tensor, "row token width"], batch: Batch) -> Float[Tensor, ""]:
        """Mean logistic loss over the texts, without the questions, of rows that have needles."""
        begins = batch.begins
        has = begins.any(1)
        wanted, seen = begins[has].roll(-1, 1), _normed(states[has])
        of_each = binary_cross_entropy_with_logits(
            self.starts(seen)[..., 0], wanted.float(), reduction="none", pos_weight=seen.new_tensor(_RARE)
        )
        text = batch.answers[has].cumsum(1) == 0
        return (of_each * text).sum() / text.sum().clamp_min(1)

    def of_keys(
        self,
        states: Float[Tensor, "row token width"],
        unembedding: Float[Tensor, "entry width"],
        batch: Batch,
    ) -> Float[Tensor, ""]:
        """Sum of two mean cross-entropies over tokens of keys: where values begin, and where questions end."""
        losses = []
        for where in (batch.begins, batch.asks):
            said = self.keys(_normed(states[where])).view(-1, unembedding.shape[1])
            wanted = batch.keys[where].flatten()
            of_all = cross_entropy(logits(said, unembedding), wanted, reduction="sum", ignore_index=NONE)
            losses.append(of_all / (wanted != NONE).sum().clamp_min(1))
        return losses[0] + losses[1]


def of_looking(
    model: LlamaForCausalLM, number: int, states: Float[Tensor, "row token width"], batch: Batch
) -> Float[Tensor, ""]:
    """Mean of minus the log of the attention from questions' ends to where the value begins, over heads at its mean.

    One head that looks there is enough; 0 if all do.

    Args:
        model: that is trained.
        number: of the layer that looks.
        states: what this layer reads.
        batch: what the model read.
    """
    config: Any = model.config
    layer, size = model.model.layers[number], config.head_dim
    row, place = batch.asks.nonzero(as_tuple=True)
    seen = rms_norm(states, states.shape[-1:], layer.input_layernorm.weight, config.rms_norm_eps)
    tables = turns(states.shape[1], size, config.rope_parameters["rope_theta"])
    cos, sin = (table.to(states.device) for table in tables)

    def heads(made: Tensor, at: Tensor | slice) -> Float[Tensor, "... head size"]:
        split = made.view(*made.shape[:-1], config.num_attention_heads, size)
        return turned(split, cos[at, None], sin[at, None])

    query = heads(layer.self_attn.q_proj(seen[row, place]), place)
    key = heads(layer.self_attn.k_proj(seen), slice(None))
    of_rows = query.split(batch.asks.sum(1).tolist())
    scores = torch.cat([torch.einsum("qhs,ths->qht", *pair) for pair in zip(of_rows, key, strict=True)]) * size**-0.5
    later = torch.arange(states.shape[1], device=place.device) > place[:, None]
    paid = scores.masked_fill(later[:, None], -torch.inf).log_softmax(-1)
    sought = batch.sought[row, place][:, None, None].expand(-1, paid.shape[1], 1)
    mean = paid.gather(2, sought)[..., 0].logsumexp(1) - math.log(paid.shape[1])
    return -mean.sum() / max(1, len(row))


def of_saying(model: LlamaForCausalLM, states: Float[Tensor, "row token width"], batch: Batch) -> Float[Tensor, ""]:
    """Mean cross-entropy of answers' first tokens, as the model would say them from these states."""
    row, place = batch.asks.nonzero(as_tuple=True)
    config: Any = model.config
    seen = rms_norm(states[row, place], states.shape[-1:], model.model.norm.weight, config.rms_norm_eps)
    said = logits(seen, model.lm_head.weight)
    return cross_entropy(said, batch.tokens[row, place + 1], reduction="sum") / max(1, len(row))


def _normed(states: Tensor) -> Tensor:
    """Of mean square 1."""
    return rms_norm(states, states.shape[-1:])
