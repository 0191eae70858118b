"""`featscope generate`: one prompt, one method, and what of the prompt it kept."""

import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from rich.console import Console
from rich.text import Text
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TextStreamer

from featscope.language.haystack import MOST_TOKENS
from featscope.language.load import RETRIEVER, RETRIEVER_LAYER, load_model, require_folder
from featscope.language.method import Method
from featscope.language.methods import Reading
from featscope.language.selection import kept_share
from featscope.options import ConfigError, require

Command = Literal["gemfilter", "snapkv", "h2o", "full"]
"""The methods of `featscope.language.methods` that the command offers; the others are variations for studies."""
_SHOWN_AT_A_GAP = 12  # dropped tokens shown on either side of a longer gap


@dataclass(frozen=True)
class Generate:
    """Generate from a long prompt, and show what of it was kept.

    Attributes:
        prompt: text file.
        model: "retriever" for the small model that ships with FeatScope, a folder, or a model of the Hub.
        method: how the prompt is compressed: tokens chosen by an early layer, entries of the cache chosen in every
            layer, or nothing.
        layer: the layer that chooses, from 0 (gemfilter). Papers chose 13 of 32 for Llama 3.1 8B.
        keep: tokens of the prompt that are kept.
        window: last tokens that are kept in any case, as the question is. With 0 GemFilter keeps the paper's rule.
        max_new_tokens: tokens to generate at most.
        show_kept: print the prompt with what was kept.
        device: "cpu", "cuda" or "cuda:N".
    """

    prompt: Path
    model: str = RETRIEVER
    method: Command = "gemfilter"
    layer: int | None = None
    keep: int = 1024
    window: int = 32
    max_new_tokens: int = 64
    show_kept: bool = False
    device: str = "cpu"

    def __post_init__(self) -> None:
        require(self, "prompt", self.prompt.is_file(), "a text file")
        require(self, "keep", 2 <= self.keep <= MOST_TOKENS, f"2 to {MOST_TOKENS}")
        least = 0 if self.method in ("gemfilter", "full") else 1
        require(self, "window", least <= self.window < self.keep, f"{least} to {self.keep - 1}, less than keep")
        useless = self.method != "gemfilter" and self.layer is not None
        require(self, "layer", not useless, f"no value with --method {self.method}", "It is GemFilter's.")
        require(self, "max_new_tokens", 1 <= self.max_new_tokens <= MOST_TOKENS, f"1 to {MOST_TOKENS}")
        require_folder(self.model)
        cure = "choose_layer finds one for your model."
        needed = self.method == "gemfilter" and self.model != RETRIEVER
        require(self, "layer", self.layer is not None or not needed, "a layer's number, from 0", cure)

    def build(self, model: PreTrainedModel) -> Method:
        """The method on ``model``."""
        layer = RETRIEVER_LAYER if self.layer is None else self.layer
        name = "question-kept" if self.method == "gemfilter" and self.window else self.method
        return Reading(layer, self.keep, self.window).build(name, model)


def generate(options: Generate) -> None:
    """Print the model's answer as it is generated, and what was kept if that is asked for.

    Raises:
        ConfigError: the prompt, the model or the options cannot be used.
    """
    prompt = options.prompt.read_text(encoding="utf-8", errors="replace")
    if not prompt.strip():
        raise ConfigError(f"prompt = {str(options.prompt)!r} is empty: allowed is a file with text")
    model, tokenizer = load_model(options.model, options.device)
    method = options.build(model)
    encoded = tokenizer(prompt.rstrip("\n"), return_tensors="pt").to(model.device)
    streamer: Any = _AnswerStreamer(tokenizer)
    settings: dict[str, Any] = {"max_new_tokens": options.max_new_tokens, "do_sample": False, "streamer": streamer}
    output = method.generate(encoded["input_ids"], encoded["attention_mask"], **settings)
    length = encoded["input_ids"].shape[-1]
    if options.method != "full" and length <= options.keep:
        print(f"The prompt has {length} tokens: --keep {options.keep} keeps all of them.", file=sys.stderr)
    if options.method == "gemfilter" and int(output.kept[0, -1]) != length - 1:
        print("The last token was not chosen: --window N keeps the last N tokens of the prompt.", file=sys.stderr)
    if options.show_kept:
        share = kept_share(output.kept, length)
        console = Console()
        console.print()
        text = marked(tokenizer, encoded["input_ids"][0].tolist(), share, colour=console.is_terminal)
        console.print(text, soft_wrap=True)
        console.print(_summary(share, options.method))


class _AnswerStreamer(TextStreamer):
    """Prints what is generated, but not the prompt."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__(tokenizer, skip_prompt=True, skip_special_tokens=True)

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
    kept = share >= 0.5
    edges = [0, *(np.flatnonzero(kept[1:] != kept[:-1]) + 1).tolist(), len(ids)]
    shown = Text()
    for start, end in pairwise(edges):
        if kept[start]:
            piece = tokenizer.decode(ids[start:end])
            shown.append(str(piece) if colour else f"⟦{piece}⟧", style="bold black on yellow" if colour else "")
        elif end - start > 3 * _SHOWN_AT_A_GAP:
            middle = end - start - 2 * _SHOWN_AT_A_GAP
            shown.append(str(tokenizer.decode(ids[start : start + _SHOWN_AT_A_GAP])), style="dim")
            shown.append(f" … {middle} tokens … ", style="italic dim")
            shown.append(str(tokenizer.decode(ids[end - _SHOWN_AT_A_GAP : end])), style="dim")
        else:
            shown.append(str(tokenizer.decode(ids[start:end])), style="dim")
    return shown


def _summary(share: Float[np.ndarray, " token"], method: Command) -> str:
    average = f"{share.sum():.0f} of {len(share)} tokens kept ({share.mean():.1%})"
    if method in ("snapkv", "h2o"):
        return f"{average} by each layer and key head; marked is what at least half of them kept"
    return average
