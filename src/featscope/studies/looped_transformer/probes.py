"""What is measured on a looped transformer with hand-set weights."""

from collections.abc import Mapping

import torch

from featscope.training import Measurement, Recursion

_PROMPT = ("prompt",)
_SHORT = 2000  # numbers in a prompt


def progress(experiment: Recursion) -> Mapping[str, Measurement]:
    """Errors of each prompt after so many loops, beside gradient descent's and the closed form's."""
    prompts = experiment.learner
    scale = prompts.descent.abs().amax(-1).clamp(min=1)
    return {
        "gap": Measurement(
            (prompts.estimate - prompts.descent).abs().amax(-1) / scale,
            "largest difference of the estimates of transformer and gradient descent, relative to 1 or the estimate",
            _PROMPT,
        ),
        "error": Measurement(prompts.error.abs(), "|<answer, θ*>/α - 1|", _PROMPT),
        "off_closed_form": Measurement(
            (prompts.error - prompts.closed_error).abs(),
            "difference of that error, signed, to its closed form",
            _PROMPT,
        ),
        "log_error": Measurement(prompts.squared.log(), "log of the squared error over that at the start", _PROMPT),
        "log_closed": Measurement(prompts.closed_squared.log(), "the same in closed form, without rounding", _PROMPT),
    }


def prompts(experiment: Recursion) -> Mapping[str, Measurement]:
    """What is known of each prompt before the first loop."""
    learner = experiment.learner
    smallest, largest = learner.eigenvalues[..., 0], learner.eigenvalues[..., -1]
    x = learner.shown[..., :-1]
    rows, _ = torch.linalg.qr(x.mT)  # an orthonormal basis of what the examples span
    seen = (rows.mT @ learner.tasks[..., None]).square().sum((-2, -1))
    return {
        "kappa": Measurement(largest / smallest, "condition number of XᵀX", _PROMPT),
        "eigenvalues": Measurement(learner.eigenvalues, "eigenvalues of XᵀX", ("prompt", "eigenvalue")),
        "unseen": Measurement(1 - seen, "share of θ* that no example shows, squared", _PROMPT),
    }


def many_prompts(experiment: Recursion) -> Mapping[str, Measurement]:
    """Condition numbers and targets of a thousand prompts such as these; of short ones, as others have them sharp."""
    learner = experiment.learner
    if learner.shown.shape[-2:].numel() > _SHORT:
        return {}
    source = learner.options.data.build(experiment.streams.at("data"))
    prompts = source.sample(experiment.streams.at("many prompts"), 1000).prompts
    x, target = prompts[..., :-1, :-1], prompts[..., -1, -1]
    eigenvalues = torch.linalg.eigvalsh(x.mT @ x)
    kappa = eigenvalues[..., -1] / eigenvalues[..., 0]
    return {
        "mean_kappa": Measurement(kappa.mean(1), "mean condition number of a thousand prompts"),
        "mean_sign": Measurement(target.sign().mean(1), "mean sign of α of a thousand prompts"),
    }
