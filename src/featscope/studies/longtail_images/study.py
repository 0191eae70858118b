"""Contrastive learning on long-tailed images, and whether pruning helps the tail.

P: Theoretical Analysis of Contrastive Learning under Imbalanced Data: From Training Dynamics to a Pruning Solution,
Section 4 and Table 2; and what has to be so for a comparison to say anything about it. All differences are paired: a
replica's arms share network and test images.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import xarray as xr

from featscope.claims import COSINE, POSITIVE, SHARE, Claim, Found, bound, identity
from featscope.data import LongTailedImages
from featscope.figures import Figure
from featscope.losses import NTXent
from featscope.models import AlexNet, ResNet18
from featscope.options import require
from featscope.probes.long_tail import accuracy, gap, tail_minus_head
from featscope.streams import Streams
from featscope.studies import Arm, Runs, Story, last
from featscope.studies.images import GAINED, UNSAID, UNTRAINED, ImageStudy, against_itself, gained, higher
from featscope.studies.longtail_images import figures, probes
from featscope.studies.longtail_images.table2 import GAINS
from featscope.studies.reductions import known, largest, mean, smallest
from featscope.studies.summaries import in_words, percent, verdict
from featscope.training import GradientTraining, MagnitudePruning, Measurement
from featscope.training.image_objectives import ContrastImages, ImageTraining
from featscope.training.magnitudes import weights_of

SHORT = (
    "At the default size there is reason for doubt: the theorem is about networks near convergence, and a few hundred "
    "steps are far from it."
)
TABLE = "Section 4, Table 2"
GAPS = (-2.0, 2.0)  # range of a difference of differences of accuracies


def controlled(**arms: str) -> Callable[[Any], Mapping[str, str]]:
    """Arms, with what is to be said of each, where there are balanced ones to compare with."""
    return lambda study: arms if study.imbalance is not None else {}


def pruned_arms(study: Any) -> Mapping[str, str]:
    """Arms that are trained with pruning."""
    return {"pruned": "", **controlled(**{"balanced-pruned": ""})(study)}


PLAIN_OF = {"pruned": "plain", "balanced-pruned": "balanced"}  # arm -> the same without pruning


@dataclass(frozen=True)
class LongTailImages(ImageStudy):
    """Contrastive pre-training on long-tailed images, with and without forward magnitude pruning (Table 2).

    The paper gives neither network nor settings; what follows are the usual ones of SimCLR, made small. All arms of a
    replica begin with the same network, and the balanced ones have as many images as the long-tailed ones.

    Attributes:
        data: "cifar10", "cifar100" or another data set of the Hub by its name; a folder with the Hub's parquet files,
            or with images and lists of them (ImageNet-LT); or "shapes" for procedural images, which need no files.
        imbalance: images of the largest class over those of the smallest, ρ. None where the training split is
            long-tailed as it is (ImageNet-LT); there are then no balanced arms.
        largest: training images of the largest class; 0 for all of a class, None for 1,000 on the CPU and all on CUDA.
        probe: images of each class that the linear probe is fitted to; 0 for all, None for 500 on the CPU and all on
            CUDA.
        test: test images of each class; 0 for all, None for 1,000 on the CPU and all on CUDA.
        side: height and width that images are brought to, in pixels; 0 for images as they are.
        network: which of the two networks below is trained.
        alexnet: a network for a CPU.
        resnet18: the network of Jiang et al. 2021, whom the paper follows; slow on a CPU even if it is narrow.
        loss: the contrastive loss.
        pruning: of both branches. The paper does not say how much. Entries and a straight-through gradient, as heads
            and cosines leave no other reading of Algorithm 1 for a deep network.
    """

    imbalance: float | None = 100.0
    largest: int | None = None
    probe: int | None = None
    test: int | None = None
    side: int = 0
    network: Literal["alexnet", "resnet18"] = "alexnet"
    alexnet: AlexNet = field(default_factory=lambda: AlexNet(width=16))
    resnet18: ResNet18 = field(default_factory=ResNet18)
    loss: NTXent = field(default_factory=NTXent)
    pruning: MagnitudePruning = field(
        default_factory=lambda: MagnitudePruning(0.5, granularity="entry", gradient="straight-through")
    )

    name = "longtail-images"
    asks = "Does leaving out small weights help a network to learn what it rarely sees?"
    default_replicas = 6
    on_cpu: ClassVar[Mapping[str, int]] = {"largest": 1000, "probe": 500, "test": 1000}
    few: ClassVar[Mapping[str, Any]] = {"imbalance": 10, "largest": 20, "probe": 6, "test": 5, "alexnet": AlexNet(4)}

    def __post_init__(self) -> None:
        through = self.pruning.gradient == "straight-through"
        require(self, "pruning", through, "one with gradient 'straight-through'", "Heads take no pairs of outputs.")
        require(self, "imbalance", self.imbalance is None or self.imbalance >= 1, ">= 1, or None")
        super().__post_init__()
        steps, cure = max(1, self.steps), "Else no step is pruned: begin earlier, or take more steps."
        require(self.pruning, "start", self.pruning.start < steps, f">= 0 and < {steps}, the steps of training", cure)

    def arms(self) -> Sequence[Arm[ImageTraining]]:
        """Long-tailed and balanced images, each with and without pruning, and the network that all begin from."""
        sizes = self.probe, self.test, self.side, self.on_cpu
        tail = LongTailedImages(self.data, self.imbalance, self.largest, False, *sizes)
        network = self.alexnet if self.network == "alexnet" else self.resnet18
        objective = ContrastImages(self.augmentation, self.projection, self.loss, self.batch)

        def pruned(name: str, arm: Arm[ImageTraining], about: str) -> Arm[ImageTraining]:
            recipe = replace(arm.recipe, rules={"pruning": self.pruning})
            return replace(arm, name=name, recipe=recipe, about=about, label=f"{arm.label}, pruned")

        plain = self.trained("plain", tail, network, objective, "Long-tailed images.", figures.PLAIN)
        arms = [plain, pruned("pruned", plain, "Long-tailed images, with pruning.")]
        if self.imbalance is not None:
            even = replace(tail, balanced=True)
            balanced = self.trained("balanced", even, network, objective, "As many balanced images.", "balanced")
            arms += [balanced, pruned("balanced-pruned", balanced, "As many balanced images, with pruning.")]
        return [*arms, self.untrained(plain)]

    def watch(self, experiment: GradientTraining) -> Mapping[str, Measurement]:
        """How far the weights have moved."""
        return probes.during(experiment)

    def measure(self, experiment: GradientTraining) -> Mapping[str, Measurement]:
        """Accuracy, what pruning takes or would take from the network, and what that does to the logits."""
        pruned = probes.pruning(experiment, self.pruning, self.initial(experiment))
        return {**probes.readout(experiment), **pruned, **probes.doubt(experiment, self.pruning)}

    # --- What the comparison rests on ---------------------------------------------------------------------------------

    @identity(
        "Section 4",
        on=controlled(plain=""),
        not_on=controlled(balanced="Control: this arm has no tail."),
        equals=0.0,
        within=1.0,
        because="Tolerance: one image, sizes are rounded down.",
        law="exact",
    )
    def class_sizes(self, run: xr.Dataset) -> xr.DataArray:
        r"""The training set is long-tailed. Measured: images of its smallest class minus its largest over $\rho$."""
        return smallest(run.class_size) - largest(run.class_size) / (self.imbalance or 1.0)

    @identity(
        TABLE,
        on=controlled(balanced=""),
        equals=0.0,
        within=0.0,
        because="Tolerance: none, these are counts.",
        law="exact",
        note="The paper's rows do not have this: CIFAR10-LT has 20,431 images at ρ = 10 and 12,406 at ρ = 100, so that "
        "more imbalance is also less data.",
    )
    def as_many_images(self, run: xr.Dataset, runs: Runs) -> xr.DataArray:
        """The balanced control has as many images. Measured: its training images minus those of the long tail."""
        return run.class_size.sum("class", skipna=False) - runs["plain"].class_size.sum("class", skipna=False)

    @bound(
        TABLE,
        on=controlled(**{"balanced": "", "balanced-pruned": ""}),
        not_on={"plain": "The long tail."},
        at_most=1.0,
        because="Bound: one image, sizes are rounded.",
        law="exact",
        range=POSITIVE,
    )
    def the_control_is_even(self, run: xr.Dataset) -> xr.DataArray:
        """The balanced control has no tail. Measured: images of its largest class less those of its smallest."""
        return largest(run.class_size) - smallest(run.class_size)

    @identity(
        "Algorithm 1",
        on="pruned",
        not_on={"plain": "Control: this arm does not prune."},
        relation="=",
        within=1e-6,
        because="Tolerance: rounding in single precision. That α is rounded to whole weights, or to whole filters in "
        "each layer, is in the prediction.",
        law="exact",
        range=SHARE,
    )
    def pruned_share(self, run: xr.Dataset) -> Found:
        """The loss does not see the share of weights that is to be pruned.

        Measured: share of pruned entries, or of pruned filters where those are pruned whole.
        """
        return Found(run.pruned_share, predicted=self._to_be_pruned)

    @identity(
        "Algorithm 1",
        on="pruned",
        equals=0.0,
        within=0.0,
        because="Tolerance: none, these are counts.",
        law="exact",
        given=lambda study: study.pruning.every == 1,
        range=SHARE,
    )
    def masks_are_of_the_weights_as_they_are(self, run: xr.Dataset) -> xr.DataArray:
        """The mask is renewed at every step. Measured: share of weights on which that in use at the end is another."""
        return run.pruned_as_before

    @bound(
        "Algorithm 1",
        on=pruned_arms,
        at_least=1e-6,
        because="Bound: above rounding in single precision.",
        law="exact",
        range=POSITIVE,
        note="A mask that nothing looks at has the same share; training with it is that without, to the bit.",
    )
    def pruning_changes_training(self, run: xr.Dataset, runs: Runs, arm: str) -> xr.DataArray:
        """Pruning changes what training does.

        Measured: norm of all weights at the end against that without pruning, without sign, relative.
        """
        pruned, plain = (last(one, one.weight_norm) for one in (run, runs[PLAIN_OF[arm]]))
        return abs(pruned / plain - 1)

    @property
    def _to_be_pruned(self) -> float:
        """What becomes of α where the network prunes whole weights, or each layer whole filters."""
        network = self.arm("pruned").recipe.learner.build(None, Streams(0, [0]).at("filters"))
        weights = [weight for _, weight in weights_of(network, stacked=False)]
        if self.pruning.granularity == "entry":
            units = [sum(weight.numel() for weight in weights)]
        else:
            units = [weight.shape[1] for weight in weights if weight.shape[1] > 1]
        return sum(round(self.pruning.ratio * each) for each in units) / sum(units)

    @gained("Section 4", on={"plain": GAINED}, not_on=UNTRAINED, note=UNSAID)
    def training_helps(self, run: xr.Dataset, runs: Runs, arm: str) -> Found:
        """Training on the long tail improves features. Measured: linear-probe accuracy minus that before training."""
        return against_itself(mean(run.class_accuracy) - mean(runs["untrained"].class_accuracy), arm)

    # --- Table 2, and the mechanism that is to explain it -------------------------------------------------------------

    @higher(f"Theorem 3.1; {TABLE}", on=controlled(plain=""), note=SHORT)
    def imbalance_costs_accuracy(self, run: xr.Dataset, runs: Runs) -> xr.DataArray:
        """Imbalance harms what is learned.

        Measured: linear-probe accuracy after training on balanced images minus that on as many long-tailed ones.
        """
        return mean(runs["balanced"].class_accuracy) - mean(run.class_accuracy)

    @higher(
        f"Theorem 3.1; {TABLE}",
        on=controlled(plain=""),
        note=f"Δ_20 alone compares classes, of which some are harder than others; the control takes that out. {SHORT}",
        range=GAPS,
    )
    def imbalance_opens_gap(self, run: xr.Dataset, runs: Runs) -> xr.DataArray:
        r"""Imbalance opens a gap between frequent classes, the head, and rare ones, the tail.

        Measured: $\Delta_{20}$, accuracy on the first fifth of the classes minus that on the last, after training on
        long-tailed images minus that on as many balanced ones.
        """
        return _gap(run) - _gap(runs["balanced"])

    @higher(
        TABLE,
        on="pruned",
        note=f"Table 2 has +5.67, +8.02 and +7.07 points on CIFAR10-LT. {SHORT}",
        given=lambda study: study.pruning.granularity == "entry",  # whole filters that are hidden get no gradient
    )
    def pruning_raises_accuracy(self, run: xr.Dataset, runs: Runs) -> Found:
        """Pruning improves what is learned of the long tail. Measured: linear-probe accuracy with it minus without."""
        born_small, by_lot = (f"{100 * share:.0f} %" for share in (run.pruned_from_start.mean(), self.pruning.ratio))
        return Found(
            mean(run.class_accuracy) - mean(runs["plain"].class_accuracy),
            f"Of the weights pruned at the end, {born_small} were the smallest before training already; of weights "
            f"taken by lot, {by_lot} would be.",
        )

    @bound(
        TABLE,
        not_on="pruned",
        at_least=GAINS.min() / 100,
        because="Bound: Table 2.",
        note="Added after a first run had been seen, to say what an undecided sign leaves open. The paper gives no "
        "settings that would let anybody expect a size.",
        range=COSINE,
    )
    def pruning_gains_as_printed(self, run: xr.Dataset, runs: Runs) -> xr.DataArray:
        """Pruning improves what is learned by as much as the paper prints.

        The gain is at least the smallest in Table 2, 1.91 points on ImageNet-LT. Measured: linear-probe accuracy with
        pruning minus without.
        """
        return mean(run.class_accuracy) - mean(runs["plain"].class_accuracy)

    @higher(
        TABLE,
        not_on="pruned",
        note="Table 2 itself does not show it on CIFAR10-LT at ρ = 100: 5.69 ± 1.35 without and 5.62 ± 0.99 with.",
        range=GAPS,
    )
    def pruning_lowers_gap(self, run: xr.Dataset, runs: Runs) -> xr.DataArray:
        r"""Pruning narrows the gap between frequent classes, the head, and rare ones, the tail.

        Measured: $\Delta_{20}$, accuracy on the first fifth of classes minus that on the last, without minus with it.
        """
        return _gap(runs["plain"]) - _gap(run)

    @higher(
        "Section 4",
        not_on=controlled(pruned=""),
        note="Table 2 contradicts the text: the gains on CIFAR10-LT are 5.67, 8.02 and 7.07 at ρ = 10, 50 and 100. It "
        "has no balanced row; without this control a gain may be that of any regulariser.",
        range=GAPS,
    )
    def pruning_helps_the_long_tail_more(self, run: xr.Dataset, runs: Runs) -> Found:
        """The more imbalance, the more pruning helps. Measured: gain in accuracy, long tail minus balanced images."""
        on_tail = mean(run.class_accuracy) - mean(runs["plain"].class_accuracy)
        on_even = mean(runs["balanced-pruned"].class_accuracy) - mean(runs["balanced"].class_accuracy)
        tail, even = (f"{100 * gain.mean().item():+.2f}" for gain in (on_tail, on_even))
        return Found(on_tail - on_even, f"Gains in points: {tail} on the long tail, {even} balanced.")

    @higher(
        "Section 3.3.2, Lemma F.2",
        not_on=controlled(plain=""),
        note="The lemma assumes that all pruned neurons belong to the one rare feature. A class of photographs is "
        "no feature, and the smallest entries of a deep network belong to no class.",
        range=GAPS,
    )
    def pruning_doubts_the_tail(self, run: xr.Dataset, runs: Runs) -> Found:
        r"""Pruning makes the loss doubt the positives of rare samples, and of no others.

        Measured: rise of $1 - \ell'_p$ by pruning on the tail classes minus on the head classes, after training on
        long-tailed images minus on balanced ones.
        """
        on_tail, on_even = (known(tail_minus_head(one.doubt_added), one.doubt_added) for one in (run, runs["balanced"]))
        tail, even = (f"{rise.mean().item():+.4f}" for rise in (on_tail, on_even))
        return Found(on_tail - on_even, f"Tail minus head: {tail} on the long tail, {even} balanced.")

    # --- What is shown ------------------------------------------------------------------------------------------------

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """Table 2 beside what was measured, then class by class."""
        return figures.figures(self.labelled(runs))

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """How many images are named with pruning and without."""
        named = {arm: in_words(100 * accuracy(run), "{:.1f} %") for arm, run in runs.items()}
        opening = {"holds": "helps", "fails": "does harm", "undecided": "makes no clear difference"}[
            verdict(claims, "pruning-raises-accuracy@pruned")
        ]
        sizes = runs["plain"].class_size
        most, least = (in_words(end, "{:.0f}") for end in (sizes.max(), sizes.min()))
        change = in_words(100 * (accuracy(runs["pruned"]) - accuracy(runs["plain"])), "{:+.1f}")
        found = f"Leaving out small weights {opening}: {named['pruned']} of images are named right with it, "
        found += f"{named['plain']} without."
        if self.pruning.ratio == 0:
            found = f"At a ratio of 0 nothing is pruned, and both are trained alike: {named['plain']} are named right."
        return Story(
            found,
            f"Networks learn without labels from images, {most} of the most frequent kind and {least} of the rarest. "
            f"Pruned ones learn without the smallest {percent(self.pruning.ratio)} of their weights. Bars are how many "
            "test images a linear classifier then names from what was learned: here at the left, beside it the paper's "
            "numbers for other networks.",
            {
                "pruning-raises-accuracy@pruned": "",
                "pruning-gains-as-printed@pruned": "The paper prints gains from "
                f"{GAINS.min():.1f} to {GAINS.max():.1f} points; here the change is {change}.",
                "training-helps@plain": f"Before training {named['untrained']} are named, after it {named['plain']}.",
                "imbalance-costs-accuracy@plain": "",
            },
        )


def _gap(run: xr.Dataset) -> xr.DataArray:
    """Of the head's accuracy to the tail's; NaN if a class has none."""
    return known(gap(run), run.class_accuracy)
