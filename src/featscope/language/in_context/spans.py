"""What the last token attends to: the final layer's weights, restricted to stretches of the text.

The dissertation (Section 5.6.2) takes the norm of the last row of the final layer's attention maps over all heads. It
does not print norm and restriction; read here as the l2 norm over heads and over the tokens of a sentence.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from featscope.language.attention import Attention, attention_weights, watched
from featscope.language.chat import begun, going_on
from featscope.language.decoder import require_context, require_seeing, text_config, text_model
from featscope.language.prompt import Prompt, read_prompt
from featscope.options import ConfigError

Span = tuple[int, int]
"""First character of a stretch of text, and the first one after it."""


class AttentionRow(NamedTuple):
    """The last token's attention.

    Attributes:
        weights: of the final layer; each head's sum to 1.
        offsets: first character of each token, and the first one after it; both 0 for tokens that are not in the text.
    """

    weights: Float[Tensor, "head token"]
    offsets: Int[Tensor, "token 2"]


@runtime_checkable
class RowReader(Protocol):
    """Reads a text, and says what its last token attends to."""

    @property
    def parameters(self) -> int:
        """How many parameters it has; 0 if it is hand-set."""

    def read(self, text: str, spans: Sequence[Span]) -> AttentionRow:
        """The last row for ``text``; ``spans`` are what will be asked for (a model does not look at them)."""


@dataclass(frozen=True)
class ModelRow:
    """A language model, whatever attention code it runs.

    Attributes:
        model: a decoder that `featscope.language.attention.watched` can watch; weights are those of a plain softmax.
        tokenizer: its own, a fast one.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase

    def __post_init__(self) -> None:
        if not self.tokenizer.is_fast:
            raise ConfigError("the tokenizer does not say which characters a token covers: allowed is a fast one")

    @property
    def parameters(self) -> int:
        """Of the model."""
        return self.model.num_parameters()

    @torch.no_grad()
    def read(self, text: str, spans: Sequence[Span]) -> AttentionRow:
        """The last row of the final layer's maps; see `RowReader`.

        Raises:
            ConfigError: the text is longer than the model's context, its start is hidden by sliding windows, or it has
                a token that the model does not know.
        """
        ids, offsets = self._encoded(text)
        prompt = read_prompt(self.model, ids, torch.ones_like(ids))
        layers = text_config(self.model).num_hidden_layers
        require_context(self.model, prompt)
        require_seeing(self.model, prompt, range(layers))
        last = _LastRow(layers - 1, prompt)
        with watched(self.model, last):
            text_model(self.model)(prompt.ids, attention_mask=prompt.mask, use_cache=False)
        return AttentionRow(last.weights.cpu(), offsets)

    @torch.no_grad()
    def own_row(self, text: str) -> Float[Tensor, "head token"]:
        """The same row as the model itself tells it, by its eager attention; NaN of one that tells none."""
        ids = self._encoded(text)[0].to(self.model.device)
        usual = self.model.config._attn_implementation
        self.model.set_attn_implementation("eager")
        try:
            maps = self.model(ids, output_attentions=True, use_cache=False).attentions
        finally:
            self.model.set_attn_implementation(usual)
        return maps[-1][0, :, -1].cpu() if maps and maps[-1] is not None else torch.full((1, ids.shape[1]), torch.nan)

    def _encoded(self, text: str) -> tuple[Int[Tensor, "1 token"], Int[Tensor, "token 2"]]:
        """Tokens of a text, and their characters."""
        its: Any = self.tokenizer
        encoded = its(text, return_offsets_mapping=True, verbose=False)
        tokens = going_on(self.tokenizer, encoded["input_ids"])
        ids = torch.tensor([begun(self.tokenizer, tokens)])
        before = [(0, 0)] * (ids.shape[1] - len(tokens))
        return ids, torch.tensor([*before, *encoded["offset_mapping"][: len(tokens)]]).reshape(-1, 2)


class _LastRow:
    """Keeps one layer's last row."""

    def __init__(self, layer: int, prompt: Prompt) -> None:
        self.layer, self.prompt = layer, prompt
        self.weights = torch.empty(0, 0)

    def before(self, attention: Attention) -> None:
        pass

    def after(self, attention: Attention) -> None:
        if attention.layer == self.layer:
            rows = attention_weights(attention, self.prompt.real, slice(-1, None))
            self.weights = rows[0].flatten(0, 1)[:, -1]


@dataclass(frozen=True)
class FocusedRow:
    """Hand-set attention over words: weight 1 on those of the first span, ``other`` on all others, normalised.

    Attributes:
        other: 1 for uniform attention.
        heads: alike.
        parameters: what it counts as having.
    """

    other: float
    heads: int = 4
    parameters: int = 0

    def read(self, text: str, spans: Sequence[Span]) -> AttentionRow:
        """The same weights in each head, a word for a token; see `RowReader`."""
        offsets = torch.tensor([match.span() for match in re.finditer(r"\S+", text)])
        weights = torch.full((self.heads, len(offsets)), self.other)
        weights[:, _inside(offsets, spans[0])] = 1.0
        return AttentionRow(weights / weights.sum(-1, keepdim=True), offsets)


class SpanNorm(NamedTuple):
    """How much of a row lies on a span.

    Attributes:
        norm: l2 norm over heads and the span's tokens.
        tokens: in the span.
    """

    norm: float
    tokens: int


def span_norms(row: AttentionRow, spans: Sequence[Span]) -> list[SpanNorm]:
    """The norm of ``row`` on each span. A token belongs to a span if it covers one of its characters.

    Raises:
        ConfigError: a span has no token.
    """
    found = []
    for span in spans:
        inside = _inside(row.offsets, span)
        if not inside.any():
            raise ConfigError(f"characters {span} have no token: allowed are sentences of at least one token")
        found.append(SpanNorm(float(row.weights[:, inside].double().norm()), int(inside.sum())))
    return found


def _inside(offsets: Int[Tensor, "token 2"], span: Span) -> Tensor:
    return (offsets[:, 0] < span[1]) & (offsets[:, 1] > span[0])
