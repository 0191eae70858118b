"""`featscope tune-prompt`: which method, layer and keep to read one's own prompts with."""

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from featscope.claims.intervals import interval_of_binomial
from featscope.files import atomic_write
from featscope.language.chat import in_template
from featscope.language.cost import timed_answer, timed_answers
from featscope.language.decoder import context_of, seeing, seeing_from, text_config
from featscope.language.examples import Example, read_examples
from featscope.language.layers import LayerChoice, needle_span, probed
from featscope.language.load import RETRIEVER, load_model, require_folder
from featscope.language.method import Method
from featscope.language.methods import Reading, asked_for, least_window, listed, pooling_of
from featscope.language.propagation import KeepHidden
from featscope.language.selection import Pool
from featscope.language.selectors import FilterLayer
from featscope.options import ConfigError, require

_LEVEL, _ROUNDING = 0.95, 1e-9
_PROBED = 20  # prompts by which layers are found


@dataclass(frozen=True)
class TunePrompt:
    """Measure how well and how fast methods answer your own prompts.

    Attributes:
        data: file of JSON lines, each with "prompt" and "answer", a text or a list of texts, and "task" where results
            are wanted by task. An answer is right if all of it is in what is generated. In place of "prompt" stand
            "document" and "question" where several questions follow one document: ways that can read it once do.
        model: "retriever" for the small model that ships with FeatScope, a folder, or a model of the Hub.
        methods: names as of `featscope generate --method`; full attention is measured in any case.
        layers: which may choose; none for those that `choose_layer` finds, where answers stand in their prompts and a
            method chooses by the last token's query; else for all but the last that see the whole prompt.
        keeps: how much is kept: numbers of tokens, or shares of the prompt.
        window: last tokens that are kept in any case, as the question is. With 0 GemFilter keeps the paper's rule.
        kernel: neighbours whose scores are pooled, an odd number; None for the retriever's own, or the papers' 5.
        pool: how they are pooled; None for the retriever's own, or the average as in the papers' code.
        max_new_tokens: tokens to generate at most.
        give_up: how much less often than full attention a method may be right to be advised.
        picture: file that receives the picture.
        chat: put each prompt into the model's chat template, as what a user says.
        answers: file that receives what each way answered, in JSON lines; None for none.
        redact: whether prompts and answers are left out of that file.
        overwrite: whether a file of answers that is there may be replaced.
        device: "cpu", "cuda" or "cuda:N".
    """

    data: Path
    model: str = RETRIEVER
    methods: tuple[str, ...] = ("gemfilter", "promptdistill", "snapkv")
    layers: tuple[int, ...] = ()
    keeps: tuple[float, ...] = (0.1, 0.25, 0.5)
    window: int = 32
    kernel: int | None = None
    pool: Pool | None = None
    max_new_tokens: int = 32
    give_up: float = 0.05
    picture: Path = Path("tune-prompt.png")
    chat: bool = False
    answers: Path | None = None
    redact: bool = False
    overwrite: bool = False
    device: str = "cpu"

    def __post_init__(self) -> None:
        require(self, "data", self.data.is_file(), "a file of JSON lines")
        for method in self.methods:
            listed(method)
        whole = all(0 < keep <= 1 or keep == int(keep) >= 1 for keep in self.keeps if math.isfinite(keep))
        finite = all(map(math.isfinite, self.keeps))
        require(self, "keeps", whole and finite, "whole numbers of tokens >= 1, or shares in (0, 1]")
        least = least_window(self.methods)
        require(self, "window", self.window >= least, f">= {least}")
        pooling_of(self)
        require(self, "max_new_tokens", self.max_new_tokens >= 1, ">= 1")
        require(self, "give_up", 0 <= self.give_up < 1, "[0, 1)")
        require(self, "picture", self.picture.suffix in (".png", ".pdf", ".svg"), "a file .png, .pdf or .svg")
        require(self, "picture", self.picture.absolute().parent.is_dir(), "a file in a folder that is there")
        if self.answers is not None:
            require(self, "answers", self.answers.absolute().parent.is_dir(), "a file in a folder that is there")
            new = not self.answers.exists() or (self.overwrite and self.answers.is_file())
            require(self, "answers", new, "a file that is not there yet", "Choose another, or add --overwrite.")
            other = self.answers.absolute() not in (self.data.absolute(), self.picture.absolute())
            require(self, "answers", other, "another file than --data and --picture")
        useful = self.answers is not None or not self.redact
        require(self, "redact", useful, "False, as there is no file of answers", "Give --answers FILE, too.")
        require_folder(self.model)


