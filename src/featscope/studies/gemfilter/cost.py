"""What prompts cost: operations, seconds and memory against the formulas of Theorem 9.3."""

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaConfig, LlamaForCausalLM, StoppingCriteria, StoppingCriteriaList

from featscope.language import FullCache, GemFilter, Method, SnapKV
from featscope.language.selection import last_row_scores, select
from featscope.streams import Streams
from featscope.theory.token_selection import Geometry
from featscope.training import Evaluation, Experiment, Measurement
from featscope.training.memory import peak_bytes

GEOMETRY = Geometry(layers=8, heads=8, kv_heads=2, channels=32, width=256, hidden=1024, vocabulary=1024)
FILTER, KEEP, DECODED = 2, 256, 16
_REPETITIONS = 3
BYTES = 4

COLUMNS = {
    "spent": ("1", "share of the tasks' time spent in first passes"),
    "prompt_length": ("token", "tokens of the prompt"),
    "full_operations": ("1", "operations of reading the prompt in all layers"),
    "first_operations": ("1", "operations of the first pass"),
    "full_seconds": ("s", "reading the prompt in all layers"),
    "first_seconds": ("s", "first pass with its choice"),
    "choice_seconds": ("s", "the choice alone"),
    "full_bytes": ("B", "peak beyond weights while the prompt is read in all layers"),
    "snapkv_bytes": ("B", "the same for SnapKV"),
    "first_bytes": ("B", "the same for the first pass"),
    "full_decoding_operations": ("1", "operations of a new token after full attention"),
    "snapkv_decoding_operations": ("1", "operations of a new token after SnapKV"),
    "gemfilter_decoding_operations": ("1", "operations of a new token after GemFilter"),
    "full_decoding_seconds": ("s", "a new token after full attention"),
    "gemfilter_decoding_seconds": ("s", "a new token after GemFilter"),
}


def random_model(size: Geometry, context: int, seed: int) -> Any:
    """A network of these sizes with random weights: cost does not depend on weights."""
    config = LlamaConfig(
        vocab_size=size.vocabulary,
        hidden_size=size.width,
        intermediate_size=size.hidden,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.kv_heads,
        head_dim=size.channels,
        max_position_embeddings=context,
        bos_token_id=1,
        eos_token_id=None,
        pad_token_id=0,
    )
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).eval()


def build(lengths: Sequence[int], streams: Streams) -> Evaluation:
    """One task a length."""
    draws = streams.at("cost")
    model = random_model(GEOMETRY, max(lengths) + DECODED, int(draws.choice(2**20, 1))).to(streams.device)
    prompts = [3 + draws.choice(2**20, length) % (GEOMETRY.vocabulary - 3) for length in lengths]
    return Evaluation([partial(_measured, model, prompt) for prompt in prompts], tuple(COLUMNS), streams)


def measure(experiment: Experiment) -> Mapping[str, Measurement]:
    """Everything that was measured, over lengths."""
    assert isinstance(experiment, Evaluation)
    rows = len(experiment.tasks)
    named = {name: experiment.of(name, (rows,), ("length",), *about) for name, about in COLUMNS.items()}
    return {name: one for name, one in named.items() if name != "spent"}


@torch.no_grad()
def _measured(model: Any, prompt: Tensor) -> list[float]:
    gem, snap = GemFilter(model, FILTER, KEEP), SnapKV(model, KEEP)

    def full() -> Any:
        return model(prompt, use_cache=True, logits_to_keep=1)

    def first() -> Any:
        return gem.select(prompt)

    def evicted() -> Any:
        return snap.generate(prompt, max_new_tokens=1, do_sample=False)

    queries = torch.ones(1, GEOMETRY.heads, 1, GEOMETRY.channels, device=prompt.device)
    keys = model.get_input_embeddings()(prompt).view(1, -1, GEOMETRY.kv_heads, GEOMETRY.channels * 4)
    keys = keys[..., : GEOMETRY.channels].transpose(1, 2).contiguous()

    def choose() -> Any:
        return select(last_row_scores(queries, keys), torch.ones_like(prompt, dtype=torch.bool), KEEP)

    seconds = _seconds([full, first, choose])
    memory = [float(peak_bytes(prefill)) for prefill in (full, evicted, first)]
    methods: list[Method] = [FullCache(model), snap, gem]
    return [
        seconds[1] / sum(seconds),
        prompt.shape[1],
        _operations(full),
        _operations(first),
        *seconds,
        *memory,
        *(_new_token(method, prompt).operations for method in methods),
        *(_new_token(method, prompt, count=False).seconds for method in (methods[0], methods[2])),
    ]


def _attention_on_cpu(query: Sequence[int], key: Sequence[int], *rest: Any, **options: Any) -> int:
    batch, heads, queries, channels = query
    return 4 * batch * heads * queries * key[2] * channels


def _counter() -> FlopCounterMode:
    """Counts what it knows, and the CPU's attention."""
    own = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention_on_cpu}
    return FlopCounterMode(display=False, custom_mapping=own)


def _operations(work: Callable[[], Any]) -> float:
    with _counter() as counter:
        work()
    return float(counter.get_total_flops())


def _seconds(works: Sequence[Callable[[], Any]]) -> list[float]:
    """The shortest of some repetitions of each, taken in turns: what else runs on the machine slows all alike."""
    shortest = [float("inf")] * len(works)
    for _ in range(_REPETITIONS):
        for i, work in enumerate(works):
            shortest[i] = min(shortest[i], _timed(work))
    return shortest


def _timed(work: Callable[[], Any]) -> float:
    gc.collect()
    _synchronize()
    began = time.perf_counter()
    work()
    _synchronize()
    return time.perf_counter() - began


def _synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


class _NewToken(StoppingCriteria):
    """Looks at the clock, and at a counter of operations, after every new token."""

    def __init__(self, counter: FlopCounterMode | None) -> None:
        self.counter = counter
        self.times: list[float] = []
        self.counts: list[float] = []

    def __call__(self, input_ids: Tensor, logits: Any, **options: Any) -> Tensor:
        _synchronize()
        self.times.append(time.perf_counter())
        self.counts.append(float(self.counter.get_total_flops()) if self.counter else 0.0)
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)

    @property
    def seconds(self) -> float:
        """Between tokens, the median."""
        return float(np.median(np.diff(self.times)))

    @property
    def operations(self) -> float:
        """Of the first token after the prompt's own."""
        return self.counts[1] - self.counts[0]


def _new_token(method: Method, prompt: Tensor, *, count: bool = True) -> _NewToken:
    """Watches the generation of some tokens; a counter slows it down."""
    counter = _counter() if count else None
    watch = _NewToken(counter)
    with counter or nullcontext():
        method.generate(
            prompt,
            max_new_tokens=2 if count else DECODED,
            do_sample=False,
            stopping_criteria=StoppingCriteriaList([watch]),
        )
    return watch
