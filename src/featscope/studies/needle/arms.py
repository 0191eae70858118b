"""What `needle` asks: prompts, options and arms. Sections are those of Shi 2024 (dissertation)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import numpy as np

from featscope.language.haystack import (
    BUILT_IN,
    MOST_TOKENS,
    OTHERS,
    Haystack,
    Needle,
    passwords,
    read_texts,
    require_readable,
    words_of,
)
from featscope.language.load import RETRIEVER, load_once
from featscope.language.methods import Reading, listed, reading_of, require_used
from featscope.language.presets import FullCache
from featscope.language.retriever.data import Kind
from featscope.language.selection import Pool
from featscope.options import require, require_ascending
from featscope.streams import Streams
from featscope.studies import Arm, Study
from featscope.studies.needle.unseen import Heads, Recall
from featscope.training import Answer, Questionnaire
from featscope.training.evaluation import MOST_QUESTIONS, Ask

Compared = Literal["full", "gemfilter", "question-kept", "snapkv", "h2o", "fastkv", "promptdistill", "adakv"]
COMPARED: tuple[Compared, ...] = get_args(Compared)
_DEFAULT: tuple[Compared, ...] = ("full", "gemfilter", "question-kept", "snapkv", "h2o")
_RECALLED = 48  # prompts of each kind and length, for the retriever

KINDS: Mapping[Kind, tuple[str, str]] = {
    "words": ("Words that were nowhere in the training.", "unseen words"),
    "wordings": ("Wordings that were not in the training, either.", "unseen wordings"),
    "keys": ("Keys and values of random tokens; the keys differ in one.", "random keys"),
    "questions": ("Unseen wordings, and questions in words of their own.", "reworded questions"),
    "identifiers": ("Unseen wordings, and values of 32 hexadecimal digits.", "identifiers"),
}


@dataclass(frozen=True)
class Asking(Questionnaire):
    """Every needle of the study, asked for in one way.

    Attributes:
        study: its options.
        method: how prompts are read.
        hidden: whether the needle is in the text.
    """

    study: "NeedleArms"
    method: Compared = "full"
    hidden: bool = True

    answers: ClassVar[Mapping[str, Answer]] = {
        "score": Answer("share of the answer's words that were given"),
        "normalised": Answer("the same over that of a perfect answer"),
        "exact": Answer("share of prompts whose whole answer was given"),
        "kept": Answer("share of the needle that was kept"),
        "start": Answer("where the needle begins, share of the prompt; 0 where none is hidden"),
        "others": Answer("other needles in the prompt"),
    }

    @property
    def texts(self) -> Sequence[str]:
        """What was answered, beside what would have been right."""
        return () if self.study.redact else ("said", "wanted")

    @property
    def grid(self) -> Mapping[str, Sequence[float]]:
        """Lengths, depths, and prompts of each."""
        return {"length": self.study.lengths, "depth": self.study.places, "prompt": range(self.study.prompts)}

    def asker(self, streams: Streams) -> Ask:
        """Loads the model."""
        of = self.study
        model, tokenizer = load_once(of.model, str(streams.device))
        method, haystack = of.reading.build(self.method, model), Haystack(tokenizer, read_texts(of.haystack))
        counts = of.answer.rstrip().endswith(".")
        answer = words_of(of.answer, full_stops=counts)
        needle = Needle(_parted(of.needle), _parted(of.question), answer, full_stops=counts)
        own = [needle] if of.needle else []
        if own:
            takes = len(haystack.encode(needle.question))
            fits = "question-kept" not in of.methods or of.window >= takes
            require(of, "window", fits, f">= {takes}, the question's tokens, where question-kept is compared")
            require_readable(FullCache(model), haystack, needle, of.new_tokens, streams.at("can it be read"))

        def ask(length: int, depth: float, prompt: int) -> Mapping[str, float | str]:
            draws = streams.at(f"needle {length} {depth:g}", prompt)
            asked, *others = own or passwords(draws, 1 + OTHERS)
            shown = asked if self.hidden else replace(asked, text="")
            hidden = haystack.hide(draws, length, depth, shown, others)
            said, found = haystack.answer(method, hidden, of.new_tokens)
            text = tokenizer.decode(hidden.ids[0])
            about = {
                "start": hidden.needle.start / length,
                "others": float(sum(one.text.strip() in text for one in others)),
            }
            return {**found._asdict(), **about, "said": said, "wanted": of.answer if own else asked.answer}

        return ask


@dataclass(frozen=True)
class NeedleArms(Study):
    """A sentence hidden in a long text, and a question about it (dissertation, Section 9.4.1).

    Without a needle of your own, passwords of cities are hidden, three more beside the one that is asked for; the
    retriever was trained on these. Of the paper: --needle " The best thing to do
    in San Francisco is eat a sandwich and sit in Dolores Park on a sunny day." --question "What is the best thing to do
    in San Francisco?" --answer "eat a sandwich and sit in dolores park on a sunny day." Needle and question get a
    blank before them where they begin with none. A needle that the model does not find even in a short text is refused.

    Attributes:
        model: "retriever" for the small model of the package featscope-retriever, a folder, or a model of the Hub.
        haystack: a folder of .txt files that needles are hidden in, or "built-in".
        needle: the sentence to hide; drawn if empty.
        question: what the prompt ends with; with a needle of your own.
        answer: the words that are looked for in the answer; with a needle of your own.
        lengths: tokens of the prompts.
        depths: places of the needle, evenly from the beginning (0 %) to the question (100 %).
        prompts: prompts of each length and depth in a replica.
        methods: what is compared; "question-kept" is GemFilter that keeps the last tokens in any case, which the
            paper's rule does not. FastKV, PromptDistill and AdaKV came after the paper, and are compared where named.
        layer: r, the filter layer of GemFilter, FastKV and PromptDistill, from 0; None for the retriever's own.
        keep: k, what every method keeps.
        window: last tokens that all keep but GemFilter by the paper's rule.
        kernel: neighbours whose scores are pooled, an odd number; None for the retriever's own, or the papers' 5.
        pool: how they are pooled; None for the retriever's own, or the average as in the papers' code.
        new_tokens: tokens to generate.
        recall: prompts of each kind and length that ask for what the retriever never saw, with full attention; 0
            leaves these arms out; None for 48 of the retriever, and none of another model.
        redact: whether answers are not stored; else `featscope export DIR` writes them beside their scores.
    """

    name = "needle"
    asks = "Does a model that drops most of a long text still find a sentence hidden in it?"
    default_replicas = 6

    model: str = RETRIEVER
    haystack: str = BUILT_IN
    needle: str = ""
    question: str = ""
    answer: str = ""
    lengths: tuple[int, ...] = (128, 256, 512, 768, 1024, 1536)
    depths: int = 5
    prompts: int = 2
    methods: tuple[Compared, ...] = _DEFAULT
    layer: int | None = None
    keep: int = 64
    window: int = 16
    kernel: int | None = None
    pool: Pool | None = None
    new_tokens: int = 9
    recall: int | None = None
    redact: bool = False

    def __post_init__(self) -> None:
        require_ascending(self, "lengths")
        require(self, "lengths", self.lengths[-1] <= MOST_TOKENS, f"at most {MOST_TOKENS} tokens")
        for name, most in (("depths", MOST_QUESTIONS), ("prompts", MOST_QUESTIONS), ("new_tokens", MOST_TOKENS)):
            require(self, name, 1 <= getattr(self, name) <= most, f"1 to {most}")
        require(self, "recall", 0 <= self.recalled <= MOST_QUESTIONS, f"0 to {MOST_QUESTIONS}")
        named = {*self.methods}.intersection(COMPARED)
        require(self, "methods", 0 < len(named) == len(self.methods), f"some of {', '.join(COMPARED)}")
        require_used(self, self.methods)
        own = (self.needle, self.question, self.answer)
        both = all(word.strip() for word in own) or not any(own)
        require(self, "needle", both, "given together with --question and --answer, or none of them")
        _ = self.reading  # says what is wrong with layer, keep and window
        cut = self.methods == ("full",) or self.lengths[0] > self.keep
        require(self, "lengths", cut, f"> keep = {self.keep}", "Shorter ones are kept whole.")
        read_texts(self.haystack)  # says what is wrong with the folder
        if self.model == RETRIEVER and self.recall == _RECALLED:
            object.__setattr__(self, "recall", None)  # runs have the number stored of when it was the default

    @property
    def reading(self) -> Reading:
        """Filter layer, kept tokens and window."""
        return reading_of(self, needs_layer=any(listed(name).by_layer for name in self.methods))

    @property
    def recalled(self) -> int:
        """Prompts of each kind and length that ask for what the retriever never saw."""
        return (_RECALLED if self.model == RETRIEVER else 0) if self.recall is None else self.recall

    @property
    def places(self) -> list[float]:
        """Depths, from 0 to 1; a single one is in the middle."""
        return np.linspace(0, 1, self.depths).tolist() if self.depths > 1 else [0.5]

    def smallest(self) -> "NeedleArms":
        """One short prompt."""
        return replace(self, lengths=(112,), depths=1, prompts=1, recall=min(1, self.recalled))

    def arms(self) -> Sequence[Arm[Questionnaire]]:
        """The methods, and full attention without a needle; then what the retriever never saw."""
        arms: list[Arm[Questionnaire]] = [
            Arm(m, Asking(self, m), self.reading.about(m), listed(m).label) for m in self.methods
        ]
        about = "No needle in the text."
        arms.append(Arm("no-needle", Asking(self, hidden=False), about, "no needle", role="reference"))
        if not self.recalled:
            return arms
        arms += [
            Arm(kind, Recall(self.model, self.haystack, self.recalled, kind), about, label)
            for kind, (about, label) in KINDS.items()
        ]
        same = "The same with random weights of the same shapes."
        return [
            *arms,
            Arm("heads", Heads(self.model, self.recalled), "Random tokens, said twice: what heads attend to.", "heads"),
            Arm(
                "untrained-heads",
                Heads(self.model, self.recalled, random_weights=True),
                same,
                "random weights",
                role="control",
            ),
        ]


def _parted(text: str) -> str:
    """With a blank before it, unless it begins with one or with a line end: it stands behind a sentence."""
    return text if text[:1].isspace() else f" {text}"
