"""What `pruning` claims of what Theorem 3.2 assumes and says of a step, and of where closed forms say training ends."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr

from featscope.claims import COSINE, POSITIVE, Found, bound, identity, ordering
from featscope.studies import last, looked
from featscope.studies.pruning.arms import JUDGED, LITTLE, PruningArms, follows_theory
from featscope.studies.reductions import known, largest
from featscope.theory.imbalance import activities, pair_correlation
from featscope.theory.pruning import stated_factors, stationary_energies

CONSTANT = "Bound: with constant 1."
as_drawn = partial(identity, on="one-step", equals=1.0, within=0.1, range=POSITIVE)


NOT_ALONE = "Ω leaves it open, and growth without pruning is larger by far, too."


FAINT = 1e-30  # far above the smallest number of float32


def _hidden_norms_stay_above_rounding(study: PruningArms) -> bool:
    """Whether decay alone leaves what float32 can hold, however long the arm trains."""
    decay = 1 - study.optimizer.lr * study.optimizer.weight_decay
    return decay > 0 and decay ** min(study.settling_steps, study.steps) > FAINT


@dataclass(frozen=True)
class Assumed(PruningArms):
    """Claims of what is assumed, of Lemma F.1, and of the printed factors of Theorem 3.2."""

    @as_drawn("Definition 3.1", because="Tolerance: 10 %, as rare samples are few; a stated choice.")
    def rare_frequency(self, run: xr.Dataset) -> xr.DataArray:
        """A rare feature is as frequent as it should be. Measured: its frequency in samples over its probability."""
        return run.presence / float(self._activities("one-step")[-1])

    @identity("Algorithm 1", on="stationary", equals=0.0, within=0.0, because="Tolerance: none.", law="exact")
    def as_many_are_pruned(self, run: xr.Dataset) -> xr.DataArray:
        r"""At every step a share $\alpha$ of the neurons is pruned.

        Measured: the largest difference of their number from $\alpha m$, rounded, over ratios and looks since pruning
        was to begin.
        """
        recipe = self.arm("stationary").recipe
        neurons = recipe.learner.neurons * recipe.data.features
        wanted = np.round(run["ratio"] * neurons)
        looks = (run["step"] >= max(1, recipe.rules["pruning"].start)) & looked(run)
        return largest(abs(run.pruned - wanted).where(looks, 0.0).where(looks.any("step")))

    @ordering(
        "Theorem 3.2",
        on="stationary",
        more_than=0.05,
        because="Bound: a twentieth, so that there is something to repair.",
        range=COSINE,
    )
    def rare_are_smaller(self, run: xr.Dataset) -> xr.DataArray:
        r"""Without pruning, rare features end with less energy than common ones.

        Measured: 1 minus $F_{\min}/F_{\mathrm{maj}}$ at the end.
        """
        return 1 - last(run, run.energy_ratio).sel(ratio=0.0, drop=True)

    @as_drawn("Lemma F.1, (196)", because="Tolerance: 10 %, a stated choice.")
    def pruned_overlap(self, run: xr.Dataset) -> Found:
        r"""What is pruned takes a known part of a pair's likeness.

        At $b = 0$, $\mathbb{E}[\sum_{i \in P} h_i(X) h_i(Y)] = \sum_{i \in P} \sum_j A_{ij}^2 a_j$. Measured: that sum
        over its closed form, at the frequency with which the feature was drawn.
        """
        recipe = self.arm("one-step").recipe
        data, start, p = recipe.data, recipe.learner, self._activities("one-step")
        a = float(pair_correlation(p, data.tokens)[-1])
        closed = start.neurons * data.minority * start.minority_amplitude**2 * a
        drawn = run.presence / float(p[-1])
        return Found(run.pruned_overlap / (closed * drawn), f"Closed form {closed:.3f}.")

    @identity("Lemma F.1, (179)", on="one-step", equals=0.0, within=0.05, because="Tolerance: 5 %, a stated choice.")
    def pruned_overlap_of_negatives(self, run: xr.Dataset) -> xr.DataArray:
        r"""What is pruned says nothing of samples of other pairs.

        $\mathbb{E}[\sum_{i \in P} h_i(X) h_i(X_s)] = 0$ for negatives. Measured: that sum over the one of positive
        pairs.
        """
        return run.pruned_overlap_of_negatives / run.pruned_overlap

    @bound("Theorem 3.2(a), (15)", on="one-step", relation=">=", because=CONSTANT, note=NOT_ALONE)
    def rare_growth_as_stated(self, run: xr.Dataset) -> Found:
        r"""In a step a rare feature's neurons grow by what the theorem has at least.

        $A \geq (1 - \eta\lambda + \Omega(\eta \epsilon^2 \alpha C_z \log\log d/d)) A$. Measured: growth by the data
        with pruning, over $\eta$.
        """
        least, _ = self._stated()
        return Found(run.growth_minority_pruned, predicted=least)

    @bound(
        "Theorem 3.2(b), (16)",
        on="one-step",
        relation="<=",
        because=CONSTANT,
        note="O leaves it open. (16) has no 1 - ηλ, so that decay is part of the step, and alone may be all of it.",
    )
    def common_growth_as_stated(self, run: xr.Dataset) -> Found:
        r"""In a step other features' neurons grow by no more than the theorem has.

        $A \leq (1 + O(\eta \epsilon^3 \alpha C_z \log\log d/d^2)) A$. Measured: growth in a whole step with pruning,
        decay included, over $\eta$.
        """
        _, most = self._stated()
        return Found(run.growth_majority_pruned - self.optimizer.weight_decay, predicted=most)

    @identity(
        "Theorem 3.2, (15), (16)",
        on="one-step",
        equals=1.0,
        within=1e-6,
        because="Tolerance: rounding.",
        law="exact",
        range=POSITIVE,
    )
    def stated_growths_are_apart(self) -> float:
        r"""The most that the theorem has for other features is $\epsilon/d$ of the least that it has for rare ones.

        Measured: the one over the other, and over $\epsilon/d$.
        """
        data = self.arm("one-step").recipe.data
        least, most = self._stated()
        return most / least * data.features / data.eps_min

    @identity(
        "Equation (185)",
        not_on="one-step-noiseless",
        equals=1.0,
        within=0.05,
        because="Tolerance: 5 %, that of the gap.",
        note="Keys that share the feature take weight from the positive without pulling; (185) drops them.",
        range=POSITIVE,
    )
    def growth_is_the_miss(self, run: xr.Dataset) -> xr.DataArray:
        r"""A rare feature's neurons grow by what the positive logit misses.

        A minority neuron's growth is $a_j \mathbb{E}[1 - \ell'_p \mid j]$. Measured: growth without pruning over that.
        """
        data = self.arm("one-step-noiseless").recipe.data
        loss = self.objective.loss
        pull = data.tokens**2 * run.presence * (1.0 if loss.scale == "tau" else 1 / loss.temperature)
        return run.growth_minority_whole / (pull * run.hardness_minority_whole)

    @bound(
        "Theorem 3.2(c)",
        on="stationary",
        not_on="straight-through",
        at_least=0.75,
        because="Bound: three quarters, a stated choice for a law without ε.",
        range=POSITIVE,
        given=follows_theory,
    )
    def rare_reach_common(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""With pruning, rare features end as strong as common ones whatever their frequency.

        $\alpha_{ij^*}$ ends in $[\tau/\Xi_2, \tau]$, without $\epsilon_j/\epsilon_{\max}$. Measured:
        $F_{\min}/F_{\mathrm{maj}}$ at the end with $\alpha = 0.125$.
        """
        ratio = last(run, run.energy_ratio)
        return ratio if arm == "straight-through" else ratio.sel(ratio=JUDGED, drop=True)

    @identity(
        "Equation (5) against (184)",
        on="straight-through",
        equals=1.0,
        within=1e-3,
        because="Tolerance: rounding of float32, at each of some hundred steps.",
        law="exact",
        range=POSITIVE,
        given=lambda study: study.pruning.score == "norm" and _hidden_norms_stay_above_rounding(study),
    )
    def hidden_for_good(self, run: xr.Dataset) -> xr.DataArray:
        r"""Under the gradient of the pruned network what is hidden stays hidden, and decays.

        A hidden neuron gets decay alone, $1 - \eta\lambda$ a step; where none that is seen shrinks faster, the smallest
        stay so. Measured: mean norm of hidden neurons at the end over that at the first look after
        half of the steps, and over $(1 - \eta\lambda)$ to the power of the steps between.
        """
        steps = run["step"].values
        half = int(np.searchsorted(steps, steps[-1] / 2))
        decay = 1 - self.optimizer.lr * self.optimizer.weight_decay
        found = last(run, run.hidden_norm) / run.hidden_norm.isel(step=half, drop=True)
        later = run.last_step - int(steps[half])
        return (found / decay**later).where(later > 0)

    @bound(
        "Theorem 3.2(c)",
        on="stationary",
        at_least=0.5,
        because="Bound: in most networks; half of m/d neurons, as Ω has no constant.",
        note="The planted start is so already, and without pruning it stays so: all that this says is that pruning "
        "takes none of these neurons away.",
        law="yes/no",
    )
    def rare_singletons(self, run: xr.Dataset) -> xr.DataArray:
        r"""With pruning, rare features keep neurons of their own.

        At least $\Omega(m/d)$ neurons hold the rare feature alone. Measured: share of networks
        with as many singletons of a minority feature at the end, with $\alpha = 0.125$.
        """
        start = self.arm("stationary").recipe.learner
        found = last(run, run.minority_singletons).sel(ratio=JUDGED, drop=True)
        return known(found >= start.neurons / 2, found)

    @bound(
        "from equation (5)",
        on="random-start-direction",
        at_least=0.5,
        because="Bound: in most networks, a stated choice.",
        note="A hidden feature grows by η a_j (1 - b/||w||) a step at most, and all decay by ηλ: energies cannot all "
        "run away below α = (λ/d) Σ_j 1/(a_j (1 - b/||w||)); a loss without the factor τ has a_j/τ for a_j.",
        law="yes/no",
        of_divergence=True,
        given=lambda study: study.safe_ratio > LITTLE,
    )
    def settles_at_small_ratios(self, run: xr.Dataset) -> Found:
        r"""Prune little, and weights settle.

        Measured: share of networks in which the largest $F_j$ at the end is less than three times that of common
        features, at $\alpha = 0.05$.
        """
        most, common = (
            last(run, run[name]).sel(ratio=LITTLE, drop=True) for name in ("largest_energy", "majority_energy")
        )
        stayed = run.diverged.sel(ratio=LITTLE, drop=True) < 0
        settled = known((most < 3 * common) & stayed, most.where(stayed, 0.0), common.where(stayed, 0.0))
        return Found(settled, f"α is {LITTLE:g}, the bound {self.safe_ratio:.3f}.")

    @property
    def safe_ratio(self) -> float:
        """α below which energies cannot all run away from a random start."""
        recipe = self.arm("random-start-direction").recipe
        loss = recipe.objective.loss
        a = pair_correlation(self._activities("random-start-direction"), recipe.data.tokens)
        a = a / (1.0 if loss.scale == "tau" else loss.temperature)
        return float(self.optimizer.weight_decay / len(a) * (1 / (a * (1 - recipe.rules["bias"].last))).sum())

    def _activities(self, arm: str) -> np.ndarray:
        data = self.arm(arm).recipe.data
        if data.frequencies:
            return data.activity * np.array(data.frequencies)
        return activities(data.features, data.minority, data.eps_min, data.activity)

    def _settled(self, arm: str) -> np.ndarray:
        """Energies of features where training on ``arm`` without pruning settles: ``[feature]``."""
        data, loss = self.arm(arm).recipe.data, self.objective.loss
        return stationary_energies(
            self._activities(arm),
            data.tokens,
            self.optimizer.weight_decay,
            self.bias.last,
            self.objective.pairs,
            temperature=loss.temperature,
            loss_scale=loss.scale,
            noise_variance=data.noise_std**2 / data.tokens,
        )

    def _stated(self) -> tuple[float, float]:
        """Least growth of minority neurons in a step before decay, and most of others in a whole one, over η."""
        recipe = self.arm("one-step").recipe
        data, ratio = recipe.data, recipe.data.minority / recipe.data.features
        least, most = stated_factors(1.0, 0.0, ratio, data.eps_min, data.activity, data.features)
        return least - 1, most - 1
