"""Which part of contrastive learning without negatives keeps features from collapsing, on images.

Wen & Li 2022, The Mechanism of Prediction Head in Non-contrastive Self-supervised Learning. The figures of its image
experiments came down to us without their numbers; what is stated is the text and the captions. Bounds are choices, with
reasons. All differences are paired: a replica's arms share network, images and batches.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import xarray as xr

from featscope.claims import COSINE, POSITIVE, SHARE, Claim, Found, bound, identity, ordering
from featscope.data import Images
from featscope.figures import Figure
from featscope.losses import NonContrastive
from featscope.models import PredictionHead, ProjectionHead, ResNet18
from featscope.studies import Arm, Runs, Story, last, looked
from featscope.studies.images import GAINED, SIGN, UNSAID, UNTRAINED, ImageStudy, against_itself, gained, higher
from featscope.studies.prediction_head_images import figures, probes
from featscope.studies.prediction_head_images.figures import asymmetry
from featscope.studies.summaries import in_words, verdict
from featscope.training import EMA, GradientTraining, Measurement, TorchOptimizer
from featscope.training.image_objectives import ImageTraining, PredictImages
from featscope.views import CropColor

SHORT = "The paper's length of training is not given; a few hundred steps are surely a small part of it."
AVERAGED = "Both with a moving average; this pair was added after a first run had been seen."
WITH_HEAD = "Control: this arm has a head."
HEADS = {"identity": "", "linear": "", "mlp": "", "identity-ema": AVERAGED}
WITHOUT = {"identity": "none", "linear": "none", "mlp": "none", "identity-ema": "none-ema"}  # head -> the arm without

asymmetric = partial(
    bound,
    on="identity",
    not_on=UNTRAINED,
    at_least=2**0.5 / 2,
    because="Bound: halfway between a symmetric head, 0, and independent entries, √2; an antisymmetric one has 2.",
    range=(0.0, 2.0),
)


@dataclass(frozen=True)
class PredictionHeadImages(ImageStudy):
    """Which part of SimSiam and BYOL keeps features from collapsing, on images (Wen & Li 2022, Section 8).

    Head, projection, optimizer, momentum and strength of the augmentation are the paper's; it gives neither batch nor
    length of training. The network is narrow and the images are small so that all arms fit into minutes on a CPU. All
    arms of a replica begin with the same encoder and projection, and see the same images.

    Attributes:
        train: training images; 0 for all, None for 5,000 on the CPU and all on CUDA.
        test: test images; 0 for all, None for 2,000 on the CPU and all on CUDA.
        side: height and width that images are brought to, in pixels; 0 for images as they are, None for 16 on the CPU
            and as they are on CUDA.
        network: the encoder; the paper's is 64 wide and has BatchNorm.
        augmentation: crop and colour distortion, the strengths of the paper's code base.
        projection: maps features to what is predicted.
        ema: how the target network follows, in the arm that has one.
    """

    train: int | None = None
    test: int | None = None
    side: int | None = None
    network: ResNet18 = field(default_factory=lambda: ResNet18(width=8))
    augmentation: CropColor = field(default_factory=lambda: CropColor(grayscale=0.1))
    projection: ProjectionHead = field(default_factory=lambda: ProjectionHead(hidden=512, outputs=64))
    ema: EMA = field(default_factory=EMA)
    optimizer: TorchOptimizer = field(default_factory=lambda: TorchOptimizer("Adam", lr=3e-3))
    steps: int = 200
    probe_every: int = 20

    name = "prediction-head-images"
    asks: ClassVar[str] = "What keeps the outputs of a network from becoming copies of each other?"
    default_replicas = 5
    on_cpu: ClassVar[Mapping[str, int]] = {"train": 5000, "test": 2000, "side": 16}
    few: ClassVar[Mapping[str, Any]] = {
        "train": 40,
        "test": 24,
        "network": ResNet18(2),
        "projection": ProjectionHead(8),
    }

    def arms(self) -> Sequence[Arm[ImageTraining]]:
        """Heads under batch normalisation, two of them also under l2 and with a moving average, and where all begin."""
        images = Images(self.data, self.train, self.test, self.side, self.on_cpu)

        def arm(
            name: str, kind: Any, about: str, label: str, norm: Literal["batch", "l2"] = "batch", ema: EMA | None = None
        ) -> Arm[ImageTraining]:
            loss = NonContrastive(norm, eps=1e-5)  # that of BatchNorm: with real networks an output may be constant
            objective = PredictImages(self.augmentation, self.projection, PredictionHead(kind), loss, self.batch, ema)
            plain = self.trained(name, images, self.network, objective, f"{about}.", label)
            return replace(plain, recipe=replace(plain.recipe, rules={"ema": ema}))

        frozen = "Identity-initialised head with frozen diagonal, batch-normalised outputs"
        identity, averaged = "The identity-initialised head", "targets come from a moving average"
        first = arm("identity", "identity", frozen, figures.FIRST)
        return [
            first,
            arm("none", "none", "No prediction head", "no head"),
            arm("linear", "linear", "A linear head that begins at random", "linear head"),
            arm("mlp", "mlp", "A head with a hidden layer that begins at random", "MLP head"),
            arm("identity-ema", "identity", f"{identity}; {averaged} (BYOL)", "identity, moving average", ema=self.ema),
            arm("none-ema", "none", f"No prediction head; {averaged}", "no head, moving average", ema=self.ema),
            arm("identity-l2", "identity", f"{identity}, with outputs of norm 1 instead", "identity, l2", "l2"),
            arm("none-l2", "none", "No prediction head, with outputs of norm 1", "no head, l2", "l2"),
            self.untrained(first),
        ]

    def watch(self, experiment: GradientTraining) -> Mapping[str, Measurement]:
        """Collapse, and the head."""
        return probes.during(experiment)

    def measure(self, experiment: GradientTraining) -> Mapping[str, Measurement]:
        """Collapse, accuracy, and whether the parts of the arm are what they are said to be."""
        parts = probes.parts(experiment, self.initial(experiment))
        return {**probes.at_the_end(experiment), **probes.readout(experiment), **parts}

    # --- What the comparison rests on ---------------------------------------------------------------------------------

    @identity(
        "Equation (3.3)", on="identity", equals=0.0, within=0.0, because="Tolerance: none.", law="exact", range=POSITIVE
    )
    def targets_are_constant(self, run: xr.Dataset) -> xr.DataArray:
        """Targets are constants to the loss. Measured: norm of its gradient to targets over that to predictions."""
        return run.target_gradient

    @identity(
        "Section 8, Algorithm 1",
        on="identity",
        not_on={"linear": "Control: this head is all trained."},
        equals=0.0,
        within=1e-5,
        because="Tolerance: float32 rounding.",
        law="exact",
        range=POSITIVE,
    )
    def diagonal_frozen(self, run: xr.Dataset) -> xr.DataArray:
        r"""Only the off-diagonal entries of the head are trained.

        Measured: largest $|E_{jj} - 1|$ of what the trained head does to unit vectors.
        """
        return run.head_diagonal_error

    @identity(
        "Section 7, Figure 2",
        on=("identity-l2", "none-l2"),
        not_on={"identity": "Control: batch normalisation sees lengths."},
        equals=0.0,
        within=1e-6,
        because="Tolerance: rounding.",
        law="exact",
        range=SHARE,
    )
    def lengths_are_not_seen(self, run: xr.Dataset) -> xr.DataArray:
        """The loss sees no lengths where outputs are brought to norm 1.

        Measured: norm of what of its gradient is along each prediction over that of all, where targets are what the
        projection makes of other images.
        """
        return run.length_gradient

    @bound(
        "Section 8",
        on={"identity-ema": "", "none-ema": ""},
        at_most=0.9,
        because="Bound: a stated choice below 1.",
        note="A target that is never updated has 1.",
        range=POSITIVE,
    )
    def target_follows(self, run: xr.Dataset) -> xr.DataArray:
        """The target network follows the encoder. Measured: distance of the two over the encoder's from its start."""
        return run.target_lag

    # --- Accuracy (Section 1.1, Figure 2) -----------------------------------------------------------------------------

    @gained(
        "Section 8",
        on=dict.fromkeys(("identity", "identity-ema", "linear", "mlp"), GAINED),
        not_on=UNTRAINED,
        note=UNSAID,
    )
    def training_helps(self, run: xr.Dataset, runs: Runs, arm: str) -> Found:
        """Training without negatives improves features. Measured: linear-probe accuracy minus that before training."""
        return against_itself(run.linear_probe - runs["untrained"].linear_probe, arm)

    @bound(
        "Section 1.1, Figure 2",
        on=dict.fromkeys(("linear", "mlp"), "The arm is the rival."),
        not_on=UNTRAINED,
        at_least=-0.02,
        because="Bound: at most two points in a hundred worse, a stated choice.",
        range=COSINE,
    )
    def identity_head_competitive(self, run: xr.Dataset, runs: Runs, arm: str) -> xr.DataArray:
        """A head that begins as the identity is as good as the usual ones.

        Measured: its linear-probe accuracy minus that of a head which begins at random.
        """
        if arm == "untrained":
            return run.linear_probe - np.maximum(runs["linear"].linear_probe, runs["mlp"].linear_probe)
        return runs["identity"].linear_probe - run.linear_probe

    @gained("Section 1.1", on={"identity": "", "identity-ema": AVERAGED}, because=GAINED)
    def head_beats_none(self, run: xr.Dataset, runs: Runs, arm: str) -> xr.DataArray:
        """Without a trained head features are significantly worse.

        Measured: linear-probe accuracy with the identity-initialised head minus without a head.
        """
        return run.linear_probe - runs[WITHOUT[arm]].linear_probe

    @higher(
        "Section 7, Figure 2", not_on="identity-l2", note=f"The paper says that its figure seems to suggest it. {SHORT}"
    )
    def l2_gap(self, run: xr.Dataset, runs: Runs) -> xr.DataArray:
        """Outputs of norm 1 leave a gap to batch-normalised ones.

        Measured: linear-probe accuracy with batch normalisation minus with l2, both with the identity-initialised head.
        """
        return runs["identity"].linear_probe - run.linear_probe

    # --- Collapse (Figure 1, Theorem 4.1, Remark 4.5) -----------------------------------------------------------------

    @bound(
        "Figure 1a",
        on="none",
        not_on={"identity": WITH_HEAD, **UNTRAINED},
        at_least=0.9,
        because="Bound: a stated choice for 'extremely close to ±1', of which the paper shows a histogram without "
        "numbers.",
        range=SHARE,
    )
    def no_head_correlation(self, run: xr.Dataset) -> xr.DataArray:
        r"""Without a head, outputs of the projection are correlated by nearly $\pm 1$.

        Measured: mean |correlation| of two outputs over test images.
        """
        return run.projection_mean_correlation

    @higher("Section 1.1, Theorem 4.1", on=HEADS)
    def head_decorrelates(self, run: xr.Dataset, runs: Runs, arm: str) -> xr.DataArray:
        """The head keeps outputs apart. Measured: mean |correlation| of projection outputs without minus with it."""
        return runs[WITHOUT[arm]].projection_mean_correlation - run.projection_mean_correlation

    @ordering("Section 1.1, Theorem 4.1", on=HEADS, more_than=0.0, because=SIGN)
    def head_keeps_rank(self, run: xr.Dataset, runs: Runs, arm: str) -> xr.DataArray:
        """The head keeps dimensions. Measured: effective rank of projection outputs with a head minus without one."""
        return run.projection_effective_rank - runs[WITHOUT[arm]].projection_effective_rank

    @higher("Figure 1b, Section 7", on="none")
    def milder_in_encoder(self, run: xr.Dataset) -> xr.DataArray:
        """Before the projection the correlation is milder.

        Measured: mean |correlation| of projection outputs minus of encoder outputs, without a head.
        """
        return run.projection_mean_correlation - run.encoder_mean_correlation

    @bound(
        "Remark 4.5",
        on="none-l2",
        not_on={"identity-l2": WITH_HEAD, **UNTRAINED},
        at_most=0.01,
        because="Bound: a hundredth of the sphere's variance, a stated choice for 'collapsed to a point'.",
        note="The paper says that it is easier so with a feature of low variance, and shows no experiment.",
        range=SHARE,
    )
    def l2_no_head_collapses(self, run: xr.Dataset) -> xr.DataArray:
        """With outputs of norm 1 and no head everything goes to one point.

        Measured: variance of the directions of the projection's outputs.
        """
        return run.projection_final_spread

    # --- The course of the head (Figures 3 and 4) ---------------------------------------------------------------------

    @bound(
        "Figures 3a and 4",
        not_on={"identity": "", **UNTRAINED},
        at_least=0.1,
        because="Bound: a tenth, a stated choice: any noise takes the last value below the highest.",
        note=f"In the paper only some runs return to about 0. {SHORT}",
        range=SHARE,
    )
    def rise_and_fall_on_images(self, run: xr.Dataset, arm: str) -> Found:
        r"""The off-diagonal of the head rises, then falls.

        Measured: share of the highest $\|\mathrm{offdiag}(E)\|_F$ that is lost by the end.
        """
        off = run.head_off_diagonal
        most = off.where(looked(run), 0.0).max("step", skipna=False)
        lost = 1 - (last(run, off) / most).where(most != 0, 1.0)  # 0 if it never rose
        return against_itself(lost, arm)

    @asymmetric("Figure 3b")
    def head_asymmetric_early(self, run: xr.Dataset, arm: str) -> Found:
        r"""Early in training the head is not symmetric.

        Measured: $\|E - E^T\|_F / \|\mathrm{offdiag}(E)\|_F$ at the first measurement after a tenth of the steps.
        """
        steps = run["step"].values
        return against_itself(asymmetry(run).isel(step=np.searchsorted(steps, steps[-1] / 10)), arm)

    @asymmetric("Section 1.1, Figure 3b")
    def head_not_symmetric(self, run: xr.Dataset, arm: str) -> Found:
        r"""The head does not become symmetric.

        Measured: $\|E - E^T\|_F / \|\mathrm{offdiag}(E)\|_F$ at the end.
        """
        return against_itself(last(run, asymmetry(run)), arm)

    # --- What is shown ------------------------------------------------------------------------------------------------

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """Correlations, then Figures 1, 2 and 3 of the paper, spectra, and the course of training."""
        return figures.figures(self.labelled(runs))

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """How alike outputs are with and without a head, and what a linear classifier makes of the features."""
        alike = {arm: in_words(run.projection_mean_correlation) for arm, run in runs.items()}
        named = {arm: in_words(100 * run.linear_probe, "{:.1f} %") for arm, run in runs.items()}
        words = {"holds": "are less alike", "fails": "are no less alike", "undecided": "may be less alike"}
        are, head, none = words[verdict(claims, "head-decorrelates@identity")], alike["identity"], alike["none"]
        return Story(
            f"Outputs {are} with a prediction head: two correlate by {head} with it, {none} without.",
            f"Networks learn from images ({Path(self.data).name}), without labels, to say the same of two altered "
            "copies; nothing "
            "keeps their outputs from becoming copies of each other. A picture shows how alike any two outputs are on "
            "test images (0: not at all, ±1: copies), for two kinds of prediction head, for none, and before training. "
            f"A linear classifier on what was learned names {named['identity']} of test images with the head, "
            f"{named['none']} without, and {named['untrained']} before training.",
            {
                "no-head-correlation@none": f"{none} on average; {alike['untrained']} before training.",
                "head-decorrelates@identity": f"{none} without, {head} with it; {alike['mlp']} with the usual head.",
                "head-decorrelates@identity-ema": f"{alike['none-ema']} without, {alike['identity-ema']} with it, if "
                "targets come from a moving average.",
                "head-beats-none@identity": f"{named['identity']} of test images are named with it, "
                f"{named['none']} without.",
                "training-helps@identity": f"{named['untrained']} before training, {named['identity']} after.",
            },
        )
