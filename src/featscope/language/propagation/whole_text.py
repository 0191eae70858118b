"""What a caller's own code is handed of a text that was read in part: all of it."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import (
    EosTokenCriteria,
    InfNanRemoveLogitsProcessor,
    LogitsProcessor,
    LogitsProcessorList,
    MaxLengthCriteria,
    MaxTimeCriteria,
    MinLengthLogitsProcessor,
    MinPLogitsWarper,
    NoRepeatNGramLogitsProcessor,
    PreTrainedModel,
    RepetitionPenaltyLogitsProcessor,
    StoppingCriteria,
    StoppingCriteriaList,
    SuppressTokensLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from featscope.language.method import setting, with_settings
from featscope.language.prompt import Prompt

_OF_NO_TEXT = (EosTokenCriteria, MaxTimeCriteria)
"""Criteria that look at the last token alone, or at none."""
_OF_SCORES = (
    InfNanRemoveLogitsProcessor,
    MinPLogitsWarper,
    SuppressTokensLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)
"""Processors that look at no token: transformers knows these by their types, and puts them in the place of its own."""
_OPTIONS: Mapping[type, tuple[str, Any]] = {
    RepetitionPenaltyLogitsProcessor: ("repetition_penalty", 1.0),
    NoRepeatNGramLogitsProcessor: ("no_repeat_ngram_size", 0),
    MinLengthLogitsProcessor: ("min_length", 0),
}
"""Kind of processor -> the option of which transformers makes one, and its value for none."""
_OF_TEXT: tuple[Any, ...] = (RepetitionPenaltyLogitsProcessor, NoRepeatNGramLogitsProcessor)
"""Of these kinds those that look at all of a text: transformers would make one that looks at what is read alone."""


def with_whole_text(
    model: PreTrainedModel,
    options: Mapping[str, Any],
    read: Int[Tensor, "batch kept"],
    prompt: Prompt,
) -> dict[str, Any]:
    """Options of ``generate`` whose stopping criteria, logits processors and allowed tokens see the whole text.

    The model reads and hands over the tokens ``read`` in place of the prompt's. What ``repetition_penalty`` and
    ``no_repeat_ngram_size`` ask for sees the whole text, too; processors that transformers makes of other options, such
    as ``encoder_repetition_penalty``, see what is read. A caller's own end, time or greatest length takes the
    place of what transformers would make of the same kind, as it does in the model's own ``generate``. So does a
    caller's repetition penalty, ban on repeated words, least length, suppressed tokens, temperature, ``top_k``,
    ``top_p`` and ``min_p``. Other criteria and processors act beside those of transformers.

    Args:
        model: generates.
        options: those of ``generate``; lengths count the whole prompt.
        read: tokens that stand for each prompt.
        prompt: the whole prompts.
    """
    found, length = dict(options), read.shape[-1]
    first = prompt.ids.gather(1, prompt.real.int().argmax(1, keepdim=True))
    filled = prompt.ids.where(prompt.real, first)

    def whole(ids: Tensor) -> Tensor:
        return _behind(prompt.ids, ids[:, length:])

    def unpadded(ids: Tensor) -> Tensor:
        """The same with a prompt's first token in place of its padding, which is not to be penalised."""
        return _behind(filled, ids[:, length:])

    def whole_row(number: int, ids: Tensor) -> Tensor:
        """A row of prompt ``number``, or, where versions of transformers number samples, of the one that it is of."""
        its = (read == ids[:length].to(read.device)).all(-1).tolist()
        own = prompt.ids[number if number in range(len(its)) and its[number] else its.index(True)]
        return torch.cat([own.to(ids.device), ids[length:]])

    def stopping(one: StoppingCriteria) -> StoppingCriteria:
        if type(one) is MaxLengthCriteria:
            return MaxLengthCriteria(one.max_length - prompt.ids.shape[-1] + length, one.max_position_embeddings)
        return one if type(one) in _OF_NO_TEXT else _Stopping(one, whole)

    if (criteria := found.get("stopping_criteria")) is not None:
        found["stopping_criteria"] = StoppingCriteriaList([stopping(one) for one in criteria])
    own = [*(found.get("logits_processor") or ())]
    asked = {
        kind: value
        for kind, (name, none) in _OPTIONS.items()
        if (kind in _OF_TEXT or kind in map(type, own))
        and (value := setting(model, found, name)) not in (None, none)
        and value > 0  # transformers makes none of a size below, and refuses a penalty of it
    }
    found = with_settings(found, dict(_OPTIONS[kind] for kind in asked))
    made = [
        _Processor(kind(asked[kind]), unpadded if kind is RepetitionPenaltyLogitsProcessor else whole)
        for kind in _OF_TEXT
        if kind in asked and kind not in map(type, own)
    ]
    own = [one if type(one) in _OF_SCORES else _Processor(one, whole) for one in own]
    found["logits_processor"] = LogitsProcessorList([*made, *own])
    if (allowed := found.get("prefix_allowed_tokens_fn")) is not None:
        found["prefix_allowed_tokens_fn"] = lambda number, ids: allowed(number, whole_row(int(number), ids))
    return found


Whole = Callable[[Tensor], Tensor]


def _behind(prompts: Tensor, new: Tensor) -> Tensor:
    """Rows of all prompts, some for each, with what is new behind them."""
    own = prompts.to(new.device)
    return torch.cat([own.repeat_interleave(len(new) // len(own), 0), new], 1)


class _Stopping(StoppingCriteria):
    def __init__(self, own: StoppingCriteria, whole: Whole) -> None:
        self.own, self.whole = own, whole
        if hasattr(own, "eos_token_id"):  # by which ``generate`` knows that rows end one by one
            self.eos_token_id = own.eos_token_id

    def __call__(self, input_ids: Tensor, scores: Any, **options: Any) -> Any:
        return self.own(self.whole(input_ids), scores, **options)


class _Processor(LogitsProcessor):
    def __init__(self, own: LogitsProcessor, whole: Whole) -> None:
        self.own, self.whole = own, whole

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        return cast(Tensor, self.own(self.whole(input_ids), scores))
