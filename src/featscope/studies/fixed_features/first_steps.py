"""Claims of `fixed-features` about the first two steps."""

from dataclasses import dataclass
from math import comb

import xarray as xr

from featscope.claims import COSINE, POSITIVE, STATED, Found, bound, identity
from featscope.studies.fixed_features.arms import (
    GENERAL,
    GENERAL_RANDOM,
    INTERVAL,
    NETWORK,
    NOTHING_TO_FIND,
)
from featscope.studies.fixed_features.exact import ExactClaims
from featscope.studies.reductions import largest
from featscope.theory import dictionary_learning as theory

_CHANCE = "Without structure there is nothing to find."


@dataclass(frozen=True)
class FirstStepsClaims(ExactClaims):
    """Claims of `fixed-features` about the first two steps."""

    # --- The first two steps ------------------------------------------------------------------------------------------

    @bound(
        "Lemma A.9",
        on=NETWORK,
        not_on={NOTHING_TO_FIND: _CHANCE},
        at_most=0.1,
        because=f"Bound: {STATED}",
        range=POSITIVE,
    )
    def step1_concentration(self, run: xr.Dataset) -> xr.DataArray:
        r"""In the first step relevant patterns pull with $\beta_i\gamma/\tilde\sigma$, $\beta_i$ the activation rate.

        Measured: mean over neurons of |mean T on relevant patterns / ($\beta_i\gamma/\tilde\sigma$) - 1|.
        """
        return abs(run.on_over_active.isel(pull=0) - 1).mean("neuron", skipna=False)

    @identity(
        "derived, for Lemma A.9",
        on=INTERVAL,
        equals=1.0,
        within=0.1,
        because="Tolerance: as in step1-concentration.",
        range=POSITIVE,
        note="A pattern tells as much of the label as it is likely to decide it.",
    )
    def interval_labels_pull_by_their_edge(self, run: xr.Dataset) -> xr.DataArray:
        r"""In the first step interval labels pull in proportion to how often one pattern less would change them.

        $\gamma=2p(1-p)P(S=2k-1)$, where S counts the other 3k - 1 relevant patterns, each there with p = 2/3. Measured:
        mean T on relevant patterns over $\beta_i\gamma/\tilde\sigma$, mean over neurons.
        """
        others, wanted = 3 * self.relevant - 1, 2 * self.relevant - 1
        edge = comb(others, wanted) * 2**wanted / 3**others
        own = self.arm(INTERVAL).recipe.data.gamma  # which the measurement is over
        return run.on_over_active.isel(pull=0).mean("neuron", skipna=False) * own / (4 / 9 * edge)

    @identity(
        "derived, for Lemma A.9",
        on=(NETWORK, NOTHING_TO_FIND),
        equals=1.0,
        within=0.25,
        because="Tolerance: chance in samples, which a replica's neurons share, and what does not fall with them.",
        range=POSITIVE,
    )
    def step1_off_patterns_at_the_floor(self, run: xr.Dataset) -> xr.DataArray:
        r"""In the first step other patterns pull as much as samples make them: $\sigma_\phi\sqrt{E[s_i^2]/n}$.

        $s_i$ is the slope of the smoothed activation, between 0 and 1; its mean is the activation rate $\beta_i$.
        Measured: root mean square T off the relevant patterns over it, mean over neurons.
        """
        return run.off_over_floor.isel(pull=0).mean("neuron", skipna=False)

    @identity(
        "derived, for Lemma A.12",
        on=NETWORK,
        not_on={NOTHING_TO_FIND: _CHANCE},
        equals=1.0,
        within=0.25,
        because="Tolerance: as of the floor off the patterns.",
        range=POSITIVE,
    )
    def alignment_formula(self, run: xr.Dataset) -> xr.DataArray:
        r"""Neurons miss the relevant patterns by what samples take: cosines are $1/\sqrt{1+\tau^2E[s_i^2]/\beta_i^2}$.

        $\tau^2=((D-k)p_o(1-p_o)+(k-1)p_o/4)/(nk\gamma^2)$, and $s_i$ is the slope of the smoothed activation, of mean
        $\beta_i$. Measured: squared tangent after one step over $\tau^2E[s_i^2]/\beta_i^2$, median of neurons.
        """
        missed = run.cosine.isel(stage=1) ** -2 - 1
        first = run.isel(pull=0)
        spread = theory.spread(self.patterns, self.relevant, 0.5, self.samples)
        return (missed * first.active**2 / (spread * first.active_square)).median("neuron", skipna=False)

    @identity(
        "Lemma A.17",
        on=NETWORK,
        equals=0.0,
        within=1e-9,
        because="Tolerance: rounding.",
        law="exact",
        range=POSITIVE,
        note="The second step forgets W, so that what it finds hardly tells how long the first was.",
    )
    def steps_are_as_long_as_chosen(self, run: xr.Dataset) -> xr.DataArray:
        r"""Both steps are as long as the lemma has them: $\eta^{(1)}=\gamma^2\tilde\sigma/(km^3)$, $\eta^{(2)}=1$.

        Measured: $\|w_i\|$ after a step over $|a_i|\|T_i\|$ before it, mean over neurons, over this, off 1; the larger
        of both.
        """
        first = self.arm(NETWORK).recipe.data.gamma ** 2 / (self.relevant * self.neurons**3)
        return largest(abs(run.step_size / xr.DataArray([first, 1.0], dims="pull") - 1))

    @bound(
        "Section 2.6, Table A.1",
        on=(NETWORK, GENERAL),
        not_on={NOTHING_TO_FIND: _CHANCE},
        at_least=0.99,
        because="Bound: as the text has it.",
        range=COSINE,
    )
    def two_steps_find_the_patterns(self, run: xr.Dataset) -> xr.DataArray:
        """After two steps a neuron points at the sum of the relevant patterns.

        Measured: largest cosine of a neuron.
        """
        return run.cosine.isel(stage=2).max("neuron", skipna=False)

    @bound(
        "Table A.1",
        not_on=NETWORK,
        at_most=0.9,
        because="Bound: the table has 0.848.",
        range=COSINE,
        note="A step that forgets is aligned already; see printed-one-step-cosine-keeps-some-of-the-start.",
    )
    def one_step_is_not_aligned(self, run: xr.Dataset) -> xr.DataArray:
        """After one step the best neuron is still some way from the relevant patterns.

        Measured: largest cosine of a neuron.
        """
        return run.cosine.isel(stage=1).max("neuron", skipna=False)

    @identity(
        "derived, for Tables A.1 to A.5",
        on=(NETWORK, GENERAL_RANDOM),
        relation="=",
        within=0.1,
        because=f"Tolerance: {STATED}",
        range=COSINE,
    )
    def start_is_as_aligned_as_chance(self, run: xr.Dataset, arm: str) -> Found:
        """At the start the best neuron is the best of m random directions.

        Measured: largest cosine of a neuron, against its mean by integration.
        """
        dimension = self.arm(arm).recipe.data.dimension or self.patterns
        predicted = theory.best_random_cosine(self.neurons, dimension)
        return Found(run.cosine.isel(stage=0).max("neuron", skipna=False), predicted=predicted)
