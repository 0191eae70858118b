"""Claims about networks and masks before any training (Wen & Li 2021, Appendices B and F).

Symbols: P = M Mᵀ; p, s², τ, |N| and d1 as in `featscope.theory.decoupling`.
"""

from dataclasses import dataclass
from functools import partial
from math import erf, log, sqrt
from typing import Any

import numpy as np
import xarray as xr
from scipy import stats

from featscope.claims import POSITIVE, Found, bound, fitted_exponent, identity, scaling
from featscope.probes import stored
from featscope.probes.stored import along_features
from featscope.studies.decoupling.arms import DecouplingArms
from featscope.studies.reductions import known, mean
from featscope.theory import decoupling as theory

SAMPLED = "Tolerance: a stated choice, 2 % of the effect that the identity excludes."
TWO_PERCENT = "Tolerance: 2 %, a stated choice."
as_predicted = partial(identity, equals=1.0, within=0.02, because=TWO_PERCENT)
excluded = partial(identity, on="augmented", equals=0.0, within=0.02, because=SAMPLED)
SMALL = 0.1  # loss over τ up to which log(1 + S) is S, within a tenth on average


def is_spread(study: Any) -> bool:
    """Whether features are spread over coordinates (Definition 2.1); RandomMask destroys those on single ones."""
    return study.data.dictionary != "canonical"


def is_flat(study: Any) -> bool:
    """Whether all entries of features are of one size, ±1/√d1."""
    return study.data.dictionary == "hadamard"


