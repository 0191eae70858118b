"""Needles in a haystack, by method. Sections are those of Shi 2024 (dissertation)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal, get_args

import numpy as np

from featscope.claims import COSINE, SHARE, Claim, Found, identity, ordering
from featscope.figures import Figure, Panel
from featscope.language.haystack import BUILT_IN, MOST_TOKENS, OTHERS, Haystack, Needle, passwords, read_texts
from featscope.language.load import RETRIEVER, load_once
from featscope.language.methods import METHODS, MethodName, Reading, reading_of
from featscope.options import require, require_ascending
from featscope.streams import Streams
from featscope.studies import Arm, Runs, Story, Study
from featscope.studies.summaries import chart, curve, heatmaps, percent, verdict
from featscope.training import Answer, Questionnaire
from featscope.training.evaluation import MOST_QUESTIONS, Ask

Compared = Literal["full", "gemfilter", "question-kept", "snapkv", "h2o"]
COMPARED: tuple[Compared, ...] = get_args(Compared)
HALF = 0.5  # of the score: what full attention must have for others to lose
ALIKE = 0.05  # of the score: what may be lost where as much is found
LENGTH, DEPTH = ("length", "length of the text (tokens)"), ("depth", "place in the text (%)")
SCORE = "share of the answer's words given"
CLOSE = "Tolerance: five points in a hundred, a stated choice. Paired by prompt."
NO_TIE = "Bound: one point in a hundred, a stated choice, so that a tie is no gain. Paired by prompt."
better = partial(ordering, more_than=0.01, because=NO_TIE, range=COSINE)


@dataclass(frozen=True)
class Asking(Questionnaire):
    """Every needle of the study, asked for in one way.

    Attributes:
        study: its options.
        method: how prompts are read.
        hidden: whether the needle is in the text.
    """

    study: "NeedleInAHaystack"
    method: MethodName = "full"
    hidden: bool = True

    answers: ClassVar[Mapping[str, Answer]] = {
        "score": Answer("share of the answer's words that were given"),
        "normalised": Answer("the same over that of a perfect answer"),
        "kept": Answer("share of the needle that was kept"),
    }

    @property
    def grid(self) -> Mapping[str, Sequence[float]]:
        """Lengths, depths, and prompts of each."""
        return {"length": self.study.lengths, "depth": self.study.places, "prompt": range(self.study.prompts)}

    def asker(self, streams: Streams) -> Ask:
        """Loads the model."""
        of = self.study
        model, tokenizer = load_once(of.model, str(streams.device))
        method, haystack = of.reading.build(self.method, model), Haystack(tokenizer, read_texts(of.haystack))
        own = [Needle(of.needle, of.question, of.answer)] if of.needle else []

        def ask(length: int, depth: float, prompt: int) -> Mapping[str, float]:
            draws = streams.at(f"needle {length} {depth:g}", prompt)
            asked, *others = own or passwords(draws, 1 + OTHERS)
            shown = asked if self.hidden else replace(asked, text="")
            return haystack.ask(method, haystack.hide(draws, length, depth, shown, others), of.new_tokens)._asdict()

        return ask


@dataclass(frozen=True)
class NeedleInAHaystack(Study):
    """A sentence hidden in a long text, and a question about it (dissertation, Section 9.4.1).

    Without a needle of your own, needles are drawn from the task that the retriever was trained on, three more of
    other cities beside the one that is asked for. Of the paper: --needle " The best thing to do in San Francisco is
    eat a sandwich and sit in Dolores Park on a sunny day." --question "What is the best thing to do in San Francisco?"
    --answer "eat a sandwich and sit in dolores park on a sunny day."

    Attributes:
        model: "retriever" for the small model that ships with FeatScope, a folder, or a model of the Hub.
        haystack: a folder of .txt files that needles are hidden in, or "built-in".
        needle: the sentence to hide; drawn if empty.
        question: what the prompt ends with; with a needle of your own.
        answer: the words that are looked for in the answer; with a needle of your own.
        lengths: tokens of the prompts.
        depths: places of the needle, evenly from the beginning (0 %) to the question (100 %).
        prompts: prompts of each length and depth in a replica.
        methods: what is compared; "question-kept" is GemFilter that keeps the last tokens in any case, which the
            paper's rule does not.
        layer: r, GemFilter's filter layer, from 0; None for the retriever's own.
        keep: k, what every method keeps.
        window: last tokens that SnapKV, H2O and question-kept keep.
        new_tokens: tokens to generate.
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
    methods: tuple[Compared, ...] = COMPARED
    layer: int | None = None
    keep: int = 64
    window: int = 16
    new_tokens: int = 6

    def __post_init__(self) -> None:
        require_ascending(self, "lengths")
        require(self, "lengths", self.lengths[-1] <= MOST_TOKENS, f"at most {MOST_TOKENS} tokens")
        for name, most in (("depths", MOST_QUESTIONS), ("prompts", MOST_QUESTIONS), ("new_tokens", MOST_TOKENS)):
            require(self, name, 1 <= getattr(self, name) <= most, f"1 to {most}")
        named = {*self.methods}.intersection(COMPARED)
        require(self, "methods", 0 < len(named) == len(self.methods), f"some of {', '.join(COMPARED)}")
        own = (self.needle, self.question, self.answer)
        both = all(word.strip() for word in own) or not any(own)
        require(self, "needle", both, "given together with --question and --answer, or none of them")
        keep = self.reading.keep
        require(self, "lengths", self.lengths[0] > keep, f"> keep = {keep}", "Shorter ones are kept whole.")
        read_texts(self.haystack)  # says what is wrong with the folder

    @property
    def reading(self) -> Reading:
        """Filter layer, kept tokens and window."""
        return reading_of(self, needs_layer=not {"gemfilter", "question-kept"}.isdisjoint(self.methods))

    @property
    def places(self) -> list[float]:
        """Depths, from 0 to 1; a single one is in the middle."""
        return np.linspace(0, 1, self.depths).tolist() if self.depths > 1 else [0.5]

    def smallest(self) -> "NeedleInAHaystack":
        """One short prompt."""
        return replace(self, lengths=(96,), depths=1, prompts=1)

    def arms(self) -> Sequence[Arm[Asking]]:
        """The methods, and full attention without a needle."""
        arms = [Arm(m, Asking(self, m), self.reading.about(m), METHODS[m].label) for m in self.methods]
        without = Arm("no-needle", Asking(self, hidden=False), "No needle in the text.", "no needle", role="control")
        return [*arms, without]

    # --- Claims: differences of mean normalised scores over lengths and depths. Arms ask the same prompts. ------------

    @better("Section 9.4.1, Figure 9.4", on="gemfilter")
    def gemfilter_beats_snapkv(self, runs: Runs) -> Found | None:
        """GemFilter answers better than SnapKV. Measured: difference of mean normalised scores, all prompts."""
        return ahead(runs, "gemfilter", "snapkv")

    @better("derived, for Section 9.4.1", on="question-kept")
    def question_kept_beats_snapkv(self, runs: Runs) -> Found | None:
        """GemFilter that keeps the question answers better than SnapKV.

        It keeps the last tokens, as SnapKV does. Measured: difference of mean normalised scores, all prompts.
        """
        return ahead(runs, "question-kept", "snapkv")

    @better("Section 9.4.1, Figure 9.4", on="gemfilter")
    def gemfilter_beats_full(self, runs: Runs) -> Found | None:
        """GemFilter answers better than full attention. Measured: difference of mean normalised scores, all prompts."""
        return ahead(runs, "gemfilter", "full")

    @identity("Section 9.4.1, Figure 9.4", on="snapkv", equals=0.0, within=ALIKE, because=CLOSE, range=COSINE)
    def snapkv_is_like_full(self, runs: Runs) -> Found | None:
        """SnapKV answers as well as full attention. Measured: difference of mean normalised scores, all prompts."""
        return ahead(runs, "snapkv", "full")

    @ordering(
        "derived here",
        on="full",
        more_than=HALF,
        because="Bound: a half, a stated choice. Paired by prompt but for the needle.",
        note="Words of an answer may be right by chance, or be those of another needle; scores of the methods are to "
        "be read against the score without the needle.",
        range=COSINE,
    )
    def the_needle_matters(self, runs: Runs) -> Found | None:
        """Answers come from the text. Measured: mean normalised score with the needle in it less that without."""
        return ahead(runs, "full", "no-needle")

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """Grids of length and depth, then means."""
        depths = [round(100 * place, 1) for place in self.places]
        runs = {arm: run.assign_coords(length=list(self.lengths), depth=depths) for arm, run in runs.items()}
        scores = {label: run.normalised for label, run in self.labelled(runs).items()}
        keeping = {arm: run for arm, run in runs.items() if arm not in ("full", "no-needle")}
        kept = {label: run.kept for label, run in self.labelled(keeping).items()}
        grids = partial(heatmaps, rows=DEPTH, columns=LENGTH, ends=(0.0, 1.0))
        claims = [statement.id for statement in self.statements()]
        about = "Means over texts, by length and by where the sentence is hidden. 1 is a perfect answer."
        yield grids("grids", "Answers over length and place", about, scores, value_label=SCORE, claims=claims)
        means = [
            Panel(
                title,
                label,
                SCORE,
                [curve(one.mean((other, "prompt")), method, axis, within=SHARE) for method, one in scores.items()],
            )
            for title, (axis, label), other in (("Length", LENGTH, "depth"), ("Place", DEPTH, "length"))
        ]
        about = "Means over the other axis and over prompts."
        yield chart("means", "Answers over length, and over place", about, *means, claims=claims)
        if kept:
            about = "Means over texts; 1 keeps all of it. For SnapKV and H2O means over layers and heads, too."
            yield grids("kept", "What was kept of the sentence", about, kept, value_label="share of its tokens kept")

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """Whether what is kept is enough, by the best and the worst method."""
        mean = {arm: float(run.normalised.mean()) for arm, run in runs.items()}
        right = {arm.name: f"{arm.label} {percent(mean[arm.name])}" for arm in self.arms()}
        ranked = sorted(mean.keys() - {"full", "no-needle"}, key=lambda arm: (-mean[arm], arm))
        lost = mean.get("full", np.nan) - max((mean[arm] for arm in ranked), default=np.nan)
        enough = ("can be" if lost <= ALIKE else "is not") if np.isfinite(lost) else "may be"
        shown = dict.fromkeys(arm for arm in (*ranked[:1], *ranked[-1:], "full") if arm in mean)
        found = (
            f"Keeping {percent(self.keep / float(np.mean(self.lengths)))} of a text {enough} enough for right answers: "
            f"{', '.join(right[arm] for arm in shown)}."
        )
        if verdict(claims, "the-needle-matters@full") == "fails":
            found = f"Not even the whole text gives the answer ({right['full']}), so that nothing can be compared."
        compared = {
            "gemfilter-beats-snapkv@gemfilter": ("gemfilter", "snapkv"),
            "question-kept-beats-snapkv@question-kept": ("question-kept", "snapkv"),
            "gemfilter-beats-full@gemfilter": ("gemfilter", "full"),
            "snapkv-is-like-full@snapkv": ("snapkv", "full"),
            "the-needle-matters@full": ("full", "no-needle"),
        }
        return Story(
            found,
            f"A sentence is hidden in texts of up to {self.lengths[-1]} tokens (pieces of words), anywhere from the "
            f"beginning to the question at the end. A method keeps {self.keep} tokens in its own way; full attention "
            "keeps all. A colour is the share of the answer's words that came back, the mean of "
            f"{self.prompts * runs['no-needle'].sizes['replica']} texts.",
            {key: f"{right[a]}, {right[b]}." for key, (a, b) in compared.items() if {a, b} <= mean.keys()},
        )


def ahead(runs: Runs, one: str, other: str) -> Found | None:
    """Difference of mean scores; None where an arm was not run, NaN where full attention does not answer either."""
    if not {one, other} <= runs.keys():
        return None
    means = {arm: run.normalised.mean(("length", "depth", "prompt")) for arm, run in runs.items()}
    silent = "full" in means and (means["full"] - means["no-needle"]).mean() < HALF  # nothing that could be lost
    found = (means[one] - means[other]) * (np.nan if silent and other != "no-needle" else 1.0)
    return Found(found, trials=runs[one].normalised.isel(replica=0).size)