class Answered(NamedTuple):
    """What a way of reading made of an example: what it said, and whether that is right."""

    said: str
    right: bool


class Tried(NamedTuple):
    """One way of reading, measured.

    Attributes:
        method: its name.
        layer: that chooses, if one does.
        keep: how much is kept.
        right: examples that it answers right.
        of: examples.
        first: seconds to the first new token, end to end, median over examples; a document that is read once for
            several questions counts for each with its share.
        last: seconds to the last.
        answers: what it answered to each example.
    """

    method: str
    layer: int | None
    keep: float | None
    right: int
    of: int
    first: float
    last: float
    answers: tuple[Answered, ...] = ()

    @property
    def share(self) -> float:
        """Of right answers."""
        return self.right / self.of

    def of_task(self, examples: Sequence[Example], task: str) -> "Tried":
        """The same of the examples of a task; seconds stay those of all."""
        answers = [answer for answer, one in zip(self.answers, examples, strict=True) if one.task == task]
        return self._replace(right=sum(answer.right for answer in answers), of=len(answers), answers=tuple(answers))

    @property
    def interval(self) -> tuple[float, float]:
        """Clopper and Pearson's, of that share."""
        return interval_of_binomial(self.right, self.of, _LEVEL)

    def about(self) -> str:
        """Which way of reading, in words."""
        layer = "" if self.layer is None else f", layer {self.layer}"
        return self.method + layer + ("" if self.keep is None else f", keep {self.keep:g}")


def tune(
    options: TunePrompt, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, examples: Sequence[Example]
) -> list[Tried]:
    """Every way of reading on every example, full attention first; methods take turns example by example.

    Neighbouring examples with one document take their turn together.
    """
    prompts = [_tokens(tokenizer, one, model, special=not options.chat) for one in examples]
    lengths = [sum(part.shape[1] for part in parts) for parts in prompts]
    _require_room(options, model, lengths)
    _require_answers(options, tokenizer, examples)
    keeps = [int(keep) if keep >= 1 else keep for keep in options.keeps]
    ways: list[tuple[str, int | None, float | None]] = [("full", None, None)]
    choices = _choices(options, model, tokenizer, examples)
    for method in options.methods:
        able = _layers(options, model, method, max(lengths))
        found = choices if able and _by_last_row(options, model, method, able[0]) else {}
        for keep in keeps if method != "full" else ():
            ways += [(method, layer, keep) for layer in _worth_a_try(able, found.get(keep))]
    fixed = options.window, *pooling_of(options)
    built = [
        Reading(layer or 0, keep or 1, *fixed).build(asked_for(name, options.window), model)
        for name, layer, keep in ways
    ]
    built[0].generate(torch.cat(prompts[0], 1), max_new_tokens=1, do_sample=False)  # what runs first is slower
    answers: list[list[Answered]] = [[] for _ in ways]
    first, last = ([list[float]() for _ in ways] for _ in range(2))
    together = [[*those] for _, those in groupby(range(len(examples)), lambda i: examples[i].document or i)]
    for group in track(together, "Reading prompts", transient=True, console=Console(stderr=True)):
        for way, reader in enumerate(built):
            for i, (new, seconds) in zip(group, _asked(reader, [prompts[i] for i in group], options), strict=True):
                said = str(tokenizer.decode(new, skip_special_tokens=True))
                answers[way].append(Answered(said, examples[i].is_right(said)))
                first[way].append(seconds[0])
                last[way].append(seconds[-1])
    return [
        Tried(*way, sum(one.right for one in said), len(prompts), median(begun), median(ended), tuple(said))
        for way, said, begun, ended in zip(ways, answers, first, last, strict=True)
    ]


