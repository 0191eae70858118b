"""Gaussians at the corners of a cube, labelled by parity: the mixtures of Table A.6 and Figure A.12."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import xarray as xr
from jaxtyping import Float
from torch import Tensor

from featscope.claims import COSINE, STATED, bound, identity
from featscope.data.sign_mixture import SignMixture, SignMixtureSource
from featscope.models import FixedBiasReLU, FixedBiasReLUNetwork
from featscope.studies.base import Arm, last
from featscope.studies.fixed_features.arms import FixedFeaturesArms
from featscope.studies.fixed_features.general import GeneralClaims
from featscope.studies.fixed_features.trained import accuracies
from featscope.training import GradientTraining, Measurement, TorchOptimizer, Training
from featscope.training.feature_step import MarginLoss

FIRST, SECOND, THIRD = EXPERIMENTS = ("mixture-1", "mixture-2", "mixture-3")
NO_THRESHOLDS = "mixture-3-without-thresholds"
TABLE_A_6 = {FIRST: SignMixture(100, 4, 1.0), SECOND: SignMixture(25, 4, 0.7), THIRD: SignMixture(100, 5, 1.0)}
_SHOWN = 60
_TESTED = 2_000
_THRESHOLD, _SPREAD, _READOUT, _LR = 2.0, 0.01, 0.1, 0.1
"""First thresholds in units of the spread of first weights, that spread, that of the read-out, and the step size."""


def arms(study: FixedFeaturesArms) -> Sequence[Arm]:
    """Networks of 8 m ReLUs on the three mixtures, and on the third without thresholds."""
    tries = [(name, data, _THRESHOLD, "") for name, data in TABLE_A_6.items()]
    tries.append((NO_THRESHOLDS, TABLE_A_6[THIRD], 0.0, ", without thresholds"))
    made = []
    for name, data, threshold, without in tries:
        learner = FixedBiasReLU(2 * study.neurons, threshold, _SPREAD, _READOUT)
        steps = 4 * study.steps
        recipe = Training(
            data,
            learner,
            MarginLoss(samples=study.batch),
            TorchOptimizer("SGD", lr=_LR),
            steps=steps,
            probe_every=max(1, steps // 12),
        )
        about = f"{2**data.directions} Gaussians, d = {data.dimension}, noise {data.noise:g}{without}"
        label = name.replace("-", " ")
        made.append(Arm(name, recipe, about, label, at_start=(at_start,), at_end=(at_end,), watch=found))
    return made


def _directions(network: FixedBiasReLUNetwork) -> Float[Tensor, "replica neuron input"]:
    weights = network.weight.double()
    return weights / weights.norm(dim=-1, keepdim=True)


@torch.no_grad()
def found(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Accuracy on fresh samples, and how near a neuron is to each centre."""
    source: SignMixtureSource = experiment.source
    x, y, _ = source.sample(experiment.streams.at("test"), _TESTED)
    answers = experiment.learner(x)
    answers = torch.where(answers.abs() > 1e-5, answers, 0)  # at the start neurons cancel
    centres = source.centres / source.centres.norm(dim=-1, keepdim=True)
    nearest = (_directions(experiment.learner) @ centres.mT).amax(1)
    return {
        "accuracy": Measurement(accuracies(answers, y)[0], "share of right answers on fresh samples"),
        "nearest": Measurement(nearest, "largest cosine of a neuron with a centre", ("centre",)),
    }


@torch.no_grad()
def at_start(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """What read-outs that are written down answer, where centres are, and where some neurons begin."""
    source: SignMixtureSource = experiment.source
    x, y, _ = source.sample(experiment.streams.at("test"), _TESTED, torch.float64)
    projected = x @ source.centres.mT
    said = {"printed": 0.0, "thresholded": source.options.directions - 1.0}
    right = {}
    for name, threshold in said.items():
        answers = (projected - threshold).relu() @ source.labels
        answers = torch.where(answers.abs() > 1e-9, answers, 0)
        about = f"share of right answers of Σ y(c) ReLU(<c, x> - {threshold:g})"
        right[f"{name}_right"] = Measurement(accuracies(answers, y)[0], about)
    begin = _some(experiment.learner)
    return right | {
        "labels": Measurement(source.labels.expand(len(y), -1).clone(), "label of each centre", ("centre",)),
        "centres": Measurement(source.centres.float(), "the centres", ("centre", "input")),
        "first_weights": Measurement(begin, "directions of some neurons at the start", ("shown", "input")),
    }


@torch.no_grad()
def at_end(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Where the same neurons end."""
    some = _some(experiment.learner)
    return {"last_weights": Measurement(some, "directions of some neurons at the end", ("shown", "input"))}


def _some(network: FixedBiasReLUNetwork) -> Float[Tensor, "replica shown input"]:
    return _directions(network)[:, :: max(1, network.bias.shape[1] // _SHOWN)].float()


@dataclass(frozen=True)
class MixtureClaims(GeneralClaims):
    """Claims of `fixed-features` about mixtures."""

    @bound(
        "Figure A.12, Table A.6",
        on=EXPERIMENTS,
        not_on={
            NO_THRESHOLDS: "Without thresholds such a network is linear where labels are of an odd number of signs."
        },
        at_least=0.9,
        range=COSINE,
        because=f"Bound: {STATED}",
    )
    def every_centre_gets_a_neuron(self, run: xr.Dataset) -> xr.DataArray:
        """Trained on parities of clusters, some neuron turns to every centre.

        Measured: largest cosine of a neuron with a centre at the end, the least over centres.
        """
        return last(run, run.nearest).min("centre", skipna=False)

    @bound(
        "Appendix A.7.3",
        not_on={
            **dict.fromkeys((FIRST, SECOND), "At a centre of four signs it is -4 y: right with a negative factor."),
            THIRD: "For an odd number of signs c and -c have opposite labels, so that the sum is linear, and 0.",
        },
        at_least=0.9,
        law="draws",
        things=lambda _: _TESTED,
        because=f"Bound: {STATED}",
        note=r"At a centre it is $y\sum_j(-1)^jC(k,j)\max(0,k-2j)$: 2 y, -4 y, 12 y, -40 y for k = 2, 4, 6, 8.",
    )
    def printed_sum_over_centres_is_right(self, run: xr.Dataset) -> xr.DataArray:
        r"""A sum over centres has the labels: $y\propto\sum_cy(c)\,\mathrm{ReLU}(\langle c,x\rangle)$.

        Measured: share of right answers, the factor being positive.
        """
        return run.printed_right

    @bound(
        "derived, for Appendix A.7.3",
        on=EXPERIMENTS,
        at_least=0.9,
        law="draws",
        things=lambda _: _TESTED,
        because=f"Bound: {STATED}",
        corrects="printed-sum-over-centres-is-right",
    )
    def thresholds_make_the_sum_right(self, run: xr.Dataset) -> xr.DataArray:
        r"""With thresholds it has them for any number of signs: $\sum_cy(c)\,\mathrm{ReLU}(\langle c,x\rangle-k+1)$.

        Measured: share of right answers.
        """
        return run.thresholded_right

    @identity(
        "derived, for Table A.6",
        on=NO_THRESHOLDS,
        not_on={THIRD: "It has thresholds."},
        equals=0.5,
        within=0.03,
        law="share",
        things=lambda _: _TESTED,
        because=f"Tolerance: {STATED}",
    )
    def odd_parities_need_thresholds(self, run: xr.Dataset) -> xr.DataArray:
        """Without thresholds parities of an odd number of signs are not learned.

        Measured: share of right answers at the end.
        """
        return last(run, run.accuracy)
