"""What `contrastive-fine-tuning` runs: sets of images and sentences, curves, wrong pairs, maps, growing unions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import xarray as xr

from featscope.options import require
from featscope.studies.base import Arm, Study
from featscope.studies.contrastive_fine_tuning.clusters import Clusters
from featscope.studies.contrastive_fine_tuning.pretraining import Kinds, Unions
from featscope.studies.contrastive_fine_tuning.recipe import FineTuning
from featscope.studies.contrastive_fine_tuning.source import EFFICIENTNET, MADE_UP, MINILM, VIEWS, Data

IMAGES, PHOTOS, UNIONS, KINDS, WRONG = "images", "photos", "unions", "kinds", "wrong-pairs"
OF_VIEWS, OF_CLASSES, CLUSTERS = "few-views", "few-classes", "clusters"
TEXTS = ("trec", "sst2", "mr", "subj", "cr")
TARGETS = (IMAGES, PHOTOS, *TEXTS)
LABELS: Mapping[str, tuple[int, ...]] = {IMAGES: (100, 300, 1000), PHOTOS: (100, 300)}
"""Numbers of labels; 100 of sentences."""
FEWEST, CURVE = 100, 300
SHARES = (100, 50, 20)
"""Of the target that is pre-trained on, in percent (Figure F.6)."""
LABEL_OF = {
    IMAGES: "CIFAR-10",
    PHOTOS: "PACS photo",
    "trec": "TREC",
    "sst2": "SST-2",
    "mr": "MR",
    "subj": "Subj",
    "cr": "CR",
}
APART = (-100.0, 100.0)
SIGN = "Bound: 0, the sign of a difference that is paired by replica."
DRAWN_APART = "Bound: 0, the sign of a difference of what a replica draws each by itself."
OPEN = "Judged, and not expected: nothing in the theory says that it holds here."


@dataclass(frozen=True)
class ContrastiveFineTuningArms(Study):
    """Fine-tuning with a contrastive term on frozen features (dissertation, Chapter 7 and Appendix F, real data).

    Features of a fixed number of views of each sample are computed once; a small adapter on these is trained. Without
    `data` samples are made up, and what is found says nothing about the paper.

    Attributes:
        data: "made-up", or a folder with the folders cifar10 and pacs (the Hub's parquet files), sentences (lines of a
            label, a blank and a sentence) and sst2 (train.tsv and test.tsv).
        encoder: what makes features of images: "efficientnet-lite0", a model of the Hub, as microsoft/resnet-50, or its
            folder.
        sentence_encoder: what makes features of sentences: "minilm", a model of the Hub, as
            princeton-nlp/unsup-simcse-roberta-base, or its folder.
        units: of the adapter's hidden layer.
        batch: labelled samples in a batch; twice as many, without labels, on the arms `unions` and `kinds`.
        steps: of each training; twice as many on the arms `unions` and `kinds`.
        rate: Adam's learning rate.
    """

    name = "contrastive-fine-tuning"
    default_replicas = 10

    data: str = MADE_UP
    encoder: str = EFFICIENTNET
    sentence_encoder: str = MINILM
    units: int = 64
    batch: int = 50
    steps: int = 100
    rate: float = 1e-3

    def __post_init__(self) -> None:
        require(self, "data", self.data != "", f"{MADE_UP!r}, or a folder")
        for name, known in (("encoder", EFFICIENTNET), ("sentence_encoder", MINILM)):
            require(self, name, getattr(self, name) != "", f"{known!r}, a model of the Hub, or a folder")
        require(self, "units", 8 <= self.units <= 10_000, "8 to 10000")
        require(self, "batch", 2 <= self.batch <= 10_000, "2 to 10000", "The other samples are the negatives.")
        require(self, "steps", 1 <= self.steps <= 1_000_000, "1 to 1000000")
        require(self, "rate", 0 < self.rate <= 1, "above 0 and at most 1")

    @property
    def is_stand_in(self) -> bool:
        """Whether the paper says nothing of the data."""
        return self.data == MADE_UP

    def smallest(self) -> "ContrastiveFineTuningArms":
        """Two steps of small adapters on made-up samples."""
        return replace(self, data=MADE_UP, units=8, batch=4, steps=2)

    def arms(self) -> Sequence[Arm]:
        """Sets of samples; fewer views, fewer classes, wrong pairs; features; pre-training on unions, and on kinds."""
        sizes = self.units, self.batch, self.steps, self.rate
        data = Data(self.data, self.encoder, self.sentence_encoder)
        at_curve = IMAGES, data, (CURVE,), (VIEWS,), (0,), *sizes
        curve = FineTuning(*at_curve)
        pretraining = data, FEWEST, self.units, 2 * self.batch, 2 * self.steps, self.rate
        return [
            *(
                Arm(
                    name,
                    FineTuning(name, data, LABELS.get(name, (FEWEST,)), (VIEWS,), (0,), *sizes),
                    f"{LABEL_OF[name]}: all methods.",
                    LABEL_OF[name],
                )
                for name in TARGETS
            ),
            Arm(OF_VIEWS, replace(curve, views=(2, 5)), "CIFAR-10, fewer stored views.", "fewer views"),
            Arm(OF_CLASSES, replace(curve, classes=(2, 5)), "CIFAR-10, fewer classes.", "fewer classes"),
            Arm(
                WRONG,
                replace(curve, labels=(FEWEST,), wrong_pairs=True),
                "CIFAR-10, where the term's positives are views of another image.",
                "wrong pairs",
                "control",
            ),
            Arm(
                CLUSTERS,
                Clusters(*at_curve),
                "CIFAR-10: how features of test images lie, of the encoder and after fine-tuning.",
                "clusters",
            ),
            Arm(
                UNIONS,
                Unions(*pretraining, SHARES),
                "An adapter pre-trained without labels, from scratch, on CIFAR-10 or a part of it, and ever more sets; "
                f"{2 * self.steps} steps of {2 * self.batch} samples.",
                "unions",
            ),
            Arm(
                KINDS,
                Kinds(*pretraining),
                "The same on CIFAR-10 and as many images of ever more kinds.",
                "kinds",
            ),
        ]


def of_paper(study: ContrastiveFineTuningArms) -> bool:
    """Whether samples are real, so that anything is expected."""
    return not study.is_stand_in


def accuracy(run: xr.Dataset, method: int) -> xr.DataArray:
    """Test accuracy of a method in percent, at each number of labels, views and classes."""
    return 100 * run.accuracy.isel(method=method, drop=True)


def fewest(run: xr.Dataset, method: int) -> xr.DataArray:
    """The same at the fewest labels, and the first of the numbers of views and classes."""
    return accuracy(run, method).isel(labels=0, views=0, classes=0, drop=True)


def difference(run: xr.Dataset, method: int, other: int) -> xr.DataArray:
    """Points by which a method is better than another at the fewest labels, paired by replica."""
    return fewest(run, method) - fewest(run, other)
