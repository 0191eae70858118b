"""What `imbalance` claims of Stage 1 under other readings: tokens that do not show a feature, and other attention."""

from dataclasses import dataclass, replace
from functools import partial
from math import log

import numpy as np
import xarray as xr

from featscope.claims import POSITIVE, Found, bound, identity
from featscope.probes.stored import common_and_rare, growth, last_look
from featscope.studies.imbalance.assumed import every_token_shows
from featscope.studies.imbalance.endings import Endings
from featscope.studies.imbalance.stage_one import or_nan, whole
from featscope.theory.imbalance import PairStage1, linear_attention_gain

FEW = "Tolerance: 5 %, a stated choice."
as_foretold = partial(identity, equals=1.0, within=0.05, because=FEW)
TOKENS_ALIKE = (
    "Attention weights add up to 1 and all tokens of a sample show the same signal, so that they do not matter."
)


@dataclass(frozen=True)
class Variations(Endings):
    """Claims of token activity below 1, and of attention that is not uniform."""

    @as_foretold(
        "Definition 3.1, equation (7)",
        on="token-masking",
        note="a_j = L² p_j (q/(1 - (1 - q)^L))².",
        given=lambda study: study.learner.attention == "uniform",
        corrects="growth-as-if-unmasked",
    )
    def growth_with_masking(self, run: xr.Dataset) -> Found:
        """Where only some tokens show a feature, it grows by what two members of a pair have in common of it.

        Measured: logarithm of the growth of common features until the closed form's $T_1$, over its prediction.
        """
        return self._against(run, self.stage1_of("token-masking"))

    @identity(
        "workshop version, equation (45)",
        not_on="token-masking",
        equals=1.0,
        within=0.05,
        because=FEW,
        note="As if every token showed every feature of its sample.",
    )
    def growth_as_if_unmasked(self, run: xr.Dataset) -> Found:
        """Where only some tokens show a feature, it grows as if all did.

        Measured: logarithm of the growth of common features, over the prediction at $q = 1$.
        """
        return self._against(run, replace(self.stage1_of("token-masking"), token_activity=1.0))

    @as_foretold("Equation (7)", on="softmax-attention", note=TOKENS_ALIKE, given=every_token_shows)
    def growth_under_softmax(self, run: xr.Dataset) -> Found:
        """Under softmax attention features grow early as they do under uniform attention.

        Measured: logarithm of the growth of common features, over the prediction for uniform attention.
        """
        return self._against(run, self.stage1_of("softmax-attention"))

    @bound(
        "Equation (7)",
        on=("softmax-attention", "linear-attention"),
        at_least=1e-4,
        because="Bound: far above rounding; under uniform attention it is 0.",
        range=POSITIVE,
    )
    def attention_is_not_uniform(self, run: xr.Dataset) -> xr.DataArray:
        """Attention of another kind answers otherwise than uniform attention does.

        Measured: distance of the answers to those under uniform attention, with the weights of the start, relative.
        """
        return run.attention_apart

    @as_foretold("Equation (7)", not_on="linear-attention", note="Samples with more features weigh more.")
    def growth_under_linear(self, run: xr.Dataset) -> Found:
        """Under linear attention features grow early as they do under uniform attention.

        Measured: logarithm of the growth of common features, over the prediction for uniform attention.
        """
        return self._against(run, self.stage1_of("linear-attention"))

    @as_foretold(
        "from Lemma F.3 under linear attention",
        on="linear-attention",
        given=every_token_shows,
        corrects="growth-under-linear",
    )
    def growth_under_linear_exactly(self, run: xr.Dataset) -> Found:
        r"""Under linear attention features grow early by a closed form of its own.

        $a_j = L^2 p_j \, \mathbb{E}[(N + \sigma^2 (d_1 + L + 1)/L)^2 \mid j]$, $N$ the number of features of a sample.
        Measured: logarithm of the growth of common features, over that prediction.
        """
        theory, data = self.stage1_of("linear-attention"), self.arm("linear-attention").recipe.data
        gain = linear_attention_gain(theory.activities, data.tokens, data.input_dim, data.noise_std)
        more = theory.activities * gain
        return self._against(run, replace(theory, activities=more))

    def _against(self, run: xr.Dataset, theory: PairStage1) -> Found:
        """Logarithm of the growth of common features until T1, over the prediction."""
        longest = theory.duration()
        at = max(last_look(run, longest), int(run["step"][1]))
        grown = (
            common_and_rare(whole(growth(run), run), int((theory.activities < theory.activities.max()).sum()))[0]
            .mean("feature", skipna=False)
            .sel(step=at)
        )
        predicted = or_nan(at * log(theory.growth[0]))
        return Found(np.log(grown) / predicted, f"At step {at}.")
