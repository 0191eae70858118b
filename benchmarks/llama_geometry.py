"""Llama 3.1 8B with random weights on a GPU: what prompts of 8 to 128 thousand tokens cost, measured beside predicted.

    python -m benchmarks.llama_geometry

Speed and memory do not depend on the weights. Full attention, SnapKV and GemFilter at layer 13 read the same prompts in
bf16. `--small` runs the same program at a size for a CPU.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import tyro
from rich.console import Console
from rich.table import Table
from transformers import LlamaConfig, LlamaForCausalLM

from featscope.language.methods import Reading
from featscope.theory.token_selection import (
    Geometry,
    first_pass_operations,
    prompt_memory_evicting,
    prompt_memory_first_pass,
    prompt_memory_full,
    prompt_operations,
)
from featscope.training.memory import peak_bytes

LLAMA = Geometry(layers=32, heads=32, kv_heads=8, channels=128, width=4096, hidden=14336, vocabulary=128256)
SMALL = Geometry(layers=8, heads=8, kv_heads=2, channels=16, width=128, hidden=448, vocabulary=1024)


@dataclass(frozen=True)
class Bench:
    """What is measured.

    Attributes:
        lengths: tokens of the prompts.
        layer: r.
        keep: k.
        rounds: times each program runs; the shortest counts.
        chunk: tokens that go through a layer at once in GemFilter's first pass; None for all.
        small: a small model in float32 on the CPU instead.
    """

    lengths: tuple[int, ...] = (8192, 16384, 32768, 65536, 131072)
    layer: int = 13
    keep: int = 1024
    rounds: int = 3
    chunk: int | None = None
    small: bool = False


def build(size: Geometry, context: int, device: str, dtype: torch.dtype) -> Any:
    """The model, made where it stays."""
    config = LlamaConfig(
        vocab_size=size.vocabulary,
        hidden_size=size.width,
        intermediate_size=size.hidden,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.kv_heads,
        head_dim=size.channels,
        max_position_embeddings=context,
        rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
        bos_token_id=1,
        eos_token_id=None,
        pad_token_id=0,
        dtype=dtype,
    )
    torch.manual_seed(0)
    with torch.device(device):
        return LlamaForCausalLM(config).to(dtype).eval()


def cost(program: Callable[[], Any], device: str, rounds: int) -> tuple[float, float]:
    """Seconds (the shortest of ``rounds``) and bytes beyond what is there before, at the peak."""
    if device == "cpu":
        return min(_seconds(program, device) for _ in range(rounds)), peak_bytes(program)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    seconds = min(_seconds(program, device) for _ in range(rounds))
    return seconds, torch.cuda.max_memory_allocated() - before


def _seconds(program: Callable[[], Any], device: str) -> float:
    began = time.perf_counter()
    program()
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - began


@torch.no_grad()
def main() -> None:
    """Print the table."""
    bench = tyro.cli(Bench)
    device, size = ("cpu", SMALL) if bench.small else ("cuda", LLAMA)
    model = build(size, max(bench.lengths) + 1, device, torch.float32 if bench.small else torch.bfloat16)
    reading, width = Reading(bench.layer, bench.keep), next(model.parameters()).element_size()
    weights = sum(p.numel() for p in model.parameters()) * width / 2**30
    name = "CPU" if bench.small else torch.cuda.get_device_name()
    console = Console(width=130)
    table = Table(title=f"{name}; weights {weights:.2f} GiB; layer {bench.layer} of {size.layers}, {bench.keep} kept")
    columns = ("tokens", "full s", "SnapKV s", "GemFilter s", "SnapKV/GemFilter", "predicted", "m/r")
    for heading in (*columns, "full GiB", "SnapKV GiB", "GemFilter GiB", "predicted (cache)"):
        table.add_column(heading, justify="right")
    for length in bench.lengths:
        ids = torch.randint(3, size.vocabulary, (1, length), device=device)
        gem, snap = replace(reading.build("gemfilter", model), chunk=bench.chunk), reading.build("snapkv", model)
        programs: list[Callable[[], Any]] = [
            lambda ids=ids: model(ids, use_cache=True, logits_to_keep=1),
            lambda ids=ids, snap=snap: snap.generate(ids, max_new_tokens=1, do_sample=False),
            lambda ids=ids, gem=gem: gem.select(ids),
        ]
        found = [cost(program, device, bench.rounds) for program in programs]
        predicted = prompt_operations(size, length) / first_pass_operations(size, length, bench.layer)
        caches = (
            prompt_memory_full(size, length),
            prompt_memory_evicting(size, length, bench.keep),
            prompt_memory_first_pass(size, length),
        )
        table.add_row(
            str(length),
            *(f"{seconds:.3f}" for seconds, _ in found),
            f"{found[1][0] / found[2][0]:.2f}",
            f"{predicted:.2f}",
            f"{size.layers / bench.layer:.2f}",
            *(f"{peak / 2**30:.3f}" for _, peak in found),
            " / ".join(f"{width * numbers / 2**30:.3f}" for numbers in caches),
        )
    console.print(table)


if __name__ == "__main__":
    main()
