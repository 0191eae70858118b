"""What `domain-generalisation` runs: algorithms, each plain, with the nuclear norm and with the Frobenius norm."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from featscope.data.decoded_images import BUNDLED
from featscope.data.digit_domains import DIGITS
from featscope.options import require
from featscope.studies.base import Arm, Study
from featscope.studies.domain_generalisation.algorithms import AlgorithmName
from featscope.studies.domain_generalisation.recipe import LeaveOneOut
from featscope.studies.domain_generalisation.source import MADE_UP, EncoderName

STRENGTHS = (0.003, 0.01, 0.03, 0.3)
"""λ: the ends of the paper's window, its 0.01, and one beyond."""
PRINTED, TOP, BEYOND = STRENGTHS.index(0.01), STRENGTHS.index(0.03), STRENGTHS.index(0.3)
NUCLEAR, FROBENIUS = 1, 1 + len(STRENGTHS)
"""Where trainings with each norm begin; the first has none."""
PENALISED: Mapping[AlgorithmName, str] = {
    "erm": "ERM",
    "mixup": "Mixup",
    "swad": "SWAD",
    "coral": "CORAL",
    "group-dro": "GroupDRO",
}
"""Arms of algorithms that are trained with and without penalties, with their labels."""
SWAD_CORAL: AlgorithmName = "swad-coral"
NO_SHIFT = "no-shift"


@dataclass(frozen=True)
class DomainGeneralisationArms(Study):
    """Nuclear norm regularisation where one domain of images is left out (dissertation, Sections 6.3.2 and 6.3.3).

    Images become features of a frozen encoder once; a small network on these is trained. Without `data` the images are
    made up, and what is found says nothing about the paper. On PACS replicas differ by about 0.6 points: ten see a gain
    of two thirds of a point at 99 %, and no smaller one.

    Attributes:
        data: "made-up"; "coloured-digits", where colour says no more of the label than shape does, or
            "coloured-digits-strong", where it says more in one domain; "rotated-digits", by 0 to 75°; or a folder
            of images of several domains: the Hub's parquet files with columns image, domain and label, or
            DOMAIN/CLASS/*.jpg.
        digits: which, where data are digits: "digits" for scikit-learn's, or a folder with MNIST's files.
        encoder: what makes features of images; "pixels" takes 8 x 8 of them.
        units: ReLUs of the network on the features.
        batch: images of each training domain in a batch.
        steps: of each training.
        rate: Adam's learning rate.
    """

    name = "domain-generalisation"
    default_replicas = 10

    data: str = MADE_UP
    digits: str = BUNDLED
    encoder: EncoderName = "efficientnet-lite0"
    units: int = 64
    batch: int = 32
    steps: int = 200
    rate: float = 1e-3

    def __post_init__(self) -> None:
        require(self, "data", self.data != "", f"{MADE_UP!r}, {', '.join(map(repr, DIGITS))}, or a folder")
        require(self, "digits", self.digits != "", f"{BUNDLED!r}, or a folder")
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
        return replace(self, data=MADE_UP, encoder="pixels", units=4, batch=2, steps=2)

    def arms(self) -> Sequence[Arm[LeaveOneOut]]:
        """Five algorithms with all penalties, SWAD with CORAL, and ERM where domains are mixed up."""
        looks = 15
        sizes = self.data, self.digits, self.encoder, self.units, self.batch, self.steps, self.rate, looks
        erm = LeaveOneOut("erm", STRENGTHS, *sizes)
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
            Arm(
                NO_SHIFT,
                replace(erm, shuffled=True),
                "ERM where images change domains at random, so that none is new.",
                "no shift",
                "control",
            ),
        ]


def accuracy(run: xr.Dataset, training: int = 0) -> xr.DataArray:
    """Mean over domains left out of the accuracy there, in percent."""
    return 100 * run.accuracy.isel(training=training, drop=True).mean("target")


def chosen(run: xr.Dataset, first: int) -> xr.DataArray:
    """The same at the λ with the best validation accuracy, for each domain left out; the least of equals.

    Args:
        run: an arm's.
        first: `NUCLEAR` or `FROBENIUS`.
    """
    of_norm = {"training": slice(first, first + len(STRENGTHS))}
    best = run.validation.isel(of_norm).argmax("training", skipna=False)
    return 100 * run.accuracy.isel(of_norm).isel(training=best).mean("target")


def rank(run: xr.Dataset, kind: str, training: int = 0) -> xr.DataArray:
    """Mean over domains left out of a rank of features there: "raw_rank", "centred_rank" or "entropy_rank"."""
    return run[kind].isel(training=training, drop=True).mean("target")


def printed_error(values: np.ndarray) -> float:
    """What DomainBed prints behind ±: the population's deviation over the root of the number of runs."""
    return float(np.std(values) / np.sqrt(len(values)))
