"""Which layer should choose: the needle-distance probe (dissertation, Section 9.4.3 and Figure 9.5)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from featscope.claims.intervals import interval_of_binomial
from featscope.language.attention import Attention, require_seen, watched
from featscope.language.chat import begins, begun, going_on, in_template
from featscope.language.decoder import (
    require_context,
    require_decoder,
    require_one_device,
    require_seeing,
    seeing,
    text_config,
    text_model,
)
from featscope.language.keep import AMOUNTS, Keep, is_amount, plain, tokens_of
from featscope.language.prompt import Prompt, read_prompt
from featscope.language.selection import Pool, last_row_scores, require_rule, select
from featscope.options import ConfigError

_LEVEL = 0.95


@dataclass(frozen=True)
class LayerChoice:
    """What the probe found.

    Attributes:
        layer: the first layer that keeps all of the needle in a share ``stable`` of the examples; None if none does.
        distance: places from the needle to the nearest kept token, ``[example, layer]``; 0 where one of its tokens
            is kept, and the prompt's length in layers that are not offered. This is what the dissertation looks at.
        kept: share of the needle's tokens that are kept, ``[example, layer]``; NaN of layers that are not offered.
        stable: share of examples in which a layer must keep the needle.
    """

    layer: int | None
    distance: Int[np.ndarray, "example layer"]
    kept: Float[np.ndarray, "example layer"]
    stable: float

    @property
    def covered(self) -> Float[np.ndarray, " layer"]:
        """Share of examples of whose needle a token is kept."""
        return (self.distance == 0).mean(0)

    @property
    def whole(self) -> Float[np.ndarray, " layer"]:
        """Share of examples of whose needle all tokens are kept, without which no answer can be read from them."""
        return (self.kept == 1).mean(0)

    @property
    def interval(self) -> Float[np.ndarray, "2 layer"]:
        """Clopper and Pearson's, of `whole` at 95 %."""
        counts = (self.kept == 1).sum(0)
        return np.array([interval_of_binomial(int(count), len(self.kept), _LEVEL) for count in counts]).T

    def figure(self) -> Figure:
        """Distance of every example and shares of needles that are kept, over layers."""
        figure = Figure(figsize=(8, 6), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True)
        layers = np.flatnonzero(np.isfinite(self.kept).any(0))
        above.plot(layers, self.distance.T[layers], color="C0", alpha=0.4, marker="o", markersize=3, clip_on=False)
        above.set(yscale="symlog", ylabel="distance to the needle (tokens)", title="Nearest kept token")
        above.set(xlim=(-0.7, self.kept.shape[1] - 0.3), ylim=(0, max(10, self.distance[:, layers].max())))
        below.bar(layers, self.covered[layers], color="none", edgecolor="C1", label="a token of it")
        bars, whole = abs(self.interval - self.whole)[:, layers], self.whole[layers]
        below.bar(layers, whole, color="C1", yerr=bars, capsize=2, label="all of it, 95 % intervals")
        if len(layers) < self.kept.shape[1]:
            below.set_title("Layers without a bar do not see the whole prompt, and are not offered", fontsize="medium")
        below.axhline(self.stable, color="black", linestyle="--", label=f"asked for: {self.stable:g}")
        if self.layer is not None:
            below.axvline(self.layer, color="black", linestyle=":", label=f"chosen: layer {self.layer}")
        below.set(xlabel="filter layer", ylabel="share of needles that are kept", ylim=(0, 1.05))
        below.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.legend(loc="outside lower center", ncols=4)
        return figure


