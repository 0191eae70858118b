"""What the dissertation reports of LongBench, in points: Tables 9.1, 9.2 and G.1 as printed."""

from collections.abc import Sequence
from typing import NamedTuple

from jaxtyping import Float
from numpy import append, array, isfinite, mean, nan, ndarray

from featscope.language.longbench.tasks import TASKS


class PublishedRow(NamedTuple):
    """One line of a table.

    Attributes:
        method: as the table calls it, with k where it has one: "All-KV", "SnapKV-1024", "layer-13".
        scores: of the tasks, in the order of the columns.
        average: as printed.
    """

    method: str
    scores: tuple[float, ...]
    average: float

    def of(self, tasks: Sequence[str]) -> Float[ndarray, " task_and_mean"]:
        """The scores of ``tasks``, NaN for those that the table lacks, and the mean of the others."""
        found = dict(zip(TASKS, self.scores, strict=False))
        scores = array([found.get(task, nan) for task in tasks])
        known = scores[isfinite(scores)]
        return append(scores, known.mean() if known.size else nan)


_LLAMA = """
All-KV         32.02 13.04 27.34 16.23 16.05 11.22 34.52 23.41 26.89 73.0 91.64 43.8 7.16 97.73 36.72
H2O-4096       22.94 12.61 26.48 16.63 15.81 10.14 33.51 23.47 26.81 69.0 91.15 43.97 6.66 71.67 33.63
MInference     27.52 14.72 28.89 17.55 15.22 10.58 34.76 22.34 26.64 72.5 89.78 41.94 7.59 92.91 35.92
LLMLingua-1024 11.73 6.28 12.43 13.82 12.92 8.15 22.82 20.18 23.32 24.0 66.75 24.02 9.09 4.24 18.55
SnapKV-1024    31.98 11.17 25.33 14.81 15.73 10.69 26.95 22.89 25.86 67.5 91.89 42.85 7.67 98.16 35.25
GemFilter-1024 20.71 11.0 29.28 19.12 17.01 13.01 30.37 21.75 25.17 63.0 90.7 42.5 7.15 92.22 34.50
SnapKV-2048    31.45 11.94 26.24 15.73 16.03 11.66 29.64 23.24 26.44 69.5 91.48 42.68 7.21 98.03 35.80
GemFilter-2048 24.36 12.63 25.39 19.58 17.03 14.11 33.15 22.31 26.49 69.5 91.59 42.64 4.61 98.75 35.87
SnapKV-4096    32.13 13.12 27.38 16.11 16.08 11.6 32.39 23.47 26.76 71.5 91.64 43.46 7.33 97.24 36.44
GemFilter-4096 25.66 12.95 27.38 17.76 15.6 12.02 34.17 23.25 26.87 70.0 92.36 43.34 5.96 98.0 36.09
"""
_MISTRAL = """
All-KV         28.91 40.74 54.65 52.15 48.36 30.28 30.66 23.53 26.31 75.0 89.66 44.32 4.5 100.0 46.36
H2O-4096       31.61 39.52 54.75 47.83 48.09 27.0 30.44 23.21 26.42 72.5 89.76 44.47 3.0 73.0 43.69
LLMLingua-1024 19.24 16.92 21.43 30.94 25.09 13.24 21.96 19.8 23.94 24.5 68.48 33.33 4.0 5.0 23.42
SnapKV-1024    26.42 38.49 52.96 51.21 47.86 27.06 24.32 22.66 25.52 73.0 89.82 43.16 3.5 100.0 44.71
GemFilter-1024 27.53 40.68 53.86 55.51 55.43 34.11 27.25 21.16 25.56 69.0 87.32 42.49 4.0 88.06 45.14
SnapKV-2048    25.85 40.69 54.48 51.96 49.06 26.95 26.29 23.17 25.9 74.5 89.66 43.89 4.0 99.5 45.42
GemFilter-2048 29.27 41.53 54.91 57.62 54.97 35.09 29.34 22.58 26.19 72.0 89.65 44.93 4.0 97.5 47.11
SnapKV-4096    27.92 40.9 54.75 51.69 48.16 29.19 29.17 23.36 26.35 75.0 89.66 43.93 4.5 100.0 46.04
GemFilter-4096 30.29 39.9 56.48 58.78 51.48 32.81 30.32 23.21 26.48 71.5 90.24 42.13 2.0 99.5 46.79
"""
_PHI = """
All-KV         27.51 17.23 35.63 21.7 25.7 11.68 34.14 23.17 24.95 71.5 87.37 13.08 7.17 83.85 34.62
H2O-4096       19.74 16.23 34.17 21.02 23.05 10.49 33.42 21.95 24.95 67.5 86.13 16.71 1.55 47.46 30.31
LLMLingua-1024 8.58 6.74 14.93 12.37 11.01 4.48 21.23 17.08 20.75 24.0 56.09 23.01 0.96 3.79 16.07
SnapKV-1024    24.31 16.03 34.93 20.72 26.02 13.74 28.27 22.03 24.02 67.5 87.71 14.57 6.08 85.6 33.68
GemFilter-1024 16.57 18.29 35.91 24.22 26.1 9.7 30.29 18.96 23.64 64.5 85.85 23.02 0.2 81.12 32.74
SnapKV-2048    26.41 16.59 36.99 21.8 26.07 12.57 30.88 22.37 24.51 69.5 87.54 13.13 6.57 83.92 34.20
GemFilter-2048 19.63 14.84 35.99 21.38 19.72 10.13 32.39 21.24 24.71 65.0 86.49 20.47 2.17 69.5 31.69
SnapKV-4096    27.25 17.42 36.9 21.37 25.42 12.55 32.9 22.6 24.87 70.5 87.45 13.28 6.81 84.04 34.53
GemFilter-4096 20.95 19.98 35.22 28.82 28.21 13.98 34.2 22.45 25.08 64.5 85.86 18.68 3.43 65.56 33.35
"""
_LLAMA_LAYERS = """
layer-1        16.32 7.38 13.86 13.9 13.21 5.22 25.61 20.09 24.51 47.0 76.59 39.78 2.55 23.01 23.50
layer-7        16.89 6.83 13.47 13.78 12.23 9.67 26.56 19.49 24.55 58.0 84.87 41.07 6.5 50.69 27.47
layer-12       15.53 7.73 16.53 17.08 13.33 9.88 28.94 20.32 25.01 58.0 88.16 40.42 8.36 43.06 28.03
layer-13       20.71 11.0 29.28 19.12 17.01 13.01 30.37 21.75 25.17 63.0 90.7 42.5 7.15 92.22 34.50
layer-14       21.14 13.06 25.45 20.89 17.32 12.9 29.85 22.06 24.91 62.0 89.88 42.33 6.17 92.17 34.30
layer-19       19.06 11.69 27.12 20.98 16.98 14.04 29.17 21.88 25.18 58.0 89.65 40.4 8.75 94.84 34.12
layer-25       24.74 12.33 26.18 18.56 16.3 12.54 28.66 21.75 25.14 61.5 88.78 39.47 8.67 90.59 33.94
layer-31       20.62 9.13 17.51 19.13 13.76 10.07 28.21 21.11 25.16 58.0 88.4 42.37 8.23 58.8 30.04
"""
_LLAMA_CHAT = """
All-KV         25.08 44.06 55.08 47.86 49.19 27.46 41.46
MInference     29.61 43.89 54.76 51.72 49.55 28.17 42.95
SnapKV-1024    29.01 41.67 56.22 56.81 49.32 31.56 44.10
GemFilter-1024 22.8 40.78 48.05 54.33 50.03 30.03 41.00
"""


