"""Llama 3.1 8B's shapes on a GPU: first token and peak memory of every method, prompts of 8 to 128 thousand tokens.

    python -m benchmarks.llama_geometry --out FILE

Weights are random, in bf16: speed and memory do not depend on them, but for AdaKV's budgets, a little. Time is that of
``generate`` for one new token, all passes in it, end to end; memory is the peak beyond the weights. GemFilter's first
pass is measured alone, too, beside what operations say of it and caches predicted. The draft of speculative prefill has
4 of the 16 layers of Llama 3.2 1B's shapes (768 million numbers, which count as weights), and writes 8 tokens.

Attention is SDPA, which on a GPU may use torch's FlashAttention kernel alone (`--no-force` leaves the choice to torch).
At one length three methods run on transformers' "flash_attention_2", too, by `benchmarks.flash_of_torch` where the
package is not installed. Published methods come first, short prompts before long ones, then other ways; what the budget
has no time for is not tried. `--small` runs the same program at a size for a CPU.
"""

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
import transformers
import tyro
from rich.console import Console
from torch import Tensor

from benchmarks.cell import Cell, Program, tried
from benchmarks.llama_models import DRAFT, FLASH, LLAMA, SMALL, SMALL_DRAFT, attending, build, weight_bytes
from benchmarks.llama_rows import EVICTING, FIRST_PASS, FULL, Rows, predictions, table
from featscope.language import GemFilter, LastQueries, LayerBudgets, Method, Prefill, SpeculativePrefill
from featscope.language.methods import SPECULATIVE, Reading, listed, names

PUBLISHED = (FULL, FIRST_PASS, "gemfilter", EVICTING, "fastkv", "promptdistill", "speculative prefill", "adakv", "h2o")
OF_ALL_QUERIES = ("h2o",)
COMPARED = (FULL, EVICTING, "gemfilter")
Attention = Literal["sdpa", "flash_attention_2"]


