"""`featscope tune-prompt`: which method, layer and keep to read one's own prompts with."""

import math
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from statistics import median

import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from featscope.language.chat import in_template, prompt_tokens
from featscope.language.cost import timed_answer, timed_answers
from featscope.language.decoder import context_of, seeing, seeing_from, text_config
from featscope.language.examples import Example, read_examples
from featscope.language.keep import keep_of, tokens_of
from featscope.language.layers import LayerChoice, needle_span, probed
from featscope.language.load import RETRIEVER, load_model, require_folder
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
from featscope.language.propagation import KeepHidden
from featscope.language.selection import Pool
from featscope.language.selectors import FilterLayer
from featscope.language.tune_results import Answered, Tried, advice, by_task, of_all, picture, store_answers
from featscope.options import ConfigError, require

_PROBED = 20  # prompts by which layers are found
_PICTURE = Path("tune-prompt.png")

Way = tuple[str, int | None, float | None]
"""A method's name, the layer that chooses, and how much is kept."""


@dataclass(frozen=True)
class TunePrompt:
    """Measure how well and how fast methods answer your own prompts.

    Attributes:
        data: file of JSON lines, each with "prompt" and "answer", a text or a list of texts, and "task" where results
            are wanted by task. An answer is right if all of it is in what is generated; of several texts "parts" is
            the share that is. In place of "prompt" stand "document" and "question" where several questions follow one
            document: ways that can read it once do.
        model: "retriever" for the small model of the package featscope-retriever, a folder, or a model of the Hub.
        methods: names as of `featscope generate --method`; full attention is measured in any case.
        layers: which may choose; none for those that `choose_layer` finds, where answers stand in their prompts and a
            method chooses by the last token's query; else for all but the last that see the whole prompt.
        keeps: how much is kept: numbers of tokens, or shares of the prompt, below 1.
        draft: the smaller model that chooses for the method speculative: a folder, or a model of the Hub.
        window: last tokens that are kept in any case, as the question is. With 0 GemFilter keeps the paper's rule.
        kernel: neighbours whose scores are pooled, an odd number; None for the retriever's own, or those of the
            method's paper: 5, of speculative prefill 13.
        pool: how they are pooled; None for the retriever's own, or the average as in the papers' code.
        max_new_tokens: tokens to generate at most.
        give_up: how much less often than full attention a method may be right to be advised.
        picture: file that receives the picture; one of the default's name is replaced.
        chat: put each prompt into the model's chat template, as what a user says.
        answers: file that receives what each way answered, in JSON lines; None for none.
        redact: whether prompts and answers are left out of that file.
        overwrite: whether a file of answers, or a picture that is named, may be replaced where it is there.
        device: "cpu", "cuda" or "cuda:N".
    """

    data: Path
    model: str = RETRIEVER
    methods: tuple[str, ...] = ("gemfilter", "promptdistill", "snapkv")
    layers: tuple[int, ...] = ()
    keeps: tuple[float, ...] = (0.1, 0.25, 0.5)
    draft: str | None = None
    window: int = 32
    kernel: int | None = None
    pool: Pool | None = None
    max_new_tokens: int = 32
    give_up: float = 0.05
    picture: Path = _PICTURE
    chat: bool = False
    answers: Path | None = None
    redact: bool = False
    overwrite: bool = False
    device: str = "cpu"

    def __post_init__(self) -> None:
        require(self, "data", self.data.is_file(), "a file of JSON lines")
        require(self, "methods", {*self.methods} <= {*offered()}, f"some of {', '.join(offered())}")
        require_used(self, self.methods)
        fine = all(keep >= 1 if isinstance(keep, int) else 0 < keep < 1 for keep in map(keep_of, self.keeps))
        require(self, "keeps", fine, "whole numbers of tokens >= 1 (1.0 is one), or shares in (0, 1)")
        require_draft(self, self.methods)
        least = least_window(self.methods)
        require(self, "window", self.window >= least, f">= {least}")
        pooling_of(self)
        require(self, "max_new_tokens", self.max_new_tokens >= 1, ">= 1")
        require(self, "give_up", 0 <= self.give_up < 1, "[0, 1)")
        require(self, "picture", self.picture.suffix in (".png", ".pdf", ".svg"), "a file .png, .pdf or .svg")
        for name in ("picture", "answers"):
            file: Path | None = getattr(self, name)
            if file is not None:
                require(self, name, file.absolute().parent.is_dir(), "a file in a folder that is there")
                unasked = name == "picture" and file == _PICTURE
                new = not file.exists() or ((self.overwrite or unasked) and file.is_file())
                require(self, name, new, "a file that is not there yet", "Choose another, or add --overwrite.")
        if self.answers is not None:
            other = self.answers.resolve() not in (self.data.resolve(), self.picture.resolve())
            require(self, "answers", other, "another file than --data and --picture")
        useful = self.answers is not None or not self.redact
        require(self, "redact", useful, "False, as there is no file of answers", "Give --answers FILE, too.")
        require_folder(self.model)


