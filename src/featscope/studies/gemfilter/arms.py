"""What `gemfilter` asks: needles in long prompts, options, and the arms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from featscope.language.haystack import BUILT_IN, MOST_TOKENS, OTHERS, Haystack, passwords, read_texts
from featscope.language.layers import choices_of_all_layers, needle_distance
from featscope.language.load import RETRIEVER, RETRIEVER_LENGTH, layers_of, load_once
from featscope.language.methods import METHODS, Reading, reading_of
from featscope.language.prompt import Prompt
from featscope.language.random_models import untrained
from featscope.language.selection import Pool
from featscope.options import require, require_ascending
from featscope.streams import Streams
from featscope.studies import Arm, Study
from featscope.studies.gemfilter.cost import KEEP, Cost
from featscope.studies.gemfilter.mechanics import Mechanics
from featscope.training import Answer, Evaluation, Measurement, Questionnaire
from featscope.training.evaluation import MOST_QUESTIONS, Ask

NEW = 9  # tokens to generate: a password has up to eight, and a full stop
MOST_COST_TOKENS = 2**15  # a choice, so that a mistyped length ends
SCORE = "normalised needle score: share of the answer's words that were given"


@dataclass(frozen=True)
class Retrieval(Questionnaire):
    """A needle in every prompt, asked for by all methods, filter layers and numbers of kept tokens (P Section 9.4).

    Attributes:
        study: its options.
        random_weights: whether the network's weights are those of a start.
    """

    study: "GemFilterArms"
    random_weights: bool = False

    @property
    def texts(self) -> Sequence[str]:
        """What each method answered, beside what would have been right; nothing of random weights."""
        kept = not (self.study.redact or self.random_weights)
        return ("wanted", *map(said_by, METHODS)) if kept else ()

    @property
    def grid(self) -> Mapping[str, Sequence[int]]:
        """Lengths, and prompts of each."""
        return {"length": self.study.lengths, "prompt": range(self.study.prompts)}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """Scores of all methods, filter layers and numbers of kept tokens, and what layers choose."""
        layer = {"layer": layers_of(self.study.model)}
        return {
            "score": Answer(SCORE, axes={"method": len(METHODS)}),
            "exact": Answer("share of prompts whose whole answer was given", axes={"method": len(METHODS)}),
            "score_of_layer": Answer(f"{SCORE}, GemFilter over filter layers", axes=layer),
            "score_of_keep": Answer(f"{SCORE}, GemFilter over kept tokens", axes={"keep": len(self.study.keeps)}),
            "covered": Answer("share of prompts whose needle the layer's choice touches", axes=layer),
            "last_kept": Answer("share of prompts whose last token the layer chooses", axes=layer),
            "distance": Answer("from the needle to the nearest token that the layer chooses", "token", layer),
        }

    def asker(self, streams: Streams) -> Ask:
        """Network and texts."""
        of, reading = self.study, self.study.reading
        model, tokenizer = load_once(of.model, str(streams.device))
        model = untrained(model, streams.at("weights")) if self.random_weights else model
        haystack, layers = Haystack(tokenizer, read_texts(of.haystack)), range(layers_of(of.model))
        ways = [(name, reading) for name in METHODS]
        of_layers = [("gemfilter", replace(reading, layer=layer)) for layer in layers]
        of_keeps = [("gemfilter", replace(reading, keep=keep)) for keep in of.keeps]
        methods = {way: way[1].build(way[0], model) for way in (*ways, *of_layers, *of_keeps)}  # some are the same

        def ask(length: int, prompt: int) -> Mapping[str, Sequence[float] | str]:
            draws = streams.at(f"needle {length}", prompt)
            asked, *others = passwords(draws, 1 + OTHERS)
            hidden = haystack.hide(draws, length, float(draws.uniform(1)), asked, others)

            ids = hidden.ids.to(model.device)
            whole = Prompt(ids, torch.ones_like(ids, dtype=torch.bool))
            chosen = choices_of_all_layers(model, whole, of.keep, reading.pool, reading.kernel)
            kept = [chosen[layer][0].cpu() for layer in layers]
            distances = [needle_distance(places, hidden.needle) for places in kept]
            answers = {way: haystack.answer(method, hidden, NEW) for way, method in methods.items()}
            found = {way: retrieved for way, (_, retrieved) in answers.items()}
            return {
                "wanted": asked.answer,
                **{said_by(name): answers[name, reading][0] for name in METHODS},
                "score": [found[way].normalised for way in ways],
                "exact": [found[way].exact for way in ways],
                "score_of_layer": [found[way].normalised for way in of_layers],
                "score_of_keep": [found[way].normalised for way in of_keeps],
                "covered": [distance == 0 for distance in distances],
                "last_kept": [bool(places[-1] == length - 1) for places in kept],
                "distance": distances,
            }

        return ask

    def summary(self, evaluation: Evaluation) -> Mapping[str, Measurement]:
        """Means over prompts."""
        return {
            name: found._replace(values=found.values.mean(2), dims=("length", *found.dims[2:]))
            for name, found in evaluation.all_answers().items()
        }


def said_by(method: str) -> str:
    """What the stored answers of a method are called."""
    return f"said_{method}"


@dataclass(frozen=True)
class GemFilterArms(Study):
    """GemFilter: an early layer chooses the tokens of a long prompt (dissertation, Chapter 9).

    What must hold exactly and what it costs are measured on networks with random weights; what it finds on a network
    that was trained to find needles.

    Attributes:
        model: "retriever" for the small model of the package featscope-retriever, a folder, or a model of the Hub.
        haystack: a folder of .txt files that needles are hidden in, or "built-in".
        lengths: tokens of the prompts with needles.
        trained: the longest prompt that the model was trained on; None for the retriever's own, or all lengths for
            another model.
        layer: r, the filter layer, from 0; None for the retriever's own.
        keep: k, the tokens kept.
        keeps: other numbers of kept tokens.
        window: last tokens that SnapKV and H2O keep; at most all of the kept ones but one.
        kernel: neighbours whose scores are pooled, an odd number; None for the retriever's own, or the papers' 5.
        pool: how they are pooled; None for the retriever's own, or the average as in the papers' code.
        prompts: prompts of each length in a replica.
        cost_lengths: tokens of the prompts whose cost is measured.
        redact: whether answers are not stored; else `featscope export DIR` writes them beside their scores.
    """

    name = "gemfilter"

    model: str = RETRIEVER
    haystack: str = BUILT_IN
    lengths: tuple[int, ...] = (128, 256, 512, 768, 1024, 1536)
    trained: int | None = None
    layer: int | None = None
    keep: int = 64
    keeps: tuple[int, ...] = (16, 32, 48, 64, 96, 128)
    window: int = 16
    kernel: int | None = None
    pool: Pool | None = None
    prompts: int = 8
    cost_lengths: tuple[int, ...] = (512, 1024, 2048, 4096)
    redact: bool = False

    def __post_init__(self) -> None:
        for name in ("lengths", "keeps", "cost_lengths"):
            require_ascending(self, name)
            require(self, name, getattr(self, name)[-1] <= MOST_TOKENS, f"at most {MOST_TOKENS} tokens")
        shortest = self.lengths[0]
        require(self, "lengths", shortest >= 104, ">= 104", "Needles and question take as many.")
        cure = f"The retriever's own is {RETRIEVER_LENGTH}." if self.trained is None else ""
        require(self, "trained", self.known >= shortest, f">= {shortest}, the shortest of lengths", cure)
        _ = self.reading  # says what is wrong with layer, keep and window
        require(self, "lengths", shortest > self.keep, f"> keep = {self.keep}", "Shorter ones are kept whole.")
        require(self, "prompts", 1 <= self.prompts <= MOST_QUESTIONS, f"1 to {MOST_QUESTIONS}")
        require(self, "cost_lengths", self.cost_lengths[0] > KEEP, f"> {KEEP}", "Shorter prompts are kept whole.")
        longest, cure = (
            self.cost_lengths[-1],
            "All methods read each many times, and full attention takes n² operations.",
        )
        require(self, "cost_lengths", longest <= MOST_COST_TOKENS, f"at most {MOST_COST_TOKENS} tokens", cure)
        read_texts(self.haystack)  # says what is wrong with the folder
        if self.model == RETRIEVER and self.trained == RETRIEVER_LENGTH:
            object.__setattr__(self, "trained", None)  # runs have the number stored of when it was the default

    @property
    def known(self) -> int:
        """The longest prompt that the model was trained on; of another than the retriever any, unless it is said."""
        own = RETRIEVER_LENGTH if self.model == RETRIEVER else self.lengths[-1]
        return own if self.trained is None else self.trained

    @property
    def reading(self) -> Reading:
        """Filter layer, kept tokens and window where they are not varied."""
        return reading_of(self)

    def smallest(self) -> "GemFilterArms":
        """One short prompt."""
        return replace(self, lengths=(112,), trained=112, prompts=1, keeps=(32,), cost_lengths=(300,))

    def arms(self) -> Sequence[Arm[Questionnaire]]:
        """What is exact, what it costs, what it finds; and what random weights find."""
        same = "The same with random weights of the same shapes."
        return [
            Arm("mechanics", Mechanics(), "What must hold exactly, on random weights.", "what is exact"),
            Arm("cost", Cost(self.cost_lengths), "Operations, seconds and memory, on random weights.", "what it costs"),
            Arm("retrieval", Retrieval(self), "Needles, and all methods on each prompt.", "trained weights"),
            Arm("untrained", Retrieval(self, random_weights=True), same, "random weights", role="control"),
        ]
