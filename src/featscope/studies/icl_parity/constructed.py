"""Claims of Theorem 5.5.1: margins of the networks in closed form, how good they are, and how many heads they take."""

from dataclasses import dataclass
from functools import partial
from math import comb

import numpy as np
import xarray as xr

from featscope.claims import POSITIVE, ROUNDING, SHARE, STATED, Found, bound, identity, ordering
from featscope.studies.icl_parity.arms import EXAMPLES, HALF, SEARCHES, SIZES, IclParityArms
from featscope.studies.icl_parity.endless import NETWORKS
from featscope.studies.reductions import largest, mean, smallest
from featscope.theory import sparse_parity as theory

ZERO = 1e-9
HALVED = "The mirrored heads answer the patterns that the others do not."
PRINTED = "P: the theorem takes 'optimal' as least loss, and its proof as least norm among networks without loss."
exactly = partial(bound, law="exact", at_most=ZERO, because="Bound: rounding.")
same = partial(identity, law="exact", within=ZERO, because=ROUNDING)
FEATURES = {f"d={d}": d for d in (2, 4, 8, 16)}
_EIGHT = tuple(name for name, (d, _) in SIZES.items() if d >= 8)
_FULL = tuple(name for name, (_, diagonal) in SEARCHES.items() if not diagonal)


def _tasks(features: int) -> tuple[np.ndarray, np.ndarray]:
    """Both features of every task, which differ."""
    first, second = np.nonzero(~np.eye(features, dtype=bool))
    return first, second