def tune(
    options: TunePrompt, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, examples: Sequence[Example]
) -> list[Tried]:
    """Every way of reading on every example, full attention first; methods take turns example by example.

    Neighbouring examples with one document take their turn together. A way that refuses the longest prompt is left out.
    After Ctrl-C it is what all ways had read by then, if that is anything; it is said of how many examples.
    """
    prompts = [_tokens(tokenizer, one, model, special=not options.chat) for one in examples]
    lengths = [sum(part.shape[1] for part in parts) for parts in prompts]
    _require_room(options, model, lengths)
    _require_answers(options, tokenizer, examples)
    keeps = [*map(keep_of, options.keeps)]
    for keep in keeps if {*options.methods} - {"full"} else ():
        if whole := sum(tokens_of(keep, length) >= length for length in lengths):
            print(f"--keeps {keep:g} keeps {whole} of {len(lengths)} prompts whole.", file=sys.stderr)
    ways: list[Way] = [("full", None, None)]
    able = {method: _layers(options, model, method, max(lengths)) for method in options.methods}
    by_layer = any(layer is not None for layers in able.values() for layer in layers)
    choices = _choices(options, model, tokenizer, examples) if by_layer else {}
    for method, layers in able.items():
        found = choices if layers and _by_last_row(options, model, method, layers[0]) else {}
        for keep in keeps if method != "full" else ():
            ways += [(method, layer, keep) for layer in _worth_a_try(layers, found.get(keep))]
    tried = _that_read(options, model, tokenizer, ways, torch.cat(prompts[lengths.index(max(lengths))], 1))
    ways, built = list(tried), list(tried.values())
    documents = _documents(examples)
    answers: list[list[Answered]] = [[] for _ in ways]
    first, last = ([list[float]() for _ in ways] for _ in range(2))
    together = [[*those] for _, those in groupby(range(len(examples)), lambda i: examples[i].document or i)]
    try:
        for group in track(together, "Reading prompts", transient=True, console=Console(stderr=True)):
            for way, reader in enumerate(built):
                asked = _asked(reader, [prompts[i] for i in group], options.max_new_tokens, tokenizer)
                for i, (new, seconds) in zip(group, asked, strict=True):
                    said = str(tokenizer.decode(new, skip_special_tokens=True))
                    answers[way].append(Answered(said, examples[i].share(said), documents[i]))
                    first[way].append(seconds[0])
                    last[way].append(seconds[-1])
    except KeyboardInterrupt:
        if not last[-1]:
            raise
        print(f"Interrupted: what follows is of {len(last[-1])} of {len(examples)} prompts.", file=sys.stderr)
    read = len(last[-1])  # by all ways: it is noted last
    return [
        Tried(*way, median(begun[:read]), median(ended[:read]), tuple(said[:read]), tuple(ended[:read]))
        for way, said, begun, ended in zip(ways, answers, first, last, strict=True)
    ]


