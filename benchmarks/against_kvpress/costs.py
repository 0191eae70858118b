"""Seconds from the prompt to the first and the last new token, end to end, and peak memory, in turns."""

from statistics import median
from typing import Any

import torch

from benchmarks.against_kvpress.ways import LIBRARIES, OURS, THEIRS, Pressed, gemfilter, ratio, snapkv
from benchmarks.long_prompt import Bench, model_of
from featscope.language import AdaKV, FastKV, FullCache
from featscope.language.cost import timed_answer
from featscope.language.decoder import cache_of
from featscope.training.memory import peak_bytes

WINDOW = 32


def costs(bench: Bench) -> dict[str, dict[str, dict[str, float]]]:
    """By length and method: seconds to the first and the last token, medians, and MiB beyond the weights."""
    model = model_of(bench)
    found: dict[str, dict[str, dict[str, float]]] = {}
    for length in bench.lengths:
        ids = torch.randint(3, 1024, (1, length), generator=torch.Generator().manual_seed(length))
        methods = _methods(bench, model)
        for method in methods.values():
            timed_answer(method, ids[:, : 2 * bench.keep], 2)  # whatever is done once is done
        rounds = [
            {name: timed_answer(m, ids, bench.new)[1] for name, m in methods.items()} for _ in range(bench.rounds)
        ]
        found[str(length)] = {
            name: {
                "first": median(one[name][0] for one in rounds),
                "last": median(one[name][-1] for one in rounds),
                "MiB": _peak(method, ids),
                "MiB held": _held(method, ids),
            }
            for name, method in methods.items()
        }
    return found


def _peak(method: Any, ids: torch.Tensor) -> float:
    return peak_bytes(lambda: method.generate(ids, max_new_tokens=1, do_sample=False)) / 2**20


def _held(method: Any, ids: torch.Tensor) -> float:
    """What is left of the cache once the prompt is read, with the storage that its tensors are views of."""
    out = method.generate(ids, max_new_tokens=1, do_sample=False, return_dict_in_generate=True)
    kept = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for layer in cache_of(out).layers
        for tensor in vars(layer).values()
        if isinstance(tensor, torch.Tensor)
    }
    return sum(kept.values()) / 2**20


def _methods(bench: Bench, model: Any) -> dict[str, Any]:
    found = {
        "full attention": FullCache(model),
        f"SnapKV, {OURS}": snapkv(OURS, model, bench.keep, WINDOW),
        f"AdaKV, {OURS}": AdaKV(model, bench.keep, WINDOW),
        f"GemFilter, {OURS}": gemfilter(model, bench.keep, WINDOW, bench.layer),
        f"FastKV, {OURS}": FastKV(model, bench.layer, bench.keep, bench.keep, WINDOW),
    }
    if THEIRS not in LIBRARIES:
        return found
    from kvpress import AdaKVPress, KnormPress, SnapKVPress

    def press(kind: Any, **options: Any) -> Pressed:
        return Pressed(model, lambda length: kind(ratio(bench.keep, length), **options))

    def adakv(length: int) -> Any:
        return AdaKVPress(SnapKVPress(ratio(bench.keep, length), window_size=WINDOW))

    return found | {
        f"SnapKV, {THEIRS}": snapkv(THEIRS, model, bench.keep, WINDOW),
        f"AdaKV, {THEIRS}": Pressed(model, adakv),
        f"norms of keys (Knorm), {THEIRS}": press(KnormPress),
    }