def _as_said(tokenizer: PreTrainedTokenizerBase, one: Example) -> Example:
    """The example as what a user says.

    Raises:
        ConfigError: the template changes the document, so that it cannot be told from the question.
    """
    prompt = in_template(tokenizer, one.prompt)
    if not one.document:
        return one._replace(prompt=prompt)
    before, found, _ = prompt.partition(one.document)
    if not found:
        raise ConfigError(
            "chat = True cannot be used: the chat template changes a document. Begin and end it with no blank, or "
            "write prompts in place of documents and questions"
        )
    return one._replace(prompt=prompt, document=before + found)


def _layers(options: TunePrompt, model: PreTrainedModel, method: str, length: int) -> Sequence[int | None]:
    """Those that choose for ``method``: the options', or all that can; a word where none can, and it is left out."""
    if not listed(method).by_layer:
        return (None,)
    if options.layers:
        return options.layers
    able = seeing(model, length)
    if able:
        built = Reading(able[0], 1.0, options.window).build(asked_for(method, options.window), model)
        goes_on = isinstance(getattr(built, "propagation", None), KeepHidden)
        able = seeing_from(model, length) if goes_on else able
    if not able:
        print(f"{method} is left out: no layer that it could choose by sees all of {length} tokens.", file=sys.stderr)
    return able[:-1] or able


def _choices(
    options: TunePrompt, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, examples: Sequence[Example]
) -> dict[float, LayerChoice]:
    """By how much is kept, which layers keep answers whole; of up to 20 examples, from all of the file.

    Empty where layers are asked for, none is to choose, or no prompt has its answer, once, before the window.
    """
    hidden = list[tuple[Tensor, range]]()
    for one in examples if not options.layers and any(listed(name).by_layer for name in options.methods) else ():
        said = one.answers[0]
        if tokenizer.is_fast and one.prompt.count(said) == 1 and Example("", (said,)).is_right(one.prompt):
            ids, span = needle_span(tokenizer, one.prompt, said, special=not options.chat)
            if span.stop <= ids.shape[1] - options.window and seeing(model, ids.shape[1]):
                hidden.append((ids, span))
    if not hidden:
        return {}
    hidden = hidden[:: math.ceil(len(hidden) / _PROBED)]
    kernel, pool = pooling_of(options)
    keeps = [int(keep) if keep >= 1 else keep for keep in options.keeps]
    choices = probed(model, hidden, keeps, options.window, pool, kernel)
    for keep, choice in zip(keeps, choices, strict=True):
        shares = choice.whole[:-1]  # behind the last layer nothing is left that could be saved
        said = "no layer keeps a whole answer"
        if shares.any():
            of = f"{shares.max():.0%} of {len(hidden)} prompts"
            said = f"layer {shares.argmax()} keeps whole answers most often ({of})"
        print(f"--keeps {keep:g}: {said}.", file=sys.stderr)
    return dict(zip(keeps, choices, strict=True))


def _by_last_row(options: TunePrompt, model: PreTrainedModel, method: str, layer: int | None) -> bool:
    """Whether a method chooses by the rule that `probed` looks at."""
    built = Reading(layer or 0, 1.0, options.window).build(asked_for(method, options.window), model)
    selector = getattr(built, "selector", None)
    return isinstance(selector, FilterLayer) and selector.row == "last"


def _worth_a_try(able: Sequence[int | None], choice: LayerChoice | None) -> Sequence[int | None]:
    """Of layers that can choose, the first that keeps answers whole, and the one that does most often; all if none."""
    kept = {layer: choice.whole[layer] for layer in able if layer is not None} if choice else {}
    if not choice or not any(kept.values()):
        return able
    first = (layer for layer, share in kept.items() if share >= choice.stable)
    most = max(kept, key=lambda layer: kept[layer])
    return sorted({next(first, most), most})


