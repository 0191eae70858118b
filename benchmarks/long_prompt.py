"""Reading a long prompt: GemFilter's first pass against all layers, and against kvpress' SnapKV where it is installed.

Then all methods end to end, from the prompt to the first and to the last new token.

    python -m benchmarks.long_prompt [--lengths 2048 4096 8192]

kvpress asks for an older transformers than `featscope[language]`; `make bench-language` gives it an environment of its
own. Both then run there, on the same model. Programs take turns; memory is the peak of all tensors beyond the weights.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
import tyro
from rich.console import Console
from rich.table import Table
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.compare import turns
from featscope.language.cost import timed_answer
from featscope.language.methods import METHODS, Reading
from featscope.language.selection import scores, select, summed_queries
from featscope.training.memory import peak_bytes


@dataclass(frozen=True)
class Bench:
    """What is measured.

    Attributes:
        lengths: tokens of the prompts.
        layers: m.
        layer: r.
        keep: k.
        width: of the model; half of it for keys and values.
        new: tokens to generate where both passes are timed.
        rounds: times each program runs, in turns; the median counts.
        threads: of torch.
    """

    lengths: tuple[int, ...] = (2048, 4096, 8192)
    layers: int = 8
    layer: int = 2
    keep: int = 1024
    width: int = 256
    new: int = 16
    rounds: int = 3
    threads: int = 2


def model_of(bench: Bench) -> Any:
    """A random Llama with 8 query and 4 key heads."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=1024,
        hidden_size=bench.width,
        intermediate_size=3 * bench.width,
        num_hidden_layers=bench.layers,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=max(bench.lengths) + bench.new,
        bos_token_id=1,
        eos_token_id=None,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config).eval()


def snapkv_of_kvpress(model: Any, keep: int, length: int) -> Callable[[torch.Tensor], Any] | None:
    """Its prefill, which ends with the compressed cache."""
    try:
        from kvpress import SnapKVPress
    except ImportError:
        return None
    press = SnapKVPress(compression_ratio=1 - keep / length, window_size=32, kernel_size=5)

    def prefill(ids: torch.Tensor) -> Any:
        with press(model):
            return model(ids, use_cache=True, logits_to_keep=1)

    return prefill


@torch.no_grad()
def compare(bench: Bench, model: Any, length: int) -> dict[str, float]:
    """Seconds and MiB of each program, by name."""
    ids = torch.randint(3, 1024, (1, length), generator=torch.Generator().manual_seed(length))
    gem = Reading(bench.layer, bench.keep).build("gemfilter", model)
    query, key = torch.randn(1, 8, 1, bench.width // 8), torch.randn(1, 4, length, bench.width // 8)
    real = torch.ones_like(ids, dtype=torch.bool)
    programs: dict[str, Callable[[], Any]] = {
        "all layers": lambda: model(ids, use_cache=True, logits_to_keep=1),
        "first pass": lambda: gem.select(ids),
        "choice": lambda: select(scores(summed_queries(query, 4)[:, :, 0], key), real, bench.keep),
    }
    if (prefill := snapkv_of_kvpress(model, bench.keep, length)) is not None:
        programs["kvpress SnapKV"] = lambda: prefill(ids)

    def timed(program: Callable[[], Any]) -> float:
        began = time.perf_counter()
        program()
        return time.perf_counter() - began

    seconds = turns({name: lambda p=program: timed(p) for name, program in programs.items()}, bench.rounds)
    memory = {f"{name} MiB": peak_bytes(program) / 2**20 for name, program in programs.items() if name != "choice"}
    return seconds | memory


def main() -> None:
    """Print the table."""
    bench = tyro.cli(Bench)
    torch.set_num_threads(bench.threads)
    model = model_of(bench)
    tables = [_passes(bench, model), _end_to_end(bench, model)]
    for table in tables:
        Console(width=120).print(table)


def _end_to_end(bench: Bench, model: Any) -> Table:
    """Seconds from the prompt to the first and the last new token, both passes of GemFilter in them, by method."""
    table = Table(title=f"Seconds to the first and the last of {bench.new} new tokens, {bench.keep} kept")
    names = ("full", "question-kept", "snapkv", "h2o")
    for heading in ("tokens", *(METHODS[name].label for name in names), "H2O / full, first"):
        table.add_column(heading, justify="right")
    for length in bench.lengths:
        ids = torch.randint(3, 1024, (1, length), generator=torch.Generator().manual_seed(length))
        methods = {name: Reading(bench.layer, bench.keep).build(name, model) for name in names}
        rounds = [{n: timed_answer(m, ids, bench.new)[1] for n, m in methods.items()} for _ in range(bench.rounds)]
        found = {name: [median(one[name][end] for one in rounds) for end in (0, -1)] for name in names}
        shown = [f"{first:.2f}  {last:.2f}" for first, last in found.values()]
        table.add_row(str(length), *shown, f"{found['h2o'][0] / found['full'][0]:.1f}")
    return table


def _passes(bench: Bench, model: Any) -> Table:
    """The first pass alone against all layers."""
    table = Table(title=f"{bench.layers} layers, filter layer {bench.layer}: r/m = {bench.layer / bench.layers:g}")
    timings = ("tokens", "all layers", "first pass", "ratio", "choice / first", "kvpress SnapKV")
    for heading in (*timings, "MiB: all", "first", "kvpress"):
        table.add_column(heading, justify="right")
    for length in bench.lengths:
        found = compare(bench, model, length)
        kvpress = found.get("kvpress SnapKV")
        table.add_row(
            str(length),
            f"{found['all layers']:.2f} s",
            f"{found['first pass']:.2f} s",
            f"{found['first pass'] / found['all layers']:.3f}",
            f"{found['choice'] / found['first pass']:.4f}",
            f"{kvpress:.2f} s" if kvpress is not None else "not installed",
            f"{found['all layers MiB']:.0f}",
            f"{found['first pass MiB']:.0f}",
            f"{found['kvpress SnapKV MiB']:.0f}" if kvpress is not None else "",
        )
    return table


if __name__ == "__main__":
    main()