@dataclass(frozen=True)
class AtStart(DecouplingArms):
    """The arms, and what is said of them before the first step."""

    @excluded("Lemma C.2", note="The paper has it up to lower order; independence of the two halves makes it exact.")
    def mask_cancels_noise(self, run: xr.Dataset) -> xr.DataArray:
        r"""Masking cancels the noise in what pulls two views together.

        At $b = 0$ RandomMask removes the noise from the positive term: with $P = M M^{\top}$, $\mathbb{E}[h_i(x^{++})
        x^{+}] = p (P - \operatorname{diag} P) w_i$ without any $s^2$ part. Measured: share of the noise's variance
        $s^2$ that is left in the positive term.
        """
        return run.mask_leak

    @identity(
        "Lemma F.1",
        on="plain",
        relation="=",
        because=TWO_PERCENT,
        note="The form that the lemma prints for b > 0 drops cross terms and is not tested.",
    )
    def plain_population_gradient(self, run: xr.Dataset) -> Found:
        r"""Without augmentation, features grow only a little faster than noise.

        At $b = 0$, $\mathbb{E}[h_i(x) x] = (p P + s^2 I) w_i$: weights grow along features only $1 + p/s^2$ times as
        fast as along noise. Measured: the growth rate along features over the rate orthogonal to them.
        """
        along, across = theory.plain_rates(self.stage1.p, self.stage1.s2)
        return Found(run.rate_ratio, predicted=along / across, tolerance=0.02 * (along / across))

    @excluded("Section 3")
    def dense_decoupling(self, run: xr.Dataset) -> xr.DataArray:
        r"""The two halves of the noise tell nothing about each other.

        At any weights and biases, $\mathbb{E}\langle f(2D\xi), f(2(I-D)\xi)\rangle = 0$: the halves of the noise are
        independent and $f$ is odd. Measured: that mean over the mean of $\lVert f(\xi)\rVert^2$.
        """
        return run.dense_decoupling

    @as_predicted("Lemma B.2(a)", on="augmented", range=POSITIVE)
    def initial_norms(self, run: xr.Dataset) -> xr.DataArray:
        r"""Neurons start with the norm that they were told to have.

        At initialisation $\mathbb{E}\lVert w_i\rVert^2 = \sigma_0^2 d_1$. Measured: mean squared norm over its
        prediction.
        """
        return mean(run.norm.isel(step=0) ** 2) / self.learner.init_norm**2

    @as_predicted(
        "Lemma B.2(c)", on="augmented", note="The paper bounds it by powers of d; the law is exact.", range=POSITIVE
    )
    def lucky_set_size(self, run: xr.Dataset) -> xr.DataArray:
        r"""As many neurons start lucky as the exact law says.

        At initialisation $\mathbb{E}|\mathrm{Set}_j| = m \Pr(\mathrm{Beta}(\frac{1}{2}, \frac{d-1}{2}) \ge
        c_2 \log d / d)$. Measured: the mean number of a feature's lucky neurons, over that.
        """
        expected = self.learner.width * theory.lucky_probability(self.data.features, theory.lucky_constant())
        return run.lucky_set_size / expected

    @identity(
        "Lemma B.2(b)",
        on="augmented",
        equals=1.0,
        within=0.05,
        because="Tolerance: 5 %; two are too few for 8 replicas to decide, which was seen after they were asked for.",
        range=POSITIVE,
    )
    def initial_feature_norms(self, run: xr.Dataset) -> xr.DataArray:
        r"""Neurons start with as much of the features as of anything else.

        At initialisation $\mathbb{E}\lVert M^{\top} w_i\rVert^2 = \sigma_0^2 d$. Measured: its mean over neurons, over
        that.
        """
        size = self.learner.init_norm**2 * self.data.features / self.data.input_dim
        return along_features(run).isel(step=0) / run.sizes["neuron"] / size

    @identity(
        "Lemma B.2(d)",
        on="augmented",
        relation="=",
        because="Tolerance: a tenth of the prediction, a stated choice.",
        note="The paper bounds the number by O(d/polylog d); the law is exact.",
        law="draws",
    )
    def nearly_absent_at_start(self, run: xr.Dataset) -> Found:
        r"""Few features are nearly absent from a neuron at the start.

        $|\langle w_i, M_j\rangle| \le \sigma_0/d$ for a share $\operatorname{erf}(1/(d\sqrt{2}))$ of the features.
        Measured: that share, over all neurons.
        """
        share = erf(1 / (self.data.features * sqrt(2)))
        size = self.learner.init_norm / sqrt(self.data.input_dim)
        part = abs(run.alignment * run.norm).isel(step=0)
        return Found(known(part <= size / self.data.features, part), predicted=share, tolerance=0.1 * share)

    @bound(
        "Lemma B.2(e)",
        on="augmented",
        at_most=0.01,
        because="Bound: one pair in a hundred; finitely many pairs cannot show that there is none.",
        law="share",
    )
    def lucky_sets_hardly_meet(self, run: xr.Dataset) -> xr.DataArray:
        r"""Few neurons are lucky for the same two features.

        $|\mathrm{Set}_j \cap \mathrm{Set}_{j'}| \le O(\log d)$. Measured: share of pairs of features that have more
        than $\log d$ lucky neurons in common.
        """
        lucky = stored.lucky(run, theory.lucky_constant()).astype(float)
        common = xr.dot(lucky, lucky.rename(feature="other"), dim="neuron")
        many = known(common > log(self.data.features), run.alignment.isel(step=0, drop=True))
        return many.where(common.feature < common.other)

    @bound(
        "Lemma B.2(f)",
        on="augmented",
        at_most=0.02,
        because="Bound: one neuron in fifty; the paper's O(1) is read as two.",
        law="draws",
    )
    def lucky_for_few(self, run: xr.Dataset) -> xr.DataArray:
        r"""No neuron is lucky for many features.

        Each is in $O(1)$ of the sets $\mathrm{Set}_j$. Measured: share of neurons that are in more than two.
        """
        many = stored.lucky(run, theory.lucky_constant()).sum("feature") > 2
        return known(many, run.alignment.isel(step=0, drop=True))

    @bound(
        "Lemma B.2(f)",
        on="augmented",
        relation="<=",
        because="Bound: with constant 1.",
        law="draws",
    )
    def few_strong_at_start(self, run: xr.Dataset) -> Found:
        r"""A neuron starts with few features that are much stronger than the others.

        At most $O(2^{-\sqrt{\log d}} d)$ of them have $|\langle w_i, M_j\rangle| \ge \sigma_0 \log^{1/4} d$. Measured:
        their share, over all neurons.
        """
        size, d = self.learner.init_norm / sqrt(self.data.input_dim), self.data.features
        part = abs(run.alignment * run.norm).isel(step=0)
        strong = known(part >= size * log(d) ** 0.25, part)
        gaussian = 2 * stats.norm.sf(log(d) ** 0.25)
        return Found(strong, f"For Gaussian weights it is {gaussian:.3f}.", predicted=2 ** -sqrt(log(d)))

    @as_predicted(
        "Lemma B.3",
        on="augmented",
        note="For features whose entries are all ±1/√d1.",
        range=POSITIVE,
        given=is_flat,
    )
    def mask_crosstalk(self, run: xr.Dataset) -> xr.DataArray:
        r"""The mask spills features into one another, a little.

        $\mathbb{E}\langle M_j, (I - 2D) M_{j'}\rangle^2 = 1/d_1$. Measured: its mean over features and masks, over
        that.
        """
        return run.mask_crosstalk

    @as_predicted(
        "Lemma B.4",
        on="augmented",
        note="The paper bounds the two parts by ||w_i||² log⁴ d times max |M_js|² and 1/d, which at this size nothing "
        "could exceed; the second moment is exact.",
        range=POSITIVE,
    )
    def mask_moves(self, run: xr.Dataset) -> xr.DataArray:
        r"""The mask moves what a neuron sees by as much as the closed form says.

        $\mathbb{E}\langle w_i, (I - 2D) x\rangle^2 = \sum_s w_{is}^2 (p P_{ss} + s^2)$. Measured: the mean square over
        that, both summed over neurons.
        """
        return run.mask_moves

    @scaling(
        "Lemma C.3",
        on="augmented",
        equals=1.0,
        within=0.05,
        because="Tolerance: second order in Σ||w_i||²/τ, which reaches 0.64.",
    )
    def logit_uniformity_slope(self, run: xr.Dataset) -> np.ndarray:
        r"""At the start every pair looks alike to the loss.

        Near the start the logits are uniform up to $O(\sum_i \lVert w_i\rVert^2 / (\tau |B|))$. Measured: the exponent
        of the largest deviation in $\sum_i \lVert w_i\rVert^2$ over two decades.
        """
        size, deviation = (run[name].transpose("replica", "scale").values for name in ("logit_size", "logit_deviation"))
        return np.array([fitted_exponent(s, d[None])[0] for s, d in zip(size, deviation, strict=True)])

    @property
    def _rows(self) -> int:
        """How many rows can be orthogonal to each other and to the features."""
        return min(self.learner.width, self.data.input_dim - self.data.features)

    @identity("Lemma F.2", on="augmented", relation="=", because=TWO_PERCENT, range=POSITIVE)
    def orthogonal_rows_similarity(self, run: xr.Dataset) -> Found:
        r"""Noise alone can tell every sample apart.

        With unit rows orthogonal to each other and to the features, $\lVert f(x)\rVert^2$ is $\sqrt{m}$ times the root
        mean square of $\langle f(x), f(x')\rangle$. Measured: squared length over the typical product.
        """
        own, cross = theory.orthogonal_rows_similarity(self._rows, 1.0, self.stage1.s2)
        return Found(run.orthogonal_self / run.orthogonal_cross, predicted=own / cross, tolerance=0.02 * (own / cross))

    @identity(
        "Lemma F.2",
        on="augmented",
        equals=1.0,
        within=0.2,
        because="Tolerance: 20 %, a stated choice; the loss is the mean of a heavy tail.",
        note="The paper's bound, d/Σ||w_i||², is 400 times larger than what it bounds; the closed form was "
        "derived here. It reads log(1 + S) as S, and is expected to hold where it is below .1 τ.",
        range=POSITIVE,
        given=lambda study: study.loss_by_noise < SMALL * study.objective.loss.temperature,
    )
    def orthogonal_rows_loss(self, run: xr.Dataset) -> Found:
        r"""Noise alone lets the loss without augmentation vanish, exponentially in the number of neurons.

        With $m$ unit rows orthogonal to each other and to the features, it is $\tau |N| (1 + 2v - v^2)^{-m/2}$ with
        $v = s^2/\tau$, where that is small. Measured: the loss without augmentation on such rows, over that.
        """
        small = f"It is {self.loss_by_noise / self.objective.loss.temperature:.2g} τ."
        return Found(run.orthogonal_loss / self.loss_by_noise, small)

    @property
    def loss_by_noise(self) -> float:
        """The loss without mask of rows that see noise alone, where it is small."""
        tau, negatives = self.objective.loss.temperature, self.objective.negatives
        return theory.orthogonal_rows_loss(self._rows, 1.0, self.stage1.s2, tau, negatives)
