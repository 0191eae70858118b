"""What a smaller model attends to, while it reads the prompt and begins to answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad
from transformers import DynamicCache, PreTrainedModel

from featscope.language.attention import Attention, attention_weights, require_seen, watched
from featscope.language.decoder import (
    cache_argument,
    require_context,
    require_decoder,
    require_one_device,
    require_seeing,
    seeing_always,
    text_config,
)
from featscope.language.keep import Keep, operations_of, require_keep
from featscope.language.prompt import Prompt
from featscope.language.selection import Forcing, Pool, places_of, require_rule, require_window, select
from featscope.options import ConfigError, require

_FILLED_UP = 256  # rows by which vocabularies of one tokenizer may differ: Qwen 2.5's do by 128, Gemma 3's by 64


@dataclass(frozen=True)
class Draft(Forcing):
    """A small model of the same tokenizer chooses (speculative prefill, Liu, Chen and Zhang 2025, arXiv 2502.02789).

    It reads the prompt and writes ``look_ahead`` tokens. Score of token i: the mean over the prompt's last token and
    the written ones of max_{l,h} softmax(q_{l,h}·K_{l,h}/√d)_i over its layers and heads, pooled over neighbours;
    blocks of tokens are kept by their mean.

    Attributes:
        draft: the small model. Of its tokenizer the size of the vocabulary alone is looked at: another tokenizer with
            as many tokens is not noticed.
        keep: k, the tokens kept: a number, a share of the prompt, or a `Cost`, in which the small model is counted.
        look_ahead: tokens that it writes.
        window: last tokens of the prompt that are kept in any case.
        pool: how scores of neighbours are pooled.
        kernel: neighbours that are pooled, an odd number.
        force_keep: other places kept in any case, from the prompt's first token, or its last if negative.
        block: neighbours that are kept or dropped together, counted from the prompt's first token.
    """

    draft: Any
    keep: Keep
    look_ahead: int = 8
    window: int = 32
    pool: Pool = "avg"
    kernel: int = 13
    force_keep: Sequence[int] = ()
    block: int = 1

    def __post_init__(self) -> None:
        require_decoder(self.draft)
        require_one_device(self.draft)
        require_keep(self, cost=True)
        require_window(self)
        object.__setattr__(self, "force_keep", places_of("Draft", self.force_keep))  # what is given may be read once
        require_rule("Draft", self.keep, self.pool, self.kernel, self.force_keep, self.window)
        require(self, "look_ahead", self.look_ahead >= 0, ">= 0")
        require(self, "block", self.block >= 1, ">= 1")

    def require(self, model: PreTrainedModel) -> None:
        """Raise `ConfigError` unless vocabularies are as large, but for what they are filled up with."""
        words, others = text_config(self.draft).vocab_size, text_config(model).vocab_size
        if abs(words - others) > _FILLED_UP:
            raise ConfigError(
                f"draft = {type(self.draft).__name__} has {words} tokens in its vocabulary: allowed is a model "
                f"of the same tokenizer, with {others}"
            )

    def spent(self, model: PreTrainedModel, length: int) -> float:
        """Operations of the small model."""
        return operations_of(self.draft, length + self.look_ahead)

    @torch.no_grad()
    def select(self, model: PreTrainedModel, prompt: Prompt, keep: int) -> Int[Tensor, "batch kept"]:
        """The ``keep`` tokens of the largest scores."""
        return select(self.scores(prompt), prompt.real, keep, self.pool, self.kernel, self.always_kept, self.block)

    def scores(self, prompt: Prompt) -> Float[Tensor, "batch token"]:
        """The largest weight over layers and heads that each token gets, averaged over who attends.

        They are where ``prompt`` is, wherever the small model is.

        Raises:
            ConfigError: the small model cannot read the prompt.
        """
        place = prompt.ids.device
        prompt = prompt.at(self.draft)
        require_context(self.draft, prompt, self.look_ahead)
        if (unknown := int(prompt.ids.max())) >= (words := text_config(self.draft).vocab_size):
            raise ConfigError(
                f"the prompt has the token {unknown}, and draft = {type(self.draft).__name__} knows {words}: "
                "allowed is a model of the same tokenizer"
            )
        layers = seeing_always(self.draft, prompt.longest + self.look_ahead)
        if not layers:
            require_seeing(self.draft, prompt, [text_config(self.draft).num_hidden_layers - 1])
        largest = _Largest(prompt, layers)
        ids, positions, cache = prompt.ids, prompt.positions, DynamicCache(config=self.draft.config)
        with watched(self.draft, largest):
            for step in range(1 + self.look_ahead):
                mask = pad(prompt.mask, (0, step), value=1)
                largest.begin()
                held = {cache_argument(self.draft.forward): cache}
                said = self.draft(ids, attention_mask=mask, position_ids=positions, logits_to_keep=1, **held)
                ids, positions = said.logits[:, -1].argmax(-1, keepdim=True), positions[:, -1:] + 1
        require_seen(self.draft, largest.seen)
        return torch.stack(largest.rows).mean(0).to(place)


class _Largest:
    """The largest weight over layers and heads that the last query of each pass gives to the prompt's tokens."""

    def __init__(self, prompt: Prompt, layers: Sequence[int]) -> None:
        self.prompt, self.layers = prompt, layers
        self.rows: list[Tensor] = []
        self.seen = False

    def begin(self) -> None:
        self.rows.append(torch.zeros(self.prompt.ids.shape, device=self.prompt.ids.device))

    def before(self, attention: Attention) -> None:
        if attention.layer not in self.layers:
            return
        self.seen = True
        length = self.prompt.ids.shape[1]
        real = pad(self.prompt.real, (0, attention.key.shape[2] - length), value=True)
        weights = attention_weights(attention, real, slice(-1, None))[..., 0, :length].amax((1, 2))
        self.rows[-1] = torch.maximum(self.rows[-1], weights)

    def after(self, attention: Attention) -> None:
        pass
