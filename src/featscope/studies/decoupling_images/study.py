"""What augmentation does to the features of contrastive learning on images.

Wen & Li 2021, Toward Understanding the Feature Learning Process of Self-supervised Contrastive Learning (arXiv
2105.15134), Figures 1 to 4 and three Messages. The paper shows pictures and gives no number: every measure below is our
reading of a word such as "sparser". All differences are paired: a replica's arms share network and images.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal

import xarray as xr

from featscope.claims import COSINE, POSITIVE, Claim, Found, bound, identity, ordering
from featscope.data import Images
from featscope.figures import Figure
from featscope.losses import NTXent
from featscope.models import AlexNet, WideResNet
from featscope.options import require
from featscope.studies import Arm, Runs, Story, last
from featscope.studies.decoupling_images import figures, probes
from featscope.studies.images import GAINED, SIGN, UNTRAINED, ImageStudy, against_itself, gained, higher
from featscope.studies.reductions import mean
from featscope.studies.summaries import in_words, percent, verdict
from featscope.training import GradientTraining, Measurement
from featscope.training.image_objectives import ClassifyImages, ContrastImages, ImageTraining
from featscope.views import SameSample

ONE_METRIC = 'The paper does not define "sparser".'
GROWING = (
    f"{ONE_METRIC} The difference begins with the other sign and grows while the default run trains, which is short: "
    "four replicas leave it undecided there."
)
ABOVE_FIRST = {"layer": slice(1, None)}  # Figure 4 shows layers 2 to 5
ADDED = "The random start, two thirds chromatic, holds nearly all of the filters' energy after a short training."

sparser = partial(ordering, on={"crop-colour": SIGN}, not_on=UNTRAINED, more_than=0.0, range=COSINE)
better = partial(gained, on={"crop-colour": GAINED}, not_on=UNTRAINED)


@dataclass(frozen=True)
class DecouplingImages(ImageStudy):
    """What crops and colour distortion do to contrastive features (Wen & Li 2021, Figures 1-4).

    The paper gives no number and no setting of these experiments; what follows are the usual ones of SimCLR,
    made small. All arms of a replica begin with the same network and the same images.

    Attributes:
        train: training images; 0 for all, None for 5,000 on the CPU and all on CUDA.
        test: test images; 0 for all, None for 4,000 on the CPU and all on CUDA.
        network: which of the two networks below is trained.
        alexnet: the network of Figures 2 and 4.
        wide_resnet: the network of Figures 1 and 3, far too slow for a CPU.
        augmentation: crop and colour distortion; the arms that only crop take its crop.
        loss: the contrastive loss.
    """

    train: int | None = None
    test: int | None = None
    network: Literal["alexnet", "wide-resnet"] = "alexnet"
    alexnet: AlexNet = field(default_factory=AlexNet)
    wide_resnet: WideResNet = field(default_factory=WideResNet)
    loss: NTXent = field(default_factory=NTXent)
    steps: int = 400

    name = "decoupling-images"
    asks = "What do crops and distorted colours teach a network that sees no labels?"
    default_replicas = 4
    on_cpu: ClassVar[Mapping[str, int]] = {"train": 5000, "test": 4000}
    few: ClassVar[Mapping[str, Any]] = {"train": 48, "test": 32, "alexnet": AlexNet(width=4)}

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "test", self.test != 1, "0, None, or >= 2", "A map of one image has no distances.")

    def arms(self) -> Sequence[Arm[ImageTraining]]:
        """Three contrastive ones, two supervised ones, and the network they begin from."""
        images = Images(self.data, self.train, self.test, on_cpu=self.on_cpu)
        network = self.alexnet if self.network == "alexnet" else self.wide_resnet
        contrast = partial(ContrastImages, projection=self.projection, loss=self.loss, batch=self.batch)
        classify = partial(ClassifyImages, batch=self.batch)

        def arm(name: str, objective: ContrastImages | ClassifyImages, about: str, label: str) -> Arm[ImageTraining]:
            return self.trained(name, images, network, objective, about, label)

        crop, both, distorted = self.augmentation.crop, self.augmentation, "random crops with distorted colours"
        labelled = "Trained on labels, with"
        none = arm("none", contrast(SameSample()), "Contrastive; both views are the image itself.", "no augmentation")
        return [
            none,
            arm("crop", contrast(crop), "Contrastive; views are random crops.", "crop"),
            arm("crop-colour", contrast(both), f"Contrastive; views are {distorted}.", "crop + colour"),
            arm("supervised-crop", classify(crop), f"{labelled} random crops.", "supervised, crop"),
            arm("supervised-crop-colour", classify(both), f"{labelled} {distorted}.", "supervised, crop + colour"),
            self.untrained(none),
        ]

    def watch(self, experiment: GradientTraining) -> Mapping[str, Measurement]:
        """Firing and filters."""
        return probes.during(experiment, self.initial(experiment))

    def measure(self, experiment: GradientTraining) -> Mapping[str, Measurement]:
        """Firing, filters and read-outs."""
        found = {**probes.firing(experiment), **probes.filters(experiment, self.initial(experiment))}
        return {**found, **probes.readout(experiment)}

    # --- Messages 1 and 2: without augmentation, and with crops alone -------------------------------------------------

    @bound(
        "Message 1, Figure 2",
        on={"none": "Bound: one per cent, a stated choice far above rounding."},
        not_on=UNTRAINED,
        at_least=0.01,
        range=POSITIVE,
    )
    def filters_move_without_augmentation(self, run: xr.Dataset, arm: str) -> Found:
        r"""Without augmentation weights leave their random start. Measured: $\|W - W(0)\| / \|W(0)\|$, first layer."""
        return against_itself(last(run, run.filter_distance), arm)

    @ordering("Message 1, Figure 2", on="none", less_than=0.0, because=SIGN, range=COSINE)
    def no_augmentation_learns_no_signal(self, runs: Runs, arm: str) -> Found:
        """Without augmentation features are of no use. Measured: linear-probe accuracy minus that before training."""
        return above("linear_probe", runs, arm, "untrained")

    @gained(
        "Message 2",
        on={"crop": GAINED},
        note="At this size there is reason for doubt: two crops of a photograph share its colours, and a network that "
        "has had few steps knows them by that first.",
    )
    def crop_learns_some_semantics(self, runs: Runs, arm: str) -> Found:
        """Crop-resize alone helps to learn some semantic features.

        Measured: linear-probe accuracy minus the higher of that without augmentation and that before training.
        """
        return above("linear_probe", runs, arm, "none", "untrained")

    @ordering("Message 2, Message 3", on="crop", more_than=0.0, because=SIGN)
    def crop_keeps_colour_features(self, runs: Runs, arm: str) -> Found:
        """With crop-resize alone features keep a mixture of colours that distortion removes.

        Measured: $R^2$ of a linear read-out of the image's mean colour, with crop-resize alone minus with distortion.
        """
        return above("colour_readout", runs, arm, "crop-colour")

    @higher("Message 2, Message 3, Figure 2", on="crop")
    def crop_keeps_colourful_filters(self, run: xr.Dataset, runs: Runs) -> xr.DataArray:
        """With crop-resize alone first-layer filters stay more colourful.

        Measured: mean chromatic share of their energy, with crop-resize alone minus with distortion.
        """
        return last(run, run.filter_colourfulness - runs["crop-colour"].filter_colourfulness)

    @higher("Message 2, Message 3, Figure 2", on="crop", note=ADDED)
    def crop_learns_colourful_filters(self, run: xr.Dataset, runs: Runs) -> xr.DataArray:
        """With crop-resize alone training adds more colour to first-layer filters.

        Measured: mean chromatic share of $W - W(0)$, with crop-resize alone minus with distortion.
        """
        return run.colour_added - runs["crop-colour"].colour_added

    # --- Message 3, Figures 1 to 4: with distorted colours, and against supervised training ---------------------------

    @sparser("Message 3, Figure 4", note=GROWING)
    def colour_makes_contrastive_sparser(self, run: xr.Dataset, runs: Runs) -> Found:
        """Colour distortion makes firing sparser.

        Measured: fraction of active units in the layers above the first, with crop-resize alone minus with distortion.
        """
        return in_each_layer(runs["crop"].density - run.density)

    @sparser("Message 3, Figure 4", note=GROWING)
    def colour_makes_contrastive_sparser_hoyer(self, run: xr.Dataset, runs: Runs) -> Found:
        """Colour distortion makes firing sparser in strength, too.

        Measured: Hoyer's sparsity, which also weighs how much units fire, of the layers above the first, with
        distortion minus with crop-resize alone.
        """
        return in_each_layer(run.hoyer - runs["crop"].hoyer)

    @sparser(
        "Section 1.1, Figures 3, 4; Theorem 3.2",
        note="In the theory no neuron can fall silent, as biases are set by hand. Trained biases can silence neurons "
        "that have learned nothing, and silence counts as sparse.",
    )
    def no_augmentation_fires_densely(self, run: xr.Dataset, runs: Runs) -> Found:
        """Without augmentation representations are dense.

        Measured: fraction of active units in the layers above the first, without augmentation minus with distortion.
        """
        return in_each_layer(runs["none"].density - run.density)

    @better("Message 3")
    def colour_improves_features(self, runs: Runs, arm: str) -> Found:
        """Colour distortion makes edge and shape features better.

        Measured: linear-probe accuracy minus the higher of that with crop-resize alone and that before training.
        """
        return above("linear_probe", runs, arm, "crop", "untrained")

    @better("Figures 2, 3")
    def augmentation_improves_linear_probe(self, runs: Runs, arm: str) -> Found:
        """Crop-resize and colour distortion together improve the features.

        Measured: linear-probe accuracy minus the higher of that without augmentation and that before training.
        """
        return above("linear_probe", runs, arm, "none", "untrained")

    @better("Figure 3")
    def augmentation_improves_knn(self, runs: Runs, arm: str) -> Found:
        """Crop-resize and colour distortion together bring a class's images together.

        Measured: accuracy of 20 nearest neighbours minus the higher of that without augmentation and before training.
        """
        return above("knn", runs, arm, "none", "untrained")

    @better(
        "Figure 3",
        note="At this size no arm, supervised or not, has clusters: all silhouettes are below 0. The paper shows t-SNE "
        "maps, whose clusters depend on t-SNE; the silhouette is of the features themselves.",
        range=(-2.0, 2.0),
    )
    def augmentation_separates_classes(self, runs: Runs, arm: str) -> Found:
        """Crop-resize and colour distortion together make clusters of the classes.

        Measured: mean silhouette of the classes minus the higher of that without augmentation and before training.
        """
        return above("silhouette", runs, arm, "none", "untrained")

    @higher(
        "derived, for Figure 4",
        on=("supervised-crop", "supervised-crop-colour"),
        note="Without it nothing that is said of these networks is about learning.",
    )
    def supervised_training_helps(self, runs: Runs, arm: str) -> Found:
        """Supervised training improves features.

        Measured: accuracy of a linear probe on the last layer minus that before training.
        """
        return above("linear_probe", runs, arm, "untrained")

    @higher("Figure 4", on=("supervised-crop", "supervised-crop-colour"), note=ONE_METRIC)
    def supervised_sparser_than_crop(self, run: xr.Dataset, runs: Runs) -> xr.DataArray:
        """Supervised networks fire sparsely whatever the augmentation.

        Measured: active fraction above the first layer, contrastive with crop-resize alone minus supervised.
        """
        return mean((runs["crop"].density - run.density).isel(ABOVE_FIRST))

    @identity(
        "Figure 4",
        on="supervised-crop-colour",
        equals=0.0,
        within=0.05,
        because="Tolerance: one unit in twenty, a stated choice.",
        range=COSINE,
    )
    def supervised_firing_ignores_colour(self, run: xr.Dataset, runs: Runs) -> xr.DataArray:
        """Colour distortion does not change how sparsely supervised networks fire.

        Measured: active fraction above the first layer without it minus with it.
        """
        return mean((runs["supervised-crop"].density - run.density).isel(ABOVE_FIRST))

    @higher(
        "Figure 1",
        on="supervised-crop",
        note=f"{ADDED} The paper's figure visualises higher layers. As there only the contrastive views are distorted "
        "in colour, which is what decides: with crops alone contrastive training adds more colour.",
    )
    def supervised_learns_more_colour(self, run: xr.Dataset, runs: Runs) -> xr.DataArray:
        """Supervised training adds more colour to filters than contrastive training.

        Measured: mean chromatic share of $W - W(0)$, supervised (crop-resize) minus contrastive (with distortion).
        """
        return run.colour_added - runs["crop-colour"].colour_added

    @higher(
        "Figure 1",
        not_on="supervised-crop",
        note="The paper's figure visualises higher layers; of the first layer, measured here, it says nothing.",
    )
    def supervised_more_colourful(self, run: xr.Dataset, runs: Runs) -> xr.DataArray:
        """Supervised features are more colourful than contrastive ones.

        Measured: mean chromatic share of first-layer filters, supervised (crop-resize) minus contrastive (distorted).
        """
        return last(run, run.filter_colourfulness - runs["crop-colour"].filter_colourfulness)

    # --- What is shown ------------------------------------------------------------------------------------------------

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """Filters, read-outs, firing, maps, and the course of training."""
        return figures.figures(self.labelled(runs))

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """How many images the features name, and what is colour in what training adds to the filters."""
        named = {arm: percent(run.linear_probe.isel(layer=-1)) for arm, run in runs.items()}
        both = runs["crop"], runs["crop-colour"]
        crop_adds, both_add = (percent(run.colour_added) for run in both)
        crop_fires, both_fire = (percent(run.density.isel(ABOVE_FIRST)) for run in both)
        crop_hue, both_hue = (in_words(run.colour_readout.isel(layer=-1)) for run in both)
        opening = {
            "holds": "Distorted colours help",
            "fails": "Distorted colours do not help",
            "undecided": "Whether distorted colours help is unclear",
        }[verdict(claims, "colour-improves-features@crop-colour")]
        return Story(
            f"{opening}: {named['crop-colour']} of images are named right, {named['crop']} with crops alone, "
            f"{named['untrained']} untrained.",
            "Small networks learn without labels that two views show one image: twice the image itself, two random "
            "crops, or two crops with distorted colours. Two others learn from labels. Each square is what training "
            "added to a filter of the first layer: grey ones look for edges and brightness, others for colours.",
            {
                "colour-improves-features@crop-colour": "",
                "crop-learns-colourful-filters@crop": f"Of what training adds to the filters {crop_adds} is colour "
                f"with crops alone, {both_add} with distorted colours.",
                "crop-keeps-colour-features@crop": "How well features tell the mean colour (R²; 1 is perfectly): "
                f"{crop_hue} with crops alone, {both_hue} with distorted colours.",
                "crop-learns-some-semantics@crop": f"Crops alone name {named['crop']} of the images, no augmentation "
                f"{named['none']}, an untrained network {named['untrained']}.",
                "colour-makes-contrastive-sparser@crop-colour": f"Of the units above the first layer {both_fire} "
                f"fire with distorted colours, {crop_fires} with crops alone.",
            },
        )


def above(measured: str, runs: Runs, arm: str, *others: str) -> Found:
    """How far ``arm`` is above all of ``others`` at the features, the last layer."""
    top = [runs[name][measured].isel(layer=-1) for name in (arm, *others)]
    return against_itself(top[0] - xr.concat(top[1:], "arm").max("arm", skipna=False), arm)


def in_each_layer(difference: xr.DataArray) -> Found:
    """Its mean over the layers above the first, and what it is in each."""
    layers = difference.isel(ABOVE_FIRST)
    values = ", ".join(f"{float(v):+.3f}" for v in layers.mean("replica"))
    return Found(mean(layers), f"Measured in each layer from the second: {values}.")