@dataclass(frozen=True)
class ConstructedClaims(IclParityArms):
    """Claims about networks that are set by hand, on endless prompts, and about searches for better ones."""

    # --- Margins (P-B1, P-B2) -----------------------------------------------------------------------------------------

    @exactly("derived, for Theorem 5.5.1", on=tuple(SIZES), not_on={HALF: HALVED})
    def margins_are_hamming_distances(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""Margins of both networks are the number of binary digits in which a task's features differ.

        $y\,g_2^*$ counts all $\nu_2$ digits and $y\,g_1^*$ the lowest $\nu_1$, for every pattern. Measured: largest
        difference over tasks and patterns.
        """
        d, k = self._size(arm)
        wanted = [theory.hamming(n.bit_length() - 1, d)[_tasks(d)] for n in (k, d)]
        off = [abs(self.of_tasks(run, name) - w) for name, w in zip(("small", "large"), wanted, strict=True)]
        return largest(xr.concat(off, "which"))

    @exactly("Theorem 5.5.1", on=tuple(SIZES), not_on={HALF: HALVED})
    def large_answers_every_task(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        """The large network has no loss on any task.

        Measured: hinge loss of the larger of S_1 and S_2.
        """
        return largest(xr.concat(self.losses(run, arm, "large"), "tasks"))

    @exactly("Theorem 5.5.1", on=tuple(SIZES), not_on={HALF: HALVED})
    def small_answers_important_tasks(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        """The small network has no loss on important tasks.

        Measured: hinge loss on S_1.
        """
        return self.losses(run, arm, "small")[0]

    @identity(
        "derived, for Theorem 5.5.1",
        on=tuple(SIZES),
        relation="=",
        law="exact",
        because=ROUNDING,
        note="It answers every pair that differs in the lowest digits, not only those of S_1.",
        range=POSITIVE,
    )
    def loss_on_other_tasks(self, run: xr.Dataset, arm: str) -> Found:
        r"""The small network's loss on other tasks is the share of pairs that it cannot tell apart.

        $d(d/k-1)/(d(d-1)-k(k-1))$. Measured: hinge loss on S_2.
        """
        d, k = self._size(arm)
        return Found(self.losses(run, arm, "small")[1], predicted=theory.other_loss(k, d), tolerance=ZERO)

    @same("Theorem 5.5.1, proof", on=tuple(SIZES), equals=1.0, range=POSITIVE)
    def least_margin_is_one(self, run: xr.Dataset) -> xr.DataArray:
        """The large network is as small as its form allows: some task has a margin of exactly 1.

        Measured: smallest margin over tasks and patterns.
        """
        return smallest(self.of_tasks(run, "large"))

    @exactly(
        "Theorem 5.5.1, proof",
        on=tuple(SIZES),
        note="The theorem has bin(i - 1) and its proof bin(i). Both are one to one on the digits that count.",
    )
    def features_may_count_from_one(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        """Features numbered from 1, as in the proof, do as well as those numbered from 0.

        Measured: hinge loss of such a large network, the larger of S_1 and S_2.
        """
        return largest(xr.concat(self.losses(run, arm, "from-one"), "tasks"))

    @exactly("Section 5.7", on=tuple(SIZES))
    def no_gap_without_input_noise(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        """After an endless prompt large and small networks answer important tasks alike.

        Measured: difference of their hinge losses on S_1, without sign.
        """
        return abs(self.losses(run, arm, "large")[0] - self.losses(run, arm, "small")[0])

    # --- Is it optimal? -----------------------------------------------------------------------------------------------

    @bound("Theorem 5.5.1", not_on=tuple(SIZES), at_least=1.0, law="exact", note="For p_T > 0, as the theorem has it.")
    def g1_is_optimal(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""No other weights of the small network's heads have a smaller loss.

        Measured: loss of all tasks, at half the printed $p_T$, with positive heads scaled by $\nu_1 + 1$ in place of
        $\nu_1$, over that of $g_1^*$.
        """
        return self._raised(run, arm)

    @same(
        "derived, for Theorem 5.5.1",
        on=tuple(SIZES),
        equals=0.5,
        note="On pairs that agree in the lowest digits it lifts the margin of two patterns from 0 to 1.",
        range=POSITIVE,
        corrects="g1-is-optimal",
    )
    def g1_suboptimal_when_task_noise(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""Positive heads that are a little larger halve the small network's loss.

        Measured: loss of all tasks, at half the printed $p_T$, with positive heads scaled by $\nu_1 + 1$ in place of
        $\nu_1$, over that of $g_1^*$.
        """
        return self._raised(run, arm)

    @same("Theorem 5.5.1", on=tuple(SIZES), equals=1.0, range=POSITIVE)
    def largest_rate_solves_its_condition(self, arm: str) -> float:
        r"""At the theorem's largest share of other tasks both sides of its condition are equal.

        Measured: $p_T\frac{d(d-1)}{2}(\frac14+\gamma)$ over $(1-p_T)(\frac14-\gamma)$ at that $p_T$.
        """
        features = self._size(arm)[0]
        rate = theory.printed_rate(features, self.gamma)
        return rate * comb(features, 2) * (0.25 + self.gamma) / ((1 - rate) * (0.25 - self.gamma))

    def _raised(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        rate = theory.printed_rate(self._size(arm)[0], self.gamma) / 2
        raised, small = (self.losses(run, arm, name) for name in ("raised", "small"))
        return ((1 - rate) * raised[0] + rate * raised[1]) / ((1 - rate) * small[0] + rate * small[1])

    @bound(
        "Theorem 5.5.1, proof",
        not_on=tuple(SEARCHES),
        at_least=1.0,
        range=POSITIVE,
        note=f"{PRINTED} Searches begin near the construction and keep the signs of its heads.",
    )
    def theorem_5_5_1_min_norm(self, run: xr.Dataset) -> xr.DataArray:
        """No network with the same heads and margins of at least 1 has a smaller norm.

        Measured: least sum of squared weights that a search finds, over the theorem's.
        """
        return run.norm_ratio

    @ordering(
        "derived, for Theorem 5.5.1",
        on=tuple(SEARCHES),
        less_than=1.0,
        range=POSITIVE,
        corrects="theorem-5-5-1-min-norm",
    )
    def less_norm_is_found(self, run: xr.Dataset) -> Found:
        """A search finds networks with the same heads, margins of at least 1, and a smaller norm.

        Measured: least sum of squared weights that it finds, over the theorem's.
        """
        return Found(run.norm_ratio, f"The best replica has {float(run.norm_ratio.min()):.3f}.")

    @identity(
        "derived here",
        on="search-diagonal",
        equals=1.0,
        within=1e-6,
        law="exact",
        because="Tolerance: rounding of float32.",
        range=SHARE,
    )
    def diagonal_search_stays_diagonal(self, run: xr.Dataset) -> xr.DataArray:
        """The search that is to stay diagonal in the features does.

        Measured: share of squared entries of V on the diagonal at its end.
        """
        return run.diagonal

    @bound("derived here", on=tuple(SEARCHES), at_most=1e-6, law="exact", because="Bound: rounding of float32.")
    def searches_end_at_rest(self, run: xr.Dataset) -> xr.DataArray:
        """A search ends with no step left to take, and with its smallest margin as sharp as it was to be.

        Measured: the larger of its step size, over that at the start, and what is missing of the sharpness, without
        sign.
        """
        return largest(xr.concat([run.going, abs(run.blur)], "of"))

    @identity(
        "derived, for Theorem 5.5.1",
        on="search-d=2",
        equals=0.5,
        within=0.01,
        because=f"Tolerance: 1 % for what is left of the search; {STATED}",
        note="Only the sum of the two rows counts, so the least norm shares it equally.",
        range=POSITIVE,
    )
    def two_features_take_half_the_norm(self, run: xr.Dataset) -> xr.DataArray:
        r"""With two features the least norm is half of the theorem's: $1/(4\gamma^2)$.

        Measured: least sum of squared weights over the theorem's.
        """
        return run.norm_ratio

    @bound("Theorem 5.5.1, proof", not_on=_FULL, at_least=0.999, because=f"Bound: {STATED}", range=SHARE, note=PRINTED)
    def optimum_is_diagonal(self, run: xr.Dataset) -> xr.DataArray:
        """The matrices of least norm are diagonal in the features.

        Measured: share of their squared entries that are on the diagonal.
        """
        return run.diagonal

    @bound(
        "derived, for Theorem 5.5.1",
        on="search-d=2",
        at_most=0.02,
        because=f"Bound: {STATED}",
        range=(0.0, 2.0),
        corrects="optimum-is-diagonal",
    )
    def two_features_have_equal_rows(self, run: xr.Dataset) -> xr.DataArray:
        """With two features the matrices of least norm have two equal rows, far from diagonal ones.

        Measured: squared distance of the rows over their squares, which is 1 for diagonal matrices.
        """
        return run.rows_apart

    # --- How many heads? ----------------------------------------------------------------------------------------------

    @bound(
        "Theorem 5.5.1, proof",
        on=("d=2", "d=4"),
        not_on=("d=8", "d=16"),
        relation=">=",
        law="exact",
        note="Negative heads. All families of sign vectors are tried.",
    )
    def heads_needed(self, arm: str) -> Found:
        r"""Fewer than $2\nu$ negative heads cannot cover all negative patterns.

        Measured: fewest with which it can be done, by search.
        """
        found, printed = theory.searched_heads(FEATURES[arm]), theory.printed_negative_heads(FEATURES[arm])
        _, family = theory.searched_family(FEATURES[arm])
        heads = " ".join("".join(map(str, one)) for one in family)
        return Found(
            float(found), f"{found} do, of which features have {heads}; printed: {printed}.", predicted=float(printed)
        )

    @same(
        "derived, for Theorem 5.5.1",
        on=tuple(FEATURES),
        relation="=",
        note="Features are sets of heads of which none holds another; Sperner's theorem says how many there are. At "
        "128 features it is 10 heads against the printed 14.",
    )
    def heads_needed_are_sperners(self, arm: str) -> Found:
        r"""Negative heads that are needed are the least n with at least d sets of ⌊n/2⌋ of n heads.

        Measured: fewest with which all negative patterns are covered, by search.
        """
        d = FEATURES[arm]
        return Found(float(theory.searched_heads(d)), predicted=float(theory.separating_heads(d)))

    @ordering("derived, for Theorem 5.5.1", on=_EIGHT, less_than=0.0, law="exact")
    def fewer_heads_suffice(self, run: xr.Dataset) -> Found:
        """A network with fewer heads than printed answers every task with a margin of 1.

        Measured: its heads less the printed 2(ν_2 + 1); nothing where some margin is below 1.
        """
        heads = run.heads.isel(network=NETWORKS.index("antichain"))
        printed = 2 * int(run.sizes["i"]).bit_length()
        reached = smallest(self.of_tasks(run, "antichain")) >= 1 - ZERO
        return Found((heads - printed).where(reached), f"{float(heads.mean()):.0f} heads; printed: {printed}.")

    @ordering("derived, for Theorem 5.5.1", on=_EIGHT, less_than=1.0, law="exact")
    def fewer_heads_have_less_norm(self, run: xr.Dataset) -> xr.DataArray:
        """That network has a smaller norm than the theorem's, too.

        Measured: its sum of squared weights over the theorem's.
        """
        norm = run.norm.isel(network=[NETWORKS.index(name) for name in ("antichain", "large")])
        return norm.isel(network=0) / norm.isel(network=1)

    @bound(
        "Theorem 5.5.2, definition of P_Z",
        not_on=tuple(SIZES),
        at_least=1.0,
        law="exact",
        note="The second half of the columns is minus the first. The study takes the pseudo-inverse.",
    )
    def printed_projection_exists(self, run: xr.Dataset) -> xr.DataArray:
        r"""$D^\top D$ has the inverse by which the projection is defined.

        Measured: rank of $D$ over its columns, the larger of both networks.
        """
        return largest(self._rank(run))

    @same(
        "derived, for Theorem 5.5.2", on=tuple(SIZES), equals=0.5, range=POSITIVE, corrects="printed-projection-exists"
    )
    def rank_is_half_the_heads(self, run: xr.Dataset) -> xr.DataArray:
        r"""$D_j$ has rank $\nu_j + 1$, half of its columns.

        Measured: rank over columns, mean of both networks.
        """
        return mean(self._rank(run))

    def _rank(self, run: xr.Dataset) -> xr.DataArray:
        both = [NETWORKS.index(name) for name in ("small", "large")]
        return (run["rank"] / run.heads).isel(network=both)

    # --- What claims are made of --------------------------------------------------------------------------------------

    def margins(self, run: xr.Dataset, name: str) -> xr.DataArray:
        """y g of one network for every pattern and pair of features; NaN for twice the same, which is no task."""
        return run.margin.isel(network=NETWORKS.index(name))

    def of_tasks(self, run: xr.Dataset, name: str) -> xr.DataArray:
        """The same for every pattern and task: ``[replica, pattern, task]``."""
        i, j = (xr.DataArray(place, dims="task") for place in _tasks(run.sizes["i"]))
        return self.margins(run, name).isel(i=i, j=j).transpose(..., "task")

    def losses(self, run: xr.Dataset, arm: str, name: str) -> tuple[xr.DataArray, xr.DataArray]:
        """Mean hinge loss of one network on S_1 and on S_2."""
        d, k = self._size(arm)
        chances = xr.DataArray(theory.pattern_probabilities(self.gamma), dims="pattern")
        tasks = ((1 - self.of_tasks(run, name)).clip(min=0) * chances).sum("pattern", skipna=False)
        inside = xr.DataArray(theory.important(d, k)[_tasks(d)] > 0, dims="task")
        return mean(tasks.where(inside, drop=True)), mean(tasks.where(~inside, drop=True))

    def _size(self, arm: str) -> tuple[int, int]:
        data = self.arm(arm).recipe.learner.data
        return data.features, data.important

    @property
    def small(self) -> int:
        """Place of g_1* among the networks of the arm `examples`."""
        return self._size(EXAMPLES)[1].bit_length() - 2
