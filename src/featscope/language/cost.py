"""What reading a prompt and generating from it cost: operations and seconds.

For memory see `featscope.training.memory`, for what theory says `featscope.theory.token_selection`.
"""

import gc
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode
from transformers import StoppingCriteria, StoppingCriteriaList

from featscope.language.method import Method


def operations(work: Callable[[], Any]) -> float:
    """Multiplications and additions in ``work``, by torch's counter with the CPU's attention added to it."""
    with _counter() as counter:
        work()
    return float(counter.get_total_flops())


def seconds(works: Sequence[Callable[[], Any]], repetitions: int = 3) -> list[float]:
    """The shortest of some repetitions of each, taken in turns: what else runs on the machine slows all alike."""
    gc.collect()
    return np.min([[_timed(work) for work in works] for _ in range(repetitions)], axis=0).tolist()


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


def arrivals(method: Method, prompt: Tensor, count: int = 16) -> list[float]:
    """Seconds from the prompt to each new token, end to end: all that the method does is in them.

    Args:
        method: generates.
        prompt: tokens ``[1, token]``.
        count: tokens to generate.
    """
    return timed_answer(method, prompt, count)[1]


def timed_answer(method: Method, prompt: Tensor, count: int) -> tuple[Tensor, list[float]]:
    """New tokens, and seconds from the prompt to each of them, end to end.

    Args:
        method: generates.
        prompt: tokens ``[1, token]``.
        count: tokens to generate at most.
    """
    began, watch = _now(), _Watch(_now)
    output = _generated(method, prompt, count, watch)
    return output[0, prompt.shape[1] :], [at - began for at in watch.read]


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
    if torch.cuda.is_available():
        torch.cuda.synchronize()
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
    watch = _Watch(meter)
    _generated(method, prompt, count, watch)
    return watch.read


def _generated(method: Method, prompt: Tensor, count: int, watch: _Watch) -> Any:
    stopping = StoppingCriteriaList([watch])
    return method.generate(prompt, max_new_tokens=count, do_sample=False, stopping_criteria=stopping)
