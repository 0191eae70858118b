"""What is measured of teachers and students."""

from collections.abc import Mapping, Sequence

import torch

from featscope.training import Measurement, Recursion

_ABOUT = {
    "original": "accuracy of the student on real test inputs, by the teacher's labels",
    "injected": "accuracy of the student on injected test inputs",
    "alone": "accuracy on real test inputs of a student that saw no injected ones",
    "loss": "test loss of teachers by size",
    "fitted": "share of training images that they fit",
    "right": "their test accuracy",
    "chosen": "size at the classical minimum",
    "chosen_of_fewer": "the same with a quarter of the images",
    "teacher_right": "accuracy of the teacher on test images, by their own labels",
    "free_right": "the same of a teacher trained without R",
    "majority": "share of injected test inputs with the most frequent label",
    "count": "labelled images to train on",
    "share": "share of training inputs that are injected",
    "first": "R_1 on injected test inputs",
    "second": "R_2 on them",
    "first_free": "R_1 on them of a teacher trained without R",
    "second_free": "R_2 on them of that teacher",
    "margin_gap": "how much surer the teacher is on real inputs than on injected ones, in probability",
    "loss_of_fewer": "test loss of teachers by size, a quarter of the images",
    "fitted_of_fewer": "share of training images that they fit",
    "student_loss": "test loss of students by size on Gaussians",
    "student_fitted": "share of training inputs that they fit",
    "student_right": "their test accuracy",
    "least": "size at the classical minimum of students",
}


def _found(experiment: Recursion, of: Mapping[int, Sequence[str]]) -> dict[str, Measurement]:
    learner = experiment.learner
    axes = {length: tuple(names) for length, names in of.items()}
    return {
        name: Measurement(learner.get_buffer(name), _ABOUT[name], axes[len(shape)])
        for name, shape in learner.shapes.items()
    }


def mixed(experiment: Recursion) -> Mapping[str, Measurement]:
    """Curves of students over looks, and teachers."""
    found, learner = _found(experiment, {0: (), 1: ("look",)}), experiment.learner
    share = torch.full_like(learner.get_buffer("count"), learner.share())  # no state, as it follows from the options
    return found | {"share": Measurement(share, _ABOUT["share"])}


def sizes(experiment: Recursion) -> Mapping[str, Measurement]:
    """Teachers over sizes, students over teachers and sizes."""
    found = _found(experiment, {0: (), 1: ("size",), 2: ("teacher", "size")})
    return found | {"least": found["least"]._replace(dims=("teacher",))}
