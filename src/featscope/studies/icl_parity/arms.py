"""What `icl-parity` runs: networks set by hand on endless and on finite prompts, searched ones, and trained ones."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from featscope.axes import Axis
from featscope.data import ParityPrompts
from featscope.options import require
from featscope.studies.base import Arm, Role, Study
from featscope.studies.icl_parity import probes
from featscope.studies.icl_parity.endless import Constructed
from featscope.studies.icl_parity.prompted import Prompted
from featscope.studies.icl_parity.trained import LeastNorm, NearConstruction, PopulationHinge, RandomHeads, Sharpening
from featscope.theory import sparse_parity as theory
from featscope.training import Cooling, Iteration, TorchOptimizer, Training
from featscope.training.gradient import RuleConfig

SIZES = {"d=4-k=2": (4, 2), "d=8-k=2": (8, 2), "d=8-k=4": (8, 4), "d=16-k=4": (16, 4)}
"""Arms of endless prompts, with d and k."""
HALF = "half-the-heads"
EXAMPLES, WIDER, WIDEST, FLIPPED = "examples", "examples-d=16", "examples-d=32", "flipped-labels"
SEARCHES = {"search-d=2": (2, False), "search-d=4": (4, False), "search-d=8": (8, False), "search-diagonal": (4, True)}
"""Arms that look for less norm, with d and whether matrices stay diagonal."""
TRAINED, ALONE, OFTEN, UNRELATED = "trained", "important-only", "many-others", "unrelated-prompts"
LENGTHS = (64, 256, 1024)
MANY = 0.4
"""p_T where tasks of S_2 are nearly as likely as those of S_1."""
_LR, _SEARCH_LR = 0.03, 0.02


@dataclass(frozen=True)
class IclParityArms(Study):
    """Small and large networks of linear attention with a ReLU on sparse parities (Section 5.5).

    Attributes:
        gamma: γ, on all arms but those with more features.
        prompts: of a Monte-Carlo step.
        steps: of Monte Carlo.
        heads: m of trained networks, fewest first.
        training_steps: of them.
        search_steps: of a search for less norm.
    """

    name = "icl-parity"

    gamma: float = 0.1
    prompts: int = 100
    steps: int = 8
    heads: tuple[int, ...] = (4, 8, 16, 32)
    training_steps: int = 600
    search_steps: int = 600

    def __post_init__(self) -> None:
        require(self, "gamma", 1e-6 <= self.gamma < 0.25, "from 10⁻⁶ to below 1/4")
        require(self, "prompts", self.prompts >= 2, ">= 2")
        for name in ("steps", "training_steps", "search_steps"):
            require(self, name, getattr(self, name) >= 1, ">= 1")
        ascending = len(self.heads) >= 2 and list(self.heads) == sorted(set(self.heads))
        require(self, "heads", ascending, "two or more even numbers, smallest first")

    def smallest(self) -> "IclParityArms":
        """Two numbers of heads, and a fraction of the prompts and steps."""
        return replace(self, prompts=40, steps=3, heads=(4, 32), training_steps=130, search_steps=250)

    def arms(self) -> Sequence[Arm]:
        """Endless prompts, finite ones, searches, and training."""
        main = ParityPrompts(8, 2, self.gamma)
        return [
            *(
                self._endless(name, ParityPrompts(d, k, self.gamma), f"endless prompts, {d} features, {k} important")
                for name, (d, k) in SIZES.items()
            ),
            self._endless(HALF, main, "networks without the second half of their heads", "control"),
            self._prompted(EXAMPLES, main, "prompts with an end"),
            self._prompted(WIDER, ParityPrompts(16, 4, 0.2), "the same with 16 features, 4 important, γ = 0.2"),
            self._prompted(WIDEST, ParityPrompts(32, 2, 0.2), "the same with 32 features, 2 important, γ = 0.2"),
            self._prompted(
                FLIPPED,
                replace(main, samples=LENGTHS[1]),
                "the same with labels inverted at random",
                Axis("learner.data.flipped", (0.0, 0.1, 0.2)),
            ),
            *(self._search(name, d, diagonal) for name, (d, diagonal) in SEARCHES.items()),
            self._trained(TRAINED, self.rate, "trained on all tasks, those of S_2 at half the printed rate"),
            self._trained(ALONE, 0.0, "trained on tasks of S_1 only"),
            self._trained(OFTEN, MANY, f"trained on all tasks, p_T = {MANY:g}"),
            self._trained(UNRELATED, self.rate, "trained after prompts of another task", related=False),
        ]

    @property
    def rate(self) -> float:
        """p_T of trained networks: half of what Theorem 5.5.1 allows."""
        return theory.printed_rate(8, self.gamma) / 2

    def _endless(self, name: str, data: ParityPrompts, about: str, role: Role = "arm") -> Arm[Iteration]:
        recipe = Iteration(Constructed(data, mirrored=role == "arm"), 1, 1)
        label = f"{data.features} features, {data.important} important" if role == "arm" else "half the heads"
        return Arm(name, recipe, about, label, role, at_start=(probes.constructed,))

    def _prompted(self, name: str, data: ParityPrompts, about: str, over: Axis | None = None) -> Arm[Iteration]:
        share = max(1, data.features // 16)
        over = over or Axis("learner.data.samples", LENGTHS)
        return Arm(
            name,
            Iteration(Prompted(data, max(2, self.prompts // share)), self.steps, self.steps),
            about,
            {EXAMPLES: "over examples", FLIPPED: "over flipped labels"}.get(name, f"{data.features} features"),
            over=(over,),
            at_end=(probes.prompted,),
        )

    def _search(self, name: str, features: int, diagonal: bool) -> Arm[Training]:
        return Arm(
            name,
            self._recipe(
                ParityPrompts(features, 2, self.gamma),
                NearConstruction(diagonal=diagonal),
                LeastNorm(),
                _SEARCH_LR / (4 * self.gamma),
                self.search_steps,
            ),
            f"less norm sought near the printed network, {features} features"
            + (", diagonal matrices" if diagonal else ""),
            f"searched, {features} features" + (", diagonal" if diagonal else ""),
            at_end=(probes.searched,),
        )

    def _trained(self, name: str, others: float, about: str, related: bool = True) -> Arm[Training]:
        heads = self.heads if name in (TRAINED, ALONE) else (self.heads[0], self.heads[-1])
        recipe = self._recipe(
            ParityPrompts(8, 2, self.gamma, others=others),
            RandomHeads(heads[0]),
            PopulationHinge(related=related),
            _LR,
            self.training_steps,
        )
        return Arm(
            name,
            recipe,
            about,
            name.replace("-", " "),
            "arm" if related else "control",
            over=(Axis("learner.heads", heads),),
            at_end=(probes.trained,),
        )

    def _recipe(
        self,
        data: ParityPrompts,
        learner: RandomHeads | NearConstruction,
        objective: PopulationHinge | LeastNorm,
        lr: float,
        steps: int,
    ) -> Training:
        rules: dict[str, RuleConfig] = {"cooling": Cooling(steps, lr)}
        if isinstance(objective, LeastNorm):
            rules["sharpening"] = Sharpening(steps)
        return Training(data, learner, objective, TorchOptimizer("Adam", lr=lr), rules, steps, steps)