def _that_read(
    options: TunePrompt,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    ways: Sequence[Way],
    longest: Tensor,
) -> dict[Way, Method]:
    """Those of ``ways`` that begin to answer the ``longest`` prompt; of others it is said why they are left out.

    Raises:
        ConfigError: full attention refuses it.
    """
    found, said = dict[Way, Method](), set[str]()
    for name, layer, keep in ways:
        try:
            reading = Reading(layer or 0, keep or 1, options.window, *pooling_of(options, name), options.draft)
            reader = reading.build(asked_for(name, options.window), model)
            one = {"max_new_tokens": options.max_new_tokens, "max_time": 0.0}  # one token
            reader.generate(longest, attention_mask=torch.ones_like(longest), tokenizer=tokenizer, **one, **GREEDY)
        except ConfigError as error:
            if name == "full":
                raise
            where = name if layer is None else f"{name}, layer {layer},"
            if (line := f"{where} is left out: {error}") not in said:
                print(line, file=sys.stderr)
            said.add(line)
        else:
            found[name, layer, keep] = reader
    return found


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
    try:
        able = seeing(model, length)
    except ConfigError as error:
        print(f"{method} is left out: {error}", file=sys.stderr)
        return ()
    if able:
        goes_on = isinstance(getattr(_rule(options, model, method, able[0]), "propagation", None), KeepHidden)
        able = seeing_from(model, length + options.max_new_tokens) if goes_on else able
    if not able:
        print(f"{method} is left out: no layer that it could choose by sees all of {length} tokens.", file=sys.stderr)
    return able[:-1] or able


def _choices(
    options: TunePrompt, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, examples: Sequence[Example]
) -> dict[float, LayerChoice]:
    """By how much is kept, which layers keep answers whole; of up to 20 examples, from all of the file.

    Empty where layers are asked for, none is to choose, or no prompt has its answer, once, before the window.
    """
    if options.layers or not tokenizer.is_fast or not any(listed(name).by_layer for name in options.methods):
        return {}
    alone = [
        one
        for one in examples
        if one.prompt.count(one.answers[0]) == 1 and one._replace(answers=one.answers[:1]).is_right(one.prompt)
    ]
    document = _documents(alone)
    alone = [one for i, one in enumerate(alone) if document[i] == i]  # one question of each
    every = math.ceil(len(alone) / _PROBED)
    spread = (one for first in range(every) for one in alone[first::every])
    spans = (needle_span(tokenizer, one.prompt, one.answers[0], special=not options.chat) for one in spread)
    able = (
        (ids, span) for ids, span in spans if span.stop <= ids.shape[1] - options.window and seeing(model, ids.shape[1])
    )
    hidden = [*islice(able, _PROBED)]
    if not hidden:
        return {}
    kernel, pool = pooling_of(options)
    keeps = [*map(keep_of, options.keeps)]
    choices = probed(model, hidden, keeps, options.window, pool, kernel)
    found = dict[float, LayerChoice]()
    for keep, choice in zip(keeps, choices, strict=True):
        said = "no layer keeps a whole answer"
        if choice is None:
            said = f"all {len(hidden)} prompts by which a layer would be found are kept whole, so that none is found"
        else:
            found[keep] = choice
            shares = choice.whole[:-1]  # behind the last layer nothing is left that could be saved
            if shares.any():
                low, high = choice.interval[:, shares.argmax()]
                of = f"{shares.max():.0%} of {len(choice.kept)} prompts, {low:.0%} to {high:.0%} at 95 %"
                said = f"layer {shares.argmax()} keeps whole answers most often ({of})"
        print(f"--keeps {keep:g}: {said}.", file=sys.stderr)
    return found


def _documents(examples: Sequence[Example]) -> list[int]:
    """A number for each example, the same where documents are the same, or whole prompts where there are none."""
    known: dict[str, int] = {}
    return [known.setdefault(one.document or one.prompt, i) for i, one in enumerate(examples)]


def _by_last_row(options: TunePrompt, model: PreTrainedModel, method: str, layer: int | None) -> bool:
    """Whether a method chooses by the rule that `probed` looks at."""
    selector = getattr(_rule(options, model, method, layer), "selector", None)
    return isinstance(selector, FilterLayer) and selector.row == "last"


def _rule(options: TunePrompt, model: PreTrainedModel, method: str, layer: int | None) -> Method | None:
    """The method with all kept; None where it cannot be built, which is said when it is tried."""
    with suppress(ConfigError):
        return Reading(layer or 0, 1.0, options.window).build(asked_for(method, options.window), model)
    return None


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
    tokens = [min(map(len, tokenizer(one.forms, add_special_tokens=False)["input_ids"])) for one in examples]
    fits = options.max_new_tokens >= min(tokens)
    require(options, "max_new_tokens", fits, f">= {min(tokens)}, the tokens of the shortest answer")
    if over := sum(count > options.max_new_tokens for count in tokens):
        print(
            f"{over} of {len(tokens)} answers have more tokens than --max-new-tokens {options.max_new_tokens}, so that "
            f"no way of reading can give them; the longest has {max(tokens)}.",
            file=sys.stderr,
        )


