"""Contrastive learning decouples features from noise (Wen & Li 2021, arXiv 2105.15134): what is shown of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from featscope.claims import Claim
from featscope.figures import Figure
from featscope.studies import Runs, Story, last
from featscope.studies.decoupling import figures
from featscope.studies.decoupling.horizon import Horizon
from featscope.studies.summaries import in_words, percent, verdict


@dataclass(frozen=True)
class Decoupling(Horizon):
    """Contrastive learning with RandomMask and without: where features are decoupled from noise, quiet or loud.

    Options and arms are `DecouplingArms`'. Claims stand in the order of training: `AtStart`, `StageOne`, `StageTwo`,
    `StageThree`, `Balance`, `Corollaries`, `Horizon`.
    """

    # --- What is shown ------------------------------------------------------------------------------------------------

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """The figures, in the order of the story."""
        return figures.figures(self, runs)

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """How many features get a neuron of their own, with masking and without."""
        d, arms = self.data.features, ("augmented", "plain")
        held, twin, sorted_out, loud, drowned = (
            how_many(d * last(runs[arm], runs[arm].coverage), d)
            for arm in (*arms, "thresholds-only", "louder", "louder-unmasked")
        )
        missed, none_masked = (percent(runs[arm].representation_error) for arm in arms)
        raw, (loss, low) = percent(runs["augmented"].raw_error), (in_words(last(runs[a], runs[a].loss)) for a in arms)
        opening = "Even with" if verdict(claims, "singletons-emerge@augmented") == "fails" else "With"
        louder = self.stage1.s2 * self.data.input_dim / (self.stage1.p * d)
        return Story(
            f"{opening} masking, {held} of the {d} hidden features get a neuron of their own. Without it, {twin}, and "
            f"{sorted_out} where thresholds rise.",
            f"Each sample mixes a few of {d} features under noise with {louder:.3g} times their energy. Networks learn "
            "that two views show one sample: with masking two random halves of it, without masking twice the sample "
            "itself. Each row is a neuron, each column a feature; where a cell is dark, the neuron points along it.",
            {
                "singletons-emerge@augmented": "",
                "masking-finds-what-noise-hides@louder": f"Under noise of twice the variance {loud} of the features "
                f"get a neuron of their own with masking, and {drowned} with thresholds alone.",
                "downstream-regression@augmented": f"The head misses {missed} of the hidden signal with masking, "
                f"{none_masked} without, and {raw} from the raw input.",
                "loss-inversion@augmented": f"The loss ends at {loss} with masking and at {low} without.",
                "lucky-become-singletons@augmented": "",
            },
        )


def how_many(counts: xr.DataArray, of: int) -> str:
    """Smallest and largest of ``counts`` in words; that they are unknown where one is missing."""
    if not np.isfinite(counts).all():
        return "an unknown number"
    low, high = (int(end.round()) for end in (counts.min(), counts.max()))
    return f"{low} to {high}" if low < high else {0: "none", of: "all"}.get(low, f"{low}")
