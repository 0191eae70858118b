"""Claims about what follows from what neurons hold, with masking and without (Wen & Li 2021, Sections 2 and 3)."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
import xarray as xr

from featscope.claims import COSINE, PAIRED, POSITIVE, SHARE, Found, bound, identity, ordering
from featscope.probes.stored import energies, energy
from featscope.studies import Runs, last
from featscope.studies.decoupling.at_start import is_spread
from featscope.studies.decoupling.balance import Balance
from featscope.studies.decoupling.figures import numbered
from featscope.studies.decoupling.stage_one import energy_at_the_end
from featscope.studies.decoupling.stage_three import (
    TREND,
    WITH_AND_WITHOUT,
    WITHOUT,
    features_of,
    nine_in_ten,
    ratio_of,
)
from featscope.studies.summaries import in_words
from featscope.theory import decoupling as theory

LOUD = (
    "From a start of norm 1/4, with half as many features. It was 1, until it was seen that there the loss is gone "
    "before the first step and nothing is learned."
)


@dataclass(frozen=True)
class Corollaries(Balance):
    """What is said of outputs, of linear heads, and of training without augmentation."""

    # --- Noise in the output (Theorem 3.4) ----------------------------------------------------------------------------

    @identity(
        "Theorem 3.4",
        on="augmented",
        not_on={"smaller": TREND},
        equals=1.0,
        within=0.2,
        because="Tolerance: 20 %, a stated choice; half of the neurons hold several features.",
        range=POSITIVE,
        corrects="noise-below-printed-bound",
        given=is_spread,
    )
    def noise_removed(self, run: xr.Dataset, arm: str) -> Found:
        r"""Noise moves the output as little as that of the ideal network.

        $\lVert f(x) - f(Mz)\rVert$ is small against $\lVert f(Mz)\rVert$. Measured: root mean square of the one over
        that of the other, where there is a signal, over what it is for $w_i = M_i$ with thresholds in the same ratio to
        the norms.
        """
        ideal = self.ideal(self.arm(arm).recipe.data, ratio_of(run))
        why = f"The ideal one has {ideal.noise_moves:.2f}, {ideal.best.noise_moves:.2f} at the best threshold."
        return Found(run.noise_moves / ideal.noise_moves, why)

    @identity(
        "derived, for Theorem 3.4",
        on="augmented",
        equals=1.0,
        within=0.02,
        because="Tolerance: a million draws have errors of half a per cent.",
        range=POSITIVE,
    )
    def ideal_noise_is_as_drawn(self, run: xr.Dataset) -> xr.DataArray:
        r"""Noise moves the ideal network's output as its closed form says.

        Measured: root mean square of $h(z + \xi) - h(z)$ over that of $h(z)$ in a million draws of a feature and the
        noise along it, where there is a signal, over the closed form; $h$ cuts off what is below the threshold. Draws
        are others for each replica, and the same in every run.
        """
        ideal = self.ideal(self.data, ratio_of(run))

        def moves(replica: int) -> float:
            draws = np.random.default_rng(replica)
            z = (draws.random((10**6 // ideal.features, ideal.features)) < ideal.p).astype(float)
            z = z[z.any(1)]
            noisy = z + draws.normal(0, sqrt(ideal.s2), z.shape)
            clean, moved = (np.sign(x) * np.maximum(abs(x) - ideal.threshold, 0) for x in (z, noisy))
            return float(np.sqrt(np.square(moved - clean).mean() / np.square(clean).mean()))

        return xr.DataArray([moves(replica) for replica in run.replica.values], dims="replica") / ideal.noise_moves

    @bound(
        "Theorem 3.4",
        not_on={
            "augmented": "",
            "smaller": TREND,
            "plain": "For comparison: without augmentation noise moves f about as much as signals do.",
        },
        relation="<=",
        because="Bound: 1/√d with constant 1, where the paper's Õ hides a power of log d. It is out of reach of any "
        "network of this kind: with w_i = M_i the noise in a neuron is s = (log d)^(1/4)/√d.",
        range=POSITIVE,
    )
    def noise_below_printed_bound(self, run: xr.Dataset, arm: str) -> Found:
        r"""The output hardly moves when the noise is taken away.

        $\lVert f(x) - f(Mz)\rVert \le \tilde{O}(1/\sqrt{d})$ while $\lVert f(Mz)\rVert \ge \Omega(1)$. Measured: root
        mean square of the one over that of the other, where there is a signal.
        """
        data = self.arm(arm).recipe.data
        best = self.ideal(data, 0.5).best.noise_moves
        return Found(run.noise_moves, f"The ideal network has {best:.2f}.", predicted=1 / sqrt(data.features))

    # --- Linear heads (Corollaries 3.3 and 3.5) -----------------------------------------------------------------------

    @ordering(
        "Corollaries 3.3, 3.5",
        on="augmented",
        not_on="canonical",
        less_than=0.8,
        because="Bound: a stated choice.",
        note="Until training ended on a plateau it ended where the head reads best, and the bound was .6.",
        range=POSITIVE,
        given=is_spread,
    )
    def downstream_regression(self, run: xr.Dataset, runs: Runs) -> Found:
        r"""A linear head on what was learned does far better than one on the raw input.

        It regresses $\langle w^{*}, z\rangle$. Measured: error on the representation over that on the raw input.
        """
        raw = theory.raw_readout_error(self.stage1.p, self.stage1.s2)
        why = f"With unlimited labels the raw input gives {raw:.3f} of Var(y)."
        return Found(run.representation_error / runs["augmented"].raw_error, why)

    @identity(
        "Corollary 3.5",
        on="augmented",
        equals=1.0,
        within=0.15,
        because="Tolerance: 15 %, a stated choice.",
        note="The corollary has o(1); what it is at this size follows from the ideal network. Its time ends at "
        "d^1.49/η, 700 steps at the default size; this is the plateau after it.",
        range=POSITIVE,
        given=is_spread,
    )
    def regression_as_ideal(self, run: xr.Dataset) -> Found:
        r"""A linear head misses as little of the signal as on the ideal network.

        Measured: error of $\langle w^{*}, z\rangle$ on the representation, over the error of the best head on the
        network $w_i = M_i$ with thresholds in the same ratio to the norms.
        """
        ideal = self.ideal(self.data, ratio_of(run))
        why = f"The ideal one misses {ideal.readout_error:.3f}, {ideal.best.readout_error:.3f} at the best threshold."
        return Found(run.representation_error / ideal.readout_error, why)

    @bound(
        "Corollary 3.5",
        on="augmented",
        at_least=0.8,
        because="Bound: four in five, where the corollary has 1 - o(1).",
        range=SHARE,
        given=is_spread,
    )
    def classification_is_right(self, run: xr.Dataset) -> Found:
        r"""A linear head on what was learned classifies well.

        Labels are $\operatorname{sign}\langle w^{*}, z\rangle$. Measured: accuracy on held-out samples.
        """
        return Found(run.representation_accuracy, f"The oracle reaches {in_words(run.oracle_accuracy, '{:.3f}')}.")

    @bound(
        "Corollary 3.3",
        on="plain",
        relation=">=",
        because="Bound: what unlimited labels give on the raw input, of which the representation is a linear map.",
        range=POSITIVE,
    )
    def plain_regression_fails(self, run: xr.Dataset) -> Found:
        r"""Without augmentation a linear head misses a constant share of the signal.

        The error of $\langle w^{*}, z\rangle$ is $\Omega(1)$; it cannot be below $s^2/(p + s^2)$. Measured: the error
        over the variance.
        """
        return Found(run.representation_error, predicted=theory.raw_readout_error(self.stage1.p, self.stage1.s2))

    @bound(
        "Corollary 3.3",
        on="plain",
        at_most=0.8,
        because="Bound: four in five, the one that classification-is-right must exceed.",
        note="Printed is Pr(correct) = o(1), which flipping signs would refute; read: error Ω(1). Thresholds are at 0, "
        "so that the representation is linear, as with masking.",
        range=SHARE,
    )
    def plain_classification_fails(self, run: xr.Dataset) -> xr.DataArray:
        r"""Without augmentation a linear head classifies a constant share wrongly.

        Labels are $\operatorname{sign}\langle w^{*}, z\rangle$. Measured: accuracy on held-out samples.
        """
        return run.representation_accuracy

    @ordering("Corollaries 3.3, 3.5", on=WITH_AND_WITHOUT, more_than=0.0, because=PAIRED, given=is_spread)
    def downstream_classification(self, run: xr.Dataset, runs: Runs, arm: str) -> xr.DataArray:
        r"""A linear head classifies better with augmentation than without.

        Labels are $\operatorname{sign}\langle w^{*}, z\rangle$, inputs the augmented or the plain representation.
        Measured: accuracy with augmentation minus accuracy without.
        """
        return run.representation_accuracy - runs[WITHOUT[arm]].representation_accuracy

    # --- Without augmentation (Theorem 3.2, Appendix F) ---------------------------------------------------------------

    @nine_in_ten(
        "Theorem 3.2, Fact F.4",
        on={"loud-start": LOUD},
        not_on={
            "plain": "From a small start features grow 1 + p/s² times as fast as noise until the loss saturates, which "
            "is long."
        },
        note="A network that learns nothing keeps what it had; that there is learning plain-loss-vanishes says.",
        range=SHARE,
    )
    def plain_overwhelmed_by_noise(self, run: xr.Dataset) -> Found:
        """Without augmentation the weights are nearly all noise.

        They stay orthogonal to the features. Measured: mean share of squared norm outside their span.
        """
        start = in_words(1 - energy(run).isel(step=0), "{:.3f}")
        return Found(1 - energy_at_the_end(run), f"At the random start it was {start}.")

    @nine_in_ten(
        "Theorem 3.2",
        on={"loud-start": LOUD},
        not_on="plain",
        note="It is near 1 already at a random start (about 1 - p d/(2 s² d1)), so it cannot tell arms apart "
        "by itself.",
        range=COSINE,
    )
    def plain_output_is_noise(self, run: xr.Dataset) -> Found:
        r"""Without augmentation the output is nearly that of the noise alone.

        $\cos(f(x), f(\xi)) \ge 1 - \tilde{O}(1/\operatorname{poly}(d))$. Measured: the mean cosine in the end.
        """
        start = in_words(run.noise_cosine.isel(step=0))
        return Found(last(run, run.noise_cosine), f"At the random start it was {start}.")

    @identity(
        "derived, for Theorem 3.2",
        on={"plain": "", "loud-start": LOUD},
        equals=1.0,
        within=0.05,
        because="Tolerance: 5 %, a stated choice; the mean is over inputs, the form of squares.",
        range=POSITIVE,
    )
    def output_noise_is_of_the_weights(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""Without augmentation the share of noise in the output is that in the weights.

        Where thresholds are 0, $\cos(f(x), f(\xi)) = (1 + R)^{-1/2}$, $R = \frac{p}{s^2} \lVert WM\rVert_F^2 / \lVert
        W\rVert_F^2$. Measured: the mean cosine in the end, over that.
        """
        data, squares = self.arm(arm).recipe.data, last(run, run.norm) ** 2
        of_features = (squares * last(run, energies(run))).sum("neuron", skipna=False)
        share = of_features / squares.sum("neuron", skipna=False)
        return last(run, run.noise_cosine) / theory.noise_cosine(share, data.activity, data.noise_variance)

    @bound(
        "Theorem 3.2",
        on={"plain": "", "loud-start": LOUD},
        at_most=0.3,
        because="Bound: a stated choice, where the theorem has o(1).",
        range=POSITIVE,
    )
    def plain_loss_vanishes(self, run: xr.Dataset) -> Found:
        """Without augmentation the loss goes to nothing. Measured: the loss in the end, over the temperature."""
        loss = run.loss / self.objective.loss.temperature
        return Found(last(run, loss), f"At the random start it was {in_words(loss.isel(step=0), '{:.2g}')}.")

    @bound(
        "Lemma F.3",
        on="plain",
        relation=">=",
        because="Bound: with constant 1 and without the power of log d.",
        range=POSITIVE,
    )
    def plain_weights_grow(self, run: xr.Dataset) -> Found:
        r"""Without augmentation the weights become large.

        $\sum_i \lVert w_i\rVert^2 = \Omega(\tau d \operatorname{polylog} d)$ after $\tilde{\Omega}(d/\eta)$ steps.
        Measured: the sum in the end.
        """
        return Found(
            last(run, (run.norm**2).sum("neuron", skipna=False)),
            predicted=self.objective.loss.temperature * self.data.features,
        )

    @features_of(
        "derived, for Theorem 3.2",
        on="thresholds-only",
        because="Bound: nine features in ten, that of singletons-emerge, when 29 to 32 of 32 were known.",
    )
    def thresholds_find_features_unmasked(self, run: xr.Dataset) -> xr.DataArray:
        r"""With thresholds that rise, features get neurons of their own without a mask, too.

        At $b = 0$ features outgrow noise by $1 + p/s^2$ in the rate; thresholds then sort out what has grown.
        Measured: share of features that a neuron holds alone in the end.
        """
        return last(run, run.coverage)

    @ordering("Theorem 3.2", on="plain", more_than=0.0)
    def plain_noise_trend(self, run: xr.Dataset, runs: Runs) -> Found | None:
        r"""The more dimensions noise has, the more of the weights it takes.

        The share of squared norm outside the features' span grows with $d_1/d$. Measured: difference between the
        largest and the smallest input dimension.
        """
        at = {**numbered(runs, "plain-"), self.data.input_dim: run}
        outside = {d1 / self.data.features: 1 - energy_at_the_end(each) for d1, each in at.items()}
        values = ", ".join(f"{in_words(share)} at d1/d = {ratio:g}" for ratio, share in outside.items())
        if len(outside) < 3:
            return None
        smallest, *_, largest = outside.values()
        return Found(largest - smallest, f"Measured: {values}.")

    # --- Other ways to train (Remark 2.4, Message 3) ------------------------------------------------------------------

    @identity(
        "Remark 2.4",
        on="masked-negatives",
        equals=0.0,
        within=0.05,
        because="Tolerance: one feature in twenty, a stated choice. Paired by replica.",
        note="Until a review it compared shares of feature energy, of which a linear network has nearly as much.",
        things=lambda study: study.data.features,
        range=COSINE,
    )
    def negatives_need_no_mask(self, run: xr.Dataset, runs: Runs) -> xr.DataArray | None:
        """It makes no difference whether negatives are masked too.

        Measured: share of features held by a singleton with masked negatives, less that with negatives as they are.
        """
        return last(run, run.coverage) - last(runs["tau-1"], runs["tau-1"].coverage) if "tau-1" in runs else None

    @identity(
        "Remark 2.4",
        on="masked-negatives",
        equals=0.5,
        within=0.02,
        because="Tolerance: a stated choice; of as many coins as a batch has, the share errs by less than a hundredth.",
        note="Negatives as they are have no zeros, and nothing else tells them from masked ones where it makes no "
        "difference.",
        range=SHARE,
    )
    def negatives_are_masked(self, run: xr.Dataset) -> xr.DataArray:
        """Half of each masked negative is hidden. Measured: share of zeros in the negatives of a batch."""
        return run.negatives_masked

    @features_of(
        "Message 3",
        on="supervised",
        not_on={"one-label": "Control: the gradient of one task moves all neurons in one direction."},
        because="Bound: nine features in ten.",
        note="Shown in the paper on images, and said of this data model in its introduction, without a theorem. One "
        "label alone, which this study had at first, cannot show it.",
    )
    def supervised_finds_the_same(self, run: xr.Dataset) -> xr.DataArray:
        """Training on labels finds the same features. Measured: share of features held by a singleton."""
        return last(run, run.coverage)

    @nine_in_ten(
        "Message 3",
        on="one-label",
        not_on="supervised",
        because="Bound: a stated choice.",
        range=SHARE,
    )
    def one_label_is_one_direction(self, run: xr.Dataset) -> xr.DataArray:
        """One label moves all neurons along one direction.

        Measured: share of the energy of the matrix of cosines of neurons and features that its first singular direction
        has.
        """
        cosines = last(run, run.alignment).transpose("replica", "neuron", "feature")
        energies = np.square(np.linalg.svd(np.nan_to_num(cosines.values), compute_uv=False))
        first = energies[:, 0] / energies.sum(-1)
        return run.last_step.astype(float).copy(data=first).where(cosines.notnull().all(("neuron", "feature")))
