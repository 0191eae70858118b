"""Claims of `fourier-circuits` about networks that are written down, and about single neurons."""

from dataclasses import dataclass
from functools import partial

import xarray as xr

from featscope.claims import COSINE, POSITIVE, Found, bound, identity
from featscope.studies.fourier_circuits.arms import (
    COMPOSITE,
    EVEN,
    EVENS,
    IDENTITIES,
    LARGE,
    LATTICE,
    LATTICES,
    NEURONS,
    ODD,
    ONE,
    PAPER,
    PRIMES,
    TERM,
    WRITTEN,
    FourierCircuitsArms,
)
from featscope.studies.reductions import largest, smallest
from featscope.theory import fourier_circuits as theory

EXACT = 1e-10
ROUNDED = "Bound: rounding of float64."
_SIZES = {WRITTEN: PRIMES, COMPOSITE: ODD, LATTICE: LATTICES, EVEN: EVENS}
of_every_size = partial(bound, law="extreme", things=lambda study: len(ODD), because=ROUNDED)
"""For each replica's random phases at every size; there are more of some than the six that are counted."""


def _off(run: xr.Dataset) -> xr.DataArray:
    """Largest difference of margins over γ* to 1, over all points and sizes."""
    return largest(xr.concat([abs(run.least - 1), abs(run.largest - 1)], "end"))


def _by_size(arm: str, predicted: list[float]) -> xr.DataArray:
    assert len(predicted) == len(_SIZES[arm])
    return xr.DataArray(predicted, dims="size")


