"""The prediction head: why non-contrastive learning does not collapse.

Wen & Li, The Mechanism of Prediction Head in Non-contrastive Self-supervised Learning, 2022, arXiv 2205.06226.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import xarray as xr

from featscope.claims import COSINE, POSITIVE, SHARE, STATED, Claim, Found, bound, identity, ordering
from featscope.figures import Figure
from featscope.models.population import PURE
from featscope.studies import Runs, Story, last, looked
from featscope.studies.prediction_head import figures
from featscope.studies.prediction_head.arms import EARLY
from featscope.studies.prediction_head.infinite import CHOICE, MOST
from featscope.studies.prediction_head.probes import among, at, diverse, median, of_those_with_some, rescued, share
from featscope.studies.prediction_head.random_weights import RandomWeightsClaims, different, unrescued
from featscope.studies.reductions import known
from featscope.studies.summaries import in_words, percent, verdict
from featscope.theory.prediction_head import strong_probability
from featscope.training.infinite_batches import TRIES, moments


@dataclass(frozen=True)
class PredictionHeadStudy(RandomWeightsClaims):
    """Why non-contrastive learning does not collapse: what the prediction head does (Wen & Li 2022).

    Options and arms are `PredictionHeadArms`', claims of the flow `InfiniteBatchesClaims`', `PhasesClaims`' and
    `PathsClaims`', of batches from random weights `RandomWeightsClaims`'.
    """

    asks: ClassVar[str] = "What makes neurons learn different features when nothing in the loss asks them to?"

    # --- What the head needs ------------------------------------------------------------------------------------------

    @bound(
        "Section 5.3",
        on="no-stop-gradient",
        at_least=MOST,
        because=CHOICE,
        note="It was judged that few end with different features, of which 0.00 had been seen; a flow that learns "
        "nothing has none either.",
        law="draws",
    )
    def no_stop_gradient_collapses(self, run: xr.Dataset) -> xr.DataArray:
        """Without stop-gradient the head rescues nothing.

        Measured: share of starts that end with both neurons on the strong feature, of those from which both would learn
        it without head.
        """
        return among(run.collapsed, run.predicted_collapse)

    @identity(
        "derived here, for Section 1.1",
        on=("tied-head", "no-normalization"),
        not_on={"head": "There one neuron lends and the other borrows."},
        equals=1.0,
        within=1e-3,
        law="exact",
        because="Tolerance: of the integration.",
        range=COSINE,
    )
    def tied_head_is_symmetric(self, run: xr.Dataset) -> xr.DataArray:
        r"""A head on which both neurons pull alike moves, and stays symmetric.

        It is kept symmetric, or outputs are as they are, where $\dot E_{jk}$ is $\eta_E \sum_l C_0\alpha_l^6 B_{jl}^3
        B_{kl}^3$. Measured: $2 E_{12} E_{21}/(E_{12}^2 + E_{21}^2)$ over training, the sums of both, the least over
        starts whose paths are kept.
        """
        e = run["head"].where(looked(run), 0.0)
        one, other = e.isel(neuron=0), e.isel(neuron=1)
        alike = 2 * (one * other).sum("step", skipna=False) / (one**2 + other**2).sum("step", skipna=False)
        return alike.min("path", skipna=False)

    @ordering(
        "Section 1.1",
        not_on="tied-head",
        more_than=0.1,
        because=CHOICE,
        note="The paper argues so; the symmetric head that it argues against is set by hand, not trained.",
        range=(-1, 1),
    )
    def asymmetry_rescues(self, run: xr.Dataset, runs: Runs) -> Found:
        """It takes an asymmetric head.

        Measured: share rescued with the head minus that with one that is trained but kept symmetric.
        """
        head, tied = diverse(runs["head"]), diverse(run)
        means = f"{in_words(head, '{:.2f}')} with the head, {in_words(tied, '{:.2f}')} with a symmetric one."
        return Found(head - tied, means)

    @bound(
        "Proposition 5.4; found here",
        on="frozen-head",
        not_on={"head": "For comparison: the head comes back, and the fast neuron keeps what it has."},
        at_least=0.9,
        because="Bound: nine in ten, a stated choice; stated after a trial with two replicas.",
        note="Outputs are normalised, so that f_1 may shrink: ||w_1||² moves as 6 E_21 times the slope that would take "
        "E_21 back, by the same homogeneity that gives norm-head-invariant.",
        law="draws",
    )
    def fast_gives_way_to_the_head(self, run: xr.Dataset) -> Found:
        r"""If the head may not come back, the fast neuron shrinks instead.

        What the slow neuron has borrowed stands in its way once it has learned the weak feature; the head returns
        (Proposition 5.4), or else $B_{11}$ falls. Measured: share of starts that have learned the weak feature in which
        $|B_{11}|$ is less than half of what it was then, of those that would collapse without head.
        """
        then, end = (abs(at(run, moment, "B_11")) for moment in ("T3", "end"))
        came = run.predicted_collapse * np.isfinite(run.time_weak_learned)
        kept = share(abs(at(run, "end", "B_12")) < PURE * end, came)
        why = (
            f"The fast neuron is purely of the strong feature in the end in {percent(of_those_with_some(kept, came))}."
        )
        return Found(among(known(end < then / 2, end, then), came), why)

    # --- Batches ------------------------------------------------------------------------------------------------------

    @bound(
        "Theorem 4.1, N ≥ poly(d)",
        on="batches",
        at_most=0.05,
        because="Bound: a stated choice; overlaps are up to 1.",
        range=POSITIVE,
    )
    def sgd_follows_ode(self, run: xr.Dataset, runs: Runs) -> np.ndarray:
        """Training on batches follows the differential equation of infinite ones.

        Measured: mean distance of Algorithm 1's overlaps from the flow's, from the same weights, over training.
        """
        return distance_from_flow(run, runs["batches-flow"], self.optimizer.lr)

    @ordering(
        "Theorem 4.1, Figure 7",
        on=("batches", "batches-average"),
        not_on={
            "batches-no-head": "",
            "batches-average-no-head": "An average of the network as target does not do what the head does.",
            "batches-sphere": "For comparison: no head, and outputs of norm 1.",
        },
        more_than=0.3,
        because=CHOICE,
        corrects="random-start-sgd",
    )
    def sgd_head_rescues(self, run: xr.Dataset) -> xr.DataArray:
        """On batches, too, the slow neuron learns the weak feature if there is a head.

        Algorithm 1 from given overlaps: with the head the slow neuron ends on the weak feature, without on the strong
        one. Measured: $|B_{22}| - |B_{21}|$ in the end.
        """
        slow = abs(last(run, run.overlap)).isel(path=0, neuron=1)
        return slow.isel(feature=1) - slow.isel(feature=0)

    @ordering(
        "Theorem 4.3, Figure 7",
        on=("batches-no-head", "batches-average-no-head"),
        not_on={"batches": ""},
        more_than=0.3,
        because=CHOICE,
        note="Added when ends of these arms were known: that the slow neuron does not end on the weak feature, which "
        "alone was judged, is so as well of a network that is not trained.",
    )
    def sgd_without_head_collapses(self, run: xr.Dataset) -> xr.DataArray:
        """On batches, too, the slow neuron learns the strong feature if there is no head.

        Algorithm 1 from given overlaps. Measured: $|B_{21}| - |B_{22}|$ in the end less that at the start.
        """
        slow = abs(run.overlap.isel(path=0, neuron=1))
        ahead = slow.isel(feature=0) - slow.isel(feature=1)
        return last(run, ahead) - ahead.isel(step=0)

    @bound(
        "Section 2",
        on="batches-average",
        at_most=0.05,
        because="Bound: that of sgd-follows-ode. A target that never follows comes to 0.1.",
        note="The paper has it from others' experiments that an average is inessential.",
        range=POSITIVE,
    )
    def average_makes_no_difference(self, run: xr.Dataset, runs: Runs) -> np.ndarray:
        """It makes no difference if targets come from a moving average of the network.

        Measured: mean distance of overlaps with averaged targets, m = .99, from the flow's without, from the same
        weights, over training.
        """
        return distance_from_flow(run, runs["batches-flow"], self.optimizer.lr)

    @bound(
        "derived here",
        on="batches-average",
        at_least=1e-3,
        because="Bound: a stated choice; without an average the two trainings are one, but for rounding.",
        range=POSITIVE,
    )
    def the_average_is_behind(self, run: xr.Dataset, runs: Runs) -> xr.DataArray:
        """An average of the network lags behind it, so that targets are others.

        Measured: mean distance of overlaps with averaged targets from those without, from the same weights and batches,
        over training.
        """
        apart = abs(run.overlap - runs["batches"].overlap)  # at the steps that both have
        return apart.mean([axis for axis in apart.dims if axis != "replica"], skipna=False)

    @bound(
        "Remark 4.5",
        not_on={
            "batches-sphere": "Every sample's output has norm 1 whatever the other samples': nothing is gained where "
            "all outputs are alike, as the two views of a sample without noise agree in any case."
        },
        at_least=0.99,
        because="Bound: a stated choice. Inputs are symmetric and neurons odd, so all that can collapse is outputs to "
        "one line.",
        note="The remark is in words, of data with a feature that is no weaker but varies less, which these have not. "
        "It was not expected here before the first look.",
        range=SHARE,
    )
    def sphere_collapses(self, run: xr.Dataset) -> xr.DataArray:
        """Without head and with outputs of norm 1 a network collapses completely.

        Measured: share of the first direction in the second moment of outputs, each scaled to norm 1.
        """
        return last(run, run.one_line)

    @ordering(
        "Remark 4.5; found here",
        on="batches-sphere",
        less_than=0.0,
        because="Paired by replica. Stated after a trial with two replicas.",
        note="Where the fast neuron leads, an output of norm 1 hardly depends on the slow one, whose gradient there "
        "goes with 1/||f||: it is left with the samples of the weak feature.",
        range=COSINE,
        corrects="sphere-collapses",
    )
    def sphere_collapses_less(self, run: xr.Dataset, runs: Runs) -> Found:
        """Without head outputs of norm 1 collapse less than batch-normalised ones.

        Measured: share of the first direction in the second moment of outputs, each scaled to norm 1, in the end minus
        that of training with batch normalisation after as many steps.
        """
        steps, sphere = int(run["step"][-1]), last(run, run.one_line)
        alone, with_head = (
            runs[arm].one_line.sel(step=steps, method="nearest", drop=True) for arm in ("batches-no-head", "batches")
        )
        shares = f"{in_words(sphere, '{:.2f}')} and {in_words(alone, '{:.2f}')}"
        head = f"{in_words(with_head, '{:.2f}')} with batch normalisation and head"
        return Found(sphere - alone, f"It is {shares}, and {head}, after {steps} steps.")

    @identity(
        "derived here, for Remark 4.5",
        on="batches-sphere",
        equals=1.0,
        within=0.2,
        because="Tolerance: a choice, made when 0.92 to 0.95 had been seen of four replicas.",
    )
    def sphere_views_agree(self, run: xr.Dataset) -> xr.DataArray:
        """Without head and with outputs of norm 1 the two views of a sample come to agree.

        Measured: the mean cosine of their outputs in the end, which is 1 less the loss.
        """
        return 1 - last(run, run.loss)

    @bound(
        "Fact D.2; Theorem 4.1, N ≥ poly(d)",
        on="batches",
        at_most=0.1,
        because="Bound: a tenth, a stated choice.",
        range=POSITIVE,
    )
    def sgd_head_follows_ode(self, run: xr.Dataset, runs: Runs) -> np.ndarray:
        """The head, too, does what the equation says, and so it does while it returns.

        Measured: mean distance of Algorithm 1's $E_{12}$ and $E_{21}$ from the flow's over training, three quarters of
        which are after the peak of $E_{21}$, over that peak.
        """
        return distance_from_flow(run, runs["batches-flow"], self.optimizer.lr, "head")

    @bound("Proposition 5.4", on="batches", at_most=0.1, because=CHOICE, range=POSITIVE)
    def sgd_head_returns(self, run: xr.Dataset) -> xr.DataArray:
        """On batches, too, the head comes back.

        Measured: $|E_{21}|$ in the end over its largest in training.
        """
        lent = abs(run["head"]).isel(path=0, neuron=1)
        return last(run, lent) / lent.where(looked(run), 0.0).max("step", skipna=False)

    @ordering(
        "Theorem 4.1",
        not_on=("random-batches", "random-batches-no-head"),
        more_than=0.5,
        because=f"Bound: most, {STATED}",
        note="Of random weights those are taken that flow rescues by time 60, at the default size a few in a hundred; "
        "others take thousands of times longer than noise of batches leaves.",
        law="yes/no",
    )
    def random_start_sgd(self, run: xr.Dataset) -> Found:
        """On batches, from random weights, neurons learn different features with the head.

        Algorithm 1 on batches, from random weights: both neurons learn the strong feature without head, different ones
        with it. Measured: share of networks with different features in the end.
        """
        so = different(run)
        return Found(so, f"{int(so.sum())} networks do{none_rescued(run)}.")

    @bound("Section 1.1, (1.1)", on="hand-set-gap", not_on="hand-set-equal", at_least=0.99, because=CHOICE, law="draws")
    def symmetric_head_baseline(self, run: xr.Dataset) -> Found:
        """A symmetric head that is set by hand comes to see one direction only.

        In a linear network a symmetric head set by hand becomes of rank one if input variances are very unequal.
        Measured: share of the larger eigenvalue in its trace, mean over starts.
        """
        seen = run.top_share.notnull().sum("start")  # a head that decayed to nothing sees no direction
        return Found(run.top_share.mean("start", skipna=True), trials=seen)

    # --- What is shown ------------------------------------------------------------------------------------------------

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """How trajectories end, one of them, training on batches, and ends over sizes and widths."""
        yield figures.outcomes(self.labelled({arm: runs[arm] for arm in figures.FLOW_ARMS}))
        yield figures.one_path(runs)
        yield figures.on_batches(runs)
        yield figures.over_sizes(runs["sizes"])
        yield figures.over_widths(runs["widths"], strong_probability(moments(self.data)))

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """What becomes of networks that would collapse without the head."""
        head, alone = runs["head"], runs["no-head"]
        bound = {arm: runs[arm].predicted_collapse for arm in ("head", "no-head", "no-stop-gradient")}
        saved, unsaved, unstopped = (percent(of_those_with_some(diverse(runs[arm]), bound[arm])) for arm in bound)
        unsettled = of_those_with_some(share(head.mixed, bound["head"]), bound["head"])
        words = {"holds": "saves", "fails": "does not save", "undecided": "may save"}
        saves = words[verdict(claims, "head-rescues@head")]
        if unsettled.mean() > 0.5:
            saves = "had no time to save"
        elif verdict(claims, "head-rescues@no-head") == "holds":
            saves = "is not what saves"
        losses = ((alone.final_loss, alone.collapsed), (head.final_loss, rescued(head)))
        same, different = (in_words(of_those_with_some(median(*one), one[1]), "{:.3f}") for one in losses)
        two, widest = (percent(runs["widths"].all_collapsed.isel(doubling=place)) for place in (1, -1))
        return Story(
            f"A prediction head {saves} most networks bound to learn one feature: {saved} learn both with it, "
            f"{unsaved} without{none_rescued(runs['random-batches'])}.",
            "Two neurons learn to agree on two halves of a sample that shows a strong or a weak feature under noise. A "
            "prediction head is a matrix through which one neuron can borrow from the other. Of "
            f"{self.starts} random starts a replica, bars show how those end from which, by a rule, both neurons would "
            "learn the strong feature without it: on different features, both on the strong one, or on something "
            f"else ({percent(unsettled)} with the head).",
            {
                "head-rescues@head": f"{saved} of them do; {unsaved} without the head.",
                "no-stop-gradient-collapses@no-stop-gradient": f"It rescues {unstopped}.",
                "loss-cannot-see-collapse@head": f"It is {same} where both learned one feature, {different} where not.",
                "four-phases@head": "",
                "any-width-collapses@widths": f"Of networks of 2 neurons {two} do, of 64 neurons {widest}.",
            },
        )


def none_rescued(run: xr.Dataset) -> str:
    """How many replicas have no start that is rescued `EARLY`, at the end of a sentence; empty if all have one."""
    lost, replicas = int((unrescued(run) >= 0).sum()), run.sizes["replica"]
    why = f"; in {lost} of {replicas} replicas infinite batches rescue none of {TRIES} random weights by time {EARLY:g}"
    return f"{why}, and on batches nothing is made of these" if lost else ""


def distance_from_flow(run: xr.Dataset, flow: xr.Dataset, lr: float, what: str = "overlap") -> np.ndarray:
    """Mean over training and the four overlaps of |B - B of the flow|, for each replica.

    Of the head over both entries, in units of the largest of the flow.
    """
    found = []
    for replica in run["replica"].values:
        ours, theirs = (one.sel(replica=replica).isel(path=0) for one in (run, flow))
        reached = np.isfinite(theirs["time"].values)
        if not reached.any():
            found.append(np.nan)
            continue
        numbers = [name for name in ("neuron", "feature") if name in run[what].dims]
        b, of_flow = (one[what].stack(of=numbers).transpose("of", "step").values for one in (ours, theirs))
        at, time = ours["step"].values * lr, theirs["time"].values[reached]
        unit = abs(of_flow[:, reached]).max() if what == "head" else 1.0
        found.append(abs(b - [np.interp(at, time, each[reached]) for each in of_flow]).mean() / unit)
    return np.array(found)
