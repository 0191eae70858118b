"""Lines of a table, printed and stored one by one, as a run may be ended before it is done."""

import json
from pathlib import Path
from typing import Any

import torch
from rich.table import Table
from torch import Tensor

from benchmarks.cell import Cell
from featscope.files import atomic_write
from featscope.theory.token_selection import (
    Geometry,
    first_pass_operations,
    prompt_memory_evicting,
    prompt_memory_first_pass,
    prompt_memory_full,
    prompt_operations,
)

Row = dict[str, Any]
FULL, EVICTING, FIRST_PASS = "full", "snapkv", "first pass"


class Rows:
    """What was measured so far.

    Args:
        about: what of.
        out: file of JSON that receives them; None for none.
    """

    def __init__(self, about: Row, out: Path | None) -> None:
        self.about, self.out = about, out
        self.rows: list[Row] = []
        self._measured: dict[tuple[int, str], dict[str, Row]] = {}  # by length and method, then by attention
        self._kept: dict[tuple[int, str, str], Tensor] = {}

    def found(self, length: int, method: str, attention: str) -> Row | None:
        """The line of a method, if it was measured."""
        return self._measured.get((length, method), {}).get(attention)

    def add(self, length: int, method: str, attention: str, label: str, cell: Cell) -> None:
        """Print a line, and have it."""
        row: Row = {"tokens": length, "method": method, "attention": attention, "said": cell.said}
        shown = cell.said
        if cell.seconds:
            row |= {"seconds": min(cell.seconds), "rounds": cell.seconds, "peak_gib": cell.peak / 2**30}
            whole = self.found(length, FULL, attention) or (row if method == FULL else {})
            shares = {f"{of}_of_full": row[of] / whole[of] for of in ("seconds", "peak_gib") if of in whole}
            same = self._same(length, method, attention, row, cell.output)
            row |= shares | same
            of_full = " ".join(f"{share:6.3f}" for share in shares.values())
            told = "".join(f"  {name}: {value}" for name, value in same.items() if name != "first_token")
            shown = f"{row['seconds']:9.3f} s {row['peak_gib']:10.4g} GiB   of full {of_full or 'not known'}{told}"
            self._measured.setdefault((length, method), {})[attention] = row
        self.rows.append(row)
        print(f"{length:>7}  {label:<22} {attention:<18} {shown}", flush=True)

    def _same(self, length: int, method: str, attention: str, row: Row, output: Any) -> Row:
        """The first token that a method wrote, and whether it is that of the same method on another attention."""
        if not hasattr(output, "kept"):
            return {}
        token, kept = int(output[0, -1]), output.kept.cpu()
        found: Row = {"first_token": token}
        for other, its in self._measured.get((length, method), {}).items():
            same = self._kept[length, method, other]
            found |= {"same_first_token": token == its["first_token"], "same_kept": torch.equal(kept, same)}
        self._kept[length, method, attention] = kept
        return found

    def store(self, **more: Any) -> None:
        """Write what there is, and more."""
        if self.out is not None:
            text = json.dumps(self.about | {"rows": self.rows} | more, indent=1, ensure_ascii=False)
            atomic_write(self.out, (text + "\n").encode())


def predictions(rows: Rows, size: Geometry, layer: int, keep: int, width: int, attention: str) -> list[Row]:
    """Of each length, how many times longer than GemFilter's first pass others take, beside what theory says.

    Args:
        rows: what was measured.
        size: of the model.
        layer: r.
        keep: k.
        width: bytes of a number.
        attention: by which.
    """
    found = []
    for length in sorted({row["tokens"] for row in rows.rows}):
        first, *others = (rows.found(length, name, attention) for name in (FIRST_PASS, FULL, EVICTING))
        measured = [row["seconds"] / first["seconds"] if first and row else None for row in others]
        caches = {
            "full": prompt_memory_full(size, length),
            "evicting": prompt_memory_evicting(size, length, keep),
            "first pass": prompt_memory_first_pass(size, length),
        }
        found.append(
            {
                "tokens": length,
                "full_over_first_pass": measured[0],
                "snapkv_over_first_pass": measured[1],
                "predicted": prompt_operations(size, length) / first_pass_operations(size, length, layer),
                "layers_over_layer": size.layers / layer,
                "predicted_cache_gib": {name: width * numbers / 2**30 for name, numbers in caches.items()},
            }
        )
    return found


def table(predicted: list[Row]) -> Table:
    """The same, to be read."""
    shown = Table(title="Over GemFilter's first pass, and caches predicted")
    for heading in ("tokens", "full", "SnapKV", "predicted", "m/r", "GiB: full", "evicting", "first pass"):
        shown.add_column(heading, justify="right")
    for row in predicted:
        numbers = [*list(row.values())[1:-1], *row["predicted_cache_gib"].values()]
        shown.add_row(str(row["tokens"]), *("not known" if one is None else f"{one:.3f}" for one in numbers))
    return shown