def choose_layer(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    examples: Iterable[tuple[str, str]],
    keep: Keep,
    window: int = 32,
    pool: Pool = "avg",
    kernel: int = 5,
    stable: float = 0.9,
    chat: bool = False,
) -> LayerChoice:
    """The first layer whose choice holds all of the needle, stable over examples.

    The dissertation asks for the nearest kept token alone. Where an answer has several tokens that is too little: a
    layer that keeps a number's first digit is as near as can be, and the number cannot be read from it.
    Later layers may lose it again: the last ones prepare the output (Section 9.4.3). Layers whose window hides
    a part of the prompt are not offered.

    Every layer's choice is read off one pass of the whole model, so that the probe costs a prefill an example.

    Args:
        model: a decoder with rotary embedding.
        tokenizer: its tokenizer, a fast one.
        examples: pairs of a whole prompt, with its question, and the part of it that answers: no more than that, as all
            of it is to be kept. One that is there again does not count, and has no row: layers would choose the same.
        keep: tokens kept: a number, or a share of the prompt.
        window: of these, the last ones of the prompt, which no needle is in; see `GemFilter`.
        pool: see `GemFilter`.
        kernel: see `GemFilter`.
        stable: share of examples in which a layer must keep the needle.
        chat: put each prompt into the tokenizer's chat template, as what a user says.

    Raises:
        ConfigError: an option is out of range, there are no examples, a needle is not in its prompt or lies in its
            window, ``keep`` keeps a whole prompt, or the model cannot read one.
    """
    require_decoder(model)
    require_one_device(model)
    keep = plain(keep)
    if not is_amount(keep):
        raise ConfigError(f"keep = {keep} is out of range: allowed is {AMOUNTS}")
    if window < 0:
        raise ConfigError(f"window = {window!r} is out of range: allowed is >= 0")
    require_rule("choose_layer", keep, pool, kernel)
    examples = [*examples]  # what is given may be read once
    if not examples:
        raise ConfigError("examples = [] is empty: allowed is one pair (prompt, needle) or more")
    if any(isinstance(pair, str) or len(pair) != 2 for pair in examples):
        raise ConfigError(f"examples = {examples!r:.60} are no pairs: allowed are pairs (prompt, needle) of text")
    if not 0 < stable <= 1:
        raise ConfigError(f"stable = {stable!r} is out of range: allowed is (0, 1]")
    hidden = []
    for text, needle in dict.fromkeys((text, needle) for text, needle in examples):
        ids, span = needle_span(tokenizer, in_template(tokenizer, text) if chat else text, needle, special=not chat)
        _require_hidden(ids.shape[1], span, needle, keep, window)
        hidden.append((ids, span))
    (choice,) = probed(model, hidden, [keep], window, pool, kernel, stable)
    return cast(LayerChoice, choice)  # no prompt is kept whole


def probed(
    model: PreTrainedModel,
    hidden: Sequence[tuple[Tensor, range]],
    keeps: Sequence[int | float],
    window: int,
    pool: Pool,
    kernel: int,
    stable: float = 0.9,
) -> list[LayerChoice | None]:
    """What `choose_layer` finds for each of ``keeps``, from one pass of the model an example.

    Of each those prompts count that have more tokens than it keeps; ``None`` where none has.

    Args:
        model: a decoder with rotary embedding.
        hidden: prompts ``[1, token]``, and the tokens of each that answer.
        keeps: numbers of tokens kept, or shares of the prompt.
        window: see `choose_layer`.
        pool: see `choose_layer`.
        kernel: see `choose_layer`.
        stable: see `choose_layer`.
    """
    layers = range(text_config(model).num_hidden_layers)
    distance = np.zeros((len(keeps), len(hidden), len(layers)), dtype=int)
    kept = np.full(distance.shape, np.nan)
    for example, (ids, span) in enumerate(hidden):
        prompt = read_prompt(model, ids.to(model.device), torch.ones_like(ids))
        length = ids.shape[1]
        distance[:, example] = length  # a layer that does not see the whole prompt finds nothing
        for layer, scores in scores_of_all_layers(model, prompt).items():
            for which, keep in enumerate(keeps):
                count = tokens_of(keep, length)
                places = select(scores, prompt.real, count, pool, kernel, range(-window, 0))[0].cpu()
                distance[which, example, layer] = needle_distance(places, span)
                inside = (places >= span.start) & (places < span.stop)
                kept[which, example, layer] = float(inside.sum()) / len(span)
    found: list[LayerChoice | None] = []
    for which, keep in enumerate(keeps):
        cut = [tokens_of(keep, ids.shape[1]) < ids.shape[1] for ids, _ in hidden]
        if any(cut):
            good = np.flatnonzero((kept[which][cut] == 1).mean(0) >= stable)
            of = distance[which][cut], kept[which][cut]
            found.append(LayerChoice(int(good[0]) if len(good) else None, *of, stable))
        else:
            found.append(None)
    return found


