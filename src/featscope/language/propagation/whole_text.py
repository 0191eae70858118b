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

from featscope.language.method import setting

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


def with_whole_text(
    model: PreTrainedModel,
    options: Mapping[str, Any],
    read: Int[Tensor, "batch kept"],
    prompt: Int[Tensor, "batch token"],
) -> dict[str, Any]:
    """Options of ``generate`` whose stopping criteria, logits processors and allowed tokens see the whole text.

    The model reads and hands over the tokens ``read`` in place of the prompt's. Processors that transformers makes by
    itself, such as that of ``repetition_penalty``, see these. A caller's own end, time or greatest length takes the
    place of what transformers would make of the same kind, as it does in the model's own ``generate``. So does a
    caller's repetition penalty, ban on repeated words, least length, suppressed tokens, temperature, ``top_k``,
    ``top_p`` and ``min_p``. Other criteria and processors act beside those of transformers.

    Args:
        model: generates.
        options: those of ``generate``; lengths count the whole prompt.
        read: tokens that stand for each prompt.
        prompt: the whole prompts, a row each.
    """
    found, length = dict(options), read.shape[-1]

    def whole(ids: Tensor) -> Tensor:
        """Rows of all prompts, some for each."""
        own = prompt.to(ids.device)
        return torch.cat([own.repeat_interleave(len(ids) // len(own), 0), ids[:, length:]], 1)

    def whole_row(number: int, ids: Tensor) -> Tensor:
        """A row of prompt ``number``, or, where versions of transformers number samples, of the one that it is of."""
        its = (read == ids[:length].to(read.device)).all(-1).tolist()
        own = prompt[number if number in range(len(its)) and its[number] else its.index(True)]
        return torch.cat([own.to(ids.device), ids[length:]])

    def stopping(one: StoppingCriteria) -> StoppingCriteria:
        if type(one) is MaxLengthCriteria:
            return MaxLengthCriteria(one.max_length - prompt.shape[-1] + length, one.max_position_embeddings)
        return one if type(one) in _OF_NO_TEXT else _Stopping(one, whole)

    if (criteria := found.get("stopping_criteria")) is not None:
        found["stopping_criteria"] = StoppingCriteriaList([stopping(one) for one in criteria])
    if (processors := found.get("logits_processor")) is not None:
        found["logits_processor"] = LogitsProcessorList(
            [one if type(one) in _OF_SCORES else _Processor(one, whole) for one in processors]
        )
        for name, none in (_OPTIONS[type(one)] for one in processors if type(one) in _OPTIONS):
            if setting(model, found, name) not in (None, none):
                found[name] = none
    if (allowed := found.get("prefix_allowed_tokens_fn")) is not None:
        found["prefix_allowed_tokens_fn"] = lambda number, ids: allowed(number, whole_row(int(number), ids))
    return found


Whole = Callable[[Tensor], Tensor]


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