def _require_answers(options: TunePrompt, tokenizer: PreTrainedTokenizerBase, examples: Sequence[Example]) -> None:
    """Refuse so few new tokens that no answer fits into them; say so where some do not."""

    def needed(one: Example) -> int:
        said = " ".join(one.answers)
        return min(len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in (said, f" {said}"))

    tokens = [needed(one) for one in examples]
    fits = options.max_new_tokens >= min(tokens)
    require(options, "max_new_tokens", fits, f">= {min(tokens)}, the tokens of the shortest answer")
    if over := sum(count > options.max_new_tokens for count in tokens):
        print(
            f"{over} of {len(tokens)} answers have more tokens than --max-new-tokens {options.max_new_tokens}, so that "
            f"no way of reading can give them; the longest has {max(tokens)}.",
            file=sys.stderr,
        )


def _tokens(tokenizer: PreTrainedTokenizerBase, one: Example, model: PreTrainedModel, *, special: bool) -> list[Tensor]:
    """A prompt ``[1, token]``, or a document and a question; with the tokens that a tokenizer adds if ``special``."""
    if not one.document:
        return [tokenizer(one.prompt, add_special_tokens=special, return_tensors="pt")["input_ids"].to(model.device)]
    document = tokenizer(one.document, add_special_tokens=special, return_tensors="pt")["input_ids"]
    question = tokenizer(one.question, return_tensors="pt", add_special_tokens=False)["input_ids"]
    return [document.to(model.device), question.to(model.device)]


def _asked(reader: Method, group: Sequence[list[Tensor]], options: TunePrompt) -> list[tuple[Tensor, list[float]]]:
    """New tokens, and seconds to each of them, for prompts of one document."""
    if len(group[0]) == 1:
        return [timed_answer(reader, ids, options.max_new_tokens) for (ids,) in group]
    return timed_answers(reader, group[0][0], [question for _, question in group], options.max_new_tokens)


def _require_room(options: TunePrompt, model: PreTrainedModel, lengths: Sequence[int]) -> None:
    """Refuse, before anything is measured, what would end the run at one of its prompts."""
    count = text_config(model).num_hidden_layers
    known = all(0 <= layer < count for layer in options.layers)
    require(options, "layers", known, f"0 to {count - 1}, the model's layers")
    shortest, longest, context = min(lengths), max(lengths), context_of(model)
    fits = context is None or longest <= context
    where = f"example {lengths.index(longest) + 1} has {longest}"
    require(options, "data", fits, f"prompts of at most {context} tokens, which the model reads; {where}")
    if not set(options.methods) - {"full"}:
        return
    where = f"the shortest prompt, example {lengths.index(shortest) + 1}, has {shortest} tokens"
    require(options, "window", options.window < shortest, f"< {shortest}, as {where}")
    least = min((keep if keep >= 1 else int(keep * shortest) for keep in options.keeps), default=shortest)
    require(options, "keeps", least > options.window, f"more than window = {options.window} tokens of each, as {where}")


def fastest(tried: Sequence[Tried], give_up: float) -> Tried | None:
    """The fastest way that is right as often as full attention, the first, less ``give_up``; None if there is none."""
    full, *others = tried
    good = [way for way in others if full.right - way.right <= give_up * full.of + _ROUNDING]
    return min(good, key=lambda way: way.first, default=None)


def advice(tried: Sequence[Tried], give_up: float) -> str:
    """Which way to take, in a sentence."""
    full, best = tried[0], fastest(tried, give_up)
    if full.right == 0:
        return "Full attention answers no example right: the model cannot do this task, and no method is advised."
    if best is None:
        return f"Full attention: every other way is right less often by more than {give_up:.0%}."
    if best.first >= full.first:
        ratio = f"{best.first / full.first:.2f} of its time to the first token"
        return f"Full attention is cheaper: the fastest that is as good, {best.about()}, takes {ratio}."
    low, high = best.interval
    return (
        f"{best.about()}: right {best.share:.0%} of the time ({low:.0%} to {high:.0%} at 95 %, full attention "
        f"{full.share:.0%}), its first token after {best.first / full.first:.2f} of full attention's time."
    )


