"""What is measured on sums, on models that go down the loss of all prompts, and on trained ones."""

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from featscope.data import RegressionPromptSource
from featscope.models import LinearSelfAttention, prompt_moment
from featscope.models.linear_self_attention import attended
from featscope.streams import Streams
from featscope.studies.icl_regression.sampling import Evaluated, EvaluatedModels
from featscope.theory import icl_regression as theory
from featscope.training import GradientTraining, Measurement, Recursion

JUDGED = 5000
"""Fresh prompts by which a trained layer is judged."""
_FEW = 100
_RANK = ("rank",)


def evaluated(experiment: Recursion) -> Mapping[str, Measurement]:
    """Errors of evaluation with their four parts, at every rank, and what the moments of y x are made of."""
    sums: EvaluatedModels = experiment.learner
    answer, source = sums.mean("answer"), sums.source
    off = (answer - sums.get_buffer("aim")) @ source.directions  # in Q: Λ^½ (E Uᵀa - w)
    kept = torch.ones_like(off[0]).tril(-1)
    found = {
        "loss": Measurement(sums.mean("loss"), "mean squared error", ("rank", "noise")),
        "input_noise": Measurement(
            sums.mean("signal_power") - answer.square().sum(-1), "what few examples add to it", _RANK
        ),
        "label_noise": Measurement(sums.mean("label_power"), "what labels of noise 1 add to it", _RANK),
        "residual_bias": Measurement(
            (off.square() * (1 - kept)).sum(-1), "what is left in directions beyond the rank", _RANK
        ),
        "shrinkage_bias": Measurement((off.square() * kept).sum(-1), "what is left in those within", _RANK),
    }
    return found | _moments(sums)


def _moments(sums: EvaluatedModels) -> dict[str, Measurement]:
    """Least-squares coefficients of the moments of y x in the two matrices of Lemma D.2, over what it says they are."""
    task, covariance = sums.get_buffer("task"), sums.source.covariance
    second, first = sums.mean("second"), sums.mean("first")
    power = sums.options.noises[1] + (task[:, None] @ covariance @ task[..., None])[:, 0, 0]
    found = {}
    for name, printed in (("mended", False), ("printed", True)):
        terms = [
            theory.moment_terms(c, w, printed)
            for c, w in zip(covariance.numpy(force=True), task.numpy(force=True), strict=True)
        ]
        a = torch.as_tensor(np.stack(terms)).to(task).flatten(2).mT
        for moment, matrix, times in (
            ("second", second, 2),
            ("covariance", second - first[..., None] * first[:, None], 1),
        ):
            fit = torch.linalg.lstsq(a, matrix.flatten(1)[..., None], driver="gels").solution[..., 0]
            scale = torch.stack([power, torch.full_like(power, times)], -1)
            about = f"coefficients of the {moment} of y x in the matrices of Lemma D.2 as {name}, over its own"
            found[f"{moment}_{name}"] = Measurement(fit / scale, about, ("term",))
    return found


def pretrained(experiment: Recursion) -> Mapping[str, Measurement]:
    """Losses of pretraining beside the formulas."""
    sums = experiment.learner
    data, (products, covariance) = sums.source.options, _arrays(sums.products, sums.source.covariance[:, None])
    lemma = theory.pretraining_loss(products, covariance, data.samples)
    twice = theory.printed_excess(sums.diagonal.numpy(force=True), data.spectrum, data.samples)
    loss = sums.mean("loss")
    return {
        "loss": Measurement(loss, "loss of a random model, a diagonal one, the best, and none", ("model",)),
        "lemma": Measurement(torch.as_tensor(lemma), "Lemma 5.1 for it, without the constant", ("model",)),
        "excess": Measurement(
            loss[:, 1] - loss[:, 2], "loss of the diagonal model above the best, on the same prompts"
        ),
        "printed_excess": Measurement(torch.as_tensor(twice), "the sum over T_i λ_i² (v_i - 1/T_i)² for it"),
    }


def distances(products: Float[Tensor, "replica rank d d"], source: RegressionPromptSource) -> dict[str, Measurement]:
    """How far models of every rank are from the best ones."""
    data, (found, covariance) = source.options, _arrays(products, source.covariance[:, None])
    best = optima(source)
    loss = theory.pretraining_loss(found, covariance, data.samples)
    least = theory.least_losses(data.spectrum, data.samples)
    norm = best.flatten(2).norm(dim=-1)
    off = (products - best).flatten(2).norm(dim=-1) / norm.clamp(min=1e-300)  # 0 at rank 0
    above = torch.as_tensor(loss - least)
    written = torch.as_tensor(theory.excess(found, covariance, data.samples))
    return {
        "off": Measurement(off, "distance of U to the best of its rank, over the norm of that", _RANK),
        "above": Measurement(above, "loss of all prompts above the least at its rank", _RANK),
        "off_d4": Measurement(
            (above + torch.as_tensor(least - least[-1]) - written).abs().amax(1),
            "largest difference of the loss above that of full rank to Equation D.4",
        ),
    }