def _tokens(tokenizer: PreTrainedTokenizerBase, one: Example, model: PreTrainedModel, *, special: bool) -> list[Tensor]:
    """A prompt ``[1, token]``, or a document and a question; begun as a text of its own if ``special``."""
    parts = [prompt_tokens(tokenizer, one.document or one.prompt, special=special)]
    if one.document:
        parts.append(prompt_tokens(tokenizer, one.question, special=False))
    return [torch.tensor([ids], device=model.device) for ids in parts]


def _asked(
    reader: Method, group: Sequence[list[Tensor]], most: int, tokenizer: PreTrainedTokenizerBase
) -> list[tuple[Tensor, list[float]]]:
    """At most ``most`` new tokens, and seconds to each of them, for prompts of one document.

    The model may have texts at which it stops, which only the tokenizer can tell.
    """
    if len(group[0]) == 1:
        return [timed_answer(reader, ids, most, tokenizer=tokenizer) for (ids,) in group]
    questions = [question for _, question in group]
    return timed_answers(reader, group[0][0], questions, most, tokenizer=tokenizer)


def _require_room(options: TunePrompt, model: PreTrainedModel, lengths: Sequence[int]) -> None:
    """Refuse, before anything is measured, what would end the run at one of its prompts."""
    count = text_config(model).num_hidden_layers
    known = all(0 <= layer < count for layer in options.layers)
    require(options, "layers", known, f"0 to {count - 1}, the model's layers")
    shortest, longest, context = min(lengths), max(lengths), context_of(model)
    room = longest if context is None else context - options.max_new_tokens
    require(options, "max_new_tokens", room > 0, f"< {context}, the tokens that the model reads")
    where = f"{options.max_new_tokens} of which are new; example {lengths.index(longest) + 1} has {longest}"
    fine = f"prompts of at most {room} tokens, as the model reads {context}, {where}"
    require(options, "data", longest <= room, fine)
    if not set(options.methods) - {"full"}:
        return
    where = f"the shortest prompt, example {lengths.index(shortest) + 1}, has {shortest} tokens"
    require(options, "window", options.window < shortest, f"< {shortest}, as {where}")
    least = min((tokens_of(keep_of(keep), shortest) for keep in options.keeps), default=shortest)
    require(options, "keeps", least > options.window, f"more than window = {options.window} tokens of each, as {where}")


def tune_prompt(options: TunePrompt) -> None:
    """Write what was answered, print the table and the advice, and write the picture.

    Raises:
        ConfigError: the examples, the model or the options cannot be used.
        KeyboardInterrupt: it was interrupted; what all ways had read by then has been written and printed.
    """
    given = read_examples(options.data)
    examples = [*dict.fromkeys(given)]  # what is asked again is answered alike, and no more evidence
    if again := len(given) - len(examples):
        print(f"Left out: {again} of {len(given)} examples of {options.data}, which repeat others.", file=sys.stderr)
    model, tokenizer = load_model(options.model, options.device)
    require_tokens_of_draft(options, tokenizer, examples[0].prompt)
    if options.chat:
        examples = [_as_said(tokenizer, one) for one in examples]
    tried = tune(options, model, tokenizer, examples)
    read = examples[: tried[0].of]
    try:
        if options.answers is not None:
            store_answers(options.answers, tried, read, redact=options.redact)
            print(f"Answers: {options.answers}")
    finally:  # where they cannot be written, too
        console = Console()
        console.print(of_all(tried))
        if tasks := [task for task in dict.fromkeys(one.task for one in read) if task]:
            console.print(by_task(tried, read, tasks))
        console.print(advice(tried, options.give_up), markup=False)
        picture(tried).savefig(options.picture, dpi=150)
        print(f"Picture: {options.picture}")
    if len(read) < len(examples):
        raise KeyboardInterrupt
