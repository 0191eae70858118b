"""What `domain-generalisation` runs: algorithms, each plain, with the nuclear norm and with the Frobenius norm."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import xarray as xr

from featscope.data.decoded_images import BUNDLED
from featscope.data.digit_domains import DIGITS
from featscope.options import require
from featscope.studies.base import Arm, Study
from featscope.studies.domain_generalisation.algorithms import AlgorithmName
from featscope.studies.domain_generalisation.recipe import LeaveOneOut
from featscope.studies.domain_generalisation.source import EFFICIENTNET, MADE_UP, PIXELS
from featscope.studies.reductions import known

STRENGTHS = (0.003, 0.01, 0.03, 0.3)
"""λ: the ends of the paper's window, its 0.01, and one beyond."""
PRINTED, TOP, BEYOND = 0.01, 0.03, 0.3
Norm = Literal["nuclear", "frobenius"]
PENALISED: Mapping[AlgorithmName, str] = {
    "erm": "ERM",
    "mixup": "Mixup",
    "swad": "SWAD",
    "coral": "CORAL",
    "group-dro": "GroupDRO",
}
"""Arms of algorithms that are trained with and without penalties, with their labels."""
LABELS: Mapping[str, str] = {str(name): label for name, label in PENALISED.items()} | {"head": "ERM, head trained"}
"""The same, and ERM with more of the encoder trained."""
SWAD_CORAL: AlgorithmName = "swad-coral"
HEAD, NO_SHIFT = "head", "no-shift"
HEAD_STRENGTHS = (PRINTED, TOP)
HEAD_STEPS, HEAD_RATE, HEAD_LOOKS = 50, 1e-3, 1
"""Of the last convolution's trainings: a step of one takes as long as a step of 25 adapters."""


@dataclass(frozen=True)
class DomainGeneralisationArms(Study):
    """Nuclear norm regularisation where one domain of images is left out (dissertation, Sections 6.3.2 and 6.3.3).

    Images become features of a frozen encoder once; a small network on these is trained, on one arm the encoder's last
    convolution. Without `data` the images are made up, and what is found says nothing about the paper. On PACS replicas
    differ by about 0.6 points: ten see a gain of two thirds of a point at 99 %, and no smaller one.

    Attributes:
        data: "made-up"; "coloured-digits", where colour says no more of the label than shape does, or
            "coloured-digits-strong", where it says more in two domains, in one of them the other way round;
            "rotated-digits", by 0 to 75°; or a folder of images of several domains: the Hub's parquet files with
            columns image, domain and label, or DOMAIN/CLASS/*.jpg.
        digits: which, where data are digits: "digits" for scikit-learn's, or a folder with MNIST's files.
        encoder: what makes features of images: "efficientnet-lite0"; "pixels", 8 x 8 of them; a model of the Hub, as
            microsoft/resnet-50, or its folder.
        trained: "adapter", a small network on features; or "whole", all of the encoder on DomainBed's random views of
            images, which with its steps (5000) and rate (0.00005) takes hours on a GPU.
        units: ReLUs of the small network.
        batch: images of each training domain in a batch.
        steps: of each training, but on the arm `head`, which has 50.
        rate: Adam's learning rate, but on the arm `head`, which has 0.001.
    """

    name = "domain-generalisation"
    default_replicas = 10

    data: str = MADE_UP
    digits: str = BUNDLED
    encoder: str = EFFICIENTNET
    trained: Literal["adapter", "whole"] = "adapter"
    units: int = 64
    batch: int = 32
    steps: int = 200
    rate: float = 1e-3

    def __post_init__(self) -> None:
        require(self, "data", self.data != "", f"{MADE_UP!r}, {', '.join(map(repr, DIGITS))}, or a folder")
        require(self, "digits", self.digits != "", f"{BUNDLED!r}, or a folder")
        require(self, "encoder", self.encoder != "", f"{EFFICIENTNET!r}, {PIXELS!r}, a model of the Hub, or a folder")
        require(
            self,
            "trained",
            self.trained in ("adapter", "whole") and (self.trained, self.encoder) != ("whole", PIXELS),
            "'adapter', or with an encoder that has weights 'whole'",
        )
        require(self, "units", 1 <= self.units <= 10_000, "1 to 10000")
        require(self, "batch", 2 <= self.batch <= 10_000, "2 to 10000", "Covariances need two images.")
        require(self, "steps", 1 <= self.steps <= 1_000_000, "1 to 1000000")
        require(self, "rate", 0 < self.rate <= 1, "above 0 and at most 1")

    @property
    def is_stand_in(self) -> bool:
        """Whether the paper says nothing of the data."""
        return self.data == MADE_UP or self.data in DIGITS

    def smallest(self) -> "DomainGeneralisationArms":
        """Two steps of small networks on pixels of made-up images."""
        return replace(self, data=MADE_UP, encoder=PIXELS, trained="adapter", units=4, batch=2, steps=2)

    @property
    def has_head(self) -> bool:
        """Whether there is an arm with the last convolution trained: where the rest is frozen, and its encoder is."""
        return self.encoder == EFFICIENTNET and self.trained == "adapter"

    def arms(self) -> Sequence[Arm[LeaveOneOut]]:
        """Five algorithms with all penalties, SWAD with CORAL, more of the encoder trained; domains mixed up."""
        source = self.data, self.digits, self.encoder, self.trained
        erm = LeaveOneOut("erm", STRENGTHS, *source, self.units, self.batch, self.steps, self.rate, looks=15)
        head = replace(erm, trained="head", strengths=HEAD_STRENGTHS, steps_each=HEAD_STEPS, rate=HEAD_RATE)
        abouts: Mapping[AlgorithmName, str] = {
            "erm": "The loss alone (empirical risk minimisation).",
            "mixup": "Features of two domains mixed, and their labels.",
            "swad": "Weights averaged in a valley of validation losses.",
            "coral": "Means and covariances of features brought together.",
            "group-dro": "Domains with large losses count more.",
        }
        return [
            *(
                Arm(
                    name,
                    replace(erm, algorithm=name),
                    f"{about} Plain, with NU, with a Frobenius norm.",
                    PENALISED[name],
                )
                for name, about in abouts.items()
            ),
            Arm(SWAD_CORAL, replace(erm, algorithm=SWAD_CORAL, strengths=()), "SWAD with CORAL's term.", "SWAD-CORAL"),
            *(
                [
                    Arm(
                        HEAD,
                        replace(head, looks=HEAD_LOOKS),
                        f"ERM where the encoder's last convolution is trained: {HEAD_STEPS} steps, rate {HEAD_RATE:g}.",
                        LABELS[HEAD],
                    )
                ]
                if self.has_head
                else []
            ),
            Arm(
                NO_SHIFT,
                replace(erm, shuffled=True),
                "ERM where images change domains at random, so that none is new.",
                "no shift",
                "control",
            ),
        ]