def picture(tried: Sequence[Tried]) -> Figure:
    """Share of right answers, with intervals, against time to the first token in full attention's."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    full = tried[0]
    for colour, method in enumerate(dict.fromkeys(way.method for way in tried)):
        ways = [way for way in tried if way.method == method]
        bars = [[way.share - way.interval[0] for way in ways], [way.interval[1] - way.share for way in ways]]
        at = [way.first / full.first for way in ways]
        axes.errorbar(at, [way.share for way in ways], bars, fmt="o", color=f"C{colour}", label=method, alpha=0.7)
    axes.axvline(1.0, color="black", linestyle=":")
    axes.set(
        xlabel="time to the first token, in full attention's",
        ylabel="share of right answers, 95 % intervals",
        ylim=(-0.02, 1.02),
        title=f"{full.of} prompts; right of the dotted line full attention is cheaper",
    )
    figure.legend(loc="outside lower center", ncols=4)  # where it hides no point
    return figure


def tune_prompt(options: TunePrompt) -> None:
    """Print the table and the advice, and write the picture.

    Raises:
        ConfigError: the examples, the model or the options cannot be used.
    """
    examples = read_examples(options.data)
    model, tokenizer = load_model(options.model, options.device)
    if options.chat:
        examples = [_as_said(tokenizer, one) for one in examples]
    tried = tune(options, model, tokenizer, examples)
    table = Table(title=f"{len(examples)} prompts, 95 % intervals")
    for heading in ("way of reading", "right", "first token", "of full", "last token"):
        table.add_column(heading, justify="right")
    for way in tried:
        low, high = way.interval
        table.add_row(
            way.about(),
            f"{way.share:.2f} [{low:.2f}, {high:.2f}]",
            f"{way.first:.2f} s",
            f"{way.first / tried[0].first:.2f}",
            f"{way.last:.2f} s",
        )
    console = Console()
    console.print(table)
    if tasks := [task for task in dict.fromkeys(one.task for one in examples) if task]:
        console.print(_by_task(tried, examples, tasks, options.give_up))
    console.print(advice(tried, options.give_up))
    if options.answers is not None:
        store_answers(options.answers, tried, examples, redact=options.redact)
        console.print(f"Answers: {options.answers}")
    picture(tried).savefig(options.picture, dpi=150)
    console.print(f"Picture: {options.picture}")


def store_answers(path: Path, tried: Sequence[Tried], examples: Sequence[Example], *, redact: bool) -> None:
    """Write what each way answered to each example, a JSON line each, whole or not at all.

    Args:
        path: the file.
        tried: the ways.
        examples: what they were asked.
        redact: whether texts are left out; which example, which way and whether it was right remain.
    """
    lines = list[str]()
    for number, one in enumerate(examples, 1):
        for way in tried:
            found = way.answers[number - 1]
            known = {"example": number, "task": one.task, "way": way.about(), "right": found.right}
            texts = {} if redact else {"said": found.said, "wanted": list(one.answers), "prompt": one.prompt}
            lines.append(json.dumps(known | texts, ensure_ascii=False))
    atomic_write(path, "".join(f"{line}\n" for line in lines).encode())


def _by_task(tried: Sequence[Tried], examples: Sequence[Example], tasks: Sequence[str], give_up: float) -> Table:
    """Full attention on each task, and the fastest way that is as good, or the one that is right most often."""
    best = fastest(tried, give_up) or max(tried[1:], key=lambda way: way.share, default=None)
    shown = [tried[0], *([best] if best else [])]
    table = Table(title="right answers by task, 95 % intervals")
    for heading in ("task", "prompts", *(way.about() for way in shown)):
        table.add_column(heading, justify="right")
    for task in tasks:
        found = [way.of_task(examples, task) for way in shown]
        cells = (f"{way.share:.2f} [{way.interval[0]:.2f}, {way.interval[1]:.2f}]" for way in found)
        table.add_row(task, str(found[0].of), *cells)
    return table