def needle_span(
    tokenizer: PreTrainedTokenizerBase, prompt: str, needle: str, *, special: bool = True
) -> tuple[Tensor, range]:
    """Tokens of ``prompt`` ``[1, token]``, begun as a text is if ``special``, and which touch ``needle``.

    Raises:
        ConfigError: the needle is not in the prompt, or more than once, or the tokenizer does not say where tokens
            come from.
    """
    place = prompt.find(needle)
    if place < 0 or not needle.strip():
        raise ConfigError(f"needle = {needle!r} is not in its prompt: allowed is a part of the prompt, word for word")
    if prompt.count(needle) > 1:
        raise ConfigError(
            f"needle = {needle!r} is more than once in its prompt: allowed is a part that is there once. Give more of "
            "the sentence around it"
        )
    if not tokenizer.is_fast:
        raise ConfigError(f"tokenizer = {type(tokenizer).__name__} is not a fast one: load it with use_fast=True")
    special = special and not begins(tokenizer, prompt)
    options: dict[str, Any] = {"add_special_tokens": special, "return_offsets_mapping": True}
    encoded: Any = tokenizer(prompt, **options)
    starts, ends = torch.tensor(encoded["offset_mapping"]).T
    inside = torch.nonzero((starts < place + len(needle)) & (ends > place) & (ends > starts))[:, 0]
    ids = going_on(tokenizer, encoded["input_ids"]) if special else encoded["input_ids"]
    whole = begun(tokenizer, ids) if special else ids
    before = len(whole) - len(ids)
    return torch.tensor([whole]), range(before + int(inside[0]), before + int(inside[-1]) + 1)


def needle_distance(kept: Int[Tensor, " kept"], needle: range) -> int:
    """Places from the needle to the nearest kept token; 0 where one of its tokens is kept."""
    before, after = needle.start - kept, kept - (needle.stop - 1)
    return int(torch.maximum(before, after).clamp(min=0).min())


def _require_hidden(length: int, span: range, needle: str, keep: int | float, window: int) -> None:
    if (count := tokens_of(keep, length)) <= window:
        raise ConfigError(
            f"window = {window} is out of range: allowed is 0 to {count - 1}, less than the {count} of {length} tokens "
            f"that keep = {keep} keeps. Keep more, or a smaller window"
        )
    if length <= count:
        raise ConfigError(
            f"keep = {keep} keeps all of a prompt of {length} tokens: allowed is less. Choose it far less"
        )
    if span.stop > length - window:
        raise ConfigError(
            f"needle = {needle!r:.60} ends in the last {window} tokens of its prompt, which every layer keeps: allowed "
            f"is one before them, or a smaller window than {window}"
        )


def choices_of_all_layers(
    model: PreTrainedModel, prompt: Prompt, keep: int, pool: Pool = "avg", kernel: int = 5
) -> dict[int, Int[Tensor, "batch kept"]]:
    """What each layer that sees the whole prompt would choose, no window kept, from one pass of the model.

    Raises:
        ConfigError: the prompt is longer than the model's context, or no layer sees all of it.
    """
    rule = keep, pool, kernel
    return {layer: select(scores, prompt.real, *rule) for layer, scores in scores_of_all_layers(model, prompt).items()}


@torch.no_grad()
def scores_of_all_layers(model: PreTrainedModel, prompt: Prompt) -> dict[int, Float[Tensor, "batch token"]]:
    """By what each layer that sees the whole prompt would choose, from one pass of the model.

    Raises:
        ConfigError: the prompt is longer than the model's context, or no layer sees all of it.
    """
    require_context(model, prompt)
    layers = seeing(model, prompt.longest)
    if not layers:
        require_seeing(model, prompt, [text_config(model).num_hidden_layers - 1])
    scoring = _Scoring()
    with watched(model, scoring):
        text_model(model)(prompt.ids, attention_mask=prompt.mask, position_ids=prompt.positions, use_cache=False)
    require_seen(model, bool(scoring.scores))
    return {layer: scores for layer, scores in scoring.scores.items() if layer in layers}


class _Scoring:
    def __init__(self) -> None:
        self.scores: dict[int, Tensor] = {}

    def before(self, attention: Attention) -> None:
        self.scores[attention.layer] = last_row_scores(attention.query, attention.key)

    def after(self, attention: Attention) -> None:
        pass