def and_head(arms: Mapping[str, str], why: str = "") -> Callable[[DomainGeneralisationArms], Mapping[str, str]]:
    """``arms`` with what is to be said of each, and where it is there the one whose last convolution is trained."""
    return lambda study: {**arms, HEAD: why} if study.has_head else arms


def strengths_of(run: xr.Dataset) -> Sequence[float]:
    """λ of each norm on an arm, which shows in how many trainings it has."""
    return STRENGTHS if run.sizes["training"] == 1 + 2 * len(STRENGTHS) else HEAD_STRENGTHS


def place(run: xr.Dataset, norm: Norm, strength: float) -> int:
    """Where the training with λ times a norm stands; the first has none."""
    of_arm = strengths_of(run)
    return 1 + (norm == "frobenius") * len(of_arm) + of_arm.index(strength)


def accuracy(run: xr.Dataset, norm: Norm | None = None, strength: float = PRINTED) -> xr.DataArray:
    """Mean over domains left out of the accuracy there, in percent."""
    return by_target(run, norm, strength).mean("target")


def by_target(run: xr.Dataset, norm: Norm | None = None, strength: float = PRINTED) -> xr.DataArray:
    """The same in each domain left out."""
    return 100 * _of(run, "accuracy", norm, strength)


def rank(run: xr.Dataset, kind: str, norm: Norm | None = None, strength: float = TOP) -> xr.DataArray:
    """Mean over domains left out of a rank of features there: "raw_rank", "centred_rank" or "entropy_rank"."""
    return _of(run, kind, norm, strength).mean("target")


def _of(run: xr.Dataset, kind: str, norm: Norm | None, strength: float) -> xr.DataArray:
    return run[kind].isel(training=place(run, norm, strength) if norm else 0, drop=True)


def chosen(run: xr.Dataset, norm: Norm) -> xr.DataArray:
    """The same accuracy at the λ with the best validation accuracy, for each domain left out; the least of equals."""
    of_arm = strengths_of(run)
    first = place(run, norm, of_arm[0])
    of_norm = {"training": slice(first, first + len(of_arm))}
    checked = run.validation.isel(of_norm)
    best = checked.argmax("training", skipna=False)
    return known(100 * run.accuracy.isel(of_norm).isel(training=best).mean("target", skipna=False), checked)


def printed_error(values: np.ndarray) -> float:
    """What DomainBed prints behind ±: the population's deviation over the root of the number of runs."""
    return float(np.std(values) / np.sqrt(len(values)))
