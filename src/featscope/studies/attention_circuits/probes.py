"""What is measured on attention matrices: where in two dimensions of frequency their power is."""

from collections.abc import Mapping
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from featscope.probes.fourier import matrix_power_spectrum, share_of_largest
from featscope.training import GradientTraining, Measurement

TOP = 4
"""Bins whose share of the power is looked at: two cosines down and two across have four products."""
WAVES = 2
"""Frequencies of a dimension whose share is looked at: the source speaks of two."""
ACTIVE = 0.1
"""Heads whose matrix has a smaller part of the norm of the largest are left out: their spectra are noise."""


def top_share(matrices: Float[Tensor, "*batch row column"]) -> Float[Tensor, "*batch"]:
    """Share of the power in the `TOP` largest bins of the half plane."""
    return share_of_largest(matrix_power_spectrum(matrices).flatten(-2), TOP)


def wave_share(matrices: Float[Tensor, "*batch row column"], waves: int = WAVES) -> Float[Tensor, "*batch"]:
    """Share of the power at the largest frequencies of a dimension, ``waves`` of them, mean of rows and columns."""
    power = matrix_power_spectrum(matrices)
    both_ways = power.sum(-1)
    rows = (both_ways + both_ways.flip(-1))[..., : power.shape[-1]]
    return (share_of_largest(rows, waves) + share_of_largest(power.sum(-2), waves)) / 2


@cache
def waves_at_random(modulus: int, hidden: int, head_dim: int) -> float:
    """Mean `wave_share` of heads with random weights on random embeddings."""
    chance, matrices = torch.Generator().manual_seed(0), 300
    numbers = torch.randn(matrices, modulus, hidden, generator=chance)
    keys, queries = torch.randn(2, matrices, hidden, head_dim, generator=chance)
    return float(wave_share((numbers @ keys) @ (numbers @ queries).mT).mean())


def active(matrices: Float[Tensor, "replica head row column"]) -> Tensor:
    """Heads that have a matrix to speak of."""
    sizes = (matrices - matrices.mean((-2, -1), keepdim=True)).square().sum((-2, -1)).sqrt()
    return sizes >= ACTIVE * sizes.amax(1, keepdim=True)


def progress(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Accuracy on both parts, and the share of the largest bins."""
    learner, batches = experiment.learner, experiment.objective
    matrices = learner.attention_matrices()
    shares = top_share(matrices).where(active(matrices), torch.nan)
    return {
        "accuracy": Measurement(batches.right_on_shown(learner), "accuracy on points to train on"),
        "test_accuracy": Measurement(batches.right_on_hidden(learner), "accuracy on other points"),
        "share_on_the_way": Measurement(shares.nanmean(1), f"share of the {TOP} largest bins, mean over heads"),
    }


def at_start(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Spectra before training."""
    matrices = experiment.learner.attention_matrices()
    of_head = ("head",)
    return {
        "start_share": Measurement(top_share(matrices), f"share of the {TOP} largest bins at the start", of_head),
        "start_waves": Measurement(wave_share(matrices), f"share of {WAVES} frequencies at the start", of_head),
        "start_matrices": Measurement(matrices, "attention matrices at the start", ("head", "key", "query")),
    }


def at_end(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Spectra after training, those of random heads on the trained embeddings, and what the answers depend on."""
    learner, batches = experiment.learner, experiment.objective
    matrices = learner.attention_matrices()
    seen = active(matrices)
    points = batches.points(batches.hidden)
    others = learner.scores(learner.embedding).clone()
    numbers = matrices.shape[-1]
    others[..., :numbers, :numbers] = others[..., :numbers, :numbers].flip(-1)
    moved = (learner(points, others) - learner(points)).abs().amax((1, 2))

    def of_head(values: Tensor, about: str) -> Measurement:
        return Measurement(values.where(seen, torch.nan), about, ("head",))

    return {
        "share": of_head(top_share(matrices), f"share of the {TOP} largest bins"),
        "waves": of_head(wave_share(matrices), f"share of {WAVES} frequencies, mean of rows and columns"),
        "wave": of_head(wave_share(matrices, 1), "share of one frequency, mean of rows and columns"),
        "share_of_embeddings": of_head(
            top_share(_random_heads(experiment)), f"share of the {TOP} largest bins with random heads on trained E"
        ),
        "matrices": Measurement(matrices, "attention matrices", ("head", "key", "query")),
        "moved": Measurement(moved, "largest change of a logit if the matrices over numbers are turned around"),
    }


def _random_heads(experiment: GradientTraining) -> Float[Tensor, "replica head row column"]:
    learner, draws = experiment.learner, experiment.streams.at("random-heads")
    keys, queries = (draws.normal(*learner.key.shape[1:]) for _ in range(2))
    numbers = learner.numbers[:, None].mT
    return (numbers @ keys) @ (numbers @ queries).mT
