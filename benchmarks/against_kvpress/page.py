"""Tables of what was found, in Markdown."""

import re
from collections.abc import Mapping
from typing import Any

from benchmarks.marked import DOCS, table

PAGE = DOCS / "kvpress.md"
TITLES = {
    "padding": "padding on the left",
    "beams": "three beams",
    "sampling": "sampling",
    "quantised": "a cache of 4 bits (quanto)",
}
_LONGEST = 110


def tables(results: Mapping[str, Any]) -> dict[str, str]:
    """By name of the table, of the parts that are there."""
    made = {
        "methods": _methods(results.get("methods", {})),
        "presses": _methods({run: said for run, said in results.get("presses", {}).items() if said["found"]}),
        "models": _grid("SnapKV, then GemFilter, of a", results.get("models", {})),
        "exact": _exact(results),
        "costs": _costs(results.get("costs", {}).get("both", {})),
        "accuracy": _accuracy(results.get("accuracy", {}).get("both", {})),
    }
    return {name: text for name, text in made.items() if text}


def _shown(said: Mapping[str, str]) -> str:
    """What each way said, once if they all said the same."""
    said = {name: text for name, text in said.items() if name != "full attention"}
    if len(set(said.values())) == 1:
        return _short(next(iter(said.values())))
    return "; ".join(f"{name} {_short(text)}" for name, text in said.items())


def _short(text: str) -> str:
    text = (
        text.removesuffix(".")
        .split(": C++ compile error")[0]
        .replace("|", "\\|")
        .replace("*", "\\*")
        .replace("_", "\\_")
    )
    text = re.sub(r"^(wrong|refused|error)", r"**\1**", text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1].rsplit(" ", 1)[0] + " …"


def _grid(title: str, runs: Mapping[str, Any]) -> str:
    if not runs:
        return ""
    rows = list(dict.fromkeys(row for run in runs.values() for row in run["found"]))
    cells = [[row, *(_shown(run["found"].get(row, {"": "not tried"})) for run in runs.values())] for row in rows]
    return table([title, *runs], cells)


def _exact(results: Mapping[str, Any]) -> str:
    """Padding, beams, sampling, turns, kernels and quantised caches, a column a library and environment."""
    runs = list(dict.fromkeys(run for part in (*TITLES, "turns", "kernels") for run in results.get(part, {})))
    rows: list[list[str]] = []

    def add(title: str, part: str, inner: str | None = None) -> None:
        cells = []
        for run in runs:
            found = results.get(part, {}).get(run, {}).get("found", {})
            found = found.get(inner, {}) if inner else found
            control = found.get("full attention", "")
            if not found or control.startswith("error: ImportError"):
                cells.append(f"not tried: {_short(control[20:])}" if found else "not tried")
            elif control.startswith("error"):
                cells.append(f"{_short(control)} (full attention, too)")
            else:
                note = f" (full attention: {_short(control[8:].strip())})" if control.startswith("answers") else ""
                cells.append(_shown(found) + note)
        rows.append([title, *cells])

    for part in ("padding", "beams", "sampling"):
        add(TITLES[part], part)
    for what in ("second question", "behind the first answer", "from the returned cache"):
        add(f"turns: {what}", "turns", what)
    for kernel in ("eager", "flex_attention", "flash_attention_2", "kernels-community/flash-attn2"):
        stub = ", a stub" if "flash" in kernel else ""
        add(f"kernel `{kernel}`{stub}", "kernels", kernel)
    add(TITLES["quantised"], "quantised")
    return table(["", *runs], rows) if runs else ""


def _methods(runs: Mapping[str, Any]) -> str:
    """How many run, how many spend less on the prompt, and what stops the others."""
    if not runs:
        return ""
    rows, lists = [], []
    for run, result in runs.items():
        found = {name: list(said.values()) for name, said in result["found"].items()}
        shares = {name: _share(said[-1]) for name, said in found.items() if said[-1].startswith("runs")}
        less = [name for name, share in shares.items() if share < 0.9]
        stopped = [f"{name} ({_short(said[0])})" for name, said in found.items() if name not in shares]
        span = f"{min(shares.values()):.2f} to {max(shares.values()):.2f}"
        eager = [name for name in shares if len(found[name]) > 1]
        with_eager = f" ({', '.join(eager)} with eager attention)" if eager else ""
        rows.append([run, str(len(found)), f"{len(shares)}{with_eager}", str(len(less)), span])
        if stopped:
            lists.append(f"Not run, of {run}: {'; '.join(stopped)}.")
    heading = ("", "methods", "run here", "reduce the prefill", "operations, of full attention's")
    return "\n\n".join([table(heading, rows), *lists])


def _share(text: str) -> float:
    return float(text.removeprefix("runs: ").split()[0])


def _costs(run: Mapping[str, Any]) -> str:
    if not run:
        return ""
    heading = ["", "tokens", "first token", "of full", "last token", "of full", "peak MiB", "of full", "MiB held"]
    rows = []
    for length, found in run["found"].items():
        whole = found["full attention"]
        for name, one in found.items():
            row = [name, length]
            for key, shown in (("first", f"{one['first']:.2f} s"), ("last", f"{one['last']:.2f} s"), ("MiB", "")):
                row += [shown or f"{one[key]:.0f}", f"{one[key] / whole[key]:.2f}"]
            rows.append([*row, f"{one['MiB held']:.1f}"])
    return table(heading, rows)


def _accuracy(run: Mapping[str, Any]) -> str:
    if not run:
        return ""
    keeps = list(next(iter(run["found"].values())))
    rows = []
    for name, found in sorted(run["found"].items(), key=lambda row: row[0].split(" | ")[0], reverse=True):
        shares = [f"{share:.2f} ({low:.2f} to {high:.2f})" for share, low, high in found.values()]
        rows.append([*name.split(" | "), *shares])
    return table(["reduced", "method", *(f"{keep} kept" for keep in keeps)], rows)
