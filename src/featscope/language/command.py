"""`featscope generate`: one prompt, one method, and what of the prompt it kept."""

import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from rich.console import Console
from rich.text import Text
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TextStreamer

from featscope.language.chat import in_template, prompt_tokens
from featscope.language.haystack import MOST_TOKENS
from featscope.language.keep import Cost, Keep, keep_of
from featscope.language.load import RETRIEVER, RETRIEVER_LAYER, load_model, require_folder
from featscope.language.method import GREEDY, Method
from featscope.language.methods import (
    Reading,
    asked_for,
    least_window,
    listed,
    offered,
    pooling_of,
    require_draft,
    require_tokens_of_draft,
    require_used,
)
from featscope.language.prefill import Prefill
from featscope.language.propagation import ReadAgain
from featscope.language.selection import Pool, kept_share
from featscope.options import ConfigError, require

_KEEP = 1024  # tokens, where nothing is said
_KEEPS = f"2 to {MOST_TOKENS} (tokens), or a share in (0, 1)"
_BEFORE = 16  # tokens that are decoded along: of blanks at an end, and of characters in several tokens
_SHOWN_AT_A_GAP = 12  # dropped tokens shown on either side of a longer gap


@dataclass(frozen=True)
class Generate:
    """Generate from a long prompt, and show what of it was kept.

    Attributes:
        prompt: text file; the line end that closes it is left away.
        model: "retriever" for the small model of the package featscope-retriever, a folder, or a model of the Hub.
        method: how the prompt is compressed: tokens chosen by an early layer (gemfilter, fastkv, promptdistill),
            tokens chosen by a smaller model (speculative), entries of the cache chosen in every layer (snapkv, h2o,
            adakv), not at all (full), or what another package registers.
        layer: the layer that chooses, from 0, where one does. Papers chose 13 of 32 for Llama 3.1 8B.
        keep: how much of the prompt is kept: a number of tokens, or a share, below 1; None for 1024, or for --cost.
        cost: in place of --keep, what reading the prompt may cost, choosing included, as a share of full attention's
            operations.
        draft: the smaller model that chooses with --method speculative: a folder, or a model of the Hub.
        window: last tokens that are kept in any case, as the question is. With 0 GemFilter keeps the paper's rule.
        kernel: neighbours whose scores are pooled, an odd number; None for the retriever's own, or those of the
            method's paper: 5, of speculative prefill 13.
        pool: how they are pooled; None for the retriever's own, or the average as in the papers' code.
        max_new_tokens: tokens to generate at most.
        chat: put the prompt into the model's chat template, as what a user says.
        show_kept: print the prompt with what was kept.
        device: "cpu", "cuda" or "cuda:N".
    """

    prompt: Path
    model: str = RETRIEVER
    method: str = "gemfilter"
    layer: int | None = None
    keep: int | float | None = None
    cost: float | None = None
    draft: str | None = None
    window: int = 32
    kernel: int | None = None
    pool: Pool | None = None
    max_new_tokens: int = 64
    chat: bool = False
    show_kept: bool = False
    device: str = "cpu"

    def __post_init__(self) -> None:
        require(self, "prompt", self.prompt.is_file(), "a text file")
        require(self, "method", self.method in offered(), ", ".join(offered()))
        require_used(self, [self.method])
        self._require_amount()
        require_draft(self, [self.method])
        pooling_of(self)
        require(self, "max_new_tokens", 1 <= self.max_new_tokens <= MOST_TOKENS, f"1 to {MOST_TOKENS}")
        require_folder(self.model)
        cure = "choose_layer finds one for your model."
        needed = listed(self.method).by_layer and self.model != RETRIEVER
        require(self, "layer", self.layer is not None or not needed, "a layer's number, from 0", cure)

    def _require_amount(self) -> None:
        """Raise `ConfigError` unless keep, or cost, and window say how much the method keeps."""
        if self.cost is not None:
            require(self, "cost", self.keep is None, "no value beside --keep", "Leave out one of them.")
            able, cure = listed(self.method).by_cost, "It keeps all." if self.method == "full" else "Use --keep there."
            require(self, "cost", able, f"no value with --method {self.method}", cure)
            require(self, "cost", 0 < self.cost <= 1, "a share in (0, 1]")
        least, kept = least_window([self.method]), self.kept
        if isinstance(kept, int):
            require(self, "keep", 2 <= kept <= MOST_TOKENS, _KEEPS)
            require(self, "window", least <= self.window < kept, f"{least} to {kept - 1}, less than keep")
        else:
            require(self, "keep", isinstance(kept, Cost) or 0 < kept < 1, _KEEPS)
            require(self, "window", self.window >= least, f">= {least}")

    @property
    def kept(self) -> Keep:
        """What ``keep`` or ``cost`` says."""
        if self.cost is not None:
            return Cost(self.cost)
        return _KEEP if self.keep is None else keep_of(self.keep)

    def build(self, model: PreTrainedModel) -> Method:
        """The method on ``model``."""
        layer = RETRIEVER_LAYER if self.layer is None else self.layer
        name = asked_for(self.method, self.window)
        return Reading(layer, self.kept, self.window, *pooling_of(self, name), self.draft).build(name, model)


