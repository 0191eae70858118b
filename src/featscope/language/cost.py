"""What reading a prompt and generating from it cost: operations and seconds.

For memory see `featscope.training.memory`, for what theory says `featscope.theory.token_selection`.
"""

import gc
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode
from transformers import StoppingCriteria, StoppingCriteriaList

from featscope.language.method import GREEDY, Method
from featscope.language.prefill import Prefill


def operations(work: Callable[[], Any]) -> float:
    """Multiplications and additions in ``work``, by torch's counter with the CPU's attention added to it."""
    with _counter() as counter:
        work()
    return float(counter.get_total_flops())


def seconds(works: Sequence[Callable[[], Any]]) -> list[float]:
    """The shortest of three repetitions of each, taken in turns: what else runs on the machine slows all alike."""
    gc.collect()
    return np.min([[_timed(work) for work in works] for _ in range(3)], axis=0).tolist()


def new_token_operations(method: Method, prompt: Tensor) -> float:
    """Operations of the first token after the prompt's own.

    Args:
        method: generates.
        prompt: tokens ``[1, token]``.
    """
    with _counter() as counter:
        first, second = _at_each_token(counter.get_total_flops, method, prompt, 2)
    return second - first


def new_token_seconds(method: Method, prompt: Tensor, count: int = 16) -> float:
    """Seconds from one new token to the next, the median over ``count`` of them.

    Args:
        method: generates.
        prompt: tokens ``[1, token]``.
        count: tokens to generate.
    """
    return float(np.median(np.diff(_at_each_token(_now, method, prompt, count))))


def timed_answer(method: Method, prompt: Tensor, count: int, **options: Any) -> tuple[Tensor, list[float]]:
    """New tokens, and seconds from the prompt to each of them, end to end: all that the method does is in them.

    Args:
        method: generates.
        prompt: tokens ``[1, token]``.
        count: tokens to generate at most.
        options: of ``generate``, but for how tokens are searched and when it stops.
    """
    return _timed_tokens(partial(_generate, method, prompt, **options), prompt.shape[1], count)


def timed_answers(
    method: Method, document: Tensor, questions: Sequence[Tensor], count: int, **options: Any
) -> list[tuple[Tensor, list[float]]]:
    """`timed_answer` for each of several questions on one document.

    A method that can (`featscope.language.prefill.Prefill.reads_once`) reads the document once; each question has an
    even share of that time.

    Args:
        method: generates.
        document: tokens ``[1, token]``.
        questions: tokens behind it ``[1, token]``.
        count: tokens to generate at most.
        options: as of `timed_answer`.
    """
    if not (isinstance(method, Prefill) and method.reads_once):
        return [timed_answer(method, torch.cat([document, question], 1), count, **options) for question in questions]
    began = _now()
    context = method.read(document, torch.ones_like(document))
    share = (_now() - began) / len(questions)
    found = []
    for question in questions:
        ask = partial(context.ask, question, torch.ones_like(question), **options)
        new, seconds = _timed_tokens(ask, document.shape[1] + question.shape[1], count)
        found.append((new, [share + at for at in seconds]))
    return found


def _generate(method: Method, prompt: Tensor, **options: Any) -> Any:
    """Without a mask a token that is padding elsewhere would be taken for it."""
    return method.generate(prompt, attention_mask=torch.ones_like(prompt), **options)


def _counter() -> FlopCounterMode:
    on_cpu = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    return FlopCounterMode(display=False, custom_mapping={on_cpu: _attention_on_cpu})


def _attention_on_cpu(query: Sequence[int], key: Sequence[int], *rest: Any, **options: Any) -> int:
    batch, heads, queries, channels = query
    return 4 * batch * heads * queries * key[2] * channels


def _timed(work: Callable[[], Any]) -> float:
    gc.disable()  # a collection takes longer than a short prompt
    try:
        began = _now()
        work()
        return _now() - began
    finally:
        gc.enable()


def _now() -> float:
    for place in range(torch.cuda.device_count() if torch.cuda.is_initialized() else 0):
        if torch.cuda.memory_reserved(place):  # in use; to wait for another one would put it to use
            torch.cuda.synchronize(place)  # without a place it waits for the current one alone
    return time.perf_counter()


class _Watch(StoppingCriteria):
    """Reads a meter after every new token; never stops."""

    def __init__(self, meter: Callable[[], float]) -> None:
        self.meter = meter
        self.read: list[float] = []

    def __call__(self, input_ids: Tensor, logits: Any, **options: Any) -> Tensor:
        self.read.append(float(self.meter()))
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


def _at_each_token(meter: Callable[[], float], method: Method, prompt: Tensor, count: int) -> list[float]:
    return _metered(meter, partial(_generate, method, prompt), count)[1]


def _timed_tokens(generate: Callable[..., Any], length: int, count: int) -> tuple[Tensor, list[float]]:
    began = _now()
    output, times = _metered(_now, generate, count)
    return output[0, length:], [at - began for at in times]


def _metered(meter: Callable[[], float], generate: Callable[..., Any], count: int) -> tuple[Any, list[float]]:
    watch = _Watch(meter)
    stopping = StoppingCriteriaList([watch])
    return generate(max_new_tokens=count, **GREEDY, stopping_criteria=stopping), watch.read
