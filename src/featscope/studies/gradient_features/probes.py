"""What is measured on trained networks of `gradient-features`."""

from collections.abc import Mapping
from typing import Any

import torch
import xarray as xr
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import normalize

from featscope.models.fixed_bias_relu import FixedBiasReLUNetwork
from featscope.probes.gradient_outer_product import average_gradient_outer_product, matrix_agreement
from featscope.probes.ridge import ridge_fits
from featscope.training import GradientTraining, Measurement
from featscope.training.feature_step import alignment_to, margin_loss

TESTED = 1000
"""Fresh samples that accuracies and losses are means of."""
TRAINED_ON = 4000
"""Samples that random features are fitted to."""
COUNTS = (50, 100, 200, 400)
"""Random features, beside as many as the network has neurons."""
RIDGES = (1e-4, 1e-3, 1e-2, 1e-1)
"""Penalties, relative to the mean square of a feature, the best of which is taken."""
_NEURON = ("neuron",)
_ROUNDING = 1e-6  # of the sum of what neurons say, without signs


def progress(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Accuracy and hinge loss on the same fresh samples at every look."""
    batch, network = _test(experiment), experiment.learner
    margin = batch.y * network(batch.x)
    rounding = _ROUNDING * (network.hidden(batch.x) @ network.readout.abs()[..., None])[..., 0]
    right, none = (margin > rounding).double(), (margin.abs() <= rounding).double()  # at the start neurons cancel
    return {
        "accuracy": Measurement((right + none / 2).mean(1), "accuracy on fresh samples; half where there is no answer"),
        "hinge": Measurement(margin_loss(margin, "hinge").double().mean(1), "hinge loss on fresh samples"),
    }


def by_part(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Beside these, the hinge loss of each component."""
    batch = _test(experiment)
    loss = margin_loss(batch.y * experiment.learner(batch.x), "hinge").double()
    own = nn.functional.one_hot(batch.part).to(loss)
    means = (loss[..., None] * own).sum(1) / own.sum(1)
    return {
        **progress(experiment),
        "part_hinge": Measurement(means, "hinge loss of the samples of a component", ("component",)),
    }


def _test(experiment: GradientTraining) -> Any:
    return experiment.source.sample(experiment.streams.at("test"), TESTED)


def how_many(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """How many neurons are trained."""
    network = experiment.learner
    neurons = network.weight.new_full((len(network.weight),), network.weight.shape[1])
    return {"neurons": Measurement(neurons, "neurons that are trained")}


def directions_before(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Where neurons point before and after the first step."""
    network = experiment.learner
    return {
        **_directions(experiment, network.start_weight, "start"),
        **_directions(experiment, network.weight.detach(), "step"),
        "positive": Measurement(network.bias > 0, "whether a neuron's b is b~ and not -b~", _NEURON),
    }


def directions_after(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Where they point at the end."""
    return _directions(experiment, experiment.learner.weight.detach(), "end")


def _directions(experiment: GradientTraining, weight: Tensor, when: str) -> Mapping[str, Measurement]:
    features = experiment.source.features
    plane = normalize(weight, dim=-1) @ features[:, [0, 2 % features.shape[1]]].to(weight.dtype).mT
    return {
        f"cosine_{when}": Measurement(
            alignment_to(weight, features), f"largest |cosine| of a neuron to a feature, {when}", _NEURON
        ),
        f"plane_{when}": Measurement(
            plane, f"cosines of a neuron to the first and the third feature, {when}", ("neuron", "axis")
        ),
    }


class OneReplica(nn.Module):
    """One replica of a network as an ordinary module: ``[sample, input]`` to ``[sample]``."""

    def __init__(self, network: FixedBiasReLUNetwork, replica: int) -> None:
        super().__init__()
        one = slice(replica, replica + 1)
        weight, readout = (each.detach()[one] for each in (network.weight, network.readout))
        self.network = FixedBiasReLUNetwork(weight, readout, network.bias[one])

    def forward(self, x: Float[Tensor, "sample input"]) -> Float[Tensor, "sample"]:
        """g(x)."""
        return self.network(x[None])[0]


def outer_product(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """The average gradient outer product of a trained network: what of it lies along features, and what WᵀW is."""
    batch, network = _test(experiment), experiment.learner
    shares: list[Tensor] = []
    agreements: list[Tensor] = []
    at_start: list[Tensor] = []
    for replica in range(len(network.weight)):
        found = average_gradient_outer_product(OneReplica(network, replica), [batch.x[replica]])
        basis = torch.linalg.qr(experiment.source.features[replica, ::2].mT)[0].to(found)
        shares.append((basis.mT @ found @ basis).trace() / found.trace())
        for weight, agreement in ((network.weight.detach(), agreements), (network.start_weight, at_start)):
            agreement.append(matrix_agreement(weight[replica].mT.cpu() @ weight[replica].cpu(), found))
    return {
        "of_features": Measurement(torch.stack(shares), "share of the outer product's trace along the features"),
        "agreement": Measurement(torch.stack(agreements), "cosine of WᵀW and the outer product at the end"),
        "agreement_start": Measurement(torch.stack(at_start), "the same with the W of the start"),
    }


@torch.no_grad()
def random_features(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Accuracies of ridge regression on random ReLU features, and of the rule that knows the features of XOR."""
    source, draws = experiment.source, experiment.streams.at("random features")
    train, test = source.sample(draws, TRAINED_ON), _test(experiment)
    counts = counts_beside(experiment.learner.readout.shape[-1])
    w = draws.normal(max(counts), train.x.shape[-1]) / train.x.shape[-1] ** 0.5
    b = draws.normal(max(counts))
    fitted, judged = (torch.baddbmm(b[:, None], batch.x, w.mT).relu() for batch in (train, test))
    found = [_best_ridge(fitted[..., :count], train.y, judged[..., :count], test.y) for count in counts]
    along = (test.x @ source.features.to(test.x).mT).abs()
    knows = (along[..., 0] - along[..., 2]) * test.y > 0
    return {
        "random_accuracy": Measurement(
            torch.stack(found, 1), "accuracy of random features, best of four penalties", ("count",)
        ),
        "oracle": Measurement(knows.double().mean(1), "accuracy of the sign of |<x, D_1>| - |<x, D_3>|"),
    }


def counts_beside(neurons: int) -> list[int]:
    """Numbers of random features beside a network of so many neurons, least first: `COUNTS` and as many."""
    return sorted({*COUNTS, neurons})


def random_accuracy(run: xr.Dataset, neurons: int) -> xr.DataArray:
    """Accuracy of random features by their number; runs stored before have `COUNTS` alone, whatever the neurons."""
    found = run.random_accuracy
    counts = counts_beside(neurons)
    return found.assign_coords(count=counts if found.sizes["count"] == len(counts) else list(COUNTS))


def _best_ridge(x: Tensor, y: Tensor, x_test: Tensor, y_test: Tensor) -> Tensor:
    """Accuracy of each replica with the penalty that is best for it on the test samples: at an advantage."""
    x, x_test = (torch.cat([each, torch.ones_like(each[..., :1])], -1) for each in (x, x_test))
    answers = [(x_test @ weights[..., None])[..., 0] for weights in ridge_fits(x, y, RIDGES)]
    right = [((answer * y_test) > 0).double().mean(1) for answer in answers]
    return torch.stack(right).amax(0)
