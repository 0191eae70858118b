"""What `gemfilter` asks: options, and the arms."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from featscope.language.haystack import BUILT_IN, read_texts
from featscope.language.load import RETRIEVER, RETRIEVER_LENGTH
from featscope.language.methods import Reading, reading_of
from featscope.options import require
from featscope.studies import Arm, Study
from featscope.studies.gemfilter.cost import KEEP, Cost
from featscope.studies.gemfilter.mechanics import Mechanics
from featscope.studies.gemfilter.retrieval import Retrieval
from featscope.training import Questionnaire


@dataclass(frozen=True)
class GemFilterArms(Study):
    """GemFilter: an early layer chooses the tokens of a long prompt (dissertation, Chapter 9).

    What must hold exactly and what it costs are measured on networks with random weights; what it finds on a network
    that was trained to find needles.

    Attributes:
        model: "retriever" for the small model that ships with FeatScope, a folder, or a model of the Hub.
        haystack: a folder of .txt files that needles are hidden in, or "built-in".
        lengths: tokens of the prompts with needles.
        trained: the longest prompt that the model was trained on.
        layer: r, the filter layer, from 0; None for the retriever's own.
        keep: k, the tokens kept.
        keeps: other numbers of kept tokens.
        window: last tokens that SnapKV and H2O keep; at most all of the kept ones but one.
        prompts: prompts of each length in a replica.
        cost_lengths: tokens of the prompts whose cost is measured.
    """

    name = "gemfilter"

    model: str = RETRIEVER
    haystack: str = BUILT_IN
    lengths: tuple[int, ...] = (128, 256, 512, 768, 1024, 1536)
    trained: int = RETRIEVER_LENGTH
    layer: int | None = None
    keep: int = 64
    keeps: tuple[int, ...] = (16, 32, 48, 64, 96, 128)
    window: int = 16
    prompts: int = 8
    cost_lengths: tuple[int, ...] = (512, 1024, 2048, 4096)

    def __post_init__(self) -> None:
        for name in ("lengths", "keeps", "cost_lengths"):
            values = getattr(self, name)
            ascending = len(values) > 0 and min(values) >= 1 and list(values) == sorted(set(values))
            require(self, name, ascending, "one number >= 1 or more, ascending")
        shortest = self.lengths[0]
        require(self, "lengths", shortest >= 64, ">= 64", "Needles and question take as many.")
        require(self, "trained", self.trained >= shortest, f">= {shortest}, the shortest of lengths")
        keep = self.reading.keep
        require(self, "lengths", shortest > keep, f"> keep = {keep}", "Shorter ones are kept whole.")
        require(self, "prompts", self.prompts >= 1, ">= 1")
        require(self, "cost_lengths", self.cost_lengths[0] > KEEP, f"> {KEEP}", "Shorter prompts are kept whole.")
        read_texts(self.haystack)  # says what is wrong with the folder

    @property
    def reading(self) -> Reading:
        """Filter layer, kept tokens and window where they are not varied."""
        return reading_of(self)

    def smallest(self) -> "GemFilterArms":
        """One short prompt."""
        return replace(self, lengths=(96,), trained=96, prompts=1, keeps=(32,), cost_lengths=(300,))

    def arms(self) -> Sequence[Arm[Questionnaire]]:
        """What is exact, what it costs, what it finds; and what random weights find."""
        needles = Retrieval(self.model, self.haystack, self.lengths, self.prompts, self.reading, self.keeps)
        others = replace(needles, random_weights=True)
        same = "The same with random weights of the same shapes."
        return [
            Arm("mechanics", Mechanics(), "What must hold exactly, on random weights.", "what is exact"),
            Arm("cost", Cost(self.cost_lengths), "Operations, seconds and memory, on random weights.", "what it costs"),
            Arm("retrieval", needles, "Needles, and all methods on each prompt.", "trained weights"),
            Arm("untrained", others, same, "random weights", role="control"),
        ]