@dataclass(frozen=True)
class ConstructedCircuits(FourierCircuitsArms):
    """Claims in which nothing is trained."""

    # --- The construction (Lemma 4.11, Theorem 4.9) -------------------------------------------------------------------

    @of_every_size("Theorem 4.9, Lemma 4.11", on=WRITTEN, at_most=EXACT)
    def gamma_star(self, run: xr.Dataset) -> xr.DataArray:
        r"""The construction has the margin of the theorem on every point.

        $\gamma^* = 2\,k!/\big((2k+2)^{(k+1)/2}(p-1)p^{(k-1)/2}\big)$ over $\|\theta\|_{2,k+1}^{k+1}$, on each of the
        $p^k$ points, $k = 2$ to 5, whatever phases each frequency starts at. Measured: largest difference of the margin
        over $\gamma^*$ to 1, against the largest and the smallest wrong logit, over points and sizes.
        """
        return _off(run)

    @bound(
        "Theorem 4.9, Section 4.5",
        on=LARGE,
        at_most=EXACT,
        law="extreme",
        things=lambda study: len(PAPER) * study.points,
        because=ROUNDED,
        note="Up to 6,436,343 points, 5632 neurons: rows are gathered.",
    )
    def gamma_star_at_paper_sizes(self, run: xr.Dataset) -> xr.DataArray:
        r"""The construction has that margin at the paper's sizes, too.

        $(k, p) = (3, 97), (4, 47), (5, 23)$. Measured: the same at random points.
        """
        return _off(run)

    @of_every_size("Condition 4.8", on=WRITTEN, at_most=EXACT)
    def wrong_labels_tie(self, run: xr.Dataset) -> xr.DataArray:
        r"""All wrong labels tie, on every point.

        So the margin to the largest is that to their mean, which the proof is about. Measured: largest difference of
        two wrong logits of a point over $\gamma^*$.
        """
        return largest(run.apart)

    @of_every_size(
        "Appendix C.7.2, C.7.3",
        not_on=WRITTEN,
        at_most=EXACT,
        note="The cosines of all frequencies sum to -1/2 where they do not all agree; see `logits-are-minus-half`.",
    )
    def logits_are_zero_elsewhere(self, run: xr.Dataset) -> xr.DataArray:
        r"""Scaled logits are (p - 1)/2 on the right label and 0 elsewhere, as printed.

        Scaled by $\beta^{k+1}2^{k-1}k!$. Measured: largest difference.
        """
        return largest(run.off_printed)

    @of_every_size(
        "derived, for Appendix C.7",
        on=WRITTEN,
        at_most=EXACT,
        note="So the margin is p/2, as γ* needs.",
        corrects="logits-are-zero-elsewhere",
    )
    def logits_are_minus_half(self, run: xr.Dataset) -> xr.DataArray:
        r"""Scaled logits are (p - 1)/2 on the right label and -1/2 elsewhere.

        Scaled by $\beta^{k+1}2^{k-1}k!$. Measured: largest difference.
        """
        return largest(run.off_values)

    @identity("Appendix C.7.2", not_on=WRITTEN, equals=56.0, within=0.0, law="exact", range=POSITIVE)
    def neurons_of_a_frequency_are_56(self, run: xr.Dataset) -> xr.DataArray:
        """One frequency takes 56 neurons at k = 3, as printed.

        Measured: neurons of the construction over frequencies.
        """
        return self._neurons(run, 3)

    @identity(
        "Lemma C.18",
        on=WRITTEN,
        equals=32.0,
        within=0.0,
        law="exact",
        range=POSITIVE,
        corrects="neurons-of-a-frequency-are-56",
    )
    def neurons_of_a_frequency(self, run: xr.Dataset) -> xr.DataArray:
        r"""One frequency takes 32 neurons at k = 3.

        $2^{2k-1}$: eight products of sines and cosines, four neurons for each. Measured: neurons of the construction
        over frequencies.
        """
        return self._neurons(run, 3)

    def _neurons(self, run: xr.Dataset, inputs: int) -> xr.DataArray:
        return run.neurons.isel(size=[k for k, _ in PRIMES].index(inputs))

    @of_every_size(
        "Lemma C.20",
        on=WRITTEN,
        at_most=EXACT,
        note="Points whose last index is 0 hold what does not depend on the label, of which nothing is said.",
    )
    def dft_line(self, run: xr.Dataset) -> xr.DataArray:
        r"""The Fourier transform of the logits lies on one line.

        $\hat f(j,\dots,j,-j) = \gamma^* p^k$ for $j \neq 0$, and 0 elsewhere but for the last index 0. Measured:
        largest difference over $\gamma^* p^k$.
        """
        return largest(xr.concat([run.on_line, run.off_line], "where"))

    @of_every_size(
        "Theorem 4.9, derived",
        on=WRITTEN,
        at_most=1e-9,
        note="Below 1, so that every frequency is needed. The theorem says that one neuron has it: read at least one.",
    )
    def deleting_a_frequency(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""Without one of its frequencies the network has a smaller margin, by a known ratio.

        $\frac{(p-2-2\cos(\pi/p))(p-1)}{p(p-3)}$: .553 at $p = 5$, .836 at 13. Measured: margin without a random
        frequency over $\gamma^*$ less this, without sign, the largest over sizes with $p > 3$.
        """
        ratios = [float(theory.ratio_without_a_frequency(p)) if p > 3 else 0.0 for _, p in PRIMES]
        return largest(abs(run.deleted - _by_size(arm, ratios)))

    @of_every_size("derived here", on=LATTICE, at_most=EXACT, note="The text says that its number may not be tight.")
    def width_not_necessary(self, run: xr.Dataset) -> Found:
        r"""Fewer neurons than printed reach the same margin.

        Phases $2\pi t g/N$, $t < N$, with $N = 6, 18, 54$ neurons a frequency at $k = 2, 3, 4$ instead of
        $2^{2k-1} = 8, 32, 128$. Measured: largest difference of the margin over $\gamma^*$ to 1.
        """
        return Found(_off(run), f"It takes {float(run.of_printed.min()):.0%} of the printed neurons at k = 4.")

    @of_every_size("derived here", on=COMPOSITE, at_most=EXACT, note="p = 9, 15 and 25.")
    def primality_not_needed(self, run: xr.Dataset) -> xr.DataArray:
        r"""The modulus need not be prime, only odd.

        Measured: largest difference of the margin over $\gamma^*$ to 1 on every point at odd composite $p$.
        """
        return _off(run)

    @of_every_size("derived here", on=EVEN, at_most=EXACT, note="Frequency p/2 has no sine, so it is left out.")
    def even_modulus(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""At an even modulus the construction falls short of the formula by (p - 1)/p.

        Measured: least margin over the formula, less $(p-1)/p$, without sign; the largest over sizes.
        """
        return largest(abs(run.least - _by_size(arm, [float(theory.even_ratio(p)) for _, p in EVENS])))

    @of_every_size(
        "Theorem 4.9",
        not_on=EVEN,
        at_most=1 + EXACT,
        note="The theorem is for primes. A neuron of frequency p/2 has ±1 where others have cosines.",
    )
    def formula_bounds_even_moduli(self, run: xr.Dataset) -> xr.DataArray:
        r"""The formula of the largest margin bounds margins at even moduli, too.

        Measured: margin over the formula once frequency $p/2$ is added; the largest over sizes.
        """
        return largest(run.with_all)

    @of_every_size("derived here", on=EVEN, at_most=EXACT, corrects="formula-bounds-even-moduli")
    def even_modulus_with_all(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""With the last frequency an even modulus has a margin above the formula, by a known ratio.

        $(p-1)/(p-2+2^{-(k-1)/2})$, where $2^{k-1}$ neurons have $\pm1$ for cosines. Measured: margin over the formula
        less this, without sign; the largest over sizes.
        """
        ratios = [float(theory.even_ratio_with_all(k, p)) for k, p in EVENS]
        return largest(abs(run.with_all - _by_size(arm, ratios)))

    # --- One neuron (Lemma C.14, C.15) --------------------------------------------------------------------------------

    @of_every_size("Lemma C.14", on=ONE, at_most=EXACT)
    def fourier_margin_is_brute_force(self, run: xr.Dataset) -> xr.DataArray:
        r"""A neuron's mean margin follows from its Fourier coefficients.

        $\frac{k!}{(p-1)p^k}\sum_{j\neq0}\hat w(-j)\prod_i\hat u_i(j)$. Measured: the difference to the mean over all
        $p^k$ points over $\gamma^*$, largest over random neurons and sizes.
        """
        return largest(run.off_formula)

    @of_every_size("Lemma 4.10, C.15", on=ONE, at_least=1 - 1e-9)
    def single_neuron_margin(self, run: xr.Dataset) -> xr.DataArray:
        r"""A single neuron can have the largest margin, and finds it from random weights.

        Each vector in turn is set to the best given the others; or all go up the gradient at once. Measured: mean
        margin over all points at the end over $\gamma^*$, the smallest over both ways, restarts and sizes.
        """
        return smallest(run.worst)

    @of_every_size("Lemma 4.10, C.15", on=ONE, at_most=1 + EXACT)
    def neuron_never_exceeds(self, run: xr.Dataset) -> xr.DataArray:
        r"""No neuron has a larger mean margin than the largest.

        Measured: over $\gamma^*$, the largest on the way up, over both ways, restarts and sizes.
        """
        return largest(run.best)

    @of_every_size("Lemma C.15", on=ONE, at_least=1 - 1e-6)
    def best_neuron_has_one_frequency(self, run: xr.Dataset) -> xr.DataArray:
        """The best neuron has one frequency, the same in all of its vectors.

        Measured: share of a vector's power at its largest frequency, the smallest; 0 where frequencies differ.
        """
        return smallest(run.peak_share * run.frequencies)

    @bound("Lemma C.15", on=ONE, at_least=1 - 1e-9, law="extreme", things=lambda study: len(NEURONS), range=COSINE)
    def phase_rule(self, run: xr.Dataset) -> xr.DataArray:
        """The phases of the best neuron's embeddings sum to that of its read-out.

        Measured: cosine of the difference, the smallest over restarts and sizes.
        """
        return smallest(run.phase_rule)

    @of_every_size(
        "Lemma C.15",
        on=ONE,
        at_most=EXACT,
        note="From random norms. That it ends at a best neuron is `single-neuron-margin`.",
    )
    def equal_blocks(self, run: xr.Dataset) -> xr.DataArray:
        r"""Each of the best neuron's k + 1 vectors has the same norm.

        Measured: largest difference of $(k+1)\|v\|^2$ to 1 after gradient ascent in which the norm of the whole neuron
        is held, and not those of its vectors.
        """
        return largest(run.balance)

    # --- Identities ---------------------------------------------------------------------------------------------------

    @bound(
        "Lemma C.16, Eq. C.21",
        on=IDENTITIES,
        at_most=1e-13,
        law="extreme",
        things=lambda study: 50,
        because=ROUNDED,
        note="The 1 - 1/(p - 1) = p/(p - 1) in the proof has a wrong sign; it is used with the right one.",
    )
    def identities(self, run: xr.Dataset) -> xr.DataArray:
        r"""A product is a signed sum of powers, and a cosine of a sum is a sum of products.

        $2^kk!\prod d_i = \sum_{e\in\{\pm1\}^k}(-1)^{(k-\sum e)/2}(\sum_j e_jd_j)^k$, half of it over $e_1 = 1$; and
        $\cos(a_1+\dots+a_k-c)$ by its terms with an even number of sines. Measured: largest difference for random
        numbers, $k = 2$ to 6, over the largest power.
        """
        return largest(xr.concat([run.signed, run.half, run.expansion], "which"))

    @bound("Parseval's identity", on=IDENTITIES, at_most=1e-12, law="exact", because=ROUNDED)
    def power_is_the_square(self, run: xr.Dataset) -> xr.DataArray:
        r"""Of two cosines, one twice as large, the larger has four fifths of the power.

        All that is said of spectra here is a share of power. Measured: its share less that, the largest over 5 to 13
        residues.
        """
        return largest(abs(run.larger - 0.8))

    @identity("Lemma 4.11, sketch", not_on=IDENTITIES, equals=1.0, within=0.0, law="exact", range=POSITIVE)
    def sketch_has_all_terms(self, run: xr.Dataset) -> xr.DataArray:
        r"""The cosine of the sum of k angles has as many terms as the sketch counts.

        Measured: terms of $\cos(a_1+\dots+a_k)$ over $2^k$, mean over $k$.
        """
        return run.terms_without.mean("inputs")

    @identity(
        "Eq. C.21", on=IDENTITIES, equals=1.0, within=0.0, law="exact", range=POSITIVE, corrects="sketch-has-all-terms"
    )
    def expansion_has_all_terms(self, run: xr.Dataset) -> xr.DataArray:
        r"""With the label among the angles there are that many.

        Measured: terms of $\cos(a_1+\dots+a_k-c)$ over $2^k$, mean over $k$.
        """
        return run.terms.mean("inputs")

    @bound(
        "Appendix C.7.2, before Eq. C.20",
        not_on=TERM,
        at_most=1e-13,
        law="extreme",
        things=lambda study: 50,
        because=ROUNDED,
    )
    def neurons_are_as_printed(self, run: xr.Dataset) -> xr.DataArray:
        r"""The four neurons of a term with two sines are those that their printed phases make.

        Measured: largest difference over neurons and random angles. $\cos(x+\pi/2) = -\sin x$.
        """
        return largest(run.off)

    @bound(
        "Appendix C.7.2, mended",
        on=TERM,
        at_most=1e-13,
        law="extreme",
        things=lambda study: 50,
        because=ROUNDED,
        note="Eq. C.20.",
        corrects="neurons-are-as-printed",
    )
    def neurons_with_both_sines_turned(self, run: xr.Dataset) -> xr.DataArray:
        r"""With the other sign of both sines they are, and sum to 24 times the term as printed.

        Measured: largest difference over neurons and random angles, of each neuron and of the sum.
        """
        return largest(xr.concat([run.off_mended, run.sum_off], "which"))

    @identity("Appendix C.8.1", not_on=IDENTITIES, equals=1.0, within=1e-10, because=ROUNDED, range=POSITIVE)
    def first_monomial_as_printed(self, run: xr.Dataset) -> xr.DataArray:
        r"""The Fourier transform of the monomial of one input is zero but where that input's index is 0.

        $u_1(a_1)^kw(c)$ at $j_1 = 0$. Measured: share of its power there, random $u_1$ and $w$, mean over $k$.
        """
        return run.first_printed.mean("inputs")

    @identity(
        "Appendix C.8.1, mended",
        on=IDENTITIES,
        equals=1.0,
        within=1e-10,
        because=ROUNDED,
        law="exact",
        range=POSITIVE,
        corrects="first-monomial-as-printed",
    )
    def first_monomial(self, run: xr.Dataset) -> xr.DataArray:
        r"""The Fourier transform of the monomial of one input is zero but where the other inputs' indices are 0.

        $u_1(a_1)^kw(c)$ at $j_2 = \dots = j_k = 0$. Measured: share of its power there, random $u_1$ and $w$, mean over
        $k$.
        """
        return run.first.mean("inputs")