def optima(source: RegressionPromptSource) -> Float[Tensor, "replica rank d d"]:
    """u U of the best model of every rank, 0 to d (Theorem 5.4.1)."""
    q = source.directions[:, None]
    v = torch.as_tensor(theory.coefficients(source.options.spectrum, source.options.samples)).to(q)
    return q * v[:, None] @ q.mT


def progress(experiment: Recursion) -> Mapping[str, Measurement]:
    """Of models that go down the loss of all prompts."""
    learner = experiment.learner
    return distances(learner.model.product.detach(), learner.source)


@torch.no_grad()
def ranks(experiment: GradientTraining, options: Evaluated) -> Mapping[str, Measurement]:
    """Of trained models of every rank: how far they are from the best ones, and their errors of evaluation."""
    products = experiment.learner.product
    sums = EvaluatedModels(experiment.source, options).take(products)
    means = []
    for step in range(max(2, -(-JUDGED // options.prompts))):  # the second shows that draws are fresh
        sums(_draws(experiment.streams, step))
        means.append(sums.mean("loss"))
    moved = (torch.stack(means)[:, :, 1:].diff(dim=0) != 0).double().mean((0, 2, 3))  # at rank 0 no prompt is looked at
    return distances(products, experiment.source) | {
        "evaluation_loss": Measurement(means[-1], "mean squared error in evaluation", ("rank", "noise")),
        "judged_afresh": Measurement(moved, "share of draws that moved this mean, over ranks from 1 on and noises"),
    }


def _draws(streams: Streams, step: int):  # type: ignore[no-untyped-def]
    return streams.at("judge", step)


@torch.no_grad()
def blocks(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """What blocks other than u and U do in a trained layer, and how its loss is to the best without them."""
    layer, source = experiment.learner, experiment.source
    prompts, targets = source.sample(experiment.streams.at("judge"), JUDGED)
    answers, asked = layer(prompts), prompts[..., -1, :-1]
    h = prompt_moment(prompts)

    def reduced(product: Tensor) -> Tensor:
        return (h @ product * asked).sum(-1)

    best = (reduced(optima(source)[:, layer.key.shape[1]]) - targets).square().mean(-1)
    own = (answers - targets).square().mean(-1)
    lower = layer.key_query[:, -1]
    whole = layer.product + layer.value[:, :-1, None] * lower[:, None]
    values = torch.linalg.svdvals(whole)
    rest = (answers - reduced(layer.product)).square().mean(-1)
    off = _off_as_printed(layer, prompts[:, :_FEW], answers[:, :_FEW], reduced(layer.product)[:, :_FEW])
    return {
        "off_printed": Measurement(off, "largest difference of answers to Equation 5.2's, over the largest"),
        "others": Measurement(rest / answers.square().mean(-1), "share of its answers that other blocks make, squared"),
        "over_best": Measurement(own / best - 1, "its loss over the least with the other blocks zero, less 1"),
        "beyond": Measurement(
            values[:, layer.key.shape[1]] / values[:, 0],
            "singular value beyond the rank, over the largest, of the matrix between h and the query",
        ),
    }


def _off_as_printed(
    layer: LinearSelfAttention,
    prompts: Float[Tensor, "replica prompt token channel"],
    answers: Float[Tensor, "replica prompt"],
    theirs: Float[Tensor, "replica prompt"],
) -> Float[Tensor, "replica"]:
    """Difference of ``answers``, and of ``theirs`` by u and U alone, to the layer of whole matrices (Equation 5.2)."""
    value, key_query = torch.zeros(2, len(prompts), *prompts.shape[-1:] * 2).to(prompts)
    value[:, -1], key_query[..., :-1] = layer.value, layer.key_query
    whole = attended(prompts, value, key_query)[..., -1, -1]
    value[..., :-1], key_query[:, -1] = 0, 0
    alone = attended(prompts, value, key_query)[..., -1, -1]
    off = torch.maximum((answers - whole).abs(), (theirs - alone).abs())
    return off.amax(-1) / torch.maximum(whole.abs(), alone.abs()).amax(-1)


def _arrays(*tensors: Tensor) -> list[np.ndarray]:
    return [tensor.numpy(force=True) for tensor in tensors]