def _rows(table: str) -> dict[str, PublishedRow]:
    read = (line.split() for line in table.strip().splitlines())
    return {name: PublishedRow(name, tuple(map(float, scores)), float(average)) for name, *scores, average in read}


PUBLISHED = {
    "llama-3.1-8b": _rows(_LLAMA),
    "mistral-nemo-12b": _rows(_MISTRAL),
    "phi-3.5-mini": _rows(_PHI),
    "llama-3.1-8b-layers": _rows(_LLAMA_LAYERS),
    "llama-3.1-8b-chat": _rows(_LLAMA_CHAT),
}
"""Table -> method -> row. Table 9.1 is the first three, all of "Instruct" models without chat template; filter layers
13, 19 and 19 of 32, 40 and 32, from 0. Table 9.2 is the fourth: GemFilter-1024 of the first over the filter layer (its
k is not printed; layer 13 repeats Table 9.1's row). Table G.1 is the last: the first six tasks with a chat template."""


TABLES = {
    "Table 9.1": ("llama-3.1-8b", "mistral-nemo-12b", "phi-3.5-mini"),
    "Table 9.2": ("llama-3.1-8b-layers",),
    "Table G.1": ("llama-3.1-8b-chat",),
}
"""The dissertation's tables, and what `PUBLISHED` calls their parts."""


def farthest_average(table: str) -> float:
    """The largest difference of a printed average from the mean of its row, in points; ``table`` as in `TABLES`."""
    rows = [row for part in TABLES[table] for row in PUBLISHED[part].values()]
    return max(abs(float(mean(row.scores)) - row.average) for row in rows)


def farthest_pair(table: str) -> float:
    """The largest difference of GemFilter's average from SnapKV's at one k, in points; ``table`` as in `TABLES`."""
    return max(abs(float(difference)) for part in TABLES[table] for difference in same_keep_differences(part))


def same_keep_differences(part: str) -> Float[ndarray, " keep"]:
    """GemFilter's printed average less SnapKV's at each k that a part of a table has of both."""
    rows = PUBLISHED[part]
    return array([rows[f"GemFilter-{k}"].average - rows[f"SnapKV-{k}"].average for k in kept(part)])


def kept(part: str) -> list[int]:
    """Every k at which a part of a table has GemFilter."""
    return [int(name.removeprefix("GemFilter-")) for name in PUBLISHED[part] if name.startswith("GemFilter-")]


def nearest_pair(part: str, keep: int) -> tuple[str, str] | None:
    """GemFilter's and SnapKV's row of a part of a table, at the k nearest to ``keep``; None if it has neither."""
    if not kept(part):
        return None
    nearest = min(kept(part), key=lambda k: abs(k - keep))
    return f"GemFilter-{nearest}", f"SnapKV-{nearest}"