def generate(options: Generate) -> None:
    """Print the model's answer as it is generated, and what was kept if that is asked for.

    Raises:
        ConfigError: the prompt, the model or the options cannot be used.
    """
    try:
        prompt = options.prompt.read_text(encoding="utf-8-sig")  # some editors begin a file with a mark
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"prompt = {str(options.prompt)!r} cannot be read ({error}): allowed is UTF-8 text") from None
    if not prompt.strip():
        raise ConfigError(f"prompt = {str(options.prompt)!r} is empty: allowed is a file with text")
    model, tokenizer = load_model(options.model, options.device)
    method = options.build(model)
    prompt = prompt.removesuffix("\n")
    require_tokens_of_draft(options, tokenizer, prompt)
    prompt = in_template(tokenizer, prompt) if options.chat else prompt
    said = prompt_tokens(tokenizer, prompt, special=not options.chat)
    ids = torch.tensor([said], device=model.device)
    streamer: Any = _AnswerStreamer(tokenizer)
    settings: dict[str, Any] = {"max_new_tokens": options.max_new_tokens, "streamer": streamer, "tokenizer": tokenizer}
    began = time.perf_counter()
    output = method.generate(ids, torch.ones_like(ids), **settings, **GREEDY)
    twice = isinstance(method, Prefill) and isinstance(method.propagation, ReadAgain)
    print(_took([at - began for at in streamer.times], chose=twice), file=sys.stderr)
    length = ids.shape[-1]
    if options.method != "full" and isinstance(options.kept, int) and length <= options.kept:
        print(f"The prompt has {length} tokens: --keep {options.kept} keeps all of them.", file=sys.stderr)
    if output.kept is None:
        if options.show_kept:
            print(f"What --method {options.method} kept is not known: its cache does not say.", file=sys.stderr)
        return
    if output.kept.ndim == 2 and int(output.kept[0, -1]) != length - 1:
        print("The last token was not chosen: --window N keeps the last N tokens of the prompt.", file=sys.stderr)
    if options.show_kept:
        share = kept_share(output.kept, length)
        console = Console()
        console.print()
        text = marked(tokenizer, said, share, colour=console.is_terminal)
        console.print(text, soft_wrap=True)
        console.print(_summary(share, of_heads=output.kept.ndim == 4))


def _took(seconds: list[float], *, chose: bool) -> str:
    """End to end, in words: from the prompt's tokens to the first new one and to the last."""
    prompt, first, *others = seconds
    passes = f" ({prompt:.2f} s to choose, {first - prompt:.2f} s to read the choice)" if chose else ""
    last = f", the last of {1 + len(others)} after {others[-1]:.2f} s" if others else ""
    return f"The first new token came after {first:.2f} s{passes}{last}."


class _AnswerStreamer(TextStreamer):
    """Prints what is generated, but not the prompt.

    Attributes:
        times: when the model was handed its prompt, and when each new token was there.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__(tokenizer, skip_prompt=True, skip_special_tokens=True)
        self.times: list[float] = []

    def put(self, value: Tensor) -> None:
        """Tokens: the prompt's first, then new ones. They come from the device, which is waited for."""
        self.times.append(time.perf_counter())
        super().put(value)

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
        """Text that is complete."""
        sys.stdout.write(text + ("\n" if stream_end else ""))
        sys.stdout.flush()


def marked(
    tokenizer: PreTrainedTokenizerBase, ids: list[int], share: Float[np.ndarray, " token"], *, colour: bool
) -> Text:
    """The prompt, with the tokens that at least half of the sets kept highlighted, and long gaps shortened.

    Args:
        tokenizer: of the model.
        ids: tokens of the prompt.
        share: see `kept_share`.
        colour: highlight by colour; otherwise kept tokens stand between ⟦ and ⟧.
    """

    def piece(start: int, end: int) -> str:
        """What tokens add to the text before them; a character belongs to the token that completes it."""
        first = max(0, start - _BEFORE)
        whole, before = (str(tokenizer.decode(ids[first:place])).rstrip("\ufffd") for place in (end, start))
        return whole[len(before) :]

    kept = share >= 0.5
    edges = [0, *(np.flatnonzero(kept[1:] != kept[:-1]) + 1).tolist(), len(ids)]
    shown = Text()
    for start, end in pairwise(edges):
        if kept[start]:
            text = piece(start, end)
            shown.append(text if colour else f"⟦{text}⟧", style="bold black on yellow" if colour else "")
        elif end - start > 3 * _SHOWN_AT_A_GAP:
            middle = end - start - 2 * _SHOWN_AT_A_GAP
            shown.append(piece(start, start + _SHOWN_AT_A_GAP), style="dim")
            shown.append(f" … {middle} tokens … ", style="italic dim")
            shown.append(piece(end - _SHOWN_AT_A_GAP, end), style="dim")
        else:
            shown.append(piece(start, end), style="dim")
    return shown


def _summary(share: Float[np.ndarray, " token"], *, of_heads: bool) -> str:
    average = f"{share.sum():.0f} of {len(share)} tokens kept ({share.mean():.1%})"
    if of_heads:
        return f"{average} by each layer and key head; marked is what at least half of them kept"
    return average
