"""Ways of reading a prompt of both libraries, with one interface, and what trying something came to."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from featscope.language import GemFilter, SnapKV

OURS, THEIRS = "FeatScope", "kvpress"
LIBRARIES = (OURS, THEIRS) if find_spec("kvpress") else (OURS,)
KEEP, WINDOW = 20, 8
"""Of prompts of 60 tokens on tiny models."""


@dataclass
class Pressed:
    """The model's own ``generate`` within a press, as kvpress' README shows it."""

    model: Any
    press_of: Callable[[int], Any]

    def generate(self, input_ids: Tensor, attention_mask: Tensor | None = None, **options: Any) -> Any:
        """What the model's ``generate`` returns."""
        with self.press_of(input_ids.shape[1])(self.model):
            return self.model.generate(input_ids, attention_mask=attention_mask, **options)


def ratio(keep: int, length: int) -> float:
    """The ``compression_ratio`` that keeps so many entries: kvpress rounds what is left of ``length`` down."""
    return max(0.0, 1 - (keep + 0.5) / length)


def snapkv(library: str, model: Any, keep: int, window: int = WINDOW, **rule: Any) -> Any:
    """SnapKV of a library; averages over 5 neighbours in both."""
    if library == OURS:
        return SnapKV(model, keep, window, **rule)
    from kvpress import SnapKVPress

    return Pressed(model, lambda length: SnapKVPress(ratio(keep, length), window_size=window, kernel_size=5))


def gemfilter(model: Any, keep: int, window: int = WINDOW, layer: int = 3) -> GemFilter:
    """FeatScope's; kvpress has none."""
    return GemFilter(model, layer, keep, window)


def outcome(check: Callable[[], str]) -> str:
    """What ``check`` says; "refused" with the reason where a library raises by a line of its own, or the raw error."""
    try:
        return check()
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        lines = Path(last.filename).read_text(encoding="utf-8").splitlines() if Path(last.filename).is_file() else []
        # A raise or an assertion of several lines is given by its first or its last one.
        said = any(line.strip().startswith(("raise", "assert")) for line in lines[(last.lineno or 1) - 3 : last.lineno])
        own = any(f"/{package}/" in last.filename for package in ("featscope", "kvpress"))
        text = " ".join(str(error).split()).split(" Command: ")[0]  # a compiler's names folders
        return f"refused: {text}" if said and own else f"error: {type(error).__name__}: {text}"


def agreement(found: Tensor, expected: Tensor) -> str:
    """Whether two sets of logits are the same up to rounding; else by how much they differ, over their spread."""
    off = float((found - expected).abs().max() / expected.std())
    return "right" if off < 1e-3 else f"wrong: logits are off by {off:.2g} of their spread"


GREEDY: dict[str, Any] = {"do_sample": False, "max_new_tokens": 6}
WHOLE: dict[str, Any] = {"return_dict_in_generate": True, "output_logits": True}


def logits_of(output: Any) -> Tensor:
    """Of all new tokens ``[batch, new, token]``."""
    return torch.stack(output.logits, 1)