@dataclass(frozen=True)
class Bench:
    """What is measured.

    Attributes:
        out: file of JSON that receives all, line by line.
        lengths: tokens of the prompts.
        only: methods that are tried; none for all.
        layer: r.
        keep: k.
        chunk: tokens that go through a layer at once in GemFilter's first pass; None for all.
        all_queries: tokens up to which methods are tried that form the weights of all queries.
        attention: by which prompts are read.
        compare_at: the length at which the other attention is tried, too; 0 for none.
        force: whether SDPA may use nothing but torch's FlashAttention on a GPU.
        warm: tokens of a prompt that each method reads first, untimed.
        rounds: times each program runs where a round is short; the shortest counts.
        patience: seconds after which a program does not run again.
        seconds: budget of all; what would not end within it is not tried.
        small: a small model in float32 on the CPU instead, a 64th of all lengths, a 16th of what is kept.
    """

    out: Path | None = None
    lengths: tuple[int, ...] = (8192, 16384, 32768, 65536, 131072)
    only: tuple[str, ...] = ()
    layer: int = 13
    keep: int = 1024
    chunk: int | None = None
    all_queries: int = 16384
    attention: Attention = "sdpa"
    compare_at: int = 16384
    force: bool = True
    warm: int = 2048
    rounds: int = 3
    patience: float = 2.0
    seconds: float = 150.0
    small: bool = False

    def scaled(self) -> "Bench":
        """For a small model, if that is asked for."""
        if not self.small:
            return self
        return replace(
            self,
            lengths=tuple(length // 64 for length in self.lengths),
            layer=self.layer * SMALL.layers // LLAMA.layers,
            keep=self.keep // 16,
            chunk=self.chunk and self.chunk // 64,
            all_queries=self.all_queries // 64,
            compare_at=self.compare_at // 64,
            warm=self.warm // 16,
        )


class Task(NamedTuple):
    """A line of the table."""

    length: int
    method: str
    attention: str


def tasks(bench: Bench) -> Iterator[Task]:
    """All lines, in the order in which they are tried."""
    other, others = (
        FLASH if bench.attention == "sdpa" else "sdpa",
        [*(name for name in names() if name != SPECULATIVE), "budgets of layers"],
    )
    for group in (PUBLISHED, [name for name in others if name not in PUBLISHED]):
        for length in bench.lengths:
            found = [Task(length, name, bench.attention) for name in group]
            if group is PUBLISHED and length == bench.compare_at:
                found += [Task(length, name, other) for name in COMPARED]
            yield from (task for task in found if not bench.only or task.method in bench.only)


def program(bench: Bench, name: str, model: Any, draft: Any, ids: Tensor) -> Program:
    """One that reads a prompt to its first new token; the first pass, to its choice."""
    gem = partial(GemFilter, model, bench.layer, bench.keep, 0, chunk=bench.chunk)
    if name == FIRST_PASS:
        return partial(gem().select, ids)
    own: dict[str, Callable[[], Method]] = {
        "gemfilter": gem,
        "speculative prefill": lambda: SpeculativePrefill(model, draft, bench.keep),
        "budgets of layers": lambda: Prefill(model, cache=LayerBudgets(LastQueries(bench.keep))),
    }
    method = own[name]() if name in own else Reading(bench.layer, bench.keep).build(name, model)
    return partial(method.generate, ids, max_new_tokens=1, do_sample=False)


class Budget:
    """What is left of the time, and what each method took last.

    Args:
        bench: says how much there is.
        began: when it began.
    """

    def __init__(self, bench: Bench, began: float) -> None:
        self.bench, self.began = bench, began
        self.last: dict[tuple[str, str], tuple[int, Cell]] = {}

    def spent(self) -> float:
        return time.perf_counter() - self.began

    def against(self, task: Task) -> str | None:
        """Why a line is not tried; a round is expected to grow as the square of the length, at most."""
        if task.method in OF_ALL_QUERIES and task.length > self.bench.all_queries:
            return f"it forms weights of all queries, and that is tried up to {self.bench.all_queries} tokens"
        length, cell = self.last.get(task[1:], (task.length, None))
        if cell is not None and not cell.seconds:
            refused = cell.said.removeprefix("not tried: ")
            return refused if refused != cell.said else f"{cell.said} at {length} tokens"
        expected = min(cell.seconds) * (task.length / length) ** 2 if cell else 0.0
        over = self.spent() + expected > self.bench.seconds
        return f"the budget of {self.bench.seconds:g} s" if over else None


def main() -> None:
    """Measure what is asked for."""
    measure(tyro.cli(Bench, description=__doc__).scaled())


@torch.no_grad()
def measure(bench: Bench) -> Rows:
    """Measure, print and store."""
    began = time.perf_counter()
    device, dtype = ("cpu", torch.float32) if bench.small else ("cuda", torch.bfloat16)
    sizes, context = (SMALL, SMALL_DRAFT) if bench.small else (LLAMA, DRAFT), max(bench.lengths) + 16
    model, draft = (build(size, context, device, dtype) for size in sizes)
    about: dict[str, Any] = {
        "device": "CPU" if bench.small else torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "attention": bench.attention,
        "runs": {},
        "weights_gib": weight_bytes(model) / 2**30,
        "draft_weights_gib": weight_bytes(draft) / 2**30,
        "model": asdict(sizes[0]),
        "draft": asdict(sizes[1]),
        "options": asdict(bench) | {"out": None},
    }
    rows, budget = Rows(about, bench.out), Budget(bench, began)
    gc.freeze()  # what is there stays, and collections between rounds need not look at it

    def tried_on(task: Task, rounds: int) -> Cell:
        drawn = torch.Generator().manual_seed(task.length)
        ids = torch.randint(3, sizes[0].vocabulary, (1, task.length), generator=drawn).to(device)
        make = partial(program, bench, task.method, model, draft, ids)
        chunks = bench.chunk is not None
        with attending((model, draft), task.attention, device, force=bench.force, chunks=chunks) as runs:
            about["runs"][task.attention] = runs
            return tried(make, device, rounds, bench.patience)

    weights = f"weights {about['weights_gib']:.2f} GiB, the draft's {about['draft_weights_gib']:.2f}"
    print(f"{about['device']}; {weights}; layer {bench.layer}, {bench.keep} kept", flush=True)
    planned = list(tasks(bench))
    for method, attention in dict.fromkeys(task[1:] for task in planned):
        cell = tried_on(Task(bench.warm, method, attention), 1)
        if not cell.seconds:
            budget.last[method, attention] = bench.warm, cell
    print(f"{about['runs']}; {budget.spent():.1f} s until all methods are warm", flush=True)
    print(f"{'tokens':>7}  {'method':<22} {'attention':<18} {'first token':>11} {'peak':>14}   shares", flush=True)
    for task in planned:
        against = budget.against(task)
        cell = Cell(f"not tried: {against}") if against else tried_on(task, bench.rounds)
        if not against:
            budget.last[task[1:]] = task.length, cell
        rows.add(*task, label_of(task.method), cell)
        predicted = predictions(rows, sizes[0], bench.layer, bench.keep, dtype.itemsize, bench.attention)
        rows.store(predicted=predicted, spent=budget.spent())
    Console(width=130).print(table(predicted))
    gc.unfreeze()
    return rows


def label_of(name: str) -> str:
    """What a line is called."""
    return {FIRST_PASS: "GemFilter's first pass"}.get(name) or (listed(name).label if name in names() else name)


if __name__ == "__main__":
    main()
